/* Asynchronous events, children of what they are about; and devices that go away. */
#include "fixture.h"

#include "handle.h"

TestSuite(async, .init = setup_stub);

static char memory[256];

static mrg_async_event *next_event(mrg_context *context, enum ibv_event_type type, void *element)
{
    mrg_async_event *event = NULL;
    stub_async(type, element);
    cr_assert_eq(mrg_get_async_event(context, &event), 0);
    cr_expect_eq(mrg_async_event_type(event), (int)type);
    return event;
}

Test(async, each_event_keeps_what_it_is_about)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_srq_init_attr attr = {.attr = {4, 1, 0}};
    mrg_srq *srq = mrg_ibv_create_srq(rig.pd, &attr);
    mrg_qp *qp = rig_qp(&rig, IBV_QPT_RC, srq);
    const enum ibv_event_type of_qp[] = {IBV_EVENT_QP_FATAL,     IBV_EVENT_QP_REQ_ERR,         IBV_EVENT_QP_ACCESS_ERR,
                                         IBV_EVENT_COMM_EST,     IBV_EVENT_SQ_DRAINED,         IBV_EVENT_PATH_MIG,
                                         IBV_EVENT_PATH_MIG_ERR, IBV_EVENT_QP_LAST_WQE_REACHED};
    for (size_t i = 0; i < sizeof of_qp / sizeof *of_qp; i++) {
        mrg_async_event *event = next_event(rig.context, of_qp[i], mrg_qp_raw(qp));
        cr_expect_eq(mrg_async_event_qp(event), qp);
        cr_expect(!mrg_async_event_cq(event) && !mrg_async_event_srq(event) && !mrg_async_event_port(event));
        expect_refused(mrg_ibv_destroy_qp(qp), EBUSY, "unacked-event");
        cr_expect_eq(mrg_ack_async_event(event), 0);
        expect_refused(mrg_ack_async_event(event), ESTALE, "stale-handle");
    }
    mrg_async_event *on_cq = next_event(rig.context, IBV_EVENT_CQ_ERR, mrg_cq_raw(rig.cq));
    mrg_async_event *on_srq = next_event(rig.context, IBV_EVENT_SRQ_LIMIT_REACHED, mrg_qp_raw(qp)->srq);
    cr_expect_eq(mrg_async_event_cq(on_cq), rig.cq);
    cr_expect_null(mrg_async_event_qp(on_cq));
    cr_expect_eq(mrg_async_event_srq(on_srq), srq);
    cr_expect_eq(mrg_ibv_destroy_qp(qp), 0);
    expect_refused(mrg_ibv_destroy_srq(srq), EBUSY, "unacked-event");
    cr_expect_eq(mrg_ibv_destroy_qp(rig.qp), 0);
    expect_refused(mrg_destroy_cq(rig.cq), EBUSY, "unacked-event");
    cr_expect_eq(mrg_ack_async_event(on_cq), 0);
    cr_expect_eq(mrg_ack_async_event(on_srq), 0);
    cr_expect_eq(stub.acked_async, 10);
    cr_expect_eq(mrg_ibv_destroy_srq(srq), 0);
    rig.qp = rig_qp(&rig, IBV_QPT_RC, NULL);
    end_rig(&rig);
    expect_nothing_left();
}

/* Of a port, or about an object that is not ours, an event is the device's. */
Test(async, event_of_the_device)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    void *port = (void *)(uintptr_t)2;
    mrg_async_event *event = next_event(rig.context, IBV_EVENT_PORT_ACTIVE, port);
    cr_expect_eq(mrg_async_event_port(event), 2);
    cr_expect(!mrg_async_event_qp(event) && !mrg_async_event_cq(event) && !mrg_async_event_srq(event));
    cr_expect_eq(mrg_ibv_destroy_qp(rig.qp), 0);
    cr_expect_eq(mrg_destroy_cq(rig.cq), 0);
    cr_expect_eq(mrg_dealloc_pd(rig.pd), 0);
    expect_refused(mrg_close_device(rig.context), EBUSY, "unacked-event");
    cr_expect_eq(mrg_ack_async_event(event), 0);
    struct ibv_qp foreign = {.qp_context = memory};
    event = next_event(rig.context, IBV_EVENT_QP_FATAL, &foreign);
    cr_expect_null(mrg_async_event_qp(event));
    expect_refused(mrg_close_device(rig.context), EBUSY, "unacked-event");
    cr_expect_eq(mrg_ack_async_event(event), 0);
    event = next_event(rig.context, IBV_EVENT_WQ_FATAL, memory);
    cr_expect_eq(mrg_async_event_port(event), 0, "it is about a work queue");
    cr_expect_eq(mrg_ack_async_event(event), 0);
    expect_fails(mrg_get_async_event(rig.context, &event), EAGAIN);
    expect_refused(mrg_get_async_event(rig.context, NULL), EINVAL, "bad-argument");
    cr_expect_eq(mrg_context_async_fd(rig.context), mrg_context_raw(rig.context)->async_fd);
    cr_expect_eq(mrg_close_device(rig.context), 0);
    expect_nothing_left();
}

