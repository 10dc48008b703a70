/*
 * mrguard against its reference model, over the stub provider: bytes become calls, each is made on both, and what they
 * answer is compared after each: result, errno, rule, what lives at the provider, what was released, completions.
 *
 * FUZZ_OPERATIONS=N ends the process, with status 0, after N calls, FUZZ_SECONDS=N after N seconds; FUZZ_TRACE=1 prints every call as it is made.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "model.h"
#include "watch.h"

#define ARENA 65536
#define LINES 8192
#define FORK_EVERY 50000 /* operations */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned int seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

static char arena[ARENA];
static struct ibv_device devices[2];

/* Offsets may be outside: whoever uses such an address must notice. */
static void *at(size_t offset)
{
    return (void *)((uintptr_t)arena + offset);
}

/* Findings that nobody reads need no names of functions: to look them up took a third of the time. */
int __wrap_dladdr(const void *address, void *info);
int __wrap_dladdr(const void *address, void *info)
{
    (void)address, (void)info;
    return 0;
}

/* The input */

static const uint8_t *input;
static size_t input_left;

static unsigned int byte(void)
{
    if (!input_left)
        return 0;
    input_left--;
    return *input++;
}

static unsigned int word(void)
{
    unsigned int high = byte();
    return high << 8 | byte();
}

/* What was done, a line for each call; printed where library and model disagree. */

struct line {
    const char *format;
    long values[8];
    bool call, ok;
    int error;
    const char *rule;
};

static struct line lines[LINES];
static int line_count;
static unsigned long operations, limit, inputs, forks, forked_at;
static time_t began, seconds;
static bool trace;

