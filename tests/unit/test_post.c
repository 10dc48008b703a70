/* Posting and completing: each rule at the post, and borrows that begin and end where they should. */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>

static char memory[8192];
static char other[64];

TestSuite(post, .init = setup_stub);

struct world {
    mrg_id *id;
    mrg_mr *mr;       /* memory, local write */
    mrg_mr *readonly; /* other, no access */
};

static struct world new_world(void)
{
    struct world w = {.id = connected_id(NULL)};
    w.mr = mrg_reg_msgs(w.id, memory, sizeof memory);
    w.readonly = mrg_reg_send(w.id, other, sizeof other);
    cr_assert(w.mr && w.readonly);
    return w;
}

/* Unsignaled WRs stay in flight until a later completion, or their QP's end. */
static void end_unsignaled(struct world *w)
{
    expect_refused(mrg_dereg_mr(w->mr), EBUSY, "dereg-in-flight");
    cr_expect_eq(mrg_destroy_qp(w->id), 0);
}

static void end_world(struct world *w)
{
    cr_expect_eq(mrg_dereg_mr(w->mr), 0);
    cr_expect_eq(mrg_dereg_mr(w->readonly), 0);
    cr_expect_eq(mrg_destroy_ep(w->id), 0);
    expect_nothing_left();
}

/* Every way to post one piece of local memory. writes: the device writes it. */
enum kind { RECV, SEND, READ, WRITE, KINDS };
static const char *const kind_names[] = {"recv", "send", "read", "write"};

static bool device_writes(enum kind kind)
{
    return kind == RECV || kind == READ;
}

static int post_kind(enum kind kind, mrg_id *id, void *addr, size_t length, mrg_mr *mr, int flags)
{
    switch (kind) {
    case RECV:
        return mrg_post_recv(id, NULL, addr, length, mr);
    case SEND:
        return mrg_post_send(id, NULL, addr, length, mr, flags);
    case READ:
        return mrg_post_read(id, NULL, addr, length, mr, flags, 0x1000, 7);
    default:
        return mrg_post_write(id, NULL, addr, length, mr, flags, 0x1000, 7);
    }
}

Test(post, each_kind_refuses_what_breaks_a_rule)
{
    struct world w = new_world();
    mrg_pd *pd = mrg_alloc_pd(mrg_id_verbs(w.id));
    mrg_mr *elsewhere = mrg_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    mrg_mr *gone = mrg_reg_msgs(w.id, memory, 1);
    cr_assert_eq(mrg_dereg_mr(gone), 0);
    for (enum kind kind = RECV; kind < KINDS; kind++) {
        const char *name = kind_names[kind];
        expect_refused(post_kind(kind, w.id, memory, 1, NULL, 0), EINVAL, "unregistered-post");
        expect_refused(post_kind(kind, w.id, memory, 1, gone, 0), ESTALE, "stale-handle");
        expect_refused(post_kind(kind, w.id, memory, 1, (mrg_mr *)memory, 0), ESTALE, "stale-handle");
        expect_refused(post_kind(kind, w.id, memory, 1, (mrg_mr *)w.id, 0), ESTALE, "stale-handle");
        expect_refused(post_kind(kind, w.id, memory, sizeof memory + 1, w.mr, 0), ERANGE, "out-of-range");
        expect_refused(post_kind(kind, w.id, (char *)((uintptr_t)memory - 1), 2, w.mr, 0), ERANGE, "out-of-range");
        expect_refused(post_kind(kind, w.id, memory + sizeof memory, 1, w.mr, 0), ERANGE, "out-of-range");
        expect_refused(post_kind(kind, w.id, (char *)UINTPTR_MAX, 2, w.mr, 0), ERANGE, "out-of-range");
        expect_refused(post_kind(kind, w.id, memory, SIZE_MAX, w.mr, 0), EMSGSIZE, "length-truncated");
        expect_refused(post_kind(kind, w.id, memory, ((size_t)4 << 30) + 16, w.mr, 0), EMSGSIZE, "length-truncated");
        expect_refused(post_kind(kind, w.id, memory, 1, elsewhere, 0), EXDEV, "wrong-pd");
        expect_refused(post_kind(kind, NULL, memory, 1, w.mr, 0), EINVAL, "bad-argument");
        expect_refused(post_kind(kind, (mrg_id *)w.mr, memory, 1, w.mr, 0), ESTALE, "stale-handle");
        if (device_writes(kind))
            expect_refused(post_kind(kind, w.id, other, 1, w.readonly, 0), EACCES, "missing-access");
        else
            cr_expect_eq(post_kind(kind, w.id, other, 1, w.readonly, IBV_SEND_SIGNALED), 0, "%s", name);
        if (kind != RECV)
            expect_refused(post_kind(kind, w.id, memory, 1, w.mr, 1 << 20), EINVAL, "bad-argument");
    }
    /* nothing of all that is in flight, but the two sends, which are done */
    struct ibv_wc wc;
    cr_expect_eq(mrg_get_send_comp(w.id, &wc), 1);
    cr_expect_eq(mrg_get_send_comp(w.id, &wc), 1);
    cr_expect_eq(mrg_dereg_mr(elsewhere), 0);
    cr_expect_eq(mrg_dealloc_pd(pd), 0);
    end_world(&w);
}

