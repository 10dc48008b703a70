#include "post.h"

#include <errno.h>

#include "ah.h"
#include "api.h"
#include "judge.h"
#include "mr.h"
#include "mw.h"
#include "options.h"
#include "srq.h"
#include "verbs.h"

/* A post under way; the queue is locked from open to close. */
struct post {
    struct slot *slot; /* a QP, or an SRQ */
    token owner;       /* its */
    struct queues *queues;
    struct queue *queue;
    const struct here *here;
    struct verdict verdict; /* of the first WR in which a rule is broken */
    struct work work;       /* that WR */
    enum begin begun;
    int piece;
};

static bool post_open(struct post *post, token owner, int which, const struct here *here)
{
    struct slot *slot = slot_at(owner);
    post->slot = slot;
    post->owner = owner;
    post->queues = queues_of(slot);
    post->queue = &post->queues->at[which];
    post->here = here;
    post->verdict.rule = RULE_NONE;
    post->begun = borrow_open(post->queue, owner);
    return post->begun == BEGIN_OK;
}

/* Under the policy observe such a WR is posted all the same, and reported; but a bind has an MR: providers look at it. */
static bool observable(enum rule rule, const struct work *work)
{
    if (work->send && work->send->opcode == IBV_WR_BIND_MW && !work->send->bind_mw.bind_info.mr)
        return false;
    return rule == RULE_UNREGISTERED_POST || rule == RULE_OUT_OF_RANGE || rule == RULE_LENGTH_TRUNCATED ||
           rule == RULE_WRONG_PD || rule == RULE_MISSING_ACCESS || rule == RULE_INLINE_TOO_LONG;
}

/* One more WR: whether it may be posted. */
static bool post_begin(struct post *post, const struct work *work)
{
    struct verdict verdict;
    post->begun = work->malformed ? BEGIN_OK : borrow_begin(post->queue, &work->wr, &post->piece);
    if (__builtin_expect(post->begun == BEGIN_OK && judge(work, post->queues, post->slot, &verdict), 1))
        return true;
    bool observed = post->begun == BEGIN_OK && options()->policy == POLICY_OBSERVE && observable(verdict.rule, work);
    if (post->verdict.rule == RULE_NONE || !observed) {
        if (post->begun == BEGIN_OK)
            post->verdict = verdict;
        post->work = *work;
    }
    return observed;
}

/* Refusals, with the queue let go. */

static int refuse_stale(const struct post *post)
{
    const struct wr *wr = &post->work.wr;
    if (post->piece < wr->count)
        return refuse_handle(wr->sgl[post->piece].mr, TYPE_MR, post->here);
    int also = post->piece - wr->count;
    return refuse_handle((void *)(uintptr_t)wr->also[also].handle, wr->also[also].type, post->here);
}

/* A queue that is closed though its owner lives never was open: the QP receives from an SRQ. */
static int refuse_closed(const struct post *post)
{
    bool shared = slot_type(post->slot) == TYPE_QP && object_hold(post->slot, post->owner);
    if (shared) {
        shared = post->queue == &post->queues->at[RECV_QUEUE] && qp_of(post->slot)->shared_recv;
        object_exit(post->slot);
    }
    if (shared)
        return refuse(RULE_WRONG_STATE, post->here, post->slot, "the QP receives from an SRQ: mrg_post_srq_recv");
    return refuse(RULE_STALE_HANDLE, post->here, NULL, "another thread is destroying the %s",
                  type_name(slot_type(post->slot)));
}

static int refuse_post(const struct post *post)
{
    switch (post->begun) {
    case BEGIN_CLOSED:
        return refuse_closed(post);
    case BEGIN_FULL:
        return failed_below(ENOMEM);
    case BEGIN_STALE:
        return refuse_stale(post);
    case BEGIN_TOO_MANY:
        return refuse(RULE_BAD_ARGUMENT, post->here, NULL, "%d pieces, where the queue was granted %u",
                      post->work.wr.count, post->queue->max_sge);
    default:
        return refuse_verdict(&post->verdict, &post->work, post->slot, post->here);
    }
}

