/* Completion channels. The events that come through them: cq_event.c. */
#ifndef MRG_COMP_CHANNEL_H
#define MRG_COMP_CHANNEL_H

#include <infiniband/verbs.h>

#include "registry.h"

struct comp_channel {
    struct body base;
    struct ibv_comp_channel *raw;
};

static inline struct comp_channel *comp_channel_of(const struct slot *slot)
{
    return (struct comp_channel *)slot->hot.body;
}

#endif