Test(post, says_how_far_beyond)
{
    struct world w = new_world();
    expect_refused(mrg_post_send(w.id, NULL, memory, sizeof memory + 1, w.mr, 0), ERANGE, "out-of-range");
    const struct mrg_finding *f = mrg_last_finding();
    cr_expect(strstr(f->message, "reach 1 byte beyond"), "%s", f->message);
    cr_expect(strstr(f->made, "test_post.c:"), "%s", f->made);
    cr_expect(strstr(f->misused, "test_post.c:"), "%s", f->misused);
    cr_expect_str_neq(f->made, f->misused);
    cr_expect_str_eq(f->call, "mrg_post_send");
    cr_expect(strstr(f->object, "+8192)"), "%s", f->object);
    end_world(&w);
}

Test(post, id_without_qp)
{
    mrg_id *id = bound_id();
    struct ibv_wc wc;
    expect_refused(mrg_post_recv(id, NULL, memory, 1, NULL), EINVAL, "no-qp");
    expect_refused(mrg_post_send(id, NULL, memory, 1, NULL, 0), EINVAL, "no-qp");
    expect_refused(mrg_get_send_comp(id, &wc), EINVAL, "no-qp");
    expect_refused(mrg_get_recv_comp(id, &wc), EINVAL, "no-qp");
    expect_refused(mrg_destroy_qp(id), EINVAL, "no-qp");
    expect_refused(mrg_id_qp(id), EINVAL, "no-qp");
    cr_expect_eq(mrg_destroy_id(id), 0);
}

Test(post, inline_needs_no_mr_but_room)
{
    struct world w = new_world();
    cr_expect_eq(mrg_post_send(w.id, NULL, memory, 32, NULL, IBV_SEND_INLINE), 0);
    cr_expect_eq(mrg_post_write(w.id, NULL, memory, 32, NULL, IBV_SEND_INLINE, 0, 0), 0);
    expect_refused(mrg_post_send(w.id, NULL, memory, 33, NULL, IBV_SEND_INLINE), EMSGSIZE, "inline-too-long");
    expect_refused(mrg_post_send(w.id, NULL, memory, 33, w.mr, IBV_SEND_INLINE), EMSGSIZE, "inline-too-long");
    mrg_mr *forged = (mrg_mr *)UINT64_C(0x7f0012fffff0);
    expect_refused(mrg_post_send(w.id, NULL, memory, (size_t)5 << 30, forged, IBV_SEND_INLINE), EMSGSIZE,
                   "length-truncated");
    stub.hold_sends = true;
    cr_expect_eq(mrg_post_send(w.id, NULL, memory, 8, w.mr, IBV_SEND_INLINE | IBV_SEND_SIGNALED), 0);
    end_world(&w); /* inline in flight borrows nothing */
}

Test(post, empty_messages_and_pieces)
{
    struct world w = new_world();
    cr_expect_eq(mrg_post_send(w.id, NULL, NULL, 0, NULL, 0), 0);
    cr_expect_eq(stub.last_num_sge, 0);
    cr_expect_eq(mrg_post_sendv(w.id, NULL, NULL, 0, 0), 0);
    mrg_sge sgl[] = {{memory, 0, NULL}, {memory, 16, w.mr}, {NULL, 0, NULL}};
    cr_expect_eq(mrg_post_sendv(w.id, NULL, sgl, 3, 0), 0);
    cr_expect_eq(stub.last_num_sge, 1);
    cr_expect_eq(mrg_post_recvv(w.id, NULL, NULL, 0), 0);
    end_unsignaled(&w);
    end_world(&w);
}

