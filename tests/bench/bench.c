/*
 * What mrguard adds, over a stub provider: raw calls and mrguard's beside each other in one process.
 *
 *     bench count LIVE    under callgrind: a dump of instructions for each case, with LIVE other MRs registered
 *     bench time          lines "name raw mrguard spread": ns for each operation, medians of alternating runs
 *     bench bytes         "bytes N": memory for each live MR, at a million
 *
 * tests/bench/run reads all three.
 */
#include <mrguard/mrguard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#include "handle.h"
#include "stub.h"

#define MILLION 1000000
#define COUNTED 200 /* operations in a dump */

static char memory[4096];
static mrg_id *id;         /* its QP has a CQ to poll */
static mrg_id *waiting_id; /* its QP has CQs of its own to wait on */
static mrg_cq *cq;
static mrg_pd *pd;
static mrg_mr *mr;
static struct ibv_pd *raw_pd;
static struct ibv_qp *raw_qp;
static struct ibv_cq *raw_cq;
static struct ibv_mr *raw_mr;

static void must(int failed)
{
    if (failed)
        abort();
}

static void ignore_finding(const struct mrg_finding *finding, void *arg)
{
    (void)finding, (void)arg;
}

/* Registrations without malloc, so that memory and instructions are mrguard's alone. */
static struct ibv_mr *pool;
static size_t pool_used;

static struct ibv_mr *reg_from_pool(struct ibv_pd *on, void *addr, size_t length, int access)
{
    (void)access;
    struct ibv_mr *made = &pool[pool_used++ % (MILLION + 4096)];
    *made = (struct ibv_mr){.pd = on, .addr = addr, .length = length, .lkey = 1, .rkey = 1};
    return made;
}

static int dereg_to_pool(struct ibv_mr *raw)
{
    (void)raw;
    return 0;
}

static void set_up(void)
{
    stub_install();
    mrg_set_finding_handler(ignore_finding, NULL);
    pool = malloc((MILLION + 4096) * sizeof *pool);
    must(!pool);
    memset(pool, 1, (MILLION + 4096) * sizeof *pool);
    verbs.reg_mr = reg_from_pool;
    verbs.dereg_mr = dereg_to_pool;
    struct sockaddr addr = {0};
    mrg_qp_init_attr attr = {.cap = {64, 64, 4, 4, 0}, .single_threaded = !getenv("SHARED")}, shared = attr;
    mrg_cq_init_attr_ex one_poller = {.cqe = 64,
                                      .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
                                      .flags = getenv("SHARED") ? 0 : IBV_CREATE_CQ_ATTR_SINGLE_THREADED};
    must(mrg_create_id(NULL, &waiting_id, NULL, RDMA_PS_TCP) || mrg_bind_addr(waiting_id, &addr) ||
         mrg_create_qp(waiting_id, NULL, &attr));
    must(mrg_create_id(NULL, &id, NULL, RDMA_PS_TCP) || mrg_bind_addr(id, &addr));
    shared.send_cq = shared.recv_cq = cq = mrg_create_cq_ex(mrg_id_verbs(id), &one_poller);
    must(mrg_create_qp(id, NULL, &shared));
    pd = mrg_id_pd(id);
    mr = mrg_reg_read(id, memory, sizeof memory);
    must(!pd || !mr);
    raw_pd = verbs.alloc_pd(&stub_devices[0]);
    raw_mr = verbs.reg_mr(raw_pd, memory, sizeof memory, 1);
    struct rdma_cm_id *raw_id;
    must(verbs.create_id(NULL, &raw_id, NULL, RDMA_PS_TCP));
    raw_cq = verbs.create_cq(&stub_devices[0], 64, NULL, NULL, 0);
    raw_id->verbs = &stub_devices[0];
    struct ibv_qp_init_attr_ex raw_attr = {.send_cq = raw_cq, .recv_cq = raw_cq, .cap = attr.cap, .pd = raw_pd};
    must(verbs.create_qp(raw_id, &raw_attr));
    raw_qp = raw_id->qp;
    stub.lazy = true;
}

static void register_many(int live)
{
    for (int i = 0; i < live; i++)
        must(!mrg_reg_mr(pd, memory, sizeof memory, 1));
}

/* Cases: one operation each, raw and through mrguard. A raw of NULL has no raw counterpart. */

static void raw_reg(void)
{
    verbs.dereg_mr(verbs.reg_mr(raw_pd, memory, sizeof memory, 1));
}

static void mrg_reg(void)
{
    must(mrg_dereg_mr(mrg_reg_msgs(id, memory, sizeof memory)));
}

static void mrg_reg_deferred(void)
{
    mrg_mr_unref(mrg_reg_mr(pd, memory, sizeof memory, 1));
}

static void mrg_checks(void)
{
    mrg_mr *volatile handle = mr;
    must(!slot_find(handle, TYPE_MR) || !slot_find(handle, TYPE_MR) || !slot_find(handle, TYPE_MR) ||
         !slot_find(handle, TYPE_MR) || !slot_find(handle, TYPE_MR) || !slot_find(handle, TYPE_MR) ||
         !slot_find(handle, TYPE_MR) || !slot_find(handle, TYPE_MR));
}

static void raw_length(void)
{
    must(*(volatile size_t *)&raw_mr->length != 4096);
}

static void mrg_length(void)
{
    must(mrg_mr_length(mr) != 4096);
}

static void mrg_reference(void)
{
    mrg_mr_ref(mr);
    mrg_mr_unref(mr);
}

static void mrg_export(void)
{
    mrg_remote remote;
    must(mrg_mr_export(mr, 0, 4096, IBV_ACCESS_REMOTE_READ, &remote));
}

