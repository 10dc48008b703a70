/*
 * Work in flight: a record for every WR posted, and the borrows that it holds.
 *
 * A QP has two queues, send and receive; an SRQ is one. A queue is a ring of records; a record keeps the caller's wr_id
 * and a cell (cells.h) for each thing that the WR uses. The device is given a wr_id of ours that names the queue and
 * the record:
 *
 *     63      57 56 55 54         43 42   41       24 23           0
 *     [1 type   ][0][1][ generation ][recv][ record  ][ owner's slot ]
 *
 * A QP's queue is in order: a completion ends its WR and all older ones, and the ring's order is that of posting. An
 * SRQ's WRs complete in any order: each completion ends its own, and the ring says which records are free.
 *
 * Four functions are the whole protocol: open, begin, close, end. What must hold: no post reaches the device with an MR
 * that is deregistered, no MR is deregistered while a record names it, a deferred release is finished by exactly one
 * party, a refused dereg makes no valid post fail.
 *
 * Who posts is inside the queue's gate; who ends a completion is inside the gate of the CQ that the queue completes to
 * (an SRQ's: of its own, since several CQs have its completions). Both gates are shut while a queue is taken down or
 * reset, so neither ever meets a ring that is gone. Between the two head and tail pass on what one wrote to the other.
 */
#ifndef MRG_QUEUE_H
#define MRG_QUEUE_H

#include <infiniband/verbs.h>

#include "alias.h"
#include "gate.h"
#include "registry.h"

/* What a WR may use besides the MR of each piece: an AH; or an MW, with the MRs that it is and was bound to. */
#define ALSO_MAX 3

struct record {
    uint64_t wr_id; /* the caller's */
    uint32_t count; /* cells in use */
    bool in_flight; /* SRQ: the device may have it */
    _Atomic token cells[];
};

/* Objects whose deferred release waited for a use that has ended: to be released with no lock held. */
struct finished {
    uint32_t first; /* slot indices, chained by cold.next; 0: none */
};
void finished_add(struct finished *finished, struct slot *orphan);
void release_finished(struct finished *finished);

struct queue;

/*
 * Where completions are ended, by whoever is inside the gate: a CQ has one, and an SRQ. The completion that is expected
 * next, if it is the next of the queue that had the last one, is known at a glance.
 */
struct endings {
    _Alignas(LINE) struct gate gate;
    uint64_t expected; /* our wr_id */
    struct queue *expecting;
};
void endings_reset(struct endings *endings); /* nothing is expected */

/* Positions count WRs since the queue was made: cells.tail <= cells.head <= cells.tail + cells.mask + 1. */
struct queue {
    _Atomic token owner; /* the QP or SRQ; 0: the queue is closed */
    _Atomic token name;  /* our wr_id without the record; 0: likewise */
    struct endings *_Atomic endings;
    uint32_t qp_num; /* 0: an SRQ's completions come from any QP */
    uint32_t max_sge;
    uint32_t *order;      /* SRQ: the record at each place of the ring; NULL: the place is the record */
    struct ibv_sge *sges; /* (GROUP + 1) * max_sge of them, for the post under way */
    struct use *uses;     /* in the debug build: one for each cell, by record */

    /* Of the post under way, inside the gate */
    _Alignas(LINE) struct gate posts;
    uint64_t room;            /* the tail as it was last seen */
    uint64_t depth;           /* WRs, as granted: the ring may have more records */
    struct finished finished; /* released by borrow_close */

    struct cells cells;
    struct endings own_endings; /* of an SRQ */
};

/* WRs that are handed to the device together. */
#define GROUP 16

enum { SEND_QUEUE, RECV_QUEUE, QUEUES };

/* The bodies of QPs and SRQs begin with this. An SRQ has a receive queue alone. */
struct queues {
    struct body base;
    uint32_t pd; /* slot index of the PD that pieces must be on; 0: none (an XRC QP that receives) */
    struct queue at[QUEUES];
};

static inline struct queues *queues_of(const struct slot *slot)
{
    return (struct queues *)slot->hot.body;
}

/* What a queue is made for. */
struct queue_size {
    uint32_t depth;          /* WRs */
    uint32_t max_sge;        /* pieces of each */
    uint32_t qp_num;         /* of the QP; 0: an SRQ */
    struct endings *endings; /* of the CQ that it completes to; NULL: the queue's own */
    bool in_order;           /* false: an SRQ */
    bool single_threaded;    /* one thread at a time posts */
};

