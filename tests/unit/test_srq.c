/* Shared receive queues: completions in any order, a ring that is used again and again, and who waits for whom. */
#include "fixture.h"

TestSuite(srq, .init = setup_stub);

static char memory[4096];

struct shared {
    struct rig rig;
    mrg_srq *srq;
    struct ibv_srq *raw;
    mrg_qp *qps[2];
    struct ibv_qp *raw_qps[2];
};

static struct ibv_srq *raw_srq_of(mrg_qp *qp)
{
    return mrg_qp_raw(qp)->srq;
}

/* An SRQ of count WRs with two QPs. */
static struct shared new_shared(uint32_t count)
{
    struct shared s = {.rig = new_rig(IBV_QPT_RC)};
    mrg_srq_init_attr attr = {.srq_context = &memory, .attr = {count, 2, 0}};
    s.srq = mrg_ibv_create_srq(s.rig.pd, &attr);
    cr_assert(s.srq);
    for (int i = 0; i < 2; i++) {
        s.qps[i] = rig_qp(&s.rig, IBV_QPT_RC, s.srq);
        s.raw_qps[i] = mrg_qp_raw(s.qps[i]);
    }
    s.raw = raw_srq_of(s.qps[0]);
    return s;
}

static void end_shared(struct shared *s)
{
    for (int i = 0; i < 2; i++)
        cr_expect_eq(mrg_ibv_destroy_qp(s->qps[i]), 0);
    cr_expect_eq(mrg_ibv_destroy_srq(s->srq), 0);
    end_rig(&s->rig);
    expect_nothing_left();
}

static int post(mrg_srq *srq, uint64_t wr_id, mrg_mr *mr)
{
    mrg_sge sge = {memory, 16, mr};
    mrg_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;
    return mrg_post_srq_recv(srq, &wr, &bad);
}

