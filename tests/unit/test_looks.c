/* Who releases an MR looks only at queues that may have posted it: counted. And where there is no membarrier(2). */
#include "cells.h"
#include "fixture.h"

TestSuite(looks, .init = setup_stub, .timeout = 60);

enum { QUEUES_IN_ALL = 1000 };

static char memory[64];

static uint64_t looked_at(void)
{
    return atomic_load(&cells_queues_looked_at);
}

Test(looks, few_of_a_thousand_queues)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    static mrg_qp *qps[QUEUES_IN_ALL / 2]; /* two queues each */
    for (int i = 0; i < QUEUES_IN_ALL / 2; i++)
        qps[i] = rig_qp(&rig, IBV_QPT_RC, NULL);
    mrg_mr *posted = mrg_reg_mr(rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    mrg_mr *never = mrg_reg_mr(rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    uint64_t before = looked_at();
    cr_assert_eq(mrg_dereg_mr(never), 0);
    cr_expect_eq(looked_at(), before, "no queue ever posted it");

    mrg_sge sge = {memory, 8, posted};
    mrg_recv_wr wr = {7, NULL, &sge, 1}, *bad;
    cr_assert_eq(mrg_ibv_post_recv(qps[QUEUES_IN_ALL / 4], &wr, &bad), 0);
    stub_complete_recvs(mrg_qp_raw(qps[QUEUES_IN_ALL / 4]), 1, IBV_WC_SUCCESS);
    expect_completion(rig.cq, 7);
    cr_assert_eq(mrg_dereg_mr(posted), 0);
    cr_expect_gt(looked_at(), before);
    cr_expect_leq(looked_at() - before, QUEUES_IN_ALL / 32, "%d looks", (int)(looked_at() - before));
    for (int i = 0; i < QUEUES_IN_ALL / 2; i++)
        cr_assert_eq(mrg_ibv_destroy_qp(qps[i]), 0);
    end_rig(&rig);
    expect_nothing_left();
}

/* As many WRs as were granted, though the ring has a power of two. */
Test(looks, no_more_wrs_than_were_granted)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_qp_init_attr attr = {.send_cq = rig.cq, .recv_cq = rig.cq, .cap = {3, 5, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    mrg_qp *qp = mrg_ibv_create_qp(rig.pd, &attr);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    mrg_sge sge = {memory, 8, mr};
    mrg_recv_wr wr = {7, NULL, &sge, 1}, *bad;
    for (int i = 0; i < 5; i++)
        cr_expect_eq(mrg_ibv_post_recv(qp, &wr, &bad), 0);
    expect_fails(mrg_ibv_post_recv(qp, &wr, &bad), ENOMEM);
    cr_expect_eq(mrg_ibv_destroy_qp(qp), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_rig(&rig);
    expect_nothing_left();
}

/* Every fence is a full one then, and all goes as ever. */
Test(looks, without_membarrier)
{
    mrg_cq *cq;
    mrg_id *id = polled_id(&cq);
    fence_everywhere = true;
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    cr_assert_eq(mrg_post_recv(id, (void *)7, memory, 8, mr), 0);
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    mrg_mr_unref(mr);
    cr_expect_eq(stub.live_mrs, 1);
    stub_complete_recvs(raw_qp(id), 1, IBV_WC_SUCCESS);
    expect_completion(cq, 7);
    cr_expect_eq(stub.live_mrs, 0);
    cr_expect_eq(mrg_destroy_qp(id), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    cr_expect_eq(mrg_destroy_cq(cq), 0);
    expect_nothing_left();
}
