/* Waiting for one completion on the CQ that was made for an id. */
#include <errno.h>

#include "api.h"
#include "cq.h"
#include "id.h"
#include "queue.h"
#include "verbs.h"

/* Sleeps until the CQ's channel has an event. The CQ is held: it is not destroyed while we read from it. */
static int sleep_for_event(struct cq *cq)
{
    struct ibv_cq *event_cq;
    void *event_context;
    if (verbs.get_cq_event(cq->own_channel, &event_cq, &event_context))
        return -1;
    verbs.ack_cq_events(event_cq, 1);
    return 0;
}

/* Arms the CQ, then looks again: a completion between poll and arming makes no event. */
static int wait_for_completion(struct slot *slot, struct ibv_wc *wc, struct finished *finished)
{
    struct cq *cq = cq_of(slot);
    for (;;) {
        int got = cq_poll(slot_handle(slot), 1, wc, finished);
        if (got)
            return got;
        int error = verbs.req_notify_cq(cq->raw, 0);
        if (error)
            return errno = error, -1;
        got = cq_poll(slot_handle(slot), 1, wc, finished);
        if (got)
            return got;
        if (sleep_for_event(cq))
            return -1;
    }
}

/* The CQ of one of the id's queues, held. The token is this id's only if the id is still there after it was read. */
static struct slot *enter_own_cq(mrg_id *id, int which, const struct here *here)
{
    if (!id_find_qp(id, here))
        return NULL;
    token cq = id_of(slot_at(handle_token(id)))->cqs[which];
    if (!slot_find(id, TYPE_ID))
        return refuse_handle(id, TYPE_ID, here), NULL;
    if (cq)
        return object_enter((void *)(uintptr_t)cq, TYPE_CQ, here);
    refuse(RULE_WRONG_STATE, here, NULL, "the QP was made with a CQ of the caller's: read it with mrg_poll_cq");
    return NULL;
}

static int get_comp(mrg_id *id, int which, struct ibv_wc *wc, const struct here *here)
{
    if (!wc)
        return refuse(RULE_BAD_ARGUMENT, here, NULL, "wc is NULL");
    struct slot *slot = enter_own_cq(id, which, here);
    if (!slot)
        return -1;
    pthread_mutex_lock(&cq_of(slot)->waiting);
    struct finished finished = {0};
    int got = wait_for_completion(slot, wc, &finished);
    int error = errno;
    pthread_mutex_unlock(&cq_of(slot)->waiting);
    object_exit(slot);
    release_finished(&finished);
    return got < 0 ? failed_below(error) : got;
}

API(int, mrg_get_send_comp, (mrg_id * id, struct ibv_wc *wc), (id, wc))
{
    return get_comp(id, SEND_QUEUE, wc, HERE);
}

API(int, mrg_get_recv_comp, (mrg_id * id, struct ibv_wc *wc), (id, wc))
{
    return get_comp(id, RECV_QUEUE, wc, HERE);
}
