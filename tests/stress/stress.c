/*
 * Threads that do everything to everybody's objects at once, over the stub provider: most calls are refused, none may
 * crash, race, hang or leak. Built with ThreadSanitizer, where Criterion cannot run. usage: stress SECONDS
 */
#include <errno.h>
#include <mrguard/mrguard.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stub.h"

#define THREADS 4
#define SHARED 16

static char memory[65536];
static mrg_id *ids[2]; /* live throughout; their QPs come and go */
static mrg_cq *cq;
static mrg_pd *pd;
static _Atomic(mrg_cq *) passing_cqs[2]; /* come and go while they are polled */
static mrg_mr *anchors[2];               /* one MR of each id that stays: no id can go */
static _Atomic(mrg_mr *) mrs[SHARED];    /* anybody's to use and to release, gone or not */
static _Atomic(mrg_mw *) mws[4];         /* likewise to bind, invalidate and dealloc */
static _Atomic(mrg_borrow *) borrows[4]; /* likewise to end */
static atomic_bool over;
static _Atomic long done, refused;

static void count_refusal(const struct mrg_finding *finding, void *arg)
{
    (void)finding, (void)arg;
    atomic_fetch_add(&refused, 1);
}

static void must(int failed, const char *what)
{
    if (failed) {
        perror(what);
        abort();
    }
}

static void make_qp(mrg_id *id)
{
    mrg_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .cap = {64, 64, 2, 2, 0}};
    if (mrg_create_qp(id, NULL, &attr))
        return; /* another thread was faster */
}

static void make_mr(mrg_id *id, unsigned int r)
{
    mrg_mr *mr = r % 2 ? mrg_reg_msgs(id, memory, sizeof memory)
                       : mrg_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    must(!mr, "registration");
    mrg_mr *before = atomic_exchange(&mrs[r / 2 % SHARED], mr);
    if (before && mrg_dereg_mr(before))
        mrg_mr_unref(before); /* in flight, or referenced: later then; or somebody else's release came first */
}

static void use_mr(mrg_mr *mr)
{
    if (mrg_mr_ref(mr) != mr)
        return;
    mrg_remote remote;
    mrg_mr_export(mr, 0, 1, IBV_ACCESS_REMOTE_READ, &remote);
    mrg_mr_unref(mr);
}

static void poll_some(void)
{
    struct ibv_wc wc[8];
    int got = mrg_poll_cq(cq, 8, wc);
    must(got < 0, "mrg_poll_cq");
    for (int i = 0; i < got; i++)
        must(wc[i].wr_id != 42, "a completion brings another wr_id");
}

static void replace_cq(unsigned int r)
{
    mrg_cq *made = mrg_create_cq(mrg_id_verbs(ids[0]), 16, NULL, NULL, 0);
    must(!made, "mrg_create_cq");
    mrg_cq *before = atomic_exchange(&passing_cqs[r & 1], made);
    must(before && mrg_destroy_cq(before), "a CQ that only others poll was not destroyed");
}

/* None has a QP, so none has completions; a poll of one that is gone is refused. */
static void poll_passing_cq(unsigned int r)
{
    struct ibv_wc wc;
    mrg_cq *passing = atomic_load(&passing_cqs[r & 1]);
    must(passing && mrg_poll_cq(passing, 1, &wc) > 0, "a completion out of nowhere");
}

static void replace_mw(unsigned int r)
{
    mrg_mw *made = mrg_alloc_mw(pd, IBV_MW_TYPE_2);
    must(!made, "mrg_alloc_mw");
    mrg_mw *before = atomic_exchange(&mws[r & 3], made);
    while (before && mrg_dealloc_mw(before)) /* busy while its bind is in flight: somebody polls */
        must(errno != EBUSY, "a window that nobody else deallocs"), poll_some();
}

