/* Completion events: asked for at a CQ, got from its channel, acknowledged at the CQ. */
#include <errno.h>

#include "api.h"
#include "comp_channel.h"
#include "cq.h"
#include "verbs.h"

API(int, mrg_req_notify_cq, (mrg_cq * cq, int solicited_only), (cq, solicited_only))
{
    struct slot *slot = cq_enter(cq, HERE);
    if (!slot)
        return -1;
    int error = verbs.req_notify_cq(cq_of(slot)->raw, solicited_only);
    object_exit(slot);
    return error ? failed_below(error) : 0;
}

/*
 * The event's CQ: used by the event until the acknowledgement, as libibverbs would wait for that. NULL if it is being
 * destroyed, which waits for us.
 */
static struct slot *take_event(struct ibv_cq *raw, void *handle)
{
    struct slot *slot;
    while ((slot = slot_find(handle, TYPE_CQ))) {
        if (!object_hold(slot, handle_token(handle)))
            continue;
        atomic_fetch_add(&cq_of(slot)->unacked, 1);
        return slot;
    }
    verbs.ack_cq_events(raw, 1);
    return NULL;
}

static int get_event(struct slot *channel, mrg_cq **ret, void **context)
{
    struct ibv_cq *raw;
    void *handle;
    struct slot *slot;
    do {
        if (verbs.get_cq_event(comp_channel_of(channel)->raw, &raw, &handle))
            return failed_below(errno);
        slot = take_event(raw, handle);
    } while (!slot);
    *ret = handle;
    *context = cq_of(slot)->context;
    return 0;
}

API(int, mrg_get_cq_event, (mrg_comp_channel * channel, mrg_cq **ret, void **context), (channel, ret, context))
{
    if (!ret || !context)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "%s is NULL", ret ? "context" : "ret");
    struct slot *slot = object_enter(channel, TYPE_COMP_CHANNEL, HERE);
    if (!slot)
        return -1;
    int result = get_event(slot, ret, context);
    object_exit(slot);
    return result;
}

/* Takes count off what is not acknowledged; false if it is less. */
static bool take_unacked(struct cq *cq, unsigned int count)
{
    unsigned int seen = atomic_load(&cq->unacked);
    while (seen >= count)
        if (atomic_compare_exchange_weak(&cq->unacked, &seen, seen - count))
            return true;
    return false;
}

static int ack(struct slot *slot, unsigned int count, const struct here *here)
{
    struct cq *cq = cq_of(slot);
    if (!take_unacked(cq, count))
        return refuse(RULE_BAD_ARGUMENT, here, slot, "%u events acknowledged, %u were got", count,
                      atomic_load(&cq->unacked));
    verbs.ack_cq_events(cq->raw, count);
    for (unsigned int i = 0; i < count; i++)
        object_exit(slot);
    return 0;
}

API(int, mrg_ack_cq_events, (mrg_cq * cq, unsigned int count), (cq, count))
{
    struct slot *slot = cq_enter(cq, HERE);
    if (!slot)
        return -1;
    int result = ack(slot, count, HERE);
    object_exit(slot);
    return result;
}
