/* Datagrams and multicast over rxe, through event channels: what librdmacm says in events, and who holds whom. */
#include "pair.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>

TestSuite(datagram, .init = be_quiet, .timeout = 60);

#define GRH 40 /* bytes in front of every datagram that is received */

struct side {
    mrg_channel *channel;
    mrg_id *id;
    mrg_mr *mr;
    char buffer[4096];
};

static mrg_cm_event *expect_event(mrg_channel *channel, enum rdma_cm_event_type type)
{
    mrg_cm_event *event = NULL;
    must(mrg_get_cm_event(channel, &event));
    cr_assert_eq(mrg_event_type(event), (int)type, "%s, status %d",
                 mrg_event_str((enum rdma_cm_event_type)mrg_event_type(event)), mrg_event_status(event));
    return event;
}

static void pass(mrg_channel *channel, enum rdma_cm_event_type type)
{
    must(mrg_ack_cm_event(expect_event(channel, type)));
}

static void equip(struct side *s)
{
    mrg_qp_init_attr attr = {.cap = {8, 8, 1, 1, 0}};
    must(mrg_create_qp(s->id, NULL, &attr));
    s->mr = mrg_reg_msgs(s->id, s->buffer, sizeof s->buffer);
    cr_assert(s->mr, "%s", strerror(errno));
}