static void print_line(const struct line *l)
{
    const long *v = l->values;
    fprintf(stderr, l->format, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
    if (l->call && l->ok)
        fprintf(stderr, " -> success");
    else if (l->call)
        fprintf(stderr, " -> %s (%s)", strerrorname_np(l->error), l->rule ? l->rule : "no finding");
    fputc('\n', stderr);
}

static void say(const char *format, long a, long b, long c, long d, long e, long f)
{
    if (line_count == LINES)
        line_count = LINES - 1;
    lines[line_count++] = (struct line){.format = format, .values = {a, b, c, d, e, f}};
}

__attribute__((format(printf, 1, 2))) static void disagree(const char *format, ...)
{
    va_list args;
    fprintf(stderr, "\nThe calls (pd3: the third object made, of whatever kind; -1: NULL, -2: a foreign pointer, -3: a "
                    "handle of another type):\n");
    for (int i = 0; i < line_count; i++)
        print_line(&lines[i]);
    va_start(args, format);
    fprintf(stderr, "DISAGREEMENT: ");
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

/* One call */

static int arm_nth, arm_error; /* for the next call; 0: nothing fails */
static int owned_seen;
static bool call_ok;
static int call_error;
static const char *call_rule;

static void begin(const char *format, long a, long b, long c, long d, long e, long f)
{
    say(format, a, b, c, d, e, f);
    lines[line_count - 1].call = true;
    operations++;
    owned_seen = 0;
    watch.made = watch.refused = NULL, watch.count = watch.polled = 0;
    model_begin();
    below.nth = arm_nth;
    inject_arm(arm_nth, arm_error);
    errno = 0;
}

/* The call has returned: keeps what it said before anything else is called. */
static void ended(bool ok)
{
    call_error = errno;
    call_ok = ok;
    const struct mrg_finding *finding = ok ? NULL : mrg_last_finding();
    call_rule = finding ? finding->rule : NULL;
    below.failed = inject_hit();
    below.error = arm_error;
    below.refused = watch.refused;
    below.made = watch.made;
    below.released = watch.released;
    below.released_count = watch.count;
    below.polled = watch.polled;
    inject_arm(0, 0);
    arm_nth = 0;
    struct line *l = &lines[line_count - 1];
    l->ok = ok, l->error = call_error, l->rule = call_rule;
    if (trace)
        print_line(l);
    if (finding && finding->error != call_error)
        disagree("the finding has another errno");
}

static void check_answer(const struct verdict *v)
{
    if (call_ok && !v->count)
        return;
    for (int i = 0; i < v->count && !call_ok; i++) {
        const char *rule = v->may[i].rule;
        if (v->may[i].error == call_error && !rule == !call_rule && (!rule || !strcmp(rule, call_rule)))
            return;
    }
    for (int i = 0; i < v->count; i++)
        say("the model says it may be errno %ld", v->may[i].error, 0, 0, 0, 0, 0);
    disagree("the model says %s %s", v->count ? strerrorname_np(v->may[0].error) : "success",
             v->count && v->may[0].rule ? v->may[0].rule : "");
}

static void check_released(void)
{
    int found = 0;
    for (int i = 0; i < release_count; i++)
        for (int j = 0; j < watch.count; j++)
            if (watch.released[j] == releases[i]) {
                watch.released[j] = NULL;
                found++;
                break;
            }
    for (int j = 0; j < watch.count && found != watch.count; j++)
        for (int k = 0; k < KINDS * SLOTS && watch.released[j]; k++)
            if (objects[k / SLOTS][k % SLOTS].raw == watch.released[j])
                say("    released, against the model: object %ld", objects[k / SLOTS][k % SLOTS].serial, 0, 0, 0, 0, 0);
    if (found != release_count || watch.count != release_count)
        disagree("the model says %d raw objects are released by this call; %d are, %d of them those", release_count,
                 watch.count, found);
    if (owned_seen != owned_count)
        disagree("release functions run");
}

static void check_live(const char *what, int live, int expected)
{
    if (live != expected)
        disagree("%s at the provider: %d, the model says %d", what, live, expected);
}

static void check_books(void)
{
    model_late();
    check_released();
    check_live("contexts", stub.live_others, raw_live[CONTEXT]);
    check_live("PDs", stub.live_pds, raw_live[PD]);
    check_live("CQs", stub.live_cqs, raw_live[CQ]);
    check_live("SRQs", stub.live_srqs, raw_live[SRQ]);
    check_live("QPs", stub.live_qps, raw_live[QP]);
    check_live("MRs", stub.live_mrs, raw_live[MR]);
    check_live("ids", stub.live_ids, raw_live[ID]);
    struct mrg_stats stats;
    mrg_stats(&stats);
    if (stats.live_mrs != mrs_live || stats.registered_bytes != registered_bytes)
        disagree("mrg_stats");
}

static void judge(struct verdict v)
{
    check_answer(&v);
    check_books();
}

/* Notes the handle of an object that was just made. */
static void keep(struct object *o, void *handle)
{
    if (o->state == LIVE && !o->handle) {
        o->handle = handle;
        say("    it is %ld", o->serial, 0, 0, 0, 0, 0);
    }
}

/* Arguments */

/* The n-th object that lives, of those below another if that is not NULL and has any. */
static struct object *nth_below(enum kind kind, unsigned int n, const struct object *above)
{
    struct object *live[SLOTS];
    unsigned int count = 0;
    for (int i = 0; i < SLOTS; i++)
        if (objects[kind][i].state == LIVE && (!above || model_within(&objects[kind][i], above)))
            live[count++] = &objects[kind][i];
    return count ? live[n % count] : above ? nth_below(kind, n, NULL) : NULL;
}

static struct object *nth_live(enum kind kind, unsigned int n)
{
    return nth_below(kind, n, NULL);
}

static struct arg arg_of(struct object *o)
{
    return (struct arg){.kind = o->kind, .origin = HANDLE, .handle = o->handle, .object = o};
}

static struct arg special(enum kind kind, enum origin origin, unsigned int n)
{
    struct arg a = {.kind = kind, .origin = origin};
    struct object *other = nth_live((kind + 1 + n % (KINDS - 1)) % KINDS, n);
    if (origin == OTHER_TYPE && !other)
        a.origin = FOREIGN;
    if (a.origin == OTHER_TYPE)
        a.handle = other->handle;
    else if (a.origin == FOREIGN)
        a.handle = other && other->raw ? other->raw : n & 1 ? (void *)&arena[n] : (void *)(uintptr_t)(n + 1);
    return a;
}

static struct arg none(enum kind kind)
{
    return (struct arg){.kind = kind, .origin = NONE};
}

/* Mostly an object that lives, below another; at times a stale handle, or what is no handle of that type. */
static struct arg pick_below(enum kind kind, const struct object *above)
{
    unsigned int b = byte();
    struct object *o = b < 246 ? nth_below(kind, b, b & 7 ? above : NULL) : b < 251 ? &objects[kind][b % SLOTS] : NULL;
    if (o && o->serial)
        return arg_of(o);
    return special(kind, b == 251 ? NONE : b & 1 ? FOREIGN : OTHER_TYPE, byte());
}

static struct arg pick(enum kind kind)
{
    return pick_below(kind, NULL);
}

static long name(const struct arg *a)
{
    return a->origin == HANDLE ? a->object->serial : -(long)a->origin;
}

/* Calls: objects */

static void open_device(void)
{
    struct object *o = model_place(CONTEXT, byte());
    unsigned int which = byte() & 1;
    if (!o)
        return;
    begin("mrg_open_device(device %ld)", which, 0, 0, 0, 0, 0);
    void *handle = mrg_open_device(&devices[which]);
    ended(handle);
    judge(model_open(o));
    keep(o, handle);
}

static void alloc_pd(void)
{
    struct object *o = model_place(PD, byte());
    struct arg context = pick(CONTEXT);
    if (!o)
        return;
    begin("mrg_alloc_pd(context%ld)", name(&context), 0, 0, 0, 0, 0);
    void *handle = mrg_alloc_pd(context.handle);
    ended(handle);
    judge(model_create(o, &context));
    keep(o, handle);
}

static void create_cq(void)
{
    struct object *o = model_place(CQ, byte());
    struct arg context = pick(CONTEXT);
    if (!o)
        return;
    begin("mrg_create_cq(context%ld, 64, NULL, NULL, 0)", name(&context), 0, 0, 0, 0, 0);
    void *handle = mrg_create_cq(context.handle, 64, NULL, NULL, 0);
    ended(handle);
    judge(model_create(o, &context));
    keep(o, handle);
}

static void create_srq(void)
{
    struct object *o = model_place(SRQ, byte());
    struct arg pd = pick(PD);
    unsigned int size = byte();
    mrg_srq_init_attr attr = {.attr = {.max_wr = 1 + size % 8, .max_sge = 1 + size / 8 % 3}};
    if (!o)
        return;
    begin("mrg_ibv_create_srq(pd%ld, max_wr %ld, max_sge %ld)", name(&pd), attr.attr.max_wr, attr.attr.max_sge, 0, 0,
          0);
    void *handle = mrg_ibv_create_srq(pd.handle, &attr);
    ended(handle);
    struct verdict v = model_create(o, &pd);
    if (!v.count)
        model_start_srq(o, attr.attr.max_wr, attr.attr.max_sge);
    judge(v);
    keep(o, handle);
}

static mrg_qp_init_attr decode_attr(const struct arg *cqs, const struct arg *srq)
{
    unsigned int size = word();
    mrg_qp_init_attr attr = {.send_cq = cqs[0].handle,
                             .recv_cq = cqs[1].handle,
                             .srq = srq->handle,
                             .qp_type = IBV_QPT_RC,
                             .sq_sig_all = size >> 1 & 1,
                             .single_threaded = size >> 2 & 1};
    attr.cap = (struct ibv_qp_cap){1 + (size >> 3) % 30, 1 + (size >> 5) % 30, 1 + (size >> 8) % PIECES,
                                   1 + (size >> 10) % PIECES, (size >> 12) * 8};
    return attr;
}

static void keep_qp(struct object *o, mrg_qp *handle)
{
    keep(o, handle);
    if (o->handle != handle || !handle)
        return;
    o->raw = mrg_qp_raw(handle);
    o->qp_num = mrg_qp_num(handle);
    say("    with qp_num %ld", o->qp_num, 0, 0, 0, 0, 0);
}

/* A QP of no id, or an id's. */
static void create_qp(bool of_id)
{
    struct object *o = model_place(QP, byte());
    struct arg id = of_id ? pick(ID) : none(ID), pd = of_id && byte() & 3 ? none(PD) : pick(PD);
    const struct object *device = model_device(CONTEXT);
    const struct object *context = pd.object && pd.object->state == LIVE ? pd.object->parents[0]
                                   : of_id                               ? device
                                                                         : NULL;
    struct arg cqs[2] = {pick_below(CQ, context), pick_below(CQ, context)};
    struct arg srq = byte() & 1 ? pick_below(SRQ, context) : none(SRQ);
    mrg_qp_init_attr attr = decode_attr(cqs, &srq);
    if (!o || (of_id && (!cqs[0].handle || !cqs[1].handle))) /* CQs made for the id: not in the model */
        return;
    begin(of_id ? "mrg_create_qp(id%6$ld, pd%1$ld, send cq%2$ld, recv cq%3$ld, srq%4$ld, %5$ld sends)"
                : "mrg_ibv_create_qp(pd%1$ld, send cq%2$ld, recv cq%3$ld, srq%4$ld, %5$ld sends)",
          name(&pd), name(&cqs[0]), name(&cqs[1]), name(&srq), attr.cap.max_send_wr, name(&id));
    mrg_qp *handle = NULL;
    if (of_id)
        ended(!mrg_create_qp(id.handle, pd.handle, &attr));
    else
        ended((handle = mrg_ibv_create_qp(pd.handle, &attr)));
    judge(model_create_qp(o, of_id ? &id : NULL, &pd, cqs, &srq, &attr));
    keep_qp(o, of_id && call_ok ? mrg_id_qp(id.handle) : handle);
}

static void unref(struct arg a);

/* Calls: ids */

static void create_id(void)
{
    struct object *o = model_place(ID, byte());
    mrg_id *handle = NULL;
    if (!o)
        return;
    begin("mrg_create_id(NULL, ..., RDMA_PS_TCP)", 0, 0, 0, 0, 0, 0);
    ended(!mrg_create_id(NULL, &handle, NULL, RDMA_PS_TCP));
    judge(model_open(o));
    keep(o, handle);
    if (handle)
        o->raw = mrg_id_raw(handle);
}

static void id_pd(struct arg id)
{
    struct object *pd = model_device(PD), *place = pd ? pd : model_place(PD, byte());
    if (!place)
        return;
    arm_nth = 0; /* where it fails half way is not said */
    begin("mrg_id_pd(id%ld)", name(&id), 0, 0, 0, 0, 0);
    mrg_pd *handle = mrg_id_pd(id.handle);
    ended(handle);
    judge(model_id_pd(&id, place));
    keep(place, handle);
    if (handle && handle != place->handle)
        disagree("a device has two PDs");
}

/* With the PD at once, so that all the rest knows it. */
static void bind_id(struct arg id)
{
    struct sockaddr addr = {0};
    struct object *context = model_device(CONTEXT), *place = context ? context : model_place(CONTEXT, byte());
    if (!place || (!model_device(PD) && !model_place(PD, 0)) || (id.object && id.object->bound))
        return;
    arm_nth = 0;
    begin("mrg_bind_addr(id%ld)", name(&id), 0, 0, 0, 0, 0);
    ended(!mrg_bind_addr(id.handle, &addr));
    judge(model_bind(&id, place));
    if (!call_ok)
        return;
    id_pd(id);
    keep(place, mrg_id_verbs(id.handle));
    unref(arg_of(model_device(PD)));
}

static void make_id(void)
{
    create_id();
    if (call_ok)
        bind_id(pick(ID));
}

static void destroy_of_id(struct arg id, bool all)
{
    begin(all ? "mrg_destroy_ep(id%ld)" : "mrg_destroy_qp(id%ld)", name(&id), 0, 0, 0, 0, 0);
    ended(all ? !mrg_destroy_ep(id.handle) : !mrg_destroy_qp(id.handle));
    judge(all ? model_destroy_ep(&id) : model_destroy_qp(&id));
}

static void reg_through(void)
{
    static const int access[] = {IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0};
    struct object *o = model_place(MR, byte());
    struct arg id = pick(ID);
    unsigned int form = byte();
    size_t offset = word(), length = form >> 3 == 1 ? 0 : 1 + word() % 4096;
    mrg_mr *handle;
    if (!o)
        return;
    begin("mrg_reg_{msgs,read,write,send}[%4$ld](id%1$ld, arena + %2$ld, %3$ld)", name(&id), (long)offset, (long)length,
          form & 3, 0, 0);
    switch (form & 3) {
    case 0:
        handle = mrg_reg_msgs(id.handle, arena + offset, length);
        break;
    case 1:
        handle = mrg_reg_read(id.handle, arena + offset, length);
        break;
    case 2:
        handle = mrg_reg_write(id.handle, arena + offset, length);
        break;
    default:
        handle = mrg_reg_send(id.handle, arena + offset, length);
        break;
    }
    ended(handle);
    judge(model_register_through(o, &id, offset, length, access[form & 3]));
    keep(o, handle);
}

static void move(struct arg mr, struct arg pd)
{
    begin("mrg_mr_move(mr%ld, pd%ld)", name(&mr), name(&pd), 0, 0, 0, 0);
    ended(!mrg_mr_move(mr.handle, pd.handle));
    judge(model_move(&mr, &pd));
}

static void owner_releases(void *addr, size_t length, void *arg)
{
    (void)addr, (void)length, (void)arg;
    owned_seen++;
}

static const int accesses[] = {IBV_ACCESS_LOCAL_WRITE,
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
                               0,
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
                               IBV_ACCESS_LOCAL_WRITE,
                               IBV_ACCESS_REMOTE_READ,
                               IBV_ACCESS_REMOTE_WRITE,
                               1 << 18};

static void reg_mr(void)
{
    struct object *o = model_place(MR, byte());
    struct arg pd = pick(PD);
    unsigned int form = byte();
    size_t offset = word(), length = 1 + word() % 4096;
    int access = accesses[form % 8];
    if (form >> 3 == 1)
        length = 0;
    if (form >> 3 == 2)
        length = SIZE_MAX - 4096;
    bool owned = form >> 3 > 20;
    if (!o)
        return;
    begin(owned ? "mrg_reg_mr_owned(pd%ld, arena + %ld, %ld, 0x%lx)" : "mrg_reg_mr(pd%ld, arena + %ld, %ld, 0x%lx)",
          name(&pd), (long)offset, (long)length, access, 0, 0);
    mrg_mr *handle = owned ? mrg_reg_mr_owned(pd.handle, at(offset), length, access, owner_releases, NULL)
                           : mrg_reg_mr(pd.handle, at(offset), length, access);
    ended(handle);
    struct verdict v = model_register(o, &pd, offset, length, access);
    o->owned = !v.count && owned;
    judge(v);
    keep(o, handle);
}

static void rereg(struct arg mr)
{
    unsigned int form = byte();
    int flags = (form & 1 ? IBV_REREG_MR_CHANGE_TRANSLATION : 0) | (form & 2 ? IBV_REREG_MR_CHANGE_ACCESS : 0);
    size_t offset = word(), length = form >> 5 ? 1 + word() % 4096 : form & 16 ? 0 : SIZE_MAX - 4096;
    int access = accesses[form >> 2 & 7];
    begin("mrg_rereg_mr(mr%ld, flags %ld, NULL, arena + %ld, %ld, 0x%lx)", name(&mr), flags, (long)offset, (long)length,
          access, 0);
    ended(!mrg_rereg_mr(mr.handle, flags, NULL, arena + offset, length, access));
    judge(model_rereg(&mr, flags, offset, length, access));
}

static int destroy_handle(const struct arg *a)
{
    switch (a->kind) {
    case CONTEXT:
        return mrg_close_device(a->handle);
    case PD:
        return mrg_dealloc_pd(a->handle);
    case CQ:
        return mrg_destroy_cq(a->handle);
    case SRQ:
        return mrg_ibv_destroy_srq(a->handle);
    case QP:
        return mrg_ibv_destroy_qp(a->handle);
    case MR:
        return mrg_dereg_mr(a->handle);
    case BORROW:
        return mrg_borrow_end(a->handle);
    default:
        return mrg_destroy_id(a->handle);
    }
}

static void destroy(struct arg a)
{
    static const char *const formats[KINDS] = {
        [CONTEXT] = "mrg_close_device(context%ld)", [PD] = "mrg_dealloc_pd(pd%ld)",     [CQ] = "mrg_destroy_cq(cq%ld)",
        [SRQ] = "mrg_ibv_destroy_srq(srq%ld)",      [QP] = "mrg_ibv_destroy_qp(qp%ld)", [MR] = "mrg_dereg_mr(mr%ld)",
        [BORROW] = "mrg_borrow_end(borrow%ld)",     [ID] = "mrg_destroy_id(id%ld)"};
    begin(formats[a.kind], name(&a), 0, 0, 0, 0, 0);
    ended(!destroy_handle(&a));
    judge(model_destroy(&a));
}

static void ref(struct arg a)
{
    begin(a.kind == PD ? "mrg_pd_ref(pd%ld)" : "mrg_mr_ref(mr%ld)", name(&a), 0, 0, 0, 0, 0);
    void *got = a.kind == PD ? (void *)mrg_pd_ref(a.handle) : (void *)mrg_mr_ref(a.handle);
    ended(got);
    judge(model_ref(&a));
    if (got && got != a.handle)
        disagree("a reference is another handle");
}

static void unref(struct arg a)
{
    begin(a.kind == PD ? "mrg_pd_unref(pd%ld)" : "mrg_mr_unref(mr%ld)", name(&a), 0, 0, 0, 0, 0);
    void *got = a.kind == PD ? (void *)mrg_pd_unref(a.handle) : (void *)mrg_mr_unref(a.handle);
    ended(!errno);
    judge(model_unref(&a));
    if (got)
        disagree("unref returns something");
}

static void borrow(void)
{
    struct object *o = model_place(BORROW, byte());
    struct arg mr = pick(MR);
    unsigned int form = byte();
    size_t offset = form & 8 ? word() : mr.object ? mr.object->offset : 0, length = form >> 4;
    int access = form & 1 ? IBV_ACCESS_LOCAL_WRITE : (form & 6) == 6 ? 1 << 18 : 0;
    mrg_borrow *handle = NULL;
    if (!o)
        return;
    begin("mrg_borrow_begin(mr%ld, arena + %ld, %ld, 0x%lx)", name(&mr), (long)offset, (long)length, access, 0, 0);
    ended(!mrg_borrow_begin(mr.handle, at(offset), length, access, &handle));
    judge(model_borrow(o, &mr, offset, length, access));
    keep(o, handle);
    if (!call_ok && handle)
        disagree("an output is written on failure");
}

static void look(struct arg mr)
{
    const struct object *o = mr.object;
    begin("mrg_mr_length(mr%ld)", name(&mr), 0, 0, 0, 0, 0);
    size_t length = mrg_mr_length(mr.handle);
    ended(length);
    judge(model_look(&mr));
    if (call_ok && (length != o->length || mrg_mr_addr(mr.handle) != at(o->offset) ||
                    mrg_mr_access(mr.handle) != o->access || mrg_mr_raw(mr.handle) != o->raw))
        disagree("what the MR covers and grants");
}

/* Calls: work */

static uint64_t next_wr_id;

static void decode_piece(struct piece *p, const struct object *pd)
{
    unsigned int form = byte();
    p->mr = pick_below(MR, pd);
    const struct object *o = p->mr.object;
    size_t inside = o && o->length && o->length < ARENA ? form / 32 * o->length / 8 : 0;
    p->offset = (o ? o->offset : 0) + inside;
    p->length = o && o->length < ARENA ? (o->length - inside) / (1 + form / 8 % 4) : 64;
    switch (form % 32) {
    case 0:
        p->offset = word();
        break;
    case 1:
        p->length++;
        break;
    case 2:
        p->length = 0;
        break;
    case 3:
        p->length = (size_t)UINT32_MAX + 1 + byte();
        break;
    case 4:
        p->offset -= p->offset > 0;
        break;
    default:
        break;
    }
}

static void decode_wr(struct posted *p, bool recv, const struct object *pd)
{
    unsigned int form = byte();
    *p = (struct posted){.wr_id = ++next_wr_id, .what = recv ? RECV : SEND, .signaled = form & 1};
    p->pieces = (int)form >> 6;
    if (form >> 1 == 31)
        p->pieces = PIECES + 2;
    for (int i = 0; i < p->pieces; i++)
        decode_piece(&p->piece[i], pd);
    if (recv)
        return;
    form = form >> 1 & 31;
    p->what = form % 4 == 1 ? READ : form % 4 == 2 ? WRITE : SEND;
    p->in_line = form >= 28 && p->what != READ;
    p->bad_flags = form == 27;
    if (form == 26)
        p->what = UNKNOWN;
}

static void say_chain(const struct posted *chain, int count)
{
    static const char *const formats[] = {[SEND] = "    SEND wr_id %ld%.0ld, signaled %ld, inline %ld, bad flags %ld",
                                          [WRITE] = "    WRITE wr_id %ld%.0ld, signaled %ld, inline %ld, bad flags %ld",
                                          [READ] = "    READ wr_id %ld%.0ld, signaled %ld, inline %ld, bad flags %ld",
                                          [RECV] = "    receive wr_id %ld%.0ld",
                                          [UNKNOWN] =
                                              "    opcode 999 wr_id %ld%.0ld, signaled %ld, inline %ld, bad flags %ld"};
    for (int i = 0; i < count; i++) {
        const struct posted *p = &chain[i];
        say(formats[p->what], (long)p->wr_id, 0, p->signaled, p->in_line, p->bad_flags, 0);
        for (int k = 0; k < p->pieces; k++)
            say("        mr%ld, arena + %ld, %ld bytes", name(&p->piece[k].mr), (long)p->piece[k].offset,
                (long)p->piece[k].length, 0, 0, 0);
    }
}

static enum ibv_wr_opcode opcode(enum posting what)
{
    return what == SEND    ? IBV_WR_SEND
           : what == WRITE ? IBV_WR_RDMA_WRITE
           : what == READ  ? IBV_WR_RDMA_READ
                           : (enum ibv_wr_opcode)999;
}

static mrg_sge sges[CHAIN][PIECES + 2];

static void fill_pieces(const struct posted *p, mrg_sge *sge)
{
    for (int k = 0; k < p->pieces; k++)
        sge[k] = (mrg_sge){at(p->piece[k].offset), p->piece[k].length, p->piece[k].mr.handle};
}

/* Returns the index of *bad_wr, count if there is none. */
static int post_sends(mrg_qp *qp, const struct posted *chain, int count)
{
    static mrg_send_wr wrs[CHAIN];
    mrg_send_wr *bad = NULL;
    for (int i = 0; i < count; i++) {
        const struct posted *p = &chain[i];
        fill_pieces(p, sges[i]);
        wrs[i] = (mrg_send_wr){.wr_id = p->wr_id,
                               .next = i + 1 < count ? &wrs[i + 1] : NULL,
                               .sg_list = sges[i],
                               .num_sge = p->pieces,
                               .opcode = opcode(p->what),
                               .send_flags = (p->signaled ? IBV_SEND_SIGNALED : 0) |
                                             (p->in_line ? IBV_SEND_INLINE : 0) | (p->bad_flags ? 1U << 20 : 0)};
    }
    ended(!mrg_ibv_post_send(qp, wrs, &bad));
    return bad ? (int)(bad - wrs) : count;
}

static int post_recvs(const struct arg *on, const struct posted *chain, int count)
{
    static mrg_recv_wr wrs[CHAIN];
    mrg_recv_wr *bad = NULL;
    for (int i = 0; i < count; i++) {
        fill_pieces(&chain[i], sges[i]);
        wrs[i] = (mrg_recv_wr){.wr_id = chain[i].wr_id,
                               .next = i + 1 < count ? &wrs[i + 1] : NULL,
                               .sg_list = sges[i],
                               .num_sge = chain[i].pieces};
    }
    ended(on->kind == QP ? !mrg_ibv_post_recv(on->handle, wrs, &bad) : !mrg_post_srq_recv(on->handle, wrs, &bad));
    return bad ? (int)(bad - wrs) : count;
}

static void post(struct arg on, bool recv)
{
    static struct posted chain[CHAIN];
    unsigned int form = byte();
    int count = form < 160 ? 1 : form < 248 ? 1 + (int)form % 5 : CHAIN, taken, bad;
    const struct object *pd = on.object && on.object->state == LIVE ? on.object->pd : NULL;
    stub.take = (byte() & 15) == 1 ? 1 + (int)form % 4 : 0;
    for (int i = 0; i < count; i++)
        decode_wr(&chain[i], recv, pd);
    say_chain(chain, count);
    begin(on.kind == SRQ ? "mrg_post_srq_recv(srq%ld, %ld WRs), the device takes %ld"
          : recv         ? "mrg_ibv_post_recv(qp%ld, %ld WRs), the device takes %ld"
                         : "mrg_ibv_post_send(qp%ld, %ld WRs), the device takes %ld",
          name(&on), count, stub.take, 0, 0, 0);
    bad = recv ? post_recvs(&on, chain, count) : post_sends(on.handle, chain, count);
    judge(model_post(&on, recv, chain, count, stub.take, &taken));
    stub.take = 0;
    if (call_ok != (bad == count) && on.origin == HANDLE && on.object->state == LIVE)
        disagree("bad_wr is set though nothing is wrong, or the reverse");
    if (bad < count && bad != taken)
        disagree("bad_wr is not the first WR that is not posted");
}

static int post_one(mrg_id *id, const struct posted *p)
{
    void *context = (void *)(uintptr_t)p->wr_id;
    int flags =
        (p->signaled ? IBV_SEND_SIGNALED : 0) | (p->in_line ? IBV_SEND_INLINE : 0) | (p->bad_flags ? 1 << 20 : 0);
    fill_pieces(p, sges[0]);
    if (p->what == RECV && p->pieces == 1)
        return mrg_post_recv(id, context, sges[0][0].addr, sges[0][0].length, sges[0][0].mr);
    if (p->what == RECV)
        return mrg_post_recvv(id, context, sges[0], p->pieces);
    if (p->what == READ)
        return mrg_post_readv(id, context, sges[0], p->pieces, flags, 0, 0);
    if (p->what == WRITE)
        return mrg_post_writev(id, context, sges[0], p->pieces, flags, 0, 0);
    if (p->pieces == 1)
        return mrg_post_send(id, context, sges[0][0].addr, sges[0][0].length, sges[0][0].mr, flags);
    return mrg_post_sendv(id, context, sges[0], p->pieces, flags);
}

/* librdmacm's way: one WR, through an id. */
static void post_through(struct arg id, bool recv)
{
    static struct posted p;
    int taken;
    const struct object *qp = id.object && id.object->state == LIVE ? id.object->qp : NULL;
    decode_wr(&p, recv, qp ? qp->pd : NULL);
    if (p.what == UNKNOWN)
        p.what = SEND;
    say_chain(&p, 1);
    begin(recv ? "mrg_post_recvv(id%ld)" : "mrg_post_{send,read,write}v(id%ld)", name(&id), 0, 0, 0, 0, 0);
    ended(!post_one(id.handle, &p));
    judge(model_post_through(&id, recv, &p, &taken));
}

static void modify(struct arg qp)
{
    static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_RESET, IBV_QPS_ERR, IBV_QPS_RTS};
    struct ibv_qp_attr attr = {.qp_state = states[byte() & 3]};
    begin("mrg_modify_qp(qp%ld, state %ld)", name(&qp), attr.qp_state, 0, 0, 0, 0);
    ended(!mrg_modify_qp(qp.handle, &attr, IBV_QP_STATE));
    judge(model_modify(&qp, attr.qp_state == IBV_QPS_RESET));
}

static bool full(const struct object *cq)
{
    return cq->head - cq->tail > BACKLOG - ROOM;
}

/* The device completes the oldest work of a queue. */
static void complete(bool recv)
{
    struct object *qp = nth_live(QP, byte());
    unsigned int form = byte();
    int count = form & 16 ? ROOM : 1 + (int)form % 4;
    enum ibv_wc_status status = form & 64 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS;
    if (!qp || full(qp->send->cq) || full(qp->recv->cq))
        return;
    say(recv ? "the device completes %ld receives of qp%ld, status %ld"
             : "the device completes %ld sends of qp%ld, status %ld",
        count, qp->serial, status, 0, 0, 0);
    if (recv)
        stub_complete_recvs(qp->raw, count, status);
    else
        stub_complete_sends(qp->raw, count, status);
    model_complete(qp, recv, count, status);
}

static void complete_srq(void)
{
    struct object *qp = nth_live(QP, byte());
    unsigned int form = byte();
    struct object *srq = qp ? qp->srq : NULL;
    if (!srq || !srq->recv->count || full(qp->recv->cq))
        return;
    int which = (int)form % srq->recv->count;
    enum ibv_wc_status status = form & 64 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS;
    say("the device completes receive %ld of srq%ld for qp%ld, status %ld", which, srq->serial, qp->serial, status, 0,
        0);
    stub_complete_srq(srq->raw, which, qp->raw, status);
    model_complete_srq(srq, which, qp, status);
}

static void check_completions(const struct ibv_wc *wc, int got, const struct completion *expected, int count)
{
    for (int i = 0; i < got; i++)
        say("    got wr_id %ld, qp_num %ld, status %ld", (long)wc[i].wr_id, wc[i].qp_num, wc[i].status, 0, 0, 0);
    if (got != count)
        disagree("%d completions, the model says %d", got, count);
    for (int i = 0; i < got; i++) {
        const struct completion *c = &expected[i];
        if (wc[i].wr_id != c->wr_id || wc[i].qp_num != c->qp_num || wc[i].status != c->status)
            disagree("completion %d: wr_id %ld qp_num %u status %d, the model says %ld %u %d", i, (long)wc[i].wr_id,
                     wc[i].qp_num, wc[i].status, (long)c->wr_id, c->qp_num, c->status);
    }
}

#define POLLED 16

static void poll(struct arg cq)
{
    struct ibv_wc wc[POLLED];
    struct completion expected[POLLED];
    unsigned int form = byte();
    int count = form == 7 ? 0 : form == 8 ? -1 : 1 + (int)form % POLLED, got;
    begin("mrg_poll_cq(cq%ld, %ld)", name(&cq), count, 0, 0, 0, 0);
    int result = mrg_poll_cq(cq.handle, count, wc);
    ended(result >= 0);
    struct verdict v = model_poll(&cq, count, expected, &got);
    check_answer(&v);
    if (call_ok)
        check_completions(wc, result, expected, got);
    check_books();
}

/* Everything that takes a handle is refused in a child. */
static int child(void)
{
    struct object *o;
    struct ibv_wc wc;
    int wrong = 0;
    if ((o = nth_live(PD, 0)))
        wrong |= mrg_reg_mr(o->handle, arena, 1, 0) || errno != EPERM;
    if ((o = nth_live(MR, 0)))
        wrong |= !mrg_dereg_mr(o->handle) || errno != EPERM || mrg_mr_ref(o->handle) || errno != EPERM;
    if ((o = nth_live(CQ, 0)))
        wrong |= mrg_poll_cq(o->handle, 1, &wc) >= 0 || errno != EPERM;
    if ((o = nth_live(QP, 0)))
        wrong |= !mrg_ibv_destroy_qp(o->handle) || errno != EPERM;
    return wrong;
}

static void fork_off(void)
{
    int status;
    if (forks && operations - forked_at < FORK_EVERY)
        return;
    forks++;
    forked_at = operations;
    say("fork, and calls in the child", 0, 0, 0, 0, 0, 0);
    pid_t pid = fork();
    if (!pid)
        _exit(child());
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return;
    if (status)
        disagree("in a child, something is not EPERM");
}

static void arm(void)
{
    static const int errors[] = {ENOMEM, EAGAIN, EFAULT, EBUSY};
    unsigned int form = byte();
    arm_nth = form & 4 ? 1 + (int)(form & 3) : 1;
    arm_error = errors[form >> 3 & 3];
    say("the %ld. verb of the next call fails with errno %ld", arm_nth, arm_error, 0, 0, 0, 0);
}

/* What is rare, of ids. */
static void step_id(unsigned int b)
{
    if (b < 64)
        id_pd(pick(ID));
    else if (b < 128)
        move(pick(MR), pick(PD));
    else if (b < 160)
        destroy(pick(ID));
    else if (b < 208)
        destroy_of_id(pick(ID), true);
    else
        destroy_of_id(pick(ID), false);
}

static void step_birth(unsigned int b)
{
    if (b < 4)
        open_device();
    else if (b < 10)
        alloc_pd();
    else if (b < 13)
        create_cq();
    else if (b < 17)
        create_srq();
    else if (b < 26)
        create_qp(b & 1);
    else if (b < 45)
        reg_mr();
    else if (b < 52)
        reg_through();
    else if (b < 54)
        make_id();
    else if (b < 55)
        bind_id(pick(ID));
    else
        step_id(byte());
}

static void step_life(unsigned int b)
{
    if (b < 68)
        destroy(pick(MR));
    else if (b < 76)
        ref(pick(b & 3 ? MR : PD));
    else if (b < 96)
        unref(pick(b & 7 ? MR : PD));
    else if (b < 102)
        borrow();
    else if (b < 106)
        destroy(pick(BORROW));
    else if (b < 109)
        rereg(pick(MR));
    else if (b < 112)
        look(pick(MR));
    else if (b < 114)
        destroy(pick(CONTEXT));
    else if (b < 117)
        destroy(pick(PD));
    else if (b < 118)
        destroy(pick(CQ));
    else if (b < 120)
        destroy(pick(SRQ));
    else if (b < 122)
        destroy(pick(QP));
    else
        modify(pick(QP));
}

static void step_work(unsigned int b)
{
    if (b < 130)
        post_through(pick(ID), b & 1);
    else if (b < 156)
        post(pick(QP), false);
    else if (b < 174)
        post(pick(QP), true);
    else if (b < 182)
        post(pick(SRQ), true);
    else if (b < 198)
        complete(false);
    else if (b < 210)
        complete(true);
    else if (b < 218)
        complete_srq();
    else if (b < 250)
        poll(pick(CQ));
    else if (b < 255)
        arm();
    else if (byte() == 255)
        fork_off();
}

/* One step of an input. */
static void step(void)
{
    unsigned int b = byte();
    if (b < 56)
        step_birth(b);
    else if (b < 124)
        step_life(b);
    else
        step_work(b);
}

/* Every input begins with a few objects that work. The bytes it eats for them say which. */
static void bring_up(void)
{
    open_device();
    for (int i = 0; i < 2; i++) {
        alloc_pd();
        create_cq();
    }
    for (int i = 0; i < 2; i++)
        create_qp(false);
    create_srq();
    create_qp(false);
    make_id();
    create_cq();
    create_qp(true);
    for (int i = 0; i < 4; i++)
        reg_mr();
}

/* The end of an input: everything goes. The first pass is in the wrong order, so most of it is refused. */
static void end(struct object *o, bool in_order)
{
    while (in_order && o->state == LIVE && o->refs > 1)
        unref(arg_of(o));
    if (o->state != LIVE)
        return;
    if (in_order && o->kind == PD && o->unowned)
        while (o->state == LIVE && o->refs)
            unref(arg_of(o));
    else if (in_order && o->kind == ID && o->qp)
        destroy_of_id(arg_of(o), false);
    else if (!in_order || !o->unowned)
        destroy(arg_of(o));
}

static void take_down(void)
{
    static const enum kind order[] = {BORROW, QP, ID, SRQ, MR, ID, CQ, PD, CONTEXT};
    const int kinds = sizeof order / sizeof *order;
    arm_nth = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < kinds; k++)
            for (int i = 0; i < SLOTS; i++)
                end(&objects[order[pass ? k : kinds - 1 - k]][i], pass);
    if (model_device(PD)) { /* the provider refused to release it: the device's next id takes it along */
        create_id();
        bind_id(arg_of(nth_live(ID, 0)));
        destroy(arg_of(nth_live(ID, 0)));
    }
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < SLOTS; i++)
            if (objects[k][i].state != GONE)
                disagree("something is left in the model");
}

