/*
 * Remote descriptors: what a peer may do with a range of an MR, as 32 bytes that mean the same everywhere.
 *
 *     0  "mrgR"       4  version 1    6  zero       8  addr
 *     16 length       24 rkey         28 access                    all little-endian
 */
#include "remote.h"

#include <errno.h>
#include <inttypes.h>

#include "api.h"
#include "check.h"
#include "mr.h"

#define MAGIC UINT32_C(0x5267726d)
#define VERSION UINT32_C(1)
#define ACCESS_REMOTE ((uint32_t)(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC))

static void put(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t get(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static int refuse_access(enum rule rule, const struct here *here, const struct slot *mr, const char *who, uint32_t have,
                         uint32_t need)
{
    char has[96], needs[96];
    access_print(has, sizeof has, have);
    access_print(needs, sizeof needs, need);
    return refuse(rule, here, mr, "%s %s, this needs %s", who, has, needs);
}

/* What is wrong with a descriptor, in words; NULL: nothing. */
static const char *fault_of(const mrg_remote *remote)
{
    if (!remote->length)
        return "its length is 0";
    if (remote->length - 1 > UINT64_MAX - remote->addr)
        return "its range wraps around";
    if (!remote->access)
        return "it grants nothing";
    return remote->access & ~ACCESS_REMOTE ? "it has unknown access bits" : NULL;
}

static int refuse_remote(const mrg_remote *remote, const struct here *here)
{
    const char *fault = remote ? fault_of(remote) : "it is NULL";
    return fault ? refuse(RULE_BAD_ARGUMENT, here, NULL, "not a valid remote descriptor: %s", fault) : 0;
}

API(int, mrg_mr_export, (mrg_mr * mr, size_t offset, size_t length, int access, mrg_remote *ret),
    (mr, offset, length, access, ret))
{
    struct mr_facts facts;
    uint32_t rkey;
    if (!mr_read(mr, &facts, &rkey))
        return refuse_handle(mr, TYPE_MR, HERE);
    const struct slot *slot = slot_at(handle_token(mr));
    if (!ret || !length || !access || ((uint32_t)access & ~ACCESS_REMOTE))
        return refuse(RULE_BAD_ARGUMENT, HERE, slot, "an export of %zu bytes with access 0x%x into %p", length, access,
                      (void *)ret);
    enum rule rule = check_remote(offset, length, facts.length, (uint32_t)access, facts.access);
    if (rule == RULE_OUT_OF_RANGE)
        return refuse(rule, HERE, slot, "%zu bytes at offset %zu reach beyond the MR", length, offset);
    if (rule != RULE_NONE)
        return refuse_access(rule, HERE, slot, "the MR was registered for", facts.access, (uint32_t)access);
    *ret = (mrg_remote){facts.addr + offset, length, rkey, (uint32_t)access};
    return 0;
}

API(ssize_t, mrg_remote_pack, (const mrg_remote *remote, void *buf, size_t size), (remote, buf, size))
{
    if (refuse_remote(remote, HERE))
        return -1;
    if (!buf)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "buf is NULL");
    if (size < MRG_REMOTE_SIZE)
        return refuse_with(EMSGSIZE, RULE_BAD_ARGUMENT, HERE, NULL,
                           "a descriptor takes %d bytes, there is room for %zu", MRG_REMOTE_SIZE, size);
    unsigned char *at = buf;
    put(at, MAGIC, 4);
    put(at + 4, VERSION, 4);
    put(at + 8, remote->addr, 8);
    put(at + 16, remote->length, 8);
    put(at + 24, remote->rkey, 4);
    put(at + 28, remote->access, 4);
    return MRG_REMOTE_SIZE;
}

API(int, mrg_remote_unpack, (mrg_remote * ret, const void *buf, size_t size), (ret, buf, size))
{
    if (!ret || !buf)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "%s is NULL", ret ? "buf" : "ret");
    if (size < MRG_REMOTE_SIZE)
        return refuse_with(EMSGSIZE, RULE_BAD_ARGUMENT, HERE, NULL, "a descriptor has %d bytes, not %zu",
                           MRG_REMOTE_SIZE, size);
    const unsigned char *at = buf;
    if (get(at, 4) != MAGIC || get(at + 4, 4) != VERSION)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "these bytes are no remote descriptor of version %" PRIu32,
                      VERSION);
    mrg_remote remote = {get(at + 8, 8), get(at + 16, 8), (uint32_t)get(at + 24, 4), (uint32_t)get(at + 28, 4)};
    if (refuse_remote(&remote, HERE))
        return -1;
    *ret = remote;
    return 0;
}

int remote_refuse_use(const mrg_remote *remote, uint64_t offset, size_t length, uint32_t need, const struct here *here)
{
    if (refuse_remote(remote, here))
        return -1;
    enum rule rule = check_remote(offset, length, remote->length, need, remote->access);
    if (rule == RULE_OUT_OF_RANGE)
        return refuse(rule, here, NULL, "%zu bytes at offset %" PRIu64 " reach beyond the peer's %" PRIu64, length,
                      offset, remote->length);
    if (rule != RULE_NONE)
        return refuse_access(rule, here, NULL, "the peer's descriptor grants", remote->access, need);
    return 0;
}
