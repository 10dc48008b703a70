#include "post.h"

#include <errno.h>

#include "api.h"
#include "judge.h"
#include "options.h"
#include "quick.h"
#include "raw.h"
#include "srq.h"
#include "verbs.h"

/* Why a chain is refused, or what was posted all the same under the policy observe. */
struct reason {
    enum begin begun;       /* BEGIN_RULE: by the verdict */
    struct verdict verdict; /* RULE_NONE: nothing to say */
    const void *stale;      /* BEGIN_STALE: a handle, and what it should be one of */
    enum type type;
    const mrg_send_wr *send; /* of which WR; NULL: a receive */
    const mrg_sge *sgl;      /* its pieces */
    int count;
};

/* A post under way, inside its queue's gate from post_open to borrow_close. */
struct post {
    struct slot *slot; /* a QP, or an SRQ */
    token owner;       /* its */
    struct queues *queues;
    struct queue *queue;
    const struct here *here;
    unsigned int way;
    uint64_t first;         /* the position of the chain's first record, */
    uint64_t next;          /* and behind the last one taken */
    struct reason refused;  /* of the first WR in which a rule is broken */
    struct reason observed; /* likewise */
    struct alias alias;     /* debug build: the first of its pieces that overlaps another in flight */
};

static inline bool post_open(struct post *post, token owner, int which, const struct here *here)
{
    post->slot = slot_at(owner);
    post->owner = owner;
    post->queues = queues_of(post->slot);
    post->queue = &post->queues->at[which];
    post->here = here;
    post->way = gate_way(&post->queue->posts, owner);
    post->observed.verdict.rule = RULE_NONE;
    if (DEBUG_BUILD)
        post->alias.mr = NULL;
    post->refused.begun = borrow_open(post->queue, owner, post->way, &post->first);
    post->next = post->first;
    return __builtin_expect(post->refused.begun == BEGIN_OK, 1);
}

/* Refusals, from outside the gate */

