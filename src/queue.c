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
    free(queue->records);
    free(queue->cells.at);
    free(queue->order);
    free(queue->sges);
    queue->records = NULL;
    queue->cells.at = NULL;
    queue->order = NULL;
    queue->sges = NULL;
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
    queue->cells.width = max_sge + ALSO_MAX;
    queue->max_sge = max_sge;
    queue->records = lines_alloc(records * sizeof *queue->records);
    queue->cells.at = lines_alloc(records * queue->cells.width * sizeof *queue->cells.at);
    queue->order = size->in_order ? NULL : lines_alloc(records * sizeof *queue->order);
    queue->sges = lines_alloc((size_t)(GROUP + 1) * max_sge * sizeof *queue->sges);
    if (!queue->records || !queue->cells.at || (!size->in_order && !queue->order) || !queue->sges) {
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
        queue->posts.single = size->single_threaded;
        queue->qp_num = size->qp_num;
        queue->cells.head = queue->cells.tail = queue->room = queue->began = queue->next = 0;
        queue->cells.owner = slot_token(owner);
        cells_list(&queue->cells);
        queue->endings = size->endings ? size->endings : &queue->own_endings;
        queue->name = queue_name(owner, which);
        queue->owner = slot_token(owner);
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

static void end_shared_record(struct queue *queue, uint32_t index, struct finished *finished)
{
    end_record(queue, index, finished);
    queue->records[index].in_flight = false;
}

/* All of an SRQ's are looked through, since they end in any order. */
static void drop(struct queue *queue, struct finished *finished)
{
    uint64_t head = queue->cells.head;
    for (uint64_t i = queue->cells.tail; !queue->order && i != head; i++)
        end_record(queue, record_at(queue, i), finished);
    for (uint32_t i = 0; queue->order && i <= queue->cells.mask; i++) {
        if (queue->records[i].in_flight)
            end_shared_record(queue, i, finished);
        queue->order[i] = i;
    }
    queue->cells.tail = queue->room = head;
}

void queue_drop_all(struct queue *queue, struct finished *finished)
{
    if (!queue->owner)
        return;
    gate_shut(queue->endings);
    drop(queue, finished);
    gate_open(queue->endings);
}

void queue_end_all(struct queue *queue)
{
    struct finished finished = {0};
    if (queue->owner) {
        gate_shut(queue->endings);
        queue->owner = queue->name = 0;
        drop(queue, &finished);
        cells_strike(&queue->cells);
        free_ring(queue);
        gate_open(queue->endings);
    }
    gate_open(&queue->posts);
    release_finished(&finished);
}

/* Posting */

bool borrow_also(struct queue *queue, token t, enum type type)
{
    uint32_t index = record_at(queue, queue->next - 1);
    if (!names_slot(t, type))
        return false;
    filter_add(slot_at(t), queue->cells.bit);
    cell_publish(&cells_of(queue, index)[queue->records[index].count++], t);
    return true;
}

bool borrow_stays(struct queue *queue, uint64_t position, int optional, token *stale)
{
    uint32_t index = record_at(queue, position);
    const _Atomic token *cells = cells_of(queue, index);
    for (int i = 0; i < (int)queue->records[index].count - optional; i++) {
        token t = cells[i];
        if (!object_stays(slot_at(t), t, false))
            return *stale = t, false;
    }
    return true;
}

static void withdraw_record(struct queue *queue, uint32_t index)
{
    struct record *record = &queue->records[index];
    _Atomic token *cell = cells_of(queue, index);
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
void borrow_withdraw(struct queue *queue, uint64_t posted)
{
    uint64_t kept = queue->began + posted;
    for (uint64_t i = kept; i != queue->next; i++)
        withdraw_record(queue, record_at(queue, i));
    queue->next = kept;
    atomic_store_explicit(&queue->cells.head, kept, memory_order_release);
}

/* Completions */

/* The record goes back to the free end of the ring. Inside the SRQ's own gate, since several CQs come here. */
static bool end_shared(struct queue *queue, struct ibv_wc *wc, struct finished *finished)
{
    uint32_t index = (uint32_t)(wc->wr_id >> RECORD_SHIFT & RECORD_MASK);
    atomic_load(&queue->cells.head); /* what was written before it moved is ours to see */
    if (!queue_expects(queue, &queue->own_endings, wc->wr_id) || index > queue->cells.mask ||
        !queue->records[index].in_flight)
        return false;
    wc->wr_id = queue->records[index].wr_id;
    end_shared_record(queue, index, finished);
    uint64_t tail = atomic_load_explicit(&queue->cells.tail, memory_order_relaxed);
    queue->order[tail & queue->cells.mask] = index;
    atomic_store_explicit(&queue->cells.tail, tail + 1, memory_order_release);
    return true;
}

static bool end_of_srq(struct queue *queue, struct ibv_wc *wc, struct finished *finished)
{
    gate_enter(&queue->own_endings, false);
    while (gate_is_shut(&queue->own_endings)) {
        gate_leave(&queue->own_endings, false);
        sched_yield();
        gate_enter(&queue->own_endings, false);
    }
    bool ours = end_shared(queue, wc, finished);
    gate_leave(&queue->own_endings, false);
    return ours;
}

enum completion borrow_end_apart(const struct gate *gate, struct ibv_wc *wc, struct finished *finished)
{
    struct queue *srq = queue_named(wc->wr_id, TYPE_SRQ);
    if (srq && end_of_srq(srq, wc, finished))
        return COMPLETION_OURS;
    if (!srq && !queue_named(wc->wr_id, TYPE_QP))
        return COMPLETION_FOREIGN;
    (void)gate;
    atomic_fetch_add_explicit(&late_completions, 1, memory_order_relaxed);
    return COMPLETION_LATE;
}
