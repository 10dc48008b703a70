#include "ep_end.h"

#include <errno.h>

#include "api.h"
#include "id.h"
#include "mr.h"
#include "options.h"

void ep_move_to_pd(struct slot *mr, struct slot *id)
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
        ep_move_to_pd(mr, id);
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

void ep_let_go_given_up(struct slot *id, token t)
{
    struct slot *mr;
    if (!object_hold(id, t))
        return;
    while ((mr = object_hold_deferred_child(id, TYPE_MR))) {
        ep_move_to_pd(mr, id);
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
        ep_let_go_given_up(slot, handle_token(id));
        observe_leaks(slot, handle_token(id), 0, HERE);
    }
    return object_destroy(id, TYPE_ID, HERE);
}

int ep_refuse_busy_srq(const struct slot *slot, const struct here *here)
{
    const struct id *id = id_of(slot);
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
    struct slot *slot = slot_find(id, TYPE_ID);
    token t = handle_token(id);
    if (!slot)
        return refuse_handle(id, TYPE_ID, HERE);
    ep_let_go_given_up(slot, t);
    observe_leaks(slot, t, EP_PARTS, HERE);
    if (object_close(slot, t, EP_PARTS, HERE))
        return -1;
    if (ep_refuse_busy_srq(slot, HERE) || id_destroy_qp(slot, HERE) || id_destroy_srq(slot, HERE)) {
        object_reopen(slot, t);
        return -1;
    }
    return object_release(slot);
}
