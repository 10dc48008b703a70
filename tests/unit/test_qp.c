/* QPs of no id: making, states, what they say of themselves, and the domains that they may be made in. */
#include "fixture.h"

TestSuite(qp, .init = setup_stub);

static char memory[256];

static int post_recv(mrg_qp *qp, uint64_t wr_id, mrg_mr *mr)
{
    mrg_sge sge = {memory, 16, mr};
    mrg_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;
    return mrg_ibv_post_recv(qp, &wr, &bad);
}

static int post_send(mrg_qp *qp, uint64_t wr_id, mrg_mr *mr)
{
    mrg_sge sge = {memory, 16, mr};
    mrg_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    wr.send_flags = IBV_SEND_SIGNALED;
    return mrg_ibv_post_send(qp, &wr, &bad);
}

Test(qp, says_what_it_was_made_with)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_qp_init_attr attr = {
        .qp_context = memory, .send_cq = rig.cq, .recv_cq = rig.cq, .cap = {3, 5, 1, 2, 0}, .qp_type = IBV_QPT_UC};
    mrg_qp *qp = mrg_ibv_create_qp(rig.pd, &attr);
    cr_expect_eq(attr.cap.max_inline_data, 32, "granted");
    cr_expect_eq(mrg_qp_context(qp), memory);
    cr_expect_eq(mrg_qp_num(qp), mrg_qp_raw(qp)->qp_num);
    struct ibv_qp_attr state;
    mrg_qp_init_attr said = {0};
    cr_assert_eq(mrg_query_qp(qp, &state, IBV_QP_STATE, &said), 0);
    cr_expect(said.send_cq == rig.cq && said.recv_cq == rig.cq && said.pd == rig.pd);
    cr_expect(!said.srq && !said.xrcd);
    cr_expect_eq(said.qp_context, memory);
    cr_expect_eq(said.qp_type, IBV_QPT_UC);
    cr_expect(said.cap.max_send_wr == 3 && said.cap.max_recv_wr == 5 && said.cap.max_inline_data == 32);
    expect_refused(mrg_query_qp(qp, NULL, 0, &said), EINVAL, "bad-argument");
    expect_refused(mrg_query_qp(qp, &state, 0, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_modify_qp(qp, NULL, IBV_QP_STATE), EINVAL, "bad-argument");
    cr_expect_eq(mrg_ibv_destroy_qp(qp), 0);
    expect_refused(mrg_ibv_destroy_qp(qp), ESTALE, "stale-handle");
    end_rig(&rig);
    expect_nothing_left();
}

