/* The policy observe: what raw verbs would do is done, and said. */
#include "fixture.h"

#include <stdlib.h>

static char memory[256];

/* Each test is a process of its own, and options are read with the first object. */
static void setup_observe(void)
{
    setenv("MRGUARD_OPTIONS", "policy=observe", 1);
    setup_stub();
}

TestSuite(observe, .init = setup_observe);

/* The call succeeds, and a finding of the rule says that none was refused. */
#define expect_observed(call, rule_name)                                              \
    do {                                                                              \
        uint64_t before_ = mrg_finding_count(rule_name);                              \
        cr_expect_eq(call, 0, "%s: %s", #call, strerror(errno));                      \
        cr_expect_eq(mrg_finding_count(rule_name), before_ + 1, "%s", #call);         \
        cr_assert(mrg_last_finding());                                                \
        cr_expect_str_eq(mrg_last_finding()->rule, rule_name);                        \
        cr_expect_eq(mrg_last_finding()->error, 0, "%s: no call was refused", #call); \
    } while (0)

static int post(mrg_qp *qp, void *addr, size_t length, mrg_mr *mr, int flags)
{
    mrg_sge sge = {addr, length, mr};
    mrg_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    wr.send_flags = IBV_SEND_SIGNALED | (unsigned int)flags;
    return mrg_ibv_post_send(qp, &wr, &bad);
}

static int post_recv(mrg_qp *qp, void *addr, size_t length, mrg_mr *mr)
{
    mrg_sge sge = {addr, length, mr};
    mrg_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;
    return mrg_ibv_post_recv(qp, &wr, &bad);
}

Test(observe, post_that_breaks_a_rule_is_posted)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_pd *pd = mrg_alloc_pd(rig.context);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, 64, 0), *elsewhere = mrg_reg_mr(pd, memory, 64, 0);
    expect_observed(post(rig.qp, memory, 65, mr, 0), "out-of-range");
    cr_expect_eq(stub.last_lkey, mrg_mr_raw(mr)->lkey);
    expect_completion(rig.cq, 1);
    expect_observed(post(rig.qp, memory, 1, elsewhere, 0), "wrong-pd");
    expect_completion(rig.cq, 1);
    expect_observed(post(rig.qp, memory, 1, NULL, 0), "unregistered-post");
    cr_expect_eq(stub.last_lkey, 0);
    expect_completion(rig.cq, 1);
    expect_observed(post(rig.qp, memory, (size_t)1 << 33, mr, 0), "length-truncated");
    expect_completion(rig.cq, 1);
    expect_observed(post(rig.qp, memory, 64, NULL, IBV_SEND_INLINE), "inline-too-long");
    expect_completion(rig.cq, 1);
    expect_observed(post_recv(rig.qp, memory, 1, mr), "missing-access");
    stub_complete_recvs(rig.raw, 1, IBV_WC_SUCCESS);
    expect_completion(rig.cq, 1);
    cr_expect_eq(mrg_dereg_mr(mr), 0, "each borrowed what it used");
    cr_expect_eq(mrg_dereg_mr(elsewhere), 0);
    cr_expect_eq(mrg_dealloc_pd(pd), 0);
    end_rig(&rig);
    expect_nothing_left();
}

/* What the device could not be given is refused, observed or not. */
Test(observe, post_that_cannot_be_posted_is_refused)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, 64, 0), *gone = mrg_reg_mr(rig.pd, memory, 64, 0);
    cr_assert_eq(mrg_dereg_mr(gone), 0);
    expect_refused(post(rig.qp, memory, 1, gone, 0), ESTALE, "stale-handle");
    expect_refused(post(rig.qp, memory, 1, mr, 1 << 20), EINVAL, "bad-argument");
    cr_expect_eq(mrg_last_finding()->error, EINVAL);
    mrg_sge sges[2] = {{memory, 65, mr}, {memory, 1, gone}};
    mrg_send_wr wrs[2] = {{.wr_id = 1, .next = &wrs[1], .sg_list = &sges[0], .num_sge = 1, .opcode = IBV_WR_SEND},
                          {.wr_id = 2, .sg_list = &sges[1], .num_sge = 1, .opcode = IBV_WR_SEND}};
    mrg_send_wr *bad;
    expect_refused(mrg_ibv_post_send(rig.qp, wrs, &bad), ESTALE, "stale-handle");
    cr_expect_eq(bad, wrs, "the one that would have passed is not posted");
    cr_expect_eq(stub.last_wr_id, 0);
    wrs[0].next = NULL;
    for (int i = 0; i < 8; i++)
        expect_observed(mrg_ibv_post_send(rig.qp, wrs, &bad), "out-of-range");
    expect_fails(mrg_ibv_post_send(rig.qp, wrs, &bad), ENOMEM);
    cr_expect_eq(mrg_ibv_destroy_qp(rig.qp), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    rig.qp = rig_qp(&rig, IBV_QPT_RC, NULL);
    end_rig(&rig);
    expect_nothing_left();
}

