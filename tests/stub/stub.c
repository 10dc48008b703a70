#include "stub.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct stub_state stub;
struct ibv_context stub_devices[2];
struct ibv_context *stub_bind_to = &stub_devices[0];

#define CQ_ROOM 4096
#define QP_ROOM 256

struct stub_cq {
    struct ibv_cq cq;
    struct ibv_wc wcs[CQ_ROOM];
    unsigned int head, tail;
};

struct posted {
    uint64_t wr_id;
    bool signaled;
};

struct stub_queue {
    struct posted wrs[QP_ROOM];
    unsigned int head, tail;
};

struct stub_qp {
    struct ibv_qp qp;
    struct stub_queue send, recv;
    bool all_signaled;
    struct ibv_qp_cap cap;
};

struct stub_srq {
    struct ibv_srq srq;
    struct posted wrs[QP_ROOM];
    int count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *made(void *p, int *count)
{
    __atomic_fetch_add(count, p != NULL, __ATOMIC_RELAXED);
    return p;
}

static int gone(void *p, int *count)
{
    free(p);
    __atomic_fetch_sub(count, 1, __ATOMIC_RELAXED);
    return 0;
}

/* Channels and ids */

static struct rdma_event_channel *create_event_channel(void)
{
    struct rdma_event_channel *channel = made(calloc(1, sizeof *channel), &stub.live_channels);
    if (channel)
        channel->fd = 1000;
    return channel;
}

static void destroy_event_channel(struct rdma_event_channel *channel)
{
    gone(channel, &stub.live_channels);
}

static int create_id(struct rdma_event_channel *channel, struct rdma_cm_id **ret, void *context,
                     enum rdma_port_space ps)
{
    struct rdma_cm_id *id = made(calloc(1, sizeof *id), &stub.live_ids);
    if (!id)
        return -1;
    id->channel = channel;
    id->context = context;
    id->ps = ps;
    id->qp_type = IBV_QPT_RC;
    *ret = id;
    return 0;
}

static int bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    (void)addr;
    id->verbs = stub_bind_to;
    return 0;
}

static int create_ep(struct rdma_cm_id **ret, struct rdma_addrinfo *res, struct ibv_pd *pd,
                     struct ibv_qp_init_attr *attr)
{
    (void)res, (void)pd, (void)attr;
    return create_id(NULL, ret, NULL, RDMA_PS_TCP) ? -1 : bind_addr(*ret, NULL);
}

static int destroy_id(struct rdma_cm_id *id)
{
    free(id->event);
    return gone(id, &stub.live_ids);
}

static int resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
    (void)dst, (void)timeout_ms;
    return bind_addr(id, src);
}

static int with_number(struct rdma_cm_id *id, int number)
{
    (void)id, (void)number;
    return 0;
}

static int get_request(struct rdma_cm_id *listener, struct rdma_cm_id **ret)
{
    if (create_id(NULL, ret, listener->context, listener->ps))
        return -1;
    (*ret)->event = calloc(1, sizeof *(*ret)->event);
    (*ret)->event->param.conn.private_data = "hello";
    (*ret)->event->param.conn.private_data_len = 6;
    return bind_addr(*ret, NULL);
}

static int with_param(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    (void)id, (void)param;
    return 0;
}

static int reject(struct rdma_cm_id *id, const void *data, uint8_t length)
{
    (void)id, (void)data, (void)length;
    return 0;
}

static int notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
    (void)id, (void)event;
    return 0;
}

static int set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t length)
{
    (void)id, (void)level, (void)name, (void)value, (void)length;
    return 0;
}

static int migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    id->channel = channel;
    return 0;
}

static int disconnect(struct rdma_cm_id *id)
{
    (void)id;
    return 0;
}

static int with_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    (void)id, (void)ece;
    return 0;
}

static int init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    (void)id, (void)attr;
    *mask = IBV_QP_STATE;
    return 0;
}