/* The QP is on its way out when its event comes: acknowledged, since its destruction waits for that. */
Test(async, event_of_what_is_going_is_not_told)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    struct slot *slot = slot_at(handle_token(rig.qp));
    mrg_async_event *event;
    atomic_store(&slot->hot.word, word_with(handle_token(rig.qp), STATE_FREEING));
    stub_async(IBV_EVENT_COMM_EST, rig.raw);
    expect_fails(mrg_get_async_event(rig.context, &event), EAGAIN);
    cr_expect_eq(stub.acked_async, 1);
    atomic_store(&slot->hot.word, word_with(handle_token(rig.qp), STATE_LIVE));
    end_rig(&rig);
    expect_nothing_left();
}

/* Devices that are gone */

static int answer;         /* what every release answers */
static bool drops;         /* though the object is gone: nothing is to be left for LeakSanitizer */
static struct verbs below; /* the stub's */

#define FAILING(name, verb, type)      \
    static int name(type *object)      \
    {                                  \
        if (drops)                     \
            below.verb(object);        \
        return errno = answer, answer; \
    }
FAILING(fail_mr, dereg_mr, struct ibv_mr)
FAILING(fail_mw, dealloc_mw, struct ibv_mw)
FAILING(fail_ah, destroy_ah, struct ibv_ah)
FAILING(fail_qp, destroy_qp, struct ibv_qp)
FAILING(fail_srq, destroy_srq, struct ibv_srq)
FAILING(fail_cq, destroy_cq, struct ibv_cq)
FAILING(fail_channel, destroy_comp_channel, struct ibv_comp_channel)
FAILING(fail_pd, dealloc_pd, struct ibv_pd)
FAILING(fail_td, dealloc_td, struct ibv_td)
FAILING(fail_xrcd, close_xrcd, struct ibv_xrcd)
FAILING(fail_context, close_device, struct ibv_context)
FAILING(fail_id, destroy_id, struct rdma_cm_id)

static void fail_everything(int error, bool dropping)
{
    if (verbs.dereg_mr != fail_mr)
        below = verbs;
    answer = error;
    drops = dropping;
    verbs.dereg_mr = fail_mr, verbs.dealloc_mw = fail_mw, verbs.destroy_ah = fail_ah, verbs.destroy_qp = fail_qp;
    verbs.destroy_srq = fail_srq, verbs.destroy_cq = fail_cq, verbs.destroy_comp_channel = fail_channel;
    verbs.dealloc_pd = fail_pd, verbs.dealloc_td = fail_td, verbs.close_xrcd = fail_xrcd;
    verbs.close_device = fail_context, verbs.destroy_id = fail_id;
}

struct everything {
    struct rig rig;
    mrg_td *td;
    mrg_xrcd *xrcd;
    mrg_comp_channel *channel;
    mrg_cq *cq;
    mrg_srq *srq;
    mrg_ah *ah;
    mrg_mw *mw;
    mrg_mr *mr;
};

static struct everything make_everything(void)
{
    struct everything e = {.rig = new_rig(IBV_QPT_RC)};
    struct ibv_td_init_attr td = {0};
    struct ibv_xrcd_init_attr xrcd = {0};
    struct ibv_ah_attr ah = {0};
    mrg_srq_init_attr srq = {.attr = {1, 1, 0}};
    e.td = mrg_alloc_td(e.rig.context, &td);
    e.xrcd = mrg_open_xrcd(e.rig.context, &xrcd);
    e.channel = mrg_create_comp_channel(e.rig.context);
    e.cq = mrg_create_cq(e.rig.context, 4, NULL, e.channel, 0);
    e.srq = mrg_ibv_create_srq(e.rig.pd, &srq);
    e.ah = mrg_create_ah(e.rig.pd, &ah);
    e.mw = mrg_alloc_mw(e.rig.pd, IBV_MW_TYPE_2);
    e.mr = mrg_reg_mr(e.rig.pd, memory, sizeof memory, 0);
    cr_assert(e.td && e.xrcd && e.channel && e.cq && e.srq && e.ah && e.mw && e.mr);
    return e;
}

