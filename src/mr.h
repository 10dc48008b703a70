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
