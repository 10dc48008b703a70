#include "mr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "id.h"
#include "mr_refusal.h"
#include "pd.h"
#include "report.h"
#include "verbs.h"

static int mr_release(struct slot *slot)
{
    int error = verbs.dereg_mr(slot->hot.raw);
    if (!error)
        report_registered(-1, slot->hot.length);
    return error;
}

enum { EDGE_ID, EDGE_PD, EDGES };

static const struct class mr_class = {.type = TYPE_MR, .edges = EDGES, .release = mr_release};

/* What one registration asks for. */
struct request {
    void *addr;
    size_t length;
    int access;
    token pd;
    struct owner *owner; /* NULL: the memory stays the caller's */
};

static int refuse_request(const struct request *r, const struct here *here)
{
    enum rule rule = check_registration((uintptr_t)r->addr, r->length, (uint32_t)r->access);
    switch (rule) {
    case RULE_NONE:
        return 0;
    case RULE_OUT_OF_RANGE:
        return refuse(rule, here, NULL, "%zu bytes at %p wrap around the end of the address space", r->length, r->addr);
    case RULE_MISSING_ACCESS:
        return refuse_with(EINVAL, rule, here, NULL,
                           "access 0x%x lets a peer write and therefore needs IBV_ACCESS_LOCAL_WRITE", r->access);
    default:
        if (!r->length)
            return refuse(rule, here, NULL, "a registration of 0 bytes at %p", r->addr);
        return refuse(rule, here, NULL, "access 0x%x has bits that a registration does not know", r->access);
    }
}

static int refuse_registration(int error, const struct request *r, const struct here *here)
{
    char why[320];
    mr_explain_refusal(why, sizeof why, error, r->addr, r->length, r->access);
    return refuse_with(error, RULE_REGISTRATION_REFUSED, here, NULL, "%zu bytes at %p were refused with %s: %s",
                       r->length, r->addr, strerrorname_np(error), why);
}

static void record(struct slot *slot, const struct request *r, struct ibv_mr *raw)
{
    atomic_store_explicit(&slot->hot.addr, (uintptr_t)r->addr, memory_order_relaxed);
    atomic_store_explicit(&slot->hot.length, r->length, memory_order_relaxed);
    atomic_store_explicit(&slot->hot.access, (uint32_t)r->access, memory_order_relaxed);
    atomic_store_explicit(&slot->hot.lkey, raw->lkey, memory_order_relaxed);
    atomic_store_explicit(&slot->hot.rkey, raw->rkey, memory_order_relaxed);
    atomic_store_explicit(&slot->hot.pd, (uint32_t)(r->pd & INDEX_MASK), memory_order_relaxed);
    slot->hot.raw = raw;
    slot->cold.owner = r->owner;
    report_registered(1, r->length);
}

/* No lock is held while the kernel pins the pages; the embryo keeps the parents meanwhile. */
static inline mrg_mr *reg(const token parents[], uint32_t count, const struct request *r, const struct here *here)
{
    struct slot *slot = object_new(&mr_class, here->site, parents, count);
    if (!slot)
        return object_refuse_new(&mr_class, here), NULL;
    struct ibv_mr *raw = verbs.reg_mr(pd_of(slot_at(r->pd))->raw, r->addr, r->length, r->access);
    if (!raw) {
        int error = errno;
        object_abandon(slot);
        refuse_registration(error, r, here);
        return NULL;
    }
    record(slot, r, raw);
    return object_publish(slot);
}

/* On the PD of the id's device the id stands for the PD as well, which cannot go before it. */
static inline mrg_mr *reg_through_id(mrg_id *id, void *addr, size_t length, int access, const struct here *here)
{
    struct request r = {addr, length, access, id_registration_pd(id, here), NULL};
    if (!r.pd || refuse_request(&r, here))
        return NULL;
    const token parents[EDGES] = {[EDGE_ID] = handle_token(id), [EDGE_PD] = r.pd};
    return reg(parents, r.pd == id_of(slot_at(handle_token(id)))->device_pd ? EDGE_PD : EDGES, &r, here);
}

