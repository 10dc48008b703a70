#include "queue.h"

#include <errno.h>
#include <stdlib.h>

#define GENERATION_SHIFT (RECV_SHIFT + 1)
#define GENERATION_MASK UINT64_C(0xfff)

static _Atomic uint64_t late_completions;

uint64_t queue_late_completions(void)
{
    return atomic_load_explicit(&late_completions, memory_order_relaxed);
}

/* Making and unmaking */

static token queue_name(const struct slot *owner, int which)
{
    uint64_t generation = token_generation(slot_token(owner)) & GENERATION_MASK;
    return token_base(slot_type(owner)) | generation << GENERATION_SHIFT | (token)which << RECV_SHIFT |
           slot_index(owner);
}

static uint64_t ring_size(uint32_t depth)
{
    uint64_t size = 1;
    while (size < depth)
        size *= 2;
    return size;
}

static void free_ring(struct queue *queue)
{
    if (queue->cells.at)
        free(record_of(queue, 0));
    free(queue->order);
    free(queue->sges);
    free(queue->uses);
    queue->cells.at = NULL;
    queue->order = NULL;
    queue->sges = NULL;
    queue->uses = NULL;
}

/* The ring of a queue that is closed, so that nobody looks at it. */
static int make_ring(struct queue *queue, const struct queue_size *size)
{
    uint64_t records = ring_size(size->depth);
    uint32_t max_sge = size->max_sge ? size->max_sge : 1;
    if (records > RECORD_MASK)
        return errno = ENOMEM, -1;
    queue->cells.in_order = size->in_order;
    queue->cells.mask = records - 1;
    queue->depth = size->depth;
    queue->cells.width = max_sge + ALSO_MAX;
    queue->max_sge = max_sge;
    queue->cells.stride = sizeof(struct record) + queue->cells.width * sizeof(token);
    struct record *first = lines_alloc(records * queue->cells.stride);
    queue->cells.at = first ? first->cells : NULL;
    queue->order = size->in_order ? NULL : lines_alloc(records * sizeof *queue->order);
    queue->sges = lines_alloc((size_t)(GROUP + 1) * max_sge * sizeof *queue->sges);
    queue->uses = DEBUG_BUILD ? lines_alloc(records * max_sge * sizeof *queue->uses) : NULL;
    if (!first || (!size->in_order && !queue->order) || !queue->sges || (DEBUG_BUILD && !queue->uses)) {
        free_ring(queue);
        return errno = ENOMEM, -1;
    }
    for (uint32_t i = 0; queue->order && i < records; i++)
        queue->order[i] = i;
    return 0;
}

int queue_open(struct queue *queue, const struct slot *owner, int which, const struct queue_size *size)
{
    gate_shut(&queue->posts); /* a thread with an old handle may be about to enter */
    int result = make_ring(queue, size);
    if (!result) {
        queue->qp_num = size->qp_num;
        queue->cells.head = queue->cells.tail = queue->room = 0;
        queue->cells.owner = slot_token(owner);
        cells_list(&queue->cells);
        queue->endings = size->endings ? size->endings : &queue->own_endings;
        queue->name = queue_name(owner, which);
        queue->owner = slot_token(owner);
        gate_give(&queue->posts, slot_token(owner), size->single_threaded);
    }
    gate_open(&queue->posts);
    return result;
}

void queue_shut(struct queue *queue)
{
    gate_shut(&queue->posts);
}

void queue_reopen(struct queue *queue)
{
    gate_open(&queue->posts);
}

/* Borrows. What was waiting for its last one is chained into *finished, to be released outside the gates. */

void finished_add(struct finished *finished, struct slot *orphan)
{
    orphan->cold.next = finished->first;
    finished->first = slot_index(orphan);
}

void release_finished(struct finished *finished)
{
    while (finished->first) {
        struct slot *orphan = &slot_table[finished->first];
        finished->first = orphan->cold.next;
        object_release_late(orphan);
    }
}

void borrow_ended(struct slot *used, token t, struct finished *finished)
{
    if (object_end_borrow(used, t))
        finished_add(finished, used);
}

void end_cells(struct record *record, struct finished *finished)
{
    for (uint32_t i = 0; i < record->count; i++)
        end_cell(&record->cells[i], finished);
}

static void end_shared_record(const struct queue *queue, struct record *record, struct finished *finished)
{
    end_record(queue, record, finished);
    record->in_flight = false;
}

/* All of an SRQ's are looked through, since they end in any order. */
static void drop(struct queue *queue, struct finished *finished)
{
    uint64_t head = queue->cells.head;
    for (uint64_t i = queue->cells.tail; !queue->order && i != head; i++)
        end_record(queue, record_of(queue, i), finished);
    for (uint32_t i = 0; queue->order && i <= queue->cells.mask; i++) {
        if (record_of(queue, i)->in_flight)
            end_shared_record(queue, record_of(queue, i), finished);
        queue->order[i] = i;
    }
    queue->cells.tail = queue->room = head;
    if (queue->endings->expecting == queue)
        endings_reset(queue->endings);
}

/* A queue on which nothing is in flight. */
void endings_reset(struct endings *endings)
{
    static struct queue nothing;
    endings->expecting = &nothing;
}

void queue_drop_all(struct queue *queue, struct finished *finished)
{
    if (!queue->owner)
        return;
    gate_shut(&queue->endings->gate);
    drop(queue, finished);
    gate_open(&queue->endings->gate);
}

void queue_end_all(struct queue *queue)
{
    struct finished finished = {0};
    if (queue->owner) {
        gate_shut(&queue->endings->gate);
        queue->owner = queue->name = 0;
        gate_give(&queue->posts, 0, false);
        drop(queue, &finished);
        cells_strike(&queue->cells);
        free_ring(queue);
        gate_open(&queue->endings->gate);
    }
    gate_open(&queue->posts);
    release_finished(&finished);
}

