/* The rules of every build over rxe: each refusal, nothing changed, and the success once the cause is gone. */
#include "pair.h"

#include <linux/capability.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char memory[8192];

TestSuite(rules, .init = be_quiet, .timeout = 60);

static mrg_id *unbound_id(void)
{
    mrg_id *id;
    must(mrg_create_id(NULL, &id, NULL, RDMA_PS_TCP));
    return id;
}

static mrg_id *bound_id(void)
{
    return bound_to("RXE_ADDR");
}

/* What librdmacm answers with a segmentation fault. */
Test(rules, no_pd)
{
    mrg_id *id = unbound_id();
    expect_refused(mrg_reg_msgs(id, memory, sizeof memory), ENODEV, "no-pd");
    expect_refused(mrg_reg_read(id, memory, sizeof memory), ENODEV, "no-pd");
    expect_refused(mrg_reg_write(id, memory, sizeof memory), ENODEV, "no-pd");
    struct rdma_addrinfo *res = device_addr("RXE_ADDR", "0", RAI_PASSIVE);
    must(mrg_bind_addr(id, res->ai_src_addr));
    rdma_freeaddrinfo(res);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    cr_assert(mr);
    must(mrg_dereg_mr(mr));
    must(mrg_destroy_id(id));
    expect_nothing_left();
}

Test(rules, no_pd_on_a_wildcard_listener)
{
    mrg_id *id = unbound_id();
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *any;
    must(rdma_getaddrinfo("0.0.0.0", "0", &hints, &any));
    must(mrg_bind_addr(id, any->ai_src_addr));
    must(mrg_listen(id, 1));
    rdma_freeaddrinfo(any);
    expect_refused(mrg_reg_msgs(id, memory, sizeof memory), ENODEV, "no-pd");
    must(mrg_destroy_id(id));
    expect_nothing_left();
}

Test(rules, leaked_mr_and_destroy_order)
{
    struct pair p;
    pair_up(&p);
    expect_refused(mrg_destroy_id(p.client.id), EBUSY, "leaked-mr");
    expect_refused(mrg_destroy_ep(p.client.id), EBUSY, "leaked-mr");
    must(mrg_dereg_mr(p.client.mr));
    p.client.mr = NULL;
    expect_refused(mrg_destroy_id(p.client.id), EBUSY, "destroy-order");
    /* nothing was changed by all that: the connection works */
    p.client.mr = mrg_reg_msgs(p.client.id, p.client.buffer, BUFFER);
    must(mrg_post_recv(p.server.id, NULL, p.server.buffer, 64, p.server.mr));
    must(mrg_post_send(p.client.id, NULL, p.client.buffer, 64, p.client.mr, IBV_SEND_SIGNALED));
    await_send(p.client.id, NULL);
    await_recv(p.server.id, NULL);
    take_down(&p);
}

/* Two ids of one device: the MR belongs to the one that made it, and is reported there. */
Test(rules, leaked_mr_at_the_id_that_made_it)
{
    mrg_id *first = bound_id(), *second = bound_id();
    mrg_mr *mr = mrg_reg_msgs(first, memory, sizeof memory);
    expect_refused(mrg_destroy_id(first), EBUSY, "leaked-mr");
    must(mrg_destroy_id(second));
    must(mrg_dereg_mr(mr));
    must(mrg_destroy_id(first));
    expect_nothing_left();
}

