/* What a WR uses, whether a rule forbids it, and the words of the refusal. */
#ifndef MRG_JUDGE_H
#define MRG_JUDGE_H

#include "mr.h"
#include "qp.h"

/* One WR as the checks and the queue see it. */
struct work {
    struct wr wr;
    bool is_inline;
    bool type_1;             /* it binds a window, and came through mrg_bind_mw */
    bool special;            /* there is more to judge than its pieces */
    uint32_t access;         /* what the device does to the memory of the pieces */
    const mrg_send_wr *send; /* NULL: a receive */
    const char *malformed;   /* what is wrong with the WR itself; NULL: nothing. If so it borrows nothing */
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

/* What a send (a receive) uses. */
void work_of_send(struct work *work, const struct qp *qp, const mrg_send_wr *wr);
void work_of_recv(struct work *work, const mrg_recv_wr *wr);

/* What is not ordinary: what the WR itself has wrong, windows, datagrams. As judge. */
bool judge_special(const struct work *work, const struct queues *queues, struct verdict *verdict);

static inline enum rule judge_piece(const struct work *work, const mrg_sge *piece, uint32_t pd)
{
    if (!piece->length || work->is_inline)
        return piece->length > UINT32_MAX ? RULE_LENGTH_TRUNCATED : RULE_NONE;
    struct sge_facts sge = {(uintptr_t)piece->addr, piece->length, work->access, pd};
    if (!piece->mr)
        return check_sge(&sge, NULL);
    struct mr_facts mr = mr_facts(slot_at(handle_token(piece->mr)));
    return check_sge(&sge, &mr);
}

/* Whether the WR breaks no rule; *verdict is written where it does. Everything that it uses is held. */
static inline bool judge(const struct work *work, const struct queues *queues, const struct slot *owner,
                         struct verdict *verdict)
{
    if (__builtin_expect(work->malformed || work->special, 0) && !judge_special(work, queues, verdict))
        return false;
    uint64_t bytes = 0;
    for (int i = 0; i < work->wr.count; i++) {
        enum rule rule = judge_piece(work, &work->wr.sgl[i], queues->pd);
        if (__builtin_expect(rule != RULE_NONE, 0)) {
            *verdict = (struct verdict){.rule = rule, .piece = i};
            return false;
        }
        bytes += work->wr.sgl[i].length;
    }
    enum rule rule = check_message(bytes, work->is_inline, work->is_inline ? qp_of(owner)->max_inline : 0);
    if (__builtin_expect(rule != RULE_NONE, 0))
        *verdict = (struct verdict){.rule = rule, .piece = -1, .bytes = bytes};
    return rule == RULE_NONE;
}

/* Always -1. The queue is let go: handles are looked at anew, for words only. */
int refuse_verdict(const struct verdict *verdict, const struct work *work, const struct slot *owner,
                   const struct here *here);

#endif
