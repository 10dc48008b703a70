/*
 * Datagrams: the service is asked for its QP (SIDR), then datagrams go there and back by address handles. The active side
 * joins multicast groups. Both receive through an SRQ of their id's.
 */
#include <arpa/inet.h>
#include <infiniband/sa.h>
#include <unistd.h>

#include "scenarios.h"

enum { ASKING = 1, ASKED, ANSWER };
#define NAME(number) ((void *)(uintptr_t)(number))
#define GRH 40 /* bytes in front of what was sent */
#define SIZE 64

static struct {
    mrg_channel *channel;
    mrg_id *id;
    mrg_pd *pd;           /* that of the id's device */
    mrg_cq *cq, *recv_cq; /* two, since an answer may overtake the completion of its question */
    mrg_mr *mr;
} self;

static unsigned char memory[GRH + SIZE];

/* Multicast. No datagram goes that way: that it would arrive is not sure. */

/*
 * Groups of this process alone. In Linux 6.1 a QP that joins a group just as the last other one leaves it is attached to
 * nothing: it cannot be detached, nor destroyed, not even by its process's end.
 */
static struct sockaddr_in group(uint32_t number)
{
    uint32_t address = 239U << 24 | number << 16 | ((uint32_t)getpid() & 0xffff);
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
}

/* The event of a join is about the join: the group cannot be left before it is acknowledged. */
static void await_join(struct sockaddr *addr, void *context)
{
    struct rdma_ud_param param;
    size_t length = 1;
    mrg_cm_event *event = get_event(self.channel, RDMA_CM_EVENT_MULTICAST_JOIN);
    life_requires(mrg_event_private_data(event, &length) == context && !length, "the join has another context");
    life_requires(!mrg_event_ud_param(event, &param) && param.qp_num == 0xffffff, "the join is of something else");
    try_refused(mrg_leave_multicast(self.id, addr) == 0, EBUSY, "unacked-event");
    try_refused(mrg_destroy_qp(self.id) == 0, EBUSY, "destroy-order");
    try(mrg_ack_cm_event(event));
}

static void join_and_leave(void)
{
    struct sockaddr_in addr = group(1);
    struct sockaddr *any = (struct sockaddr *)&addr;
    try(mrg_join_multicast(self.id, any, &addr));
    await_join(any, &addr);
    try(mrg_leave_multicast(self.id, any));
}

static void join_and_leave_ex(void)
{
    struct sockaddr_in addr = group(2);
    struct rdma_cm_join_mc_attr_ex attr = {
        .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
        .join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
        .addr = (struct sockaddr *)&addr,
    };
    try(mrg_join_multicast_ex(self.id, &attr, &attr));
    await_join(attr.addr, &attr);
    try(mrg_leave_multicast(self.id, attr.addr));
}

/* The same without librdmacm. */
static void attach_and_detach(void)
{
    union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};
    struct sockaddr_in addr = group(3);
    memcpy(gid.raw + 12, &addr.sin_addr, sizeof addr.sin_addr);
    try(mrg_attach_mcast(mrg_id_qp(self.id), &gid, 0));
    try(mrg_detach_mcast(mrg_id_qp(self.id), &gid, 0));
}

/* Both sides */

static void equip(void)
{
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    mrg_context *device;
    try_make(device, mrg_id_verbs(self.id));
    try_make(self.pd, mrg_id_pd(self.id));
    try_make(self.cq, mrg_create_cq(device, 8, NULL, NULL, 0));
    try_make(self.recv_cq, mrg_create_cq(device, 8, NULL, NULL, 0));
    attr.send_cq = self.cq;
    attr.recv_cq = self.recv_cq;
    const mrg_qp_init_attr before = attr;
    try_else(mrg_create_qp_ex(self.id, &attr) == 0, !memcmp(&attr, &before, sizeof attr), "mrg_create_qp_ex");
    try_make(self.mr, mrg_reg_msgs(self.id, memory, sizeof memory));
    try(mrg_post_recv(self.id, NAME(ASKED), memory, sizeof memory, self.mr));
}

/* Not the receive: an MR in an SRQ goes with that. */
static void send_datagram(void *name, mrg_ah *ah, uint32_t qp_num, const char *words)
{
    static unsigned char out[SIZE];
    mrg_mr *mr;
    memcpy(out, words, strlen(words) + 1);
    try_make(mr, mrg_reg_send(self.id, out, sizeof out));
    try(mrg_post_ud_send(self.id, name, out, sizeof out, mr, IBV_SEND_SIGNALED, ah, qp_num));
    try_refused(mrg_destroy_ah(ah) == 0, EBUSY, "destroy-order"); /* it is in use until the completion is polled */
    await_polled(self.cq, name, NULL);
    try(mrg_dereg_mr(mr));
    try(mrg_destroy_ah(ah));
}

static void expect_words(const struct ibv_wc *wc, const char *words)
{
    life_requires(wc->byte_len == sizeof memory, "a datagram of another length");
    life_requires(!strcmp((const char *)memory + GRH, words), "another datagram came");
}