Test(rules, every_arrow_refuses_then_lets_go)
{
    mrg_channel *channel = mrg_create_event_channel();
    mrg_id *id;
    must(mrg_create_id(channel, &id, NULL, RDMA_PS_TCP));
    struct rdma_addrinfo *res = device_addr("RXE_ADDR", "0", RAI_PASSIVE);
    must(mrg_bind_addr(id, res->ai_src_addr));
    rdma_freeaddrinfo(res);
    mrg_context *device = mrg_id_verbs(id);
    mrg_comp_channel *completions = mrg_create_comp_channel(device);
    mrg_cq *cq = mrg_create_cq(device, 16, NULL, completions, 0);
    mrg_pd *pd = mrg_alloc_pd(device);
    mrg_mr *mr = mrg_reg_mr(pd, memory, sizeof memory, 0);
    mrg_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}};
    must(mrg_create_qp(id, pd, &attr));
    expect_refused(mrg_destroy_event_channel(channel), EBUSY, "destroy-order"); /* id -> event channel */
    expect_refused(mrg_destroy_id(id), EBUSY, "destroy-order");                 /* QP -> id */
    expect_refused(mrg_destroy_cq(cq), EBUSY, "destroy-order");                 /* QP -> CQ */
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "leaked-mr");                     /* MR -> PD */
    must(mrg_dereg_mr(mr));
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "destroy-order");                    /* QP -> PD */
    expect_refused(mrg_destroy_comp_channel(completions), EBUSY, "destroy-order"); /* CQ -> completion channel */
    must(mrg_destroy_qp(id));
    must(mrg_dealloc_pd(pd));
    must(mrg_destroy_cq(cq));
    must(mrg_destroy_comp_channel(completions));
    must(mrg_destroy_id(id));
    must(mrg_destroy_event_channel(channel));
    expect_nothing_left();
}

Test(rules, unregistered_post_out_of_range_and_length)
{
    struct pair p;
    pair_up(&p);
    mrg_id *id = p.client.id;
    char *b = p.client.buffer;
    expect_refused(mrg_post_send(id, NULL, memory, 1, NULL, 0), EINVAL, "unregistered-post");
    expect_refused(mrg_post_recv(id, NULL, memory, 1, NULL), EINVAL, "unregistered-post");
    expect_refused(mrg_post_send(id, NULL, b, BUFFER + 1, p.client.mr, 0), ERANGE, "out-of-range");
    expect_refused(mrg_post_recv(id, NULL, b + BUFFER, 1, p.client.mr), ERANGE, "out-of-range");
    expect_refused(mrg_post_read(id, NULL, b + 1, BUFFER, p.client.mr, 0, 1, 1), ERANGE, "out-of-range");
    expect_refused(mrg_post_write(id, NULL, memory, 1, p.client.mr, 0, 1, 1), ERANGE, "out-of-range");
    expect_refused(mrg_post_send(id, NULL, b, ((size_t)4 << 30) + 16, p.client.mr, 0), EMSGSIZE, "length-truncated");
    expect_refused(mrg_post_send(id, NULL, b, 4096, NULL, IBV_SEND_INLINE), EMSGSIZE, "inline-too-long");
    take_down(&p);
}

Test(rules, missing_access)
{
    struct pair p;
    pair_up(&p);
    mrg_mr *send = mrg_reg_send(p.client.id, memory, sizeof memory);
    cr_assert(send);
    expect_refused(mrg_post_recv(p.client.id, NULL, memory, 1, send), EACCES, "missing-access");
    expect_refused(mrg_post_read(p.client.id, NULL, memory, 1, send, 0, 1, 1), EACCES, "missing-access");
    mrg_remote remote;
    expect_refused(mrg_mr_export(send, 0, 1, IBV_ACCESS_REMOTE_READ, &remote), EACCES, "missing-access");
    must(mrg_post_recv(p.server.id, NULL, p.server.buffer, 64, p.server.mr));
    must(mrg_post_send(p.client.id, NULL, memory, 64, send, IBV_SEND_SIGNALED));
    await_send(p.client.id, NULL);
    await_recv(p.server.id, NULL);
    must(mrg_dereg_mr(send));
    take_down(&p);
}

/* An MR on the device's PD, a QP on another: librdmacm switches PDs in silence, the device fails later. */
Test(rules, wrong_pd)
{
    mrg_id *id = bound_id();
    mrg_pd *pd = mrg_alloc_pd(mrg_id_verbs(id));
    mrg_mr *before = mrg_reg_msgs(id, memory, sizeof memory);
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    must(mrg_create_qp(id, pd, &attr));
    expect_refused(mrg_post_recv(id, NULL, memory, 1, before), EXDEV, "wrong-pd");
    mrg_mr *after = mrg_reg_msgs(id, memory, sizeof memory);
    must(mrg_post_recv(id, NULL, memory, 1, after));
    must(mrg_destroy_qp(id));
    must(mrg_dereg_mr(after));
    must(mrg_dereg_mr(before));
    must(mrg_destroy_id(id));
    must(mrg_dealloc_pd(pd));
    expect_nothing_left();
}

