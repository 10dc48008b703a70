#include "qp.h"

#include <errno.h>
#include <inttypes.h>

#include "cq.h"
#include "device.h"
#include "pd.h"
#include "srq.h"
#include "verbs.h"
#include "xrcd.h"

/*
 * librdmacm's own rdma_destroy_qp ignores a refusal and forgets the QP, so we ask libibverbs ourselves. A post
 * that is under way is waited for; later ones find the queue shut.
 */
static int qp_release(struct slot *slot)
{
    struct qp *qp = qp_of(slot);
    for (int i = 0; i < QUEUES; i++)
        queue_shut(&qp->base.at[i]);
    int error = device_answer(qp->raw->context, verbs.destroy_qp(qp->raw));
    if (!error && qp->cm)
        qp->cm->qp = NULL;
    for (int i = 0; error && i < QUEUES; i++)
        queue_reopen(&qp->base.at[i]);
    return error;
}

static void qp_gone(struct slot *slot)
{
    for (int i = 0; i < QUEUES; i++)
        queue_end_all(&qp_of(slot)->base.at[i]);
}

static const struct class qp_class = {
    .type = TYPE_QP, .edges = 6, .body_size = sizeof(struct qp), .release = qp_release, .gone = qp_gone};

/* Parts */

static struct slot *hold_part(struct qp_parts *parts, const void *handle, enum type type, const struct here *here)
{
    struct slot *slot = type == TYPE_CQ ? cq_enter(handle, here) : object_enter(handle, type, here);
    if (slot)
        parts->held[parts->held_count++] = slot;
    return slot;
}

/* Whether the caller's part, if there is one, is good and on the device: its context is found by the type. */
static int take_part(struct qp_parts *parts, token *ret, const void *handle, enum type type, struct ibv_context *raw,
                     const struct here *here)
{
    if (!handle)
        return 0;
    struct slot *slot = hold_part(parts, handle, type, here);
    if (!slot)
        return -1;
    const struct ibv_context *on = type == TYPE_PD    ? pd_of(slot)->raw->context
                                   : type == TYPE_CQ  ? cq_of(slot)->raw->context
                                   : type == TYPE_SRQ ? srq_of(slot)->raw->context
                                                      : xrcd_of(slot)->raw->context;
    if (on != raw)
        return refuse(RULE_WRONG_PD, here, slot, "the %s is on another device than the QP is to be", type_name(type));
    *ret = handle_token(handle);
    return 0;
}

int qp_parts_take(struct qp_parts *parts, struct ibv_context *raw, mrg_pd *pd, const mrg_qp_init_attr *attr,
                  const struct here *here)
{
    return take_part(parts, &parts->pd, pd, TYPE_PD, raw, here) ||
                   take_part(parts, &parts->cqs[SEND_QUEUE], attr->send_cq, TYPE_CQ, raw, here) ||
                   take_part(parts, &parts->cqs[RECV_QUEUE], attr->recv_cq, TYPE_CQ, raw, here) ||
                   take_part(parts, &parts->srq, attr->srq, TYPE_SRQ, raw, here) ||
                   take_part(parts, &parts->xrcd, attr->xrcd, TYPE_XRCD, raw, here)
               ? -1
               : 0;
}

void qp_parts_leave(struct qp_parts *parts)
{
    while (parts->held_count)
        object_exit(parts->held[--parts->held_count]);
}

/* Making */

/* NULL: a queue without CQ, on which nothing ever completes. */
static struct endings *endings_of(const struct qp_parts *parts, int which)
{
    return parts->cqs[which] ? &cq_of(slot_at(parts->cqs[which]))->endings : NULL;
}

static int open_queues(struct slot *slot, const struct qp_parts *parts, const mrg_qp_init_attr *attr)
{
    const struct ibv_qp_cap *cap = &attr->cap;
    const struct qp *qp = qp_of(slot);
    struct queue *queues = qp_of(slot)->base.at;
    uint32_t number = qp->raw->qp_num;
    struct queue_size send = {cap->max_send_wr,     cap->max_send_sge, number, endings_of(parts, SEND_QUEUE), true,
                              attr->single_threaded};
    struct queue_size recv = {cap->max_recv_wr,     cap->max_recv_sge, number, endings_of(parts, RECV_QUEUE), true,
                              attr->single_threaded};
    if (queue_open(&queues[SEND_QUEUE], slot, SEND_QUEUE, &send))
        return -1;
    if (qp->shared_recv || !queue_open(&queues[RECV_QUEUE], slot, RECV_QUEUE, &recv))
        return 0;
    queue_shut(&queues[SEND_QUEUE]);
    queue_end_all(&queues[SEND_QUEUE]);
    return errno = ENOMEM, -1;
}

