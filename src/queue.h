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

#include "gate.h"
#include "registry.h"

/* What a WR may use besides the MR of each piece: an AH; or an MW, with the MRs that it is and was bound to. */
#define ALSO_MAX 3

struct record {
    uint64_t wr_id; /* the caller's */
    uint32_t count; /* cells in use */
    bool in_flight; /* SRQ: the device may have it */
};

/* Objects whose deferred release waited for a use that has ended: to be released with no lock held. */
struct finished {
    uint32_t first; /* slot indices, chained by cold.next; 0: none */
};
void finished_add(struct finished *finished, struct slot *orphan);
void release_finished(struct finished *finished);

/*
 * Positions count WRs since the queue was made: cells.tail <= began <= cells.head <= next <= cells.tail + cells.mask + 1.
 */
struct queue {
    _Atomic token owner;          /* the QP or SRQ; 0: the queue is closed */
    _Atomic token name;           /* our wr_id without the record; 0: likewise */
    struct gate *_Atomic endings; /* inside it completions are ended */
    uint32_t qp_num;              /* 0: an SRQ's completions come from any QP */
    uint32_t max_sge;
    struct record *records;
    uint32_t *order;      /* SRQ: the record at each place of the ring; NULL: the place is the record */
    struct ibv_sge *sges; /* (GROUP + 1) * max_sge of them, for the post under way */

    /* Of the post under way, inside the gate */
    _Alignas(LINE) struct gate posts;
    uint64_t room;            /* the tail as it was last seen */
    uint64_t began;           /* the head before the post */
    uint64_t next;            /* where the next record is taken */
    struct finished finished; /* released by borrow_close */

