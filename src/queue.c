#include "queue.h"

#include <errno.h>
#include <stdlib.h>

#define RECV_SHIFT (RECORD_SHIFT + RECORD_BITS)
#define GENERATION_SHIFT (RECV_SHIFT + 1)
#define GENERATION_MASK UINT64_C(0xfff)

static _Atomic uint64_t late_completions;

uint64_t queue_late_completions(void)
{
    return atomic_load_explicit(&late_completions, memory_order_relaxed);
}

/* Making and unmaking */

void queues_prepare(struct queues *queues)
{
    for (int i = 0; !queues->ready && i < QUEUES; i++)
        pthread_mutex_init(&queues->at[i].lock, NULL);
    queues->ready = true;
}

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
    free(queue->borrows);
    free(queue->order);
    free(queue->sges);
    queue->records = NULL;
    queue->borrows = NULL;
    queue->order = NULL;
    queue->sges = NULL;
}

/* The ring of a queue that nobody posts to yet. Late completions look at it under the lock: the name is not theirs. */
static int make_ring(struct queue *queue, const struct queue_size *size)
{
    uint64_t records = ring_size(size->depth);
    uint32_t max_sge = size->max_sge ? size->max_sge : 1;
    if (records > RECORD_MASK)
        return errno = ENOMEM, -1;
    queue->records = calloc(records, sizeof *queue->records);
    queue->borrows = calloc(records * ((size_t)max_sge + ALSO_MAX), sizeof *queue->borrows);
    queue->order = size->in_order ? NULL : calloc(records, sizeof *queue->order);
    queue->sges = calloc((size_t)GROUP * max_sge, sizeof *queue->sges);
    if (!queue->records || !queue->borrows || (!size->in_order && !queue->order) || !queue->sges) {
        free_ring(queue);
        return errno = ENOMEM, -1;
    }
    for (uint32_t i = 0; !size->in_order && i < records; i++)
        queue->order[i] = i;
    queue->mask = records - 1;
    queue->max_sge = max_sge;
    return 0;
}

int queue_open(struct queue *queue, const struct slot *owner, int which, uint32_t qp_num, const struct queue_size *size)
{
    pthread_mutex_lock(&queue->lock);
    int result = make_ring(queue, size);
    if (!result) {
        queue->shut = 0;
        queue->qp_num = qp_num;
        queue->owner = slot_token(owner);
        queue->name = queue_name(owner, which);
        queue->head = queue->tail = queue->begun = 0;
    }
    pthread_mutex_unlock(&queue->lock);
    return result;
}

/* Counted: two resets at once are over when both are. */
void queue_shut(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->shut++;
    pthread_mutex_unlock(&queue->lock);
}

void queue_reopen(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->shut--;
    pthread_mutex_unlock(&queue->lock);
}

/* Borrows. What was waiting for its last one is chained into *finished, to be released without the lock. */

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

static void end_borrow(struct slot *used, struct finished *finished)
{
    if (object_unuse(used))
        finished_add(finished, used);
}

static uint32_t *borrows_of(const struct queue *queue, uint32_t record)
{
    return &queue->borrows[(size_t)record * (queue->max_sge + ALSO_MAX)];
}

static void end_record(struct queue *queue, uint32_t index, struct finished *finished)
{
    struct record *record = &queue->records[index];
    const uint32_t *borrows = borrows_of(queue, index);
    while (record->count)
        end_borrow(&slot_table[borrows[--record->count]], finished);
    record->in_flight = false;
}

/* All records are looked through, since an SRQ's ended in any order. */
static void drop_locked(struct queue *queue, struct finished *finished)
{
    for (uint32_t i = 0; queue->records && i <= queue->mask; i++) {
        end_record(queue, i, finished);
        if (queue->order)
            queue->order[i] = i;
    }
    queue->tail = queue->head;
}

void queue_drop_all(struct queue *queue, struct finished *finished)
{
    pthread_mutex_lock(&queue->lock);
    drop_locked(queue, finished);
    pthread_mutex_unlock(&queue->lock);
}

void queue_end_all(struct queue *queue)
{
    struct finished finished = {0};
    pthread_mutex_lock(&queue->lock);
    drop_locked(queue, &finished);
    free_ring(queue);
    pthread_mutex_unlock(&queue->lock);
    release_finished(&finished);
}

/* Posting */

/* Counts a use of the object that a handle names; false if it is not live. */
static inline bool borrow(struct queue *queue, uint32_t *borrows, struct record *record, const void *handle,
                          enum type type)
{
    struct slot *slot = slot_find(handle, type);
    if (!slot)
        return false;
    if (__builtin_expect(!object_use(slot, handle_token(handle)), 0))
        return end_borrow(slot, &queue->finished), false;
    borrows[record->count++] = slot_index(slot);
    return true;
}

