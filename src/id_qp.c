/* The QP of an id: made with the CQs that the caller does not bring, and gone with them. */
#include <errno.h>
#include <inttypes.h>

#include "api.h"
#include "context.h"
#include "cq.h"
#include "id.h"
#include "pd.h"
#include "qp.h"
#include "verbs.h"

static bool has_qp(const struct id *id)
{
    return id->qp || id->cqs[SEND_QUEUE] || id->cqs[RECV_QUEUE];
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
        return refuse(RULE_NO_QP, here, slot, "the id has no QP"), 0;
    return qp;
}

API(mrg_qp *, mrg_id_qp, (mrg_id * id), (id))
{
    return (mrg_qp *)(uintptr_t)id_find_qp(id, HERE);
}

/* What a QP is to be made of: what the caller named, held for as long, and CQs of the id's own for the rest. */
struct making {
    struct qp_parts parts;
    struct slot *held_pd;
    struct slot *held_cqs[QUEUES];
    token own_cqs[QUEUES];
};

static void forget(struct making *m, bool destroy_cqs, const struct here *here)
{
    int saved = errno;
    for (int i = 0; destroy_cqs && i < QUEUES; i++)
        if (m->own_cqs[i] && !object_destroy((void *)(uintptr_t)m->own_cqs[i], TYPE_CQ, here))
            m->own_cqs[i] = 0;
    for (int i = 0; i < QUEUES; i++)
        if (m->held_cqs[i])
            object_exit(m->held_cqs[i]);
    if (m->held_pd)
        object_exit(m->held_pd);
    errno = saved;
}

static int take_pd(struct making *m, const struct id *id, mrg_pd *pd, const struct here *here)
{
    m->parts.pd = pd ? handle_token(pd) : id->device_pd;
    if (!pd)
        return 0;
    m->held_pd = object_enter(pd, TYPE_PD, here);
    if (!m->held_pd)
        return -1;
    if (pd_of(m->held_pd)->raw->context != id->raw->verbs)
        return refuse(RULE_WRONG_PD, here, m->held_pd, "the PD is on another device than the id");
    return 0;
}

static int take_cq(struct making *m, const struct id *id, int which, mrg_cq *cq, const struct here *here)
{
    m->parts.cqs[which] = handle_token(cq);
    if (!cq)
        return 0;
    struct slot *held = m->held_cqs[which] = object_enter(cq, TYPE_CQ, here);
    if (!held)
        return -1;
    if (cq_of(held)->raw->context != id->raw->verbs)
        return refuse(RULE_WRONG_PD, here, held, "the CQ is on another device than the id");
    return 0;
}

static int make_cq(struct making *m, struct slot *slot, int which, uint32_t cqe, const struct here *here)
{
    if (m->parts.cqs[which])
        return 0;
    token device = slot_token(object_parent(slot_at(id_of(slot)->device_pd), TYPE_CONTEXT));
    m->parts.cqs[which] = m->own_cqs[which] = cq_new_for_id(slot, device, cqe, here);
    return m->own_cqs[which] ? 0 : -1;
}

/* A provider says EINVAL and no more where a QP is to be larger than its device allows. */
static int refuse_caps(int error, struct ibv_context *device, const struct ibv_qp_cap *cap, const struct here *here)
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

static token make_parts(struct making *m, struct slot *slot, mrg_qp_init_attr *attr, const struct here *here)
{
    if (make_cq(m, slot, SEND_QUEUE, attr->cap.max_send_wr, here) ||
        make_cq(m, slot, RECV_QUEUE, attr->cap.max_recv_wr, here))
        return 0;
    return qp_new(&m->parts, id_of(slot)->raw, attr, here);
}

/* All that may be refused comes before the first thing is made; what fails then comes from below. */
static token make_qp(struct making *m, struct slot *slot, mrg_pd *pd, mrg_qp_init_attr *attr, const struct here *here)
{
    struct id *id = id_of(slot);
    m->parts.id = slot_token(slot);
    if (take_pd(m, id, pd, here) || take_cq(m, id, SEND_QUEUE, attr->send_cq, here) ||
        take_cq(m, id, RECV_QUEUE, attr->recv_cq, here))
        return 0;
    token qp = make_parts(m, slot, attr, here);
    if (!qp)
        refuse_caps(errno, id->raw->verbs, &attr->cap, here);
    return qp;
}

/*
 * One thread at a time changes what an id has. No lock: a refusal runs the caller's handler of findings, which may
 * come here again.
 */
static int begin_change(struct slot *slot, const struct here *here)
{
    if (!atomic_exchange(&id_of(slot)->changing, true))
        return 0;
    return refuse(RULE_WRONG_STATE, here, slot, "another thread is making or destroying the id's QP");
}

static int end_change(struct slot *slot, int result)
{
    atomic_store(&id_of(slot)->changing, false);
    return result;
}

static int create_qp(struct slot *slot, mrg_pd *pd, mrg_qp_init_attr *attr, const struct here *here)
{
    struct id *id = id_of(slot);
    if (has_qp(id))
        return refuse(RULE_WRONG_STATE, here, slot, "the id has a QP already");
    struct making m = {0};
    token qp = make_qp(&m, slot, pd, attr, here);
    forget(&m, !qp, here);
    id->cqs[SEND_QUEUE] = m.own_cqs[SEND_QUEUE]; /* without QP: what could not be destroyed, for mrg_destroy_qp */
    id->cqs[RECV_QUEUE] = m.own_cqs[RECV_QUEUE];
    if (!qp)
        return -1;
    atomic_store_explicit(&id->registration_pd, m.parts.pd, memory_order_release);
    atomic_store_explicit(&id->qp, qp, memory_order_release);
    return 0;
}

int id_create_qp(struct slot *slot, mrg_pd *pd, mrg_qp_init_attr *attr, const struct here *here)
{
    if (!attr)
        return refuse(RULE_BAD_ARGUMENT, here, slot, "attr is NULL");
    if (!id_device_pd(slot, here) || begin_change(slot, here))
        return -1;
    return end_change(slot, create_qp(slot, pd, attr, here));
}

API(int, mrg_create_qp, (mrg_id * id, mrg_pd *pd, mrg_qp_init_attr *attr), (id, pd, attr))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return -1;
    int result = id_create_qp(slot, pd, attr, HERE);
    object_exit(slot);
    return result;
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

int id_destroy_qp(struct slot *slot, const struct here *here)
{
    return begin_change(slot, here) ? -1 : end_change(slot, destroy_qp(id_of(slot), here));
}

API(int, mrg_destroy_qp, (mrg_id * id), (id))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return -1;
    int result = has_qp(id_of(slot)) ? id_destroy_qp(slot, HERE) : refuse(RULE_NO_QP, HERE, slot, "the id has no QP");
    object_exit(slot);
    return result;
}