Test(rules, wrong_pd_across_devices)
{
    mrg_id *near = bound_id(), *far = bound_to("RXE_ADDR2");
    cr_assert_neq(mrg_id_verbs(near), mrg_id_verbs(far), "RXE_ADDR and RXE_ADDR2 are one device");
    mrg_mr *mr = mrg_reg_msgs(far, memory, sizeof memory);
    mrg_pd *far_pd = mrg_id_pd(far);
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    expect_refused(mrg_create_qp(near, far_pd, &attr), EXDEV, "wrong-pd");
    must(mrg_create_qp(near, NULL, &attr));
    expect_refused(mrg_post_recv(near, NULL, memory, 1, mr), EXDEV, "wrong-pd");
    must(mrg_destroy_ep(near));
    must(mrg_dereg_mr(mr));
    must(mrg_destroy_id(far));
    mrg_pd_unref(far_pd);
    expect_nothing_left();
}

Test(rules, no_qp)
{
    mrg_id *id = bound_id();
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    struct ibv_wc wc;
    expect_refused(mrg_post_send(id, NULL, memory, 1, mr, 0), EINVAL, "no-qp");
    expect_refused(mrg_get_recv_comp(id, &wc), EINVAL, "no-qp");
    must(mrg_dereg_mr(mr));
    must(mrg_destroy_id(id));
    expect_nothing_left();
}

/*
 * rxe gives a released MR's kernel handle to the next registration: ibv_dereg_mr by a stale copy kills a stranger. A
 * stale handle of ours does not.
 */
Test(rules, stale_handle_touches_no_stranger)
{
    struct pair p;
    pair_up(&p);
    mrg_mr *mr = mrg_reg_msgs(p.client.id, memory, 64);
    must(mrg_dereg_mr(mr));
    mrg_mr *stranger = mrg_reg_msgs(p.client.id, memory, sizeof memory);
    expect_refused(mrg_dereg_mr(mr), ESTALE, "stale-handle");
    expect_refused(mrg_post_send(p.client.id, NULL, memory, 1, mr, 0), ESTALE, "stale-handle");
    must(mrg_post_recv(p.server.id, NULL, p.server.buffer, 64, p.server.mr));
    must(mrg_post_send(p.client.id, NULL, memory, 64, stranger, IBV_SEND_SIGNALED));
    await_send(p.client.id, NULL);
    await_recv(p.server.id, NULL);
    must(mrg_dereg_mr(stranger));
    take_down(&p);
}

Test(rules, foreign_mr)
{
    mrg_id *id = bound_id();
    mrg_mr *mr = mrg_reg_read(id, memory, sizeof memory);
    mrg_remote remote;
    must(mrg_mr_export(mr, 0, 1, IBV_ACCESS_REMOTE_READ, &remote));
    expect_refused(mrg_dereg_mr((mrg_mr *)(uintptr_t)remote.addr), EINVAL, "foreign-mr");
    expect_refused(mrg_dereg_mr((mrg_mr *)(uintptr_t)remote.rkey), EINVAL, "foreign-mr");
    must(mrg_dereg_mr(mr));
    must(mrg_destroy_id(id));
    expect_nothing_left();
}

/* rxe lets the MR go under a posted receive, and the peer sees "remote operation error". */
Test(rules, dereg_in_flight)
{
    struct pair p;
    pair_up(&p);
    must(mrg_post_recv(p.server.id, NULL, p.server.buffer, 64, p.server.mr));
    expect_refused(mrg_dereg_mr(p.server.mr), EBUSY, "dereg-in-flight");
    must(mrg_post_send(p.client.id, NULL, p.client.buffer, 64, p.client.mr, IBV_SEND_SIGNALED));
    await_send(p.client.id, NULL);
    expect_refused(mrg_dereg_mr(p.server.mr), EBUSY, "dereg-in-flight");
    await_recv(p.server.id, NULL);
    must(mrg_dereg_mr(p.server.mr));
    p.server.mr = NULL;
    take_down(&p);
}

