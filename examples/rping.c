/*
 * rping: the ping-pong program of rdmacm-utils on mrguard's API; each talks to the other, as client and as server.
 *
 * For each ping the client offers its text (address, key, length); the server READs it and says go on. Then the client
 * offers the place where it wants the text back; the server WRITEs it there and says go on. Client and server go step
 * by step, with an event channel and a completion channel for each connection.
 */
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "block.h" /* open_standard_descriptors */

#define PORT "7174"
#define SIZE 64
#define SHORTEST 23 /* room for the number of the ping */
#define LONGEST 65535
#define RESOLVE_MS 2000
#define LETTERS ('z' - 'A' + 1)

struct options {
    int role; /* 's' or 'c' */
    bool persistent, verify, print;
    const char *host, *port;
    unsigned size, count; /* 0: not given */
};

/* What goes over the wire, big-endian. The server's go-ahead is as long, and what is in it does not matter. */
struct message {
    uint64_t addr;
    uint32_t rkey;
    uint32_t length;
};
_Static_assert(sizeof(struct message) == 16, "the size that the peer expects");

struct link {
    const struct options *options;
    mrg_channel *channel;
    mrg_id *id;
    mrg_comp_channel *completions;
    mrg_cq *cq;
    bool has_qp, connected, over; /* over: the peer has disconnected */
    size_t size;
    char *text; /* what the client offers, or the server has read */
    char *echo; /* where it comes back; the client's alone */
    mrg_mr *text_mr, *echo_mr, *message_mr;
    struct {
        struct message in, offer_text, offer_echo, go_ahead; /* written once, so a send in flight may keep them */
    } message;
};

static int complain(const char *what)
{
    fprintf(stderr, "rping: %s: %s\n", what, strerror(errno));
    return -1;
}

/* Events of the connection */

/*
 * Waits for the channel's next event and acknowledges it: before that the id could not be destroyed. Returns its type,
 * with what a program that speaks TCP would find in errno should it be bad news; -1: there was none.
 */
static int take_event(mrg_channel *channel, mrg_id **id)
{
    mrg_cm_event *event;
    if (mrg_get_cm_event(channel, &event))
        return -1;
    int type = mrg_event_type(event), status = mrg_event_status(event);
    *id = mrg_event_id(event);
    if (mrg_ack_cm_event(event))
        return -1;
    errno = type == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : status < 0 ? -status : ECONNRESET;
    return type;
}

static int await_event(struct link *l, int wanted)
{
    return take_event(l->channel, &(mrg_id *){NULL}) == wanted ? 0 : -1;
}

static int on_event(struct link *l)
{
    int type = take_event(l->channel, &(mrg_id *){NULL});
    if (type < 0)
        return complain("mrg_get_cm_event");
    l->over |= type != RDMA_CM_EVENT_ESTABLISHED; /* a server gets that now, or even after the first message */
    return 0;
}

/* Completions */

/* The next completion brings another event: the queue must be polled empty before anybody sleeps. */
static int on_completion_event(struct link *l)
{
    mrg_cq *cq;
    void *context;
    if (mrg_get_cq_event(l->completions, &cq, &context) || mrg_ack_cq_events(cq, 1) || mrg_req_notify_cq(cq, 0))
        return complain("waiting for a completion");
    return 0;
}

static int sleep_until_event(struct link *l)
{
    struct pollfd fds[] = {{.fd = mrg_channel_fd(l->channel), .events = POLLIN},
                           {.fd = mrg_comp_channel_fd(l->completions), .events = POLLIN}};
    if (poll(fds, 2, -1) < 0)
        return errno == EINTR ? 0 : complain("poll");
    if (fds[1].revents && on_completion_event(l))
        return -1;
    return fds[0].revents ? on_event(l) : 0;
}

/* 1: a completion of this kind; 0: of another, which is a send; -1: it failed. */
static int judge(const struct ibv_wc *wc, enum ibv_wc_opcode wanted)
{
    if (wc->status != IBV_WC_SUCCESS)
        return fprintf(stderr, "rping: the connection broke: %s\n", ibv_wc_status_str(wc->status)), -1;
    if (wc->opcode == IBV_WC_RECV && wc->byte_len != sizeof(struct message))
        return fprintf(stderr, "rping: the peer sent %u bytes, which is no message of rping's\n", wc->byte_len), -1;
    return wc->opcode == wanted;
}

/* Waits for a completion of this kind. -1: none will come; if the peer has not just gone (l->over) it was said why. */
static int await_completion(struct link *l, enum ibv_wc_opcode wanted)
{
    for (int verdict = 0; !verdict;) {
        struct ibv_wc wc;
        int got = mrg_poll_cq(l->cq, 1, &wc);
        if (got < 0)
            return complain("mrg_poll_cq");
        if (!got && (l->over || sleep_until_event(l)))
            return -1;
        if (got && (verdict = judge(&wc, wanted)) < 0)
            return -1;
    }
    return 0;
}