/* Each release, in order; result and errno are those of each. */
static void release_everything(struct everything *e, int result, int error)
{
    int results[] = {mrg_dereg_mr(e->mr),         mrg_dealloc_mw(e->mw),         mrg_destroy_ah(e->ah),
                     mrg_ibv_destroy_srq(e->srq), mrg_ibv_destroy_qp(e->rig.qp), mrg_destroy_cq(e->cq),
                     mrg_destroy_cq(e->rig.cq),   mrg_close_xrcd(e->xrcd),       mrg_dealloc_td(e->td)};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        cr_expect_eq(results[i], result, "release %zu", i);
    if (result)
        cr_expect_eq(errno, error);
}

Test(async, removed_device_keeps_no_handle_alive)
{
    struct everything e = make_everything();
    fail_everything(EBUSY, false);
    release_everything(&e, -1, EBUSY);
    cr_expect_eq(mrg_finding_count("device-removed"), 0);
    fail_everything(EIO, true);
    release_everything(&e, 0, 0);
    answer = EBUSY; /* what libibverbs says of the channel of a CQ that it could not destroy */
    cr_expect_eq(mrg_destroy_comp_channel(e.channel), 0);
    cr_expect_eq(mrg_dealloc_pd(e.rig.pd), 0, "whatever the answer, now");
    cr_expect_eq(mrg_close_device(e.rig.context), 0);
    cr_expect_eq(mrg_finding_count("device-removed"), 1);
    expect_refused(mrg_dereg_mr(e.mr), ESTALE, "stale-handle");
    expect_refused(mrg_close_device(e.rig.context), ESTALE, "stale-handle");
    expect_nothing_left();
}

static int fail_busy_channel(struct ibv_comp_channel *channel)
{
    below.destroy_comp_channel(channel);
    return EBUSY;
}

/* An id's own CQs have channels, which libibverbs keeps for the CQs that it could not destroy. */
Test(async, endpoint_on_a_removed_device_goes)
{
    mrg_id *id = connected_id(NULL);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    cr_assert_eq(mrg_post_recv(id, NULL, memory, 1, mr), 0);
    fail_everything(EIO, true);
    verbs.destroy_comp_channel = fail_busy_channel;
    mrg_mr_unref(mr);
    cr_expect_eq(mrg_destroy_qp(id), 0);
    cr_expect_eq(mrg_destroy_ep(id), 0);
    cr_expect_eq(mrg_finding_count("device-removed"), 1);
    cr_expect_eq(mrg_finding_count("leaked-mr"), 0);
    expect_nothing_left();
}

Test(async, fatal_event_says_that_the_device_is_gone)
{
    struct everything e = make_everything();
    mrg_async_event *event = next_event(e.rig.context, IBV_EVENT_DEVICE_FATAL, memory);
    cr_expect_eq(mrg_finding_count("device-removed"), 1);
    cr_expect_eq(mrg_ack_async_event(event), 0);
    event = next_event(e.rig.context, IBV_EVENT_DEVICE_FATAL, memory);
    cr_expect_eq(mrg_finding_count("device-removed"), 1, "once");
    cr_expect_eq(mrg_ack_async_event(event), 0);
    struct rig other = new_rig(IBV_QPT_RC);
    fail_everything(EBUSY, false);
    expect_fails(mrg_ibv_destroy_qp(other.qp), EBUSY);
    drops = true;
    release_everything(&e, 0, 0);
    cr_expect_eq(mrg_destroy_comp_channel(e.channel), 0);
    cr_expect_eq(mrg_dealloc_pd(e.rig.pd), 0);
    cr_expect_eq(mrg_close_device(e.rig.context), 0);
    verbs = below;
    end_rig(&other);
    expect_nothing_left();
}

/* Its context is closed, so the address may be another device's: what that refuses is refused. */
Test(async, device_that_comes_back_is_believed_again)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    cr_expect_eq(mrg_ack_async_event(next_event(rig.context, IBV_EVENT_DEVICE_FATAL, memory)), 0);
    end_rig(&rig);
    rig = new_rig(IBV_QPT_RC); /* at the same address, as a rule */
    fail_everything(EBUSY, false);
    expect_fails(mrg_ibv_destroy_qp(rig.qp), EBUSY);
    verbs = below;
    end_rig(&rig);
    expect_nothing_left();
}
