/* Registration in all its forms. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "id.h"
#include "mr.h"
#include "mr_refusal.h"
#include "pd.h"
#include "report.h"
#include "verbs.h"

/* What the forms beyond ibv_reg_mr ask for. */
struct special {
    enum { AT_IOVA, DMABUF, NULL_MR } form;
    uint64_t iova;
    int fd;
};

/* What one registration asks for. */
struct request {
    void *addr; /* DMABUF: the offset */
    size_t length;
    int access;
    token pd;
    struct owner *owner;           /* NULL: the memory stays the caller's */
    const struct special *special; /* NULL: none */
};

static __attribute__((noinline)) int refuse_request(enum rule rule, const struct request *r, const struct here *here)
{
    switch (rule) {
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

static inline enum rule check_request(const struct request *r)
{
    enum rule rule = check_registration((uintptr_t)r->addr, r->length, (uint32_t)r->access);
    if (rule == RULE_NONE && r->special)
        rule = check_registration(r->special->iova, r->length, (uint32_t)r->access);
    return rule;
}

static int refuse_registration(int error, const struct request *r, const struct here *here)
{
    char why[320];
    bool of_memory = !r->special || r->special->form == AT_IOVA;
    uint64_t iova = r->special ? r->special->iova : (uintptr_t)r->addr;
    if (error == EOPNOTSUPP || error == ENOSYS)
        snprintf(why, sizeof why, "the device or its provider has no registration of this kind");
    else if (of_memory && (r->access & IBV_ACCESS_ON_DEMAND))
        snprintf(why, sizeof why, "does the device register on demand (mrg_query_device_ex, odp_caps)?");
    else if (of_memory && error == EINVAL && (iova ^ (uintptr_t)r->addr) % (uint64_t)sysconf(_SC_PAGESIZE))
        snprintf(why, sizeof why, "iova must lie in its page where addr lies in its own");
    else if (of_memory)
        mr_explain_refusal(why, sizeof why, error, r->addr, r->length, r->access);
    else
        snprintf(why, sizeof why, "%s", strerror(error));
    return refuse_with(error, RULE_REGISTRATION_REFUSED, here, NULL, "%zu bytes at %p were refused with %s: %s",
                       r->length, r->addr, strerrorname_np(error), why);
}

static __attribute__((noinline)) struct ibv_mr *make_special(const struct request *r)
{
    struct ibv_pd *pd = pd_of(slot_at(r->pd))->raw;
    const struct special *special = r->special;
    switch (special->form) {
    case AT_IOVA:
        return verbs.reg_mr_iova(pd, r->addr, r->length, special->iova, r->access);
    case DMABUF:
        return verbs.reg_dmabuf_mr(pd, (uintptr_t)r->addr, r->length, special->iova, special->fd, r->access);
    default:
        return verbs.alloc_null_mr(pd);
    }
}

static inline struct ibv_mr *make_raw(const struct request *r)
{
    if (__builtin_expect(r->special != NULL, 0))
        return make_special(r);
    return verbs.reg_mr(pd_of(slot_at(r->pd))->raw, r->addr, r->length, r->access);
}

static inline __attribute__((always_inline)) void record(struct slot *slot, const struct request *r, struct ibv_mr *raw)
{
    uint64_t start = r->special ? r->special->iova : (uintptr_t)r->addr;
    atomic_store_explicit(&slot->hot.addr, start, memory_order_relaxed);
    atomic_store_explicit(&slot->hot.length, r->length, memory_order_relaxed);
    atomic_store_explicit(&slot->hot.access, (uint32_t)r->access, memory_order_relaxed);
    atomic_store_explicit(&slot->hot.lkey, raw->lkey, memory_order_relaxed);
    atomic_store_explicit(&slot->hot.rkey, raw->rkey, memory_order_relaxed);
    atomic_store_explicit(&slot->hot.pd, pd_of(slot_at(r->pd))->root, memory_order_relaxed);
    slot->hot.raw = raw;
    if (DEBUG_BUILD)
        slot->hot.elsewhere = r->special && r->special->form != AT_IOVA;
    slot->cold.owner = r->owner;
    report_registered(1, r->length);
}

/* No lock is held while the kernel pins the pages; the embryo keeps the parents meanwhile. */
static inline __attribute__((always_inline)) mrg_mr *reg(const token parents[], uint32_t count, const struct request *r,
                                                         const struct here *here)
{
    struct slot *slot = object_new(&mr_class, here->site, parents, count);
    if (!slot)
        return object_refuse_new(&mr_class, here), NULL;
    struct ibv_mr *raw = make_raw(r);
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
static inline __attribute__((always_inline)) mrg_mr *reg_through_id(mrg_id *id, void *addr, size_t length, int access,
                                                                    const struct here *here)
{
    struct request r = {addr, length, access, id_registration_pd(id, here), NULL, NULL};
    if (!r.pd)
        return NULL;
    enum rule rule = check_request(&r);
    if (rule != RULE_NONE)
        return refuse_request(rule, &r, here), NULL;
    const token parents[MR_EDGES] = {[MR_EDGE_ID] = handle_token(id), [MR_EDGE_PD] = r.pd};
    return reg(parents, r.pd == id_of(slot_at(handle_token(id)))->device_pd ? MR_EDGE_PD : MR_EDGES, &r, here);
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
    const token parents[MR_EDGES] = {[MR_EDGE_PD] = r->pd};
    enum rule rule = check_request(r);
    return rule != RULE_NONE ? (refuse_request(rule, r, here), NULL) : reg(parents, MR_EDGES, r, here);
}

API(mrg_mr *, mrg_reg_mr, (mrg_pd * pd, void *addr, size_t length, int access), (pd, addr, length, access))
{
    struct request r = {addr, length, access, handle_token(pd), NULL, NULL};
    return reg_on_pd(&r, HERE);
}

API(mrg_mr *, mrg_reg_mr_iova, (mrg_pd * pd, void *addr, size_t length, uint64_t iova, int access),
    (pd, addr, length, iova, access))
{
    struct special special = {AT_IOVA, iova, -1};
    struct request r = {addr, length, access, handle_token(pd), NULL, &special};
    return reg_on_pd(&r, HERE);
}

API(mrg_mr *, mrg_reg_dmabuf_mr, (mrg_pd * pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access),
    (pd, offset, length, iova, fd, access))
{
    struct special special = {DMABUF, iova, fd};
    struct request r = {(void *)(uintptr_t)offset, length, access, handle_token(pd), NULL, &special};
    return reg_on_pd(&r, HERE);
}

/* Reads as zeros, swallows what is written, covers every address. */
API(mrg_mr *, mrg_alloc_null_mr, (mrg_pd * pd), (pd))
{
    struct special special = {NULL_MR, 0, -1};
    struct request r = {NULL, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE, handle_token(pd), NULL, &special};
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
    struct request r = {addr, length, access, handle_token(pd), owner, NULL};
    mrg_mr *mr = reg_on_pd(&r, HERE);
    if (!mr) {
        int error = errno;
        free(owner);
        errno = error;
    }
    return mr;
}