/* 7 unsignaled sends and a signaled one: its completion ends them all. */
Test(rules, dereg_in_flight_unsignaled)
{
    struct pair p;
    pair_up(&p);
    for (int i = 0; i < 8; i++)
        must(mrg_post_recv(p.server.id, NULL, p.server.buffer, 64, p.server.mr));
    for (int i = 0; i < 8; i++)
        must(mrg_post_send(p.client.id, NULL, p.client.buffer, 64, p.client.mr, i == 7 ? IBV_SEND_SIGNALED : 0));
    for (int i = 0; i < 8; i++)
        await_recv(p.server.id, NULL);
    expect_refused(mrg_dereg_mr(p.client.mr), EBUSY, "dereg-in-flight");
    await_send(p.client.id, NULL);
    must(mrg_dereg_mr(p.client.mr));
    p.client.mr = NULL;
    take_down(&p);
}

Test(rules, deferred_release_waits_for_the_completion)
{
    struct pair p;
    pair_up(&p);
    struct mrg_stats stats;
    must(mrg_post_recv(p.server.id, NULL, p.server.buffer, 64, p.server.mr));
    mrg_mr_unref(p.server.mr);
    must(mrg_stats(&stats));
    cr_expect_eq(stats.live_mrs, 2);
    expect_refused(mrg_post_recv(p.server.id, NULL, p.server.buffer, 64, p.server.mr), ESTALE, "stale-handle");
    must(mrg_post_send(p.client.id, NULL, p.client.buffer, 64, p.client.mr, IBV_SEND_SIGNALED));
    await_send(p.client.id, NULL);
    await_recv(p.server.id, NULL);
    must(mrg_stats(&stats));
    cr_expect_eq(stats.live_mrs, 1);
    p.server.mr = NULL;
    take_down(&p);
}

/* After ERR and destroy rxe still hands flush completions out of a shared CQ: they must find nobody. */
Test(rules, completions_of_a_destroyed_qp_are_swallowed)
{
    mrg_id *id = bound_id();
    mrg_cq *cq = mrg_create_cq(mrg_id_verbs(id), 64, NULL, NULL, 0);
    mrg_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .cap = {8, 8, 1, 1, 0}};
    must(mrg_create_qp(id, NULL, &attr));
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    for (int i = 0; i < 4; i++)
        must(mrg_post_recv(id, NULL, memory, 64, mr));
    to_error(id);
    usleep(100000);
    must(mrg_destroy_qp(id));
    must(mrg_dereg_mr(mr));
    struct ibv_wc wc[8];
    cr_expect_eq(mrg_poll_cq(cq, 8, wc), 0);
    must(mrg_destroy_cq(cq));
    must(mrg_destroy_id(id));
    expect_nothing_left();
}

/* Event traps */

static void *connect_in_vain(void *arg)
{
    struct rdma_addrinfo *res = arg;
    mrg_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}};
    mrg_id *id;
    must(mrg_create_ep(&id, res, NULL, &attr));
    cr_expect_eq(mrg_connect(id, NULL), -1);
    must(mrg_destroy_ep(id));
    return NULL;
}

/* A request that is taken but not answered would hang the listener's destruction in librdmacm. */
Test(rules, listener_goes_before_its_request_is_answered)
{
    struct rdma_addrinfo *at = device_addr("RXE_ADDR", "7472", RAI_PASSIVE), *to = device_addr("RXE_ADDR", "7472", 0);
    mrg_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}};
    mrg_id *listener, *request;
    must(mrg_create_ep(&listener, at, NULL, &attr));
    must(mrg_listen(listener, 1));
    pthread_t client;
    cr_assert_eq(pthread_create(&client, NULL, connect_in_vain, to), 0);
    must(mrg_get_request(listener, &request));
    must(mrg_destroy_ep(listener));
    must(mrg_reject(request, NULL, 0));
    must(mrg_destroy_ep(request));
    pthread_join(client, NULL);
    rdma_freeaddrinfo(at);
    rdma_freeaddrinfo(to);
    expect_nothing_left();
}

