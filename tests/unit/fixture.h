/* What unit tests share: the stub behind the seam, silence, and ids to begin with. */
#ifndef MRG_FIXTURE_H
#define MRG_FIXTURE_H

#include "expect.h"
#include "stub.h"

static inline void setup_stub(void)
{
    stub_install();
    mrg_set_finding_handler(ignore_finding, NULL);
}

/* An id that is bound to the stub's device. */
static inline mrg_id *bound_id(void)
{
    mrg_id *id = NULL;
    struct sockaddr addr = {0};
    cr_assert_eq(mrg_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    cr_assert_eq(mrg_bind_addr(id, &addr), 0);
    return id;
}

/* Likewise with a QP of 8 WRs and 4 pieces each way. */
static inline mrg_id *connected_id(mrg_cq *cq)
{
    mrg_id *id = bound_id();
    mrg_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .cap = {8, 8, 4, 4, 0}};
    cr_assert_eq(mrg_create_qp(id, NULL, &attr), 0);
    return id;
}

/* Likewise, with a CQ of the caller's for both queues, to be polled. */
static inline mrg_id *polled_id(mrg_cq **cq)
{
    mrg_id *id = bound_id();
    mrg_qp_init_attr attr = {.cap = {8, 8, 1, 1, 0}};
    attr.send_cq = attr.recv_cq = *cq = mrg_create_cq(mrg_id_verbs(id), 64, NULL, NULL, 0);
    cr_assert_eq(mrg_create_qp(id, NULL, &attr), 0);
    return id;
}

/* What verbs-level tests begin with: a device that the test opened, and a QP on it of 8 WRs and 4 pieces each way. */
struct rig {
    mrg_context *context;
    mrg_pd *pd;
    mrg_cq *cq;
    mrg_qp *qp;
    struct ibv_qp *raw;
};

static inline mrg_qp *rig_qp(const struct rig *rig, enum ibv_qp_type type, mrg_srq *srq)
{
    mrg_qp_init_attr attr = {
        .send_cq = rig->cq, .recv_cq = rig->cq, .srq = srq, .cap = {8, 8, 4, 4, 0}, .qp_type = type};
    mrg_qp *qp = mrg_ibv_create_qp(rig->pd, &attr);
    cr_assert(qp);
    return qp;
}

static inline struct rig new_rig(enum ibv_qp_type type)
{
    static struct ibv_device device;
    struct rig rig = {.context = mrg_open_device(&device)};
    rig.pd = mrg_alloc_pd(rig.context);
    rig.cq = mrg_create_cq(rig.context, 64, NULL, NULL, 0);
    rig.qp = rig_qp(&rig, type, NULL);
    rig.raw = mrg_qp_raw(rig.qp);
    return rig;
}

static inline void end_rig(struct rig *rig)
{
    cr_expect_eq(mrg_ibv_destroy_qp(rig->qp), 0);
    cr_expect_eq(mrg_destroy_cq(rig->cq), 0);
    cr_expect_eq(mrg_dealloc_pd(rig->pd), 0);
    cr_expect_eq(mrg_close_device(rig->context), 0);
}

/* Exactly one completion is there, and this is its wr_id. */
#define expect_completion(from, id)                            \
    do {                                                       \
        struct ibv_wc wc_[2];                                  \
        cr_assert_eq(mrg_poll_cq(from, 2, wc_), 1);            \
        cr_expect_eq(wc_[0].wr_id, (uint64_t)(uintptr_t)(id)); \
    } while (0)

/* The raw QP behind an id, for the stub. */
struct ibv_qp *raw_qp(mrg_id *id);
struct ibv_cq *raw_send_cq(mrg_id *id);

/* Nothing is registered, made or open any more: in our books and in the stub's. */
static inline void expect_nothing_left(void)
{
    struct mrg_stats stats;
    cr_assert_eq(mrg_stats(&stats), 0);
    cr_expect_eq(stats.live_mrs, 0);
    cr_expect_eq(stats.registered_bytes, 0);
    cr_expect_eq(stub.live_mrs, 0, "%d MRs left", stub.live_mrs);
    cr_expect_eq(stub.live_pds, 0, "%d PDs left", stub.live_pds);
    cr_expect_eq(stub.live_cqs, 0, "%d CQs left", stub.live_cqs);
    cr_expect_eq(stub.live_comp_channels, 0, "%d completion channels left", stub.live_comp_channels);
    cr_expect_eq(stub.live_qps, 0, "%d QPs left", stub.live_qps);
    cr_expect_eq(stub.live_ids, 0, "%d ids left", stub.live_ids);
    cr_expect_eq(stub.live_channels, 0, "%d channels left", stub.live_channels);
    cr_expect_eq(stub.device_lists, 0, "%d device lists left", stub.device_lists);
    cr_expect_eq(stub.live_srqs, 0, "%d SRQs left", stub.live_srqs);
    cr_expect_eq(stub.live_others, 0, "%d domains, AHs, MWs or devices left", stub.live_others);
    cr_expect_eq(stub.joins, 0, "%d multicast joins left", stub.joins);
}

#endif
