/*
 * Connection events. An event is a child of what librdmacm counts it on, so an id with an event that is not acknowledged
 * cannot be destroyed, instead of hanging. A CONNECT_REQUEST is counted on the listener, a multicast event on the join.
 */
#include <errno.h>

#include "api.h"
#include "channel.h"
#include "device.h"
#include "id.h"
#include "multicast.h"
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

/* The join that a multicast event is of; 0: not of ours. Every join of ours has its token as its context. */
static token join_of(const struct rdma_cm_event *raw)
{
    token t = event_is_multicast(raw) ? handle_token(raw->param.ud.private_data) : 0;
    bool ours =
        token_is_handle(t) && token_type(t) == TYPE_MULTICAST && (t & INDEX_MASK) < atomic_load(&slot_committed);
    return ours ? t : 0;
}

/* What the event is counted on; a join by raw calls counts on its id. */
static token counted_on(const struct rdma_cm_event *raw)
{
    if (raw->event == RDMA_CM_EVENT_CONNECT_REQUEST)
        return id_token(raw->listen_id);
    token join = join_of(raw);
    return join ? join : id_token(raw->id);
}

/*
 * Room for what the next event brings, made before it is got: an event that was got and cannot be handed out would be
 * lost.
 */
struct room {
    struct slot *event;
    struct slot *id; /* for a CONNECT_REQUEST */
};

static void leave_room(struct room *room)
{
    if (room->event)
        object_abandon(room->event);
    if (room->id)
        object_abandon(room->id);
}

static int make_room(struct room *room, token channel, const struct here *here)
{
    room->event = object_new(&event_class, here->site, NULL, 0);
    if (!room->event)
        return object_refuse_new(&event_class, here);
    room->id = id_embryo(channel, NULL, here);
    return room->id ? 0 : -1;
}

/* Nobody can be told of this event, since what it is counted on is being destroyed, and waits for it. */
static void drop(struct rdma_cm_event *raw)
{
    struct rdma_cm_id *child = raw->event == RDMA_CM_EVENT_CONNECT_REQUEST ? raw->id : NULL;
    verbs.ack_cm_event(raw);
    if (child)
        verbs.destroy_id(child);
}

/*
 * What the event says is noted in its slot, where reading it is harmless whatever another thread does: the id of a
 * CONNECT_REQUEST may be destroyed before the event is acknowledged, and the raw event points to it. Connection and
 * datagram events keep private data at different places; a multicast event has the join's context there.
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
    token join = join_of(raw);
    if (join)
        slot->hot.event.data = multicast_of(slot_at(join))->context;
    else if (!slot->hot.event.data_length && !event_is_multicast(raw))
        slot->hot.event.data = NULL;
}

/* What the event changes in what we know of its id. The id it brings inherits channel and context of its listener. */
static void note(struct rdma_cm_event *raw, struct room *room)
{
    if (raw->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        id_of(room->id)->context = id_of(slot_at(id_token(raw->listen_id)))->context;
        id_of(room->id)->asked = true;
        id_publish(room->id, raw->id);
        room->id = NULL;
    }
    if (raw->event == RDMA_CM_EVENT_ESTABLISHED)
        id_of(slot_at(id_token(raw->id)))->connected = true;
    if (raw->event == RDMA_CM_EVENT_DEVICE_REMOVAL && raw->id->verbs)
        device_removed(raw->id->verbs);
}

static int get_event(struct slot *channel, mrg_cm_event **ret, struct room *room)
{
    struct rdma_cm_event *raw;
    for (;;) {
        if (verbs.get_cm_event(channel_of(channel)->raw, &raw))
            return failed_below(errno);
        if (!object_join(room->event, 0, counted_on(raw)))
            break;
        drop(raw);
    }
    note(raw, room);
    record(room->event, raw);
    *ret = object_publish(room->event);
    room->event = NULL;
    return 0;
}

API(int, mrg_get_cm_event, (mrg_channel * channel, mrg_cm_event **ret), (channel, ret))
{
    if (!ret)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "ret is NULL");
    struct slot *slot = object_enter(channel, TYPE_CHANNEL, HERE);
    if (!slot)
        return -1;
    struct room room = {0};
    int result = make_room(&room, slot_token(slot), HERE) ? -1 : get_event(slot, ret, &room);
    leave_room(&room);
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
    return facts.data;
}

/* The whole of what the event carries: held, since the raw event goes with the acknowledgement. */
static struct slot *enter_for(mrg_cm_event *event, const void *ret, const struct here *here)
{
    if (!ret)
        return refuse(RULE_BAD_ARGUMENT, here, NULL, "ret is NULL"), NULL;
    return object_enter(event, TYPE_EVENT, here);
}

API(int, mrg_event_conn_param, (mrg_cm_event * event, struct rdma_conn_param *ret), (event, ret))
{
    struct slot *slot = enter_for(event, ret, HERE);
    if (!slot)
        return -1;
    *ret = ((const struct rdma_cm_event *)slot->hot.raw)->param.conn;
    object_exit(slot);
    return 0;
}

API(int, mrg_event_ud_param, (mrg_cm_event * event, struct rdma_ud_param *ret), (event, ret))
{
    struct slot *slot = enter_for(event, ret, HERE);
    if (!slot)
        return -1;
    const struct rdma_cm_event *raw = slot->hot.raw;
    *ret = raw->param.ud;
    if (join_of(raw)) /* where librdmacm has our token */
        ret->private_data = slot->hot.event.data;
    object_exit(slot);
    return 0;
}