static void finish(void)
{
    fprintf(stderr, "%lu operations, %lu inputs, %lu forks, %ld s\n", operations, inputs, forks,
            (long)(time(NULL) - began));
    fflush(NULL);
    _exit(0); /* libFuzzer takes an exit for a crash */
}

static void ignore_finding(const struct mrg_finding *finding, void *arg)
{
    (void)finding, (void)arg;
}

static void set_up(void)
{
    stub_install();
    inject_install();
    watch_install();
    stub.hold_sends = true;
    mrg_set_finding_handler(ignore_finding, NULL);
    limit = getenv("FUZZ_OPERATIONS") ? strtoul(getenv("FUZZ_OPERATIONS"), NULL, 10) : 0;
    seconds = getenv("FUZZ_SECONDS") ? atol(getenv("FUZZ_SECONDS")) : 0;
    trace = getenv("FUZZ_TRACE");
    began = time(NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!inputs++)
        set_up();
    input = data, input_left = size;
    line_count = 0;
    model_reset();
    bring_up();
    while (input_left)
        step();
    take_down();
    if ((limit && operations >= limit) || (seconds && time(NULL) - began >= seconds))
        finish();
    return 0;
}

/* Short inputs reach little: they are filled up to a few hundred calls first. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned int seed)
{
    if (size >= 256)
        return LLVMFuzzerMutate(data, size, room);
    uint64_t x = seed + UINT64_C(0x9e3779b97f4a7c15);
    for (; size < room && size < 2048; size++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        data[size] = (uint8_t)(x >> 32);
    }
    return size;
}