static void raw_recv(void)
{
    struct ibv_sge sge = {(uintptr_t)memory, 4096, raw_mr->lkey};
    struct ibv_recv_wr *bad, wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1};
    struct ibv_wc wc;
    must(verbs.post_recv(raw_qp, &wr, &bad));
    must(verbs.poll_cq(raw_cq, 1, &wc) != 1);
}

static void mrg_recv(void)
{
    struct ibv_wc wc;
    must(mrg_post_recv(id, (void *)7, memory, 4096, mr));
    must(mrg_poll_cq(cq, 1, &wc) != 1 || wc.wr_id != 7);
}

static void mrg_recv_comp(void)
{
    struct ibv_wc wc;
    must(mrg_post_recv(waiting_id, (void *)7, memory, 4096, mr));
    must(mrg_get_recv_comp(waiting_id, &wc) != 1 || wc.wr_id != 7);
}

static void raw_send(void)
{
    struct ibv_sge sge = {(uintptr_t)memory, 4096, raw_mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_wc wc;
    must(verbs.post_send(raw_qp, &wr, &bad));
    must(verbs.poll_cq(raw_cq, 1, &wc) != 1);
}

static void mrg_send(void)
{
    struct ibv_wc wc;
    must(mrg_post_send(id, (void *)7, memory, 4096, mr, IBV_SEND_SIGNALED));
    must(mrg_poll_cq(cq, 1, &wc) != 1 || wc.wr_id != 7);
}

static void mrg_refused_destroy(void)
{
    must(!mrg_dealloc_pd(pd));
}

static void mrg_refused_post(void)
{
    must(!mrg_post_recv(id, NULL, memory, 4097, mr));
}

static void mrg_statistics(void)
{
    struct mrg_stats stats;
    must(mrg_stats(&stats));
}

static const struct {
    const char *name;
    void (*raw)(void);
    void (*guarded)(void);
} cases[] = {
    {"register-release", raw_reg, mrg_reg},
    {"register-unref", raw_reg, mrg_reg_deferred},
    {"8-handle-checks", NULL, mrg_checks},
    {"accessor", raw_length, mrg_length},
    {"ref-unref", NULL, mrg_reference},
    {"export", NULL, mrg_export},
    {"post-recv-poll", raw_recv, mrg_recv},
    {"post-recv-get-comp", raw_recv, mrg_recv_comp},
    {"post-send-poll", raw_send, mrg_send},
    {"refused-post", NULL, mrg_refused_post},
    {"refused-destroy", NULL, mrg_refused_destroy},
    {"stats", NULL, mrg_statistics},
};
#define CASES (sizeof cases / sizeof *cases)

static void nothing(void)
{
}

static void repeat(void (*operation)(void), int times)
{
    for (int i = 0; i < times; i++)
        operation();
}

/* Under callgrind: one dump, named. */
static void dump(const char *name, const char *side, void (*operation)(void))
{
    char label[64];
    snprintf(label, sizeof label, "%s.%s", name, side);
    repeat(operation, 10); /* nothing is done for the first time while we count */
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
    repeat(operation, COUNTED);
    CALLGRIND_DUMP_STATS_AT(label);
    CALLGRIND_STOP_INSTRUMENTATION;
}

static void count(int live)
{
    register_many(live);
    dump("nothing", "raw", nothing);
    for (size_t i = 0; i < CASES; i++) {
        if (cases[i].raw)
            dump(cases[i].name, "raw", cases[i].raw);
        dump(cases[i].name, "mrguard", cases[i].guarded);
    }
}

/* Natively: medians of alternating runs, and the spread of their differences (10th to 90th percentile). */

#define RUNS 31
#define TIMED 20000

static double time_of(void (*operation)(void))
{
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    repeat(operation, TIMED);
    clock_gettime(CLOCK_MONOTONIC, &b);
    return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / TIMED;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void time_case(const char *name, void (*raw)(void), void (*guarded)(void))
{
    double r[RUNS], g[RUNS], added[RUNS];
    for (int i = 0; i < RUNS; i++) {
        r[i] = time_of(raw);
        g[i] = time_of(guarded);
        added[i] = g[i] - r[i];
    }
    qsort(r, RUNS, sizeof *r, ascending);
    qsort(g, RUNS, sizeof *g, ascending);
    qsort(added, RUNS, sizeof *added, ascending);
    printf("%s %.2f %.2f %.2f\n", name, r[RUNS / 2], g[RUNS / 2], added[RUNS * 9 / 10] - added[RUNS / 10]);
}

static long resident_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/smaps_rollup", "r"); /* exact, where VmRSS is counted in batches */
    must(!status);
    while (fgets(line, sizeof line, status))
        sscanf(line, "Rss: %ld", &kib);
    fclose(status);
    return kib;
}

static void bytes(void)
{
    register_many(1000); /* code and tables are there, and what the measuring takes */
    resident_kib();
    long before = resident_kib();
    register_many(MILLION);
    printf("bytes %.2f\n", (double)(resident_kib() - before) * 1024 / MILLION);
}

int main(int argc, char **argv)
{
    set_up();
    if (argc == 3 && !strcmp(argv[1], "count"))
        count(atoi(argv[2]));
    else if (argc == 2 && !strcmp(argv[1], "bytes"))
        bytes();
    else if (argc == 2 && !strcmp(argv[1], "time"))
        for (size_t i = 0; i < CASES; i++)
            time_case(cases[i].name, cases[i].raw ? cases[i].raw : nothing, cases[i].guarded);
    else
        return fprintf(stderr, "usage: bench count LIVE | time | bytes\n"), 2;
    return 0;
}
