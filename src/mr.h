/* Memory regions. Their facts live in the slot's hot line; they have no body. */
#ifndef MRG_MR_H
#define MRG_MR_H

#include <infiniband/verbs.h>

#include "check.h"
#include "registry.h"

static inline struct mr_facts mr_facts(const struct slot *slot)
{
    return (struct mr_facts){atomic_load_explicit(&slot->hot.addr, memory_order_relaxed),
                             atomic_load_explicit(&slot->hot.length, memory_order_relaxed), slot->hot.access,
                             slot->hot.pd};
}

#endif
