/* Waiting for the other side: words over a socket, events, completions. Every wait has a deadline. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "life.h"

#define PATIENCE_MS 8000

static int peer;

void talk_begin(int socket)
{
    peer = socket;
}

/* Quietly: the other side has said why, or the walker says how it ended. */
static void alone(void)
{
    _exit(STATUS_ALONE);
}

/* Words */

void say_bytes(const void *bytes, size_t size)
{
    if (write(peer, bytes, size) != (ssize_t)size)
        alone();
}

void hear_bytes(void *bytes, size_t size)
{
    struct pollfd wait = {.fd = peer, .events = POLLIN};
    if (poll(&wait, 1, PATIENCE_MS) != 1)
        life_fails("the other side says nothing");
    if (read(peer, bytes, size) != (ssize_t)size)
        alone();
}

void say(char word)
{
    say_bytes(&word, 1);
}

void hear(char word)
{
    char heard;
    hear_bytes(&heard, 1);
    if (heard != word)
        life_fails("the other side says '%c' in the place of '%c'", heard, word);
}

void talk_meet(void)
{
    say('.');
    hear('.');
}

void say_port(mrg_id *listener)
{
    uint16_t port = ntohs(((struct sockaddr_in *)mrg_get_local_addr(listener))->sin_port);
    say_bytes(&port, sizeof port);
}

uint16_t hear_port(void)
{
    uint16_t port;
    hear_bytes(&port, sizeof port);
    return port;
}

struct rdma_addrinfo *address(uint16_t port, int flags)
{
    char service[8];
    struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *found;
    snprintf(service, sizeof service, "%u", port);
    if (rdma_getaddrinfo(getenv("RXE_ADDR"), service, &hints, &found))
        life_fails("no address: %s", strerror(errno));
    return found;
}

/* Events */

static void await_readable(int fd, const char *what)
{
    struct pollfd wait[] = {{.fd = fd, .events = POLLIN}, {.fd = peer}};
    if (poll(wait, 2, PATIENCE_MS) < 1)
        life_fails("%s does not come", what);
    if (!wait[0].revents)
        alone();
}

mrg_cm_event *get_event(mrg_channel *channel, enum rdma_cm_event_type type)
{
    mrg_cm_event *event;
    await_readable(mrg_channel_fd(channel), rdma_event_str(type));
    try_out(event, mrg_get_cm_event(channel, &event));
    if (mrg_event_type(event) != (int)type)
        life_fails("%s in the place of %s", rdma_event_str((enum rdma_cm_event_type)mrg_event_type(event)),
                   rdma_event_str(type));
    return event;
}

mrg_id *await_event(mrg_channel *channel, enum rdma_cm_event_type type)
{
    mrg_cm_event *event = get_event(channel, type);
    mrg_id *id = mrg_event_id(event);
    try(mrg_ack_cm_event(event));
    return id;
}

mrg_async_event *get_async_event(mrg_context *device, enum ibv_event_type type)
{
    mrg_async_event *event;
    await_readable(mrg_context_async_fd(device), ibv_event_type_str(type));
    try_out(event, mrg_get_async_event(device, &event));
    if (mrg_async_event_type(event) != (int)type)
        life_fails("%s in the place of %s", ibv_event_type_str((enum ibv_event_type)mrg_async_event_type(event)),
                   ibv_event_type_str(type));
    return event;
}

/* Completions */

static void check(const struct ibv_wc *wc, const void *context)
{
    if (wc->status != IBV_WC_SUCCESS)
        life_fails("a completion: %s", ibv_wc_status_str(wc->status));
    if (wc->wr_id != (uintptr_t)context)
        life_fails("the completion of another WR");
}

static int poll_one(mrg_cq *cq, struct ibv_wc *wc, const char *late)
{
    int got;
    tolerate(LATE_RELEASE, late, try_count(got, mrg_poll_cq(cq, 1, wc)));
    return got;
}

void await_completion(mrg_comp_channel *channel, void *context, const char *late)
{
    mrg_cq *cq;
    void *cq_context;
    struct ibv_wc wc;
    await_readable(mrg_comp_channel_fd(channel), "a completion");
    try_out(cq, mrg_get_cq_event(channel, &cq, &cq_context));
    try(mrg_ack_cq_events(cq, 1));
    try(mrg_req_notify_cq(cq, 0));
    if (poll_one(cq, &wc, late) != 1)
        life_fails("a completion event, and no completion");
    check(&wc, context);
    if (poll_one(cq, &wc, NULL) != 0)
        life_fails("a second completion");
}

void await_polled(mrg_cq *cq, void *context, struct ibv_wc *wc)
{
    struct ibv_wc unasked;
    wc = wc ? wc : &unasked;
    fault_poll_patiently(true);
    if (poll_one(cq, wc, NULL) != 1)
        life_fails("a completion does not come");
    fault_poll_patiently(false);
    check(wc, context);
}

void await_send(mrg_id *id, void *context)
{
    struct ibv_wc wc;
    fault_poll_patiently(true);
    try_else(mrg_get_send_comp(id, &wc) == 1, true, "mrg_get_send_comp");
    fault_poll_patiently(false);
    check(&wc, context);
}

static char word_when_asleep;

static void say_asleep(void)
{
    say(word_when_asleep);
}

void await_recv_asleep(mrg_id *id, void *context, char word)
{
    struct ibv_wc wc;
    word_when_asleep = word;
    fault_when_asleep(say_asleep);
    try_else(mrg_get_recv_comp(id, &wc) == 1, true, "mrg_get_recv_comp");
    check(&wc, context);
}
