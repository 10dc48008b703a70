/* Endpoints: synchronous ids made in one call, with their QP, and taken down in one. */
#include <errno.h>
#include <string.h>

#include "api.h"
#include "id.h"
#include "mr.h"
#include "options.h"
#include "verbs.h"

/* What a passive id gives to the ids of its requests. The PD is referenced as long as the id lives. */
static int keep_request_attr(struct id *id, mrg_pd *pd, const mrg_qp_init_attr *attr, const struct here *here)
{
    if (pd) {
        struct slot *slot = slot_find(pd, TYPE_PD);
        if (!slot || !references_add(slot, handle_token(pd), false))
            return refuse_handle(pd, TYPE_PD, here);
        id->request_pd = handle_token(pd);
    }
    id->has_request_attr = attr;
    if (attr)
        id->request_attr = *attr;
    return 0;
}

/* A new id's QP; the id is still an embryo, and goes if this fails. */
static int equip(struct slot *slot, bool passive, mrg_pd *pd, mrg_qp_init_attr *attr, const struct here *here)
{
    if (passive)
        return keep_request_attr(id_of(slot), pd, attr, here);
    return attr ? id_create_qp(slot, pd, attr, here) : 0;
}

/* The only reference is given up, and if the provider refuses, the release is tried again later. */
static void give_up(token t, const struct here *here)
{
    if (!t || !object_hold(slot_at(t), t))
        return;
    object_unref(slot_at(t), t, here);
    object_exit(slot_at(t));
}

/*
 * An id that could not be equipped: undone, errno kept. It has no QP; CQs that the provider would not take back are given
 * up with it, and the id goes with the last of them.
 */
static void undo(struct slot *slot, const struct here *here)
{
    int error = errno;
    struct id *id = id_of(slot);
    give_up(slot_token(slot), here);
    give_up(id->cqs[0], here);
    give_up(id->cqs[1], here);
    errno = error;
}

API(int, mrg_create_ep, (mrg_id * *ret, struct rdma_addrinfo *res, mrg_pd *pd, mrg_qp_init_attr *attr),
    (ret, res, pd, attr))
{
    if (!ret || !res)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "%s is NULL", ret ? "res" : "ret");
    struct slot *slot = id_embryo(0, NULL, HERE);
    if (!slot)
        return -1;
    struct rdma_cm_id *raw;
    if (verbs.create_ep(&raw, res, NULL, NULL)) {
        object_abandon(slot);
        return failed_below(errno);
    }
    id_publish(slot, raw);
    if (!equip(slot, res->ai_flags & RAI_PASSIVE, pd, attr, HERE)) {
        *ret = slot_handle(slot);
        return 0;
    }
    undo(slot, HERE);
    return -1;
}

/*
 * The event of a request is counted on the listener, and would hang its destruction until the new id is accepted or
 * destroyed. So what it says is copied, and it is acknowledged here.
 */
static void take_event(struct id *id)
{
    struct rdma_cm_event *event = id->raw->event;
    if (!event)
        return;
    id->private_length = event->param.conn.private_data_len;
    if (id->private_length)
        memcpy(id->private_data, event->param.conn.private_data, id->private_length);
    if (!verbs.ack_cm_event(event)) /* else librdmacm does it when the id is accepted or destroyed */
        id->raw->event = NULL;
}

static int get_request(struct slot *listener, mrg_id **ret, const struct here *here)
{
    struct id *from = id_of(listener);
    struct slot *slot = id_embryo(0, from->context, here);
    if (!slot)
        return -1;
    struct rdma_cm_id *raw;
    if (verbs.get_request(from->raw, &raw)) {
        object_abandon(slot);
        return failed_below(errno);
    }
    id_of(slot)->asked = true;
    id_publish(slot, raw);
    take_event(id_of(slot));
    mrg_qp_init_attr attr = from->request_attr;
    if (!from->has_request_attr || !id_create_qp(slot, (mrg_pd *)(uintptr_t)from->request_pd, &attr, here)) {
        *ret = slot_handle(slot);
        return 0;
    }
    undo(slot, here);
    return -1;
}

API(int, mrg_get_request, (mrg_id * listener, mrg_id **ret), (listener, ret))
{
    if (!ret)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "ret is NULL");
    struct slot *slot = object_enter(listener, TYPE_ID, HERE);
    if (!slot)
        return -1;
    int result = id_of(slot)->listening
                     ? get_request(slot, ret, HERE)
                     : refuse(RULE_WRONG_STATE, HERE, slot, "the id does not listen: no request can come");
    int error = errno;
    object_exit(slot);
    errno = error;
    return result;
}
