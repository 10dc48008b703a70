#include "model.h"

#include <string.h>

struct object objects[KINDS][SLOTS];
int raw_live[KINDS];
struct below below;
void *releases[KINDS * SLOTS];
int release_count;
int owned_count;
uint64_t registered_bytes, mrs_live;

static uint64_t epochs;

/* What only some objects have, by their slots. */
static struct queue sends[SLOTS], recvs[SLOTS], shared[SLOTS];
static struct completion backlogs[SLOTS][BACKLOG];

static void may(struct verdict *v, int error, const char *rule)
{
    for (int i = 0; i < v->count; i++)
        if (v->may[i].error == error && v->may[i].rule == rule)
            return;
    v->may[v->count].error = error;
    v->may[v->count++].rule = rule;
}

static bool failed(const char *verb)
{
    return below.failed && !strcmp(below.failed, verb);
}

void model_reset(void)
{
    memset(objects, 0, sizeof objects);
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < SLOTS; i++)
            objects[k][i].kind = (enum kind)k;
    memset(raw_live, 0, sizeof raw_live);
    registered_bytes = mrs_live = 0;
}

void model_begin(void)
{
    release_count = owned_count = 0;
    below = (struct below){0};
}

struct object *model_place(enum kind kind, unsigned int from)
{
    for (unsigned int i = 0; i < SLOTS; i++) {
        struct object *o = &objects[kind][(from + i) % SLOTS];
        if (o->state == GONE)
            return o;
    }
    return NULL;
}

/* Life */

static void born(struct object *o)
{
    static long serials;
    enum kind kind = o->kind;
    long slot = o - objects[kind];
    *o = (struct object){.kind = kind, .state = LIVE, .serial = ++serials, .refs = 1, .raw = below.made};
    raw_live[kind]++;
    if (kind == QP)
        o->send = &sends[slot], o->recv = &recvs[slot];
    else if (kind == SRQ)
        o->recv = &shared[slot];
    else if (kind == CQ)
        o->backlog = backlogs[slot];
}

static void child_of(struct object *o, struct object *parent)
{
    for (int i = 0; parent && i < PARENTS; i++)
        if (!o->parents[i]) {
            o->parents[i] = parent;
            parent->children[o->kind]++;
            return;
        }
}

static int all_children(const struct object *o)
{
    int sum = 0;
    for (int k = 0; k < KINDS; k++)
        sum += o->children[k];
    return sum;
}

static void settle(struct object *o);

static void gone(struct object *o)
{
    o->state = GONE;
    o->refused = false;
    raw_live[o->kind] -= !(o->unowned && o->kind == CONTEXT);
    if (o->raw)
        releases[release_count++] = o->raw;
    if (o->kind == MR) {
        mrs_live--;
        registered_bytes -= o->length;
        owned_count += o->owned;
    }
    for (int i = 0; i < PARENTS; i++)
        if (o->parents[i]) {
            struct object *parent = o->parents[i];
            o->parents[i] = NULL;
            parent->children[o->kind]--;
            settle(parent);
        }
}

/* Lets go what was given up, when nothing needs it any more. */
static void settle(struct object *o)
{
    bool wanted = o->unowned ? o->refs > 0 : o->state == LIVE;
    if (o->state == GONE || wanted || o->uses || all_children(o))
        return;
    if (o->raw && below.refused == o->raw)
        o->refused = true;
    else
        gone(o);
}

bool model_within(const struct object *o, const struct object *parent)
{
    if (o == parent)
        return true;
    for (int i = 0; i < PARENTS; i++)
        if (o->parents[i] && model_within(o->parents[i], parent))
            return true;
    return false;
}

static bool was_released(const void *raw)
{
    for (int i = 0; i < below.released_count; i++)
        if (below.released[i] == raw)
            return true;
    return false;
}

/* Releases that the provider refused are tried again before a parent's destroy is refused for their sake. */
static void try_again(const struct object *parent)
{
    for (int k = KINDS - 1; k >= 0; k--)
        for (int i = 0; i < SLOTS; i++)
            if (objects[k][i].refused && model_within(&objects[k][i], parent))
                settle(&objects[k][i]);
}

void model_late(void)
{
    for (int k = KINDS - 1; k >= 0; k--)
        for (int i = 0; i < SLOTS; i++)
            if (objects[k][i].refused && was_released(objects[k][i].raw))
                settle(&objects[k][i]);
}

