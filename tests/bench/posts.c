/*
 * What mrguard adds to posting and polling, by batch, pieces, threads and kind of queue: raw calls and mrguard's beside
 * each other, over a device that only remembers wr_ids.
 *
 *     posts count    under callgrind: a dump of instructions for each case, on one thread
 *     posts time     lines "case threads raw mrguard spread": ns for each WR, medians of alternating runs
 *     posts trace    under lackey: one post and poll on each of two queues that share an MR, between stores to a mark;
 *                    prints "mark ADDRESS" and "stack FROM TO"
 *
 * tests/bench/run reads all three. A case is "single.16.4": its queues are single-threaded or shared, WRs in a batch, pieces
 * of each WR.
 */
#include <mrguard/mrguard.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <valgrind/callgrind.h>

#include "handle.h"
#include "stub.h"

#define BATCH 16   /* WRs at most */
#define PIECES 4   /* of a WR, at most */
#define LANES 2    /* a queue and a CQ each, for a thread */
#define COUNTED 64 /* operations in a dump */

static char memory[65536];

static void must(int failed)
{
    if (failed)
        abort();
}

/* The device: a queue completes what was posted, in order, all of it signaled. */

struct device {
    _Alignas(2 * LINE) uint64_t wr_ids[BATCH];
    unsigned int head, tail;
    uint32_t qp_num;
};
static struct device devices[2 * LANES]; /* by the handle of QP and CQ */

static int device_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct device *device = &devices[qp->handle];
    (void)bad;
    device->qp_num = qp->qp_num;
    for (; wr; wr = wr->next)
        device->wr_ids[device->head++ % BATCH] = wr->wr_id;
    return 0;
}

static int device_poll(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    struct device *device = &devices[cq->handle];
    int got = 0;
    for (; got < count && device->tail != device->head; got++) {
        wc[got].wr_id = device->wr_ids[device->tail++ % BATCH];
        wc[got].status = IBV_WC_SUCCESS;
        wc[got].qp_num = device->qp_num;
        wc[got].wc_flags = 0;
    }
    return got;
}

/* One side of a lane: mrguard's, and the raw one. */
struct lane {
    _Alignas(2 * LINE) mrg_id *id;
    mrg_qp *qp;
    mrg_cq *cq;
    mrg_send_wr wrs[BATCH];
    mrg_sge sges[BATCH * PIECES];
    struct ibv_qp *raw_qp;
    struct ibv_cq *raw_cq;
    struct ibv_send_wr raw_wrs[BATCH];
    struct ibv_sge raw_sges[BATCH * PIECES];
};

struct kind {
    bool single;
    int batch;
    int pieces;
};
static const struct kind kinds[] = {
    {true, 1, 1},  {true, 1, 4},  {true, 4, 1},  {true, 16, 1},  {true, 16, 4},
    {false, 1, 1}, {false, 1, 4}, {false, 4, 1}, {false, 16, 1}, {false, 16, 4},
};
#define KINDS (sizeof kinds / sizeof *kinds)

static struct lane lanes[LANES];
static mrg_mr *mr; /* of all lanes */
static struct ibv_mr *raw_mr;
static struct kind kind;

static void open_guarded(struct lane *lane, int number)
{
    struct sockaddr addr = {0};
    must(mrg_create_id(NULL, &lane->id, NULL, RDMA_PS_TCP) || mrg_bind_addr(lane->id, &addr));
    mrg_cq_init_attr_ex cq = {.cqe = 64,
                              .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
                              .flags = kind.single ? IBV_CREATE_CQ_ATTR_SINGLE_THREADED : 0};
    must(!(lane->cq = mrg_create_cq_ex(mrg_id_verbs(lane->id), &cq)));
    mrg_qp_init_attr attr = {
        .send_cq = lane->cq, .recv_cq = lane->cq, .cap = {64, 64, PIECES, PIECES, 0}, .single_threaded = kind.single};
    must(mrg_create_qp(lane->id, NULL, &attr));
    lane->qp = mrg_id_qp(lane->id);
    mrg_qp_raw(lane->qp)->handle = mrg_cq_raw(lane->cq)->handle = (uint32_t)number;
}