/* The active side */

static void resolve(void)
{
    struct rdma_addrinfo *to = address(hear_port(), 0);
    try_make(self.channel, mrg_create_event_channel());
    try_out(self.id, mrg_create_id(self.channel, &self.id, NULL, RDMA_PS_UDP));
    try(mrg_resolve_addr(self.id, NULL, to->ai_dst_addr, 2000));
    rdma_freeaddrinfo(to);
    await_event(self.channel, RDMA_CM_EVENT_ADDR_RESOLVED);
}

/* The answer has all that a datagram needs. */
static mrg_ah *ask_for_service(struct rdma_ud_param *param)
{
    struct rdma_conn_param ask = {0};
    mrg_ah *ah;
    try(mrg_resolve_route(self.id, 2000));
    await_event(self.channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    try(mrg_connect(self.id, &ask));
    mrg_cm_event *event = get_event(self.channel, RDMA_CM_EVENT_ESTABLISHED);
    life_requires(!mrg_event_ud_param(event, param) && param->qkey == RDMA_UDP_QKEY, "no datagram service");
    try_make(ah, mrg_create_ah(self.pd, &param->ah_attr));
    try(mrg_ack_cm_event(event));
    return ah;
}

static void active(void)
{
    struct rdma_ud_param service;
    struct ibv_wc wc;
    mrg_srq_init_attr attr = {.attr = {.max_wr = 2, .max_sge = 1}};
    resolve();
    try(mrg_create_srq_ex(self.id, &attr));
    equip();
    join_and_leave(); /* the kernel lets an id join that has an address, and no more */
    join_and_leave_ex();
    mrg_ah *ah = ask_for_service(&service);
    send_datagram(NAME(ASKING), ah, service.qp_num, "who is there?");
    await_polled(self.recv_cq, NAME(ASKED), &wc);
    expect_words(&wc, "nobody");
    try(mrg_dereg_mr(self.mr));
    try_unref(mrg_pd_unref(self.pd));
    tolerate(LATE_RELEASE, "dealloc_pd", try(mrg_destroy_ep(self.id))); /* with its QP and its SRQ */
    try(mrg_destroy_cq(self.cq));
    try(mrg_destroy_cq(self.recv_cq));
    try(mrg_destroy_event_channel(self.channel));
}

/* The passive side */

static mrg_id *listen_on_device(void)
{
    struct rdma_addrinfo *at = address(0, RAI_PASSIVE);
    mrg_id *listener;
    try_make(self.channel, mrg_create_event_channel());
    try_out(listener, mrg_create_id(self.channel, &listener, NULL, RDMA_PS_UDP));
    try(mrg_bind_addr(listener, at->ai_src_addr));
    rdma_freeaddrinfo(at);
    try(mrg_listen(listener, 4));
    say_port(listener);
    return listener;
}

static void make_srq(void)
{
    mrg_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
    mrg_pd *pd;
    try_make(pd, mrg_id_pd(self.id));
    const mrg_srq_init_attr before = attr;
    try_else(mrg_create_srq(self.id, pd, &attr) == 0, !memcmp(&attr, &before, sizeof attr), "mrg_create_srq");
    try_unref(mrg_pd_unref(pd));
}

/* A datagram says who sent it: so it can be answered. */
static void answer(struct ibv_wc *wc)
{
    struct ibv_ah_attr attr;
    mrg_ah *ah;
    struct ibv_grh *grh = (struct ibv_grh *)(void *)memory;
    mrg_context *device;
    try_make(device, mrg_id_verbs(self.id));
    try(mrg_init_ah_from_wc(device, 1, wc, grh, &attr));
    try_make(ah, mrg_create_ah_from_wc(self.pd, wc, grh, 1));
    send_datagram(NAME(ANSWER), ah, wc->src_qp, "nobody");
}

/* Step by step what mrg_destroy_ep does at once. */
static void strip_passive(void)
{
    try(mrg_destroy_qp(self.id));
    try(mrg_destroy_srq(self.id));
    try(mrg_destroy_cq(self.cq));
    try(mrg_destroy_cq(self.recv_cq));
    try_unref(mrg_pd_unref(self.pd));
    tolerate(LATE_RELEASE, "dealloc_pd", try(mrg_destroy_id(self.id)));
}

static void passive(void)
{
    struct ibv_wc wc;
    mrg_id *listener = listen_on_device();
    self.id = await_event(self.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    make_srq();
    equip();
    struct rdma_conn_param param = {.qp_num = mrg_qp_num(mrg_id_qp(self.id))};
    try(mrg_accept(self.id, &param));
    await_polled(self.recv_cq, NAME(ASKED), &wc);
    expect_words(&wc, "who is there?");
    answer(&wc);
    attach_and_detach();
    try(mrg_dereg_mr(self.mr));
    strip_passive();
    try(mrg_destroy_id(listener));
    try(mrg_destroy_event_channel(self.channel));
}

const struct scenario datagram_scenario = {"datagram", {active, passive}};
