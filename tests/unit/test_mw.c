/* Memory windows: bound from the post of their bind on, and the MR below is not deregistered while they are. */
#include "fixture.h"

TestSuite(mw, .init = setup_stub);

static char memory[4096];

struct world {
    struct rig rig;
    mrg_mr *mr, *other; /* both of all of memory, with every access */
    mrg_mw *one, *two;  /* of type 1 and 2 */
};

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND)

static struct world new_world(void)
{
    struct world w = {.rig = new_rig(IBV_QPT_RC)};
    w.mr = mrg_reg_mr(w.rig.pd, memory, sizeof memory, ALL);
    w.other = mrg_reg_mr(w.rig.pd, memory, sizeof memory, ALL);
    w.one = mrg_alloc_mw(w.rig.pd, IBV_MW_TYPE_1);
    w.two = mrg_alloc_mw(w.rig.pd, IBV_MW_TYPE_2);
    cr_assert(w.mr && w.other && w.one && w.two);
    return w;
}

static void end_world(struct world *w)
{
    cr_expect_eq(mrg_dealloc_mw(w->one), 0);
    cr_expect_eq(mrg_dealloc_mw(w->two), 0);
    cr_expect_eq(mrg_dereg_mr(w->mr), 0);
    cr_expect_eq(mrg_dereg_mr(w->other), 0);
    end_rig(&w->rig);
    expect_nothing_left();
}

static mrg_mw_bind bind_of(mrg_mr *mr, size_t length)
{
    return (mrg_mw_bind){
        .wr_id = 1,
        .send_flags = IBV_SEND_SIGNALED,
        .bind_info = {mr, (uintptr_t)memory, length, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE}};
}

/* The WR that binds a window of type 2 to 64 bytes of an MR; its next key. */
static mrg_send_wr bind_wr(mrg_mw *mw, mrg_mr *mr)
{
    mrg_send_wr wr = {.wr_id = 2, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = mrg_inc_rkey(mrg_mw_rkey(mw));
    wr.bind_mw.bind_info = bind_of(mr, 64).bind_info;
    return wr;
}

static mrg_send_wr invalidate_wr(mrg_mw *mw)
{
    mrg_send_wr wr = {.wr_id = 3, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED};
    wr.bind_mw.mw = mw;
    return wr;
}

static int post(struct world *w, mrg_send_wr wr)
{
    mrg_send_wr *bad;
    return mrg_ibv_post_send(w->rig.qp, &wr, &bad);
}

Test(mw, of_type_1_is_bound_rebound_and_closed)
{
    struct world w = new_world();
    mrg_mw_bind bind = bind_of(w.mr, 64);
    uint32_t before = mrg_mw_rkey(w.one);
    stub.hold_sends = true;
    cr_assert_eq(mrg_bind_mw(w.rig.qp, w.one, &bind), 0);
    cr_expect_eq(mrg_mw_rkey(w.one), mrg_inc_rkey(before));
    cr_expect_eq(stub.last_bind.mr, mrg_mr_raw(w.mr));
    cr_expect_eq(stub.last_bind.addr, (uintptr_t)memory);
    cr_expect_eq(stub.last_bind.length, 64);
    expect_refused(mrg_dealloc_mw(w.one), EBUSY, "destroy-order");
    stub_complete_sends(w.rig.raw, 1, IBV_WC_SUCCESS);
    expect_completion(w.rig.cq, 1);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "window-bound");
    const struct mrg_finding *f = mrg_last_finding();
    cr_expect(strstr(f->message, "MW made at tests/unit/test_mw.c:"), "%s", f->message);
    bind = bind_of(w.other, 64);
    cr_assert_eq(mrg_bind_mw(w.rig.qp, w.one, &bind), 0);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "dereg-in-flight"); /* until the rebind is done */
    stub_complete_sends(w.rig.raw, 1, IBV_WC_SUCCESS);
    expect_completion(w.rig.cq, 1);
    expect_refused(mrg_dereg_mr(w.other), EBUSY, "window-bound");
    cr_expect_eq(mrg_dereg_mr(w.mr), 0);
    bind = bind_of(w.other, 0); /* closes it, though it names an MR */
    cr_assert_eq(mrg_bind_mw(w.rig.qp, w.one, &bind), 0);
    stub_complete_sends(w.rig.raw, 1, IBV_WC_SUCCESS);
    expect_completion(w.rig.cq, 1);
    cr_expect_eq(mrg_dereg_mr(w.other), 0);
    w.mr = mrg_reg_mr(w.rig.pd, memory, 1, 0);
    w.other = mrg_reg_mr(w.rig.pd, memory, 1, 0);
    bind = (mrg_mw_bind){.send_flags = IBV_SEND_SIGNALED};
    expect_refused(mrg_bind_mw(w.rig.qp, w.one, &bind), EINVAL, "wrong-state"); /* there is nothing to close */
    end_world(&w);
}

