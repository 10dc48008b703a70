/*
 * Work in flight: a record for every WR posted, and the borrows that it holds.
 *
 * A QP has two queues, send and receive; an SRQ is one. A queue is a ring of records; a record keeps the caller's wr_id
 * and what each piece of the WR uses. The device is given a wr_id of ours that names the queue and the record:
 *
 *     63      57 56 55 54         43 42   41       24 23           0
 *     [1 type   ][0][1][ generation ][recv][ record  ][ owner's slot ]
 *
 * A QP's queue is in order: a completion ends its WR and all older ones, and the ring's order is that of posting. An
 * SRQ's WRs complete in any order: each completion ends its own, and the ring says which records are free.
 *
 * Four functions are the whole protocol: open, begin, close, end. What is behind them, a mutex per queue and a count
 * in each MR, may change without any caller noticing. What must hold: no post reaches the device with an MR that
 * is deregistered, no MR is deregistered while a record names it, a deferred release is finished by exactly one
 * party, a refused dereg makes no valid post fail.
 */
#ifndef MRG_QUEUE_H
#define MRG_QUEUE_H

#include <infiniband/verbs.h>

#include "registry.h"

/* What a WR may use besides the MR of each piece: an AH; or an MW, with the MRs that it is and was bound to. */
#define ALSO_MAX 3

struct record {
    uint64_t wr_id; /* the caller's */
    uint32_t count; /* borrows */
    bool in_flight; /* the device has it */
};

/* Objects whose deferred release waited for a use that has ended: to be released with no lock held. */
struct finished {
    uint32_t first; /* slot indices, chained by cold.next; 0: none */
};
void finished_add(struct finished *finished, struct slot *orphan);
void release_finished(struct finished *finished);

/* head and tail count WRs since the queue was made: tail <= head <= head + begun <= tail + mask + 1. */
struct queue {
    pthread_mutex_t lock;
    uint32_t shut;   /* how many keep posts out */
    token owner;     /* the QP's or SRQ's */
    token name;      /* our wr_id without the record; 0: never opened */
    uint32_t qp_num; /* 0: an SRQ's completions come from any QP */
    uint64_t head;
    uint64_t tail;
    uint64_t begun; /* by the post under way */
    uint64_t mask;  /* records, a power of two, less 1 */
    uint32_t max_sge;
    struct record *records;
    uint32_t *borrows;        /* slot indices, max_sge + ALSO_MAX for each record */
    uint32_t *order;          /* SRQ: the record at each place of the ring; NULL: the place is the record */
    struct ibv_sge *sges;     /* GROUP * max_sge of them, for the post under way */
    struct finished finished; /* by the post under way: released by borrow_close */
};

/* WRs that are handed to the device together. */
#define GROUP 16

enum { SEND_QUEUE, RECV_QUEUE, QUEUES };

/* The bodies of QPs and SRQs begin with this. An SRQ has a receive queue alone. */
struct queues {
    struct body base;
    bool ready;  /* the queues' mutexes are initialised: once for ever */
    uint32_t pd; /* slot index of the PD that pieces must be on; 0: none (an XRC QP that receives) */
    struct queue at[QUEUES];
};

static inline struct queues *queues_of(const struct slot *slot)
{
    return (struct queues *)slot->hot.body;
}

/* What a queue is made for. */
struct queue_size {
    uint32_t depth;   /* WRs */
    uint32_t max_sge; /* pieces of each */
    bool in_order;
};

/* To be called of every new owner. Mutexes live as long as the owner's body, which is for ever. */
void queues_prepare(struct queues *queues);

/* Makes a queue ready; which: SEND_QUEUE or RECV_QUEUE. -1, ENOMEM. */
int queue_open(struct queue *queue, const struct slot *owner, int which, uint32_t qp_num,
               const struct queue_size *size);

/* No post comes in from here on; those under way are waited for. And back. */
void queue_shut(struct queue *queue);
void queue_reopen(struct queue *queue);

/* The device has dropped what was in flight (reset): ends every borrow. Late completions are swallowed. */
void queue_drop_all(struct queue *queue, struct finished *finished);

/* The queue's owner is gone: likewise, and frees the ring. Late completions are known by the queue's name. */
void queue_end_all(struct queue *queue);

struct wr {
    uint64_t wr_id; /* the caller's */
    const mrg_sge *sgl;
    int count;
    bool borrows; /* false: inline, its memory is not used once it is posted */
    int also_count;
    int also_optional; /* so many of the last ones may be deferred, or gone */
    struct {
        token handle;
        enum type type;
    } also[ALSO_MAX];
};

enum begin { BEGIN_OK, BEGIN_CLOSED, BEGIN_TOO_MANY, BEGIN_FULL, BEGIN_STALE };

/* Locks the queue for a post, until borrow_close. BEGIN_CLOSED, and not locked: its owner is going or gone. */
enum begin borrow_open(struct queue *queue, token owner);

/*
 * Takes one more record and borrows the MRs of all pieces that are neither empty nor without MR, and what the WR uses
 * also. BEGIN_TOO_MANY: more pieces than a WR can have. BEGIN_STALE: *ret_piece is the first whose MR is gone; count
 * of pieces and above: the first of also. After any failure the post can only be closed.
 */
enum begin borrow_begin(struct queue *queue, const struct wr *wr, int *ret_piece);

#define RECORD_SHIFT INDEX_BITS
#define RECORD_BITS 18
#define RECORD_MASK ((UINT64_C(1) << RECORD_BITS) - 1)

/* The record at a place of the ring. */
static inline uint32_t record_at(const struct queue *queue, uint64_t position)
{
    uint32_t place = (uint32_t)(position & queue->mask);
    return queue->order ? queue->order[place] : place;
}

/* What the device is to get as the wr_id of the n-th WR begun, from 0. */
static inline uint64_t borrow_wr_id(const struct queue *queue, uint64_t n)
{
    uint64_t record = queue->order ? record_at(queue, queue->head + n) : queue->head + n;
    return queue->name | (record & RECORD_MASK) << RECORD_SHIFT;
}

/* The device has the first posted WRs of those begun; the others are withdrawn. Unlocks the queue. */
void borrow_close(struct queue *queue, uint64_t posted);

enum completion {
    COMPLETION_FOREIGN, /* not of our posting: untouched */
    COMPLETION_OURS,    /* wr_id is the caller's again */
    COMPLETION_LATE,    /* its owner is gone or was reset: not to be handed out */
};

/*
 * Ends the borrows of a completed WR, and of all older ones of an ordered queue. Takes the lock of the queue. Completions
 * of a CQ must come here in the order in which they were polled.
 */
enum completion borrow_end(struct ibv_wc *wc, struct finished *finished);

/* How many completions came late, in this process. */
uint64_t queue_late_completions(void);

#endif
