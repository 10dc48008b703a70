/*
 * Connection events. An event is a child of the id that librdmacm counts it on, so an id with an event that is not
 * acknowledged cannot be destroyed, instead of hanging. A CONNECT_REQUEST is counted on the listener.
 */
#include <errno.h>

#include "api.h"
#include "channel.h"
#include "id.h"
#include "verbs.h"

static int event_release(struct slot *slot)
{
    return verbs.ack_cm_event(slot->hot.raw) ? errno : 0;
}

static const struct class event_class = {.type = TYPE_EVENT, .edges = 1, .release = event_release};

/* Every rdma_cm_id of ours has our token as its context. */
static token id_token(const struct rdma_cm_id *raw)
{
    return handle_token(raw->context);
}

/* The id that a CONNECT_REQUEST brings; it inherits channel and context of its listener. */
static struct slot *request_id(struct rdma_cm_event *raw, token channel, const char *site)
{
    struct slot *listener = slot_at(id_token(raw->listen_id));
    return id_embryo(channel, id_of(listener)->context, &(struct here){site, "mrg_get_cm_event"});
}

/* Nobody can be told of this event: undo it, so that its id does not wait for it, and drop its new id. */
static void drop(struct rdma_cm_event *raw)
{
    int saved = errno;
    struct rdma_cm_id *child = raw->event == RDMA_CM_EVENT_CONNECT_REQUEST ? raw->id : NULL;
    verbs.ack_cm_event(raw);
    if (child)
        verbs.destroy_id(child);
    errno = saved;
}

/*
 * What the event says is noted in its slot, where reading it is harmless whatever another thread does: the id of a
 * CONNECT_REQUEST may be destroyed before the event is acknowledged, and the raw event points to it. Connection and
 * datagram events keep private data at different places.
 */
static void record(struct slot *slot, struct rdma_cm_event *raw)
{
    bool datagram = raw->id->ps == RDMA_PS_UDP || raw->id->ps == RDMA_PS_IPOIB;
    slot->hot.raw = raw;
    slot->hot.event.id = id_token(raw->id);
    slot->hot.event.listener = raw->listen_id ? id_token(raw->listen_id) : 0;
    slot->hot.event.type = (int)raw->event;
    slot->hot.event.status = raw->status;
    slot->hot.event.data_length = datagram ? raw->param.ud.private_data_len : raw->param.conn.private_data_len;
    slot->hot.event.data = datagram ? raw->param.ud.private_data : raw->param.conn.private_data;
}

/* The event as an object. NULL: dropped, with errno ESTALE if only because its id is being destroyed. */
static mrg_cm_event *event_new(struct rdma_cm_event *raw, token channel, const char *site)
{
    bool request = raw->event == RDMA_CM_EVENT_CONNECT_REQUEST;
    token id = id_token(request ? raw->listen_id : raw->id);
    struct slot *slot = object_new(&event_class, site, &id, 1);
    struct slot *child = slot && request ? request_id(raw, channel, site) : NULL;
    if (!slot || (request && !child)) {
        int error = errno;
        drop(raw);
        if (slot)
            object_abandon(slot);
        errno = error;
        return NULL;
    }
    if (child)
        id_publish(child, raw->id);
    record(slot, raw);
    if (raw->event == RDMA_CM_EVENT_ESTABLISHED)
        id_of(slot_at(id))->connected = true;
    return object_publish(slot);
}

static int get_event(struct slot *channel, mrg_cm_event **ret, const struct here *here)
{
    struct rdma_cm_event *raw;
    mrg_cm_event *event;
    do {
        if (verbs.get_cm_event(channel_of(channel)->raw, &raw))
            return failed_below(errno);
        event = event_new(raw, slot_token(channel), here->site);
    } while (!event && errno == ESTALE);
    if (!event)
        return failed_below(errno);
    *ret = event;
    return 0;
}

API(int, mrg_get_cm_event, (mrg_channel * channel, mrg_cm_event **ret), (channel, ret))
{
    if (!ret)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "ret is NULL");
    struct slot *slot = object_enter(channel, TYPE_CHANNEL, HERE);
    if (!slot)
        return -1;
    int result = get_event(slot, ret, HERE);
    object_exit(slot);
    return result;
}

API(int, mrg_ack_cm_event, (mrg_cm_event * event), (event))
{
    return object_destroy(event, TYPE_EVENT, HERE);
}

/* A copy: all zero, with errno and a finding, where the handle is bad or went bad while we read. */
static bool look(mrg_cm_event *event, struct event_facts *facts, const struct here *here)
{
    const struct slot *slot = slot_find(event, TYPE_EVENT);
    if (slot)
        *facts = slot->hot.event;
    atomic_thread_fence(memory_order_acquire);
    if (slot && slot_find(event, TYPE_EVENT))
        return true;
    refuse_handle(event, TYPE_EVENT, here);
    return false;
}

API(int, mrg_event_type, (mrg_cm_event * event), (event))
{
    struct event_facts facts;
    return look(event, &facts, HERE) ? facts.type : -1;
}

API(int, mrg_event_status, (mrg_cm_event * event), (event))
{
    struct event_facts facts;
    return look(event, &facts, HERE) ? facts.status : -1;
}

API(mrg_id *, mrg_event_id, (mrg_cm_event * event), (event))
{
    struct event_facts facts;
    return look(event, &facts, HERE) ? (mrg_id *)(uintptr_t)facts.id : NULL;
}

API(mrg_id *, mrg_event_listen_id, (mrg_cm_event * event), (event))
{
    struct event_facts facts;
    return look(event, &facts, HERE) ? (mrg_id *)(uintptr_t)facts.listener : NULL;
}

API(const void *, mrg_event_private_data, (mrg_cm_event * event, size_t *length), (event, length))
{
    struct event_facts facts;
    if (!look(event, &facts, HERE))
        return NULL;
    if (!length)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "length is NULL"), NULL;
    *length = facts.data_length;
    return facts.data_length ? facts.data : NULL;
}