static int refuse_unlocked(struct post *post)
{
    borrow_close(post->queue, 0);
    return refuse_post(post);
}

/* The chain is with the device, or as much of it as the device took. */
static int post_close(const struct post *post, int error, bool early)
{
    if (__builtin_expect(!error && post->verdict.rule == RULE_NONE, 1))
        return 0;
    if (post->verdict.rule != RULE_NONE) {
        finding_observed();
        refuse_verdict(&post->verdict, &post->work, post->slot, post->here);
    }
    if (error == EINVAL && early)
        return refuse(RULE_WRONG_STATE, post->here, post->slot, "the QP is not connected yet, so it takes no such WR");
    return error ? failed_below(error) : 0;
}

/* To the device, in groups. The queue is locked: its sges are ours for the moment. */

static int fill(struct ibv_sge *sges, const mrg_sge *sgl, int count, bool is_inline)
{
    int filled = 0;
    for (int i = 0; i < count; i++) {
        const mrg_sge *piece = &sgl[i];
        if (!piece->length)
            continue;
        sges[filled++] = (struct ibv_sge){
            .addr = (uintptr_t)piece->addr,
            .length = (uint32_t)piece->length,
            .lkey = is_inline || !piece->mr
                        ? 0
                        : atomic_load_explicit(&slot_at(handle_token(piece->mr))->hot.lkey, memory_order_relaxed),
        };
    }
    return filled;
}

static void fill_bind(struct ibv_mw_bind_info *raw, const mrg_mw_bind_info *bind)
{
    *raw = (struct ibv_mw_bind_info){
        .mr = bind->mr ? slot_at(handle_token(bind->mr))->hot.raw : NULL,
        .addr = bind->addr,
        .length = bind->length,
        .mw_access_flags = bind->mw_access_flags,
    };
}

/* What only some opcodes and QPs have. */
static void fill_special(struct ibv_send_wr *raw, const mrg_send_wr *wr, const struct qp *qp)
{
    if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        raw->wr.atomic.remote_addr = wr->wr.atomic.remote_addr;
        raw->wr.atomic.compare_add = wr->wr.atomic.compare_add;
        raw->wr.atomic.swap = wr->wr.atomic.swap;
        raw->wr.atomic.rkey = wr->wr.atomic.rkey;
    } else if (qp->raw->qp_type == IBV_QPT_UD) {
        raw->wr.ud.ah = ah_of(slot_at(handle_token(wr->wr.ud.ah)))->raw;
        raw->wr.ud.remote_qpn = wr->wr.ud.remote_qpn;
        raw->wr.ud.remote_qkey = wr->wr.ud.remote_qkey;
    } else {
        raw->wr.rdma.remote_addr = wr->wr.rdma.remote_addr;
        raw->wr.rdma.rkey = wr->wr.rdma.rkey;
    }
    raw->qp_type.xrc.remote_srqn = wr->qp_type.xrc.remote_srqn;
    if (wr->opcode == IBV_WR_BIND_MW) {
        raw->bind_mw.mw = mw_of(slot_at(handle_token(wr->bind_mw.mw)))->raw;
        raw->bind_mw.rkey = mw_of(slot_at(handle_token(wr->bind_mw.mw)))->handed = wr->bind_mw.rkey;
        fill_bind(&raw->bind_mw.bind_info, &wr->bind_mw.bind_info);
    }
    raw->imm_data = wr->imm_data;
    if (wr->opcode == IBV_WR_LOCAL_INV)
        raw->invalidate_rkey = mw_of(slot_at(handle_token(wr->bind_mw.mw)))->handed;
}

static void fill_send(struct ibv_send_wr *raw, struct ibv_sge *sges, const mrg_send_wr *wr, const struct qp *qp)
{
    raw->next = NULL;
    raw->sg_list = sges;
    raw->num_sge = fill(sges, wr->sg_list, wr->num_sge, wr->send_flags & IBV_SEND_INLINE);
    raw->opcode = wr->opcode;
    raw->send_flags = wr->send_flags;
    fill_special(raw, wr, qp);
}