Test(post, vectors)
{
    struct world w = new_world();
    mrg_sge sgl[] = {
        {memory, 8, w.mr}, {other, 8, w.readonly}, {memory + 8, 8, w.mr}, {memory, 8, w.mr}, {memory, 8, w.mr}};
    cr_expect_eq(mrg_post_sendv(w.id, NULL, sgl, 4, 0), 0);
    cr_expect_eq(stub.last_num_sge, 4);
    expect_refused(mrg_post_sendv(w.id, NULL, sgl, 5, 0), EINVAL, "bad-argument");
    expect_refused(mrg_post_sendv(w.id, NULL, sgl, -1, 0), EINVAL, "bad-argument");
    expect_refused(mrg_post_sendv(w.id, NULL, NULL, 1, 0), EINVAL, "bad-argument");
    expect_refused(mrg_post_recvv(w.id, NULL, sgl, 3), EACCES, "missing-access");
    expect_refused(mrg_post_readv(w.id, NULL, sgl, 2, 0, 0, 0), EACCES, "missing-access");
    cr_expect_eq(mrg_post_writev(w.id, NULL, sgl, 3, 0, 0, 0), 0);
    sgl[2].mr = NULL;
    expect_refused(mrg_post_writev(w.id, NULL, sgl, 3, 0, 0, 0), EINVAL, "unregistered-post");
    end_unsignaled(&w);
    end_world(&w);
}

Test(post, two_pieces_of_2_gib_are_too_long_together)
{
    struct world w = new_world();
    size_t half = (size_t)1 << 31;
    mrg_mr *huge = mrg_reg_msgs(w.id, (void *)0x10000, half); /* the stub does not look */
    mrg_sge sgl[] = {{(void *)0x10000, half, huge}, {(void *)0x10000, half, huge}};
    cr_expect_eq(mrg_post_sendv(w.id, NULL, sgl, 1, 0), 0);
    expect_refused(mrg_post_sendv(w.id, NULL, sgl, 2, 0), EMSGSIZE, "length-truncated");
    cr_expect_eq(mrg_destroy_qp(w.id), 0);
    cr_expect_eq(mrg_dereg_mr(huge), 0);
    end_world(&w);
}

/* Borrows */

Test(borrow, in_flight_refuses_dereg_until_the_completion_is_polled, .init = setup_stub)
{
    struct world w = new_world();
    cr_assert_eq(mrg_post_recv(w.id, (void *)0x77, memory, 16, w.mr), 0);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "dereg-in-flight");
    cr_expect_eq(mrg_mr_length(w.mr), sizeof memory);
    cr_assert_eq(mrg_post_recv(w.id, (void *)0x78, memory, 16, w.mr), 0);
    stub_complete_recvs(raw_qp(w.id), 2, IBV_WC_SUCCESS);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "dereg-in-flight");
    struct ibv_wc wc;
    cr_expect_eq(mrg_get_recv_comp(w.id, &wc), 1);
    cr_expect_eq(wc.wr_id, 0x77);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "dereg-in-flight");
    cr_expect_eq(mrg_get_recv_comp(w.id, &wc), 1);
    cr_expect_eq(wc.wr_id, 0x78);
    end_world(&w);
}

Test(borrow, signaled_completion_ends_older_unsignaled_ones, .init = setup_stub)
{
    struct world w = new_world();
    stub.hold_sends = true;
    for (int i = 0; i < 7; i++)
        cr_assert_eq(mrg_post_send(w.id, NULL, memory, 1, w.mr, 0), 0);
    cr_assert_eq(mrg_post_send(w.id, (void *)8, memory, 1, w.mr, IBV_SEND_SIGNALED), 0);
    stub_complete_sends(raw_qp(w.id), 8, IBV_WC_SUCCESS);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "dereg-in-flight");
    struct ibv_wc wc;
    cr_expect_eq(mrg_get_send_comp(w.id, &wc), 1);
    cr_expect_eq(wc.wr_id, 8);
    end_world(&w);
}

Test(borrow, flushed_receives_end_too, .init = setup_stub)
{
    struct world w = new_world();
    for (uintptr_t i = 0; i < 4; i++)
        cr_assert_eq(mrg_post_recv(w.id, (void *)i, memory, 1, w.mr), 0);
    stub_complete_recvs(raw_qp(w.id), 4, IBV_WC_WR_FLUSH_ERR);
    struct ibv_wc wc;
    for (uintptr_t i = 0; i < 4; i++) {
        cr_expect_eq(mrg_get_recv_comp(w.id, &wc), 1);
        cr_expect_eq(wc.wr_id, i);
        cr_expect_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
    }
    end_world(&w);
}

