/*
 * blockd: serves a file by RDMA READ. One event loop, any number of clients, no copy: the client reads straight from
 * the memory that was registered. Window by window where the file is larger than what may be locked.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "block.h"

#define WINDOW_MAX ((size_t)64 << 20)

struct server {
    int fd;
    uint64_t file_size;
    size_t window_size;
    bool once;
    mrg_channel *channel;
    mrg_id *listener;
    mrg_comp_channel *completions; /* these two are made with the first client, on its device */
    mrg_cq *cq;
    struct client *clients;
    bool served;
};

struct client {
    struct client *next;
    mrg_id *id;
    bool has_qp;
    uint64_t offset; /* of the window on offer */
    void *window;
    size_t window_length;
    mrg_mr *window_mr;
    mrg_mr *message_mr;
    unsigned char ready[BLOCK_READY_SIZE];
    unsigned char offer[BLOCK_OFFER_SIZE];
};

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static int complain(const char *what)
{
    fprintf(stderr, "blockd: %s: %s\n", what, strerror(errno));
    return -1;
}

/* Windows */

/* Half of what the process may lock, so that a window and the messages of some clients fit. */
static size_t window_limit(void)
{
    struct rlimit limit;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = WINDOW_MAX;
    if (!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur / 2 < size)
        size = (size_t)limit.rlim_cur / 2;
    size -= size % page;
    return size ? size : page;
}

static int read_all(int fd, void *buf, size_t length, uint64_t offset)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = pread(fd, (char *)buf + done, length - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = ENODATA; /* the file has shrunk */
        if (got <= 0)
            return complain("read");
        done += (size_t)got;
    }
    return 0;
}

static void close_window(struct client *c)
{
    if (c->window_mr && mrg_dereg_mr(c->window_mr))
        complain("mrg_dereg_mr");
    c->window_mr = NULL;
    if (c->window)
        munmap(c->window, c->window_length);
    c->window = NULL;
    c->window_length = 0;
}

/* Reads the part of the file at the client's offset and registers it. At the end of the file there is none. */
static int open_window(const struct server *s, struct client *c)
{
    uint64_t left = s->file_size - c->offset;
    if (!left)
        return 0;
    c->window_length = left < s->window_size ? (size_t)left : s->window_size;
    c->window = mmap(NULL, c->window_length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (c->window == MAP_FAILED)
        return c->window = NULL, complain("mmap");
    if (read_all(s->fd, c->window, c->window_length, c->offset))
        return -1;
    c->window_mr = mrg_reg_read(c->id, c->window, c->window_length);
    return c->window_mr ? 0 : complain("mrg_reg_read");
}

/* Messages */

static int await_ready(struct client *c)
{
    return mrg_post_recv(c->id, c, c->ready, sizeof c->ready, c->message_mr) ? complain("mrg_post_recv") : 0;
}

static int send_offer(const struct server *s, struct client *c)
{
    struct offer offer = {.file_size = s->file_size, .offset = c->offset};
    if (c->window_mr && mrg_mr_export(c->window_mr, 0, c->window_length, IBV_ACCESS_REMOTE_READ, &offer.window))
        return complain("mrg_mr_export");
    size_t length = offer_pack(&offer, c->offer);
    return mrg_post_send(c->id, NULL, c->offer, length, c->message_mr, IBV_SEND_SIGNALED) ? complain("mrg_post_send")
                                                                                          : 0;
}

/* The client has read what was on offer: the next window. */
static int on_ready(const struct server *s, struct client *c)
{
    c->offset += c->window_length;
    close_window(c);
    return open_window(s, c) || await_ready(c) || send_offer(s, c) ? -1 : 0;
}

/* Clients */

static int make_queue(struct server *s, mrg_context *device)
{
    if (s->cq)
        return 0;
    if (!s->completions)
        s->completions = mrg_create_comp_channel(device);
    if (!s->completions)
        return complain("mrg_create_comp_channel");
    s->cq = mrg_create_cq(device, 1024, NULL, s->completions, 0);
    return s->cq && !mrg_req_notify_cq(s->cq, 0) ? 0 : complain("mrg_create_cq");
}

static int equip(struct server *s, struct client *c)
{
    if (make_queue(s, mrg_id_verbs(c->id)))
        return -1;
    mrg_qp_init_attr attr = {.send_cq = s->cq, .recv_cq = s->cq, .cap = {4, 4, 1, 1, 0}};
    if (mrg_create_qp(c->id, NULL, &attr))
        return complain("mrg_create_qp");
    c->has_qp = true;
    c->message_mr = mrg_reg_msgs(c->id, c->ready, sizeof c->ready + sizeof c->offer);
    if (!c->message_mr)
        return complain("mrg_reg_msgs");
    if (await_ready(c))
        return -1;
    return mrg_accept(c->id, NULL) ? complain("mrg_accept") : 0;
}

/* In the order that the rules ask for: the QP ends what is in flight, then the MRs, the id last. */
static void drop(struct server *s, struct client *c)
{
    struct client **link = &s->clients;
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    mrg_disconnect(c->id); /* fails where the peer was first */
    if (c->has_qp && mrg_destroy_qp(c->id))
        complain("mrg_destroy_qp");
    close_window(c);
    if (c->message_mr)
        mrg_dereg_mr(c->message_mr);
    if (mrg_destroy_id(c->id))
        complain("mrg_destroy_id");
    free(c);
    s->served = true;
}

static void admit(struct server *s, mrg_id *id)
{
    struct client *c = calloc(1, sizeof *c);
    if (!c) {
        mrg_reject(id, NULL, 0);
        mrg_destroy_id(id);
        return;
    }
    c->id = id;
    c->next = s->clients;
    s->clients = c;
    mrg_id_set_context(id, c);
    if (equip(s, c)) {
        mrg_reject(id, NULL, 0);
        drop(s, c);
    }
}

/* Events. An event is acknowledged before what it is about is destroyed. */

static int on_cm_event(struct server *s)
{
    mrg_cm_event *event;
    if (mrg_get_cm_event(s->channel, &event))
        return errno == EAGAIN ? 0 : complain("mrg_get_cm_event");
    int type = mrg_event_type(event);
    mrg_id *id = mrg_event_id(event);
    mrg_ack_cm_event(event);
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
        admit(s, id);
    else if (type != RDMA_CM_EVENT_ESTABLISHED && type != RDMA_CM_EVENT_TIMEWAIT_EXIT && id != s->listener)
        drop(s, mrg_id_context(id)); /* disconnected, rejected, unreachable: it is over */
    return 0;
}

static void on_completion(struct server *s, const struct ibv_wc *wc)
{
    struct client *c = (struct client *)(uintptr_t)wc->wr_id;
    if (!c) /* an offer went out, or failed to: then the client's receive fails as well */
        return;
    if (wc->status != IBV_WC_SUCCESS || on_ready(s, c))
        mrg_disconnect(c->id); /* the event that follows drops it */
}

static int on_completions(struct server *s)
{
    mrg_cq *cq;
    void *context;
    if (mrg_get_cq_event(s->completions, &cq, &context))
        return complain("mrg_get_cq_event");
    mrg_ack_cq_events(cq, 1);
    if (mrg_req_notify_cq(cq, 0))
        return complain("mrg_req_notify_cq");
    struct ibv_wc wc;
    int got;
    while ((got = mrg_poll_cq(cq, 1, &wc)) > 0)
        on_completion(s, &wc);
    return got < 0 ? complain("mrg_poll_cq") : 0;
}

static int serve(struct server *s)
{
    while (!stop && !(s->once && s->served && !s->clients)) {
        struct pollfd fds[] = {{.fd = mrg_channel_fd(s->channel), .events = POLLIN},
                               {.fd = s->completions ? mrg_comp_channel_fd(s->completions) : -1, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0)
            return errno == EINTR ? 0 : complain("poll");
        if (fds[1].revents && on_completions(s))
            return -1;
        if (fds[0].revents && on_cm_event(s))
            return -1;
    }
    return 0;
}

/* Setting up and taking down */

static int listen_at(struct server *s, const char *host, const char *port)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *found;
    if (rdma_getaddrinfo(host, port, &hints, &found))
        return complain(host);
    s->channel = mrg_create_event_channel();
    int failed = !s->channel || mrg_create_id(s->channel, &s->listener, NULL, RDMA_PS_TCP) ||
                 mrg_bind_addr(s->listener, found->ai_src_addr) || mrg_listen(s->listener, 16);
    rdma_freeaddrinfo(found);
    if (failed)
        return complain("listen");
    int fd = mrg_channel_fd(s->channel);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    printf("blockd: listening on %s port %s\n", host, port);
    return fflush(stdout);
}

static int open_file(struct server *s, const char *path)
{
    struct stat st;
    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0 || fstat(s->fd, &st))
        return complain(path);
    if (!S_ISREG(st.st_mode))
        return errno = EINVAL, complain(path);
    s->file_size = (uint64_t)st.st_size;
    return 0;
}