/* Makes a queue ready; which: SEND_QUEUE or RECV_QUEUE. -1, ENOMEM. */
int queue_open(struct queue *queue, const struct slot *owner, int which, const struct queue_size *size);

/* No post comes in from here on; those under way are waited for. And back. */
void queue_shut(struct queue *queue);
void queue_reopen(struct queue *queue);

/* The queue is shut, and the device has dropped what was in flight (reset): ends every borrow. */
void queue_drop_all(struct queue *queue, struct finished *finished);

/* The queue is shut, and its owner gone: likewise, and frees the ring. Late completions are known by the queue's name. */
void queue_end_all(struct queue *queue);

enum begin { BEGIN_OK, BEGIN_CLOSED, BEGIN_TOO_MANY, BEGIN_FULL, BEGIN_STALE, BEGIN_RULE };

#define RECORD_SHIFT INDEX_BITS
#define RECORD_BITS 18
#define RECORD_MASK ((UINT64_C(1) << RECORD_BITS) - 1)
#define RECV_SHIFT (RECORD_SHIFT + RECORD_BITS)

/* The number of the record at a position, and a record by its number, which may be a position too if it is in order. */
static inline uint32_t record_at(const struct queue *queue, uint64_t position)
{
    uint32_t place = (uint32_t)(position & queue->cells.mask);
    return __builtin_expect(queue->order != NULL, 0) ? queue->order[place] : place;
}

static inline struct record *record_of(const struct queue *queue, uint64_t record)
{
    return (struct record *)((char *)cells_at(&queue->cells, record) - offsetof(struct record, cells));
}

/* In the debug build: what the pieces of a record's WR do to memory, max_sge uses. */
static inline struct use *uses_of(const struct queue *queue, const struct record *record)
{
    size_t bytes = (size_t)((const char *)record->cells - (const char *)queue->cells.at);
    return &queue->uses[bytes / queue->cells.stride * queue->max_sge];
}

/* What the device is to get as the wr_id of the WR begun at a position. */
static inline uint64_t borrow_wr_id(const struct queue *queue, uint64_t position)
{
    uint64_t record = __builtin_expect(queue->order != NULL, 0) ? record_at(queue, position) : position;
    return atomic_load_explicit(&queue->name, memory_order_relaxed) | (record & RECORD_MASK) << RECORD_SHIFT;
}

/*
 * Posting. Enters the queue's gate until borrow_close, which is told the same way; *ret is where the first record is to
 * be taken. BEGIN_CLOSED, and outside: the queue's owner is going or gone.
 */
static inline enum begin borrow_open(struct queue *queue, token owner, unsigned int way, uint64_t *ret)
{
    gate_enter(&queue->posts, way);
    if (gate_is_open(&queue->posts, owner)) {
        *ret = atomic_load_explicit(&queue->cells.head, memory_order_relaxed);
        return BEGIN_OK;
    }
    gate_leave(&queue->posts, way);
    return BEGIN_CLOSED;
}

/* Whether a handle has the form of one of a type, and a slot. */
static inline bool names_slot(token t, enum type type)
{
    return __builtin_expect((t & INDEX_MASK) < atomic_load_explicit(&slot_committed, memory_order_acquire) &&
                                t >> 57 == token_base(type) >> 57,
                            1);
}

/* Whether there is a record for the WR at a position. The tail is the other side's: it is looked at when it must be. */
static ALWAYS_INLINE bool queue_has_room(struct queue *queue, uint64_t position)
{
    if (__builtin_expect(position - queue->room < queue->depth, 1))
        return true;
    queue->room = atomic_load_explicit(&queue->cells.tail, memory_order_acquire);
    return position - queue->room < queue->depth;
}

/*
 * Takes the record at a position for a WR of at most max_sge pieces, and borrows the MRs of those that are neither empty
 * nor without MR. BEGIN_STALE: *stale is no handle of an MR; the record is taken. After any failure what was begun
 * before may go on to borrow_publish.
 */
static ALWAYS_INLINE enum begin borrow_begin(struct queue *queue, uint64_t position, uint64_t wr_id, const mrg_sge *sgl,
                                             int count, token *stale)
{
    if (!queue_has_room(queue, position))
        return BEGIN_FULL;
    struct record *record = record_of(queue, record_at(queue, position));
    _Atomic token *cell = record->cells;
    enum begin result = BEGIN_OK;
    for (const mrg_sge *piece = sgl; count; count--, piece++) {
        token t = handle_token(piece->mr);
        if (__builtin_expect(!piece->length || !t, 0))
            continue;
        if (!names_slot(t, TYPE_MR)) {
            *stale = t;
            result = BEGIN_STALE;
            break;
        }
        filter_add(slot_at(t), queue->cells.bit);
        cell_publish(cell++, t);
    }
    record->wr_id = wr_id;
    record->count = (uint32_t)(cell - record->cells);
    record->in_flight = true;
    return result;
}