static void open_raw(struct lane *lane, struct ibv_pd *pd, int number)
{
    lane->raw_cq = verbs.create_cq(&stub_devices[0], 64, NULL, NULL, 0);
    struct rdma_cm_id *id;
    must(verbs.create_id(NULL, &id, NULL, RDMA_PS_TCP));
    id->verbs = &stub_devices[0];
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = lane->raw_cq, .recv_cq = lane->raw_cq, .cap = {64, 64, PIECES, PIECES, 0}, .pd = pd};
    must(verbs.create_qp(id, &attr));
    lane->raw_qp = id->qp;
    lane->raw_qp->handle = lane->raw_cq->handle = (uint32_t)number;
}

/* Each lane posts from a part of the memory of its own. */
static void write_chains(struct lane *lane, char *part)
{
    for (int i = 0; i < kind.batch; i++) {
        bool last = i == kind.batch - 1;
        for (int j = 0; j < kind.pieces; j++) {
            char *at = part + (i * PIECES + j) * 64;
            lane->sges[i * PIECES + j] = (mrg_sge){at, 64, mr};
            lane->raw_sges[i * PIECES + j] = (struct ibv_sge){(uintptr_t)at, 64, raw_mr->lkey};
        }
        lane->wrs[i] = (mrg_send_wr){.wr_id = (uint64_t)i,
                                     .next = last ? NULL : &lane->wrs[i + 1],
                                     .sg_list = &lane->sges[i * PIECES],
                                     .num_sge = kind.pieces,
                                     .opcode = IBV_WR_SEND,
                                     .send_flags = IBV_SEND_SIGNALED};
        lane->raw_wrs[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i,
                                                .next = last ? NULL : &lane->raw_wrs[i + 1],
                                                .sg_list = &lane->raw_sges[i * PIECES],
                                                .num_sge = kind.pieces,
                                                .opcode = IBV_WR_SEND,
                                                .send_flags = IBV_SEND_SIGNALED};
    }
}

static void set_up(const struct kind *of)
{
    kind = *of;
    stub_install();
    verbs.post_send = device_post;
    verbs.poll_cq = device_poll;
    struct ibv_pd *raw_pd = verbs.alloc_pd(&stub_devices[0]);
    raw_mr = verbs.reg_mr(raw_pd, memory, sizeof memory, 1);
    for (int i = 0; i < LANES; i++) {
        open_guarded(&lanes[i], i);
        open_raw(&lanes[i], raw_pd, LANES + i);
        if (i == 0)
            must(!(mr = mrg_reg_mr(mrg_id_pd(lanes[0].id), memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE)));
        write_chains(&lanes[i], memory + (size_t)i * sizeof memory / LANES);
    }
}

/* One batch is posted and polled. */

static void raw(struct lane *lane)
{
    struct ibv_send_wr *bad;
    struct ibv_wc wc[BATCH];
    must(verbs.post_send(lane->raw_qp, lane->raw_wrs, &bad));
    must(verbs.poll_cq(lane->raw_cq, BATCH, wc) != kind.batch);
}

static int post(struct lane *lane)
{
    mrg_send_wr *bad;
    if (kind.batch > 1)
        return mrg_ibv_post_send(lane->qp, lane->wrs, &bad);
    if (kind.pieces > 1)
        return mrg_post_sendv(lane->id, NULL, lane->sges, kind.pieces, IBV_SEND_SIGNALED);
    return mrg_post_send(lane->id, NULL, lane->sges[0].addr, 64, mr, IBV_SEND_SIGNALED);
}

static void guarded(struct lane *lane)
{
    struct ibv_wc wc[BATCH];
    must(post(lane));
    must(mrg_poll_cq(lane->cq, BATCH, wc) != kind.batch || wc[kind.batch - 1].wr_id != (uint64_t)kind.batch - 1);
}

static void nothing(struct lane *lane)
{
    (void)lane;
}

static void repeat(void (*operation)(struct lane *), struct lane *lane, int times)
{
    for (int i = 0; i < times; i++)
        operation(lane);
}

/* Under callgrind */

