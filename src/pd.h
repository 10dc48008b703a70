/* Protection domains: a device's, adopted ones, and parent domains, which are PDs with a thread domain. */
#ifndef MRG_PD_H
#define MRG_PD_H

#include <infiniband/verbs.h>

#include "registry.h"

struct pd {
    struct body base;
    struct ibv_pd *raw;
    uint32_t root; /* slot index of the PD that its MRs and QPs belong together by: a parent domain's, or itself */
    bool adopted;  /* the raw PD is the caller's */
};

static inline struct pd *pd_of(const struct slot *slot)
{
    return (struct pd *)slot->hot.body;
}

/* A PD without its raw one yet. NULL and errno. */
struct slot *pd_embryo(const token parents[], uint32_t count, const struct here *here);

/* A PD on the device raw, below its context; still an embryo. NULL and errno. */
struct slot *pd_new(struct slot *context, struct ibv_context *raw_context, const struct here *here);

/* Likewise for a raw PD of the caller's. */
struct slot *pd_adopt(struct slot *context, struct ibv_pd *raw, const struct here *here);

#endif
