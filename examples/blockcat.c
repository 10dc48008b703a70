/*
 * blockcat: fetches the file that a blockd serves and writes it to standard output. It READs straight from the
 * server's memory, many reads in flight; reads of one connection complete in order, so the ring of buffers does too.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "block.h"

#define DEPTH 32
#define CHUNK ((size_t)64 << 10)
#define PATIENCE_MS 10000 /* a server that says nothing for so long is given up */

struct fetch {
    mrg_id *id;
    mrg_comp_channel *completions;
    mrg_cq *cq;
    mrg_mr *mr; /* all of the buffer: the ring, then the two messages */
    unsigned char *buffer;
    uint64_t done; /* bytes of the file written out */
    uint64_t size;
    bool has_qp;
    bool connected;
    bool progress;
    double started;
    double shown; /* when the bar was last drawn, and how much was done then */
    uint64_t shown_done;
};

static unsigned char *chunk_at(const struct fetch *f, uint64_t n)
{
    return f->buffer + n % DEPTH * CHUNK;
}

static unsigned char *offer_at(const struct fetch *f)
{
    return f->buffer + DEPTH * CHUNK;
}

static unsigned char *ready_at(const struct fetch *f)
{
    return offer_at(f) + BLOCK_OFFER_SIZE;
}

#define BUFFER_SIZE (DEPTH * CHUNK + BLOCK_OFFER_SIZE + BLOCK_READY_SIZE)

