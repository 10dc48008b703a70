/* QPs one level below librdmacm: of no id, and brought from state to state by their owner. */
#include <errno.h>

#include "api.h"
#include "context.h"
#include "pd.h"
#include "qp.h"
#include "verbs.h"

/* Without an id nobody makes CQs for a QP, so it must bring those that its type needs. */
static int refuse_attr(const mrg_qp_init_attr *attr, const struct here *here)
{
    if (!attr)
        return refuse(RULE_BAD_ARGUMENT, here, NULL, "attr is NULL");
    bool receives_only = attr->qp_type == IBV_QPT_XRC_RECV;
    if (receives_only && !attr->xrcd)
        return refuse(RULE_BAD_ARGUMENT, here, NULL, "a QP of type XRC_RECV needs an XRC domain");
    if (!receives_only && !attr->send_cq)
        return refuse(RULE_BAD_ARGUMENT, here, NULL, "attr->send_cq is NULL");
    if (!receives_only && attr->qp_type != IBV_QPT_XRC_SEND && !attr->recv_cq)
        return refuse(RULE_BAD_ARGUMENT, here, NULL, "attr->recv_cq is NULL");
    return 0;
}

static mrg_qp *create_qp(struct ibv_context *device, mrg_pd *pd, mrg_qp_init_attr *attr, const struct here *here)
{
    struct qp_parts parts = {0};
    token qp = 0;
    if (!qp_parts_take(&parts, device, pd, attr, here))
        qp = qp_new(&parts, NULL, attr, here);
    qp_parts_leave(&parts);
    return (mrg_qp *)(uintptr_t)qp;
}

API(mrg_qp *, mrg_ibv_create_qp, (mrg_pd * pd, mrg_qp_init_attr *attr), (pd, attr))
{
    struct slot *slot = object_enter(pd, TYPE_PD, HERE);
    if (!slot)
        return NULL;
    mrg_qp *qp = refuse_attr(attr, HERE) ? NULL : create_qp(pd_of(slot)->raw->context, pd, attr, HERE);
    object_exit(slot);
    return qp;
}

API(mrg_qp *, mrg_ibv_create_qp_ex, (mrg_context * context, mrg_qp_init_attr *attr), (context, attr))
{
    struct slot *slot = object_enter(context, TYPE_CONTEXT, HERE);
    if (!slot)
        return NULL;
    mrg_qp *qp = NULL;
    if (!refuse_attr(attr, HERE)) {
        if (attr->pd || attr->qp_type == IBV_QPT_XRC_RECV)
            qp = create_qp(context_of(slot)->raw, attr->pd, attr, HERE);
        else
            refuse(RULE_BAD_ARGUMENT, HERE, NULL, "attr->pd is NULL");
    }
    object_exit(slot);
    return qp;
}

API(int, mrg_ibv_destroy_qp, (mrg_qp * qp), (qp))
{
    struct slot *slot = slot_find(qp, TYPE_QP);
    if (slot && object_parent(slot, TYPE_ID) && slot_find(qp, TYPE_QP))
        return refuse(RULE_WRONG_STATE, HERE, slot, "the QP was made for an id: mrg_destroy_qp");
    return object_destroy(qp, TYPE_QP, HERE);
}

/* A reset drops what is in flight. Posts are kept out meanwhile, so none is dropped that the device took afterwards. */
static int reset(struct qp *qp, struct ibv_qp_attr *attr, int mask, struct finished *finished)
{
    pthread_mutex_lock(&qp->base.base.lock); /* another thread may be resetting it as well */
    for (int i = 0; i < QUEUES; i++)
        queue_shut(&qp->base.at[i]);
    int error = verbs.modify_qp(qp->raw, attr, mask);
    for (int i = 0; !error && i < QUEUES; i++)
        queue_drop_all(&qp->base.at[i], finished);
    for (int i = 0; i < QUEUES; i++)
        queue_reopen(&qp->base.at[i]);
    pthread_mutex_unlock(&qp->base.base.lock);
    return error;
}