/* Posting */

bool borrow_also(struct queue *queue, uint64_t position, token t, enum type type)
{
    struct record *record = record_of(queue, record_at(queue, position));
    if (!names_slot(t, type))
        return false;
    filter_add(slot_at(t), queue->cells.bit);
    cell_publish(&record->cells[record->count++], t);
    return true;
}

bool borrow_stays(struct queue *queue, uint64_t position, int optional, token *stale)
{
    const struct record *record = record_of(queue, record_at(queue, position));
    for (int i = 0; i < (int)record->count - optional; i++) {
        token t = record->cells[i];
        if (!object_stays(slot_at(t), t, false))
            return *stale = t, false;
    }
    return true;
}

static void withdraw_record(struct queue *queue, struct record *record)
{
    if (DEBUG_BUILD)
        alias_end(uses_of(queue, record), queue->max_sge);
    _Atomic token *cell = record->cells;
    for (; record->count; record->count--, cell++) {
        token t = atomic_load_explicit(cell, memory_order_relaxed);
        cell_clear(cell);
        full_fence();
        if (word_now(slot_at(t)) != word_with(t, STATE_LIVE))
            borrow_ended(slot_at(t), t, &queue->finished);
    }
    record->in_flight = false;
}

/* The head goes back when the cells are clear: see cells_look. */
void borrow_withdraw(struct queue *queue, uint64_t first, uint64_t end)
{
    for (uint64_t i = first; i != end; i++)
        withdraw_record(queue, record_of(queue, record_at(queue, i)));
    atomic_store_explicit(&queue->cells.head, first, memory_order_release);
}

/* Completions */

/* The queue that a completion's wr_id names; NULL if it names none. */
static struct queue *queue_named(uint64_t wr_id)
{
    uint64_t form = wr_id >> 55;
    if ((form != token_base(TYPE_QP) >> 55 && form != token_base(TYPE_SRQ) >> 55) ||
        (wr_id & INDEX_MASK) >= atomic_load_explicit(&slot_committed, memory_order_acquire) ||
        slot_type(slot_at(wr_id)) != token_type(wr_id))
        return NULL;
    return &queues_of(slot_at(wr_id))->at[wr_id >> RECV_SHIFT & 1];
}

/* Whether it is of the queue's present life, and ended here: else its ring is not ours to look at. */
static bool queue_expects(const struct queue *queue, const struct endings *endings, uint64_t wr_id)
{
    return atomic_load_explicit(&queue->endings, memory_order_relaxed) == endings &&
           (wr_id & ~(RECORD_MASK << RECORD_SHIFT)) == atomic_load_explicit(&queue->name, memory_order_acquire);
}

/* All older ones end with it, since only signaled sends complete. */
static bool end_in_order(struct queue *queue, struct ibv_wc *wc, struct finished *finished)
{
    uint64_t tail = atomic_load_explicit(&queue->cells.tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&queue->cells.head, memory_order_acquire);
    uint64_t age = ((wc->wr_id >> RECORD_SHIFT) - tail) & RECORD_MASK;
    if (wc->qp_num != queue->qp_num || age >= head - tail)
        return false;
    uint64_t end = tail + age + 1;
    wc->wr_id = record_of(queue, end - 1)->wr_id;
    while (tail != end)
        end_record(queue, record_of(queue, tail++), finished);
    atomic_store_explicit(&queue->cells.tail, end, memory_order_release);
    queue->endings->expecting = queue;
    queue->endings->expected = borrow_wr_id(queue, end);
    return true;
}

/* The record goes back to the free end of the ring. Inside the SRQ's own gate, since several CQs come here. */
static bool end_shared(struct queue *queue, struct ibv_wc *wc, struct finished *finished)
{
    uint32_t index = (uint32_t)(wc->wr_id >> RECORD_SHIFT & RECORD_MASK);
    atomic_load(&queue->cells.head); /* what was written before it moved is ours to see */
    if (!queue_expects(queue, &queue->own_endings, wc->wr_id) || index > queue->cells.mask)
        return false;
    struct record *record = record_of(queue, index);
    if (!record->in_flight)
        return false;
    wc->wr_id = record->wr_id;
    end_shared_record(queue, record, finished);
    uint64_t tail = atomic_load_explicit(&queue->cells.tail, memory_order_relaxed);
    queue->order[tail & queue->cells.mask] = index;
    atomic_store_explicit(&queue->cells.tail, tail + 1, memory_order_release);
    return true;
}

static bool end_of_srq(struct queue *queue, struct ibv_wc *wc, struct finished *finished)
{
    struct gate *gate = &queue->own_endings.gate;
    gate_enter(gate, SHARED_WAY);
    while (!gate_is_open(gate, 0)) { /* it is nobody's: completions are known by their queue's name */
        gate_leave(gate, SHARED_WAY);
        sched_yield();
        gate_enter(gate, SHARED_WAY);
    }
    bool ours = end_shared(queue, wc, finished);
    gate_leave(gate, SHARED_WAY);
    return ours;
}

enum completion borrow_end_any(struct endings *endings, struct ibv_wc *wc, struct finished *finished)
{
    struct queue *queue = queue_named(wc->wr_id);
    if (!queue)
        return COMPLETION_FOREIGN;
    bool shared = token_type(wc->wr_id) == TYPE_SRQ;
    if (shared ? end_of_srq(queue, wc, finished)
               : queue_expects(queue, endings, wc->wr_id) && end_in_order(queue, wc, finished))
        return COMPLETION_OURS;
    atomic_fetch_add_explicit(&late_completions, 1, memory_order_relaxed);
    return COMPLETION_LATE;
}
