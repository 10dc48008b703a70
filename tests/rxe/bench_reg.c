/*
 * What mrguard adds to a registration over soft-RoCE: medians of alternating runs of register and release, raw beside
 * mrguard in one process, a record of JSON for each size, and a bar on the smallest but one. Times here wander with the
 * guest, so it is the ratio that counts, and it is printed with its spread (10th to 90th percentile).
 */
#include <mrguard/mrguard.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define RUNS 31
#define PAIRS 200
#define BAR 1.05

static const struct {
    size_t length; /* bytes */
    int runs;
    int pairs; /* in a run */
    bool bar;
} sizes[] = {
    {4096, RUNS, PAIRS, false}, {65536, RUNS, PAIRS, true}, {1 << 20, 15, 60, false},
    {16 << 20, 9, 8, false},    {64 << 20, 9, 2, false},
};
#define LARGEST ((size_t)64 << 20)

static char *memory;
static size_t length;
static mrg_id *id;
static struct ibv_pd *raw_pd;

static void must(int failed, const char *what)
{
    if (failed) {
        perror(what);
        exit(1);
    }
}

static void set_up(const char *host)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *at;
    struct rdma_cm_id *raw;
    must(rdma_getaddrinfo(host, "0", &hints, &at), host);
    must(mrg_create_id(NULL, &id, NULL, RDMA_PS_TCP) || mrg_bind_addr(id, at->ai_src_addr), "id");
    must(rdma_create_id(NULL, &raw, NULL, RDMA_PS_TCP) || rdma_bind_addr(raw, at->ai_src_addr), "raw id");
    rdma_freeaddrinfo(at);
    raw_pd = raw->pd;
    memory = calloc(1, LARGEST);
    must(!memory, "memory");
}

static void raw_pair(void)
{
    struct ibv_mr *mr = ibv_reg_mr(raw_pd, memory, length, IBV_ACCESS_LOCAL_WRITE);
    must(!mr || ibv_dereg_mr(mr), "ibv_reg_mr");
}

static void guarded_pair(void)
{
    mrg_mr *mr = mrg_reg_msgs(id, memory, length);
    must(!mr || mrg_dereg_mr(mr), "mrg_reg_msgs");
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double microseconds(void (*pair)(void))
{
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    pair();
    clock_gettime(CLOCK_MONOTONIC, &b);
    return (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3;
}

/* Raw and guarded pairs by turns; the median of each, so that whatever interrupts one of them does not count. */
static void run(int pairs, double *raw, double *guarded)
{
    double r[PAIRS], g[PAIRS];
    for (int i = 0; i < pairs; i++) {
        if (i % 2) /* whatever comes second has no advantage */
            g[i] = microseconds(guarded_pair);
        r[i] = microseconds(raw_pair);
        if (i % 2 == 0)
            g[i] = microseconds(guarded_pair);
    }
    qsort(r, (size_t)pairs, sizeof *r, ascending);
    qsort(g, (size_t)pairs, sizeof *g, ascending);
    *raw = r[pairs / 2];
    *guarded = g[pairs / 2];
}

/* The median ratio of a size. */
static double measure(int runs, int pairs)
{
    double raw[RUNS], guarded[RUNS], ratio[RUNS];
    run(pairs, &raw[0], &guarded[0]); /* nothing is done for the first time while we count */
    for (int i = 0; i < runs; i++) {
        run(pairs, &raw[i], &guarded[i]);
        ratio[i] = guarded[i] / raw[i];
    }
    qsort(raw, (size_t)runs, sizeof *raw, ascending);
    qsort(guarded, (size_t)runs, sizeof *guarded, ascending);
    qsort(ratio, (size_t)runs, sizeof *ratio, ascending);
    printf("{\"name\": \"register-release of %zu bytes over rxe\", \"unit\": \"us\", \"raw\": %.2f, \"mrguard\": %.2f, "
           "\"ratio\": %.3f, \"runs\": %d, \"spread\": %.3f}\n",
           length, raw[runs / 2], guarded[runs / 2], ratio[runs / 2], runs, ratio[runs * 9 / 10] - ratio[runs / 10]);
    fflush(stdout);
    return ratio[runs / 2];
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return fprintf(stderr, "usage: bench_reg ADDRESS\n"), 2;
    int failed = 0;
    set_up(argv[1]);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        length = sizes[i].length;
        failed |= measure(sizes[i].runs, sizes[i].pairs) > BAR && sizes[i].bar;
    }
    printf("%d passed, %d failed\n", !failed, failed);
    return failed;
}
