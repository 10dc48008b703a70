#include "srq.h"

#include <errno.h>
#include <rdma/rdma_cma.h>

#include "api.h"
#include "cq.h"
#include "device.h"
#include "pd.h"
#include "verbs.h"
#include "xrcd.h"

static int srq_release(struct slot *slot)
{
    struct srq *srq = srq_of(slot);
    struct queue *queue = &srq->base.at[RECV_QUEUE];
    queue_shut(queue);
    int error = device_answer(srq->raw->context, verbs.destroy_srq(srq->raw));
    if (error)
        queue_reopen(queue);
    else if (srq->cm)
        srq->cm->srq = NULL;
    return error;
}

static void srq_gone(struct slot *slot)
{
    queue_end_all(&srq_of(slot)->base.at[RECV_QUEUE]);
}

static const struct class srq_class = {
    .type = TYPE_SRQ, .edges = 4, .body_size = sizeof(struct srq), .release = srq_release, .gone = srq_gone};

/* What an SRQ is made of, held meanwhile. */
struct srq_parts {
    struct slot *pd;
    struct slot *cq;
    struct slot *xrcd;
};

static int take_parts(struct srq_parts *parts, mrg_pd *pd, const mrg_srq_init_attr *attr, const struct here *here)
{
    parts->pd = object_enter(pd, TYPE_PD, here);
    if (!parts->pd || (attr->cq && !(parts->cq = cq_enter(attr->cq, here))) ||
        (attr->xrcd && !(parts->xrcd = object_enter(attr->xrcd, TYPE_XRCD, here))))
        return -1;
    const struct ibv_context *device = pd_of(parts->pd)->raw->context;
    if ((parts->cq && cq_of(parts->cq)->raw->context != device) ||
        (parts->xrcd && xrcd_of(parts->xrcd)->raw->context != device))
        return refuse(RULE_WRONG_PD, here, parts->pd, "the SRQ's CQ or XRC domain is on another device than its PD");
    return 0;
}

static void leave_parts(const struct srq_parts *parts)
{
    struct slot *held[] = {parts->xrcd, parts->cq, parts->pd};
    for (int i = 0; i < 3; i++)
        if (held[i])
            object_exit(held[i]);
}

static int make_raw(struct slot *slot, const struct srq_parts *parts, mrg_srq_init_attr *attr)
{
    struct ibv_srq_init_attr_ex raw = {
        .srq_context = slot_handle(slot),
        .attr = attr->attr,
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | (parts->xrcd ? IBV_SRQ_INIT_ATTR_XRCD : 0U) |
                     (parts->cq ? IBV_SRQ_INIT_ATTR_CQ : 0U),
        .srq_type = attr->srq_type ? attr->srq_type : IBV_SRQT_BASIC,
        .pd = pd_of(parts->pd)->raw,
        .xrcd = parts->xrcd ? xrcd_of(parts->xrcd)->raw : NULL,
        .cq = parts->cq ? cq_of(parts->cq)->raw : NULL,
    };
    struct srq *srq = srq_of(slot);
    srq->raw = verbs.create_srq_ex(raw.pd->context, &raw);
    if (!srq->raw)
        return -1;
    struct queue_size size = {.depth = raw.attr.max_wr, .max_sge = raw.attr.max_sge};
    if (queue_open(&srq->base.at[RECV_QUEUE], slot, RECV_QUEUE, &size)) {
        verbs.destroy_srq(srq->raw);
        return errno = ENOMEM, -1;
    }
    attr->attr = raw.attr;
    return 0;
}

static token srq_make(token id, const struct srq_parts *parts, struct rdma_cm_id *cm, mrg_srq_init_attr *attr,
                      const struct here *here)
{
    token parents[] = {id, slot_token(parts->pd), parts->cq ? slot_token(parts->cq) : 0,
                       parts->xrcd ? slot_token(parts->xrcd) : 0};
    struct slot *slot = object_new(&srq_class, here->site, parents, 4);
    if (!slot)
        return object_refuse_new(&srq_class, here), 0;
    struct srq *srq = srq_of(slot);
    srq->base.pd = pd_of(parts->pd)->root;
    srq->cm = cm;
    srq->context = attr->srq_context;
    if (make_raw(slot, parts, attr))
        return object_failed(slot), 0;
    if (cm)
        cm->srq = srq->raw;
    return handle_token(object_publish(slot));
}

