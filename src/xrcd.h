/* XRC domains. */
#ifndef MRG_XRCD_H
#define MRG_XRCD_H

#include <infiniband/verbs.h>

#include "registry.h"

struct xrcd {
    struct body base;
    struct ibv_xrcd *raw;
};

static inline struct xrcd *xrcd_of(const struct slot *slot)
{
    return (struct xrcd *)slot->hot.body;
}

#endif