Test(srq, completions_in_any_order_end_their_own_wr)
{
    struct shared s = new_shared(4);
    mrg_mr *mrs[4];
    for (int i = 0; i < 4; i++) {
        mrs[i] = mrg_reg_mr(s.rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
        cr_assert_eq(post(s.srq, (uint64_t)i, mrs[i]), 0);
    }
    const int which[] = {2, 0, 1, 0}, ends[] = {2, 0, 3, 1};
    bool ended[4] = {0};
    for (int n = 0; n < 4; n++) {
        stub_complete_srq(s.raw, which[n], s.raw_qps[n % 2], IBV_WC_SUCCESS);
        expect_completion(s.rig.cq, ends[n]);
        ended[ends[n]] = true;
        for (int i = 0; i < 4; i++)
            if (!ended[i])
                expect_refused(mrg_dereg_mr(mrs[i]), EBUSY, "dereg-in-flight");
        cr_expect_eq(mrg_dereg_mr(mrs[ends[n]]), 0);
    }
    end_shared(&s);
}

/* Whatever the order, the ring neither loses nor doubles a record. */
Test(srq, ring_is_used_far_beyond_its_size)
{
    struct shared s = new_shared(8);
    mrg_mr *mr = mrg_reg_mr(s.rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    uint64_t held[8], next = 0, random = 1;
    int count = 0;
    for (int n = 0; n < 20000; n++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        bool more = count == 0 || (count < 8 && random >> 63);
        if (more) {
            cr_assert_eq(post(s.srq, next, mr), 0, "%d in flight", count);
            held[count++] = next++;
            continue;
        }
        int which = (int)(random >> 33) % count;
        stub_complete_srq(s.raw, which, s.raw_qps[random >> 40 & 1], IBV_WC_SUCCESS);
        expect_completion(s.rig.cq, held[which]);
        memmove(&held[which], &held[which + 1], (size_t)(--count - which) * sizeof *held);
    }
    for (; count < 8; count++)
        cr_assert_eq(post(s.srq, 99, mr), 0);
    expect_fails(post(s.srq, 99, mr), ENOMEM);
    for (int i = 0; i < 8; i++) {
        struct ibv_wc wc;
        expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
        stub_complete_srq(s.raw, 7 - i, s.raw_qps[0], IBV_WC_SUCCESS);
        cr_assert_eq(mrg_poll_cq(s.rig.cq, 1, &wc), 1);
    }
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_shared(&s);
}

Test(srq, full_queue_is_enomem_and_leaves_no_borrow)
{
    struct shared s = new_shared(4);
    mrg_mr *mr = mrg_reg_mr(s.rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    mrg_mr *other = mrg_reg_mr(s.rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(post(s.srq, 1, mr), 0);
    expect_fails(post(s.srq, 2, other), ENOMEM);
    cr_expect_eq(mrg_dereg_mr(other), 0);
    stub_complete_srq(s.raw, 3, s.raw_qps[0], IBV_WC_SUCCESS);
    expect_completion(s.rig.cq, 1);
    cr_expect_eq(post(s.srq, 3, mr), 0, "room again");
    for (int i = 0; i < 2; i++)
        cr_expect_eq(mrg_ibv_destroy_qp(s.qps[i]), 0);
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    cr_expect_eq(mrg_ibv_destroy_srq(s.srq), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0, "the SRQ's end ends its borrows");
    end_rig(&s.rig);
    expect_nothing_left();
}

Test(srq, unref_in_flight_releases_at_the_completion_or_the_srqs_end)
{
    struct shared s = new_shared(4);
    mrg_mr *mrs[2];
    for (uint64_t i = 0; i < 2; i++) {
        mrs[i] = mrg_reg_mr(s.rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
        cr_assert_eq(post(s.srq, i, mrs[i]), 0);
        mrg_mr_unref(mrs[i]);
    }
    cr_expect_eq(stub.live_mrs, 2);
    expect_refused(post(s.srq, 9, mrs[0]), ESTALE, "stale-handle");
    stub_complete_srq(s.raw, 1, s.raw_qps[0], IBV_WC_SUCCESS);
    expect_completion(s.rig.cq, 1);
    cr_expect_eq(stub.live_mrs, 1);
    end_shared(&s);
}

Test(srq, rules_of_a_receive)
{
    struct shared s = new_shared(4);
    mrg_pd *pd = mrg_alloc_pd(s.rig.context);
    mrg_mr *elsewhere = mrg_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    mrg_mr *readonly = mrg_reg_mr(s.rig.pd, memory, sizeof memory, 0);
    mrg_mr *small = mrg_reg_mr(s.rig.pd, memory, 8, IBV_ACCESS_LOCAL_WRITE);
    expect_refused(post(s.srq, 1, NULL), EINVAL, "unregistered-post");
    expect_refused(post(s.srq, 1, elsewhere), EXDEV, "wrong-pd");
    expect_refused(post(s.srq, 1, readonly), EACCES, "missing-access");
    expect_refused(post(s.srq, 1, small), ERANGE, "out-of-range");
    mrg_sge many[3] = {{memory, 1, small}, {memory, 1, small}, {memory, 1, small}};
    mrg_recv_wr wr = {.sg_list = many, .num_sge = 3}, *bad;
    expect_refused(mrg_post_srq_recv(s.srq, &wr, &bad), EINVAL, "bad-argument");
    expect_refused(mrg_post_srq_recv(s.srq, NULL, &bad), EINVAL, "bad-argument");
    mrg_mr *mrs[] = {elsewhere, readonly, small};
    for (int i = 0; i < 3; i++)
        cr_expect_eq(mrg_dereg_mr(mrs[i]), 0);
    cr_expect_eq(mrg_dealloc_pd(pd), 0);
    end_shared(&s);
}

Test(srq, chain_that_the_device_takes_in_part)
{
    struct shared s = new_shared(32);
    mrg_mr *mr = mrg_reg_mr(s.rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    mrg_mr *tail = mrg_reg_mr(s.rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    mrg_sge sges[2] = {{memory, 1, mr}, {memory, 1, tail}};
    mrg_recv_wr wrs[20], *bad;
    for (int i = 0; i < 20; i++)
        wrs[i] = (mrg_recv_wr){(uint64_t)i, i < 19 ? &wrs[i + 1] : NULL, &sges[i >= 5], 1};
    stub.take = 5;
    expect_fails(mrg_post_srq_recv(s.srq, wrs, &bad), ENOMEM);
    cr_expect_eq(bad, &wrs[5]);
    cr_expect_eq(mrg_dereg_mr(tail), 0);
    for (uint64_t i = 0; i < 5; i++) {
        stub_complete_srq(s.raw, (int)(4 - i), s.raw_qps[0], IBV_WC_SUCCESS);
        expect_completion(s.rig.cq, 4 - i);
    }
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_shared(&s);
}

Test(srq, qp_that_receives_from_one_takes_no_receives)
{
    struct shared s = new_shared(4);
    mrg_mr *mr = mrg_reg_mr(s.rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    mrg_sge sge = {memory, 1, mr};
    mrg_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    expect_refused(mrg_ibv_post_recv(s.qps[0], &wr, &bad), EINVAL, "wrong-state");
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    cr_expect_eq(mrg_modify_qp(s.qps[0], &reset, IBV_QP_STATE), 0);
    expect_refused(mrg_ibv_post_recv(s.qps[0], &wr, &bad), EINVAL, "wrong-state");
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_shared(&s);
}

Test(srq, waits_for_its_qps_and_its_pd_for_it)
{
    struct shared s = new_shared(4);
    expect_refused(mrg_ibv_destroy_srq(s.srq), EBUSY, "destroy-order");
    expect_refused(mrg_dealloc_pd(s.rig.pd), EBUSY, "destroy-order");
    uint32_t number;
    struct ibv_srq_attr attr = {.max_wr = 8};
    cr_expect_eq(mrg_get_srq_num(s.srq, &number), 0);
    cr_expect_eq(mrg_query_srq(s.srq, &attr), 0);
    cr_expect_eq(mrg_modify_srq(s.srq, &attr, IBV_SRQ_LIMIT), 0);
    expect_refused(mrg_modify_srq(s.srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EOPNOTSUPP, "bad-argument");
    expect_refused(mrg_modify_srq(s.srq, NULL, IBV_SRQ_LIMIT), EINVAL, "bad-argument");
    expect_refused(mrg_query_srq(s.srq, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_get_srq_num(s.srq, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_ibv_create_srq(s.rig.pd, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_ibv_create_srq_ex(s.rig.context, NULL), EINVAL, "bad-argument");
    mrg_srq_init_attr no_pd = {.attr = {1, 1, 0}};
    expect_refused(mrg_ibv_create_srq_ex(s.rig.context, &no_pd), EINVAL, "bad-argument");
    end_shared(&s);
}

/* A completion that comes when its SRQ is gone, or a second time, or out of thin air, ends nothing. */
Test(srq, late_completions_are_swallowed)
{
    struct shared s = new_shared(4);
    mrg_mr *mr = mrg_reg_mr(s.rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    cr_assert_eq(post(s.srq, 1, mr), 0);
    cr_assert_eq(post(s.srq, 2, mr), 0);
    stub_complete_srq(s.raw, 0, s.raw_qps[0], IBV_WC_SUCCESS);
    struct ibv_wc wc;
    struct mrg_stats stats;
    cr_assert_eq(mrg_poll_cq(s.rig.cq, 1, &wc), 1);
    struct ibv_cq *cq = s.raw_qps[0]->recv_cq;
    uint64_t ours = 0;
    stub_complete_srq(s.raw, 0, s.raw_qps[0], IBV_WC_SUCCESS);
    cr_assert_eq(verbs.poll_cq(cq, 1, &wc), 1);
    ours = wc.wr_id;
    stub_push(cq, ours ^ UINT64_C(1) << 24, s.raw_qps[0]->qp_num, IBV_WC_SUCCESS); /* the first one's record again */
    stub_push(cq, ours | UINT64_C(0x3ffff) << 24, s.raw_qps[0]->qp_num, IBV_WC_SUCCESS);
    cr_expect_eq(mrg_poll_cq(s.rig.cq, 1, &wc), 0);
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    cr_expect_eq(mrg_ibv_destroy_qp(s.qps[0]), 0);
    cr_expect_eq(mrg_ibv_destroy_qp(s.qps[1]), 0);
    cr_expect_eq(mrg_ibv_destroy_srq(s.srq), 0);
    mrg_srq_init_attr attr = {.attr = {4, 2, 0}};
    mrg_srq *next = mrg_ibv_create_srq(s.rig.pd, &attr); /* takes the slot over */
    cr_assert_eq(post(next, 5, mr), 0);
    stub_push(s.rig.raw->recv_cq, ours, s.rig.raw->qp_num, IBV_WC_SUCCESS);
    cr_expect_eq(mrg_poll_cq(s.rig.cq, 1, &wc), 0);
    cr_expect_eq(mrg_stats(&stats), 0);
    cr_expect_eq(stats.late_completions, 3);
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    cr_expect_eq(mrg_ibv_destroy_srq(next), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_rig(&s.rig);
    expect_nothing_left();
}

Test(srq, provider_that_refuses_to_destroy_it_leaves_it_as_it_was)
{
    inject_install();
    struct shared s = new_shared(4);
    mrg_mr *mr = mrg_reg_mr(s.rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    cr_assert_eq(post(s.srq, 1, mr), 0);
    for (int i = 0; i < 2; i++)
        cr_expect_eq(mrg_ibv_destroy_qp(s.qps[i]), 0);
    inject_arm(1, EBUSY);
    expect_fails(mrg_ibv_destroy_srq(s.srq), EBUSY);
    cr_expect_str_eq(inject_hit(), "destroy_srq");
    cr_expect_eq(post(s.srq, 2, mr), 0);
    stub_complete_srq(s.raw, 1, s.rig.raw, IBV_WC_SUCCESS);
    expect_completion(s.rig.cq, 2);
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    cr_expect_eq(mrg_ibv_destroy_srq(s.srq), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_rig(&s.rig);
    expect_nothing_left();
}

/* An id's SRQ */

Test(srq, of_an_id_receives_for_its_qp)
{
    mrg_id *id = bound_id();
    mrg_srq_init_attr attr = {.attr = {4, 1, 0}};
    expect_refused(mrg_destroy_srq(id), EINVAL, "wrong-state");
    expect_refused(mrg_id_srq(id), EINVAL, "wrong-state");
    expect_refused(mrg_create_srq(id, NULL, NULL), EINVAL, "bad-argument");
    cr_assert_eq(mrg_create_srq(id, NULL, &attr), 0);
    expect_refused(mrg_create_srq(id, NULL, &attr), EINVAL, "wrong-state");
    mrg_srq *srq = mrg_id_srq(id);
    expect_refused(mrg_ibv_destroy_srq(srq), EINVAL, "wrong-state");
    mrg_cq *cq = mrg_create_cq(mrg_id_verbs(id), 8, NULL, NULL, 0);
    mrg_qp_init_attr qp = {.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}};
    cr_assert_eq(mrg_create_qp(id, NULL, &qp), 0);
    cr_expect_eq(mrg_query_qp(mrg_id_qp(id), &(struct ibv_qp_attr){0}, 0, &qp), 0);
    cr_expect_eq(qp.srq, srq);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    cr_assert_eq(mrg_post_recv(id, (void *)7, memory, 16, mr), 0);
    stub_complete_srq(raw_qp(id)->srq, 0, raw_qp(id), IBV_WC_SUCCESS);
    expect_completion(cq, 7);
    expect_refused(mrg_destroy_srq(id), EBUSY, "destroy-order");
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_destroy_qp(id), 0);
    expect_refused(mrg_destroy_id(id), EBUSY, "destroy-order");
    cr_expect_eq(mrg_destroy_srq(id), 0);
    expect_refused(mrg_post_recv(id, NULL, memory, 1, NULL), EINVAL, "no-qp");
    cr_expect_eq(mrg_destroy_cq(cq), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

Test(srq, of_an_id_goes_with_the_endpoint)
{
    mrg_id *id = bound_id();
    mrg_srq_init_attr attr = {.attr = {4, 1, 0}};
    mrg_qp_init_attr qp = {.cap = {4, 4, 1, 1, 0}};
    cr_assert_eq(mrg_create_srq_ex(id, &attr), 0);
    cr_assert_eq(mrg_create_qp_ex(id, &qp), 0);
    cr_expect_eq(mrg_destroy_ep(id), 0);
    expect_nothing_left();
    id = connected_id(NULL);
    expect_refused(mrg_create_srq(id, NULL, &attr), EINVAL, "wrong-state");
    cr_expect_eq(mrg_destroy_ep(id), 0);
}

/* Refused for the SRQ's sake, the endpoint has its QP still. */
Test(srq, of_an_id_that_others_need_keeps_the_endpoint_whole)
{
    mrg_id *id = bound_id(), *other = bound_id();
    mrg_srq_init_attr attr = {.attr = {4, 1, 0}};
    mrg_qp_init_attr qp = {.cap = {4, 4, 1, 1, 0}};
    cr_assert_eq(mrg_create_srq(id, NULL, &attr), 0);
    mrg_qp_init_attr shares = {.srq = mrg_id_srq(id), .cap = {4, 4, 1, 1, 0}};
    cr_assert_eq(mrg_create_qp(id, NULL, &qp), 0);
    cr_assert_eq(mrg_create_qp(other, NULL, &shares), 0);
    expect_refused(mrg_destroy_ep(id), EBUSY, "destroy-order");
    cr_expect_eq(stub.live_qps, 2);
    cr_expect(mrg_id_qp(id));
    cr_expect_eq(mrg_destroy_qp(other), 0);
    mrg_context *context = mrg_id_verbs(id);
    mrg_async_event *event;
    stub_async(IBV_EVENT_SRQ_LIMIT_REACHED, raw_qp(id)->srq);
    cr_assert_eq(mrg_get_async_event(context, &event), 0);
    expect_refused(mrg_destroy_ep(id), EBUSY, "unacked-event");
    cr_expect_eq(stub.live_qps, 1);
    cr_expect_eq(mrg_ack_async_event(event), 0);
    cr_expect_eq(mrg_destroy_ep(id), 0);
    cr_expect_eq(mrg_destroy_id(other), 0);
    expect_nothing_left();
}

Test(srq, of_parts_from_another_device)
{
    struct rig rig = new_rig(IBV_QPT_RC), far = new_rig(IBV_QPT_RC);
    mrg_srq_init_attr attr = {.attr = {4, 1, 0}, .pd = far.pd};
    expect_refused(mrg_ibv_create_srq_ex(rig.context, &attr), EXDEV, "wrong-pd");
    attr.pd = NULL;
    attr.cq = far.cq;
    expect_refused(mrg_ibv_create_srq(rig.pd, &attr), EXDEV, "wrong-pd");
    attr.cq = NULL;
    mrg_srq *srq = mrg_ibv_create_srq(far.pd, &attr);
    mrg_qp_init_attr qp = {.send_cq = rig.cq, .recv_cq = rig.cq, .srq = srq, .cap = {1, 1, 1, 1, 0}};
    qp.qp_type = IBV_QPT_RC;
    expect_refused(mrg_ibv_create_qp(rig.pd, &qp), EXDEV, "wrong-pd");
    cr_expect_eq(mrg_ibv_destroy_srq(srq), 0);
    end_rig(&far);
    end_rig(&rig);
    expect_nothing_left();
}
