#include "pair.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "held.h"
#include "id.h"

struct rdma_addrinfo *device_addr(const char *variable, const char *port, int flags)
{
    const char *host = getenv(variable);
    cr_assert(host, "%s is not set: these tests run under tests/guest/rxe-run", variable);
    struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *found;
    cr_assert_eq(rdma_getaddrinfo(host, port, &hints, &found), 0, "%s: %s", host, strerror(errno));
    return found;
}

mrg_id *bound_to(const char *variable)
{
    mrg_id *id;
    must(mrg_create_id(NULL, &id, NULL, RDMA_PS_TCP));
    struct rdma_addrinfo *res = device_addr(variable, "0", RAI_PASSIVE);
    must(mrg_bind_addr(id, res->ai_src_addr));
    rdma_freeaddrinfo(res);
    return id;
}

static const mrg_qp_init_attr ordinary = {.cap = {16, 16, 4, 4, 0}};

static void equip(struct end *e)
{
    e->buffer = calloc(1, BUFFER);
    e->mr = mrg_reg_msgs(e->id, e->buffer, BUFFER);
    cr_assert(e->mr, "%s", strerror(errno));
}

/* The request's id gets its SRQ before its QP, so the listener keeps no attributes for it. */
static void equip_with_srq(mrg_id *id)
{
    mrg_srq_init_attr srq = {.attr = {.max_wr = 16, .max_sge = 4}};
    mrg_qp_init_attr attr = ordinary;
    must(mrg_create_srq(id, NULL, &srq));
    must(mrg_create_qp(id, NULL, &attr));
}

static void *accept_one(void *arg)
{
    struct pair *p = arg;
    must(mrg_get_request(p->listener, &p->server.id));
    if (p->with_srq)
        equip_with_srq(p->server.id);
    p->server.with_srq = p->with_srq;
    must(mrg_accept(p->server.id, NULL));
    return NULL;
}

static void connect_to(struct pair *p)
{
    char port[8];
    struct sockaddr_in *at = (struct sockaddr_in *)mrg_get_local_addr(p->listener);
    snprintf(port, sizeof port, "%u", ntohs(at->sin_port));
    struct rdma_addrinfo *res = device_addr("RXE_ADDR", port, 0);
    mrg_qp_init_attr attr = ordinary;
    must(mrg_create_ep(&p->client.id, res, NULL, &attr));
    rdma_freeaddrinfo(res);
    must(mrg_connect(p->client.id, NULL));
}

static void connect_pair(struct pair *p)
{
    struct rdma_addrinfo *res = device_addr("RXE_ADDR", "0", RAI_PASSIVE);
    mrg_qp_init_attr attr = ordinary;
    must(mrg_create_ep(&p->listener, res, NULL, p->with_srq ? NULL : &attr));
    rdma_freeaddrinfo(res);
    must(mrg_listen(p->listener, 1));
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, accept_one, p), 0);
    connect_to(p);
    pthread_join(thread, NULL);
    equip(&p->client);
    equip(&p->server);
}

void pair_up(struct pair *p)
{
    *p = (struct pair){0};
    connect_pair(p);
}

void pair_up_with_srq(struct pair *p)
{
    *p = (struct pair){.with_srq = true};
    connect_pair(p);
}

static void take_end_down(struct end *e)
{
    if (mrg_id_qp(e->id))
        must(mrg_destroy_qp(e->id));
    if (e->with_srq)
        must(mrg_destroy_srq(e->id));
    if (e->mr)
        must(mrg_dereg_mr(e->mr));
    must(mrg_destroy_ep(e->id));
    free(e->buffer);
}

void take_down(struct pair *p)
{
    take_end_down(&p->client);
    take_end_down(&p->server);
    must(mrg_destroy_ep(p->listener));
    expect_nothing_left();
}

void to_error(mrg_id *id)
{
    struct ibv_qp *qp = id_of(slot_at(handle_token(id)))->raw->qp;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    must(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

static void check(const struct ibv_wc *wc, const void *context)
{
    cr_assert_eq(wc->status, IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc->status));
    cr_assert_eq(wc->wr_id, (uintptr_t)context);
}

void await_send(mrg_id *id, void *context)
{
    struct ibv_wc wc;
    cr_assert_eq(mrg_get_send_comp(id, &wc), 1, "%s", strerror(errno));
    check(&wc, context);
}

void await_recv(mrg_id *id, void *context)
{
    struct ibv_wc wc;
    cr_assert_eq(mrg_get_recv_comp(id, &wc), 1, "%s", strerror(errno));
    check(&wc, context);
}

void await_waiters(mrg_id *id, unsigned int count)
{
    const struct slot *cq = slot_at(handle_token(mrg_id_recv_cq(id)));
    while (atomic_load(&cq->cold.users) < count)
        usleep(1000);
}

/* librdmacm keeps the default PD of a device until the device's last id goes: let one go. */
static void release_default_pd(const char *variable)
{
    struct rdma_addrinfo *res = device_addr(variable, "0", RAI_PASSIVE);
    struct rdma_cm_id *id;
    must(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
    must(rdma_bind_addr(id, res->ai_src_addr));
    rdma_freeaddrinfo(res);
    must(rdma_destroy_id(id));
}

void expect_nothing_left(void)
{
    struct mrg_stats stats;
    char held[200];
    cr_assert_eq(mrg_stats(&stats), 0);
    cr_expect_eq(stats.live_mrs, 0);
    cr_expect_eq(stats.registered_bytes, 0);
    release_default_pd("RXE_ADDR");
    release_default_pd("RXE_ADDR2");
    cr_expect_str_eq(held_by_me(held, sizeof held), "");
}
