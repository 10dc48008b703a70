/*
 * Synchronous: endpoints, requests and completions that are waited for in the call. The CQs are the ids' own. The
 * passive side exports memory to READ and memory to WRITE.
 */
#include <stdlib.h>
#include <sys/uio.h>

#include "scenarios.h"

enum { OFFER = 1, READING, WRITING, DONE };
#define NAME(number) ((void *)(uintptr_t)(number))
#define SIZE 4096

static mrg_id *id;
static unsigned char message[2 * MRG_REMOTE_SIZE];
static unsigned char source[SIZE];
static unsigned char sink[SIZE];

static mrg_id *make_endpoint(uint16_t port, int flags)
{
    struct rdma_addrinfo *res = address(port, flags);
    mrg_qp_init_attr attr = {.cap = {4, 4, 2, 2, 0}};
    const mrg_qp_init_attr before = attr;
    mrg_id *made = NULL;
    try_else(mrg_create_ep(&made, res, NULL, &attr) == 0, !made && !memcmp(&attr, &before, sizeof attr),
             "mrg_create_ep");
    rdma_freeaddrinfo(res);
    return made;
}

/* The active side */

static mrg_mr *mrs[2];

static void prepare(uint16_t port)
{
    const struct iovec ranges[] = {{message, sizeof message}, {source, sizeof source}};
    id = make_endpoint(port, 0);
    mrs[0] = mrs[1] = NULL;
    try_else(mrg_reg_msgsv(id, ranges, 2, mrs) == 0, !mrs[0] && !mrs[1], "mrg_reg_msgsv");
    try(mrg_post_recv(id, NAME(OFFER), message, sizeof message, mrs[0]));
}

static void give_up(void)
{
    for (int i = 0; i < 2; i++)
        try(mrg_dereg_mr(mrs[i]));
    tolerate(LATE_RELEASE, "dealloc_pd", try(mrg_destroy_ep(id)));
}

/*
 * The one failure after which the same call cannot do: a peer whose mrg_get_request took our request and could not make
 * its QP has dropped it, which rejects us. Its next call waits for a new request, and that takes a new id.
 */
static bool connect_once(void)
{
    bool rejected = false;
    try_else(mrg_connect(id, NULL) == 0 || (rejected = errno == ECONNREFUSED && peer_is_struck()), true, "mrg_connect");
    return !rejected;
}

static void connect_to_peer(void)
{
    uint16_t port = hear_port();
    prepare(port);
    if (connect_once())
        return;
    try(mrg_destroy_qp(id)); /* which takes the receive along */
    give_up();
    prepare(port);
    try(mrg_connect(id, NULL));
}

static void read_and_write(void)
{
    mrg_remote from, to;
    try(mrg_remote_unpack(&from, message, MRG_REMOTE_SIZE));
    try(mrg_remote_unpack(&to, message + MRG_REMOTE_SIZE, MRG_REMOTE_SIZE));
    try(mrg_post_read_from(id, NAME(READING), source, SIZE, mrs[1], IBV_SEND_SIGNALED, &from, 0));
    await_send(id, NAME(READING));
    life_requires(source[SIZE - 1] == 'r', "the READ brought something else");
    try(mrg_post_write_to(id, NAME(WRITING), source, SIZE, mrs[1], IBV_SEND_SIGNALED, &to, 0));
    await_send(id, NAME(WRITING));
}

static void active(void)
{
    connect_to_peer();
    await_recv_asleep(id, NAME(OFFER), 'o');
    read_and_write();
    hear('d');
    try(mrg_post_send(id, NAME(DONE), message, 1, mrs[0], IBV_SEND_SIGNALED));
    await_send(id, NAME(DONE));
    try(mrg_disconnect(id));
    give_up();
}

/* The passive side */

static void offer(mrg_mr *from, mrg_mr *to, mrg_mr *message_mr)
{
    mrg_remote remote;
    try(mrg_mr_export(from, 0, SIZE, IBV_ACCESS_REMOTE_READ, &remote));
    life_requires(mrg_remote_pack(&remote, message, MRG_REMOTE_SIZE) == MRG_REMOTE_SIZE, "not packed");
    try(mrg_mr_export(to, 0, SIZE, IBV_ACCESS_REMOTE_WRITE, &remote));
    life_requires(mrg_remote_pack(&remote, message + MRG_REMOTE_SIZE, MRG_REMOTE_SIZE) > 0, "not packed");
    hear('o');
    try(mrg_post_send(id, NAME(OFFER), message, sizeof message, message_mr, IBV_SEND_SIGNALED));
    await_send(id, NAME(OFFER));
}

static void serve(void)
{
    mrg_mr *from, *to, *message_mr;
    memset(source, 'r', sizeof source);
    try_make(from, mrg_reg_read(id, source, SIZE));
    try_make(to, mrg_reg_write(id, sink, SIZE));
    try_make(message_mr, mrg_reg_msgs(id, message, sizeof message));
    try(mrg_accept(id, NULL));
    offer(from, to, message_mr);
    try(mrg_post_recv(id, NAME(DONE), message, sizeof message, message_mr));
    await_recv_asleep(id, NAME(DONE), 'd');
    life_requires(sink[SIZE - 1] == 'r', "the WRITE brought something else");
    try(mrg_disconnect(id));
    try(mrg_dereg_mr(message_mr));
    try(mrg_dereg_mr(to));
    try(mrg_dereg_mr(from));
}

static void passive(void)
{
    mrg_id *listener = make_endpoint(0, RAI_PASSIVE);
    try(mrg_listen(listener, 4));
    say_port(listener);
    /* where the request's event cannot be acknowledged at once, librdmacm does so when the id is accepted */
    tolerate(HARMLESS, "ack_cm_event", try_out(id, mrg_get_request(listener, &id)));
    serve();
    tolerate(LATE_RELEASE, "dealloc_pd", try(mrg_destroy_ep(id)));
    try(mrg_destroy_ep(listener));
}

const struct scenario endpoint_scenario = {"endpoint", {active, passive}};