Test(mw, of_type_2_is_bound_and_invalidated_by_wrs)
{
    struct world w = new_world();
    uint32_t key = mrg_inc_rkey(mrg_mw_rkey(w.two));
    cr_assert_eq(post(&w, bind_wr(w.two, w.mr)), 0);
    cr_expect_eq(mrg_mw_rkey(w.two), key);
    cr_expect_eq(stub.last_send.bind_mw.rkey, key);
    cr_expect_eq(stub.last_send.bind_mw.bind_info.mr, mrg_mr_raw(w.mr));
    expect_completion(w.rig.cq, 2);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "window-bound");
    cr_assert_eq(post(&w, invalidate_wr(w.two)), 0);
    cr_expect_eq(stub.last_send.opcode, IBV_WR_LOCAL_INV);
    cr_expect_eq(stub.last_send.invalidate_rkey, key);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "dereg-in-flight"); /* until the invalidation is done */
    expect_completion(w.rig.cq, 3);
    cr_expect_eq(mrg_dereg_mr(w.mr), 0);
    cr_assert_eq(post(&w, bind_wr(w.two, w.other)), 0);
    expect_completion(w.rig.cq, 2);
    w.mr = mrg_reg_mr(w.rig.pd, memory, 1, 0);
    end_world(&w); /* dealloc ends the binding */
}

Test(mw, is_unbound_by_the_peer_when_its_completion_says_so)
{
    struct world w = new_world();
    cr_assert_eq(post(&w, bind_wr(w.two, w.mr)), 0);
    expect_completion(w.rig.cq, 2);
    uint32_t key = mrg_mw_rkey(w.two);
    struct ibv_cq *cq = w.rig.raw->recv_cq;
    struct ibv_wc wc;
    stub_push_invalidated(cq, 77, 1, key + 1);
    cr_expect_eq(mrg_poll_cq(w.rig.cq, 1, &wc), 1);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "window-bound"); /* another key */
    stub_push_invalidated(cq, 77, 1, key);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "window-bound"); /* not polled yet */
    cr_expect_eq(mrg_poll_cq(w.rig.cq, 1, &wc), 1);
    cr_expect_eq(wc.invalidated_rkey, key);
    cr_expect_eq(mrg_dereg_mr(w.mr), 0);
    stub_push_invalidated(cq, 77, 1, key);
    cr_expect_eq(mrg_poll_cq(w.rig.cq, 1, &wc), 1, "a second time it means nothing");
    cr_assert_eq(post(&w, bind_wr(w.two, w.other)), 0, "and it may be bound again");
    expect_completion(w.rig.cq, 2);
    mrg_mr_unref(w.other);
    cr_expect_eq(stub.live_mrs, 1, "the window keeps it");
    stub_push_invalidated(cq, 77, 1, mrg_mw_rkey(w.two));
    cr_expect_eq(mrg_poll_cq(w.rig.cq, 1, &wc), 1);
    cr_expect_eq(stub.live_mrs, 0);
    w.mr = mrg_reg_mr(w.rig.pd, memory, 1, 0);
    w.other = mrg_reg_mr(w.rig.pd, memory, 1, 0);
    end_world(&w);
}

/* Keys are a device's own: another device's completion with the same key is about another window. */
Test(mw, of_one_device_is_not_unbound_by_anothers_completion)
{
    struct world w = new_world();
    struct rig far = new_rig(IBV_QPT_RC);
    cr_assert_eq(post(&w, bind_wr(w.two, w.mr)), 0);
    expect_completion(w.rig.cq, 2);
    struct ibv_wc wc;
    stub_push_invalidated(far.raw->recv_cq, 77, 1, mrg_mw_rkey(w.two));
    cr_expect_eq(mrg_poll_cq(far.cq, 1, &wc), 1);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "window-bound");
    end_rig(&far);
    end_world(&w);
}