/* One finding for a chain, of the first rule that it breaks; all of it is posted. */
Test(observe, chain)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, 64, 0);
    mrg_sge sges[3] = {{memory, 1, mr}, {memory, 65, mr}, {memory, 1, NULL}};
    mrg_send_wr wrs[3], *bad;
    for (int i = 0; i < 3; i++)
        wrs[i] = (mrg_send_wr){.wr_id = 1,
                               .next = i < 2 ? &wrs[i + 1] : NULL,
                               .sg_list = &sges[i],
                               .num_sge = 1,
                               .opcode = IBV_WR_SEND,
                               .send_flags = IBV_SEND_SIGNALED};
    expect_observed(mrg_ibv_post_send(rig.qp, wrs, &bad), "out-of-range");
    struct ibv_wc wc[4];
    cr_expect_eq(mrg_poll_cq(rig.cq, 4, wc), 3);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_rig(&rig);
    expect_nothing_left();
}

Test(observe, dereg_in_flight_is_deferred)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, 64, IBV_ACCESS_LOCAL_WRITE);
    cr_assert_eq(post_recv(rig.qp, memory, 1, mr), 0);
    expect_observed(mrg_dereg_mr(mr), "dereg-in-flight");
    cr_expect_eq(stub.live_mrs, 1);
    expect_refused(mrg_dereg_mr(mr), ESTALE, "stale-handle");
    stub_complete_recvs(rig.raw, 1, IBV_WC_SUCCESS);
    expect_completion(rig.cq, 1);
    cr_expect_eq(stub.live_mrs, 0);
    mrg_borrow *borrow;
    mr = mrg_reg_mr(rig.pd, memory, 64, 0);
    cr_assert_eq(mrg_borrow_begin(mr, memory, 1, 0, &borrow), 0);
    expect_observed(mrg_dereg_mr(mr), "dereg-in-flight");
    cr_expect_eq(stub.live_mrs, 1);
    cr_expect_eq(mrg_borrow_end(borrow), 0);
    end_rig(&rig);
    expect_nothing_left();
}

Test(observe, id_that_goes_leaves_its_mrs_on_their_pd)
{
    for (int i = 0; i < 2; i++) {
        mrg_id *id = bound_id();
        mrg_pd *pd = mrg_id_pd(id);
        mrg_mr *mr = mrg_reg_msgs(id, memory, 64);
        if (i)
            expect_observed(mrg_destroy_ep(id), "leaked-mr");
        else
            expect_observed(mrg_destroy_id(id), "leaked-mr");
        cr_expect_eq(stub.live_ids, 0);
        cr_expect_eq(mrg_mr_length(mr), 64);
        expect_refused(mrg_dealloc_pd(pd), EBUSY, "leaked-mr");
        cr_expect_eq(mrg_dereg_mr(mr), 0);
        mrg_pd_unref(pd);
        expect_nothing_left();
    }
}

Test(observe, datagram_to_an_address_of_another_pd)
{
    struct rig rig = new_rig(IBV_QPT_UD);
    mrg_pd *pd = mrg_alloc_pd(rig.context);
    struct ibv_ah_attr attr = {.port_num = 1};
    mrg_ah *ah = mrg_create_ah(pd, &attr);
    mrg_send_wr wr = {.wr_id = 9, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.wr.ud.ah = ah;
    expect_observed(mrg_ibv_post_send(rig.qp, &wr, &bad), "wrong-pd");
    expect_completion(rig.cq, 9);
    cr_expect_eq(mrg_destroy_ah(ah), 0);
    cr_expect_eq(mrg_dealloc_pd(pd), 0);
    end_rig(&rig);
    expect_nothing_left();
}
