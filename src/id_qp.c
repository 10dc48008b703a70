/* The QP of an id: made with the CQs that the caller does not bring, and gone with them. */
#include <errno.h>

#include "api.h"
#include "context.h"
#include "cq.h"
#include "id.h"
#include "qp.h"

static bool has_qp(const struct id *id)
{
    return id->qp || id->cqs[SEND_QUEUE] || id->cqs[RECV_QUEUE];
}

static int refuse_no_qp(const struct slot *slot, const struct here *here)
{
    if (id_of(slot)->adopted)
        return refuse(RULE_NO_QP, here, slot,
                      "a QP that the adopted id had before is raw: post there (mrg_id_raw), with mrg_borrow_begin");
    return refuse(RULE_NO_QP, here, slot, "the id has no QP");
}

/* The token is this id's only if the id is still there after it was read: bodies are reused. */
token id_find_qp(mrg_id *handle, const struct here *here)
{
    struct slot *slot = slot_find(handle, TYPE_ID);
    if (!slot)
        return refuse_handle(handle, TYPE_ID, here), 0;
    token qp = atomic_load(&id_of(slot)->qp);
    if (!slot_find(handle, TYPE_ID))
        return refuse_handle(handle, TYPE_ID, here), 0;
    if (!qp || !slot_find((void *)(uintptr_t)qp, TYPE_QP))
        return refuse_no_qp(slot, here), 0;
    return qp;
}

token id_find_recv(mrg_id *handle, const struct here *here)
{
    struct slot *slot = slot_find(handle, TYPE_ID);
    if (!slot)
        return refuse_handle(handle, TYPE_ID, here), 0;
    token srq = atomic_load_explicit(&id_of(slot)->srq, memory_order_acquire);
    token qp = atomic_load_explicit(&id_of(slot)->qp, memory_order_acquire);
    if (!slot_find(handle, TYPE_ID))
        return refuse_handle(handle, TYPE_ID, here), 0;
    if (__builtin_expect(srq != 0, 0) && slot_find((void *)(uintptr_t)srq, TYPE_SRQ))
        return srq;
    if (!qp || !slot_find((void *)(uintptr_t)qp, TYPE_QP))
        return refuse_no_qp(slot, here), 0;
    return qp;
}

/* CQs that were made for the id; 0 and a finding. */
static mrg_cq *own_cq(mrg_id *id, int which, const struct here *here)
{
    if (!id_find_qp(id, here))
        return NULL;
    token cq = id_of(slot_at(handle_token(id)))->cqs[which];
    if (!slot_find(id, TYPE_ID))
        return refuse_handle(id, TYPE_ID, here), NULL;
    if (!cq)
        return refuse(RULE_WRONG_STATE, here, NULL, "the QP was made with a CQ of the caller's"), NULL;
    return (mrg_cq *)(uintptr_t)cq;
}

API(mrg_cq *, mrg_id_send_cq, (mrg_id * id), (id))
{
    return own_cq(id, SEND_QUEUE, HERE);
}

API(mrg_cq *, mrg_id_recv_cq, (mrg_id * id), (id))
{
    return own_cq(id, RECV_QUEUE, HERE);
}

API(mrg_qp *, mrg_id_qp, (mrg_id * id), (id))
{
    return (mrg_qp *)(uintptr_t)id_find_qp(id, HERE);
}

/* CQs of the id's own, for the queues that the caller brings none for. */
static int make_cq(struct qp_parts *parts, token own_cqs[], struct slot *slot, int which, const mrg_qp_init_attr *attr,
                   const struct here *here)
{
    uint32_t cqe = which == SEND_QUEUE ? attr->cap.max_send_wr : attr->cap.max_recv_wr;
    if (parts->cqs[which])
        return 0;
    token device = slot_token(object_parent(slot_at(id_of(slot)->device_pd), TYPE_CONTEXT));
    parts->cqs[which] = own_cqs[which] = cq_new_for_id(slot, device, cqe, attr->single_threaded, here);
    return own_cqs[which] ? 0 : -1;
}

/* All that may be refused comes before the first thing is made; what fails then comes from below. */
static token make_qp(struct qp_parts *parts, token own_cqs[], struct slot *slot, mrg_pd *pd, mrg_qp_init_attr *attr,
                     const struct here *here)
{
    struct id *id = id_of(slot);
    parts->id = slot_token(slot);
    parts->pd = id->device_pd;
    parts->srq = id->srq;
    if (qp_parts_take(parts, id->raw->verbs, pd, attr, here))
        return 0;
    if (make_cq(parts, own_cqs, slot, SEND_QUEUE, attr, here) || make_cq(parts, own_cqs, slot, RECV_QUEUE, attr, here))
        return qp_refuse_caps(errno, id->raw->verbs, &attr->cap, here), 0;
    return qp_new(parts, id->raw, attr, here);
}

static void destroy_cqs(token own_cqs[], const struct here *here)
{
    int saved = errno;
    for (int i = 0; i < QUEUES; i++)
        if (own_cqs[i] && !object_destroy((void *)(uintptr_t)own_cqs[i], TYPE_CQ, here))
            own_cqs[i] = 0;
    errno = saved;
}

