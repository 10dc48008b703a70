#include "stub.h"

#include <errno.h>
#include <pthread.h>
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

/* Events */

static struct rdma_cm_event *next_event;

void stub_event(struct rdma_cm_id *id, struct rdma_cm_id *listener, enum rdma_cm_event_type type)
{
    next_event = calloc(1, sizeof *next_event);
    *next_event = (struct rdma_cm_event){.id = id, .listen_id = listener, .event = type};
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

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = made(calloc(1, sizeof *pd), &stub.live_pds);
    if (pd)
        pd->context = context;
    return pd;
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

static int dereg_mr(struct ibv_mr *mr)
{
    return gone(mr, &stub.live_mrs);
}

/* CQs and QPs */

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
    (void)context;
    return made(calloc(1, sizeof(struct ibv_comp_channel)), &stub.live_comp_channels);
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

static int destroy_cq(struct ibv_cq *cq)
{
    return gone(cq, &stub.live_cqs);
}

static int create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    static _Atomic uint32_t next_number = 17;
    if (attr->cap.max_send_wr > QP_ROOM || attr->cap.max_recv_wr > QP_ROOM || attr->cap.max_send_sge > 32 ||
        attr->cap.max_recv_sge > 32)
        return errno = EINVAL, -1;
    struct stub_qp *qp = made(calloc(1, sizeof *qp), &stub.live_qps);
    if (!qp)
        return -1;
    qp->qp = (struct ibv_qp){.context = pd->context, .pd = pd, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq};
    qp->qp.qp_num = next_number++;
    qp->qp.state = IBV_QPS_RTS;
    qp->all_signaled = attr->sq_sig_all;
    attr->cap.max_inline_data = attr->cap.max_inline_data < 32 ? 32 : attr->cap.max_inline_data;
    id->qp = &qp->qp;
    id->pd = pd;
    return 0;
}

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

static int post_send(struct ibv_qp *raw, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct stub_qp *qp = (struct stub_qp *)raw;
    (void)bad;
    if (stub.lazy)
        return note(raw, wr->wr_id, wr->sg_list, wr->num_sge), 0;
    bool signaled = qp->all_signaled || (wr->send_flags & IBV_SEND_SIGNALED);
    put(qp, &qp->send, wr->wr_id, signaled, wr->sg_list, wr->num_sge);
    if (!stub.hold_sends)
        stub_complete_sends(raw, 1, IBV_WC_SUCCESS);
    return 0;
}

static int post_recv(struct ibv_qp *raw, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct stub_qp *qp = (struct stub_qp *)raw;
    (void)bad;
    if (stub.lazy)
        return note(raw, wr->wr_id, wr->sg_list, wr->num_sge), 0;
    put(qp, &qp->recv, wr->wr_id, true, wr->sg_list, wr->num_sge);
    return 0;
}

/* A lazy poll completes the WR that was posted last. */
static int poll_lazily(struct ibv_cq *cq, struct ibv_wc *wc)
{
    (void)cq;
    wc->wr_id = stub.last_wr_id;
    wc->status = IBV_WC_SUCCESS;
    wc->qp_num = stub.last_qp_num;
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