static int refuse_closed(const struct post *post)
{
    /* A queue that is closed though its owner lives never was open: the QP receives from an SRQ. */
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

static __attribute__((noinline)) int refuse_post(const struct post *post)
{
    const struct reason *reason = &post->refused;
    switch (reason->begun) {
    case BEGIN_CLOSED:
        return refuse_closed(post);
    case BEGIN_FULL:
        return failed_below(ENOMEM);
    case BEGIN_STALE:
        return refuse_handle(reason->stale, reason->type, post->here);
    case BEGIN_TOO_MANY:
        return refuse(RULE_BAD_ARGUMENT, post->here, NULL, "%d pieces, where the queue was granted %u", reason->count,
                      post->queue->max_sge);
    default:
        return refuse_verdict(&reason->verdict, reason->send, reason->sgl, post->slot, post->here);
    }
}

/* The device has the first posted WRs of those begun. */
static inline void close_posted(const struct post *post, uint64_t posted)
{
    if (__builtin_expect(post->next != post->first + posted, 0))
        borrow_withdraw(post->queue, post->first + posted, post->next);
    borrow_close(post->queue, post->way);
}

static __attribute__((noinline)) int withdraw_and_refuse(struct post *post)
{
    close_posted(post, 0);
    return refuse_post(post);
}

/* The device refused a WR, early: before the QP's state allowed it. */
static int refused_below(const struct slot *owner, int error, bool early, const struct here *here)
{
    if (error == EINVAL && early)
        return refuse(RULE_WRONG_STATE, here, owner, "the QP is not connected yet, so it takes no such WR");
    return failed_below(error);
}

static inline bool nothing_to_report(const struct post *post)
{
    return post->observed.verdict.rule == RULE_NONE && !(DEBUG_BUILD && post->alias.mr);
}

/* The device refused a WR, or there is something to report. */
static __attribute__((noinline)) int posted_with(const struct post *post, int error, bool early)
{
    if (DEBUG_BUILD && post->alias.mr)
        alias_tell(&post->alias);
    const struct reason *observed = &post->observed;
    if (observed->verdict.rule != RULE_NONE) {
        finding_observed();
        refuse_verdict(&observed->verdict, observed->send, observed->sgl, post->slot, post->here);
    }
    return error ? refused_below(post->slot, error, early, post->here) : 0;
}

/* Judging, and what the device gets of the pieces */

/* Under the policy observe such a WR is posted all the same, and reported; but a bind has an MR: providers look at it. */
static bool observable(enum rule rule, const mrg_send_wr *send)
{
    if (send && send->opcode == IBV_WR_BIND_MW && !send->bind_mw.bind_info.mr)
        return false;
    return rule == RULE_UNREGISTERED_POST || rule == RULE_OUT_OF_RANGE || rule == RULE_LENGTH_TRUNCATED ||
           rule == RULE_WRONG_PD || rule == RULE_MISSING_ACCESS || rule == RULE_INLINE_TOO_LONG;
}

/* A rule is broken: whether the WR goes on all the same. */
static __attribute__((noinline)) bool broken(struct post *post, const mrg_send_wr *send, const mrg_sge *sgl,
                                             const struct verdict *verdict)
{
    struct reason reason = {.begun = BEGIN_RULE, .verdict = *verdict, .send = send, .sgl = sgl};
    if (options()->policy != POLICY_OBSERVE || !observable(verdict->rule, send)) {
        post->refused = reason;
        return false;
    }
    if (post->observed.verdict.rule == RULE_NONE)
        post->observed = reason;
    return true;
}

static __attribute__((noinline)) bool stale(struct post *post, const void *handle, enum type type)
{
    post->refused = (struct reason){.begun = BEGIN_STALE, .stale = handle, .type = type};
    return false;
}

/* What the pieces of a WR are judged by. */
struct pieces {
    const mrg_send_wr *send;
    const mrg_sge *sgl;
    int count;
    uint32_t access;     /* what the device does to them */
    bool is_inline;      /* so that they need no MR */
    uint32_t max_inline; /* bytes */
};

/* Its MR stays, or there is none: judged. */
static inline enum rule judge_piece(const mrg_sge *piece, const struct pieces *pieces, uint32_t pd)
{
    if (__builtin_expect(pieces->is_inline, 0))
        return piece->length > UINT32_MAX ? RULE_LENGTH_TRUNCATED : RULE_NONE;
    struct sge_facts sge = {(uintptr_t)piece->addr, piece->length, pieces->access, pd};
    if (__builtin_expect(!piece->mr, 0))
        return check_sge(&sge, NULL);
    struct mr_facts mr = mr_facts(slot_at(handle_token(piece->mr)));
    return check_sge(&sge, &mr);
}

static inline bool piece_stays(const mrg_sge *piece, const struct pieces *pieces)
{
    token t = handle_token(piece->mr);
    return pieces->is_inline || !t || __builtin_expect(word_now(slot_at(t)) == word_with(t, STATE_LIVE), 1) ||
           object_stays(slot_at(t), t, false);
}

static inline uint32_t lkey_of(const mrg_sge *piece, const struct pieces *pieces)
{
    if (__builtin_expect(pieces->is_inline || !piece->mr, 0))
        return 0;
    return atomic_load_explicit(&slot_at(handle_token(piece->mr))->hot.lkey, memory_order_relaxed);
}

/* The i-th piece with bytes of the post's n-th WR is about to be in flight. */
static void note_use(struct post *post, const mrg_sge *piece, const struct pieces *pieces, uint64_t n, int i)
{
    const struct slot *mr = slot_at(handle_token(piece->mr));
    if (!piece->mr || pieces->is_inline || mr->hot.elsewhere)
        return;
    uint64_t start = (uintptr_t)((const struct ibv_mr *)mr->hot.raw)->addr;
    struct use use = {.addr = (uintptr_t)piece->addr - mr->hot.addr + start,
                      .length = piece->length,
                      .writes = pieces->access & IBV_ACCESS_LOCAL_WRITE,
                      .here = *post->here};
    const struct record *record = record_of(post->queue, record_at(post->queue, post->first + n));
    alias_begin(&uses_of(post->queue, record)[i], &use, mr, &post->alias);
}

/* Judges the pieces of the n-th WR and writes those with bytes to sges: how many; -1: the WR is refused. */
static __attribute__((noinline)) int ready_pieces(struct post *post, const struct pieces *pieces, uint64_t n,
                                                  struct ibv_sge *sges)
{
    uint64_t bytes = 0;
    int filled = 0;
    for (int i = 0; i < pieces->count; i++) {
        const mrg_sge *piece = &pieces->sgl[i];
        if (__builtin_expect(!piece->length, 0))
            continue;
        if (__builtin_expect(!piece_stays(piece, pieces), 0))
            return stale(post, piece->mr, TYPE_MR), -1;
        enum rule rule = judge_piece(piece, pieces, post->queues->pd);
        if (__builtin_expect(rule != RULE_NONE, 0) &&
            !broken(post, pieces->send, pieces->sgl, &(struct verdict){.rule = rule, .piece = i}))
            return -1;
        if (DEBUG_BUILD)
            note_use(post, piece, pieces, n, filled);
        sges[filled].addr = (uintptr_t)piece->addr;
        sges[filled].length = (uint32_t)piece->length;
        sges[filled++].lkey = lkey_of(piece, pieces);
        bytes += piece->length;
    }
    enum rule rule = check_message(bytes, pieces->is_inline, pieces->max_inline);
    if (__builtin_expect(rule != RULE_NONE, 0) &&
        !broken(post, pieces->send, pieces->sgl, &(struct verdict){.rule = rule, .piece = -1, .bytes = bytes}))
        return -1;
    return filled;
}

/*
 * Likewise where no rule is broken and each piece has its MR: most posts. -1: that is not so, and ready_pieces looks anew and
 * says why.
 */
static ALWAYS_INLINE int ready_plain(struct post *post, const mrg_sge *sgl, int count, uint32_t access,
                                     struct ibv_sge *sges)
{
    uint32_t pd = post->queues->pd;
    uint64_t bytes = 0;
    struct ibv_sge *next = sges;
    for (; count; count--, sgl++) {
        token t = handle_token(sgl->mr);
        struct slot *slot = slot_at(t);
        bytes += sgl->length;
        if (__builtin_expect(!sgl->length, 0))
            continue;
        if (__builtin_expect(DEBUG_BUILD || !t, 0) || !mr_lends(slot, t, (uintptr_t)sgl->addr, sgl->length, access, pd))
            return -1;
        *next++ = (struct ibv_sge){(uintptr_t)sgl->addr, (uint32_t)sgl->length,
                                   atomic_load_explicit(&slot->hot.lkey, memory_order_relaxed)};
    }
    return __builtin_expect(bytes <= MESSAGE_MAX, 1) ? (int)(next - sges) : -1;
}

/*
 * A chain goes to the device in groups. All of it is judged before its first group goes, what is behind that one without
 * being made ready: that is done when its group's turn comes. This is the place of the n-th WR's pieces.
 */
static inline struct ibv_sge *sges_at(const struct queue *queue, uint64_t n, bool judged_only)
{
    return &queue->sges[(judged_only ? GROUP : n % GROUP) * queue->max_sge];
}

/* A device takes a chain up to the first WR that it refuses, which it names: how many it took of n. */
#define TAKEN(error, raw, bad, n) \
    (!(error) ? (n) : (bad) >= (raw) && (bad) < (raw) + (n) ? (uint64_t)((bad) - (raw)) : 0)

/* Windows: marked before their WR is posted, and changed, or not, with it. */

/* What the window is bound to afterwards: to nothing if it is invalidated, or bound to no bytes. */
static token window_to(const mrg_send_wr *wr)
{
    bool opens = wr->opcode == IBV_WR_BIND_MW && wr->bind_mw.bind_info.length;
    return opens ? handle_token(wr->bind_mw.bind_info.mr) : 0;
}

static bool window_begin(struct post *post, const mrg_send_wr *wr)
{
    if (mw_change_begin(slot_at(handle_token(wr->bind_mw.mw)), post->queue, window_to(wr)))
        return true;
    return broken(post, wr, NULL,
                  &(struct verdict){RULE_WRONG_STATE, -1, 0, "another WR that binds this MW is being posted"});
}

/* From first up to end, the first posted of them were. */
static __attribute__((noinline)) void windows_end(struct post *post, const mrg_send_wr *first, const mrg_send_wr *end,
                                                  uint64_t posted)
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

/* Sends that are out of the ordinary */

static bool too_many(struct post *post, int count)
{
    post->refused = (struct reason){.begun = BEGIN_TOO_MANY, .count = count};
    return false;
}

static __attribute__((noinline)) bool begin_failed(struct post *post, enum begin begun, token t)
{
    post->refused = (struct reason){.begun = begun, .stale = (void *)(uintptr_t)t, .type = TYPE_MR};
    return false;
}

static ALWAYS_INLINE enum begin begin(struct post *post, uint64_t wr_id, const mrg_sge *sgl, int count, token *t)
{
    enum begin begun = borrow_begin(post->queue, post->next, wr_id, sgl, count, t);
    post->next += begun == BEGIN_OK || begun == BEGIN_STALE;
    return begun;
}

static __attribute__((noinline)) bool begin_odd(struct post *post, const struct odd *odd, uint64_t wr_id,
                                                const mrg_sge *sgl, int count)
{
    token t = 0;
    if (odd->malformed)
        return broken(post, odd->send, sgl, &(struct verdict){RULE_BAD_ARGUMENT, -1, 0, odd->malformed});
    if ((uint32_t)count > post->queue->max_sge)
        return too_many(post, count);
    bool is_inline = odd->send && (odd->send->send_flags & IBV_SEND_INLINE);
    enum begin begun = begin(post, wr_id, sgl, is_inline ? 0 : count, &t);
    if (begun != BEGIN_OK)
        return begin_failed(post, begun, t);
    for (int i = 0; i < odd->also.count; i++)
        if (!borrow_also(post->queue, post->next - 1, odd->also.at[i].handle, odd->also.at[i].type))
            return stale(post, (void *)(uintptr_t)odd->also.at[i].handle, odd->also.at[i].type);
    return true;
}

/* first: it was not made ready before, so a window that it changes is marked. */
static __attribute__((noinline)) int ready_odd(struct post *post, const mrg_send_wr *wr, bool type_1, uint64_t n,
                                               bool first, struct ibv_sge *sges)
{
    const struct qp *qp = qp_of(post->slot);
    struct odd odd;
    struct verdict verdict;
    token gone;
    odd_send(&odd, qp, wr, type_1);
    if (!borrow_stays(post->queue, post->first + n, odd.also.optional, &gone))
        return stale(post, (void *)(uintptr_t)gone, token_type(gone)), -1;
    if (!judge_odd(&odd, qp, post->queues, &verdict) && !broken(post, wr, wr->sg_list, &verdict))
        return -1;
    struct pieces pieces = {
        wr, wr->sg_list, wr->num_sge, access_of_send(qp, wr->opcode), wr->send_flags & IBV_SEND_INLINE, qp->max_inline};
    int filled = ready_pieces(post, &pieces, n, sges);
    return first && filled >= 0 && changes_window(wr) && !window_begin(post, wr) ? -1 : filled;
}

/* Sends */

static __attribute__((noinline)) int ready_slowly(struct post *post, const mrg_send_wr *wr, bool plain, uint64_t n,
                                                  bool first, struct ibv_sge *sges)
{
    struct pieces pieces = {wr, wr->sg_list, wr->num_sge, access_of_send(qp_of(post->slot), wr->opcode), false, 0};
    return plain ? ready_pieces(post, &pieces, n, sges) : ready_odd(post, wr, false, n, first, sges);
}

static __attribute__((noinline)) bool begin_odd_send(struct post *post, const struct qp *qp, const mrg_send_wr *wr)
{
    struct odd odd;
    odd_send(&odd, qp, wr, false);
    return begin_odd(post, &odd, wr->wr_id, wr->sg_list, wr->num_sge);
}

static ALWAYS_INLINE bool begin_send(struct post *post, const struct qp *qp, const mrg_send_wr *wr, bool *plain)
{
    token t = 0;
    *plain = is_plain(qp, post->queue, wr);
    if (__builtin_expect(!*plain, 0))
        return begin_odd_send(post, qp, wr);
    enum begin begun = begin(post, wr->wr_id, wr->sg_list, wr->num_sge, &t);
    return __builtin_expect(begun == BEGIN_OK, 1) || begin_failed(post, begun, t);
}

/* The n-th WR of the chain is judged and made ready for the device. first: it was not before. */
static ALWAYS_INLINE bool ready_send(struct post *post, const struct qp *qp, const mrg_send_wr *wr, uint64_t n,
                                     bool plain, bool first, struct ibv_send_wr *raw)
{
    struct ibv_sge *sges = sges_at(post->queue, n, false);
    int filled = -1;
    if (__builtin_expect(plain, 1))
        filled = ready_plain(post, wr->sg_list, wr->num_sge, access_of_send(qp, wr->opcode), sges);
    if (__builtin_expect(filled < 0, 0))
        filled = ready_slowly(post, wr, plain, n, first, sges);
    if (__builtin_expect(filled < 0, 0))
        return false;
    raw->wr_id = borrow_wr_id(post->queue, post->first + n);
    raw->sg_list = sges;
    raw->num_sge = filled;
    raw_send(raw, wr);
    if (__builtin_expect(!plain, 0))
        raw_odd(raw, wr, qp);
    return true;
}

/* What is behind the first group is judged before that goes: NULL, or the WR that is refused. */
static __attribute__((noinline)) const mrg_send_wr *refused_behind(struct post *post, const mrg_send_wr *wr,
                                                                   const mrg_send_wr *end)
{
    struct ibv_sge *sges = sges_at(post->queue, 0, true);
    for (uint64_t n = GROUP; wr != end; wr = wr->next, n++)
        if (ready_slowly(post, wr, is_plain(qp_of(post->slot), post->queue, wr), n, true, sges) < 0)
            return wr;
    return NULL;
}

static inline int hand_sends(const struct qp *qp, struct ibv_send_wr *raw, uint64_t n, uint64_t *posted)
{
    for (uint64_t i = 1; i < n; i++)
        raw[i - 1].next = &raw[i];
    struct ibv_send_wr *bad = NULL;
    int error = verbs.post_send(qp->raw, raw, &bad);
    *posted += TAKEN(error, raw, bad, n);
    return error;
}

/* What is behind the first group: judged already, so it cannot be refused by us any more. */
static __attribute__((noinline)) int hand_more_sends(struct post *post, const mrg_send_wr *wr, struct ibv_send_wr *raw,
                                                     uint64_t *posted)
{
    const struct qp *qp = qp_of(post->slot);
    int error = 0;
    while (wr && !error) {
        uint64_t n = 0;
        for (; wr && n < GROUP; wr = wr->next, n++)
            ready_send(post, qp, wr, *posted + n, is_plain(qp, post->queue, wr), false, &raw[n]);
        error = hand_sends(qp, raw, n, posted);
    }
    return error;
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

static __attribute__((noinline)) int refuse_sends(struct post *post, const mrg_send_wr *first, const mrg_send_wr *end)
{
    windows_end(post, first, end, 0);
    return withdraw_and_refuse(post);
}

int post_sends(token owner, const mrg_send_wr *first, const mrg_send_wr **bad, const struct here *here)
{
    struct post post;
    struct ibv_send_wr raw[GROUP];
    *bad = first;
    if (!post_open(&post, owner, SEND_QUEUE, here))
        return refuse_post(&post);
    const struct qp *qp = qp_of(post.slot);
    const mrg_send_wr *wr = first, *refused;
    uint32_t n = 0, odd = 0; /* which WRs of the first group are out of the ordinary; above it, whether any behind is */
    bool plain;
    for (; wr && begin_send(&post, qp, wr, &plain); wr = wr->next, n += n < GROUP)
        odd |= (uint32_t)!plain << n;
    borrow_publish(post.queue, post.next);
    const mrg_send_wr *end = wr; /* NULL, or the WR that could not be begun */
    for (wr = first, n = 0; wr != end && n < GROUP; wr = wr->next, n++)
        if (!ready_send(&post, qp, wr, n, !(odd >> n & 1), true, &raw[n]))
            return refuse_sends(&post, first, wr);
    if (__builtin_expect(wr != end, 0) && (refused = refused_behind(&post, wr, end)))
        return refuse_sends(&post, first, refused);
    if (__builtin_expect(end != NULL, 0))
        return refuse_sends(&post, first, end);
    uint64_t posted = 0;
    int error = hand_sends(qp, raw, n, &posted);
    if (__builtin_expect(wr != NULL, 0) && !error)
        error = hand_more_sends(&post, wr, raw, &posted);
    bool early = error && qp->raw->state < IBV_QPS_RTS;
    if (__builtin_expect(odd != 0, 0))
        windows_end(&post, first, NULL, posted);
    close_posted(&post, posted);
    if (__builtin_expect(!error && nothing_to_report(&post), 1))
        return 0;
    *bad = nth_send(first, posted);
    return posted_with(&post, error, early);
}

/* Receives */

static inline bool begin_recv(struct post *post, const mrg_recv_wr *wr)
{
    token t = 0;
    if (!pieces_fit(post->queue, wr->sg_list, wr->num_sge)) {
        struct odd odd;
        odd_recv(&odd, wr);
        return begin_odd(post, &odd, wr->wr_id, wr->sg_list, wr->num_sge);
    }
    enum begin begun = begin(post, wr->wr_id, wr->sg_list, wr->num_sge, &t);
    return __builtin_expect(begun == BEGIN_OK, 1) || begin_failed(post, begun, t);
}

static inline bool ready_recv(struct post *post, const mrg_recv_wr *wr, uint64_t n, struct ibv_recv_wr *raw)
{
    struct queue *queue = post->queue;
    struct ibv_sge *sges = sges_at(queue, n, !raw);
    struct pieces pieces = {NULL, wr->sg_list, wr->num_sge, IBV_ACCESS_LOCAL_WRITE, false, 0};
    int filled = ready_plain(post, wr->sg_list, wr->num_sge, IBV_ACCESS_LOCAL_WRITE, sges);
    if (__builtin_expect(filled < 0, 0))
        filled = ready_pieces(post, &pieces, n, sges);
    if (__builtin_expect(filled < 0, 0))
        return false;
    if (__builtin_expect(!raw, 0))
        return true;
    raw->wr_id = borrow_wr_id(queue, post->first + n);
    raw->next = NULL;
    raw->sg_list = sges;
    raw->num_sge = filled;
    return true;
}

static inline int hand_recvs(const struct post *post, struct ibv_recv_wr *raw, uint64_t n, uint64_t *posted)
{
    for (uint64_t i = 1; i < n; i++)
        raw[i - 1].next = &raw[i];
    struct ibv_recv_wr *bad = NULL;
    int error = slot_type(post->slot) == TYPE_SRQ ? verbs.post_srq_recv(srq_of(post->slot)->raw, raw, &bad)
                                                  : verbs.post_recv(qp_of(post->slot)->raw, raw, &bad);
    *posted += TAKEN(error, raw, bad, n);
    return error;
}

static __attribute__((noinline)) int hand_more_recvs(struct post *post, const mrg_recv_wr *wr, struct ibv_recv_wr *raw,
                                                     uint64_t *posted)
{
    int error = 0;
    while (wr && !error) {
        uint64_t n = 0;
        for (; wr && n < GROUP; wr = wr->next, n++)
            ready_recv(post, wr, *posted + n, &raw[n]);
        error = hand_recvs(post, raw, n, posted);
    }
    return error;
}

int post_recvs(token owner, const mrg_recv_wr *first, const mrg_recv_wr **bad, const struct here *here)
{
    struct post post;
    struct ibv_recv_wr raw[GROUP];
    *bad = first;
    if (!post_open(&post, owner, RECV_QUEUE, here))
        return refuse_post(&post);
    const mrg_recv_wr *wr = first;
    while (begin_recv(&post, wr) && (wr = wr->next)) {
    }
    borrow_publish(post.queue, post.next);
    uint64_t n = 0;
    const mrg_recv_wr *end = wr; /* NULL, or the WR that could not be begun */
    for (wr = first; wr != end; wr = wr->next, n++)
        if (!ready_recv(&post, wr, n, n < GROUP ? &raw[n] : NULL))
            return withdraw_and_refuse(&post);
    if (__builtin_expect(end != NULL, 0))
        return withdraw_and_refuse(&post);
    uint64_t posted = 0;
    int error = hand_recvs(&post, raw, n < GROUP ? n : GROUP, &posted);
    if (__builtin_expect(n > GROUP, 0) && !error)
        error = hand_more_recvs(&post, nth_recv(first, GROUP), raw, &posted);
    bool early = error && slot_type(post.slot) == TYPE_QP && qp_of(post.slot)->raw->state < IBV_QPS_INIT;
    close_posted(&post, posted);
    if (__builtin_expect(!error && nothing_to_report(&post), 1))
        return 0;
    *bad = nth_recv(first, posted);
    return posted_with(&post, error, early);
}

/* One WR, see quick.h */

int quick_refused(struct queue *queue, unsigned int way, int error, enum ibv_qp_state needs, const struct here *here)
{
    struct slot *owner = slot_at(queue->owner);
    bool early = qp_of(owner)->raw->state < needs;
    uint64_t head = queue->cells.head;
    borrow_withdraw(queue, head - 1, head);
    borrow_close(queue, way);
    return refused_below(owner, error, early, here);
}

/* Windows of type 1 */

/*
 * A window is closed without an MR, whose key librxe looks at all the same: it gets the one that the window is bound to,
 * which cannot go meanwhile. False: there is none, so there is nothing to close.
 */
static bool raw_close(struct ibv_mw_bind_info *raw, struct slot *mw)
{
    token bound = mw_bound_to(mw);
    if (!bound)
        return false;
    raw->mr = slot_at(bound)->hot.raw;
    raw->addr = slot_at(bound)->hot.addr;
    return true;
}

static bool ready_bind(struct post *post, const mrg_send_wr *wr)
{
    struct odd odd;
    odd_send(&odd, qp_of(post->slot), wr, true);
    bool begun = begin_odd(post, &odd, wr->wr_id, NULL, 0);
    borrow_publish(post->queue, post->next);
    return begun && ready_odd(post, wr, true, 0, true, sges_at(post->queue, 0, true)) >= 0;
}

/* libibverbs posts the bind of a window of type 1 itself, and answers with the window's new key. */
int post_bind(token owner, const mrg_send_wr *wr, const struct here *here)
{
    struct post post;
    if (!post_open(&post, owner, SEND_QUEUE, here))
        return refuse_post(&post);
    if (!ready_bind(&post, wr))
        return withdraw_and_refuse(&post);
    const struct qp *qp = qp_of(post.slot);
    struct slot *slot = slot_at(handle_token(wr->bind_mw.mw));
    struct mw *mw = mw_of(slot);
    struct ibv_mw_bind raw = {.wr_id = borrow_wr_id(post.queue, post.first), .send_flags = wr->send_flags};
    raw_bind_info(&raw.bind_info, &wr->bind_mw.bind_info);
    if (!raw.bind_info.mr && !raw_close(&raw.bind_info, slot)) {
        broken(&post, wr, NULL,
               &(struct verdict){RULE_WRONG_STATE, -1, 0, "the MW is bound to nothing, so there is nothing to close"});
        return refuse_sends(&post, wr, NULL);
    }
    int error = verbs.bind_mw(qp->raw, mw->raw, &raw);
    mrg_send_wr done = *wr;
    done.next = NULL;
    done.bind_mw.rkey = mw->raw->rkey;
    windows_end(&post, &done, NULL, !error);
    bool early = error && qp->raw->state < IBV_QPS_RTS;
    close_posted(&post, !error);
    return posted_with(&post, error, early);
}