/* Messages */

static int post_receive(struct link *l)
{
    struct message *in = &l->message.in;
    return mrg_post_recv(l->id, NULL, in, sizeof *in, l->message_mr) ? complain("mrg_post_recv") : 0;
}

static int tell(struct link *l, const struct message *m)
{
    return mrg_post_send(l->id, NULL, m, sizeof *m, l->message_mr, IBV_SEND_SIGNALED) ? complain("mrg_post_send") : 0;
}

/* The next receive is posted at once: the peer may send as soon as it hears of us. */
static int await_go_ahead(struct link *l)
{
    return await_completion(l, IBV_WC_RECV) || post_receive(l) ? -1 : 0;
}

static int write_offer(mrg_mr *mr, int access, struct message *m)
{
    mrg_remote r;
    if (mrg_mr_export(mr, 0, mrg_mr_length(mr), access, &r))
        return complain("mrg_mr_export");
    *m = (struct message){htobe64(r.addr), htobe32(r.rkey), htobe32((uint32_t)r.length)};
    return 0;
}

/* The offer comes from a peer, so it is checked before anything is made of it. */
static int await_offer(struct link *l, uint32_t access, mrg_remote *ret)
{
    if (await_completion(l, IBV_WC_RECV))
        return -1;
    const struct message *m = &l->message.in;
    mrg_remote r = {be64toh(m->addr), be32toh(m->length), be32toh(m->rkey), access};
    if (!r.length || r.length > l->size || r.addr > UINT64_MAX - r.length)
        return fprintf(stderr, "rping: the client offers %u bytes, and this server takes 1 to %zu\n",
                       (unsigned)r.length, l->size),
               -1;
    *ret = r;
    return post_receive(l);
}

/* Connections */

static int make_queues(struct link *l)
{
    mrg_context *device = mrg_id_verbs(l->id);
    l->completions = device ? mrg_create_comp_channel(device) : NULL;
    l->cq = l->completions ? mrg_create_cq(device, 32, NULL, l->completions, 0) : NULL;
    mrg_qp_init_attr attr = {.send_cq = l->cq, .recv_cq = l->cq, .cap = {16, 2, 1, 1, 0}};
    if (!l->cq || mrg_req_notify_cq(l->cq, 0) || mrg_create_qp(l->id, NULL, &attr))
        return complain("making the queues");
    l->has_qp = true;
    return 0;
}

/* A peer may read the client's text and write its echo, no more; and nothing at the server. */
static int register_memory(struct link *l)
{
    bool client = l->options->role == 'c';
    l->text = calloc(2, l->size);
    if (!l->text)
        return complain("memory");
    l->echo = l->text + l->size;
    l->message_mr = mrg_reg_msgs(l->id, &l->message, sizeof l->message);
    l->text_mr = client ? mrg_reg_read(l->id, l->text, l->size) : mrg_reg_msgs(l->id, l->text, l->size);
    l->echo_mr = client ? mrg_reg_write(l->id, l->echo, l->size) : NULL;
    if (!l->message_mr || !l->text_mr || (client && !l->echo_mr))
        return complain("registering memory");
    return 0;
}

static struct link *new_link(const struct options *o, size_t size)
{
    struct link *l = calloc(1, sizeof *l);
    if (!l || !(l->channel = mrg_create_event_channel()))
        return complain("an event channel"), free(l), NULL;
    l->options = o;
    l->size = size;
    return l;
}

/* All that an id needs before it connects or accepts: from then on the peer may send. */
static int equip(struct link *l)
{
    return make_queues(l) || register_memory(l) || post_receive(l) ? -1 : 0;
}

/*
 * In the order that the rules ask for: the QP ends what is in flight, then the MRs, the id, and what it used. What was
 * never made is passed over, so this fits however far the connection came. Returns whether all went well till now.
 */
static int hang_up(struct link *l, int failed)
{
    if (failed && l->over)
        fprintf(stderr, "rping: the peer disconnected in the middle of a ping\n");
    if (l->connected)
        mrg_disconnect(l->id); /* fails where the peer was first */
    int left = l->has_qp && mrg_destroy_qp(l->id);
    left |= l->message_mr && mrg_dereg_mr(l->message_mr);
    left |= l->text_mr && mrg_dereg_mr(l->text_mr);
    left |= l->echo_mr && mrg_dereg_mr(l->echo_mr);
    left |= l->id && mrg_destroy_id(l->id);
    left |= l->cq && mrg_destroy_cq(l->cq);
    left |= l->completions && mrg_destroy_comp_channel(l->completions);
    left |= l->channel && mrg_destroy_event_channel(l->channel);
    if (left)
        return complain("hanging up"); /* with the memory: something of it may be registered yet */
    free(l->text);
    free(l);
    return failed ? -1 : 0;
}

