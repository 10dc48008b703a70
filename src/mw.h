/*
 * Memory windows: keys of their own on a range of an MR, which cannot go while a window is bound to it.
 *
 * A window is bound from the post of its bind on, and until it is dealloced, bound elsewhere, or invalidated: by our own
 * WR from its post on, by the peer from the completion on that says so. While a WR that binds or invalidates is
 * in flight it borrows the window and both MRs.
 */
#ifndef MRG_MW_H
#define MRG_MW_H

#include <infiniband/verbs.h>

#include "queue.h"

/* The edges of an MW. Two to MRs, so that a bind that is refused has never let go of the MR before. */
enum { MW_EDGE_PD, MW_EDGE_MR, MW_EDGE_OTHER_MR, MW_EDGES };

struct mw {
    struct body base;
    struct ibv_mw *raw;
    struct ibv_context *device;
    uint32_t pd; /* slot index of its PD's root */
    _Atomic uint32_t rkey;
    uint32_t next;               /* in the list of windows of its hash: slot index */
    const void *_Atomic changer; /* the queue on which binds and invalidations of it are being posted; NULL: none */
    uint32_t changes;            /* how many, in one chain */
    uint32_t handed;             /* the key that it has after what of the chain was handed to the device */
    uint32_t pending;            /* the edge to the MR that one of them binds it to; 0: none */
    _Atomic uint32_t edge;       /* to the MR that it is bound to; MW_EDGE_PD: not bound */
};

static inline struct mw *mw_of(const struct slot *slot)
{
    return (struct mw *)slot->hot.body;
}

/* The MR that the window is bound to, 0: none. It may go at any time by the peer's will. */
token mw_bound_to(struct slot *slot);

/*
 * A bind to mr (0: to nothing, an invalidation) is about to be posted, by whom: false if another thread posts one, the
 * chain has bound it already, or the MR is gone. Then
 * it is posted, rkey is the window's new key (0: it keeps its own); or it is not, and nothing has changed. An MR that
 * waited for it joins *finished.
 */
bool mw_change_begin(struct slot *slot, const void *by, token mr);
void mw_change_done(struct slot *slot, token mr, uint32_t rkey, struct finished *finished);
void mw_change_undone(struct slot *slot, token mr, struct finished *finished);

/*
 * A completion on a device says that a peer has invalidated its window with that key. An MR that waited for it joins
 * *finished.
 */
void mw_invalidated(const struct ibv_context *device, uint32_t rkey, struct finished *finished);

#endif