API(mrg_mr *, mrg_reg_msgs, (mrg_id * id, void *addr, size_t length), (id, addr, length))
{
    return reg_through_id(id, addr, length, IBV_ACCESS_LOCAL_WRITE, HERE);
}

API(mrg_mr *, mrg_reg_read, (mrg_id * id, void *addr, size_t length), (id, addr, length))
{
    return reg_through_id(id, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, HERE);
}

API(mrg_mr *, mrg_reg_write, (mrg_id * id, void *addr, size_t length), (id, addr, length))
{
    return reg_through_id(id, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, HERE);
}

API(mrg_mr *, mrg_reg_send, (mrg_id * id, const void *addr, size_t length), (id, addr, length))
{
    return reg_through_id(id, (void *)(uintptr_t)addr, length, 0, HERE);
}

/* All or none: the first refusal is the one that is reported. */
static int reg_each(mrg_id *id, const struct iovec *ranges, int count, int access, mrg_mr **made,
                    const struct here *here)
{
    for (int i = 0; i < count; i++) {
        made[i] = reg_through_id(id, ranges[i].iov_base, ranges[i].iov_len, access, here);
        if (made[i])
            continue;
        int error = errno;
        while (i-- > 0)
            object_unref(slot_at(handle_token(made[i])), handle_token(made[i]), here);
        return errno = error, -1;
    }
    return 0;
}

static int reg_vector(mrg_id *id, const struct iovec *ranges, int count, int access, mrg_mr **ret,
                      const struct here *here)
{
    if (count < 0 || (count && (!ranges || !ret)))
        return refuse(RULE_BAD_ARGUMENT, here, NULL, "%d ranges at %p into %p", count, (const void *)ranges,
                      (void *)ret);
    if (!slot_find(id, TYPE_ID))
        return refuse_handle(id, TYPE_ID, here);
    mrg_mr **made = calloc((size_t)count + 1, sizeof(mrg_mr *));
    if (!made)
        return failed_below(ENOMEM);
    int result = reg_each(id, ranges, count, access, made, here);
    for (int i = 0; !result && i < count; i++)
        ret[i] = made[i];
    int error = errno;
    free(made);
    errno = error;
    return result;
}

API(int, mrg_reg_msgsv, (mrg_id * id, const struct iovec *ranges, int count, mrg_mr **ret), (id, ranges, count, ret))
{
    return reg_vector(id, ranges, count, IBV_ACCESS_LOCAL_WRITE, ret, HERE);
}

API(int, mrg_reg_readv, (mrg_id * id, const struct iovec *ranges, int count, mrg_mr **ret), (id, ranges, count, ret))
{
    return reg_vector(id, ranges, count, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, ret, HERE);
}

API(int, mrg_reg_writev, (mrg_id * id, const struct iovec *ranges, int count, mrg_mr **ret), (id, ranges, count, ret))
{
    return reg_vector(id, ranges, count, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, ret, HERE);
}

static mrg_mr *reg_on_pd(const struct request *r, const struct here *here)
{
    void *pd = (void *)(uintptr_t)r->pd;
    if (!slot_find(pd, TYPE_PD)) {
        refuse_handle(pd, TYPE_PD, here);
        return NULL;
    }
    const token parents[EDGES] = {[EDGE_PD] = r->pd};
    return refuse_request(r, here) ? NULL : reg(parents, EDGES, r, here);
}

API(mrg_mr *, mrg_reg_mr, (mrg_pd * pd, void *addr, size_t length, int access), (pd, addr, length, access))
{
    struct request r = {addr, length, access, handle_token(pd), NULL};
    return reg_on_pd(&r, HERE);
}

