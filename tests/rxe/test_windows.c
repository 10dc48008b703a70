/* Memory windows over rxe: an MR stays while a window is bound to it, whoever unbinds it. */
#include "pair.h"

#include <stdlib.h>

TestSuite(windows, .init = be_quiet, .timeout = 60);

/* A pair whose server has an MR that windows may be bound to. */
struct windowed {
    struct pair p;
    mrg_pd *pd;
    mrg_mr *mr;
    char *memory;
};

static void set_up(struct windowed *w)
{
    pair_up(&w->p);
    w->memory = calloc(1, BUFFER);
    w->pd = mrg_id_pd(w->p.server.id);
    w->mr = mrg_reg_mr(w->pd, w->memory, BUFFER, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    cr_assert(w->mr, "%s", strerror(errno));
}

static void tear_down(struct windowed *w)
{
    must(mrg_dereg_mr(w->mr));
    mrg_pd_unref(w->pd);
    free(w->memory);
    take_down(&w->p);
}

static void bind_2(struct windowed *w, mrg_mw *mw)
{
    mrg_send_wr wr = {.wr_id = 5, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = mrg_inc_rkey(mrg_mw_rkey(mw));
    wr.bind_mw.bind_info = (mrg_mw_bind_info){w->mr, (uintptr_t)w->memory, BUFFER, IBV_ACCESS_REMOTE_WRITE};
    must(mrg_ibv_post_send(mrg_id_qp(w->p.server.id), &wr, &bad));
    cr_expect_eq(mrg_mw_rkey(mw), wr.bind_mw.rkey);
}

static void await_bind(struct windowed *w)
{
    await_send(w->p.server.id, (void *)5);
}

/* The client writes through the window. */
static void write_through(struct windowed *w, mrg_mw *mw, const char *text)
{
    strcpy(w->p.client.buffer, text);
    must(mrg_post_write(w->p.client.id, NULL, w->p.client.buffer, 64, w->p.client.mr, IBV_SEND_SIGNALED,
                        (uintptr_t)w->memory, mrg_mw_rkey(mw)));
    await_send(w->p.client.id, NULL);
    cr_expect_str_eq(w->memory, text);
}

Test(windows, type_2_is_unbound_by_its_owner)
{
    struct windowed w;
    set_up(&w);
    mrg_mw *mw = mrg_alloc_mw(w.pd, IBV_MW_TYPE_2);
    bind_2(&w, mw);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "window-bound"); /* bound MW -> MR */
    cr_expect(strstr(mrg_last_finding()->message, "MW made at tests/rxe/test_windows.c:"), "%s",
              mrg_last_finding()->message);
    expect_refused(mrg_dealloc_mw(mw), EBUSY, "destroy-order"); /* its bind is in flight */
    await_bind(&w);
    write_through(&w, mw, "through a window of type 2");
    mrg_send_wr invalidate = {.wr_id = 5, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED}, *bad;
    invalidate.bind_mw.mw = mw;
    must(mrg_ibv_post_send(mrg_id_qp(w.p.server.id), &invalidate, &bad));
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "dereg-in-flight"); /* until that is polled */
    await_bind(&w);
    bind_2(&w, mw);
    await_bind(&w);
    write_through(&w, mw, "bound again");
    must(mrg_dealloc_mw(mw));
    tear_down(&w);
}

Test(windows, type_2_is_unbound_by_the_peer)
{
    struct windowed w;
    set_up(&w);
    mrg_mw *mw = mrg_alloc_mw(w.pd, IBV_MW_TYPE_2);
    bind_2(&w, mw);
    await_bind(&w);
    write_through(&w, mw, "before the peer gives it back");
    must(mrg_post_recv(w.p.server.id, NULL, w.p.server.buffer, 64, w.p.server.mr));
    mrg_sge sge = {w.p.client.buffer, 64, w.p.client.mr};
    mrg_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED};
    mrg_send_wr *bad;
    wr.invalidate_rkey = mrg_mw_rkey(mw);
    must(mrg_ibv_post_send(mrg_id_qp(w.p.client.id), &wr, &bad));
    await_send(w.p.client.id, NULL);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "window-bound"); /* until its completion is polled */
    await_recv(w.p.server.id, NULL);
    must(mrg_dereg_mr(w.mr));
    w.mr = mrg_reg_mr(w.pd, w.memory, BUFFER, IBV_ACCESS_LOCAL_WRITE);
    must(mrg_dealloc_mw(mw));
    tear_down(&w);
}

Test(windows, type_1_is_bound_by_a_call)
{
    struct windowed w;
    set_up(&w);
    mrg_mw *mw = mrg_alloc_mw(w.pd, IBV_MW_TYPE_1);
    mrg_qp *qp = mrg_id_qp(w.p.server.id);
    mrg_mw_bind bind = {.wr_id = 5, .send_flags = IBV_SEND_SIGNALED};
    bind.bind_info = (mrg_mw_bind_info){w.mr, (uintptr_t)w.memory, BUFFER, IBV_ACCESS_REMOTE_WRITE};
    must(mrg_bind_mw(qp, mw, &bind));
    await_bind(&w);
    write_through(&w, mw, "through a window of type 1");
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "window-bound");
    must(mrg_dealloc_mw(mw));
    tear_down(&w);
}

Test(windows, what_cannot_be_bound_changes_nothing)
{
    struct windowed w;
    set_up(&w);
    mrg_mw *one = mrg_alloc_mw(w.pd, IBV_MW_TYPE_1), *two = mrg_alloc_mw(w.pd, IBV_MW_TYPE_2);
    mrg_qp *qp = mrg_id_qp(w.p.server.id);
    mrg_mw_bind bind = {.bind_info = {w.mr, (uintptr_t)w.memory, BUFFER + 1, IBV_ACCESS_REMOTE_WRITE}};
    expect_refused(mrg_bind_mw(qp, one, &bind), ERANGE, "out-of-range");
    bind.bind_info = (mrg_mw_bind_info){w.p.server.mr, (uintptr_t)w.p.server.buffer, 1, IBV_ACCESS_REMOTE_WRITE};
    expect_refused(mrg_bind_mw(qp, one, &bind), EACCES, "missing-access");
    bind.bind_info = (mrg_mw_bind_info){w.mr, (uintptr_t)w.memory, BUFFER, IBV_ACCESS_REMOTE_WRITE};
    expect_refused(mrg_bind_mw(qp, two, &bind), EINVAL, "bad-argument");
    bind.bind_info.mr = NULL;
    expect_refused(mrg_bind_mw(qp, one, &bind), EINVAL, "unregistered-post");
    expect_refused(mrg_alloc_mw(w.pd, (enum ibv_mw_type)3), EINVAL, "bad-argument");
    must(mrg_dealloc_mw(one));
    must(mrg_dealloc_mw(two));
    tear_down(&w);
}
