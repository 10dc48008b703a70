/*
 * QPs of the caller's own making, connected by librdmacm: their states by mrg_init_qp_attr, the connection confirmed by
 * mrg_establish. The first request is refused for the vendor's options (ECE) that it brings.
 */
#include <stdlib.h>

#include "scenarios.h"

#define MESSAGE ((void *)1)

static struct {
    mrg_channel *channel;
    mrg_id *id;
    mrg_pd *pd;
    mrg_cq *cq;
    mrg_qp *qp;
    mrg_mr *mr;
} self;

static unsigned char memory[16];
static const char no[] = "no";
static struct ibv_ece ece = {.vendor_id = 0x1234, .options = 5};

static void make_qp(void)
{
    mrg_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
    mrg_context *device;
    try_make(device, mrg_id_verbs(self.id));
    try_make(self.pd, mrg_alloc_pd(device));
    try_make(self.cq, mrg_create_cq(device, 4, NULL, NULL, 0));
    attr.send_cq = attr.recv_cq = self.cq;
    try_make(self.qp, mrg_ibv_create_qp(self.pd, &attr));
    try_make(self.mr, mrg_reg_mr(self.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE));
}

static void bring_qp_to(enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask;
    try(mrg_init_qp_attr(self.id, &attr, &mask));
    try(mrg_modify_qp(self.qp, &attr, mask));
}

static struct rdma_conn_param connection(void)
{
    return (struct rdma_conn_param){
        .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .qp_num = mrg_qp_num(self.qp)};
}

static void destroy_id(mrg_id *id)
{
    tolerate(LATE_RELEASE, "dealloc_pd", try(mrg_destroy_id(id)));
}

static void strip(void)
{
    try(mrg_ibv_destroy_qp(self.qp));
    try(mrg_dereg_mr(self.mr));
    try(mrg_destroy_cq(self.cq));
    try(mrg_dealloc_pd(self.pd));
}

/* The active side */

static void resolve(struct rdma_addrinfo *to)
{
    try_out(self.id, mrg_create_id(self.channel, &self.id, NULL, RDMA_PS_TCP));
    try(mrg_resolve_addr(self.id, NULL, to->ai_dst_addr, 2000));
    await_event(self.channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    try(mrg_resolve_route(self.id, 2000));
    await_event(self.channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

/* The id is of no use afterwards; the QP, which no message has reached, is. */
static void be_refused(void)
{
    struct rdma_conn_param param = connection();
    try(mrg_set_local_ece(self.id, &ece));
    try(mrg_connect(self.id, &param));
    await_event(self.channel, RDMA_CM_EVENT_REJECTED);
    destroy_id(self.id);
}

static void connect_to_peer(void)
{
    struct rdma_conn_param param = connection();
    try(mrg_connect(self.id, &param));
    await_event(self.channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
    bring_qp_to(IBV_QPS_INIT);
    bring_qp_to(IBV_QPS_RTR);
    bring_qp_to(IBV_QPS_RTS);
    try(mrg_establish(self.id));
}

static void send_message(void)
{
    mrg_sge piece = {memory, sizeof memory, self.mr};
    mrg_send_wr wr = {.wr_id = (uintptr_t)MESSAGE, .sg_list = &piece, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
    mrg_send_wr *bad = NULL;
    wr.opcode = IBV_WR_SEND;
    try_else(mrg_ibv_post_send(self.qp, &wr, &bad) == 0, bad == &wr, "mrg_ibv_post_send");
    await_polled(self.cq, MESSAGE, NULL);
}

static void active(void)
{
    struct rdma_addrinfo *to = address(hear_port(), 0);
    try_make(self.channel, mrg_create_event_channel());
    resolve(to);
    make_qp();
    be_refused();
    resolve(to);
    rdma_freeaddrinfo(to);
    connect_to_peer();
    send_message();
    hear('n');
    try(mrg_disconnect(self.id));
    await_event(self.channel, RDMA_CM_EVENT_DISCONNECTED);
    strip();
    destroy_id(self.id);
    try(mrg_destroy_event_channel(self.channel));
}

/* The passive side */

static mrg_id *listen_on_device(void)
{
    struct rdma_addrinfo *at = address(0, RAI_PASSIVE);
    mrg_id *listener;
    try_make(self.channel, mrg_create_event_channel());
    try_out(listener, mrg_create_id(self.channel, &listener, NULL, RDMA_PS_TCP));
    try(mrg_bind_addr(listener, at->ai_src_addr));
    rdma_freeaddrinfo(at);
    try(mrg_listen(listener, 4));
    say_port(listener);
    return listener;
}

static void refuse_once(void)
{
    struct ibv_ece asked;
    mrg_id *id = await_event(self.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    try(mrg_get_remote_ece(id, &asked));
    life_requires(asked.vendor_id == ece.vendor_id && asked.options == ece.options, "other options came");
    try(mrg_reject_ece(id, no, sizeof no));
    try(mrg_destroy_id(id));
}

static void post_receive(void)
{
    mrg_sge piece = {memory, sizeof memory, self.mr};
    mrg_recv_wr wr = {.wr_id = (uintptr_t)MESSAGE, .sg_list = &piece, .num_sge = 1}, *bad = NULL;
    try_else(mrg_ibv_post_recv(self.qp, &wr, &bad) == 0, bad == &wr, "mrg_ibv_post_recv");
}

static void accept_next(void)
{
    self.id = await_event(self.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    make_qp();
    struct rdma_conn_param param = connection();
    bring_qp_to(IBV_QPS_INIT);
    post_receive();
    bring_qp_to(IBV_QPS_RTR);
    bring_qp_to(IBV_QPS_RTS);
    try(mrg_accept(self.id, &param));
    await_event(self.channel, RDMA_CM_EVENT_ESTABLISHED);
    try_refused(mrg_notify(self.id, IBV_EVENT_COMM_EST) == 0, EISCONN, NULL); /* the kernel knows already */
    say('n');
}

static void passive(void)
{
    mrg_id *listener = listen_on_device();
    refuse_once();
    accept_next();
    await_polled(self.cq, MESSAGE, NULL);
    await_event(self.channel, RDMA_CM_EVENT_DISCONNECTED);
    try(mrg_disconnect(self.id)); /* the answer, for which the peer waits */
    strip();
    destroy_id(self.id);
    try(mrg_destroy_id(listener));
    try(mrg_destroy_event_channel(self.channel));
}

const struct scenario handmade_scenario = {"handmade", {active, passive}};