API(int, mrg_modify_qp, (mrg_qp * qp, struct ibv_qp_attr *attr, int attr_mask), (qp, attr, attr_mask))
{
    struct slot *slot = object_enter(qp, TYPE_QP, HERE);
    if (!slot)
        return -1;
    if (!attr)
        return refuse(RULE_BAD_ARGUMENT, HERE, slot, "attr is NULL"), object_exit(slot), -1;
    bool resets = (attr_mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET;
    struct finished finished = {0};
    int error =
        resets ? reset(qp_of(slot), attr, attr_mask, &finished) : verbs.modify_qp(qp_of(slot)->raw, attr, attr_mask);
    object_exit(slot);
    release_finished(&finished); /* what they call finds the QP open, and nobody inside it */
    return error ? failed_below(error) : 0;
}

/* Handles in the place of raw objects; the caller's own context. */
static void translate(struct slot *slot, const struct ibv_qp_init_attr *raw, mrg_qp_init_attr *ret)
{
    struct slot *pd = object_parent(slot, TYPE_PD), *srq = object_parent(slot, TYPE_SRQ);
    struct slot *xrcd = object_parent(slot, TYPE_XRCD);
    *ret = (mrg_qp_init_attr){
        .qp_context = qp_of(slot)->context,
        .send_cq = raw->send_cq ? raw->send_cq->cq_context : NULL,
        .recv_cq = raw->recv_cq ? raw->recv_cq->cq_context : NULL,
        .srq = srq ? slot_handle(srq) : NULL,
        .cap = raw->cap,
        .qp_type = raw->qp_type,
        .sq_sig_all = raw->sq_sig_all,
        .pd = pd ? slot_handle(pd) : NULL,
        .xrcd = xrcd ? slot_handle(xrcd) : NULL,
    };
}

API(int, mrg_query_qp, (mrg_qp * qp, struct ibv_qp_attr *attr, int attr_mask, mrg_qp_init_attr *init_attr),
    (qp, attr, attr_mask, init_attr))
{
    struct slot *slot = object_enter(qp, TYPE_QP, HERE);
    if (!slot)
        return -1;
    if (!attr || !init_attr)
        return refuse(RULE_BAD_ARGUMENT, HERE, slot, "%s is NULL", attr ? "init_attr" : "attr"), object_exit(slot), -1;
    struct ibv_qp_init_attr raw;
    int error = verbs.query_qp(qp_of(slot)->raw, attr, attr_mask, &raw);
    if (!error)
        translate(slot, &raw, init_attr);
    return object_exit_with(slot, error);
}

API(int, mrg_attach_mcast, (mrg_qp * qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid))
{
    struct slot *slot = object_enter(qp, TYPE_QP, HERE);
    if (!slot)
        return -1;
    if (!gid)
        return refuse(RULE_BAD_ARGUMENT, HERE, slot, "gid is NULL"), object_exit(slot), -1;
    return object_exit_with(slot, verbs.attach_mcast(qp_of(slot)->raw, gid, lid));
}

API(int, mrg_detach_mcast, (mrg_qp * qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid))
{
    struct slot *slot = object_enter(qp, TYPE_QP, HERE);
    if (!slot)
        return -1;
    if (!gid)
        return refuse(RULE_BAD_ARGUMENT, HERE, slot, "gid is NULL"), object_exit(slot), -1;
    return object_exit_with(slot, verbs.detach_mcast(qp_of(slot)->raw, gid, lid));
}

/* What a QP has */

API(uint32_t, mrg_qp_num, (mrg_qp * qp), (qp))
{
    struct slot *slot = object_enter(qp, TYPE_QP, HERE);
    if (!slot)
        return 0;
    uint32_t found = qp_of(slot)->base.at[SEND_QUEUE].qp_num;
    object_exit(slot);
    return found;
}

API(void *, mrg_qp_context, (mrg_qp * qp), (qp))
{
    struct slot *slot = object_enter(qp, TYPE_QP, HERE);
    if (!slot)
        return NULL;
    void *found = qp_of(slot)->context;
    object_exit(slot);
    return found;
}

API(struct ibv_qp *, mrg_qp_raw, (mrg_qp * qp), (qp))
{
    struct slot *slot = object_enter(qp, TYPE_QP, HERE);
    if (!slot)
        return NULL;
    struct ibv_qp *found = qp_of(slot)->raw;
    object_exit(slot);
    return found;
}