static int complain(const char *what)
{
    fprintf(stderr, "blockcat: %s: %s\n", what, strerror(errno));
    return -1;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Five times a second, and at the end; the rate is that since the last time. */
static void show_progress(struct fetch *f)
{
    static const char bar[] = "########################################";
    const uint64_t width = sizeof bar - 1;
    double t = now(), since = t - f->shown;
    bool finished = f->done == f->size;
    if (!f->progress || !f->size || (since < 0.2 && !finished))
        return;
    double rate = finished ? (double)f->done / (t - f->started) : (double)(f->done - f->shown_done) / since;
    fprintf(stderr, "\r[%-*.*s] %3d%%  %.1f of %.1f MiB  %.1f MiB/s   ", (int)width, (int)(f->done * width / f->size),
            bar, (int)(f->done * 100 / f->size), (double)f->done / 0x1p20, (double)f->size / 0x1p20, rate / 0x1p20);
    if (finished)
        fputc('\n', stderr);
    f->shown = t;
    f->shown_done = f->done;
}

static int write_out(struct fetch *f, const unsigned char *data, size_t length)
{
    while (length) {
        ssize_t put = write(STDOUT_FILENO, data, length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return complain("write");
        data += put, length -= (size_t)put, f->done += (uint64_t)put;
    }
    return 0;
}

/* Completions */

static int sleep_until_event(struct fetch *f)
{
    struct pollfd fd = {.fd = mrg_comp_channel_fd(f->completions), .events = POLLIN};
    int ready = poll(&fd, 1, PATIENCE_MS);
    if (ready == 0)
        errno = ETIMEDOUT;
    if (ready <= 0)
        return complain("waiting for the server");
    mrg_cq *cq;
    void *context;
    if (mrg_get_cq_event(f->completions, &cq, &context))
        return complain("mrg_get_cq_event");
    return mrg_ack_cq_events(cq, 1);
}

/* The next completion: bytes received through *ret_length where it is a receive. */
static int await_completion(struct fetch *f, struct ibv_wc *wc)
{
    int got;
    while ((got = mrg_poll_cq(f->cq, 1, wc)) == 0) {
        if (mrg_req_notify_cq(f->cq, 0))
            return complain("mrg_req_notify_cq");
        if ((got = mrg_poll_cq(f->cq, 1, wc)) != 0)
            break;
        if (sleep_until_event(f))
            return -1;
    }
    if (got < 0)
        return complain("mrg_poll_cq");
    if (wc->status == IBV_WC_SUCCESS)
        return 0;
    fprintf(stderr, "blockcat: the server is gone or refuses: %s\n", ibv_wc_status_str(wc->status));
    return -1;
}

/* Sends READY and waits for the offer that answers it. */
static int ask_for_offer(struct fetch *f, struct offer *offer)
{
    if (mrg_post_recv(f->id, NULL, offer_at(f), BLOCK_OFFER_SIZE, f->mr))
        return complain("mrg_post_recv");
    if (mrg_post_send(f->id, NULL, ready_at(f), BLOCK_READY_SIZE, f->mr, IBV_SEND_SIGNALED))
        return complain("mrg_post_send");
    size_t length = 0;
    for (int i = 0; i < 2; i++) { /* the send and the receive, in either order */
        struct ibv_wc wc;
        if (await_completion(f, &wc))
            return -1;
        if (wc.opcode & IBV_WC_RECV)
            length = wc.byte_len;
    }
    if (offer_unpack(offer, offer_at(f), length))
        return fprintf(stderr, "blockcat: the server sent something that is no offer\n"), -1;
    return 0;
}

/* Reading */

static size_t chunk_length(const mrg_remote *window, uint64_t n)
{
    uint64_t left = window->length - n * CHUNK;
    return left < CHUNK ? (size_t)left : CHUNK;
}

static int fetch_window(struct fetch *f, const mrg_remote *window)
{
    uint64_t chunks = (window->length + CHUNK - 1) / CHUNK;
    for (uint64_t posted = 0, done = 0; done < chunks;) {
        for (; posted < chunks && posted - done < DEPTH; posted++)
            if (mrg_post_read_from(f->id, NULL, chunk_at(f, posted), chunk_length(window, posted), f->mr,
                                   IBV_SEND_SIGNALED, window, posted * CHUNK))
                return complain("mrg_post_read_from");
        struct ibv_wc wc;
        if (await_completion(f, &wc) || write_out(f, chunk_at(f, done), chunk_length(window, done)))
            return -1;
        done++;
        show_progress(f);
    }
    return 0;
}

static int fetch(struct fetch *f)
{
    for (;;) {
        struct offer offer;
        if (ask_for_offer(f, &offer))
            return -1;
        f->size = offer.file_size;
        if (!offer.window.length && f->done == f->size)
            return 0;
        if (!offer.window.length || offer.offset != f->done)
            return fprintf(stderr, "blockcat: the server skips part of the file\n"), -1;
        if (fetch_window(f, &offer.window))
            return -1;
    }
}

/* Setting up and taking down */

static int connect_to(struct fetch *f, const char *host, const char *port)
{
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *found;
    if (rdma_getaddrinfo(host, port, &hints, &found))
        return complain(host);
    int failed = mrg_create_ep(&f->id, found, NULL, NULL);
    rdma_freeaddrinfo(found);
    if (failed)
        return complain(host);
    mrg_context *device = mrg_id_verbs(f->id);
    f->completions = device ? mrg_create_comp_channel(device) : NULL;
    f->cq = f->completions ? mrg_create_cq(device, DEPTH + 4, NULL, f->completions, 0) : NULL;
    mrg_qp_init_attr attr = {.send_cq = f->cq, .recv_cq = f->cq, .cap = {DEPTH + 2, 2, 1, 1, 0}};
    if (!f->cq || mrg_create_qp(f->id, NULL, &attr))
        return complain("making the queues");
    f->has_qp = true;
    f->mr = mrg_reg_msgs(f->id, f->buffer, BUFFER_SIZE);
    if (!f->mr)
        return complain("mrg_reg_msgs");
    struct rdma_conn_param param = {
        .responder_resources = RDMA_MAX_RESP_RES,
        .initiator_depth = RDMA_MAX_INIT_DEPTH, /* reads in flight, as many as the device can */
        .retry_count = 3,
        .rnr_retry_count = 7,
    };
    if (mrg_connect(f->id, &param))
        return complain("mrg_connect");
    f->connected = true;
    f->started = f->shown = now();
    return 0;
}

static int hang_up(struct fetch *f)
{
    int failed = 0;
    if (f->id) {
        if (f->connected)
            mrg_disconnect(f->id); /* fails where the server was first */
        failed |= f->has_qp && mrg_destroy_qp(f->id);
        failed |= f->mr && mrg_dereg_mr(f->mr);
        failed |= f->cq && mrg_destroy_cq(f->cq);
        failed |= f->completions && mrg_destroy_comp_channel(f->completions);
        failed |= mrg_destroy_ep(f->id);
    }
    free(f->buffer);
    return failed ? complain("hanging up") : 0;
}

static const char usage[] = "usage: blockcat [-q] [-p PORT] ADDRESS > FILE\n"
                            "  fetches the file that the blockd at ADDRESS serves\n"
                            "  -q       no progress bar; there is none either where standard error is no terminal\n"
                            "  -p PORT  default " BLOCK_PORT "\n";

int main(int argc, char **argv)
{
    struct fetch f = {.progress = isatty(STDERR_FILENO)};
    const char *port = BLOCK_PORT;
    open_standard_descriptors();
    for (int option; (option = getopt(argc, argv, "qp:h")) != -1;) {
        if (option == 'q')
            f.progress = false;
        else if (option == 'p')
            port = optarg;
        else
            return fputs(usage, option == 'h' ? stdout : stderr), option == 'h' ? 0 : 2;
    }
    if (optind + 1 != argc)
        return fputs(usage, stderr), 2;
    f.buffer = calloc(1, BUFFER_SIZE);
    int failed = !f.buffer || connect_to(&f, argv[optind], port) || fetch(&f);
    return hang_up(&f) || failed ? 1 : 0;
}