/* Arguments */

static void check(struct verdict *v, const struct arg *a)
{
    if (a->origin == NONE)
        may(v, EINVAL, "bad-argument");
    else if (a->origin != HANDLE || a->object->state != LIVE)
        may(v, ESTALE, "stale-handle");
}

static bool lives(const struct arg *a)
{
    return a->origin == HANDLE && a->object->state == LIVE;
}

static struct object *context_of(struct object *o)
{
    while (o->kind != CONTEXT)
        o = o->parents[0];
    return o;
}

struct verdict model_look(const struct arg *a)
{
    struct verdict v = {0};
    check(&v, a);
    return v;
}

/* Creation */

struct verdict model_open(struct object *o)
{
    struct verdict v = {0};
    if (below.failed)
        may(&v, below.error, NULL);
    else
        born(o);
    return v;
}

struct verdict model_create(struct object *o, const struct arg *parent)
{
    struct verdict v = {0};
    check(&v, parent);
    if (!v.count && below.failed)
        may(&v, below.error, NULL);
    if (v.count)
        return v;
    born(o);
    child_of(o, parent->object);
    return v;
}

#define KNOWN_ACCESS \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static void judge_range(struct verdict *v, size_t length, int access)
{
    if (length == 0)
        may(v, EINVAL, "bad-argument");
    if (length > SIZE_MAX / 2) /* no arena is that low in memory */
        may(v, ERANGE, "out-of-range");
    if (access & ~KNOWN_ACCESS)
        may(v, EINVAL, "bad-argument");
    if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) && !(access & IBV_ACCESS_LOCAL_WRITE))
        may(v, EINVAL, "missing-access");
}

static void register_on(struct verdict *v, struct object *o, struct object *pd, size_t offset, size_t length,
                        int access)
{
    if (!v->count && below.failed)
        may(v, below.error, "registration-refused");
    if (v->count)
        return;
    born(o);
    child_of(o, pd);
    o->pd = pd;
    o->offset = offset, o->length = length, o->access = access;
    mrs_live++;
    registered_bytes += length;
}

struct verdict model_register(struct object *o, const struct arg *on, size_t offset, size_t length, int access)
{
    struct verdict v = {0};
    check(&v, on);
    judge_range(&v, length, access);
    register_on(&v, o, on->object, offset, length, access);
    return v;
}

static struct arg arg_to(struct object *o)
{
    return (struct arg){.kind = o->kind, .origin = HANDLE, .handle = o->handle, .object = o};
}

/* On the PD of the id's QP if it has one: given up or not, the QP keeps it. */
struct verdict model_register_through(struct object *o, const struct arg *id, size_t offset, size_t length, int access)
{
    struct verdict v = {0};
    check(&v, id);
    if (!v.count && !id->object->bound)
        may(&v, ENODEV, "no-pd");
    judge_range(&v, length, access);
    if (v.count)
        return v;
    register_on(&v, o, id->object->qp ? id->object->qp->pd : id->object->pd, offset, length, access);
    if (!v.count)
        child_of(o, id->object);
    return v;
}

static void no_child_of(struct object *o, struct object *parent)
{
    for (int i = 0; i < PARENTS; i++)
        if (o->parents[i] == parent) {
            o->parents[i] = NULL;
            parent->children[o->kind]--;
            return;
        }
}

struct verdict model_move(const struct arg *mr, const struct arg *pd)
{
    struct verdict v = {0};
    check(&v, mr);
    check(&v, pd);
    if (lives(mr) && lives(pd) && mr->object->pd != pd->object)
        may(&v, EXDEV, "wrong-pd");
    for (int i = 0; !v.count && i < PARENTS; i++)
        if (mr->object->parents[i] && mr->object->parents[i]->kind == ID)
            no_child_of(mr->object, mr->object->parents[i]);
    return v;
}

struct object *model_device(enum kind kind)
{
    for (int i = 0; i < SLOTS; i++)
        if (objects[kind][i].state != GONE && objects[kind][i].unowned)
            return &objects[kind][i];
    return NULL;
}

static void born_unowned(struct object *o)
{
    born(o);
    o->unowned = true;
    o->refs = 0;
}

struct verdict model_bind(const struct arg *id, struct object *context)
{
    struct verdict v = {0};
    check(&v, id);
    if (v.count)
        return v;
    if (context->state == GONE) {
        born_unowned(context);
        context->raw = NULL; /* the id's own, not opened by us */
        raw_live[CONTEXT]--;
    }
    child_of(id->object, context);
    id->object->bound = true;
    return v;
}

