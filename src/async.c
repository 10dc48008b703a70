/*
 * Asynchronous events. An event is a child of the QP, CQ or SRQ that it is about, for which libibverbs would wait at its
 * destruction; of the device if it is about that, a port, or an object that is not ours.
 */
#include <errno.h>

#include "api.h"
#include "context.h"
#include "cq.h"
#include "device.h"
#include "qp.h"
#include "srq.h"
#include "verbs.h"

struct async {
    struct body base;
    struct ibv_async_event raw;
};

static struct async *async_of(const struct slot *slot)
{
    return (struct async *)slot->hot.body;
}

static int async_release(struct slot *slot)
{
    verbs.ack_async_event(&async_of(slot)->raw);
    return 0;
}

static const struct class async_class = {
    .type = TYPE_ASYNC_EVENT, .edges = 1, .body_size = sizeof(struct async), .release = async_release};

static enum type subject_type(enum ibv_event_type event)
{
    switch (event) {
    case IBV_EVENT_CQ_ERR:
        return TYPE_CQ;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return TYPE_SRQ;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return TYPE_QP;
    default:
        return TYPE_NONE;
    }
}

static bool is_of_port(enum ibv_event_type event)
{
    return event == IBV_EVENT_PORT_ACTIVE || event == IBV_EVENT_PORT_ERR || event == IBV_EVENT_LID_CHANGE ||
           event == IBV_EVENT_PKEY_CHANGE || event == IBV_EVENT_SM_CHANGE || event == IBV_EVENT_CLIENT_REREGISTER ||
           event == IBV_EVENT_GID_CHANGE;
}

/* The handle that the raw object has as its context, if it is one of ours. */
static void *subject_of(const struct ibv_async_event *raw, enum type type)
{
    void *handle = type == TYPE_CQ    ? raw->element.cq->cq_context
                   : type == TYPE_SRQ ? raw->element.srq->srq_context
                   : type == TYPE_QP  ? raw->element.qp->qp_context
                                      : NULL;
    return handle && token_is_handle(handle_token(handle)) && token_type(handle_token(handle)) == type ? handle : NULL;
}

/* Room for the event is made before it is got: what was got must be acknowledged. */
static int get_event(struct slot *context, mrg_async_event **ret, const struct here *here)
{
    struct slot *slot = object_new(&async_class, here->site, NULL, 0);
    if (!slot)
        return object_refuse_new(&async_class, here);
    struct ibv_async_event *raw = &async_of(slot)->raw;
    for (;;) {
        if (verbs.get_async_event(context_of(context)->raw, raw))
            return object_failed(slot), -1;
        void *subject = subject_of(raw, subject_type(raw->event_type));
        if (!object_join(slot, 0, subject ? handle_token(subject) : slot_token(context)))
            break;
        verbs.ack_async_event(raw); /* its object is being destroyed, and waits for this */
    }
    if (raw->event_type == IBV_EVENT_DEVICE_FATAL)
        device_removed(context_of(context)->raw);
    *ret = object_publish(slot);
    return 0;
}

API(int, mrg_get_async_event, (mrg_context * context, mrg_async_event **ret), (context, ret))
{
    if (!ret)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "ret is NULL");
    struct slot *slot = object_enter(context, TYPE_CONTEXT, HERE);
    if (!slot)
        return -1;
    int result = get_event(slot, ret, HERE);
    object_exit(slot);
    return result;
}

API(int, mrg_ack_async_event, (mrg_async_event * event), (event))
{
    return object_destroy(event, TYPE_ASYNC_EVENT, HERE);
}

/* What it says, copied while it is held. */
static bool look(mrg_async_event *event, struct ibv_async_event *ret, const struct here *here)
{
    struct slot *slot = object_enter(event, TYPE_ASYNC_EVENT, here);
    if (!slot)
        return false;
    *ret = async_of(slot)->raw;
    object_exit(slot);
    return true;
}

API(int, mrg_async_event_type, (mrg_async_event * event), (event))
{
    struct ibv_async_event raw;
    return look(event, &raw, HERE) ? (int)raw.event_type : -1;
}

/* The object that the event is about, which cannot go before the event; NULL: it is about none of that type. */
static void *about(mrg_async_event *event, enum type type, const struct here *here)
{
    struct ibv_async_event raw;
    return look(event, &raw, here) && subject_type(raw.event_type) == type ? subject_of(&raw, type) : NULL;
}

API(mrg_qp *, mrg_async_event_qp, (mrg_async_event * event), (event))
{
    return about(event, TYPE_QP, HERE);
}

API(mrg_cq *, mrg_async_event_cq, (mrg_async_event * event), (event))
{
    return about(event, TYPE_CQ, HERE);
}

API(mrg_srq *, mrg_async_event_srq, (mrg_async_event * event), (event))
{
    return about(event, TYPE_SRQ, HERE);
}

API(int, mrg_async_event_port, (mrg_async_event * event), (event))
{
    struct ibv_async_event raw;
    if (!look(event, &raw, HERE))
        return -1;
    return is_of_port(raw.event_type) ? raw.element.port_num : 0;
}

API(int, mrg_context_async_fd, (mrg_context * context), (context))
{
    struct slot *slot = object_enter(context, TYPE_CONTEXT, HERE);
    if (!slot)
        return -1;
    int fd = context_of(slot)->raw->async_fd;
    object_exit(slot);
    return fd;
}
