/* The whole-tree close: an endpoint with all that was made through it, within a bound. */
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "api.h"
#include "cq.h"
#include "ep_end.h"
#include "qp.h"
#include "verbs.h"

#define CHILDREN (EP_PARTS | 1U << TYPE_MR | 1U << TYPE_MULTICAST)

/* A millisecond: of the bound, and of how long nobody polls the CQs. */
static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Completions on the CQs made for the id have no other reader any more. A few: posts may go on as fast as we poll. */
static void poll_own(const struct id *id)
{
    for (int i = 0; i < QUEUES; i++) {
        struct finished finished = {0};
        struct ibv_wc wc[64];
        if (id->cqs[i])
            cq_poll((void *)(uintptr_t)id->cqs[i], 64, wc, &finished);
        release_finished(&finished);
    }
}

/* Waits until the peer has what was sent: how much is still in flight when the time is up. */
static uint64_t drain(const struct id *id, const struct queue *sends, int timeout_ms)
{
    int64_t end = now_ms() + timeout_ms;
    for (;;) {
        poll_own(id);
        uint64_t left = queue_in_flight(sends);
        if (!left || now_ms() >= end)
            return left;
        nap();
    }
}

/*
 * Nothing is sent or received any more, whatever the peer does. A QP that cannot be brought there (never connected, or its
 * device is gone) does nothing either; so the answer is not asked for.
 */
static void stop(const struct qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    verbs.modify_qp(qp->raw, &attr, IBV_QP_STATE);
}

static void drain_and_stop(struct slot *slot, int timeout_ms, const struct here *here)
{
    const struct id *id = id_of(slot);
    token t = id->qp;
    if (!t || !object_hold(slot_at(t), t))
        return;
    struct qp *qp = qp_of(slot_at(t));
    uint64_t left = drain(id, &qp->base.at[SEND_QUEUE], timeout_ms);
    if (left)
        observe(RULE_DESTROY_ORDER, here, slot_at(t), "after %d ms %" PRIu64 " sends were still in flight: given up",
                timeout_ms, left);
    stop(qp);
    object_exit(slot_at(t));
}

static bool has_event(const struct slot *join, const void *arg)
{
    (void)arg;
    return join->cold.first_child;
}

/* An event of a group's that was got and not acknowledged keeps its join. */
static int refuse_busy_groups(struct slot *id, const struct here *here)
{
    struct slot *join = object_hold_child(id, TYPE_MULTICAST, has_event, NULL);
    if (!join)
        return 0;
    refuse(RULE_UNACKED_EVENT, here, join, "an event of the id's multicast join is not acknowledged");
    object_exit(join);
    return -1;
}

/* Groups are left, or the provider refuses, or an event came meanwhile. */
static int leave_groups(struct slot *id, const struct here *here)
{
    struct slot *join;
    while ((join = object_hold_child(id, TYPE_MULTICAST, NULL, NULL))) {
        token t = slot_token(join);
        object_exit(join);
        if (object_close(join, t, 0, here) || object_release(join))
            return -1;
    }
    return 0;
}

/* What became of the id's MRs. */
struct tally {
    uint32_t released;
    uint32_t left;
    struct object_facts first;
};

/* Releases an MR that is held, or leaves it on its PD: something else needs it. */
static int release_mr(struct slot *id, struct slot *mr, struct tally *tally)
{
    token t = slot_token(mr);
    struct object_facts facts = object_facts(mr);
    object_exit(mr);
    if (!tally->released && !tally->left)
        tally->first = facts;
    if (!object_close(mr, t, 0, NULL)) {
        tally->released++;
        return object_release(mr);
    }
    if (object_hold(mr, t)) {
        ep_move_to_pd(mr, id);
        tally->left++;
        object_exit(mr);
    }
    return 0;
}

static int release_mrs(struct slot *id, const struct here *here)
{
    struct tally tally = {0};
    struct slot *mr;
    int result = 0;
    while (!result && object_has_child(id, TYPE_MR)) {
        if ((mr = object_hold_child(id, TYPE_MR, NULL, NULL))) {
            result = release_mr(id, mr, &tally);
        } else if ((mr = object_hold_deferred_child(id, TYPE_MR))) { /* given up meanwhile */
            ep_move_to_pd(mr, id);
            object_exit(mr);
        } else { /* another thread is making or releasing one */
            nap();
        }
    }
    if (!tally.released && !tally.left)
        return result;
    int error = errno;
    char object[96], made[200];
    object_print(object, sizeof object, &tally.first);
    site_print(made, sizeof made, tally.first.site);
    observe(RULE_LEAKED_MR, here, id,
            "of its MRs %u were released and %u left to what uses them, the first %s made at %s", tally.released,
            tally.left, object, made);
    errno = error;
    return result;
}

static int shut_down(struct slot *slot, int timeout_ms, const struct here *here)
{
    if (refuse_busy_groups(slot, here) || ep_refuse_busy_srq(slot, here) ||
        id_refuse_busy_qp(slot, 1U << TYPE_MULTICAST, here))
        return -1;
    drain_and_stop(slot, timeout_ms, here);
    return leave_groups(slot, here) || id_destroy_qp(slot, here) || id_destroy_srq(slot, here) ||
                   release_mrs(slot, here)
               ? -1
               : 0;
}

API(int, mrg_shutdown_ep, (mrg_id * id, int timeout_ms), (id, timeout_ms))
{
    struct slot *slot = slot_find(id, TYPE_ID);
    token t = handle_token(id);
    if (!slot)
        return refuse_handle(id, TYPE_ID, HERE);
    if (timeout_ms < 0)
        return refuse(RULE_BAD_ARGUMENT, HERE, slot, "a timeout of %d ms: shutting down is bounded", timeout_ms);
    ep_let_go_given_up(slot, t);
    if (object_close(slot, t, CHILDREN, HERE))
        return -1;
    if (shut_down(slot, timeout_ms, HERE)) {
        object_reopen(slot, t);
        return -1;
    }
    return object_release(slot);
}
