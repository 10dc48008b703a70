/* Shared receive queues. */
#ifndef MRG_SRQ_H
#define MRG_SRQ_H

#include "queue.h"

struct srq {
    struct queues base;
    struct ibv_srq *raw;
    struct rdma_cm_id *cm; /* the id's whose SRQ it is; its srq field is cleared with it. NULL: nobody's */
    void *context;         /* the caller's; the raw SRQ has our token */
};

static inline struct srq *srq_of(const struct slot *slot)
{
    return (struct srq *)slot->hot.body;
}

/*
 * Makes an SRQ, of an id (0: nobody's) and on attr's PD or, where that is NULL, on pd; attr->attr becomes what was
 * granted. Its token; 0 and errno.
 */
token srq_new(struct slot *id, struct rdma_cm_id *cm, mrg_pd *pd, mrg_srq_init_attr *attr, const struct here *here);

#endif