/* A device takes a chain up to the first WR that it refuses, which it names: how many it took of n. */
#define TAKEN(error, raw, bad, n) \
    (!(error) ? (n) : (bad) >= (raw) && (bad) < (raw) + (n) ? (uint64_t)((bad) - (raw)) : 0)

static int hand_sends(struct post *post, const mrg_send_wr *wr, uint64_t *posted)
{
    const struct qp *qp = qp_of(post->slot);
    struct ibv_send_wr raw[GROUP];
    int error = 0;
    while (wr && !error) {
        uint64_t n = 0;
        for (; wr && n < GROUP; wr = wr->next, n++) {
            fill_send(&raw[n], &post->queue->sges[n * post->queue->max_sge], wr, qp);
            raw[n].wr_id = borrow_wr_id(post->queue, *posted + n);
            if (n)
                raw[n - 1].next = &raw[n];
        }
        struct ibv_send_wr *bad = NULL;
        error = verbs.post_send(qp->raw, raw, &bad);
        *posted += TAKEN(error, raw, bad, n);
    }
    return error;
}

static int hand_recvs(struct post *post, const mrg_recv_wr *wr, uint64_t *posted)
{
    bool shared = slot_type(post->slot) == TYPE_SRQ;
    struct ibv_recv_wr raw[GROUP];
    int error = 0;
    while (wr && !error) {
        uint64_t n = 0;
        for (; wr && n < GROUP; wr = wr->next, n++) {
            struct ibv_sge *sges = &post->queue->sges[n * post->queue->max_sge];
            raw[n].wr_id = borrow_wr_id(post->queue, *posted + n);
            raw[n].next = NULL;
            raw[n].sg_list = sges;
            raw[n].num_sge = fill(sges, wr->sg_list, wr->num_sge, false);
            if (n)
                raw[n - 1].next = &raw[n];
        }
        struct ibv_recv_wr *bad = NULL;
        error = shared ? verbs.post_srq_recv(srq_of(post->slot)->raw, raw, &bad)
                       : verbs.post_recv(qp_of(post->slot)->raw, raw, &bad);
        *posted += TAKEN(error, raw, bad, n);
    }
    return error;
}

/* Windows: marked before their WR is posted, and changed, or not, with it. */

/* What the window is bound to afterwards: to nothing if it is invalidated, or bound to no bytes. */
static token window_to(const mrg_send_wr *wr)
{
    bool opens = wr->opcode == IBV_WR_BIND_MW && wr->bind_mw.bind_info.length;
    return opens ? handle_token(wr->bind_mw.bind_info.mr) : 0;
}

static bool windows_begin(struct post *post, const mrg_send_wr *wr)
{
    if (!changes_window(wr) || mw_change_begin(slot_at(handle_token(wr->bind_mw.mw)), post->queue, window_to(wr)))
        return true;
    post->verdict = (struct verdict){RULE_WRONG_STATE, -1, 0, "another WR that binds this MW is being posted"};
    post->work.send = wr;
    return false;
}

/* From first up to end, the first posted of them were. */
static void windows_end(struct post *post, const mrg_send_wr *first, const mrg_send_wr *end, uint64_t posted)
{
    struct finished *finished = &post->queue->finished;
    for (const mrg_send_wr *wr = first; wr != end; wr = wr->next) {
        bool done = posted > 0;
        posted -= done;
        if (!changes_window(wr))
            continue;
        struct slot *mw = slot_at(handle_token(wr->bind_mw.mw));
        if (done)
            mw_change_done(mw, window_to(wr), wr->opcode == IBV_WR_BIND_MW ? wr->bind_mw.rkey : 0, finished);
        else
            mw_change_undone(mw, window_to(wr), finished);
    }
}

/* Chains */

static const mrg_send_wr *nth_send(const mrg_send_wr *wr, uint64_t n)
{
    while (n--)
        wr = wr->next;
    return wr;
}