static struct addrinfo *look_up(const struct options *o)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found;
    int error = getaddrinfo(o->host, o->port, &hints, &found);
    if (error)
        fprintf(stderr, "rping: %s: %s\n", o->host, error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
    return error ? NULL : found;
}

/* The client */

/* The text of each ping begins with its number and goes on from another letter. */
static void write_text(struct link *l, unsigned number)
{
    int begun = snprintf(l->text, l->size, "rdma-ping-%u: ", number);
    for (size_t i = (size_t)begun, letter = number; i < l->size - 1; i++, letter++)
        l->text[i] = (char)('A' + letter % LETTERS);
}

static int ping(struct link *l, unsigned number)
{
    write_text(l, number);
    if (tell(l, &l->message.offer_text) || await_go_ahead(l))
        return -1;
    if (tell(l, &l->message.offer_echo) || await_go_ahead(l))
        return -1;
    if (l->options->verify && memcmp(l->text, l->echo, l->size))
        return fprintf(stderr, "rping: ping %u did not come back as it was sent\n", number), -1;
    if (l->options->print)
        printf("ping data: %.*s\n", (int)l->size, l->echo);
    return 0;
}

static int ping_all(struct link *l)
{
    if (write_offer(l->text_mr, IBV_ACCESS_REMOTE_READ, &l->message.offer_text) ||
        write_offer(l->echo_mr, IBV_ACCESS_REMOTE_WRITE, &l->message.offer_echo))
        return -1;
    for (unsigned i = 0; !l->options->count || i < l->options->count; i++)
        if (ping(l, i))
            return -1;
    return 0;
}

static int resolve(struct link *l)
{
    struct addrinfo *to = look_up(l->options);
    if (!to)
        return -1;
    int failed = mrg_create_id(l->channel, &l->id, l, RDMA_PS_TCP) ||
                 mrg_resolve_addr(l->id, NULL, to->ai_addr, RESOLVE_MS) ||
                 await_event(l, RDMA_CM_EVENT_ADDR_RESOLVED) || mrg_resolve_route(l->id, RESOLVE_MS) ||
                 await_event(l, RDMA_CM_EVENT_ROUTE_RESOLVED);
    freeaddrinfo(to);
    return failed ? complain(l->options->host) : 0;
}

static int connect_to_server(struct link *l)
{
    struct rdma_conn_param param = {
        .responder_resources = 1, /* READs of the server's at a time */
        .initiator_depth = 1,
        .retry_count = 7,
        .rnr_retry_count = 7,
    };
    if (resolve(l) || equip(l))
        return -1;
    if (mrg_connect(l->id, &param) || await_event(l, RDMA_CM_EVENT_ESTABLISHED))
        return complain(l->options->host);
    l->connected = true;
    return 0;
}

static int run_client(const struct options *o)
{
    struct link *l = new_link(o, o->size ? o->size : SIZE);
    return l ? hang_up(l, connect_to_server(l) || ping_all(l)) : -1;
}

/* The server */

static int answer(struct link *l, const mrg_remote *text)
{
    size_t length = (size_t)text->length;
    if (mrg_post_read_from(l->id, NULL, l->text, length, l->text_mr, IBV_SEND_SIGNALED, text, 0))
        return complain("mrg_post_read_from");
    if (await_completion(l, IBV_WC_RDMA_READ))
        return -1;
    if (l->options->print)
        printf("server ping data: %.*s\n", (int)length, l->text);
    mrg_remote echo;
    if (tell(l, &l->message.go_ahead) || await_offer(l, IBV_ACCESS_REMOTE_WRITE, &echo))
        return -1;
    if (length > echo.length)
        length = (size_t)echo.length;
    if (mrg_post_write_to(l->id, NULL, l->text, length, l->text_mr, IBV_SEND_SIGNALED, &echo, 0))
        return complain("mrg_post_write_to");
    return await_completion(l, IBV_WC_RDMA_WRITE) || tell(l, &l->message.go_ahead) ? -1 : 0;
}

static int answer_all(struct link *l)
{
    for (;;) {
        mrg_remote text;
        if (await_offer(l, IBV_ACCESS_REMOTE_READ, &text))
            return l->over ? 0 : -1; /* between two pings a client may go */
        if (answer(l, &text))
            return -1;
    }
}

