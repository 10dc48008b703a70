/* Multicast joins: children of their id and of the QP that the group is attached to. */
#ifndef MRG_MULTICAST_H
#define MRG_MULTICAST_H

#include <rdma/rdma_cma.h>

#include "registry.h"

struct multicast {
    struct body base;
    struct rdma_cm_id *cm;
    struct sockaddr_storage addr;
    void *context; /* the caller's; librdmacm has our token */
};

static inline struct multicast *multicast_of(const struct slot *slot)
{
    return (struct multicast *)slot->hot.body;
}

static inline bool event_is_multicast(const struct rdma_cm_event *raw)
{
    return raw->event == RDMA_CM_EVENT_MULTICAST_JOIN || raw->event == RDMA_CM_EVENT_MULTICAST_ERROR;
}

#endif