static int join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
    (void)id, (void)addr;
    stub.joins++;
    stub.last_join = context;
    return 0;
}

static int join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
    return join_multicast(id, attr->addr, context);
}

static int leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
    (void)id, (void)addr;
    stub.joins--;
    return 0;
}

/* Events */

static struct rdma_cm_event *next_event;

void stub_event(struct rdma_cm_id *id, struct rdma_cm_id *listener, enum rdma_cm_event_type type)
{
    next_event = calloc(1, sizeof *next_event);
    *next_event = (struct rdma_cm_event){.id = id, .listen_id = listener, .event = type};
}

void stub_multicast_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, const void *context)
{
    stub_event(id, NULL, type);
    next_event->param.ud.private_data = context;
    next_event->param.ud.qp_num = 0xffffff;
}

static int get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **ret)
{
    (void)channel;
    if (!next_event)
        return errno = EAGAIN, -1;
    *ret = next_event;
    next_event = NULL;
    return 0;
}

static int ack_cm_event(struct rdma_cm_event *event)
{
    free(event);
    return 0;
}

/* Devices, PDs, MRs */

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    (void)context;
    *attr = (struct ibv_device_attr){.max_qp_wr = QP_ROOM, .max_sge = 32};
    return 0;
}

static struct ibv_context **get_devices(int *count)
{
    if (count)
        *count = 2;
    struct ibv_context **list = made(calloc(3, sizeof(struct ibv_context *)), &stub.device_lists);
    list[0] = &stub_devices[0], list[1] = &stub_devices[1];
    return list;
}

static void free_devices(struct ibv_context **list)
{
    gone(list, &stub.device_lists);
}

static struct ibv_context *open_device(struct ibv_device *device)
{
    struct ibv_context *context = made(calloc(1, sizeof *context), &stub.live_others);
    if (context)
        context->device = device;
    return context;
}

static int close_device(struct ibv_context *context)
{
    return gone(context, &stub.live_others);
}

static struct ibv_async_event next_async;

void stub_async(enum ibv_event_type type, void *element)
{
    next_async = (struct ibv_async_event){.event_type = type, .element.cq = element};
}

static int get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    (void)context;
    if (!next_async.element.cq)
        return errno = EAGAIN, -1;
    *event = next_async;
    next_async.element.cq = NULL;
    return 0;
}

static void ack_async_event(struct ibv_async_event *event)
{
    (void)event;
    stub.acked_async++;
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *attr)
{
    (void)input;
    *attr = (struct ibv_device_attr_ex){0};
    return query_device(context, &attr->orig_attr);
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    (void)context, (void)port;
    *attr = (struct ibv_port_attr){.state = IBV_PORT_ACTIVE};
    return 0;
}

static int query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    (void)context, (void)port, (void)index;
    *gid = (union ibv_gid){{1}};
    return 0;
}

static int query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    (void)context, (void)port, (void)index;
    *pkey = 0xffff;
    return 0;
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = made(calloc(1, sizeof *pd), &stub.live_pds);
    if (pd)
        pd->context = context;
    return pd;
}

static struct ibv_pd *alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
    (void)attr;
    return alloc_pd(context);
}

static int dealloc_pd(struct ibv_pd *pd)
{
    return gone(pd, &stub.live_pds);
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    static _Atomic uint32_t next_key = 0x100;
    (void)access;
    struct ibv_mr *mr = made(malloc(sizeof *mr), &stub.live_mrs);
    if (!mr)
        return NULL;
    uint32_t key = next_key++;
    *mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length, .lkey = key, .rkey = key};
    return mr;
}

static struct ibv_mr *reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
    (void)iova;
    return reg_mr(pd, addr, length, access);
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                                    int access)
{
    (void)iova, (void)fd;
    return reg_mr(pd, (void *)(uintptr_t)offset, length, access);
}

static struct ibv_mr *alloc_null_mr(struct ibv_pd *pd)
{
    return reg_mr(pd, NULL, SIZE_MAX, 0);
}

