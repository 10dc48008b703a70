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

/* An MR goes from its id to the PD that it is on. */
static void move_to_pd(struct slot *mr, struct slot *id)
{
    object_join(mr, MR_EDGE_PD, id_of(id)->device_pd); /* or it is on its QP's, and stays there */
    object_leave(mr, MR_EDGE_ID);
}

/*
 * Raw verbs let an id go that has MRs, and so does the policy observe, which is that of adopted ids: they stay, on their
 * PD, and are reported.
 */
static void leave_mrs(struct slot *id, const struct here *here)
{
    uint32_t left = 0;
    struct slot *mr;
    struct object_facts first = {0};
    while ((mr = object_hold_child(id, TYPE_MR, NULL, NULL))) {
        if (!left++)
            first = object_facts(mr);
        move_to_pd(mr, id);
        object_exit(mr);
    }
    if (!left)
        return;
    char object[96], made[200];
    object_print(object, sizeof object, &first);
    site_print(made, sizeof made, first.site);
    observe(RULE_LEAKED_MR, here, id, "%u MRs are left behind, the first %s made at %s", left, object, made);
}

/* Something else keeps the id, so it is refused, and refused it has changed nothing. */
static bool is_kept(struct slot *id, unsigned int spare)
{
    for (enum type type = TYPE_NONE + 1; type < TYPE_COUNT; type++)
        if (type != TYPE_MR && !(spare >> type & 1) && object_has_child(id, type))
            return true;
    return false;
}

/*
 * An MR that was given up waits for its last completion and needs nobody any more: it waits on its PD. So an endpoint goes
 * though receives are still posted from memory that was given up, and they end with its QP.
 */
static void let_go_given_up(struct slot *id, token t)
{
    struct slot *mr;
    if (!object_hold(id, t))
        return;
    while ((mr = object_hold_deferred_child(id, TYPE_MR))) {
        move_to_pd(mr, id);
        object_exit(mr);
    }
    object_exit(id);
}

static bool is_another(const struct slot *slot, const void *own)
{
    return slot != own;
}

/* Likewise of what is to go with the id: a call inside it, an event, a join, another QP. */
static bool part_is_kept(token t, unsigned int spare)
{
    return t && (atomic_load(&slot_at(t)->cold.users) || is_kept(slot_at(t), spare));
}

/* Whether another QP than the id's receives from its SRQ. */
static bool srq_is_shared(const struct id *id)
{
    token qp = id->qp, srq = id->srq;
    struct slot *other = srq ? object_hold_child(slot_at(srq), TYPE_QP, is_another, qp ? slot_at(qp) : NULL) : NULL;
    if (other)
        object_exit(other);
    return other;
}

static bool parts_are_kept(const struct id *id)
{
    return srq_is_shared(id) || part_is_kept(id->qp, 0) || part_is_kept(id->cqs[0], 1U << TYPE_QP) ||
           part_is_kept(id->cqs[1], 1U << TYPE_QP) || part_is_kept(id->srq, 1U << TYPE_QP);
}

static void observe_leaks(struct slot *slot, token t, unsigned int spare, const struct here *here)
{
    if ((options()->policy != POLICY_OBSERVE && !id_of(slot)->adopted) || !object_hold(slot, t))
        return;
    if (!is_kept(slot, spare) && !(spare && parts_are_kept(id_of(slot))))
        leave_mrs(slot, here);
    object_exit(slot);
}

API(int, mrg_destroy_id, (mrg_id * id), (id))
{
    struct slot *slot = slot_find(id, TYPE_ID);
    if (slot) {
        let_go_given_up(slot, handle_token(id));
        observe_leaks(slot, handle_token(id), 0, HERE);
    }
    return object_destroy(id, TYPE_ID, HERE);
}

/* The SRQ goes after the QP: what else is in its way is said while the QP is still there. The id is closed. */
static int refuse_busy_srq(const struct id *id, const struct here *here)
{
    token srq = id->srq;
    if (!srq)
        return 0;
    if (object_has_child(slot_at(srq), TYPE_ASYNC_EVENT))
        return refuse(RULE_UNACKED_EVENT, here, slot_at(srq), "an event of the id's SRQ is not acknowledged");
    return srq_is_shared(id) ? refuse(RULE_DESTROY_ORDER, here, slot_at(srq), "another QP receives from the id's SRQ")
                             : 0;
}

API(int, mrg_destroy_ep, (mrg_id * id), (id))
{
    const unsigned int own = 1U << TYPE_QP | 1U << TYPE_CQ | 1U << TYPE_SRQ;
    struct slot *slot = slot_find(id, TYPE_ID);
    token t = handle_token(id);
    if (!slot)
        return refuse_handle(id, TYPE_ID, HERE);
    let_go_given_up(slot, t);
    observe_leaks(slot, t, own, HERE);
    if (object_close(slot, t, own, HERE))
        return -1;
    if (refuse_busy_srq(id_of(slot), HERE) || id_destroy_qp(slot, HERE) || id_destroy_srq(slot, HERE)) {
        object_reopen(slot, t);
        return -1;
    }
    return object_release(slot);
}
