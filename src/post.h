/*
 * Posting chains of WRs to a QP or an SRQ: find the queue, borrow what each WR uses, judge, hand all to the device. The
 * order of events is that of queue.h: the judgement comes after the borrow, so what was judged cannot change before
 * the device has it. A chain in which a rule is broken is refused as a whole, before its first WR is posted.
 */
#ifndef MRG_POST_H
#define MRG_POST_H

#include "queue.h"

/* Each returns 0; -1, errno, and the first WR that was not posted in *bad. The token names a QP (an SRQ). */
int post_sends(token qp, const mrg_send_wr *wr, const mrg_send_wr **bad, const struct here *here);
int post_recvs(token owner, const mrg_recv_wr *wr, const mrg_recv_wr **bad, const struct here *here);

/* Posts the bind of a window of type 1, which libibverbs does in a call of its own. */
int post_bind(token qp, const mrg_send_wr *wr, const struct here *here);

#endif
