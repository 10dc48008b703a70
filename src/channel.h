/* Event channels, and the events that came through them. */
#ifndef MRG_CHANNEL_H
#define MRG_CHANNEL_H

#include <rdma/rdma_cma.h>

#include "registry.h"

struct channel {
    struct body base;
    struct rdma_event_channel *raw;
};

static inline struct channel *channel_of(const struct slot *slot)
{
    return (struct channel *)slot->hot.body;
}

#endif