API(mrg_mr *, mrg_reg_mr_owned,
    (mrg_pd * pd, void *addr, size_t length, int access, mrg_release_fn *release, void *arg),
    (pd, addr, length, access, release, arg))
{
    if (!release) {
        refuse(RULE_BAD_ARGUMENT, HERE, NULL, "an owned registration needs a release function");
        return NULL;
    }
    struct owner *owner = malloc(sizeof *owner);
    if (!owner) {
        failed_below(ENOMEM);
        return NULL;
    }
    *owner = (struct owner){release, arg};
    struct request r = {addr, length, access, handle_token(pd), owner};
    mrg_mr *mr = reg_on_pd(&r, HERE);
    if (!mr) {
        int error = errno;
        free(owner);
        errno = error;
    }
    return mr;
}

/* A release is where raw ibv_mrs and numbers from peers turn up: they get a rule of their own. */
static int refuse_release(mrg_mr *mr, const struct here *here)
{
    if (!mr || token_is_handle(handle_token(mr)))
        return refuse_handle(mr, TYPE_MR, here);
    return refuse(RULE_FOREIGN_MR, here, NULL, "%p is not a handle: a raw ibv_mr, or a number from a peer?",
                  (void *)mr);
}

API(int, mrg_dereg_mr, (mrg_mr * mr), (mr))
{
    struct slot *slot = slot_find(mr, TYPE_MR);
    if (!slot)
        return refuse_release(mr, HERE);
    return object_close(slot, handle_token(mr), 0, HERE) ? -1 : object_release(slot);
}

API(mrg_mr *, mrg_mr_ref, (mrg_mr * mr), (mr))
{
    struct slot *slot = slot_find(mr, TYPE_MR);
    if (slot && references_add(slot, handle_token(mr), false))
        return mr;
    refuse_handle(mr, TYPE_MR, HERE);
    return NULL;
}

API(mrg_mr *, mrg_mr_unref, (mrg_mr * mr), (mr))
{
    struct slot *slot = slot_find(mr, TYPE_MR);
    if (slot)
        object_unref(slot, handle_token(mr), HERE);
    else if (mr)
        refuse_release(mr, HERE);
    return NULL;
}

static int move(struct slot *slot, token pd, const struct here *here)
{
    if (slot->hot.pd != (pd & INDEX_MASK))
        return refuse(RULE_WRONG_PD, here, slot, "the MR is on another PD, and registered memory cannot change its PD");
    if (!object_parent(slot, TYPE_PD) && object_join(slot, EDGE_PD, pd))
        return refuse_handle((void *)(uintptr_t)pd, TYPE_PD, here);
    object_leave(slot, TYPE_ID);
    return 0;
}

API(int, mrg_mr_move, (mrg_mr * mr, mrg_pd *pd), (mr, pd))
{
    if (!slot_find(pd, TYPE_PD))
        return refuse_handle(pd, TYPE_PD, HERE);
    struct slot *slot = object_enter(mr, TYPE_MR, HERE);
    if (!slot)
        return -1;
    int result = move(slot, handle_token(pd), HERE);
    object_exit(slot);
    return result;
}

/* What an accessor reads; all zero, with errno and a finding, where the handle is bad. */
struct look {
    struct mr_facts facts;
    uint32_t rkey;
};

static struct look look(mrg_mr *mr, const struct here *here)
{
    struct look look;
    if (mr_read(mr, &look.facts, &look.rkey))
        return look;
    refuse_handle(mr, TYPE_MR, here);
    return (struct look){0};
}

API(void *, mrg_mr_addr, (mrg_mr * mr), (mr))
{
    return (void *)(uintptr_t)look(mr, HERE).facts.addr;
}

API(size_t, mrg_mr_length, (mrg_mr * mr), (mr))
{
    return look(mr, HERE).facts.length;
}

API(uint32_t, mrg_mr_rkey, (mrg_mr * mr), (mr))
{
    return look(mr, HERE).rkey;
}

API(int, mrg_mr_access, (mrg_mr * mr), (mr))
{
    return (int)look(mr, HERE).facts.access;
}