/* What the WR begun at a position uses besides: false, nothing done, if that is no handle of the type. */
bool borrow_also(struct queue *queue, uint64_t position, token t, enum type type);

/*
 * Whoever releases an object sees from here on that a WR begun before end uses it. So whether everything is alive is to be
 * looked at now: with object_stays or, for all that the WR at a position uses, borrow_stays; *stale is what is not. Of
 * the last ones optional may be gone.
 */
static inline void borrow_publish(struct queue *queue, uint64_t end)
{
    atomic_store_explicit(&queue->cells.head, end, memory_order_release);
    full_fence();
}
bool borrow_stays(struct queue *queue, uint64_t position, int optional, token *stale);

/* Withdraws the WRs begun from first up to end: the device does not have them. */
void borrow_withdraw(struct queue *queue, uint64_t first, uint64_t end);

/* Leaves the gate, and releases what was waiting for a withdrawal. */
static inline void borrow_close(struct queue *queue, unsigned int way)
{
    struct finished finished = queue->finished;
    queue->finished.first = 0;
    gate_leave(&queue->posts, way);
    if (__builtin_expect(finished.first != 0, 0))
        release_finished(&finished);
}

/* Completions */

enum completion {
    COMPLETION_FOREIGN, /* not of our posting: untouched */
    COMPLETION_OURS,    /* wr_id is the caller's again */
    COMPLETION_LATE,    /* its owner is gone or was reset: not to be handed out */
};

/* A borrow has ended of an object that is not live. */
void borrow_ended(struct slot *used, token t, struct finished *finished);

static ALWAYS_INLINE void end_cell(_Atomic token *cell, struct finished *finished)
{
    token t = atomic_load_explicit(cell, memory_order_relaxed);
    cell_clear(cell);
    light_fence();
    if (__builtin_expect(word_now(slot_at(t)) != word_with(t, STATE_LIVE), 0))
        borrow_ended(slot_at(t), t, finished);
}
void end_cells(struct record *record, struct finished *finished);

/* Ends the borrows of a record. */
static ALWAYS_INLINE void end_record(const struct queue *queue, struct record *record, struct finished *finished)
{
    if (DEBUG_BUILD)
        alias_end(uses_of(queue, record), queue->max_sge);
    if (__builtin_expect(record->count == 1, 1))
        end_cell(&record->cells[0], finished);
    else
        end_cells(record, finished);
}

/* Likewise of any completion, one that is not the next of its queue, or late, or foreign. */
enum completion borrow_end_any(struct endings *endings, struct ibv_wc *wc, struct finished *finished);

/*
 * Ends the borrows of a completed WR, and of all older ones of an ordered queue. The caller is inside the CQ's gate, and
 * brings a CQ's completions in the order in which they were polled.
 */
static ALWAYS_INLINE enum completion borrow_end(struct endings *endings, struct ibv_wc *wc, struct finished *finished)
{
    struct queue *queue = endings->expecting;
    if (__builtin_expect(wc->wr_id != endings->expected || wc->qp_num != queue->qp_num, 0))
        return borrow_end_any(endings, wc, finished);
    uint64_t tail = atomic_load_explicit(&queue->cells.tail, memory_order_relaxed);
    if (__builtin_expect(tail == atomic_load_explicit(&queue->cells.head, memory_order_acquire), 0))
        return borrow_end_any(endings, wc, finished);
    struct record *record = record_of(queue, tail);
    wc->wr_id = record->wr_id;
    end_record(queue, record, finished);
    atomic_store_explicit(&queue->cells.tail, tail + 1, memory_order_release);
    endings->expected =
        borrow_wr_id(queue, tail + 1); /* not counted up: above the record's number stands which queue */
    return COMPLETION_OURS;
}

/* How many WRs are in flight, but for those that are being posted or polled at this moment. */
static inline uint64_t queue_in_flight(const struct queue *queue)
{
    uint64_t tail = atomic_load_explicit(&queue->cells.tail, memory_order_acquire);
    return atomic_load_explicit(&queue->cells.head, memory_order_relaxed) - tail;
}

/* How many completions came late, in this process. */
uint64_t queue_late_completions(void);

#endif
