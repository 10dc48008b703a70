/*
 * Rules as pure predicates: facts in, the rule that they break out, RULE_NONE where they break none. No
 * state, no handle, no verbs object, so the library and `mrguard run` judge alike and a table tests them.
 */
#ifndef MRG_CHECK_H
#define MRG_CHECK_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "rules.h"

/* The largest message of the InfiniBand transport, in bytes. */
#define MESSAGE_MAX (UINT64_C(1) << 31)

struct mr_facts {
    uint64_t addr;
    uint64_t length;
    uint32_t access; /* IBV_ACCESS_* */
    uint32_t pd;     /* any number that tells PDs apart */
};

struct sge_facts {
    uint64_t addr;
    uint64_t length;
    uint32_t access; /* what the WR does to the memory: IBV_ACCESS_LOCAL_WRITE where the device writes it */
    uint32_t pd;     /* the QP's or SRQ's */
};

#define ACCESS_KNOWN                                                                                                   \
    ((uint32_t)(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
                IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_RELAXED_ORDERING))
#define ACCESS_PEER_WRITES ((uint32_t)(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC))

/*
 * [addr, addr + length) lies in [start, start + size), which ends before the address space does. Empty ranges may touch
 * either end. An addr before start is an offset beyond any size.
 */
static inline bool range_within(uint64_t addr, uint64_t length, uint64_t start, uint64_t size)
{
    uint64_t offset = addr - start;
    return offset <= size && length <= size - offset;
}

/* A range of an MR that is used for what access names. */
static inline enum rule check_range(uint64_t addr, uint64_t length, uint32_t access, const struct mr_facts *mr)
{
    if (!range_within(addr, length, mr->addr, mr->length))
        return RULE_OUT_OF_RANGE;
    return access & ~mr->access ? RULE_MISSING_ACCESS : RULE_NONE;
}

/* One SGE that is not inline, against its MR; mr NULL: it has none. */
static inline enum rule check_sge(const struct sge_facts *sge, const struct mr_facts *mr)
{
    if (!mr)
        return RULE_UNREGISTERED_POST;
    if (sge->length > UINT32_MAX)
        return RULE_LENGTH_TRUNCATED;
    if (sge->pd != mr->pd)
        return RULE_WRONG_PD;
    return check_range(sge->addr, sge->length, sge->access, mr);
}

/* All SGEs of a WR together: bytes in all, and whether they go inline into a QP that granted max_inline. */
static inline enum rule check_message(uint64_t bytes, bool is_inline, uint32_t max_inline)
{
    if (is_inline && bytes > max_inline)
        return RULE_INLINE_TOO_LONG;
    return bytes > MESSAGE_MAX ? RULE_LENGTH_TRUNCATED : RULE_NONE;
}

/* What a registration asks for: its range (unregistered-post aside, the rules of ranges) and its access. */
static inline enum rule check_registration(uint64_t addr, uint64_t length, uint32_t access)
{
    if (length == 0 || (access & ~ACCESS_KNOWN))
        return RULE_BAD_ARGUMENT;
    if (length - 1 > UINT64_MAX - addr)
        return RULE_OUT_OF_RANGE;
    if ((access & ACCESS_PEER_WRITES) && !(access & IBV_ACCESS_LOCAL_WRITE))
        return RULE_MISSING_ACCESS;
    return RULE_NONE;
}

/* A range [offset, offset + length) of an MR or descriptor of size bytes with access have, used for need. */
static inline enum rule check_remote(uint64_t offset, uint64_t length, uint64_t size, uint32_t need, uint32_t have)
{
    if (!range_within(offset, length, 0, size))
        return RULE_OUT_OF_RANGE;
    return need & ~have ? RULE_MISSING_ACCESS : RULE_NONE;
}

#endif
