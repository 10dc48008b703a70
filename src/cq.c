#include "cq.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "api.h"
#include "comp_channel.h"
#include "context.h"
#include "device.h"
#include "mw.h"
#include "queue.h"
#include "verbs.h"

/* An event that was got uses its CQ until it is acknowledged. */
static enum rule cq_busy(struct slot *slot, char *why, size_t size)
{
    unsigned int unacked = atomic_load(&cq_of(slot)->unacked);
    if (!unacked)
        return RULE_NONE;
    snprintf(why, size, "%u completion events of this CQ were got and not acknowledged", unacked);
    return RULE_UNACKED_EVENT;
}

/*
 * Pollers look at raw inside the gate, so none is there when the provider gets to destroy it. The channel goes after
 * its CQ; where it is refused, the next try begins with it. On a removed device libibverbs still counts the CQ on it.
 */
static int cq_release(struct slot *slot)
{
    struct cq *cq = cq_of(slot);
    gate_shut(&cq->endings.gate);
    struct ibv_cq *raw = cq->raw;
    cq->raw = NULL;
    gate_open(&cq->endings.gate);
    int error = raw ? device_answer(raw->context, verbs.destroy_cq(raw)) : 0;
    struct ibv_comp_channel *channel = cq->own_channel;
    if (!error)
        return channel ? device_answer(channel->context, verbs.destroy_comp_channel(channel)) : 0;
    gate_shut(&cq->endings.gate);
    cq->raw = raw;
    gate_open(&cq->endings.gate);
    return error;
}

struct slot *cq_enter(const void *handle, const struct here *here)
{
    struct slot *slot = object_enter(handle, TYPE_CQ, here);
    if (!slot || cq_of(slot)->raw)
        return slot;
    object_exit(slot);
    refuse_handle(handle, TYPE_CQ, here);
    return NULL;
}

static const struct class cq_class = {
    .type = TYPE_CQ, .edges = 3, .body_size = sizeof(struct cq), .busy = cq_busy, .release = cq_release};

/* What a CQ is made of; tokens of live objects. */
struct cq_parts {
    token device;
    token id;      /* whose own it is; 0: the caller's */
    token channel; /* where its events go; 0: nowhere, or to a channel of its own */
    int cqe;
    int comp_vector;
    void *context;        /* the caller's */
    bool single_threaded; /* no two threads poll it at once */
};

/* The raw CQ's context is our handle, so that an event finds its CQ. */
static int cq_make(struct slot *slot, const struct cq_parts *parts)
{
    struct cq *cq = cq_of(slot);
    struct ibv_context *raw = context_of(slot_at(parts->device))->raw;
    struct ibv_comp_channel *channel = parts->channel ? comp_channel_of(slot_at(parts->channel))->raw : NULL;
    if (parts->id && !(channel = cq->own_channel = verbs.create_comp_channel(raw)))
        return -1;
    cq->raw = verbs.create_cq(raw, parts->cqe, slot_handle(slot), channel, parts->comp_vector);
    if (cq->raw)
        return 0;
    int error = errno;
    if (cq->own_channel)
        verbs.destroy_comp_channel(cq->own_channel);
    return errno = error, -1;
}

static token cq_new(const struct cq_parts *parts, const struct here *here)
{
    token parents[] = {parts->device, parts->id, parts->channel};
    struct slot *slot = object_new(&cq_class, here->site, parents, 3);
    if (!slot)
        return object_refuse_new(&cq_class, here), 0;
    struct cq *cq = cq_of(slot);
    if (!cq->ready)
        pthread_mutex_init(&cq->waiting, NULL);
    cq->ready = true;
    atomic_store(&cq->unacked, 0);
    gate_shut(&cq->endings.gate); /* a thread with an old handle may be inside, or about to enter */
    cq->raw = NULL;
    cq->own_channel = NULL;
    cq->context = parts->context;
    gate_give(&cq->endings.gate, slot_token(slot), parts->single_threaded);
    endings_reset(&cq->endings);
    gate_open(&cq->endings.gate);
    if (!cq_make(slot, parts))
        return handle_token(object_publish(slot));
    object_abandon(slot);
    failed_below(errno);
    return 0;
}

token cq_new_for_id(struct slot *id, token device, uint32_t cqe, bool single_threaded, const struct here *here)
{
    int entries = cqe < 1 ? 1 : cqe > INT_MAX ? INT_MAX : (int)cqe;
    struct cq_parts parts = {
        .device = device, .id = slot_token(id), .cqe = entries, .single_threaded = single_threaded};
    return cq_new(&parts, here);
}

