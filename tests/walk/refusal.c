/* The peer says no, with an event channel: the id of a refused connection and that of a refused request go well. */
#include <stdlib.h>

#include "scenarios.h"

static mrg_channel *channel;
static const char no[] = "no";

static void active(void)
{
    struct rdma_addrinfo *to = address(hear_port(), 0);
    mrg_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}};
    mrg_id *id;
    try_make(channel, mrg_create_event_channel());
    try_out(id, mrg_create_id(channel, &id, NULL, RDMA_PS_TCP));
    try(mrg_resolve_addr(id, NULL, to->ai_dst_addr, 2000));
    rdma_freeaddrinfo(to);
    await_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    try(mrg_resolve_route(id, 2000));
    await_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    try(mrg_create_qp(id, NULL, &attr)); /* with CQs of its own */
    try(mrg_connect(id, NULL));
    await_event(channel, RDMA_CM_EVENT_REJECTED);
    try(mrg_destroy_qp(id));
    tolerate(LATE_RELEASE, "dealloc_pd", try(mrg_destroy_id(id)));
    try(mrg_destroy_event_channel(channel));
}

static void passive(void)
{
    struct rdma_addrinfo *at = address(0, RAI_PASSIVE);
    mrg_id *listener;
    try_make(channel, mrg_create_event_channel());
    try_out(listener, mrg_create_id(channel, &listener, NULL, RDMA_PS_TCP));
    try(mrg_bind_addr(listener, at->ai_src_addr));
    rdma_freeaddrinfo(at);
    try(mrg_listen(listener, 4));
    say_port(listener);
    mrg_id *id = await_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    try(mrg_reject(id, no, sizeof no));
    try(mrg_destroy_id(id));
    try(mrg_destroy_id(listener));
    try(mrg_destroy_event_channel(channel));
}

const struct scenario refusal_scenario = {"refusal", {active, passive}};