struct verdict model_id_pd(const struct arg *id, struct object *pd)
{
    struct verdict v = {0};
    check(&v, id);
    if (!v.count && !id->object->bound)
        may(&v, ENODEV, "no-pd");
    if (v.count)
        return v;
    if (pd->state == GONE) {
        born_unowned(pd);
        child_of(pd, model_device(CONTEXT));
    }
    pd->refused = false;
    if (!id->object->pd)
        child_of(id->object, id->object->pd = pd);
    pd->refs++;
    return v;
}

static void start_queue(struct queue *q, struct object *cq, uint32_t depth, uint32_t max_sge)
{
    *q = (struct queue){.epoch = ++epochs, .cq = cq, .depth = (int)depth, .max_sge = (int)max_sge};
}

void model_start_srq(struct object *o, uint32_t depth, uint32_t max_sge)
{
    start_queue(o->recv, NULL, depth, max_sge);
    o->recv->shared = true;
    o->pd = o->parents[0];
}

struct verdict model_create_qp(struct object *o, const struct arg *id, const struct arg *on, const struct arg *cqs,
                               const struct arg *srq, const mrg_qp_init_attr *attr)
{
    struct verdict v = {0};
    struct arg pd = *on;
    if (id)
        check(&v, id);
    if (id && lives(id) && id->object->qp)
        may(&v, EINVAL, "wrong-state");
    if (id && lives(id) && !id->object->bound)
        may(&v, ENODEV, "no-pd");
    if (id && on->origin == NONE && lives(id) && id->object->pd)
        pd = arg_to(id->object->pd);
    const struct arg *parts[] = {&pd, &cqs[0], &cqs[1], srq, id};
    for (int i = 0; i < 4; i++)
        if ((i < 3 || srq->origin != NONE) && !(i == 0 && v.count && pd.origin == NONE))
            check(&v, parts[i]);
    for (int i = 1; i < 5; i++)
        if (lives(&pd) && parts[i] && lives(parts[i]) && (i < 4 || id->object->bound) &&
            context_of(parts[i]->object) != context_of(pd.object))
            may(&v, EXDEV, "wrong-pd");
    if (!v.count && below.failed)
        may(&v, below.error, NULL);
    if (v.count)
        return v;
    born(o);
    for (int i = 0; i < 5; i++)
        if (parts[i])
            child_of(o, parts[i]->object);
    o->pd = pd.object;
    o->srq = srq->object;
    if (id)
        id->object->qp = o;
    start_queue(o->send, cqs[0].object, attr->cap.max_send_wr, attr->cap.max_send_sge);
    start_queue(o->recv, cqs[1].object, srq->object ? 0 : attr->cap.max_recv_wr, attr->cap.max_recv_sge);
    o->max_inline = attr->cap.max_inline_data;
    o->all_signaled = attr->sq_sig_all;
    return v;
}

/* Release */

static void use(struct object *o)
{
    o->uses++;
}

static void unuse(struct object *o)
{
    o->uses--;
    settle(o);
}

static void end_wr(struct wr *wr)
{
    for (int i = 0; i < wr->uses; i++)
        unuse(wr->mrs[i]);
    wr->uses = 0;
    wr->used = false;
}

/* All of a queue's work ends, and completions of it that are still in a CQ are nobody's. */
static void drop_queue(struct queue *q)
{
    if (!q)
        return;
    for (int i = 0; i < ROOM; i++)
        end_wr(&q->wrs[i]);
    q->oldest = q->done = q->next = 0;
    q->count = 0;
    q->epoch = ++epochs;
}

static void busy(struct verdict *v, const struct object *o)
{
    if (o->uses)
        may(v, EBUSY, "dereg-in-flight");
    if (o->refs > 1)
        may(v, EBUSY, "destroy-order");
    if (o->children[MR])
        may(v, EBUSY, o->kind == CONTEXT ? "destroy-order" : "leaked-mr");
    if (all_children(o) > o->children[MR])
        may(v, EBUSY, "destroy-order");
}

/* What was given up keeps no id from going: it waits on its PD. */
static void leave_on_pd(struct object *id)
{
    for (int i = 0; i < SLOTS; i++)
        if (objects[MR][i].state == GIVEN_UP && model_within(&objects[MR][i], id))
            no_child_of(&objects[MR][i], id);
}