/* Where librdmacm waits for an event that never comes. */
Test(rules, disconnect_without_connection)
{
    struct rdma_addrinfo *to = device_addr("RXE_ADDR", "7473", 0);
    mrg_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}};
    mrg_id *id;
    must(mrg_create_ep(&id, to, NULL, &attr));
    expect_refused(mrg_disconnect(id), EINVAL, "wrong-state");
    cr_expect_eq(mrg_connect(id, NULL), -1);
    expect_refused(mrg_disconnect(id), EINVAL, "wrong-state");
    must(mrg_destroy_ep(id));
    rdma_freeaddrinfo(to);
    expect_nothing_left();
}

Test(rules, unacked_event)
{
    mrg_channel *channel = mrg_create_event_channel();
    mrg_id *id;
    mrg_cm_event *event;
    must(mrg_create_id(channel, &id, NULL, RDMA_PS_TCP));
    struct rdma_addrinfo *res = device_addr("RXE_ADDR", "7471", 0);
    must(mrg_resolve_addr(id, NULL, res->ai_dst_addr, 2000));
    rdma_freeaddrinfo(res);
    must(mrg_get_cm_event(channel, &event));
    cr_expect_eq(mrg_event_type(event), RDMA_CM_EVENT_ADDR_RESOLVED);
    cr_expect_eq(mrg_event_id(event), id);
    expect_refused(mrg_destroy_id(id), EBUSY, "unacked-event");
    must(mrg_ack_cm_event(event));
    must(mrg_destroy_id(id));
    must(mrg_destroy_event_channel(channel));
    expect_nothing_left();
}

Test(rules, unacked_completion_event)
{
    struct pair p;
    pair_up(&p);
    mrg_context *device = mrg_id_verbs(p.client.id);
    mrg_comp_channel *completions = mrg_create_comp_channel(device);
    mrg_cq *cq = mrg_create_cq(device, 16, &p, completions, 0), *from;
    void *context;
    mrg_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}};
    mrg_id *id = bound_id();
    must(mrg_create_qp(id, NULL, &attr));
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    must(mrg_req_notify_cq(cq, 0));
    must(mrg_post_recv(id, NULL, memory, 1, mr));
    to_error(id);
    must(mrg_get_cq_event(completions, &from, &context));
    cr_expect_eq(from, cq);
    cr_expect_eq(context, &p);
    must(mrg_destroy_qp(id));
    expect_refused(mrg_destroy_cq(cq), EBUSY, "unacked-event");
    expect_refused(mrg_ack_cq_events(cq, 2), EINVAL, "bad-argument");
    must(mrg_ack_cq_events(cq, 1));
    must(mrg_destroy_cq(cq));
    must(mrg_destroy_comp_channel(completions));
    must(mrg_dereg_mr(mr));
    must(mrg_destroy_id(id));
    take_down(&p);
}

Test(rules, order_of_connecting_is_explained)
{
    mrg_id *id = bound_id();
    mrg_qp_init_attr huge = {.cap = {1 << 24, 4, 1, 1, 0}}, attr = {.cap = {4, 4, 1, 1, 0}};
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    expect_refused(mrg_create_qp(id, NULL, &huge), EINVAL, "bad-argument");
    must(mrg_create_qp(id, NULL, &attr));
    expect_refused(mrg_resolve_route(id, 1000), EINVAL, "wrong-state");
    expect_refused(mrg_connect(id, NULL), EINVAL, "wrong-state");
    expect_refused(mrg_accept(id, NULL), EINVAL, "wrong-state");
    expect_refused(mrg_post_send(id, NULL, memory, 1, mr, 0), EINVAL, "wrong-state");
    must(mrg_destroy_qp(id));
    must(mrg_dereg_mr(mr));
    must(mrg_destroy_id(id));
    expect_nothing_left();
}