/* No event tells of a client that gives up before it is accepted; what is done for it fails. */
static int serve(struct link *l)
{
    int failed = equip(l);
    if (!failed && mrg_accept(l->id, NULL))
        failed = complain("mrg_accept");
    l->connected = !failed;
    if (!failed)
        return hang_up(l, answer_all(l));
    fprintf(stderr, "rping: the client could not be accepted; it may have given up\n");
    mrg_reject(l->id, NULL, 0); /* fails if it has */
    return hang_up(l, -1);
}

/* Waits for a client. Its events move to a channel of its own; on the listener's the next clients wait meanwhile. */
static struct link *admit(const struct options *o, mrg_channel *channel)
{
    struct link *l = new_link(o, o->size ? o->size : LONGEST);
    if (!l)
        return NULL;
    if (take_event(channel, &l->id) == RDMA_CM_EVENT_CONNECT_REQUEST && !mrg_migrate_id(l->id, l->channel))
        return l;
    complain("waiting for a client");
    hang_up(l, -1);
    return NULL;
}

static int listen_at(const struct options *o, mrg_channel *channel, mrg_id **listener)
{
    struct addrinfo *at = look_up(o);
    if (!at)
        return -1;
    int failed = mrg_create_id(channel, listener, NULL, RDMA_PS_TCP) || mrg_bind_addr(*listener, at->ai_addr) ||
                 mrg_listen(*listener, 3);
    freeaddrinfo(at);
    return failed ? complain(o->host) : 0;
}

static int run_server(const struct options *o)
{
    mrg_id *listener = NULL;
    mrg_channel *channel = mrg_create_event_channel();
    int failed = channel ? listen_at(o, channel, &listener) : complain("mrg_create_event_channel");
    for (bool again = !failed; again; again = o->persistent) {
        struct link *l = admit(o, channel);
        failed = l ? serve(l) : -1;
    }
    if ((listener && mrg_destroy_id(listener)) || (channel && mrg_destroy_event_channel(channel)))
        return complain("closing the listener");
    return failed;
}

/* The command line */

static const char usage[] = "usage: rping -s [-vP] [-a ADDRESS] [-p PORT] [-S SIZE]\n"
                            "       rping -c -a ADDRESS [-vV] [-p PORT] [-S SIZE] [-C COUNT]\n"
                            "  plays RDMA ping-pong with another rping, this one or that of rdmacm-utils\n"
                            "  -s          the server: serves one client and ends\n"
                            "  -P          serves one client after another, for ever\n"
                            "  -c          the client\n"
                            "  -a ADDRESS  the server's; default for the server itself 0.0.0.0, any\n"
                            "  -p PORT     default " PORT "\n"
                            "  -S SIZE     bytes of a ping, 23 to 65535, default 64; a server takes what is no\n"
                            "              longer, by default anything\n"
                            "  -C COUNT    pings; default 0, for ever\n"
                            "  -v          prints each ping\n"
                            "  -V          verifies that each ping comes back as it was sent\n";

static int parse_number(int option, const char *text, unsigned min, unsigned max, unsigned *ret)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || value < min || value > max)
        return fprintf(stderr, "rping: -%c takes %u to %u, not \"%s\"\n", option, min, max, text), -1;
    *ret = (unsigned)value;
    return 0;
}

static int parse_option(struct options *o, int option)
{
    unsigned port;
    if (option == 's' || option == 'c')
        o->role = o->role && o->role != option ? '?' : option;
    else if (option == 'P')
        o->persistent = true;
    else if (option == 'v')
        o->print = true;
    else if (option == 'V')
        o->verify = true;
    else if (option == 'a')
        o->host = optarg;
    else if (option == 'p')
        return o->port = optarg, parse_number('p', optarg, 1, 65535, &port);
    else if (option == 'S')
        return parse_number('S', optarg, SHORTEST, LONGEST, &o->size);
    else if (option == 'C')
        return parse_number('C', optarg, 0, INT32_MAX, &o->count);
    else
        return -1;
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option words[] = {{"help", no_argument, NULL, 'h'}, {0}};
    struct options o = {.port = PORT};
    open_standard_descriptors();
    for (int option; (option = getopt_long(argc, argv, "scPvVa:p:S:C:h", words, NULL)) != -1;) {
        if (option == 'h')
            return fputs(usage, stdout), 0;
        if (parse_option(&o, option))
            return fputs(usage, stderr), 2;
    }
    if (optind != argc || (o.role != 's' && o.role != 'c') || (o.role == 'c' && !o.host))
        return fputs(usage, stderr), 2;
    if (!o.host)
        o.host = "0.0.0.0";
    int failed = o.role == 's' ? run_server(&o) : run_client(&o);
    if (fflush(stdout))
        failed = complain("standard output");
    return failed ? 1 : 0;
}