Test(mw, each_rule_of_a_bind)
{
    struct world w = new_world();
    mrg_pd *pd = mrg_alloc_pd(w.rig.context);
    mrg_mr *elsewhere = mrg_reg_mr(pd, memory, sizeof memory, ALL);
    mrg_mr *closed = mrg_reg_mr(w.rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    mrg_mr *readonly = mrg_reg_mr(w.rig.pd, memory, sizeof memory, IBV_ACCESS_MW_BIND);
    mrg_mw *far = mrg_alloc_mw(pd, IBV_MW_TYPE_2);
    const struct {
        mrg_mw *mw;
        mrg_mw_bind_info info;
        int error;
        const char *rule;
    } table[] = {
        {w.two, {elsewhere, (uintptr_t)memory, 1, 0}, EXDEV, "wrong-pd"},
        {far, {w.mr, (uintptr_t)memory, 1, 0}, EXDEV, "wrong-pd"},
        {w.two, {closed, (uintptr_t)memory, 1, 0}, EACCES, "missing-access"},
        {w.two, {readonly, (uintptr_t)memory, 1, IBV_ACCESS_REMOTE_WRITE}, EACCES, "missing-access"},
        {w.two, {readonly, (uintptr_t)memory, 1, IBV_ACCESS_REMOTE_ATOMIC}, EACCES, "missing-access"},
        {w.two, {w.mr, (uintptr_t)memory - 1, 1, 0}, ERANGE, "out-of-range"},
        {w.two, {w.mr, (uintptr_t)memory, sizeof memory + 1, 0}, ERANGE, "out-of-range"},
        {w.two, {w.mr, UINT64_MAX, 2, 0}, ERANGE, "out-of-range"},
        {w.two, {NULL, (uintptr_t)memory, 1, 0}, EINVAL, "unregistered-post"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        mrg_send_wr wr = bind_wr(table[i].mw, w.mr);
        wr.bind_mw.bind_info = table[i].info;
        expect_refused(post(&w, wr), table[i].error, table[i].rule);
        mrg_mw_bind bind = {.bind_info = table[i].info};
        if (table[i].mw == w.two)
            expect_refused(mrg_bind_mw(w.rig.qp, w.one, &bind), table[i].error, table[i].rule);
    }
    mrg_send_wr wr = bind_wr(w.two, w.mr);
    wr.bind_mw.rkey ^= 0x100;
    expect_refused(post(&w, wr), EINVAL, "bad-argument");
    wr = bind_wr(w.two, readonly);
    wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
    cr_expect_eq(post(&w, wr), 0, "a peer may read what it may not write");
    expect_completion(w.rig.cq, 2);
    expect_refused(mrg_dereg_mr(readonly), EBUSY, "window-bound");
    cr_expect_eq(post(&w, invalidate_wr(w.two)), 0);
    expect_completion(w.rig.cq, 3);
    mrg_mr *mrs[] = {elsewhere, closed, readonly};
    cr_expect_eq(mrg_dealloc_mw(far), 0);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(mrg_dereg_mr(mrs[i]), 0);
    cr_expect_eq(mrg_dealloc_pd(pd), 0);
    end_world(&w);
}

Test(mw, each_type_by_its_own_call)
{
    struct world w = new_world();
    mrg_mw_bind bind = bind_of(w.mr, 64);
    expect_refused(mrg_bind_mw(w.rig.qp, w.two, &bind), EINVAL, "bad-argument");
    expect_refused(mrg_bind_mw(w.rig.qp, w.one, NULL), EINVAL, "bad-argument");
    expect_refused(post(&w, bind_wr(w.one, w.mr)), EINVAL, "bad-argument");
    expect_refused(post(&w, invalidate_wr(w.one)), EINVAL, "bad-argument");
    expect_refused(mrg_alloc_mw(w.rig.pd, (enum ibv_mw_type)3), EINVAL, "bad-argument");
    bind.send_flags = 1U << 20;
    expect_refused(mrg_bind_mw(w.rig.qp, w.one, &bind), EINVAL, "bad-argument");
    expect_refused(mrg_dealloc_pd(w.rig.pd), EBUSY, "leaked-mr");
    end_world(&w);
}

/* Refused by the provider, a bind has changed nothing: not the key, not the binding, no borrow is left. */
Test(mw, bind_that_the_provider_refuses_leaves_the_one_before)
{
    inject_install();
    struct world w = new_world();
    mrg_mw_bind bind = bind_of(w.mr, 64);
    cr_assert_eq(mrg_bind_mw(w.rig.qp, w.one, &bind), 0);
    expect_completion(w.rig.cq, 1);
    cr_assert_eq(post(&w, bind_wr(w.two, w.mr)), 0);
    expect_completion(w.rig.cq, 2);
    uint32_t keys[] = {mrg_mw_rkey(w.one), mrg_mw_rkey(w.two)};
    bind = bind_of(w.other, 64);
    inject_arm(1, ENOMEM);
    expect_fails(mrg_bind_mw(w.rig.qp, w.one, &bind), ENOMEM);
    inject_arm(1, ENOMEM);
    expect_fails(post(&w, bind_wr(w.two, w.other)), ENOMEM);
    inject_arm(1, ENOMEM);
    expect_fails(post(&w, invalidate_wr(w.two)), ENOMEM);
    cr_expect(mrg_mw_rkey(w.one) == keys[0] && mrg_mw_rkey(w.two) == keys[1]);
    cr_expect_eq(mrg_dereg_mr(w.other), 0);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "window-bound");
    cr_expect_eq(mrg_dealloc_mw(w.one), 0);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "window-bound");
    w.other = mrg_reg_mr(w.rig.pd, memory, 1, ALL);
    w.one = mrg_alloc_mw(w.rig.pd, IBV_MW_TYPE_1);
    inject_arm(1, EBUSY);
    expect_fails(mrg_dealloc_mw(w.two), EBUSY);
    cr_expect_eq(mrg_mw_rkey(w.two), keys[1]);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "window-bound");
    end_world(&w);
}