static struct ibv_qp_init_attr_ex raw_attr(const struct slot *slot, const struct qp_parts *parts,
                                           const mrg_qp_init_attr *attr)
{
    const struct qp *qp = qp_of(slot);
    return (struct ibv_qp_init_attr_ex){
        .qp_context = slot_handle(slot),
        .send_cq = parts->cqs[SEND_QUEUE] ? cq_of(slot_at(parts->cqs[SEND_QUEUE]))->raw : NULL,
        .recv_cq = parts->cqs[RECV_QUEUE] ? cq_of(slot_at(parts->cqs[RECV_QUEUE]))->raw : NULL,
        .srq = parts->srq ? srq_of(slot_at(parts->srq))->raw : NULL,
        .cap = attr->cap,
        .qp_type = qp->cm && !attr->qp_type ? qp->cm->qp_type : attr->qp_type,
        .sq_sig_all = attr->sq_sig_all,
        .comp_mask = (parts->pd ? IBV_QP_INIT_ATTR_PD : 0U) | (parts->xrcd ? IBV_QP_INIT_ATTR_XRCD : 0U),
        .pd = parts->pd ? pd_of(slot_at(parts->pd))->raw : NULL,
        .xrcd = parts->xrcd ? xrcd_of(slot_at(parts->xrcd))->raw : NULL,
    };
}

/*
 * An id's QP through rdma_create_qp_ex, which also brings it to INIT with the id's port. It writes freed pointers into
 * its attributes when it fails, so it gets a copy; only what was granted comes back.
 */
static int make_raw(struct slot *slot, const struct qp_parts *parts, struct ibv_context *device, mrg_qp_init_attr *attr)
{
    struct qp *qp = qp_of(slot);
    struct ibv_qp_init_attr_ex raw = raw_attr(slot, parts, attr);
    if (qp->cm ? verbs.create_qp(qp->cm, &raw) : !(qp->raw = verbs.create_qp_ex(device, &raw)))
        return -1;
    if (qp->cm)
        qp->raw = qp->cm->qp;
    bool iwarp = device->device && device->device->transport_type == IBV_TRANSPORT_IWARP;
    qp->read_sink = (uint32_t)IBV_ACCESS_LOCAL_WRITE | (iwarp ? (uint32_t)IBV_ACCESS_REMOTE_WRITE : 0);
    bool connected = qp->raw->qp_type == IBV_QPT_RC || qp->raw->qp_type == IBV_QPT_UC;
    qp->plain_opcodes = connected ? PLAIN_OPCODES : 0;
    qp->max_inline = raw.cap.max_inline_data;
    qp->context = attr->qp_context;
    qp->shared_recv = parts->srq;
    qp->base.pd = parts->pd ? pd_of(slot_at(parts->pd))->root : 0;
    attr->cap = raw.cap;
    return 0;
}

static int qp_make(struct slot *slot, const struct qp_parts *parts, struct ibv_context *device, mrg_qp_init_attr *attr)
{
    struct qp *qp = qp_of(slot);
    struct ibv_qp_cap asked = attr->cap;
    if (make_raw(slot, parts, device, attr))
        return -1;
    if (!open_queues(slot, parts, attr))
        return 0;
    int error = errno;
    verbs.destroy_qp(qp->raw);
    if (qp->cm)
        qp->cm->qp = NULL;
    attr->cap = asked;
    return errno = error, -1;
}

/* A provider says EINVAL and no more where a QP is to be larger than its device allows. */
int qp_refuse_caps(int error, struct ibv_context *device, const struct ibv_qp_cap *cap, const struct here *here)
{
    struct ibv_device_attr limits;
    if ((error != EINVAL && error != ENOMEM) || verbs.query_device(device, &limits))
        return failed_below(error);
    const struct {
        const char *name;
        uint32_t asked;
        int limit;
    } caps[] = {
        {"max_send_wr", cap->max_send_wr, limits.max_qp_wr},
        {"max_recv_wr", cap->max_recv_wr, limits.max_qp_wr},
        {"max_send_sge", cap->max_send_sge, limits.max_sge},
        {"max_recv_sge", cap->max_recv_sge, limits.max_sge},
    };
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++)
        if (caps[i].limit >= 0 && caps[i].asked > (uint32_t)caps[i].limit)
            return refuse_with(error, RULE_BAD_ARGUMENT, here, NULL, "%s is %" PRIu32 ", the device allows %d",
                               caps[i].name, caps[i].asked, caps[i].limit);
    return failed_below(error);
}

static struct ibv_context *device_of(const struct qp_parts *parts, const struct rdma_cm_id *cm)
{
    return cm          ? cm->verbs
           : parts->pd ? pd_of(slot_at(parts->pd))->raw->context
                       : xrcd_of(slot_at(parts->xrcd))->raw->context;
}

token qp_new(const struct qp_parts *parts, struct rdma_cm_id *cm, mrg_qp_init_attr *attr, const struct here *here)
{
    token parents[] = {parts->id, parts->pd, parts->cqs[SEND_QUEUE], parts->cqs[RECV_QUEUE], parts->srq, parts->xrcd};
    struct slot *slot = object_new(&qp_class, here->site, parents, 6);
    if (!slot)
        return object_refuse_new(&qp_class, here), 0;
    qp_of(slot)->cm = cm;
    struct ibv_context *device = device_of(parts, cm);
    if (!qp_make(slot, parts, device, attr))
        return handle_token(object_publish(slot));
    object_failed(slot);
    return qp_refuse_caps(errno, device, &attr->cap, here), 0;
}
