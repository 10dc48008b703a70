/* Memory regions. Their facts live in the slot's hot line; they have no body. */
#ifndef MRG_MR_H
#define MRG_MR_H

#include <infiniband/verbs.h>

#include "check.h"
#include "registry.h"

enum { MR_EDGE_ID, MR_EDGE_PD, MR_EDGES };
extern HIDDEN const struct class mr_class;

/* The facts of an MR that is held. */
static inline struct mr_facts mr_facts(const struct slot *slot)
{
    return (struct mr_facts){
        .addr = atomic_load_explicit(&slot->hot.addr, memory_order_relaxed),
        .length = atomic_load_explicit(&slot->hot.length, memory_order_relaxed),
        .access = atomic_load_explicit(&slot->hot.access, memory_order_relaxed),
        .pd = atomic_load_explicit(&slot->hot.pd, memory_order_relaxed),
    };
}

/* The MR is live and lends the piece: the rules of check_sge and check_message, without telling them apart. */
static ALWAYS_INLINE bool mr_lends(const struct slot *mr, token t, uint64_t addr, uint64_t length, uint32_t access,
                                   uint32_t pd)
{
    if (__builtin_expect(word_now(mr) != word_with(t, STATE_LIVE), 0))
        return false;
    struct mr_facts facts = mr_facts(mr);
    if (__builtin_expect(length > MESSAGE_MAX || !range_within(addr, length, facts.addr, facts.length), 0))
        return false;
    return __builtin_expect(facts.pd == pd, 1) && __builtin_expect(!(access & ~facts.access), 1);
}

/*
 * The facts of an MR by its handle, without holding it: false if it is not live. Another may take the slot over while
 * we read, so the handle is looked at again afterwards.
 */
static inline bool mr_read(mrg_mr *mr, struct mr_facts *facts, uint32_t *rkey)
{
    const struct slot *slot = slot_find(mr, TYPE_MR);
    if (!slot)
        return false;
    *facts = mr_facts(slot);
    *rkey = atomic_load_explicit(&slot->hot.rkey, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    return slot_find(mr, TYPE_MR);
}

#endif