static int rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
    (void)access;
    if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
        mr->addr = addr, mr->length = length;
    if (flags & IBV_REREG_MR_CHANGE_PD)
        mr->pd = pd;
    mr->rkey++;
    return 0;
}

static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sges,
                     uint32_t count)
{
    (void)pd, (void)advice, (void)flags, (void)sges, (void)count;
    return 0;
}

static int dereg_mr(struct ibv_mr *mr)
{
    return gone(mr, &stub.live_mrs);
}

/* CQs and QPs */

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
    struct ibv_comp_channel *channel = made(calloc(1, sizeof *channel), &stub.live_comp_channels);
    if (channel)
        channel->context = context;
    return channel;
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
    return gone(channel, &stub.live_comp_channels);
}

static struct ibv_cq *create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                struct ibv_comp_channel *channel, int comp_vector)
{
    (void)comp_vector;
    struct stub_cq *cq = made(calloc(1, sizeof *cq), &stub.live_cqs);
    if (!cq)
        return NULL;
    cq->cq = (struct ibv_cq){.context = context, .channel = channel, .cq_context = cq_context, .cqe = cqe};
    return &cq->cq;
}

static int resize_cq(struct ibv_cq *cq, int cqe)
{
    cq->cqe = cqe;
    return 0;
}

static int destroy_cq(struct ibv_cq *cq)
{
    return gone(cq, &stub.live_cqs);
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    static _Atomic uint32_t next_number = 17;
    if (attr->cap.max_send_wr > QP_ROOM || attr->cap.max_recv_wr > QP_ROOM || attr->cap.max_send_sge > 32 ||
        attr->cap.max_recv_sge > 32)
        return errno = EINVAL, NULL;
    struct stub_qp *qp = made(calloc(1, sizeof *qp), &stub.live_qps);
    if (!qp)
        return NULL;
    qp->qp = (struct ibv_qp){.context = context,
                             .pd = attr->pd,
                             .send_cq = attr->send_cq,
                             .recv_cq = attr->recv_cq,
                             .srq = attr->srq,
                             .qp_context = attr->qp_context,
                             .qp_type = attr->qp_type};
    qp->qp.qp_num = next_number++;
    qp->qp.state = IBV_QPS_RTS;
    qp->all_signaled = attr->sq_sig_all;
    attr->cap.max_inline_data = attr->cap.max_inline_data < 32 ? 32 : attr->cap.max_inline_data;
    qp->cap = attr->cap;
    return &qp->qp;
}

static int create_qp(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    id->qp = create_qp_ex(id->verbs, attr);
    id->pd = id->qp ? attr->pd : id->pd;
    return id->qp ? 0 : -1;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    struct stub_qp *mine = (struct stub_qp *)qp;
    if (mask & IBV_QP_STATE)
        qp->state = attr->qp_state;
    if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
        mine->send.tail = mine->send.head, mine->recv.tail = mine->recv.head;
    return 0;
}

static int query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
    (void)mask;
    *attr = (struct ibv_qp_attr){.qp_state = qp->state};
    *init = (struct ibv_qp_init_attr){
        .send_cq = qp->send_cq, .recv_cq = qp->recv_cq, .cap = ((struct stub_qp *)qp)->cap, .qp_type = qp->qp_type};
    return 0;
}

static int mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp, (void)gid, (void)lid;
    return 0;
}

/* SRQs, XRC domains, thread domains, AHs, MWs */

static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
    struct stub_srq *srq = made(calloc(1, sizeof *srq), &stub.live_srqs);
    if (!srq)
        return NULL;
    srq->srq = (struct ibv_srq){.context = context, .srq_context = attr->srq_context, .pd = attr->pd};
    return &srq->srq;
}

static int modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    (void)srq, (void)attr, (void)mask;
    return 0;
}

static int query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
    (void)srq;
    *attr = (struct ibv_srq_attr){.max_wr = 8};
    return 0;
}

