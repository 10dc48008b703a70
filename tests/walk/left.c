/* What a life leaves behind: in mrguard's books, in those of the kernel, and as open descriptors. */
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "handle.h"
#include "held.h"
#include "life.h"

/* No slot of mrguard's table holds an object, be it half made or half gone. */
static void expect_nothing_in_table(void)
{
    uint32_t committed = atomic_load(&slot_committed);
    for (uint32_t i = 1; i < committed; i++) {
        const struct slot *slot = &slot_table[i];
        enum type type = slot_type(slot);
        if (type != TYPE_NONE && type != TYPE_ANNEX && slot_state(slot) != STATE_FREE)
            life_fails("%s in state %d is left, made at %s", type_name(type), slot_state(slot), slot->cold.site);
    }
}

static void expect_nothing_in_kernel(void)
{
    char held[200];
    if (*held_by_me(held, sizeof held))
        life_fails("the kernel says of this process: %s", held);
}

/* librdmacm keeps the default PD of a device until the device's last id goes: let one go. */
static void release_default_pd(void)
{
    struct rdma_addrinfo *res = address(0, RAI_PASSIVE);
    struct rdma_cm_id *id;
    if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) || rdma_bind_addr(id, res->ai_src_addr) || rdma_destroy_id(id))
        life_fails("the default PD: %s", strerror(errno));
    rdma_freeaddrinfo(res);
}

void expect_nothing_left(void)
{
    struct mrg_stats stats;
    if (mrg_stats(&stats))
        life_fails("mrg_stats: %s", strerror(errno));
    if (stats.live_mrs || stats.registered_bytes)
        life_fails("%u MRs of %u bytes are left", (unsigned int)stats.live_mrs, (unsigned int)stats.registered_bytes);
    expect_nothing_in_table();
    release_default_pd();
    expect_nothing_in_kernel();
}

/* Event channels and completion channels are in no list of the kernel's, but each is a descriptor. */
int open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    if (!folder)
        life_fails("/proc/self/fd: %s", strerror(errno));
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}