static token create_cq(struct slot *device, struct slot *channel, const struct cq_parts *parts, const struct here *here)
{
    if (parts->cqe < 1)
        return refuse(RULE_BAD_ARGUMENT, here, NULL, "a CQ of %d entries", parts->cqe), 0;
    if (channel && object_parent(channel, TYPE_CONTEXT) != device)
        return refuse(RULE_WRONG_PD, here, channel, "the completion channel is on another device than the CQ"), 0;
    return cq_new(parts, here);
}

/* With everything that the caller named held. */
static mrg_cq *create_held(mrg_context *device, mrg_comp_channel *channel, const struct cq_parts *parts,
                           const struct here *here)
{
    struct slot *on = object_enter(device, TYPE_CONTEXT, here);
    if (!on)
        return NULL;
    struct slot *to = channel ? object_enter(channel, TYPE_COMP_CHANNEL, here) : NULL;
    token cq = channel && !to ? 0 : create_cq(on, to, parts, here);
    if (to)
        object_exit(to);
    object_exit(on);
    return (mrg_cq *)(uintptr_t)cq;
}

API(mrg_cq *, mrg_create_cq, (mrg_context * device, int cqe, void *context, mrg_comp_channel *channel, int comp_vector),
    (device, cqe, context, channel, comp_vector))
{
    struct cq_parts parts = {.device = handle_token(device),
                             .channel = handle_token(channel),
                             .cqe = cqe,
                             .comp_vector = comp_vector,
                             .context = context};
    return create_held(device, channel, &parts, HERE);
}

/* What pollers of an ibv_cq_ex read is not ours, so such a CQ is made like any other, and its promise is kept by us. */
API(mrg_cq *, mrg_create_cq_ex, (mrg_context * device, mrg_cq_init_attr_ex *attr), (device, attr))
{
    const uint32_t mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    if (!attr)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "attr is NULL"), NULL;
    if ((attr->comp_mask & ~mask) || ((attr->comp_mask & mask) && (attr->flags & ~flags)) || attr->cqe > INT_MAX ||
        attr->comp_vector > INT_MAX)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "comp_mask 0x%x, flags 0x%x, %u entries, vector %u",
                      attr->comp_mask, attr->flags, attr->cqe, attr->comp_vector),
               NULL;
    struct cq_parts parts = {.device = handle_token(device),
                             .channel = handle_token(attr->channel),
                             .cqe = (int)attr->cqe,
                             .comp_vector = (int)attr->comp_vector,
                             .context = attr->cq_context,
                             .single_threaded = (attr->comp_mask & mask) && attr->flags};
    return create_held(device, attr->channel, &parts, HERE);
}

API(int, mrg_destroy_cq, (mrg_cq * cq), (cq))
{
    return object_destroy(cq, TYPE_CQ, HERE);
}

/*
 * rxe (seen with Linux 6.1) hands out the kernel's bit for an invalidation, which is libibverbs' for a good checksum. That
 * comes with datagrams, and no window has what they have in the key's place.
 */
#define SAYS_INVALIDATED ((unsigned int)(IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK))

/* Whether a completion is to be handed out: it is ours, and its wr_id the caller's again, or foreign. */
static ALWAYS_INLINE bool take(struct cq *cq, struct ibv_wc *wc, struct finished *finished)
{
    if (__builtin_expect(borrow_end(&cq->endings, wc, finished) == COMPLETION_LATE, 0))
        return false;
    if (__builtin_expect(wc->wc_flags & SAYS_INVALIDATED, 0) && wc->status == IBV_WC_SUCCESS)
        mw_invalidated(cq->raw->context, wc->invalidated_rkey, finished);
    return true;
}

/*
 * The first of got completions that were polled are taken, the next one was dropped: the others move up. Fewer than count
 * means, as ever, that the CQ was empty, so the places of what was dropped are filled again.
 */
static __attribute__((noinline)) int refill(struct cq *cq, int taken, int got, int count, struct ibv_wc *wc,
                                            struct finished *finished)
{
    int next = taken + 1; /* to be looked at */
    for (;;) {
        for (; next < got; next++) {
            wc[taken] = wc[next];
            taken += take(cq, &wc[taken], finished);
        }
        if (taken == got || got < count)
            return taken;
        int more = verbs.poll_cq(cq->raw, count - taken, wc + taken);
        if (more < 0)
            return taken ? taken : more;
        next = taken;
        got = taken + more;
    }
}

