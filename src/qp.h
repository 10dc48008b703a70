/* QPs as objects: what they are made of, making one and taking it down. What is in flight on them is queue.h's. */
#ifndef MRG_QP_H
#define MRG_QP_H

#include <rdma/rdma_cma.h>

#include "queue.h"

/* The opcodes whose WRs are nothing but pieces and remote addresses, on a QP that is connected. */
#define PLAIN_OPCODES                                                                                              \
    (1U << IBV_WR_RDMA_WRITE | 1U << IBV_WR_RDMA_WRITE_WITH_IMM | 1U << IBV_WR_SEND | 1U << IBV_WR_SEND_WITH_IMM | \
     1U << IBV_WR_RDMA_READ | 1U << IBV_WR_ATOMIC_CMP_AND_SWP | 1U << IBV_WR_ATOMIC_FETCH_AND_ADD |                \
     1U << IBV_WR_SEND_WITH_INV)
/* And their flags. */
#define PLAIN_FLAGS ((unsigned int)(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED))

struct qp {
    struct queues base;
    struct ibv_qp *raw;
    struct rdma_cm_id *cm;  /* the id's whose QP it is; its qp field is cleared with the QP. NULL: nobody's */
    void *context;          /* the caller's; the raw QP has our token */
    uint32_t max_inline;    /* bytes, as granted */
    bool shared_recv;       /* receives come from an SRQ */
    uint32_t plain_opcodes; /* a mask: PLAIN_OPCODES, where the QP is connected */
    uint32_t read_sink;     /* IBV_ACCESS_* that a READ needs of the local MR: iWARP's READ is a WRITE of the peer's */
};

static inline struct qp *qp_of(const struct slot *slot)
{
    return (struct qp *)slot->hot.body;
}

/* What a QP is made of: tokens of live objects, 0: without. Those that the caller named are held meanwhile. */
struct qp_parts {
    token id;
    token pd;
    token cqs[QUEUES];
    token srq;
    token xrcd;
    struct slot *held[5];
    int held_count;
};

/*
 * Holds what attr names, the PD in pd's place if that is NULL; refuses what is on another device than raw (-1, a
 * finding). qp_parts_leave lets go what was held, in either case, and keeps errno.
 */
int qp_parts_take(struct qp_parts *parts, struct ibv_context *raw, mrg_pd *pd, const mrg_qp_init_attr *attr,
                  const struct here *here);
void qp_parts_leave(struct qp_parts *parts);

/*
 * Makes the QP, on cm where that is not NULL; attr->cap becomes what was granted. Its token; 0 and errno, with a finding
 * where the device's limits explain it.
 */
token qp_new(const struct qp_parts *parts, struct rdma_cm_id *cm, mrg_qp_init_attr *attr, const struct here *here);

/* The failure of what a QP needs, explained by its device's limits where they are exceeded. -1, errno is error. */
int qp_refuse_caps(int error, struct ibv_context *device, const struct ibv_qp_cap *cap, const struct here *here);

#endif