static const mrg_recv_wr *nth_recv(const mrg_recv_wr *wr, uint64_t n)
{
    while (n--)
        wr = wr->next;
    return wr;
}

int post_sends(token owner, const mrg_send_wr *first, const mrg_send_wr **bad, const struct here *here)
{
    struct post post;
    struct work work;
    const mrg_send_wr *wr = first;
    *bad = first;
    if (!post_open(&post, owner, SEND_QUEUE, here))
        return refuse_post(&post);
    const struct qp *qp = qp_of(post.slot);
    do {
        work_of_send(&work, qp, wr);
        if (!post_begin(&post, &work) || !windows_begin(&post, wr)) {
            windows_end(&post, first, wr, 0);
            return refuse_unlocked(&post);
        }
    } while ((wr = wr->next));
    uint64_t posted = 0;
    int error = hand_sends(&post, first, &posted);
    bool early = qp->raw->state < IBV_QPS_RTS;
    *bad = nth_send(first, posted);
    windows_end(&post, first, NULL, posted);
    borrow_close(post.queue, posted);
    return post_close(&post, error, early);
}

int post_recvs(token owner, const mrg_recv_wr *first, const mrg_recv_wr **bad, const struct here *here)
{
    struct post post;
    struct work work;
    const mrg_recv_wr *wr = first;
    *bad = first;
    if (!post_open(&post, owner, RECV_QUEUE, here))
        return refuse_post(&post);
    do {
        work_of_recv(&work, wr);
        if (!post_begin(&post, &work))
            return refuse_unlocked(&post);
    } while ((wr = wr->next));
    uint64_t posted = 0;
    int error = hand_recvs(&post, first, &posted);
    bool early = slot_type(post.slot) == TYPE_QP && qp_of(post.slot)->raw->state < IBV_QPS_INIT;
    *bad = nth_recv(first, posted);
    borrow_close(post.queue, posted);
    return post_close(&post, error, early);
}

/*
 * A window is closed without an MR, whose key librxe looks at all the same: it gets the one that the window is bound to,
 * which cannot go meanwhile. False: there is none, so there is nothing to close.
 */
static bool fill_close(struct ibv_mw_bind_info *raw, struct slot *mw)
{
    token bound = mw_bound_to(mw);
    if (!bound)
        return false;
    raw->mr = slot_at(bound)->hot.raw;
    raw->addr = slot_at(bound)->hot.addr;
    return true;
}

/* libibverbs posts the bind of a window of type 1 itself, and answers with the window's new key. */
int post_bind(token owner, const mrg_send_wr *wr, const struct here *here)
{
    struct post post;
    struct work work;
    if (!post_open(&post, owner, SEND_QUEUE, here))
        return refuse_post(&post);
    const struct qp *qp = qp_of(post.slot);
    work_of_send(&work, qp, wr);
    work.type_1 = true;
    if (!post_begin(&post, &work) || !windows_begin(&post, wr))
        return refuse_unlocked(&post);
    struct mw *mw = mw_of(slot_at(handle_token(wr->bind_mw.mw)));
    struct ibv_mw_bind raw = {.wr_id = borrow_wr_id(post.queue, 0), .send_flags = wr->send_flags};
    fill_bind(&raw.bind_info, &wr->bind_mw.bind_info);
    if (!raw.bind_info.mr && !fill_close(&raw.bind_info, slot_at(handle_token(wr->bind_mw.mw)))) {
        post.verdict =
            (struct verdict){RULE_WRONG_STATE, -1, 0, "the MW is bound to nothing, so there is nothing to close"};
        post.work.send = wr;
        windows_end(&post, wr, NULL, 0);
        return refuse_unlocked(&post);
    }
    int error = verbs.bind_mw(qp->raw, mw->raw, &raw);
    mrg_send_wr done = *wr;
    done.next = NULL;
    done.bind_mw.rkey = mw->raw->rkey;
    windows_end(&post, &done, NULL, !error);
    borrow_close(post.queue, !error);
    return post_close(&post, error, qp->raw->state < IBV_QPS_RTS);
}