    struct cells cells;
    _Alignas(LINE) struct gate own_endings; /* of an SRQ */
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
    uint32_t depth;       /* WRs */
    uint32_t max_sge;     /* pieces of each */
    uint32_t qp_num;      /* of the QP; 0: an SRQ */
    struct gate *endings; /* of the CQ that it completes to; NULL: the queue's own */
    bool in_order;        /* false: an SRQ */
    bool single_threaded; /* one thread at a time posts */
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

/* The record at a place of the ring, and its cells. */
static inline uint32_t record_at(const struct queue *queue, uint64_t position)
{
    uint32_t place = (uint32_t)(position & queue->cells.mask);
    return __builtin_expect(queue->order != NULL, 0) ? queue->order[place] : place;
}

static inline _Atomic token *cells_of(const struct queue *queue, uint32_t record)
{
    return &queue->cells.at[(size_t)record * queue->cells.width];
}

/* What the device is to get as the wr_id of the WR begun at a position. */
static inline uint64_t borrow_wr_id(const struct queue *queue, uint64_t position)
{
    uint64_t record = __builtin_expect(queue->order != NULL, 0) ? record_at(queue, position) : position;
    return atomic_load_explicit(&queue->name, memory_order_relaxed) | (record & RECORD_MASK) << RECORD_SHIFT;
}

/*
 * Posting. Enters the queue's gate until borrow_close, which is told the same single. BEGIN_CLOSED, and outside: the
 * queue's owner is going or gone.
 */
static inline enum begin borrow_open(struct queue *queue, token owner, bool single)
{
    gate_enter(&queue->posts, single);
    if (__builtin_expect(!gate_is_shut(&queue->posts) && queue->owner == owner, 1)) {
        queue->began = queue->next = atomic_load_explicit(&queue->cells.head, memory_order_relaxed);
        return BEGIN_OK;
    }
    gate_leave(&queue->posts, single);
    return BEGIN_CLOSED;
}

/* Whether a handle has the form of one of a type, and a slot. */
static inline bool names_slot(token t, enum type type)
{
    return __builtin_expect((t & INDEX_MASK) < atomic_load_explicit(&slot_committed, memory_order_acquire) &&
                                t >> 57 == token_base(type) >> 57,
                            1);
}

/*
 * Takes one more record for a WR of at most max_sge pieces, and borrows the MRs of those that are neither empty nor
 * without MR. BEGIN_STALE: *stale is no handle of an MR. After any failure what was begun before may go on to
 * borrow_publish.
 */
static inline enum begin borrow_begin(struct queue *queue, uint64_t wr_id, const mrg_sge *sgl, int count, token *stale)
{
    uint64_t position = queue->next;
    if (__builtin_expect(position - queue->room > queue->cells.mask, 0)) {
        queue->room = atomic_load_explicit(&queue->cells.tail, memory_order_acquire);
        if (position - queue->room > queue->cells.mask)
            return BEGIN_FULL;
    }
    uint32_t index = record_at(queue, position);
    _Atomic token *cell = cells_of(queue, index), *first = cell;
    enum begin result = BEGIN_OK;
    for (const mrg_sge *piece = sgl, *end = sgl + count; piece != end; piece++) {
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
    struct record *record = &queue->records[index];
    record->wr_id = wr_id;
    record->count = (uint32_t)(cell - first);
    record->in_flight = true;
    queue->next = position + 1;
    return result;
}

/* What the WR begun last uses besides: false, nothing done, if that is no handle of the type. */
bool borrow_also(struct queue *queue, token t, enum type type);

/*
 * Whoever releases an object sees from here on that a WR begun uses it. So whether everything is alive is to be looked at
 * now: with object_stays or, for all that the WR at a position uses, here; *stale is what is not. Of the last ones
 * optional may be gone.
 */
static inline void borrow_publish(struct queue *queue)
{
    atomic_store_explicit(&queue->cells.head, queue->next, memory_order_release);
    full_fence();
}
bool borrow_stays(struct queue *queue, uint64_t position, int optional, token *stale);

/* The device has those posted first of the WRs begun; the others are withdrawn. Leaves the gate. */
void borrow_withdraw(struct queue *queue, uint64_t posted);

static inline void borrow_close(struct queue *queue, uint64_t posted, bool single)
{
    if (__builtin_expect(queue->next != queue->began + posted, 0))
        borrow_withdraw(queue, posted);
    struct finished finished = queue->finished;
    queue->finished.first = 0;
    gate_leave(&queue->posts, single);
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

/* Ends the borrows of a record. */
static inline void end_record(struct queue *queue, uint32_t index, struct finished *finished)
{
    const struct record *record = &queue->records[index];
    _Atomic token *cells = cells_of(queue, index);
    for (uint32_t n = record->count; n; n--, cells++) {
        token t = atomic_load_explicit(cells, memory_order_relaxed);
        cell_clear(cells);
        light_fence();
        if (__builtin_expect(word_now(slot_at(t)) != word_with(t, STATE_LIVE), 0))
            borrow_ended(slot_at(t), t, finished);
    }
}

/* Likewise of a completion that is not the next of an ordered queue: late, foreign, an SRQ's. */
enum completion borrow_end_apart(const struct gate *gate, struct ibv_wc *wc, struct finished *finished);

/* The queue that a completion's wr_id names; NULL if it names none. */
static inline struct queue *queue_named(uint64_t wr_id, enum type type)
{
    if (wr_id >> 55 != token_base(type) >> 55 ||
        (wr_id & INDEX_MASK) >= atomic_load_explicit(&slot_committed, memory_order_acquire) ||
        slot_type(slot_at(wr_id)) != type)
        return NULL;
    return &queues_of(slot_at(wr_id))->at[wr_id >> RECV_SHIFT & 1];
}

/* Whether it is of the queue's present life, and ended inside this gate: else its ring is not ours to look at. */
static inline bool queue_expects(const struct queue *queue, const struct gate *gate, uint64_t wr_id)
{
    return atomic_load_explicit(&queue->endings, memory_order_relaxed) == gate &&
           (wr_id & ~(RECORD_MASK << RECORD_SHIFT)) == atomic_load_explicit(&queue->name, memory_order_acquire);
}

/*
 * Ends the borrows of a completed WR, and of all older ones of an ordered queue. The caller is inside the CQ's gate, and
 * brings a CQ's completions in the order in which they were polled.
 */
static inline enum completion borrow_end(const struct gate *gate, struct ibv_wc *wc, struct finished *finished)
{
    struct queue *queue = queue_named(wc->wr_id, TYPE_QP);
    if (__builtin_expect(!queue || !queue_expects(queue, gate, wc->wr_id) || wc->qp_num != queue->qp_num, 0))
        return borrow_end_apart(gate, wc, finished);
    uint64_t tail = atomic_load_explicit(&queue->cells.tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&queue->cells.head, memory_order_acquire);
    uint64_t age = ((wc->wr_id >> RECORD_SHIFT) - tail) & RECORD_MASK;
    if (__builtin_expect(age >= head - tail, 0))
        return borrow_end_apart(gate, wc, finished);
    uint64_t mask = queue->cells.mask, end = tail + age + 1;
    wc->wr_id = queue->records[(end - 1) & mask].wr_id;
    do {
        end_record(queue, (uint32_t)(tail & mask), finished);
        tail++;
    } while (__builtin_expect(tail != end, 0));
    atomic_store_explicit(&queue->cells.tail, tail, memory_order_release);
    return COMPLETION_OURS;
}

/* How many completions came late, in this process. */
uint64_t queue_late_completions(void);

#endif