Test(mw, two_changes_of_one_window_in_a_chain)
{
    struct world w = new_world();
    mrg_send_wr wrs[] = {bind_wr(w.two, w.mr), bind_wr(w.two, w.other)}, *bad;
    wrs[0].next = &wrs[1];
    expect_refused(mrg_ibv_post_send(w.rig.qp, wrs, &bad), EINVAL, "wrong-state");
    cr_expect_eq(bad, wrs);
    cr_expect_eq(mrg_dereg_mr(w.mr), 0, "neither was posted");
    cr_expect_eq(mrg_dereg_mr(w.other), 0);
    w.mr = mrg_reg_mr(w.rig.pd, memory, sizeof memory, ALL);
    w.other = mrg_reg_mr(w.rig.pd, memory, sizeof memory, ALL);
    cr_expect_eq(post(&w, bind_wr(w.two, w.mr)), 0, "and it may be bound");
    expect_completion(w.rig.cq, 2);
    end_world(&w);
}

/* What programs post together: the window is taken from one MR and given to another. */
Test(mw, invalidated_and_bound_in_one_chain)
{
    struct world w = new_world();
    cr_assert_eq(post(&w, bind_wr(w.two, w.mr)), 0);
    expect_completion(w.rig.cq, 2);
    mrg_send_wr wrs[] = {invalidate_wr(w.two), bind_wr(w.two, w.other)}, *bad;
    wrs[0].next = &wrs[1];
    stub.hold_sends = true;
    cr_assert_eq(mrg_ibv_post_send(w.rig.qp, wrs, &bad), 0);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "dereg-in-flight");
    stub_complete_sends(w.rig.raw, 2, IBV_WC_SUCCESS);
    struct ibv_wc wc[2];
    cr_expect_eq(mrg_poll_cq(w.rig.cq, 2, wc), 2);
    cr_expect_eq(mrg_dereg_mr(w.mr), 0);
    expect_refused(mrg_dereg_mr(w.other), EBUSY, "window-bound");
    w.mr = mrg_reg_mr(w.rig.pd, memory, sizeof memory, ALL);
    stub.hold_sends = false;
    stub.take = 1; /* of the same again, the bind is not taken */
    wrs[1] = bind_wr(w.two, w.mr);
    expect_fails(mrg_ibv_post_send(w.rig.qp, wrs, &bad), ENOMEM);
    stub.take = 0;
    expect_completion(w.rig.cq, 3);
    cr_expect_eq(mrg_dereg_mr(w.other), 0, "nothing is bound any more");
    w.other = mrg_reg_mr(w.rig.pd, memory, sizeof memory, ALL);
    end_world(&w);
}

/* An MR that was given up under its window is the device's until the WR that takes the window away is done. */
Test(mw, given_up_mr_goes_when_its_window_is_bound_elsewhere)
{
    struct world w = new_world();
    cr_assert_eq(post(&w, bind_wr(w.two, w.mr)), 0);
    expect_completion(w.rig.cq, 2);
    int before = stub.live_mrs;
    mrg_mr_unref(w.mr);
    stub.hold_sends = true;
    cr_assert_eq(post(&w, bind_wr(w.two, w.other)), 0);
    cr_expect_eq(stub.live_mrs, before, "its window may still be used");
    stub_complete_sends(w.rig.raw, 1, IBV_WC_SUCCESS);
    expect_completion(w.rig.cq, 2);
    cr_expect_eq(stub.live_mrs, before - 1);
    stub.hold_sends = false;
    w.mr = mrg_reg_mr(w.rig.pd, memory, sizeof memory, ALL);
    end_world(&w);
}

