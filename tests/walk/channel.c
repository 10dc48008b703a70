/*
 * With an event channel: every step is asked for, and its event awaited. A PD, a CQ and a completion channel of the
 * caller's. The passive side exports memory, the active side READs it and WRITEs it back, changed.
 */
#include <stdlib.h>

#include "scenarios.h"

enum { OFFER = 1, READING, WRITING, DONE };
#define NAME(number) ((void *)(uintptr_t)(number))

static struct {
    mrg_channel *channel;
    mrg_id *id;
    mrg_pd *pd;
    mrg_comp_channel *completions;
    mrg_cq *cq;
    mrg_mr *message_mr;
} self;

static unsigned char message[64];
static unsigned char data[8192];
static int given_back;

static void make_qp(void)
{
    mrg_qp_init_attr attr = {.send_cq = self.cq, .recv_cq = self.cq, .cap = {4, 4, 2, 2, 0}};
    const mrg_qp_init_attr before = attr;
    try_else(mrg_create_qp(self.id, self.pd, &attr) == 0, !memcmp(&attr, &before, sizeof attr), "mrg_create_qp");
}

/* All that a connection needs, before it is made: the peer's first message finds a receive. */
static void equip(int first_message)
{
    mrg_context *device;
    try_make(device, mrg_id_verbs(self.id));
    try_make(self.pd, mrg_alloc_pd(device));
    try_make(self.completions, mrg_create_comp_channel(device));
    try_make(self.cq, mrg_create_cq(device, 16, NULL, self.completions, 0));
    try(mrg_req_notify_cq(self.cq, 0));
    make_qp();
    try_make(self.message_mr, mrg_reg_msgs(self.id, message, sizeof message));
    try(mrg_post_recv(self.id, NAME(first_message), message, sizeof message, self.message_mr));
}

/* The PD of the device has no owner: it goes late, with its last id. */
static void strip(void)
{
    try(mrg_dereg_mr(self.message_mr)); /* before the QP, so that a borrow left behind shows */
    try(mrg_destroy_qp(self.id));
    try(mrg_destroy_cq(self.cq));
    try(mrg_destroy_comp_channel(self.completions));
    try(mrg_dealloc_pd(self.pd));
    tolerate(LATE_RELEASE, "dealloc_pd", try(mrg_destroy_id(self.id)));
}

static void await(int number, const char *late)
{
    await_completion(self.completions, NAME(number), late);
}

/* The active side */

static void resolve(void)
{
    struct rdma_addrinfo *to = address(hear_port(), 0);
    uint8_t tos = 0;
    try_make(self.channel, mrg_create_event_channel());
    try_out(self.id, mrg_create_id(self.channel, &self.id, NULL, RDMA_PS_TCP));
    try(mrg_set_option(self.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos));
    try(mrg_resolve_addr(self.id, NULL, to->ai_dst_addr, 2000));
    rdma_freeaddrinfo(to);
    await_event(self.channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    try(mrg_resolve_route(self.id, 2000));
    await_event(self.channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static void connect_to_peer(void)
{
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};
    try(mrg_connect(self.id, &param));
    await_event(self.channel, RDMA_CM_EVENT_ESTABLISHED);
}

static void change_channel(void)
{
    mrg_channel *next;
    try_make(next, mrg_create_event_channel());
    try(mrg_migrate_id(self.id, next));
    try(mrg_destroy_event_channel(self.channel));
    self.channel = next;
}

static void give_back(void *addr, size_t length, void *arg)
{
    (void)arg;
    if (addr != data || length != sizeof data)
        life_fails("memory is given back that was not lent");
    given_back++;
}

/* The MR is given up with the WRITE in flight, so it is deregistered when that is polled. */
static void read_and_write(const mrg_remote *remote)
{
    mrg_mr *mr;
    try_make(mr, mrg_reg_mr_owned(self.pd, data, sizeof data, IBV_ACCESS_LOCAL_WRITE, give_back, NULL));
    try(mrg_post_read_from(self.id, NAME(READING), data, sizeof data, mr, IBV_SEND_SIGNALED, remote, 0));
    await(READING, NULL);
    for (size_t i = 0; i < sizeof data; i++)
        life_requires(data[i]++ == i % 251, "the READ brought something else");
    try(mrg_post_write_to(self.id, NAME(WRITING), data, sizeof data, mr, IBV_SEND_SIGNALED, remote, 0));
    try_unref(mrg_mr_unref(mr));
    await(WRITING, "dereg_mr");
}

static void send_done(void)
{
    mrg_sge pieces[] = {{message, 16, self.message_mr}, {message + 32, 16, self.message_mr}};
    try(mrg_post_sendv(self.id, NAME(DONE), pieces, 2, IBV_SEND_SIGNALED));
    await(DONE, NULL);
}

static void active(void)
{
    mrg_remote remote;
    resolve();
    equip(OFFER);
    connect_to_peer();
    change_channel();
    await(OFFER, NULL);
    try(mrg_remote_unpack(&remote, message, sizeof message));
    read_and_write(&remote);
    hear('o');
    send_done();
    try(mrg_disconnect(self.id));
    await_event(self.channel, RDMA_CM_EVENT_DISCONNECTED);
    strip();
    life_requires(given_back == 1, "owned memory was not given back once");
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

static mrg_mr *offer(void)
{
    const int access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    static unsigned char packed[MRG_REMOTE_SIZE];
    mrg_mr *mr, *packed_mr;
    mrg_remote remote;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i % 251);
    try_make(mr, mrg_reg_mr(self.pd, data, sizeof data, IBV_ACCESS_LOCAL_WRITE | access));
    try(mrg_mr_export(mr, 0, sizeof data, access, &remote));
    life_requires(mrg_remote_pack(&remote, packed, sizeof packed) == MRG_REMOTE_SIZE, "not packed");
    try_make(packed_mr, mrg_reg_send(self.id, packed, sizeof packed));
    try(mrg_post_send(self.id, NAME(OFFER), packed, sizeof packed, packed_mr, IBV_SEND_SIGNALED));
    await(OFFER, NULL);
    try(mrg_dereg_mr(packed_mr));
    say('o'); /* from here on the only completion is that of the peer's answer */
    return mr;
}

static void passive(void)
{
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
    mrg_id *listener = listen_on_device();
    self.id = await_event(self.channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    equip(DONE);
    try(mrg_accept(self.id, &param));
    await_event(self.channel, RDMA_CM_EVENT_ESTABLISHED);
    mrg_mr *mr = offer();
    await(DONE, NULL);
    for (size_t i = 0; i < sizeof data; i++)
        life_requires(data[i] == i % 251 + 1, "the WRITE brought something else");
    await_event(self.channel, RDMA_CM_EVENT_DISCONNECTED);
    try(mrg_disconnect(self.id)); /* the answer, for which the peer waits */
    try(mrg_dereg_mr(mr));
    strip();
    try(mrg_destroy_id(listener));
    try(mrg_destroy_event_channel(self.channel));
}

const struct scenario channel_scenario = {"channel", {active, passive}};