static int get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
    (void)srq;
    *number = 1;
    return 0;
}

static int destroy_srq(struct ibv_srq *srq)
{
    return gone(srq, &stub.live_srqs);
}

static int post_srq_recv(struct ibv_srq *raw, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct stub_srq *srq = (struct stub_srq *)raw;
    for (int left = stub.take; wr; wr = wr->next) {
        if (srq->count == QP_ROOM || (stub.take && !left--))
            return *bad = wr, ENOMEM;
        srq->wrs[srq->count++].wr_id = wr->wr_id;
    }
    return 0;
}

void stub_complete_srq(struct ibv_srq *raw, int which, struct ibv_qp *qp, enum ibv_wc_status status)
{
    struct stub_srq *srq = (struct stub_srq *)raw;
    uint64_t wr_id = srq->wrs[which].wr_id;
    memmove(&srq->wrs[which], &srq->wrs[which + 1], (size_t)(--srq->count - which) * sizeof *srq->wrs);
    stub_push(qp->recv_cq, wr_id, qp->qp_num, status);
}

static struct ibv_xrcd *open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
    (void)attr;
    struct ibv_xrcd *xrcd = made(calloc(1, sizeof *xrcd), &stub.live_others);
    if (xrcd)
        xrcd->context = context;
    return xrcd;
}

static int close_xrcd(struct ibv_xrcd *xrcd)
{
    return gone(xrcd, &stub.live_others);
}

static struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    (void)attr;
    struct ibv_td *td = made(calloc(1, sizeof *td), &stub.live_others);
    if (td)
        td->context = context;
    return td;
}

static int dealloc_td(struct ibv_td *td)
{
    return gone(td, &stub.live_others);
}

static struct ibv_ah *create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    (void)attr;
    struct ibv_ah *ah = made(calloc(1, sizeof *ah), &stub.live_others);
    if (ah)
        *ah = (struct ibv_ah){.context = pd->context, .pd = pd};
    return ah;
}

static int init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
                           struct ibv_ah_attr *attr)
{
    (void)context, (void)wc, (void)grh;
    attr->port_num = port;
    return 0;
}

static int destroy_ah(struct ibv_ah *ah)
{
    return gone(ah, &stub.live_others);
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    static _Atomic uint32_t next_key = 0x10000;
    struct ibv_mw *mw = made(calloc(1, sizeof *mw), &stub.live_others);
    if (mw)
        *mw =
            (struct ibv_mw){.context = pd->context, .pd = pd, .rkey = atomic_fetch_add(&next_key, 0x100), .type = type};
    return mw;
}

static int dealloc_mw(struct ibv_mw *mw)
{
    return gone(mw, &stub.live_others);
}

static int bind_mw(struct ibv_qp *raw, struct ibv_mw *mw, struct ibv_mw_bind *bind);

static int destroy_qp(struct ibv_qp *qp)
{
    return gone(qp, &stub.live_qps);
}

static void push(struct ibv_cq *raw, struct ibv_wc wc)
{
    struct stub_cq *cq = (struct stub_cq *)raw;
    cq->wcs[cq->head++ % CQ_ROOM] = wc;
}

void stub_push(struct ibv_cq *cq, uint64_t wr_id, uint32_t qp_num, enum ibv_wc_status status)
{
    push(cq, (struct ibv_wc){.wr_id = wr_id, .qp_num = qp_num, .status = status});
}

void stub_push_invalidated(struct ibv_cq *cq, uint64_t wr_id, uint32_t qp_num, uint32_t rkey)
{
    push(cq, (struct ibv_wc){.wr_id = wr_id, .qp_num = qp_num, .wc_flags = IBV_WC_WITH_INV, .invalidated_rkey = rkey});
}