Test(borrow, full_queue_is_enomem_and_leaves_no_borrow, .init = setup_stub)
{
    struct world w = new_world();
    for (int i = 0; i < 8; i++)
        cr_assert_eq(mrg_post_recv(w.id, NULL, memory, 1, w.mr), 0);
    expect_fails(mrg_post_recv(w.id, NULL, other, 1, w.readonly), ENOMEM);
    stub_complete_recvs(raw_qp(w.id), 8, IBV_WC_SUCCESS);
    struct ibv_wc wc;
    cr_expect_eq(mrg_get_recv_comp(w.id, &wc), 1);
    cr_expect_eq(mrg_post_recv(w.id, NULL, memory, 1, w.mr), 0, "room again");
    cr_expect_eq(mrg_destroy_qp(w.id), 0);
    end_world(&w);
}

Test(borrow, failed_post_leaves_none, .init = setup_stub)
{
    inject_install();
    struct world w = new_world();
    inject_arm(1, ENOMEM);
    expect_fails(mrg_post_send(w.id, NULL, memory, 1, w.mr, 0), ENOMEM);
    inject_arm(1, EINVAL);
    expect_fails(mrg_post_recv(w.id, NULL, memory, 1, w.mr), EINVAL);
    end_world(&w);
}

Test(post, before_the_connection_it_is_the_state_that_is_wrong)
{
    inject_install();
    struct world w = new_world();
    raw_qp(w.id)->state = IBV_QPS_INIT;
    inject_arm(1, EINVAL);
    expect_refused(mrg_post_send(w.id, NULL, memory, 1, w.mr, 0), EINVAL, "wrong-state");
    inject_arm(1, EINVAL);
    expect_fails(mrg_post_recv(w.id, NULL, memory, 1, w.mr), EINVAL);
    end_world(&w);
}

Test(borrow, ring_wraps_around_many_times, .init = setup_stub)
{
    struct world w = new_world();
    struct ibv_wc wc;
    for (uintptr_t i = 0; i < 600000; i++) { /* more than the record bits of a wr_id can tell apart */
        cr_assert_eq(mrg_post_send(w.id, (void *)i, memory, 1, w.mr, IBV_SEND_SIGNALED), 0);
        cr_assert_eq(mrg_get_send_comp(w.id, &wc), 1);
        cr_assert_eq(wc.wr_id, i);
    }
    end_world(&w);
}