static ALWAYS_INLINE int poll_inside(struct cq *cq, int count, struct ibv_wc *wc, struct finished *finished)
{
    int got = verbs.poll_cq(cq->raw, count, wc);
    for (int i = 0; i < got; i++)
        if (__builtin_expect(!take(cq, &wc[i], finished), 0))
            return refill(cq, i, got, count, wc, finished);
    return got;
}

/*
 * The gate is left when the last record is looked up: completions of a queue end its WRs in order, and so must their
 * pollers. Inside it is also certain that the CQ is still the one that the handle names. It is shut for moments only.
 */
#define CQ_SHUT (-3)

static ALWAYS_INLINE int poll_once(struct slot *slot, token t, int count, struct ibv_wc *wc, struct finished *finished)
{
    struct cq *cq = cq_of(slot);
    unsigned int way = gate_way(&cq->endings.gate, t);
    gate_enter(&cq->endings.gate, way);
    int got = CQ_SHUT;
    if (gate_is_open(&cq->endings.gate, t))
        got = __builtin_expect(cq->raw != NULL, 1) ? poll_inside(cq, count, wc, finished) : CQ_GONE;
    gate_leave(&cq->endings.gate, way);
    return got;
}

/* Where the gate was shut, or a destroy is looking whether it may: that takes moments. */
static __attribute__((noinline)) int poll_again(const void *handle, int count, struct ibv_wc *wc,
                                                struct finished *finished)
{
    struct slot *slot;
    int got = CQ_SHUT;
    while (got == CQ_SHUT && (slot = slot_find(handle, TYPE_CQ))) {
        sched_yield();
        got = poll_once(slot, handle_token(handle), count, wc, finished);
    }
    return got == CQ_SHUT ? CQ_GONE : got;
}

static ALWAYS_INLINE int poll(const void *handle, int count, struct ibv_wc *wc, struct finished *finished)
{
    struct slot *slot = slot_find(handle, TYPE_CQ);
    if (__builtin_expect(!slot, 0))
        return CQ_GONE;
    int got = poll_once(slot, handle_token(handle), count, wc, finished);
    return __builtin_expect(got != CQ_SHUT, 1) ? got : poll_again(handle, count, wc, finished);
}

int cq_poll(const void *handle, int count, struct ibv_wc *wc, struct finished *finished)
{
    return poll(handle, count, wc, finished);
}

static __attribute__((noinline)) int refuse_poll(mrg_cq *cq, int count, const struct ibv_wc *wc,
                                                 const struct here *here)
{
    struct slot *slot = slot_find(cq, TYPE_CQ);
    return slot && (count < 1 || !wc)
               ? refuse(RULE_BAD_ARGUMENT, here, slot, "room for %d completions at %p", count, (const void *)wc)
               : refuse_handle(cq, TYPE_CQ, here);
}

API(int, mrg_poll_cq, (mrg_cq * cq, int count, struct ibv_wc *wc), (cq, count, wc))
{
    if (__builtin_expect(count < 1 || !wc, 0))
        return refuse_poll(cq, count, wc, HERE);
    struct finished finished = {0};
    int got = poll(cq, count, wc, &finished);
    if (__builtin_expect(finished.first != 0, 0)) {
        int error = errno;
        release_finished(&finished);
        errno = error;
    }
    if (__builtin_expect(got >= 0, 1))
        return got;
    return got == CQ_GONE ? refuse_poll(cq, count, wc, HERE) : failed_below(errno);
}

API(int, mrg_resize_cq, (mrg_cq * cq, int cqe), (cq, cqe))
{
    struct slot *slot = cq_enter(cq, HERE);
    if (!slot)
        return -1;
    if (cqe < 1)
        return refuse(RULE_BAD_ARGUMENT, HERE, slot, "a CQ of %d entries", cqe), object_exit(slot), -1;
    pthread_mutex_lock(&cq_of(slot)->base.lock);
    gate_shut(&cq_of(slot)->endings.gate);
    int error = verbs.resize_cq(cq_of(slot)->raw, cqe);
    gate_open(&cq_of(slot)->endings.gate);
    pthread_mutex_unlock(&cq_of(slot)->base.lock);
    return object_exit_with(slot, error);
}

API(struct ibv_cq *, mrg_cq_raw, (mrg_cq * cq), (cq))
{
    struct slot *slot = cq_enter(cq, HERE);
    if (!slot)
        return NULL;
    struct ibv_cq *found = cq_of(slot)->raw;
    object_exit(slot);
    return found;
}