static void complete(struct stub_qp *qp, struct stub_queue *queue, struct ibv_cq *cq, int count,
                     enum ibv_wc_status status)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count && queue->tail != queue->head; i++) {
        struct posted *wr = &queue->wrs[queue->tail++ % QP_ROOM];
        if (wr->signaled || status != IBV_WC_SUCCESS)
            stub_push(cq, wr->wr_id, qp->qp.qp_num, status);
    }
    pthread_mutex_unlock(&lock);
}

void stub_complete_sends(struct ibv_qp *qp, int count, enum ibv_wc_status status)
{
    complete((struct stub_qp *)qp, &((struct stub_qp *)qp)->send, qp->send_cq, count, status);
}

void stub_complete_recvs(struct ibv_qp *qp, int count, enum ibv_wc_status status)
{
    complete((struct stub_qp *)qp, &((struct stub_qp *)qp)->recv, qp->recv_cq, count, status);
}

static void note(const struct ibv_qp *qp, uint64_t wr_id, const struct ibv_sge *sges, int count)
{
    stub.last_qp_num = qp->qp_num;
    stub.last_wr_id = wr_id;
    stub.last_num_sge = count;
    stub.last_lkey = count ? sges[count - 1].lkey : 0;
}

static void put(struct stub_qp *qp, struct stub_queue *queue, uint64_t wr_id, bool signaled, const struct ibv_sge *sges,
                int count)
{
    pthread_mutex_lock(&lock);
    note(&qp->qp, wr_id, sges, count);
    queue->wrs[queue->head++ % QP_ROOM] = (struct posted){wr_id, signaled};
    pthread_mutex_unlock(&lock);
}

static int post_one_send(struct ibv_qp *raw, const struct ibv_send_wr *wr)
{
    struct stub_qp *qp = (struct stub_qp *)raw;
    bool signaled = qp->all_signaled || (wr->send_flags & IBV_SEND_SIGNALED);
    pthread_mutex_lock(&lock);
    stub.last_send = *wr;
    pthread_mutex_unlock(&lock);
    put(qp, &qp->send, wr->wr_id, signaled, wr->sg_list, wr->num_sge);
    if (!stub.hold_sends)
        stub_complete_sends(raw, 1, IBV_WC_SUCCESS);
    return 0;
}

/* stub.take: how many WRs of a chain it takes before it is out of memory. */
static int post_send(struct ibv_qp *raw, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    if (stub.lazy)
        return note(raw, wr->wr_id, wr->sg_list, wr->num_sge), 0;
    for (int left = stub.take; wr; wr = wr->next) {
        if (stub.take && !left--)
            return *bad = wr, ENOMEM;
        post_one_send(raw, wr);
    }
    return 0;
}

static int post_recv(struct ibv_qp *raw, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct stub_qp *qp = (struct stub_qp *)raw;
    if (stub.lazy)
        return note(raw, wr->wr_id, wr->sg_list, wr->num_sge), 0;
    for (int left = stub.take; wr; wr = wr->next) {
        if (stub.take && !left--)
            return *bad = wr, ENOMEM;
        put(qp, &qp->recv, wr->wr_id, true, wr->sg_list, wr->num_sge);
    }
    return 0;
}

static int bind_mw(struct ibv_qp *raw, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
    struct ibv_send_wr wr = {.wr_id = bind->wr_id, .send_flags = bind->send_flags};
    mw->rkey = ibv_inc_rkey(mw->rkey);
    stub.last_bind = bind->bind_info;
    return post_one_send(raw, &wr);
}

/* A lazy poll completes the WR that was posted last. */
static int poll_lazily(struct ibv_cq *cq, struct ibv_wc *wc)
{
    (void)cq;
    wc->wr_id = stub.last_wr_id;
    wc->status = IBV_WC_SUCCESS;
    wc->qp_num = stub.last_qp_num;
    wc->wc_flags = 0;
    return 1;
}