static struct object *id_of(const struct object *qp)
{
    for (int i = 0; i < PARENTS; i++)
        if (qp->parents[i] && qp->parents[i]->kind == ID)
            return qp->parents[i];
    return NULL;
}

static void end_qp(struct object *qp)
{
    struct object *id = id_of(qp);
    if (id)
        id->qp = NULL;
    drop_queue(qp->send);
    drop_queue(qp->recv);
    gone(qp);
}

static void wrong_way(struct verdict *v, const struct arg *a)
{
    if (lives(a) && ((a->kind == CONTEXT && a->object->unowned) || (a->kind == QP && id_of(a->object))))
        may(v, EINVAL, "wrong-state");
    if (lives(a) && a->kind == PD && !a->object->refs) /* it is an id's device's, and the caller has no reference */
        may(v, ESTALE, "stale-handle");
}

struct verdict model_rereg(const struct arg *mr, int flags, size_t offset, size_t length, int access)
{
    struct verdict v = {0};
    bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION, opens = flags & IBV_REREG_MR_CHANGE_ACCESS;
    check(&v, mr);
    if (!flags)
        may(&v, EINVAL, "bad-argument");
    judge_range(&v, moves ? length : 1, opens ? access : 0);
    if (lives(mr)) {
        busy(&v, mr->object);
        if (moves && mr->object->owned)
            may(&v, EINVAL, "wrong-state");
    }
    if (!v.count && below.failed) {
        may(&v, below.error, NULL);
        may(&v, below.error, "registration-refused");
    }
    if (v.count)
        return v;
    struct object *o = mr->object;
    if (moves) {
        registered_bytes += length - o->length;
        o->offset = offset, o->length = length;
    }
    if (opens)
        o->access = access;
    return v;
}

struct verdict model_destroy(const struct arg *a)
{
    struct verdict v = {0};
    if (a->kind == MR && a->origin == FOREIGN)
        may(&v, EINVAL, "foreign-mr");
    else
        check(&v, a);
    wrong_way(&v, a);
    if (v.count) {
        if (lives(a) && a->kind == PD)
            try_again(a->object);
        return v;
    }
    struct object *o = a->object;
    if (o->kind == ID && !o->qp && o->children[MR])
        leave_on_pd(o);
    busy(&v, o);
    if (v.count) {
        try_again(o);
        v.count = 0;
        busy(&v, o);
    }
    if (!v.count && below.refused && below.refused == o->raw)
        may(&v, below.error, NULL);
    if (v.count)
        return v;
    if (o->kind == BORROW) {
        unuse(o->parents[0]);
        o->parents[0] = NULL;
    }
    if (o->kind == QP)
        end_qp(o);
    else {
        drop_queue(o->recv);
        gone(o);
    }
    return v;
}

struct verdict model_destroy_qp(const struct arg *id)
{
    struct verdict v = {0};
    check(&v, id);
    if (!v.count && !id->object->qp)
        may(&v, EINVAL, "no-qp");
    if (!v.count && below.refused && below.refused == id->object->qp->raw)
        may(&v, below.error, NULL);
    if (!v.count)
        end_qp(id->object->qp);
    return v;
}

static int live_mrs_of(const struct object *id)
{
    int count = 0;
    for (int i = 0; i < SLOTS; i++)
        count += objects[MR][i].state == LIVE && model_within(&objects[MR][i], id);
    return count;
}

struct verdict model_destroy_ep(const struct arg *id)
{
    struct verdict v = {0};
    check(&v, id);
    if (!v.count && live_mrs_of(id->object))
        may(&v, EBUSY, "leaked-mr");
    if (v.count) {
        if (lives(id))
            try_again(id->object);
        return v;
    }
    if (id->object->qp)
        v = model_destroy_qp(id);
    return v.count ? v : model_destroy(id);
}

struct verdict model_ref(const struct arg *a)
{
    struct verdict v = {0};
    check(&v, a);
    if (!v.count && !a->object->refs) /* an id's device's PD: who has no reference gets one from mrg_id_pd alone */
        may(&v, ESTALE, "stale-handle");
    if (!v.count)
        a->object->refs++;
    return v;
}

