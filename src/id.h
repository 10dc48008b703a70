/* Ids: rdma_cm_ids with their device, their QP, and the CQs that were made for it. */
#ifndef MRG_ID_H
#define MRG_ID_H

#include <rdma/rdma_cma.h>

#include "queue.h"

struct id {
    struct body base;
    struct rdma_cm_id *raw;
    void *_Atomic context;           /* the caller's; raw->context is our own token */
    atomic_bool synchronous;         /* without an event channel: calls wait for their event */
    bool adopted;                    /* the raw id is the caller's */
    atomic_bool listening;           /* requests may come */
    atomic_bool changing;            /* a thread is changing its QP, SRQ, channel or groups */
    atomic_bool asked;               /* it came with a connection request, which is not answered */
    atomic_bool connected;           /* between ESTABLISHED and disconnect */
    _Atomic token device_pd;         /* 0: no device yet */
    _Atomic token qp;                /* 0: none */
    _Atomic token srq;               /* made for the id; 0: none */
    _Atomic token registration_pd;   /* the QP's PD, or the device's; 0: no device yet */
    _Atomic token cqs[2];            /* made for the QP, by queue; 0: none */
    struct queue *_Atomic queues[2]; /* the QP's, where quick.h posts to; NULL: nowhere */

    /* What mrg_get_request gives to the ids it returns. */
    bool has_request_attr;
    mrg_qp_init_attr request_attr;
    token request_pd; /* a reference; 0: the device's */

    size_t private_length;
    unsigned char private_data[UINT8_MAX];
};

/* The edges of an id. An adopted one has the PD that its raw id has. */
enum { ID_EDGE_CHANNEL, ID_EDGE_DEVICE_PD };

static inline struct id *id_of(const struct slot *slot)
{
    return (struct id *)slot->hot.body;
}

/* An id below a channel (0: synchronous), without anything of librdmacm's yet. NULL and errno. */
struct slot *id_embryo(token channel, void *context, const struct here *here);

/* The embryo has its rdma_cm_id. */
mrg_id *id_publish(struct slot *slot, struct rdma_cm_id *raw);

/* The PD of the id's device; 0 and a finding (no-pd) if it has no device. The id is held or known to stay. */
token id_device_pd(struct slot *slot, const struct here *here);

token id_find_device_pd(mrg_id *id, const struct here *here);

/* Where a registration through the id goes: its QP's PD or its device's. 0 and a finding. Lock-free once there. */
static inline token id_registration_pd(mrg_id *handle, const struct here *here)
{
    const struct slot *slot = slot_find(handle, TYPE_ID);
    token pd = slot ? atomic_load_explicit(&id_of(slot)->registration_pd, memory_order_acquire) : 0;
    return pd ? pd : id_find_device_pd(handle, here);
}

/* The token of the id's QP; 0 and a finding. Lock-free. */
token id_find_qp(mrg_id *id, const struct here *here);

/* What the id's receives are posted to: its SRQ or its QP. 0 and a finding. Lock-free. */
token id_find_recv(mrg_id *id, const struct here *here);

/*
 * One thread at a time changes what an id has. No lock: a refusal runs the caller's handler of findings, which may
 * come here again. begin: -1 and a finding where another thread is at it; end returns result.
 */
int id_change_begin(struct slot *slot, const struct here *here);
int id_change_end(struct slot *slot, int result);

/* Makes or takes down the id's QP with its own CQs, its SRQ. The id is held. */
int id_create_qp(struct slot *slot, mrg_pd *pd, mrg_qp_init_attr *attr, const struct here *here);
int id_destroy_qp(struct slot *slot, const struct here *here);
int id_destroy_srq(struct slot *slot, const struct here *here);

/* Whether something else than children in spare is in the way of the QP or its own CQs: refused, nothing changed. */
int id_refuse_busy_qp(const struct slot *slot, unsigned int spare, const struct here *here);

#endif