/* Likewise of one that may be deferred, or gone: then there is nothing to borrow. */
static void borrow_kept(struct queue *queue, uint32_t *borrows, struct record *record, token t)
{
    if (object_use_kept(slot_at(t), t))
        borrows[record->count++] = slot_index(slot_at(t));
    else
        end_borrow(slot_at(t), &queue->finished);
}

/* -1, or the first piece whose MR is not live; count and above: the first of also. */
static int borrow_pieces(struct queue *queue, uint32_t *borrows, struct record *record, const struct wr *wr)
{
    for (int i = 0; wr->borrows && i < wr->count; i++) {
        const mrg_sge *piece = &wr->sgl[i];
        if (piece->length && piece->mr && !borrow(queue, borrows, record, piece->mr, TYPE_MR))
            return i;
    }
    int needed = wr->also_count - wr->also_optional;
    for (int i = 0; i < needed; i++)
        if (!borrow(queue, borrows, record, (void *)(uintptr_t)wr->also[i].handle, wr->also[i].type))
            return wr->count + i;
    for (int i = needed; i < wr->also_count; i++)
        borrow_kept(queue, borrows, record, wr->also[i].handle);
    return -1;
}

enum begin borrow_open(struct queue *queue, token owner)
{
    pthread_mutex_lock(&queue->lock);
    if (queue->records && !queue->shut && queue->owner == owner)
        return BEGIN_OK;
    pthread_mutex_unlock(&queue->lock);
    return BEGIN_CLOSED;
}

enum begin borrow_begin(struct queue *queue, const struct wr *wr, int *ret_piece)
{
    uint64_t position = queue->head + queue->begun;
    if ((uint32_t)wr->count > queue->max_sge)
        return BEGIN_TOO_MANY;
    if (position - queue->tail > queue->mask)
        return BEGIN_FULL;
    uint32_t index = record_at(queue, position);
    struct record *record = &queue->records[index];
    *record = (struct record){.wr_id = wr->wr_id};
    int stale = borrow_pieces(queue, borrows_of(queue, index), record, wr);
    queue->begun++;
    if (stale < 0)
        return BEGIN_OK;
    *ret_piece = stale;
    return BEGIN_STALE;
}

void borrow_close(struct queue *queue, uint64_t posted)
{
    struct finished finished = queue->finished;
    queue->finished.first = 0;
    for (uint64_t i = 0; i < posted; i++)
        queue->records[record_at(queue, queue->head + i)].in_flight = true;
    for (uint64_t i = posted; i < queue->begun; i++)
        end_record(queue, record_at(queue, queue->head + i), &finished);
    queue->head += posted;
    queue->begun = 0;
    pthread_mutex_unlock(&queue->lock);
    release_finished(&finished);
}

/* Completions */

/* The queue that a completion's wr_id names; NULL if it names none. */
static struct queue *queue_named(uint64_t wr_id)
{
    uint64_t index = wr_id & INDEX_MASK, form = wr_id >> 55;
    if ((form != token_base(TYPE_QP) >> 55 && form != token_base(TYPE_SRQ) >> 55) ||
        index >= atomic_load_explicit(&slot_committed, memory_order_acquire) ||
        slot_type(slot_at(wr_id)) != token_type(wr_id))
        return NULL;
    return &queues_of(slot_at(wr_id))->at[wr_id >> RECV_SHIFT & 1];
}

static bool end_in_order(struct queue *queue, struct ibv_wc *wc, struct finished *finished)
{
    uint64_t age = ((wc->wr_id >> RECORD_SHIFT) - queue->tail) & RECORD_MASK;
    uint64_t position = queue->tail + age;
    if (wc->qp_num != queue->qp_num || age >= queue->head - queue->tail)
        return false;
    wc->wr_id = queue->records[record_at(queue, position)].wr_id;
    while (queue->tail <= position)
        end_record(queue, record_at(queue, queue->tail++), finished);
    return true;
}

/* The record goes back to the free end of the ring. */
static bool end_alone(struct queue *queue, struct ibv_wc *wc, struct finished *finished)
{
    uint32_t index = (uint32_t)(wc->wr_id >> RECORD_SHIFT & RECORD_MASK);
    if (index > queue->mask || !queue->records[index].in_flight)
        return false;
    wc->wr_id = queue->records[index].wr_id;
    end_record(queue, index, finished);
    queue->order[queue->tail++ & queue->mask] = index;
    return true;
}

enum completion borrow_end(struct ibv_wc *wc, struct finished *finished)
{
    struct queue *queue = queue_named(wc->wr_id);
    if (!queue)
        return COMPLETION_FOREIGN;
    pthread_mutex_lock(&queue->lock);
    bool known = queue->records && (wc->wr_id & ~(RECORD_MASK << RECORD_SHIFT)) == queue->name;
    bool ours = known && (queue->order ? end_alone(queue, wc, finished) : end_in_order(queue, wc, finished));
    pthread_mutex_unlock(&queue->lock);
    if (ours)
        return COMPLETION_OURS;
    atomic_fetch_add_explicit(&late_completions, 1, memory_order_relaxed);
    return COMPLETION_LATE;
}
