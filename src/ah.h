/* Address handles. */
#ifndef MRG_AH_H
#define MRG_AH_H

#include <infiniband/verbs.h>

#include "registry.h"

struct ah {
    struct body base;
    struct ibv_ah *raw;
    uint32_t pd; /* slot index of its PD's root */
};

static inline struct ah *ah_of(const struct slot *slot)
{
    return (struct ah *)slot->hot.body;
}

#endif
