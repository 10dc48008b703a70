/* What a life leaves behind: in mrguard's books, in those of the kernel, and as open descriptors. */
#include <dirent.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handle.h"
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

/*
 * The kernel's lists of objects, as `rdma resource show` prints them. That tool takes longer to start in the guest than
 * a whole life, so the kernel is asked here.
 */
static const struct {
    uint16_t command;
    const char *name;
} lists[] = {
    {RDMA_NLDEV_CMD_RES_MR_GET, "MR"}, {RDMA_NLDEV_CMD_RES_QP_GET, "QP"},       {RDMA_NLDEV_CMD_RES_CQ_GET, "CQ"},
    {RDMA_NLDEV_CMD_RES_PD_GET, "PD"}, {RDMA_NLDEV_CMD_RES_CM_ID_GET, "cm id"}, {RDMA_NLDEV_CMD_RES_SRQ_GET, "SRQ"},
};
#define LISTS (sizeof lists / sizeof *lists)

/* What is found in the kernel's answers. */
struct found {
    uint32_t devices[8];
    int device_count;
    int entries; /* of any process, or the kernel's own */
    int mine;
};

static uint32_t value_of(const struct nlattr *attr)
{
    uint32_t value;
    memcpy(&value, attr + 1, sizeof value);
    return value;
}

static bool is_entry(uint16_t type)
{
    return type == RDMA_NLDEV_ATTR_RES_MR_ENTRY || type == RDMA_NLDEV_ATTR_RES_QP_ENTRY ||
           type == RDMA_NLDEV_ATTR_RES_CQ_ENTRY || type == RDMA_NLDEV_ATTR_RES_PD_ENTRY ||
           type == RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY || type == RDMA_NLDEV_ATTR_RES_SRQ_ENTRY;
}

static bool is_list(uint16_t type)
{
    return type == RDMA_NLDEV_ATTR_RES_MR || type == RDMA_NLDEV_ATTR_RES_QP || type == RDMA_NLDEV_ATTR_RES_CQ ||
           type == RDMA_NLDEV_ATTR_RES_PD || type == RDMA_NLDEV_ATTR_RES_CM_ID || type == RDMA_NLDEV_ATTR_RES_SRQ;
}

static void look_at_attributes(const char *at, size_t size, struct found *found)
{
    while (size >= sizeof(struct nlattr)) {
        const struct nlattr *attr = (const void *)at;
        uint16_t type = (uint16_t)(attr->nla_type & (unsigned int)NLA_TYPE_MASK);
        size_t length = NLA_ALIGN(attr->nla_len);
        if (attr->nla_len < sizeof *attr)
            return;
        found->entries += is_entry(type);
        if (is_list(type) || is_entry(type))
            look_at_attributes((const char *)(attr + 1), attr->nla_len - sizeof *attr, found);
        else if (type == RDMA_NLDEV_ATTR_RES_PID)
            found->mine += value_of(attr) == (uint32_t)getpid();
        else if (type == RDMA_NLDEV_ATTR_DEV_INDEX && found->device_count < 8)
            found->devices[found->device_count++] = value_of(attr);
        at += length < size ? length : size;
        size -= length < size ? length : size;
    }
}

/* One datagram of an answer; false at the end. */
static bool look_at_messages(const char *bytes, size_t size, struct found *found)
{
    const struct nlmsghdr *message = (const void *)bytes;
    for (; NLMSG_OK(message, size); message = NLMSG_NEXT(message, size)) {
        if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR)
            return false;
        look_at_attributes((const char *)NLMSG_DATA(message), NLMSG_PAYLOAD(message, 0), found);
    }
    return true;
}

/* A list of one device, or the list of the devices. */
static void ask(int kernel, uint16_t command, const uint32_t *device, struct found *found)
{
    static _Alignas(NLMSG_ALIGNTO) char answer[65536];
    struct {
        struct nlmsghdr header;
        struct nlattr attr;
        uint32_t device;
    } question = {
        .header = {.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .attr = {sizeof question.attr + sizeof question.device, RDMA_NLDEV_ATTR_DEV_INDEX},
        .device = device ? *device : 0,
    };
    question.header.nlmsg_len = device ? sizeof question : sizeof question.header;
    if (send(kernel, &question, question.header.nlmsg_len, 0) < 0)
        life_fails("asking the kernel: %s", strerror(errno));
    ssize_t got;
    do
        got = recv(kernel, answer, sizeof answer, 0);
    while (got > 0 && look_at_messages(answer, (size_t)got, found));
    if (got <= 0)
        life_fails("the kernel's answer: %s", strerror(errno));
}

static void expect_none_of_mine(int kernel, const struct found *devices)
{
    int entries = 0;
    for (size_t i = 0; i < LISTS; i++) {
        struct found found = {0};
        for (int d = 0; d < devices->device_count; d++)
            ask(kernel, lists[i].command, &devices->devices[d], &found);
        entries += found.entries;
        if (found.mine)
            life_fails("the kernel still holds %d %ss of this process", found.mine, lists[i].name);
    }
    if (!entries)
        life_fails("the kernel lists nothing, not even its own QPs");
}

static void expect_nothing_in_kernel(void)
{
    struct found devices = {0};
    int kernel = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
    if (kernel < 0)
        life_fails("netlink: %s", strerror(errno));
    ask(kernel, RDMA_NLDEV_CMD_GET, NULL, &devices);
    expect_none_of_mine(kernel, &devices);
    close(kernel);
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
