/* What a WR uses, whether a rule forbids it, and the words of the refusal. */
#ifndef MRG_JUDGE_H
#define MRG_JUDGE_H

#include "mr.h"
#include "qp.h"

/* What a WR may use besides the MR of each piece: an AH; or an MW, with the MRs that it is and was bound to. */
struct also {
    int count;
    int optional; /* so many of the last ones may be deferred, or gone */
    struct {
        token handle;
        enum type type;
    } at[ALSO_MAX];
};

/* A WR that is out of the ordinary: inline, of datagrams, of windows, or malformed. */
struct odd {
    const mrg_send_wr *send; /* NULL: a receive */
    const char *malformed;   /* what is wrong with the WR itself; NULL: nothing. If so it borrows nothing */
    bool type_1;             /* it binds a window, and came through mrg_bind_mw */
    struct also also;
};

/* The rule that a WR breaks. */
struct verdict {
    enum rule rule;
    int piece;         /* the one at fault; -1: the WR as a whole */
    uint64_t bytes;    /* in all pieces */
    const char *words; /* of a rule that several things break; else NULL */
};

/* Whether a WR binds a window or invalidates one. */
static inline bool changes_window(const mrg_send_wr *wr)
{
    return __builtin_expect(wr->opcode == IBV_WR_BIND_MW || wr->opcode == IBV_WR_LOCAL_INV, 0);
}

/* What the device does to the memory of the pieces, as IBV_ACCESS_*. */
static inline uint32_t access_of_send(const struct qp *qp, enum ibv_wr_opcode opcode)
{
    const unsigned int atomic = 1U << IBV_WR_ATOMIC_CMP_AND_SWP | 1U << IBV_WR_ATOMIC_FETCH_AND_ADD;
    if (opcode == IBV_WR_RDMA_READ)
        return qp->read_sink;
    return atomic >> opcode & 1 ? IBV_ACCESS_LOCAL_WRITE : 0;
}

/* Whether the pieces are a list that the queue can take: as many as a WR may have, and a pointer to them. */
static inline bool pieces_fit(const struct queue *queue, const mrg_sge *sgl, int count)
{
    return __builtin_expect((uint32_t)count <= queue->max_sge && (sgl || !count), 1);
}

/* Whether a WR is ordinary, so that its pieces are all there is to judge. */
static inline bool is_plain(const struct qp *qp, const struct queue *queue, const mrg_send_wr *wr)
{
    return __builtin_expect((unsigned int)wr->opcode < 32 && (qp->plain_opcodes >> wr->opcode & 1) &&
                                !(wr->send_flags & ~PLAIN_FLAGS),
                            1) &&
           pieces_fit(queue, wr->sg_list, wr->num_sge);
}

/* What an odd send (a receive whose pieces do not fit) uses, and what is wrong with it. */
void odd_send(struct odd *odd, const struct qp *qp, const mrg_send_wr *wr, bool type_1);
void odd_recv(struct odd *odd, const mrg_recv_wr *wr);

/* Whether an odd WR breaks no rule by what is not its pieces; else *verdict says which. What it uses is held. */
bool judge_odd(const struct odd *odd, const struct qp *qp, const struct queues *queues, struct verdict *verdict);

/*
 * Always -1. The queue is let go: handles are looked at anew, for words only. send: the WR's, NULL for a receive; sgl: its
 * pieces.
 */
int refuse_verdict(const struct verdict *verdict, const mrg_send_wr *send, const mrg_sge *sgl, const struct slot *owner,
                   const struct here *here);

#endif
