/*
 * A provider that is not there: stub_install puts it behind the seam (src/verbs.h), so that unit tests and
 * benchmarks run natively and count only what mrguard does. It keeps the books a device would keep: what
 * is registered, what is posted, what completed. Where rxe can run a test, the test belongs to tests/rxe.
 */
#ifndef MRG_STUB_H
#define MRG_STUB_H

#include <stdbool.h>

#include "verbs.h"

struct stub_state {
    int live_mrs;
    int live_pds;
    int live_cqs;
    int live_comp_channels;
    int live_qps;
    int live_ids;
    int live_channels;
    int device_lists;
    int live_srqs;
    int live_others; /* opened devices, XRC and thread domains, AHs, MWs */
    int joins;
    void *last_join; /* what was given as its context */
    int acked_async;
    int take;           /* WRs that a chain may have before the queue is full; 0: any */
    bool hold_sends;    /* signaled sends complete only when stub_complete says so */
    bool lazy;          /* post and poll keep no books: for benchmarks */
    uint32_t last_lkey; /* of the last SGE posted */
    uint64_t last_wr_id;
    uint32_t last_qp_num;
    int last_num_sge;
    struct ibv_send_wr last_send; /* without its pieces */
    struct ibv_mw_bind_info last_bind;
};

extern struct stub_state stub;

/* Replaces the whole seam. Call it first in a test. */
void stub_install(void);

/* Completes the oldest count sends (receives) of the QP; status for all of them. */
void stub_complete_sends(struct ibv_qp *qp, int count, enum ibv_wc_status status);
void stub_complete_recvs(struct ibv_qp *qp, int count, enum ibv_wc_status status);

/* Completes one of the WRs that are posted to an SRQ, for a QP. */
void stub_complete_srq(struct ibv_srq *srq, int which, struct ibv_qp *qp, enum ibv_wc_status status);

/* The next ibv_get_async_event gives this; element is not NULL. */
void stub_async(enum ibv_event_type type, void *element);

/* Likewise, of a message with which the peer invalidated a window. */
void stub_push_invalidated(struct ibv_cq *cq, uint64_t wr_id, uint32_t qp_num, uint32_t rkey);

/* A completion that nobody posted. */
void stub_push(struct ibv_cq *cq, uint64_t wr_id, uint32_t qp_num, enum ibv_wc_status status);

/* The next rdma_get_cm_event gives this. */
void stub_multicast_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, const void *context);
void stub_event(struct rdma_cm_id *id, struct rdma_cm_id *listener, enum rdma_cm_event_type type);

/* Two devices; ids are bound to the first unless a test says otherwise. */
extern struct ibv_context stub_devices[2];
extern struct ibv_context *stub_bind_to;

/* Whatever is wrapped: the n-th call from now on through the seam fails with an errno (0: none does). */
void inject_install(void);
void inject_arm(int n, int error);
int inject_calls(void);       /* since inject_arm */
const char *inject_hit(void); /* the call that failed, or NULL */

#endif