Test(qp, needs_its_parts)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_qp_init_attr attr = {.recv_cq = rig.cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    expect_refused(mrg_ibv_create_qp(rig.pd, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_ibv_create_qp(rig.pd, &attr), EINVAL, "bad-argument");
    attr.send_cq = rig.cq, attr.recv_cq = NULL;
    expect_refused(mrg_ibv_create_qp(rig.pd, &attr), EINVAL, "bad-argument");
    attr.recv_cq = rig.cq;
    expect_refused(mrg_ibv_create_qp_ex(rig.context, &attr), EINVAL, "bad-argument");
    attr.qp_type = IBV_QPT_XRC_RECV;
    expect_refused(mrg_ibv_create_qp_ex(rig.context, &attr), EINVAL, "bad-argument");
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_wr = 100000;
    expect_refused(mrg_ibv_create_qp(rig.pd, &attr), EINVAL, "bad-argument");
    cr_expect(strstr(mrg_last_finding()->message, "max_send_wr is 100000"), "%s", mrg_last_finding()->message);
    expect_refused(mrg_destroy_cq(rig.cq), EBUSY, "destroy-order");
    expect_refused(mrg_dealloc_pd(rig.pd), EBUSY, "destroy-order");
    cr_expect_eq(stub.live_qps, 1);
    struct rig far = new_rig(IBV_QPT_RC);
    attr.cap.max_send_wr = 1;
    expect_refused(mrg_ibv_create_qp(far.pd, &attr), EXDEV, "wrong-pd");
    attr.pd = rig.pd;
    expect_refused(mrg_ibv_create_qp_ex(far.context, &attr), EXDEV, "wrong-pd");
    end_rig(&far);
    end_rig(&rig);
    expect_nothing_left();
}

Test(qp, of_an_id_is_destroyed_through_it)
{
    mrg_id *id = connected_id(NULL);
    mrg_qp *qp = mrg_id_qp(id);
    expect_refused(mrg_ibv_destroy_qp(qp), EINVAL, "wrong-state");
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    cr_expect_eq(post_recv(qp, 1, mr), 0, "it takes chains all the same");
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    cr_expect_eq(mrg_modify_qp(qp, &reset, IBV_QP_STATE), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_destroy_ep(id), 0);
    expect_refused(mrg_qp_num(qp), ESTALE, "stale-handle");
    expect_nothing_left();
}

/* What was in flight is dropped; its completions, which are in the CQ already, are not handed out. */
Test(qp, reset_ends_borrows_and_what_comes_afterwards_counts)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET}, ready = {.qp_state = IBV_QPS_RTS};
    struct mrg_stats stats;
    for (uint64_t round = 0; round < 100; round++) {
        mrg_mr *old = mrg_reg_mr(rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
        stub.hold_sends = true;
        for (uint64_t i = 0; i < 5; i++)
            cr_assert(!post_recv(rig.qp, 1000 + i, old) && !post_send(rig.qp, 2000 + i, old));
        stub_complete_recvs(rig.raw, 3, IBV_WC_SUCCESS);
        stub_complete_sends(rig.raw, 2, IBV_WC_SUCCESS);
        cr_assert_eq(mrg_modify_qp(rig.qp, &ready, IBV_QP_STATE), 0);
        expect_refused(mrg_dereg_mr(old), EBUSY, "dereg-in-flight");
        cr_assert_eq(mrg_modify_qp(rig.qp, &reset, IBV_QP_STATE), 0);
        cr_assert_eq(mrg_dereg_mr(old), 0);
        cr_assert_eq(mrg_modify_qp(rig.qp, &ready, IBV_QP_STATE), 0);
        for (uint64_t i = 0; i < 8; i++)
            cr_assert_eq(post_recv(rig.qp, i, mr), 0, "all of the queue is free");
        expect_fails(post_recv(rig.qp, 9, mr), ENOMEM);
        stub_complete_recvs(rig.raw, 8, IBV_WC_SUCCESS);
        struct ibv_wc wc[16];
        cr_assert_eq(mrg_poll_cq(rig.cq, 16, wc), 8);
        for (uint64_t i = 0; i < 8; i++)
            cr_assert_eq(wc[i].wr_id, i);
    }
    cr_expect_eq(mrg_stats(&stats), 0);
    cr_expect_eq(stats.late_completions, 500);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_rig(&rig);
    expect_nothing_left();
}

