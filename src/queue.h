/*
 * Work in flight: a record for every WR posted, and the borrows that it holds.
 *
 * A QP has two queues, send and receive. A queue is a ring of records in the order of posting; a record keeps the
 * caller's wr_id and the MR of each SGE. The device is given a wr_id of ours that names QP, queue and record:
 *
 *     63      57 56 55 54         43 42   41       24 23        0
 *     [1 type   ][0][1][ generation ][recv][ record  ][ QP's slot ]
 *
 * Four functions are the whole protocol: begin, commit, withdraw, end. What is behind them, a mutex per queue and
 * a count in each MR, may change without any caller noticing. What must hold: no post reaches the device
 * with an MR that is deregistered, no MR is deregistered while a record names it, a deferred release is
 * finished by exactly one party, a refused dereg makes no valid post fail.
 */
#ifndef MRG_QUEUE_H
#define MRG_QUEUE_H

#include <infiniband/verbs.h>

#include "registry.h"

struct record {
    uint64_t wr_id; /* the caller's */
    uint32_t count; /* borrows */
};

/* head and tail count WRs since the queue was opened: tail <= head <= tail + mask + 1. */
struct queue {
    pthread_mutex_t lock;
    bool open;  /* posts may come */
    token qp;   /* whose */
    token name; /* our wr_id without the record; 0: never opened */
    uint32_t qp_num;
    uint64_t head;
    uint64_t tail;
    uint64_t mask; /* records, a power of two, less 1 */
    uint32_t max_sge;
    struct record *records;
    uint32_t *borrows;    /* slot indices, max_sge for each record */
    struct ibv_sge *sges; /* max_sge of them, for the post under way */
};

enum { SEND_QUEUE, RECV_QUEUE, QUEUES };

struct qp {
    struct body base;
    struct ibv_qp *raw;
    struct rdma_cm_id *cm; /* its qp field is cleared with the QP */
    uint32_t pd;           /* slot index */
    uint32_t max_inline;   /* bytes, as granted */
    bool ready;            /* the queues' mutexes are initialised: once for ever */
    struct queue queues[QUEUES];
};

static inline struct qp *qp_of(const struct slot *slot)
{
    return (struct qp *)slot->hot.body;
}

/* Makes a queue ready for depth WRs of max_sge pieces each. -1, ENOMEM. */
int queue_open(struct queue *queue, const struct slot *qp, int which, uint32_t qp_num, uint32_t depth,
               uint32_t max_sge);

/* No post comes in from here on; those under way are waited for. And back. */
void queue_shut(struct queue *queue);
void queue_reopen(struct queue *queue);

/* The queue's QP is gone: ends every borrow, frees the ring. Late completions are known by the queue's name. */
void queue_end_all(struct queue *queue);

struct wr {
    uint64_t wr_id; /* the caller's */
    const mrg_sge *sgl;
    int count;
    bool borrows; /* false: inline, its memory is not used once it is posted */
};

enum begin { BEGIN_OK, BEGIN_CLOSED, BEGIN_TOO_MANY, BEGIN_FULL, BEGIN_STALE };

/*
 * Takes a record on a queue of qp and borrows the MRs of all pieces that are neither empty nor without MR. On
 * success the queue is locked until commit or withdraw, and *ret_wr_id is what the device gets. BEGIN_CLOSED:
 * that QP is going or gone. BEGIN_TOO_MANY: more pieces than the *ret_piece that a WR can have. BEGIN_STALE:
 * *ret_piece is the first whose MR is gone. On any failure nothing is held.
 */
enum begin borrow_begin(struct queue *queue, token qp, const struct wr *wr, uint64_t *ret_wr_id, int *ret_piece);

/* The device has the WR. */
void borrow_commit(struct queue *queue);

/* The device does not have it. */
void borrow_withdraw(struct queue *queue);

enum completion {
    COMPLETION_FOREIGN, /* not of our posting: untouched */
    COMPLETION_OURS,    /* wr_id is the caller's again */
    COMPLETION_LATE,    /* its QP is gone: not to be handed out */
};

/* MRs whose deferred release waited for a borrow that has ended: to be released with no lock held. */
struct finished {
    uint32_t first; /* slot indices, chained by cold.next; 0: none */
};
void release_finished(struct finished *finished);

/*
 * Ends the borrows of a completed WR, and of all older ones of its queue. Takes the lock of the queue. Completions of a
 * CQ must come here in the order in which they were polled.
 */
enum completion borrow_end(struct ibv_wc *wc, struct finished *finished);

/* How many completions came late, in this process. */
uint64_t queue_late_completions(void);

#endif
