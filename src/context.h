/*
 * Contexts: one per open device. Those of librdmacm are kept by their children and have no owner; those that a caller
 * opened or adopted have references.
 *
 * librdmacm gives every id the default PD of its device and drops that PD, leaks and all, with the device's
 * last id. So we keep one PD of our own per device and put every id on it. The context also pins the device
 * open (rdma_get_devices), so that a PD may outlive all ids.
 */
#ifndef MRG_CONTEXT_H
#define MRG_CONTEXT_H

#include "registry.h"

struct context {
    struct body base;
    struct ibv_context *raw;
    struct ibv_context **pinned; /* what rdma_get_devices returned; NULL: not librdmacm's */
    bool opened;                 /* ours to close; neither: the caller's */
    token device_pd;             /* under the devices' lock; may name a PD that has gone */
    uint32_t next;               /* likewise: slot index of the next context */
};

static inline struct context *context_of(const struct slot *slot)
{
    return (struct context *)slot->hot.body;
}

/*
 * Makes an id's slot a child, by edge, of the device's PD, making PD and context where they are not there yet.
 * The PD's token; 0 and errno.
 */
token context_join_device_pd(struct slot *id, uint32_t edge, struct ibv_context *raw, const struct here *here);

/* Likewise of the raw PD that an adopted id has: one PD for all that adopt it. */
token context_join_adopted_pd(struct slot *id, uint32_t edge, struct ibv_pd *raw, const struct here *here);

#endif