Test(qp, reset_that_is_refused_leaves_what_is_in_flight)
{
    inject_install();
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    cr_assert_eq(post_recv(rig.qp, 1, mr), 0);
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    inject_arm(1, EINVAL);
    expect_fails(mrg_modify_qp(rig.qp, &reset, IBV_QP_STATE), EINVAL);
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    cr_expect_eq(post_recv(rig.qp, 2, mr), 0, "and posts come in");
    stub_complete_recvs(rig.raw, 2, IBV_WC_SUCCESS);
    struct ibv_wc wc[2];
    cr_expect_eq(mrg_poll_cq(rig.cq, 2, wc), 2);
    cr_expect_eq(wc[1].wr_id, 2);
    cr_expect_eq(mrg_modify_qp(rig.qp, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, 0), 0);
    cr_expect_eq(post_recv(rig.qp, 3, mr), 0);
    cr_expect_eq(mrg_modify_qp(rig.qp, &reset, 0), 0, "without IBV_QP_STATE it is no reset");
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    cr_expect_eq(mrg_modify_qp(rig.qp, &reset, IBV_QP_STATE), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_rig(&rig);
    expect_nothing_left();
}

/* Domains */

Test(qp, in_a_parent_domain_works_with_the_pd)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    struct ibv_td_init_attr td_attr = {0};
    mrg_td *td = mrg_alloc_td(rig.context, &td_attr);
    mrg_pd *domain = mrg_alloc_parent_domain(rig.pd, td), *plain = mrg_alloc_parent_domain(rig.pd, NULL);
    cr_assert(td && domain && plain);
    mrg_qp_init_attr attr = {.send_cq = rig.cq, .recv_cq = rig.cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    mrg_qp *qp = mrg_ibv_create_qp(domain, &attr);
    mrg_mr *mrs[] = {mrg_reg_mr(rig.pd, memory, 64, IBV_ACCESS_LOCAL_WRITE),
                     mrg_reg_mr(domain, memory, 64, IBV_ACCESS_LOCAL_WRITE),
                     mrg_reg_mr(plain, memory, 64, IBV_ACCESS_LOCAL_WRITE)};
    for (int i = 0; i < 3; i++)
        cr_expect(!post_recv(qp, 1, mrs[i]) && !post_recv(rig.qp, 1, mrs[i]), "%d", i);
    mrg_pd *other = mrg_alloc_pd(rig.context), *other_domain = mrg_alloc_parent_domain(other, td);
    mrg_mr *foreign = mrg_reg_mr(other_domain, memory, 64, IBV_ACCESS_LOCAL_WRITE);
    expect_refused(post_recv(qp, 1, foreign), EXDEV, "wrong-pd");
    cr_expect_eq(mrg_ibv_destroy_qp(qp), 0);
    cr_expect_eq(mrg_ibv_destroy_qp(rig.qp), 0);
    expect_refused(mrg_dealloc_td(td), EBUSY, "destroy-order");
    expect_refused(mrg_dealloc_pd(other), EBUSY, "destroy-order");
    expect_refused(mrg_dealloc_pd(domain), EBUSY, "leaked-mr");
    for (int i = 0; i < 3; i++)
        cr_expect_eq(mrg_dereg_mr(mrs[i]), 0);
    cr_expect_eq(mrg_dereg_mr(foreign), 0);
    cr_expect_eq(mrg_dealloc_pd(other_domain), 0);
    cr_expect_eq(mrg_dealloc_pd(domain), 0);
    cr_expect_eq(mrg_dealloc_td(td), 0);
    expect_refused(mrg_dealloc_pd(rig.pd), EBUSY, "destroy-order");
    cr_expect_eq(mrg_dealloc_pd(plain), 0);
    cr_expect_eq(mrg_dealloc_pd(other), 0);
    rig.qp = rig_qp(&rig, IBV_QPT_RC, NULL);
    end_rig(&rig);
    expect_nothing_left();
}

Test(qp, thread_domain_of_another_device)
{
    struct rig rig = new_rig(IBV_QPT_RC), far = new_rig(IBV_QPT_RC);
    struct ibv_td_init_attr td_attr = {0};
    mrg_td *td = mrg_alloc_td(far.context, &td_attr);
    expect_refused(mrg_alloc_parent_domain(rig.pd, td), EXDEV, "wrong-pd");
    expect_refused(mrg_alloc_td(far.context, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_close_device(far.context), EBUSY, "destroy-order");
    cr_expect_eq(mrg_dealloc_td(td), 0);
    end_rig(&far);
    end_rig(&rig);
    expect_nothing_left();
}

Test(qp, of_xrc)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    struct ibv_xrcd_init_attr xrcd_attr = {0};
    expect_refused(mrg_open_xrcd(rig.context, NULL), EINVAL, "bad-argument");
    mrg_xrcd *xrcd = mrg_open_xrcd(rig.context, &xrcd_attr);
    mrg_qp_init_attr recv = {.qp_type = IBV_QPT_XRC_RECV, .xrcd = xrcd};
    mrg_qp_init_attr send = {.send_cq = rig.cq, .cap = {4, 0, 1, 0, 0}, .qp_type = IBV_QPT_XRC_SEND};
    mrg_srq_init_attr shared = {.attr = {4, 1, 0}, .srq_type = IBV_SRQT_XRC, .xrcd = xrcd, .cq = rig.cq};
    shared.pd = rig.pd;
    mrg_qp *receiver = mrg_ibv_create_qp_ex(rig.context, &recv), *sender = mrg_ibv_create_qp(rig.pd, &send);
    mrg_srq *srq = mrg_ibv_create_srq_ex(rig.context, &shared);
    cr_assert(receiver && sender && srq);
    struct ibv_qp_attr attr;
    mrg_qp_init_attr said;
    cr_expect_eq(mrg_query_qp(receiver, &attr, 0, &said), 0);
    cr_expect(said.xrcd == xrcd && !said.pd && !said.send_cq);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, 64, IBV_ACCESS_LOCAL_WRITE);
    mrg_sge sge = {memory, 8, mr};
    mrg_send_wr wr = {.wr_id = 4, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.opcode = IBV_WR_SEND;
    wr.qp_type.xrc.remote_srqn = 0x77;
    cr_expect_eq(mrg_ibv_post_send(sender, &wr, &bad), 0);
    cr_expect_eq(stub.last_send.qp_type.xrc.remote_srqn, 0x77);
    expect_completion(rig.cq, 4);
    expect_refused(mrg_close_xrcd(xrcd), EBUSY, "destroy-order");
    cr_expect_eq(mrg_ibv_destroy_qp(receiver), 0);
    expect_refused(mrg_close_xrcd(xrcd), EBUSY, "destroy-order");
    cr_expect_eq(mrg_ibv_destroy_srq(srq), 0);
    cr_expect_eq(mrg_close_xrcd(xrcd), 0);
    cr_expect_eq(mrg_ibv_destroy_qp(sender), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_rig(&rig);
    expect_nothing_left();
}