int id_change_begin(struct slot *slot, const struct here *here)
{
    if (!atomic_exchange(&id_of(slot)->changing, true))
        return 0;
    return refuse(RULE_WRONG_STATE, here, slot, "another thread is changing what the id has");
}

int id_change_end(struct slot *slot, int result)
{
    atomic_store(&id_of(slot)->changing, false);
    return result;
}

static int create_qp(struct slot *slot, mrg_pd *pd, mrg_qp_init_attr *attr, const struct here *here)
{
    struct id *id = id_of(slot);
    if (has_qp(id) || id->raw->qp)
        return refuse(RULE_WRONG_STATE, here, slot, "the id has a QP already");
    struct qp_parts parts = {0};
    token own_cqs[QUEUES] = {0};
    token qp = make_qp(&parts, own_cqs, slot, pd, attr, here);
    if (!qp)
        destroy_cqs(own_cqs, here);
    qp_parts_leave(&parts);
    id->cqs[SEND_QUEUE] = own_cqs[SEND_QUEUE]; /* without QP: what could not be destroyed, for mrg_destroy_qp */
    id->cqs[RECV_QUEUE] = own_cqs[RECV_QUEUE];
    if (!qp)
        return -1;
    atomic_store_explicit(&id->registration_pd, parts.pd, memory_order_release);
    struct qp *made = qp_of(slot_at(qp));
    bool plain = made->plain_opcodes == PLAIN_OPCODES && made->read_sink == IBV_ACCESS_LOCAL_WRITE;
    id->queues[SEND_QUEUE] = plain ? &made->base.at[SEND_QUEUE] : NULL;
    id->queues[RECV_QUEUE] = id->srq ? NULL : &made->base.at[RECV_QUEUE];
    atomic_store_explicit(&id->qp, qp, memory_order_release);
    return 0;
}

int id_create_qp(struct slot *slot, mrg_pd *pd, mrg_qp_init_attr *attr, const struct here *here)
{
    if (!attr)
        return refuse(RULE_BAD_ARGUMENT, here, slot, "attr is NULL");
    if (!id_device_pd(slot, here) || id_change_begin(slot, here))
        return -1;
    return id_change_end(slot, create_qp(slot, pd, attr, here));
}

static int enter_and_create_qp(mrg_id *id, mrg_pd *pd, mrg_qp_init_attr *attr, const struct here *here)
{
    struct slot *slot = object_enter(id, TYPE_ID, here);
    if (!slot)
        return -1;
    int result = id_create_qp(slot, pd, attr, here);
    object_exit(slot);
    return result;
}

API(int, mrg_create_qp, (mrg_id * id, mrg_pd *pd, mrg_qp_init_attr *attr), (id, pd, attr))
{
    return enter_and_create_qp(id, pd, attr, HERE);
}

API(int, mrg_create_qp_ex, (mrg_id * id, mrg_qp_init_attr *attr), (id, attr))
{
    return enter_and_create_qp(id, attr ? attr->pd : NULL, attr, HERE);
}

/*
 * QP and CQs go together or not at all, as far as rules are concerned: all are claimed before the first is
 * released. Where the provider refuses one, those after it stay, and the next call goes on with them.
 */
static int destroy_qp(struct id *id, const struct here *here)
{
    token tokens[] = {id->qp, id->cqs[SEND_QUEUE], id->cqs[RECV_QUEUE]};
    const int count = sizeof tokens / sizeof *tokens;
    int closed = 0, released = 0;
    while (closed < count &&
           (!tokens[closed] || !object_close(slot_at(tokens[closed]), tokens[closed], 1U << TYPE_QP, here)))
        closed++;
    while (closed == count && released < count && (!tokens[released] || !object_release(slot_at(tokens[released]))))
        released++;
    /* the one at which releasing stopped has reopened itself */
    for (int i = closed == count ? released + 1 : 0; i < closed; i++)
        if (tokens[i])
            object_reopen(slot_at(tokens[i]), tokens[i]);
    if (released > 0) {
        id->qp = 0;
        id->registration_pd = id->device_pd;
    }
    for (int i = 1; i < released; i++)
        id->cqs[i - 1] = 0;
    return released == count ? 0 : -1;
}

int id_refuse_busy_qp(const struct slot *slot, unsigned int spare, const struct here *here)
{
    const struct id *id = id_of(slot);
    token tokens[] = {id->qp, id->cqs[SEND_QUEUE], id->cqs[RECV_QUEUE]};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        if (tokens[i] && object_refuse_busy(slot_at(tokens[i]), tokens[i], spare | 1U << TYPE_QP, here))
            return -1;
    return 0;
}

int id_destroy_qp(struct slot *slot, const struct here *here)
{
    return id_change_begin(slot, here) ? -1 : id_change_end(slot, destroy_qp(id_of(slot), here));
}

API(int, mrg_destroy_qp, (mrg_id * id), (id))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return -1;
    int result = id_change_begin(slot, HERE);
    if (!result) {
        bool has = has_qp(id_of(slot));
        id_change_end(slot, result = has ? destroy_qp(id_of(slot), HERE) : -1);
        if (!has)
            refuse(RULE_NO_QP, HERE, slot, "the id has no QP");
    }
    object_exit(slot);
    return result;
}
