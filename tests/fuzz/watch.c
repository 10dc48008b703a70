#include "watch.h"

#include <errno.h>
#include <stddef.h>

struct watch watch;
static struct verbs beneath;

static void made(void *raw)
{
    watch.made = raw ? raw : watch.made;
}

static void released(void *raw, int error)
{
    if (error)
        watch.refused = raw;
    else if (watch.count < WATCHED)
        watch.released[watch.count++] = raw;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
    struct ibv_context *raw = beneath.open_device(device);
    made(raw);
    return raw;
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *raw = beneath.alloc_pd(context);
    made(raw);
    return raw;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    struct ibv_mr *raw = beneath.reg_mr(pd, addr, length, access);
    made(raw);
    return raw;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                struct ibv_comp_channel *channel, int comp_vector)
{
    struct ibv_cq *raw = beneath.create_cq(context, cqe, cq_context, channel, comp_vector);
    made(raw);
    return raw;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    struct ibv_qp *raw = beneath.create_qp_ex(context, attr);
    made(raw);
    return raw;
}

static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
    struct ibv_srq *raw = beneath.create_srq_ex(context, attr);
    made(raw);
    return raw;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    int got = beneath.poll_cq(cq, count, wc);
    watch.polled += got > 0 ? got : 0;
    return got;
}

#define RELEASES(name, type)           \
    static int name(type *raw)         \
    {                                  \
        int error = beneath.name(raw); \
        int saved = errno;             \
        released(raw, error);          \
        return errno = saved, error;   \
    }
RELEASES(close_device, struct ibv_context)
RELEASES(dealloc_pd, struct ibv_pd)
RELEASES(dereg_mr, struct ibv_mr)
RELEASES(destroy_cq, struct ibv_cq)
RELEASES(destroy_qp, struct ibv_qp)
RELEASES(destroy_srq, struct ibv_srq)
RELEASES(destroy_id, struct rdma_cm_id)

void watch_install(void)
{
    beneath = verbs;
    verbs.open_device = open_device;
    verbs.alloc_pd = alloc_pd;
    verbs.reg_mr = reg_mr;
    verbs.create_cq = create_cq;
    verbs.create_qp_ex = create_qp_ex;
    verbs.create_srq_ex = create_srq_ex;
    verbs.poll_cq = poll_cq;
    verbs.close_device = close_device;
    verbs.dealloc_pd = dealloc_pd;
    verbs.dereg_mr = dereg_mr;
    verbs.destroy_cq = destroy_cq;
    verbs.destroy_qp = destroy_qp;
    verbs.destroy_srq = destroy_srq;
    verbs.destroy_id = destroy_id;
}
