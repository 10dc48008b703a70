/*
 * What mrguard adds to a registration over soft-RoCE: medians of 31 alternating runs of register and release, raw
 * beside mrguard in one process, as one record of JSON and a bar. Times here wander with the guest, so it is the ratio
 * that counts, and it is printed with its spread (10th to 90th percentile).
 */
#include <mrguard/mrguard.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define RUNS 31
#define PAIRS 200
#define BAR 1.05

static char memory[65536];
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
}

static void raw_pair(void)
{
    struct ibv_mr *mr = ibv_reg_mr(raw_pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    must(!mr || ibv_dereg_mr(mr), "ibv_reg_mr");
}

static void guarded_pair(void)
{
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
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
static void run(double *raw, double *guarded)
{
    double r[PAIRS], g[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        if (i % 2) /* whatever comes second has no advantage */
            g[i] = microseconds(guarded_pair);
        r[i] = microseconds(raw_pair);
        if (i % 2 == 0)
            g[i] = microseconds(guarded_pair);
    }
    qsort(r, PAIRS, sizeof *r, ascending);
    qsort(g, PAIRS, sizeof *g, ascending);
    *raw = r[PAIRS / 2];
    *guarded = g[PAIRS / 2];
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return fprintf(stderr, "usage: bench_reg ADDRESS\n"), 2;
    double raw[RUNS], guarded[RUNS], ratio[RUNS];
    set_up(argv[1]);
    run(&raw[0], &guarded[0]); /* nothing is done for the first time while we count */
    for (int i = 0; i < RUNS; i++) {
        run(&raw[i], &guarded[i]);
        ratio[i] = guarded[i] / raw[i];
    }
    qsort(raw, RUNS, sizeof *raw, ascending);
    qsort(guarded, RUNS, sizeof *guarded, ascending);
    qsort(ratio, RUNS, sizeof *ratio, ascending);
    double median = ratio[RUNS / 2], spread = ratio[RUNS * 9 / 10] - ratio[RUNS / 10];
    printf("{\"name\": \"register-release over rxe\", \"unit\": \"us\", \"raw\": %.2f, \"mrguard\": %.2f, "
           "\"ratio\": %.3f, \"runs\": %d, \"spread\": %.3f}\n",
           raw[RUNS / 2], guarded[RUNS / 2], median, RUNS, spread);
    printf("%d passed, %d failed\n", median <= BAR, median > BAR);
    return median > BAR;
}