/* rdma_create_qp would leave the send CQ and its channel behind where nothing is received. */
Test(rules, qp_that_receives_nothing_leaves_no_cq)
{
    mrg_id *id = bound_id();
    mrg_qp_init_attr attr = {.cap = {4, 0, 1, 0, 0}};
    must(mrg_create_qp(id, NULL, &attr));
    must(mrg_destroy_qp(id));
    must(mrg_create_qp(id, NULL, &attr));
    must(mrg_destroy_ep(id));
    expect_nothing_left();
}

/* It would write freed pointers into its attributes, too, where it fails. */
Test(rules, attributes_of_a_qp_that_failed_are_the_callers)
{
    mrg_id *id = bound_id();
    mrg_qp_init_attr huge = {.cap = {4, 4, 1 << 20, 1, 0}}, before;
    memcpy(&before, &huge, sizeof huge);
    expect_refused(mrg_create_qp(id, NULL, &huge), EINVAL, "bad-argument");
    cr_expect_eq(memcmp(&before, &huge, sizeof huge), 0);
    must(mrg_destroy_id(id));
    expect_nothing_left();
}

/* What was registered before stays where it was when the QP is made on another PD, and is refused there by name. */
Test(rules, qp_on_another_pd_than_earlier_mrs)
{
    mrg_id *id = bound_id();
    mrg_mr *before = mrg_reg_msgs(id, memory, sizeof memory);
    mrg_pd *pd = mrg_alloc_pd(mrg_id_verbs(id));
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    must(mrg_create_qp(id, pd, &attr));
    expect_refused(mrg_post_recv(id, NULL, memory, 64, before), EXDEV, "wrong-pd");
    mrg_mr *after = mrg_reg_msgs(id, memory, sizeof memory);
    must(mrg_post_recv(id, NULL, memory, 64, after));
    must(mrg_destroy_qp(id));
    must(mrg_dereg_mr(after));
    must(mrg_dereg_mr(before));
    must(mrg_dealloc_pd(pd));
    must(mrg_destroy_id(id));
    expect_nothing_left();
}

Test(rules, second_connect_does_not_hurt_the_first)
{
    struct pair p;
    pair_up(&p);
    expect_refused(mrg_connect(p.client.id, NULL), EINVAL, "wrong-state");
    expect_refused(mrg_accept(p.client.id, NULL), EINVAL, "wrong-state");
    expect_refused(mrg_get_request(p.client.id, &p.client.id), EINVAL, "wrong-state");
    must(mrg_post_recv(p.server.id, NULL, p.server.buffer, 64, p.server.mr));
    must(mrg_post_send(p.client.id, NULL, p.client.buffer, 64, p.client.mr, IBV_SEND_SIGNALED));
    await_send(p.client.id, NULL);
    await_recv(p.server.id, NULL);
    take_down(&p);
}

static void *wait_for_one(void *id)
{
    await_recv(id, NULL);
    return NULL;
}

/* Two threads wait on one queue, two messages come: nobody sleeps on. */
Test(rules, two_waiters_two_completions)
{
    struct pair p;
    pair_up(&p);
    pthread_t waiters[2];
    for (int i = 0; i < 2; i++) {
        must(mrg_post_recv(p.server.id, NULL, p.server.buffer, 64, p.server.mr));
        cr_assert_eq(pthread_create(&waiters[i], NULL, wait_for_one, p.server.id), 0);
    }
    await_waiters(p.server.id, 2);
    expect_refused(mrg_destroy_qp(p.server.id), EBUSY, "destroy-order");
    for (int i = 0; i < 2; i++)
        must(mrg_post_send(p.client.id, NULL, p.client.buffer, 64, p.client.mr, IBV_SEND_SIGNALED));
    for (int i = 0; i < 2; i++)
        pthread_join(waiters[i], NULL);
    await_send(p.client.id, NULL);
    await_send(p.client.id, NULL);
    take_down(&p);
}