static void name_kind(char *name, size_t size)
{
    snprintf(name, size, "%s.%d.%d", kind.single ? "single" : "shared", kind.batch, kind.pieces);
}

static void dump(const char *side, void (*operation)(struct lane *))
{
    char name[32], label[64];
    name_kind(name, sizeof name);
    snprintf(label, sizeof label, "%s.%s", name, side);
    repeat(operation, &lanes[0], 40); /* around the ring, so nothing is done for the first time while we count */
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
    repeat(operation, &lanes[0], COUNTED);
    CALLGRIND_DUMP_STATS_AT(label);
    CALLGRIND_STOP_INSTRUMENTATION;
}

/* Natively */

#define RUNS 31
#define TIMED 32768 /* WRs of a thread in a run */

struct run {
    void (*operation)(struct lane *);
    struct lane *lane;
    pthread_barrier_t *start, *end;
};

static void *run_lane(void *arg)
{
    const struct run *run = arg;
    pthread_barrier_wait(run->start);
    repeat(run->operation, run->lane, TIMED / kind.batch);
    pthread_barrier_wait(run->end);
    return NULL;
}

/* ns for each WR of one thread, while so many run. */
static double time_of(void (*operation)(struct lane *), int threads)
{
    pthread_barrier_t start, end;
    pthread_t thread;
    struct timespec a, b;
    pthread_barrier_init(&start, NULL, (unsigned int)threads);
    pthread_barrier_init(&end, NULL, (unsigned int)threads);
    struct run other = {operation, &lanes[1], &start, &end};
    if (threads == 2)
        must(pthread_create(&thread, NULL, run_lane, &other));
    pthread_barrier_wait(&start);
    clock_gettime(CLOCK_MONOTONIC, &a);
    repeat(operation, &lanes[0], TIMED / kind.batch);
    pthread_barrier_wait(&end);
    clock_gettime(CLOCK_MONOTONIC, &b);
    if (threads == 2)
        pthread_join(thread, NULL);
    pthread_barrier_destroy(&start);
    pthread_barrier_destroy(&end);
    return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / TIMED;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void time_kind(int threads)
{
    double r[RUNS], g[RUNS], added[RUNS];
    char name[32];
    for (int i = 0; i < RUNS; i++) { /* who goes first has no advantage */
        if (i % 2)
            r[i] = time_of(raw, threads);
        g[i] = time_of(guarded, threads);
        if (!(i % 2))
            r[i] = time_of(raw, threads);
        added[i] = g[i] - r[i];
    }
    qsort(r, RUNS, sizeof *r, ascending);
    qsort(g, RUNS, sizeof *g, ascending);
    qsort(added, RUNS, sizeof *added, ascending);
    name_kind(name, sizeof name);
    printf("%s %d %.2f %.2f %.2f\n", name, threads, r[RUNS / 2], g[RUNS / 2], added[RUNS * 9 / 10] - added[RUNS / 10]);
}

/* Under lackey */

static volatile int mark;

static void trace(void)
{
    char here;
    printf("mark %p\nstack %p %p\n", (void *)&mark, (void *)((uintptr_t)&here - 65536),
           (void *)((uintptr_t)&here + 65536));
    fflush(stdout);
    repeat(guarded, &lanes[0], 40);
    repeat(guarded, &lanes[1], 40);
    mark = 1;
    repeat(guarded, &lanes[0], 40);
    mark = 2;
    repeat(guarded, &lanes[1], 40);
    mark = 3;
}

int main(int argc, char **argv)
{
    const char *what = argc == 2 ? argv[1] : "";
    if (!strcmp(what, "trace"))
        return set_up(&(struct kind){false, 1, 1}), trace(), 0;
    if (strcmp(what, "count") && strcmp(what, "time"))
        return fprintf(stderr, "usage: posts count | time | trace\n"), 2;
    for (size_t i = 0; i < KINDS; i++) {
        set_up(&kinds[i]);
        if (!strcmp(what, "count")) {
            dump("nothing", nothing);
            dump("raw", raw);
            dump("mrguard", guarded);
            continue;
        }
        time_kind(1);
        time_kind(2);
    }
    return 0;
}