static void shut_down(struct server *s)
{
    while (s->clients)
        drop(s, s->clients);
    if (s->listener)
        mrg_destroy_id(s->listener);
    if (s->cq)
        mrg_destroy_cq(s->cq);
    if (s->completions)
        mrg_destroy_comp_channel(s->completions);
    if (s->channel)
        mrg_destroy_event_channel(s->channel);
    if (s->fd >= 0)
        close(s->fd);
}

static const char usage[] =
    "usage: blockd [-1] [-a ADDRESS] [-p PORT] [-w BYTES] FILE\n"
    "  serves FILE by RDMA READ to any number of blockcats\n"
    "  -1          ends when the first clients are served\n"
    "  -a ADDRESS  of an RDMA device; default 0.0.0.0, any\n"
    "  -p PORT     default " BLOCK_PORT "\n"
    "  -w BYTES    registered at a time for each client; default: what may be locked, 64 MiB at most\n";

static int parse_window(struct server *s, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long bytes = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || !bytes || bytes > UINT32_MAX)
        return fprintf(stderr, "blockd: -w takes 1 to 4294967295 bytes, not \"%s\"\n", text), -1;
    s->window_size = (size_t)bytes;
    return 0;
}

int main(int argc, char **argv)
{
    struct server s = {.fd = -1, .window_size = window_limit()};
    const char *host = "0.0.0.0", *port = BLOCK_PORT;
    open_standard_descriptors();
    for (int option; (option = getopt(argc, argv, "1a:p:w:h")) != -1;) {
        if (option == '1')
            s.once = true;
        else if (option == 'a')
            host = optarg;
        else if (option == 'p')
            port = optarg;
        else if (option == 'h')
            return fputs(usage, stdout), 0;
        else if (option != 'w' || parse_window(&s, optarg))
            return fputs(usage, stderr), 2;
    }
    if (optind + 1 != argc)
        return fputs(usage, stderr), 2;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    int failed = open_file(&s, argv[optind]) || listen_at(&s, host, port) || serve(&s);
    shut_down(&s);
    return failed ? 1 : 0;
}
