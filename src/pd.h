/* Protection domains. */
#ifndef MRG_PD_H
#define MRG_PD_H

#include <infiniband/verbs.h>

#include "registry.h"

struct pd {
    struct body base;
    struct ibv_pd *raw;
};

static inline struct pd *pd_of(const struct slot *slot)
{
    return (struct pd *)slot->hot.body;
}

/* A PD on the device raw, below its context; still an embryo. NULL and errno. */
struct slot *pd_new(struct slot *context, struct ibv_context *raw, const struct here *here);

#endif
