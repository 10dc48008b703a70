#include "qp.h"

#include <errno.h>

#include "cq.h"
#include "pd.h"
#include "verbs.h"

/*
 * librdmacm's own rdma_destroy_qp ignores a refusal and forgets the QP, so we ask libibverbs ourselves. A post
 * that is under way is waited for; later ones find the queue shut.
 */
static int qp_release(struct slot *slot)
{
    struct qp *qp = qp_of(slot);
    for (int i = 0; i < QUEUES; i++)
        queue_shut(&qp->queues[i]);
    int error = verbs.destroy_qp(qp->raw);
    if (!error)
        qp->cm->qp = NULL;
    for (int i = 0; error && i < QUEUES; i++)
        queue_reopen(&qp->queues[i]);
    return error;
}

static void qp_gone(struct slot *slot)
{
    for (int i = 0; i < QUEUES; i++)
        queue_end_all(&qp_of(slot)->queues[i]);
}

static const struct class qp_class = {
    .type = TYPE_QP, .edges = 4, .body_size = sizeof(struct qp), .release = qp_release, .gone = qp_gone};

/* The queues' mutexes live as long as the slot, which is for ever. */
static void prepare_queues(struct qp *qp)
{
    for (int i = 0; !qp->ready && i < QUEUES; i++)
        pthread_mutex_init(&qp->queues[i].lock, NULL);
    qp->ready = true;
}

static int open_queues(struct slot *slot, const struct ibv_qp_cap *cap)
{
    struct queue *queues = qp_of(slot)->queues;
    uint32_t qp_num = qp_of(slot)->raw->qp_num;
    if (queue_open(&queues[SEND_QUEUE], slot, SEND_QUEUE, qp_num, cap->max_send_wr, cap->max_send_sge))
        return -1;
    if (!queue_open(&queues[RECV_QUEUE], slot, RECV_QUEUE, qp_num, cap->max_recv_wr, cap->max_recv_sge))
        return 0;
    int error = errno;
    queue_shut(&queues[SEND_QUEUE]);
    queue_end_all(&queues[SEND_QUEUE]);
    return errno = error, -1;
}

/*
 * Through rdma_create_qp, which also brings the QP to INIT with the id's port. It writes freed pointers into its
 * attributes when it fails, so it gets a copy; only what was granted comes back.
 */
static int make_raw(struct qp *qp, const struct qp_parts *parts, mrg_qp_init_attr *attr)
{
    struct ibv_qp_init_attr raw = {
        .qp_context = attr->qp_context,
        .send_cq = cq_of(slot_at(parts->cqs[SEND_QUEUE]))->raw,
        .recv_cq = cq_of(slot_at(parts->cqs[RECV_QUEUE]))->raw,
        .cap = attr->cap,
        .qp_type = qp->cm->qp_type,
        .sq_sig_all = attr->sq_sig_all,
    };
    if (verbs.create_qp(qp->cm, pd_of(slot_at(parts->pd))->raw, &raw))
        return -1;
    qp->raw = qp->cm->qp;
    qp->pd = (uint32_t)(parts->pd & INDEX_MASK);
    qp->max_inline = raw.cap.max_inline_data;
    attr->cap = raw.cap;
    return 0;
}

static int qp_make(struct slot *slot, const struct qp_parts *parts, mrg_qp_init_attr *attr)
{
    struct qp *qp = qp_of(slot);
    struct ibv_qp_cap asked = attr->cap;
    if (make_raw(qp, parts, attr))
        return -1;
    if (!open_queues(slot, &attr->cap))
        return 0;
    int error = errno;
    verbs.destroy_qp(qp->raw);
    qp->cm->qp = NULL;
    attr->cap = asked;
    return errno = error, -1;
}

token qp_new(const struct qp_parts *parts, struct rdma_cm_id *cm, mrg_qp_init_attr *attr, const struct here *here)
{
    token parents[] = {parts->id, parts->pd, parts->cqs[SEND_QUEUE], parts->cqs[RECV_QUEUE]};
    struct slot *slot = object_new(&qp_class, here->site, parents, 4);
    if (!slot)
        return object_refuse_new(&qp_class, here), 0;
    prepare_queues(qp_of(slot));
    qp_of(slot)->cm = cm;
    if (!qp_make(slot, parts, attr))
        return handle_token(object_publish(slot));
    object_abandon(slot);
    failed_below(errno);
    return 0;
}