Test(borrow, qp_destroyed_ends_all_and_late_completions_are_swallowed, .init = setup_stub)
{
    mrg_cq *cq;
    mrg_id *id = polled_id(&cq);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(mrg_post_recv(id, NULL, memory, 1, mr), 0);
    stub_complete_recvs(raw_qp(id), 4, IBV_WC_WR_FLUSH_ERR);
    cr_expect_eq(mrg_destroy_qp(id), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    mrg_id *next = connected_id(cq); /* takes the slot over */
    mrg_mr *other_mr = mrg_reg_msgs(next, other, sizeof other);
    cr_assert_eq(mrg_post_send(next, (void *)5, other, 1, other_mr, IBV_SEND_SIGNALED), 0);
    struct ibv_wc wc[8];
    cr_expect_eq(mrg_poll_cq(cq, 8, wc), 1);
    cr_expect_eq(wc[0].wr_id, 5);
    struct mrg_stats stats;
    mrg_stats(&stats);
    cr_expect_eq(stats.late_completions, 4);
    cr_expect_eq(mrg_dereg_mr(other_mr), 0);
    cr_expect_eq(mrg_destroy_ep(next), 0);
    expect_refused(mrg_poll_cq(cq, 0, wc), EINVAL, "bad-argument");
    expect_refused(mrg_poll_cq(cq, 1, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_poll_cq(NULL, 1, wc), EINVAL, "bad-argument");
    cr_expect_eq(mrg_destroy_cq(cq), 0);
    cr_expect_eq(mrg_destroy_ep(id), 0);
    expect_nothing_left();
}

Test(borrow, completions_that_are_not_ours_pass_untouched, .init = setup_stub)
{
    mrg_cq *cq;
    mrg_id *id = polled_id(&cq);
    const uint64_t foreign[] = {0, 1, 0x7fff12345678, UINT64_MAX, (uintptr_t)id, (uintptr_t)cq};
    const int n = sizeof foreign / sizeof *foreign;
    for (int i = 0; i < n; i++)
        stub_push(raw_send_cq(id), foreign[i], 4711, IBV_WC_SUCCESS);
    struct ibv_wc wc[16];
    cr_assert_eq(mrg_poll_cq(cq, 16, wc), n);
    for (int i = 0; i < n; i++)
        cr_expect_eq(wc[i].wr_id, foreign[i]);
    struct ibv_wc one;
    expect_refused(mrg_get_send_comp(id, &one), EINVAL, "wrong-state");
    expect_refused(mrg_get_send_comp(id, NULL), EINVAL, "bad-argument");
}

/* Several pollers of one CQ: every completion comes out once. */
struct polling {
    mrg_cq *cq;
    _Atomic int left;
    _Atomic uint64_t sum;
};

static void *poll_until_done(void *arg)
{
    struct polling *p = arg;
    struct ibv_wc wc[4];
    struct mrg_stats stats = {0};
    while (p->left > 0 && !mrg_stats(&stats) && !stats.late_completions) {
        int got = mrg_poll_cq(p->cq, 4, wc);
        for (int i = 0; i < got; i++)
            p->sum += wc[i].wr_id;
        p->left -= got > 0 ? got : 0;
    }
    return NULL;
}

Test(borrow, pollers_of_one_cq_lose_nothing, .init = setup_stub, .timeout = 60)
{
    enum { COUNT = 30000, POLLERS = 3 };
    mrg_id *id = bound_id();
    struct polling p = {.cq = mrg_create_cq(mrg_id_verbs(id), 64, NULL, NULL, 0), .left = COUNT};
    mrg_qp_init_attr attr = {.send_cq = p.cq, .recv_cq = p.cq, .cap = {32, 32, 1, 1, 0}};
    cr_assert_eq(mrg_create_qp(id, NULL, &attr), 0);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    struct mrg_stats stats;
    pthread_t pollers[POLLERS];
    for (int i = 0; i < POLLERS; i++)
        cr_assert_eq(pthread_create(&pollers[i], NULL, poll_until_done, &p), 0);
    for (uintptr_t i = 1; i <= COUNT && p.left > 0;) {
        if (!mrg_post_send(id, (void *)i, memory, 1, mr, IBV_SEND_SIGNALED))
            i++;
        else if (!mrg_stats(&stats) && stats.late_completions)
            break;
    }
    for (int i = 0; i < POLLERS; i++)
        pthread_join(pollers[i], NULL);
    cr_expect_eq(mrg_stats(&stats), 0);
    cr_expect_eq(stats.late_completions, 0, "%lu were lost", (unsigned long)stats.late_completions);
    cr_expect_eq(p.sum, (uint64_t)COUNT * (COUNT + 1) / 2);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_destroy_ep(id), 0);
    cr_expect_eq(mrg_destroy_cq(p.cq), 0);
    expect_nothing_left();
}

/* Fewer than asked means that there are no more: places of late completions are filled again. */
Test(borrow, poll_is_short_only_when_the_cq_is_empty, .init = setup_stub)
{
    mrg_cq *cq;
    mrg_id *id = polled_id(&cq);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    struct ibv_cq *raw = raw_send_cq(id);
    for (uintptr_t i = 0; i < 6; i++) {
        if (i % 2)
            stub_push(raw, (stub.last_wr_id & ~(UINT64_C(0x3ffff) << 24)) | UINT64_C(77) << 24, raw_qp(id)->qp_num, 0);
        cr_assert_eq(mrg_post_send(id, (void *)i, memory, 1, mr, IBV_SEND_SIGNALED), 0);
    }
    struct ibv_wc wc[8];
    cr_expect_eq(mrg_poll_cq(cq, 4, wc), 4);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(wc[i].wr_id, (uint64_t)i);
    cr_expect_eq(mrg_poll_cq(cq, 4, wc), 2);
}

/* Our own wr_id out of another QP's completion is not believed. */
Test(borrow, completion_of_another_qp_ends_nothing, .init = setup_stub)
{
    mrg_cq *cq;
    mrg_id *id = polled_id(&cq);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    cr_assert_eq(mrg_post_recv(id, NULL, memory, 1, mr), 0);
    stub_push(raw_send_cq(id), stub.last_wr_id, raw_qp(id)->qp_num + 1, IBV_WC_SUCCESS);
    struct ibv_wc wc;
    cr_expect_eq(mrg_poll_cq(cq, 1, &wc), 0);
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    stub_push(raw_send_cq(id), stub.last_wr_id, raw_qp(id)->qp_num, IBV_WC_SUCCESS);
    cr_expect_eq(mrg_poll_cq(cq, 1, &wc), 1);
    stub_push(raw_send_cq(id), stub.last_wr_id, raw_qp(id)->qp_num, IBV_WC_SUCCESS);
    cr_expect_eq(mrg_poll_cq(cq, 1, &wc), 0, "a second completion of one WR");
    cr_expect_eq(mrg_dereg_mr(mr), 0);
}

/* Deferred release */

Test(borrow, unref_in_flight_releases_at_the_completion, .init = setup_stub)
{
    struct world w = new_world();
    cr_assert_eq(mrg_post_recv(w.id, NULL, memory, 1, w.mr), 0);
    mrg_mr_unref(w.mr);
    cr_expect_eq(stub.live_mrs, 2);
    expect_refused(mrg_post_recv(w.id, NULL, memory, 1, w.mr), ESTALE, "stale-handle");
    expect_refused(mrg_mr_ref(w.mr), ESTALE, "stale-handle");
    expect_refused(mrg_mr_unref(w.mr), ESTALE, "stale-handle");
    expect_refused(mrg_destroy_ep(w.id), EBUSY, "leaked-mr");
    stub_complete_recvs(raw_qp(w.id), 1, IBV_WC_SUCCESS);
    struct ibv_wc wc;
    cr_expect_eq(mrg_get_recv_comp(w.id, &wc), 1);
    cr_expect_eq(stub.live_mrs, 1);
    w.mr = mrg_reg_msgs(w.id, memory, 1);
    end_world(&w);
}

Test(borrow, unref_in_flight_releases_at_the_qps_end, .init = setup_stub)
{
    struct world w = new_world();
    cr_assert_eq(mrg_post_recv(w.id, NULL, memory, 1, w.mr), 0);
    mrg_mr_unref(w.mr);
    cr_expect_eq(mrg_destroy_qp(w.id), 0);
    cr_expect_eq(stub.live_mrs, 1);
    w.mr = mrg_reg_msgs(w.id, memory, 1);
    end_world(&w);
}

Test(borrow, deferred_release_that_the_provider_refuses_becomes_a_finding, .init = setup_stub)
{
    inject_install();
    struct world w = new_world();
    cr_assert_eq(mrg_post_recv(w.id, NULL, memory, 1, w.mr), 0);
    mrg_mr_unref(w.mr);
    stub_complete_recvs(raw_qp(w.id), 1, IBV_WC_SUCCESS);
    struct ibv_wc wc;
    inject_arm(2, EPROTO); /* poll, then dereg */
    cr_expect_eq(mrg_get_recv_comp(w.id, &wc), 1);
    cr_expect_str_eq(inject_hit(), "dereg_mr");
    cr_expect_eq(mrg_finding_count("leaked-mr"), 1);
    cr_expect_eq(stub.live_mrs, 2);
    expect_refused(mrg_mr_addr(w.mr), ESTALE, "stale-handle");
    inject_arm(1, EPROTO); /* and again */
    expect_refused(mrg_destroy_ep(w.id), EBUSY, "leaked-mr");
    cr_expect_str_eq(inject_hit(), "dereg_mr");
    cr_expect_eq(mrg_dereg_mr(w.readonly), 0);
    cr_expect_eq(mrg_destroy_ep(w.id), 0, "the release is tried again first");
    expect_nothing_left();
}

Test(borrow, same_mr_in_several_pieces_counts_each, .init = setup_stub)
{
    struct world w = new_world();
    mrg_sge sgl[] = {{memory, 8, w.mr}, {memory + 8, 8, w.mr}};
    cr_assert_eq(mrg_post_recvv(w.id, NULL, sgl, 2), 0);
    expect_refused(mrg_dereg_mr(w.mr), EBUSY, "dereg-in-flight");
    cr_expect(strstr(mrg_last_finding()->message, "2 pieces"), "%s", mrg_last_finding()->message);
    stub_complete_recvs(raw_qp(w.id), 1, IBV_WC_SUCCESS);
    struct ibv_wc wc;
    cr_expect_eq(mrg_get_recv_comp(w.id, &wc), 1);
    end_world(&w);
}