static void resolve(struct side *s, struct sockaddr *to)
{
    must(mrg_create_id(s->channel, &s->id, NULL, RDMA_PS_UDP));
    must(mrg_resolve_addr(s->id, NULL, to, 2000));
    pass(s->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    must(mrg_resolve_route(s->id, 2000));
    pass(s->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    equip(s);
}

static mrg_id *listen_on(mrg_channel *channel)
{
    mrg_id *listener;
    struct rdma_addrinfo *res = device_addr("RXE_ADDR", "0", RAI_PASSIVE);
    must(mrg_create_id(channel, &listener, NULL, RDMA_PS_UDP));
    must(mrg_bind_addr(listener, res->ai_src_addr));
    must(mrg_listen(listener, 1));
    rdma_freeaddrinfo(res);
    return listener;
}

static void answer(struct side *s)
{
    mrg_cm_event *event = expect_event(s->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    s->id = mrg_event_id(event);
    equip(s);
    struct rdma_conn_param param = {.qp_num = mrg_qp_num(mrg_id_qp(s->id))};
    must(mrg_accept(s->id, &param));
    must(mrg_ack_cm_event(event));
}

static void end(struct side *s)
{
    must(mrg_destroy_qp(s->id));
    must(mrg_dereg_mr(s->mr));
    must(mrg_destroy_id(s->id));
    must(mrg_destroy_event_channel(s->channel));
}

Test(datagram, sent_by_an_address_handle)
{
    static struct side client, server;
    uint32_t qpn;
    client.channel = mrg_create_event_channel();
    server.channel = mrg_create_event_channel();
    mrg_id *listener = listen_on(server.channel);
    resolve(&client, mrg_get_local_addr(listener));
    struct rdma_conn_param param = {.qp_num = mrg_qp_num(mrg_id_qp(client.id))};
    must(mrg_connect(client.id, &param));
    answer(&server);
    mrg_cm_event *event = expect_event(client.channel, RDMA_CM_EVENT_ESTABLISHED);
    struct rdma_ud_param ud;
    must(mrg_event_ud_param(event, &ud));
    must(mrg_ack_cm_event(event));
    mrg_pd *pd = mrg_id_pd(client.id);
    mrg_ah *ah = mrg_create_ah(pd, &ud.ah_attr);
    cr_assert(ah, "%s", strerror(errno));
    qpn = ud.qp_num;
    must(mrg_post_recv(server.id, NULL, server.buffer, GRH + 64, server.mr));
    strcpy(client.buffer, "a datagram");
    expect_refused(mrg_post_ud_send(client.id, NULL, client.buffer, 64, client.mr, 0, NULL, qpn), EINVAL,
                   "bad-argument");
    must(mrg_post_ud_send(client.id, NULL, client.buffer, 64, client.mr, IBV_SEND_SIGNALED, ah, qpn));
    expect_refused(mrg_destroy_ah(ah), EBUSY, "destroy-order"); /* the WR uses it until its completion */
    await_send(client.id, NULL);
    struct ibv_wc wc;
    cr_assert_eq(mrg_get_recv_comp(server.id, &wc), 1);
    cr_assert_eq(wc.status, IBV_WC_SUCCESS);
    cr_expect_str_eq(server.buffer + GRH, "a datagram");
    mrg_pd *server_pd = mrg_id_pd(server.id);
    mrg_ah *back = mrg_create_ah_from_wc(server_pd, &wc, (struct ibv_grh *)server.buffer, 1);
    cr_assert(back, "%s", strerror(errno));
    must(mrg_post_recv(client.id, NULL, client.buffer, GRH + 64, client.mr));
    must(mrg_post_ud_send(server.id, NULL, server.buffer, 64, server.mr, IBV_SEND_SIGNALED, back, wc.src_qp));
    await_send(server.id, NULL);
    await_recv(client.id, NULL);
    must(mrg_destroy_ah(back));
    must(mrg_destroy_ah(ah));
    expect_refused(mrg_post_ud_send(client.id, NULL, client.buffer, 64, client.mr, 0, ah, qpn), ESTALE, "stale-handle");
    mrg_pd_unref(pd);
    mrg_pd_unref(server_pd);
    must(mrg_destroy_id(listener));
    end(&client);
    end(&server);
    expect_nothing_left();
}

Test(datagram, a_connected_qp_sends_none)
{
    struct pair p;
    pair_up(&p);
    expect_refused(mrg_post_ud_send(p.client.id, NULL, p.client.buffer, 64, p.client.mr, 0, NULL, 1), EINVAL,
                   "wrong-state");
    take_down(&p);
}

/* A join is a child of its id and its QP; its event holds it. */
Test(datagram, multicast_join_is_left_before_its_qp_goes)
{
    static struct side s;
    struct sockaddr_in group = {.sin_family = AF_INET};
    inet_pton(AF_INET, "239.1.2.3", &group.sin_addr);
    struct sockaddr *to = (struct sockaddr *)&group;
    struct rdma_addrinfo *res = device_addr("RXE_ADDR", "0", RAI_PASSIVE);
    s.channel = mrg_create_event_channel();
    must(mrg_create_id(s.channel, &s.id, NULL, RDMA_PS_UDP));
    must(mrg_bind_addr(s.id, res->ai_src_addr));
    rdma_freeaddrinfo(res);
    equip(&s);
    must(mrg_join_multicast(s.id, to, &s));
    expect_refused(mrg_join_multicast(s.id, to, &s), EINVAL, "wrong-state");
    mrg_cm_event *event = expect_event(s.channel, RDMA_CM_EVENT_MULTICAST_JOIN);
    size_t length = 1;
    cr_expect_eq(mrg_event_private_data(event, &length), &s, "the join's context");
    cr_expect_eq(length, 0);
    expect_refused(mrg_leave_multicast(s.id, to), EBUSY, "unacked-event");
    must(mrg_ack_cm_event(event));
    expect_refused(mrg_destroy_qp(s.id), EBUSY, "destroy-order"); /* multicast join -> QP, and -> id */
    expect_refused(mrg_destroy_ep(s.id), EBUSY, "leaked-mr");
    cr_expect(strstr(mrg_last_finding()->message, "multicast join made at"), "%s", mrg_last_finding()->message);
    must(mrg_leave_multicast(s.id, to));
    expect_refused(mrg_leave_multicast(s.id, to), EADDRNOTAVAIL, "wrong-state");
    end(&s);
    expect_nothing_left();
}
