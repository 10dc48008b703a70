/* What a WR uses, whether a rule forbids it, and the words of the refusal. */
#ifndef MRG_JUDGE_H
#define MRG_JUDGE_H

#include "qp.h"

/* One WR as the checks and the queue see it. */
struct work {
    struct wr wr;
    bool is_inline;
    uint32_t access;              /* what the device does to the memory of the pieces */
    const mrg_send_wr *send;      /* NULL: a receive */
    const mrg_mw_bind_info *bind; /* NULL: it binds nothing */
    bool type_1;                  /* it came through mrg_bind_mw */
    const char *malformed;        /* what is wrong with the WR itself; NULL: nothing. If so it borrows nothing */
};

struct verdict {
    enum rule rule;
    int piece; /* the one at fault; -1: the WR as a whole */
    uint64_t bytes;
    const char *words; /* of a rule that several things break; else NULL */
};

/* What a send (a receive) uses. */
void work_of_send(struct work *work, const struct qp *qp, const mrg_send_wr *wr);
void work_of_recv(struct work *work, const mrg_recv_wr *wr);

/* Everything that the WR uses is held. */
struct verdict judge(const struct work *work, const struct queues *queues, const struct slot *owner);

/* observed: it was posted all the same. */
int refuse_verdict(const struct verdict *verdict, const struct work *work, const struct slot *owner,
                   const struct here *here);

#endif