static int poll_cq(struct ibv_cq *raw, int count, struct ibv_wc *wc)
{
    if (stub.lazy)
        return poll_lazily(raw, wc);
    struct stub_cq *cq = (struct stub_cq *)raw;
    pthread_mutex_lock(&lock);
    int got = 0;
    while (got < count && cq->tail != cq->head)
        wc[got++] = cq->wcs[cq->tail++ % CQ_ROOM];
    pthread_mutex_unlock(&lock);
    return got;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    (void)cq, (void)solicited_only;
    return 0;
}

/* Nobody would ever wake us: a test that sleeps here is wrong. */
static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
    (void)channel, (void)cq, (void)context;
    return errno = EDEADLK, -1;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
    (void)cq, (void)count;
}

void stub_install(void)
{
    stub = (struct stub_state){0};
    verbs = (struct verbs){
        .create_event_channel = create_event_channel,
        .destroy_event_channel = destroy_event_channel,
        .get_cm_event = get_cm_event,
        .ack_cm_event = ack_cm_event,
        .create_id = create_id,
        .create_ep = create_ep,
        .destroy_id = destroy_id,
        .bind_addr = bind_addr,
        .resolve_addr = resolve_addr,
        .resolve_route = with_number,
        .listen = with_number,
        .get_request = get_request,
        .connect = with_param,
        .accept = with_param,
        .reject = reject,
        .disconnect = disconnect,
        .establish = disconnect,
        .notify = notify,
        .set_option = set_option,
        .migrate_id = migrate_id,
        .create_qp = create_qp,
        .get_devices = get_devices,
        .query_device = query_device,
        .query_device_ex = query_device_ex,
        .query_port = query_port,
        .query_gid = query_gid,
        .query_pkey = query_pkey,
        .open_device = open_device,
        .close_device = close_device,
        .get_async_event = get_async_event,
        .ack_async_event = ack_async_event,
        .reject_ece = reject,
        .set_local_ece = with_ece,
        .get_remote_ece = with_ece,
        .init_qp_attr = init_qp_attr,
        .join_multicast = join_multicast,
        .join_multicast_ex = join_multicast_ex,
        .leave_multicast = leave_multicast,
        .reg_mr_iova = reg_mr_iova,
        .reg_dmabuf_mr = reg_dmabuf_mr,
        .alloc_null_mr = alloc_null_mr,
        .rereg_mr = rereg_mr,
        .advise_mr = advise_mr,
        .alloc_td = alloc_td,
        .dealloc_td = dealloc_td,
        .alloc_parent_domain = alloc_parent_domain,
        .open_xrcd = open_xrcd,
        .close_xrcd = close_xrcd,
        .create_ah = create_ah,
        .init_ah_from_wc = init_ah_from_wc,
        .destroy_ah = destroy_ah,
        .alloc_mw = alloc_mw,
        .dealloc_mw = dealloc_mw,
        .bind_mw = bind_mw,
        .resize_cq = resize_cq,
        .create_srq_ex = create_srq_ex,
        .modify_srq = modify_srq,
        .query_srq = query_srq,
        .get_srq_num = get_srq_num,
        .destroy_srq = destroy_srq,
        .post_srq_recv = post_srq_recv,
        .create_qp_ex = create_qp_ex,
        .modify_qp = modify_qp,
        .query_qp = query_qp,
        .attach_mcast = mcast,
        .detach_mcast = mcast,
        .free_devices = free_devices,
        .alloc_pd = alloc_pd,
        .dealloc_pd = dealloc_pd,
        .reg_mr = reg_mr,
        .dereg_mr = dereg_mr,
        .create_comp_channel = create_comp_channel,
        .destroy_comp_channel = destroy_comp_channel,
        .create_cq = create_cq,
        .destroy_cq = destroy_cq,
        .destroy_qp = destroy_qp,
        .post_send = post_send,
        .post_recv = post_recv,
        .poll_cq = poll_cq,
        .req_notify_cq = req_notify_cq,
        .get_cq_event = get_cq_event,
        .ack_cq_events = ack_cq_events,
    };
}