/* A chain that ends early changes the windows of the WRs that were posted, and no others. */
Test(mw, chain_that_the_device_takes_in_part)
{
    struct world w = new_world();
    mrg_mw *more = mrg_alloc_mw(w.rig.pd, IBV_MW_TYPE_2);
    uint32_t key = mrg_mw_rkey(more);
    mrg_send_wr wrs[] = {bind_wr(w.two, w.mr), bind_wr(more, w.other)}, *bad;
    wrs[0].next = &wrs[1];
    stub.take = 1;
    expect_fails(mrg_ibv_post_send(w.rig.qp, wrs, &bad), ENOMEM);
    cr_expect_eq(bad, &wrs[1]);
    stub.take = 0;
    expect_completion(w.rig.cq, 2);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "window-bound");
    cr_expect_eq(mrg_dereg_mr(w.other), 0);
    cr_expect_eq(mrg_mw_rkey(more), key);
    cr_expect_eq(mrg_dealloc_mw(more), 0);
    w.other = mrg_reg_mr(w.rig.pd, memory, 1, 0);
    end_world(&w);
}

/* Many windows share a bucket of keys; each is found, and struck, alone. */
Test(mw, many_keys)
{
    enum { MANY = 3000 };
    struct world w = new_world();
    mrg_mw *mws[MANY];
    mrg_mr *mrs[MANY];
    for (int i = 0; i < MANY; i++) {
        mws[i] = mrg_alloc_mw(w.rig.pd, IBV_MW_TYPE_2);
        mrs[i] = mrg_reg_mr(w.rig.pd, memory, sizeof memory, ALL);
        cr_assert_eq(post(&w, bind_wr(mws[i], mrs[i])), 0);
        expect_completion(w.rig.cq, 2);
    }
    struct ibv_wc wc;
    for (int i = 0; i < MANY; i += 2) {
        stub_push_invalidated(w.rig.raw->recv_cq, 1, 1, mrg_mw_rkey(mws[i]));
        cr_assert_eq(mrg_poll_cq(w.rig.cq, 1, &wc), 1);
        cr_assert_eq(mrg_dereg_mr(mrs[i]), 0);
        cr_assert_eq(mrg_dealloc_mw(mws[i]), 0);
    }
    for (int i = 1; i < MANY; i += 2) {
        expect_refused(mrg_dereg_mr(mrs[i]), EBUSY, "window-bound");
        cr_assert_eq(mrg_dealloc_mw(mws[i]), 0);
        cr_assert_eq(mrg_dereg_mr(mrs[i]), 0);
    }
    end_world(&w);
}

/* Datagrams have no connection that a window could belong to. */
Test(mw, qp_of_datagrams_has_none)
{
    struct rig rig = new_rig(IBV_QPT_UD);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, sizeof memory, ALL);
    mrg_mw *mw = mrg_alloc_mw(rig.pd, IBV_MW_TYPE_2), *one = mrg_alloc_mw(rig.pd, IBV_MW_TYPE_1);
    struct ibv_ah_attr attr = {.port_num = 1};
    mrg_ah *ah = mrg_create_ah(rig.pd, &attr);
    mrg_mw_bind bind = bind_of(mr, 64);
    mrg_send_wr *bad, wr = bind_wr(mw, mr);
    for (int i = 0; i < 2; i++) {
        expect_refused(mrg_ibv_post_send(rig.qp, &wr, &bad), EINVAL, "bad-argument");
        wr.opcode = IBV_WR_LOCAL_INV;
        expect_refused(mrg_ibv_post_send(rig.qp, &wr, &bad), EINVAL, "bad-argument");
        expect_refused(mrg_bind_mw(rig.qp, one, &bind), EINVAL, "bad-argument");
        wr.opcode = IBV_WR_BIND_MW;
        wr.wr.ud.ah = ah;
    }
    cr_expect_eq(mrg_destroy_ah(ah), 0);
    cr_expect_eq(mrg_dealloc_mw(mw), 0);
    cr_expect_eq(mrg_dealloc_mw(one), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_rig(&rig);
    expect_nothing_left();
}