struct verdict model_unref(const struct arg *a)
{
    struct verdict v = {0};
    if (a->origin == NONE)
        return v;
    if (a->kind == MR && a->origin == FOREIGN)
        may(&v, EINVAL, "foreign-mr");
    else
        check(&v, a);
    if (v.count)
        return v;
    struct object *o = a->object;
    if (o->refs == 0) {
        may(&v, ESTALE, "stale-handle");
        return v;
    }
    if (!o->unowned && o->refs == 1 && !o->uses && !all_children(o) && below.refused && below.refused == o->raw) {
        may(&v, below.error, NULL);
        return v;
    }
    if (--o->refs == 0) {
        o->state = o->unowned ? LIVE : GIVEN_UP;
        settle(o);
    }
    return v;
}

struct verdict model_borrow(struct object *o, const struct arg *mr, size_t offset, size_t length, int access)
{
    struct verdict v = {0};
    check(&v, mr);
    if (access & ~IBV_ACCESS_LOCAL_WRITE)
        may(&v, EINVAL, "bad-argument");
    if (v.count)
        return v;
    struct object *m = mr->object;
    if (offset < m->offset || length > m->length || offset - m->offset > m->length - length)
        may(&v, ERANGE, "out-of-range");
    if ((access & IBV_ACCESS_LOCAL_WRITE) && !(m->access & IBV_ACCESS_LOCAL_WRITE))
        may(&v, EACCES, "missing-access");
    if (v.count)
        return v;
    born(o);
    o->raw = NULL;
    o->parents[0] = m;
    use(m);
    return v;
}

/* Work */

static void judge_piece(struct verdict *v, const struct piece *p, const struct object *pd, bool writes)
{
    if (p->length == 0)
        return;
    if (p->length > UINT32_MAX)
        may(v, EMSGSIZE, "length-truncated");
    if (p->mr.origin == NONE) {
        may(v, EINVAL, "unregistered-post");
        return;
    }
    struct verdict bad = {0};
    check(&bad, &p->mr);
    if (bad.count) {
        may(v, bad.may[0].error, bad.may[0].rule);
        return;
    }
    const struct object *m = p->mr.object;
    if (p->offset < m->offset || p->length > m->length || p->offset - m->offset > m->length - p->length)
        may(v, ERANGE, "out-of-range");
    if (m->pd != pd)
        may(v, EXDEV, "wrong-pd");
    if (writes && !(m->access & IBV_ACCESS_LOCAL_WRITE))
        may(v, EACCES, "missing-access");
}

static void judge_wr(struct verdict *v, const struct posted *p, const struct object *on, const struct queue *q)
{
    if (p->bad_flags || p->what == UNKNOWN || p->pieces > q->max_sge)
        may(v, EINVAL, "bad-argument");
    size_t sum = 0;
    for (int i = 0; i < p->pieces; i++) {
        sum += p->piece[i].length;
        if (!p->in_line)
            judge_piece(v, &p->piece[i], on->pd, p->what == RECV || p->what == READ);
    }
    if (p->in_line && sum > on->max_inline)
        may(v, EMSGSIZE, sum > UINT32_MAX ? "length-truncated" : "inline-too-long");
    if (p->in_line && sum > UINT32_MAX)
        may(v, EMSGSIZE, "inline-too-long");
}

static int in_flight(const struct queue *q)
{
    int used = 0;
    if (!q->shared)
        return (int)(q->next - q->oldest);
    for (int i = 0; i < ROOM; i++)
        used += q->wrs[i].used;
    return used;
}

static void put(struct queue *q, const struct posted *p, bool signaled)
{
    int at = (int)(q->next++ % ROOM);
    if (q->shared) {
        for (at = 0; q->wrs[at].used;)
            at++;
        q->listed[q->count++] = at;
    }
    struct wr *wr = &q->wrs[at];
    *wr = (struct wr){.wr_id = p->wr_id, .used = true, .signaled = signaled};
    for (int i = 0; i < p->pieces && !p->in_line; i++)
        if (p->piece[i].length) {
            wr->mrs[wr->uses++] = p->piece[i].mr.object;
            use(p->piece[i].mr.object);
        }
}

#define GROUP 16 /* WRs that go to the device together */

/* How many of a chain the device takes, that is out of memory after so many of a group. */
static int device_takes(int count, int take)
{
    for (int group = 0; group < count; group += GROUP)
        if (take && take < (count - group < GROUP ? count - group : GROUP))
            return group + take;
    return count;
}

