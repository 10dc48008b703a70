/* Step by step: raw programs that use mrguard for their registrations alone. */
#include "pair.h"

#include <rdma/rdma_verbs.h>

TestSuite(adopt, .init = be_quiet, .timeout = 60);

static char memory[8192];

static struct rdma_cm_id *raw_id(void)
{
    struct rdma_cm_id *id;
    struct rdma_addrinfo *res = device_addr("RXE_ADDR", "0", RAI_PASSIVE);
    must(rdma_create_id(NULL, &id, memory, RDMA_PS_TCP));
    must(rdma_bind_addr(id, res->ai_src_addr));
    rdma_freeaddrinfo(res);
    return id;
}

/* The PD is adopted; QP, CQ and posts are raw, by the raw MR's lkey. */
Test(adopt, registration_alone)
{
    struct rdma_cm_id *id = raw_id();
    struct ibv_pd *raw_pd = ibv_alloc_pd(id->verbs);
    mrg_pd *pd = mrg_adopt_pd(raw_pd);
    cr_assert(pd, "%s", strerror(errno));
    mrg_mr *mr = mrg_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    must(rdma_create_qp(id, raw_pd, &attr));
    mrg_borrow *borrow;
    must(mrg_borrow_begin(mr, memory, 64, IBV_ACCESS_LOCAL_WRITE, &borrow));
    must(rdma_post_recv(id, NULL, memory, 64, mrg_mr_raw(mr)));
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "leaked-mr");
    rdma_destroy_qp(id);
    must(mrg_borrow_end(borrow));
    must(mrg_dereg_mr(mr));
    must(mrg_dealloc_pd(pd));
    must(ibv_dealloc_pd(raw_pd)); /* it stayed ours */
    must(rdma_destroy_id(id));
    expect_nothing_left();
}

/* One raw PD is one PD, however often it is adopted. */
Test(adopt, twice_is_the_same_pd)
{
    struct rdma_cm_id *id = raw_id();
    struct ibv_pd *raw_pd = ibv_alloc_pd(id->verbs);
    mrg_pd *pd = mrg_adopt_pd(raw_pd), *again = mrg_adopt_pd(raw_pd);
    cr_expect_eq(pd, again);
    cr_expect_eq(mrg_pd_raw(pd), raw_pd);
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "destroy-order");
    mrg_pd_unref(again);
    must(mrg_dealloc_pd(pd));
    expect_refused(mrg_pd_raw(pd), ESTALE, "stale-handle");
    mrg_context *context = mrg_adopt_context(id->verbs);
    cr_expect_eq(mrg_context_raw(context), id->verbs);
    must(mrg_close_device(context));
    must(ibv_dealloc_pd(raw_pd));
    must(rdma_destroy_id(id));
    expect_nothing_left();
}

/* An adopted id registers where its raw QP is; what it leaves behind is reported, and still usable. */
Test(adopt, id_leaves_its_mrs_on_the_pd)
{
    struct rdma_cm_id *raw = raw_id();
    mrg_id *id = mrg_adopt_id(raw);
    cr_assert(id);
    cr_expect_eq(mrg_id_raw(id), raw);
    cr_expect_eq(mrg_id_context(id), memory);
    cr_expect_eq(raw->context, memory, "not ours to change");
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    cr_assert(mr, "%s", strerror(errno));
    cr_expect_eq(mrg_mr_raw(mr)->pd, raw->pd);
    must(mrg_destroy_id(id));
    cr_expect_eq(mrg_finding_count("leaked-mr"), 1);
    cr_expect_eq(mrg_mr_length(mr), sizeof memory);
    must(mrg_dereg_mr(mr));
    must(rdma_destroy_id(raw));
    expect_nothing_left();
}