/* The kernel refuses */

Test(rules, registration_refused_on_a_read_only_mapping)
{
    mrg_id *id = bound_id();
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect_refused(mrg_reg_msgs(id, page, 4096), EFAULT, "registration-refused");
    cr_expect(strstr(mrg_last_finding()->message, "read-only"), "%s", mrg_last_finding()->message);
    mrg_mr *mr = mrg_reg_send(id, page, 4096);
    cr_assert(mr, "reading is all that a send does: %s", strerror(errno));
    must(mrg_dereg_mr(mr));
    mr = mrg_reg_send(id, (char *)page + 1, 4095);
    cr_assert(mr, "an address need not be aligned: %s", strerror(errno));
    must(mrg_dereg_mr(mr));
    munmap(page, 4096);
    expect_refused(mrg_reg_msgs(id, page, 4096), EFAULT, "registration-refused");
    cr_expect(strstr(mrg_last_finding()->message, "nothing is mapped"), "%s", mrg_last_finding()->message);
    expect_refused(mrg_reg_msgs(id, NULL, 1), EFAULT, "registration-refused");
    must(mrg_destroy_id(id));
    expect_nothing_left();
}

/* RLIMIT_MEMLOCK binds only without CAP_IPC_LOCK; who opens the device must also be who uses it. */
static void drop_ipc_lock(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    must(syscall(SYS_capget, &header, data));
    data[0].effective &= ~(1U << CAP_IPC_LOCK);
    data[0].permitted &= ~(1U << CAP_IPC_LOCK);
    must(syscall(SYS_capset, &header, data));
}

Test(rules, registration_refused_by_the_memlock_limit)
{
    drop_ipc_lock();
    mrg_id *id = bound_id();
    size_t length = 1 << 20;
    char *buffer = calloc(1, length);
    must(setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){65536, 65536}));
    expect_refused(mrg_reg_msgs(id, buffer, length), ENOMEM, "registration-refused");
    cr_expect(strstr(mrg_last_finding()->message, "RLIMIT_MEMLOCK is 65536 bytes"), "%s", mrg_last_finding()->message);
    mrg_mr *mr = mrg_reg_msgs(id, buffer, 4096);
    cr_assert(mr, "%s", strerror(errno));
    must(mrg_dereg_mr(mr));
    must(mrg_destroy_id(id));
    free(buffer);
    expect_nothing_left();
}

/* Processes */

Test(rules, after_fork)
{
    struct pair p;
    pair_up(&p);
    pid_t child = fork();
    if (child == 0) {
        int wrong = mrg_dereg_mr(p.client.mr) != -1 || errno != EPERM;
        wrong |= mrg_post_send(p.client.id, NULL, p.client.buffer, 1, p.client.mr, 0) != -1 || errno != EPERM;
        wrong |= mrg_destroy_ep(p.client.id) != -1 || errno != EPERM;
        wrong |= strcmp(mrg_last_finding()->rule, "after-fork") != 0;
        _exit(wrong);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    must(mrg_post_recv(p.server.id, NULL, p.server.buffer, 64, p.server.mr));
    must(mrg_post_send(p.client.id, NULL, p.client.buffer, 64, p.client.mr, IBV_SEND_SIGNALED));
    await_send(p.client.id, NULL);
    await_recv(p.server.id, NULL);
    take_down(&p);
}

/* A PD outlives every id of its device, and its MRs with it; the next id finds them usable. */
Test(rules, pd_outlives_the_ids)
{
    mrg_id *id = bound_id();
    mrg_pd *pd = mrg_id_pd(id);
    mrg_mr *mr = mrg_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    must(mrg_destroy_id(id));
    id = bound_id();
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    must(mrg_create_qp(id, NULL, &attr));
    must(mrg_post_recv(id, NULL, memory, 64, mr));
    must(mrg_destroy_ep(id));
    must(mrg_dereg_mr(mr));
    must(mrg_dealloc_pd(pd));
    expect_nothing_left();
}