/* Binds a window to an MR, or invalidates it, in a chain behind a send. */
static void change_window(mrg_id *id, mrg_mr *mr, unsigned int r)
{
    mrg_mw *mw = atomic_load(&mws[r & 3]);
    mrg_qp *qp = mrg_id_qp(id);
    mrg_sge sge = {memory, 64, mr};
    mrg_send_wr *bad, second = {.wr_id = 42, .opcode = r & 4 ? IBV_WR_BIND_MW : IBV_WR_LOCAL_INV};
    mrg_send_wr first = {.wr_id = 42, .next = &second, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    second.send_flags = IBV_SEND_SIGNALED;
    second.bind_mw.mw = mw;
    second.bind_mw.rkey = mrg_inc_rkey(mrg_mw_rkey(mw));
    second.bind_mw.bind_info = (mrg_mw_bind_info){mr, (uintptr_t)memory, 64, IBV_ACCESS_REMOTE_READ};
    if (mrg_ibv_post_send(qp, &first, &bad))
        return; /* the MR, the QP or the window is gone, or in another thread's hands */
}

static void borrow_or_end(mrg_mr *mr, unsigned int r)
{
    mrg_borrow *made = NULL;
    if (r & 4 && mrg_borrow_begin(mr, memory, 64, 0, &made))
        return;
    mrg_borrow *before = atomic_exchange(&borrows[r & 3], made);
    must(before && mrg_borrow_end(before), "mrg_borrow_end");
}

static void flush(mrg_id *id)
{
    mrg_destroy_qp(id);
    make_qp(id);
}

static void act(unsigned int r)
{
    mrg_id *id = ids[r >> 8 & 1];
    mrg_mr *mr = atomic_load(&mrs[r >> 9 & (SHARED - 1)]);
    switch (r & 15) {
    case 0:
    case 1:
        make_mr(id, r >> 13);
        break;
    case 2:
    case 3:
        use_mr(mr);
        break;
    case 4:
        mrg_dereg_mr(mr);
        break;
    case 5:
        must(!mrg_destroy_id(id), "an id with a QP or MRs was destroyed");
        break;
    case 6:
        if ((r >> 13 & 63) == 0)
            flush(id);
        break;
    case 7:
        must(!mrg_dealloc_pd(pd), "a PD that its ids need was destroyed");
        break;
    case 8:
        poll_some();
        break;
    case 9:
        if (r >> 13 & 3)
            poll_passing_cq(r >> 15);
        else
            replace_cq(r >> 15);
        break;
    case 10:
        if ((r >> 13 & 15) == 0)
            replace_mw(r >> 17);
        else
            change_window(id, mr, r >> 17);
        break;
    case 11:
        borrow_or_end(mr, r >> 17);
        break;
    case 12:
        mrg_post_recv(id, (void *)42, memory, 64, mr);
        break;
    default:
        mrg_post_send(id, (void *)42, memory, 64, mr, IBV_SEND_SIGNALED);
        break;
    }
    atomic_fetch_add_explicit(&done, 1, memory_order_relaxed);
}

static void *run(void *arg)
{
    uint64_t x = (uintptr_t)arg * UINT64_C(0x9e3779b97f4a7c15) + 1;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        act((unsigned int)(x >> 32));
    }
    return NULL;
}

static void set_up(void)
{
    struct sockaddr addr = {0};
    stub_install();
    mrg_set_finding_handler(count_refusal, NULL);
    for (int i = 0; i < 2; i++)
        must(mrg_create_id(NULL, &ids[i], NULL, RDMA_PS_TCP) || mrg_bind_addr(ids[i], &addr), "id");
    cq = mrg_create_cq(mrg_id_verbs(ids[0]), 1024, NULL, NULL, 0);
    pd = mrg_id_pd(ids[0]);
    must(!cq || !pd, "CQ and PD");
    for (int i = 0; i < 2; i++) {
        make_qp(ids[i]);
        must(!(anchors[i] = mrg_reg_read(ids[i], memory, 1)), "anchor");
    }
    for (unsigned int i = 0; i < SHARED; i++)
        make_mr(ids[i % 2], 2 * i);
}

static void take_down(void)
{
    for (unsigned int i = 0; i < 4; i++)
        borrow_or_end(NULL, i);
    for (int i = 0; i < 2; i++)
        must(mrg_destroy_qp(ids[i]) || mrg_dereg_mr(anchors[i]), "mrg_destroy_qp");
    for (int i = 0; i < 4; i++)
        must(mws[i] && mrg_dealloc_mw(mws[i]), "mrg_dealloc_mw");
    for (int i = 0; i < SHARED; i++)
        mrg_dereg_mr(mrs[i]); /* or it is gone already */
    for (int i = 0; i < 2; i++)
        must(mrg_destroy_id(ids[i]), "mrg_destroy_id");
    must(mrg_destroy_cq(cq), "mrg_destroy_cq");
    for (int i = 0; i < 2; i++)
        must(passing_cqs[i] && mrg_destroy_cq(passing_cqs[i]), "mrg_destroy_cq");
    must(mrg_dealloc_pd(pd), "mrg_dealloc_pd");
    struct mrg_stats stats;
    mrg_stats(&stats);
    must(stats.live_mrs || stub.live_mrs || stub.live_pds || stub.live_cqs || stub.live_qps || stub.live_ids ||
             stub.live_others,
         "something is left");
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return fprintf(stderr, "usage: stress SECONDS\n"), 2;
    pthread_t threads[THREADS];
    set_up();
    for (uintptr_t i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, run, (void *)(i + 1)), "pthread_create");
    struct timespec span = {.tv_sec = atoi(argv[1])};
    nanosleep(&span, NULL);
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    take_down();
    printf("%ld calls by %d threads, %ld refused\n1 passed, 0 failed\n", done, THREADS, refused);
    return 0;
}
