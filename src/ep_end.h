/* What ends an endpoint: destroy_id, destroy_ep, and what shutdown_ep has in common with them. */
#ifndef MRG_EP_END_H
#define MRG_EP_END_H

#include "id.h"

/* The children of an id that go with its endpoint, as a mask. */
#define EP_PARTS (1U << TYPE_QP | 1U << TYPE_CQ | 1U << TYPE_SRQ)

/* An MR goes from its id to the PD that it is on. Both are held, or known to stay. */
void ep_move_to_pd(struct slot *mr, struct slot *id);

/*
 * An MR that was given up waits for its last completion and needs nobody any more: it waits on its PD. So an endpoint goes
 * though receives are still posted from memory that was given up, and they end with its QP.
 */
void ep_let_go_given_up(struct slot *id, token t);

/* The SRQ goes after the QP: what else is in its way is said while the QP is still there. The id is closed. */
int ep_refuse_busy_srq(const struct slot *id, const struct here *here);

#endif