token srq_new(struct slot *id, struct rdma_cm_id *cm, mrg_pd *pd, mrg_srq_init_attr *attr, const struct here *here)
{
    struct srq_parts parts = {0};
    token srq = 0;
    if (!take_parts(&parts, attr->pd ? attr->pd : pd, attr, here))
        srq = srq_make(id ? slot_token(id) : 0, &parts, cm, attr, here);
    leave_parts(&parts);
    return srq;
}

static mrg_srq *create(mrg_pd *pd, mrg_srq_init_attr *attr, const struct here *here)
{
    if (!attr)
        return refuse(RULE_BAD_ARGUMENT, here, NULL, "attr is NULL"), NULL;
    return (mrg_srq *)(uintptr_t)srq_new(NULL, NULL, pd, attr, here);
}

API(mrg_srq *, mrg_ibv_create_srq, (mrg_pd * pd, mrg_srq_init_attr *attr), (pd, attr))
{
    if (attr && attr->pd && attr->pd != pd)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "attr->pd is for mrg_ibv_create_srq_ex, and another than pd"),
               NULL;
    return create(pd, attr, HERE);
}

API(mrg_srq *, mrg_ibv_create_srq_ex, (mrg_context * context, mrg_srq_init_attr *attr), (context, attr))
{
    struct slot *device = object_enter(context, TYPE_CONTEXT, HERE);
    if (!device)
        return NULL;
    mrg_srq *srq = NULL;
    struct slot *pd = attr && attr->pd ? slot_find(attr->pd, TYPE_PD) : NULL;
    if (pd && object_parent(pd, TYPE_CONTEXT) != device)
        refuse(RULE_WRONG_PD, HERE, pd, "attr->pd is on another device");
    else
        srq = create(NULL, attr, HERE);
    object_exit(device);
    return srq;
}

API(int, mrg_ibv_destroy_srq, (mrg_srq * srq), (srq))
{
    struct slot *slot = slot_find(srq, TYPE_SRQ);
    if (slot && object_parent(slot, TYPE_ID) && slot_find(srq, TYPE_SRQ))
        return refuse(RULE_WRONG_STATE, HERE, slot, "the SRQ was made for an id: mrg_destroy_srq");
    return object_destroy(srq, TYPE_SRQ, HERE);
}

API(int, mrg_modify_srq, (mrg_srq * srq, struct ibv_srq_attr *attr, int mask), (srq, attr, mask))
{
    if (!attr)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "attr is NULL");
    struct slot *slot = object_enter(srq, TYPE_SRQ, HERE);
    if (!slot)
        return -1;
    if (!(mask & IBV_SRQ_MAX_WR))
        return object_exit_with(slot, verbs.modify_srq(srq_of(slot)->raw, attr, mask));
    refuse_with(EOPNOTSUPP, RULE_BAD_ARGUMENT, HERE, slot, "a tracked SRQ keeps its size: make it as large as needed");
    object_exit(slot);
    return -1;
}

API(int, mrg_query_srq, (mrg_srq * srq, struct ibv_srq_attr *attr), (srq, attr))
{
    if (!attr)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "attr is NULL");
    struct slot *slot = object_enter(srq, TYPE_SRQ, HERE);
    if (!slot)
        return -1;
    return object_exit_with(slot, verbs.query_srq(srq_of(slot)->raw, attr));
}

API(int, mrg_get_srq_num, (mrg_srq * srq, uint32_t *srq_num), (srq, srq_num))
{
    if (!srq_num)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "srq_num is NULL");
    struct slot *slot = object_enter(srq, TYPE_SRQ, HERE);
    if (!slot)
        return -1;
    return object_exit_with(slot, verbs.get_srq_num(srq_of(slot)->raw, srq_num));
}