struct verdict model_post(const struct arg *on, bool recv, const struct posted *chain, int count, int take, int *taken)
{
    struct verdict v = {0};
    struct object *o = on->object;
    *taken = 0;
    check(&v, on);
    if (v.count)
        return v;
    struct queue *q = recv ? o->recv : o->send;
    if (on->kind == QP && recv && o->srq)
        may(&v, EINVAL, "wrong-state");
    for (int i = 0; i < count; i++)
        judge_wr(&v, &chain[i], o, q);
    /* A chain that does not fit goes not at all. With a broken rule as well, which is seen first is not said. */
    if (q->depth - in_flight(q) < count)
        may(&v, ENOMEM, NULL);
    if (v.count)
        return v;
    *taken = below.failed ? GROUP * (below.nth - 1) : device_takes(count, take);
    for (int i = 0; i < *taken; i++)
        put(q, &chain[i], recv || chain[i].signaled || o->all_signaled);
    if (*taken < count)
        may(&v, below.failed ? below.error : ENOMEM, NULL);
    return v;
}

struct verdict model_post_through(const struct arg *id, bool recv, const struct posted *wr, int *taken)
{
    struct verdict v = {0};
    check(&v, id);
    if (!v.count && !id->object->qp)
        may(&v, EINVAL, "no-qp");
    if (v.count)
        return v;
    struct arg qp = arg_to(id->object->qp);
    return model_post(&qp, recv, wr, 1, 0, taken);
}

struct verdict model_modify(const struct arg *qp, bool reset)
{
    struct verdict v = {0};
    check(&v, qp);
    if (!v.count && failed("modify_qp"))
        may(&v, below.error, NULL);
    if (v.count || !reset)
        return v;
    drop_queue(qp->object->send);
    drop_queue(qp->object->recv);
    return v;
}

static void complete(struct queue *q, uint64_t number, const struct wr *wr, struct object *qp, struct object *cq,
                     enum ibv_wc_status status)
{
    cq->backlog[cq->head++ % BACKLOG] = (struct completion){.queue = q,
                                                            .epoch = q->epoch,
                                                            .number = number,
                                                            .wr_id = wr->wr_id,
                                                            .qp = qp,
                                                            .qp_epoch = qp->send->epoch,
                                                            .qp_num = qp->qp_num,
                                                            .status = status};
}

void model_complete(struct object *qp, bool recv, int count, enum ibv_wc_status status)
{
    struct queue *q = recv ? qp->recv : qp->send;
    for (; count-- && q->done != q->next; q->done++) {
        const struct wr *wr = &q->wrs[q->done % ROOM];
        if (wr->signaled || status != IBV_WC_SUCCESS)
            complete(q, q->done, wr, qp, q->cq, status);
    }
}

void model_complete_srq(struct object *srq, int which, struct object *qp, enum ibv_wc_status status)
{
    struct queue *q = srq->recv;
    int at = q->listed[which];
    q->count--;
    memmove(&q->listed[which], &q->listed[which + 1], (size_t)(q->count - which) * sizeof *q->listed);
    complete(q, (uint64_t)at, &q->wrs[at], qp, qp->recv->cq, status);
}

/* Ends the WRs that a completion speaks for. False: it is of a queue's or a QP's former life, and swallowed. */
static bool take(const struct completion *c)
{
    struct queue *q = c->queue;
    if (q->epoch != c->epoch)
        return false;
    if (q->shared) {
        end_wr(&q->wrs[c->number]);
        return true; /* the WR is the SRQ's, whatever became of the QP that took it */
    }
    while (q->oldest <= c->number)
        end_wr(&q->wrs[q->oldest++ % ROOM]);
    return true;
}

struct verdict model_poll(const struct arg *cq, int count, struct completion *wc, int *got)
{
    struct verdict v = {0};
    *got = 0;
    check(&v, cq);
    if (count < 1)
        may(&v, EINVAL, "bad-argument");
    if (v.count)
        return v;
    /* Where all that it got is swallowed it asks again, and that may fail: what came before is not lost. */
    struct object *o = cq->object;
    int left = failed("poll_cq") ? below.polled : BACKLOG;
    for (; *got < count && o->tail != o->head && left; left--) {
        struct completion c = o->backlog[o->tail++ % BACKLOG];
        if (take(&c))
            wc[(*got)++] = c;
    }
    if (failed("poll_cq") && !*got)
        may(&v, below.error, NULL);
    return v;
}
