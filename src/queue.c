#include "queue.h"

#include <errno.h>
#include <stdlib.h>

#define RECORD_SHIFT INDEX_BITS
#define RECORD_BITS 18
#define RECORD_MASK ((UINT64_C(1) << RECORD_BITS) - 1)
#define RECV_SHIFT (RECORD_SHIFT + RECORD_BITS)
#define GENERATION_SHIFT (RECV_SHIFT + 1)
#define GENERATION_MASK UINT64_C(0xfff)

static _Atomic uint64_t late_completions;

uint64_t queue_late_completions(void)
{
    return atomic_load_explicit(&late_completions, memory_order_relaxed);
}

static token queue_name(const struct slot *qp, int which)
{
    uint64_t generation = token_generation(slot_token(qp)) & GENERATION_MASK;
    return token_base(TYPE_QP) | generation << GENERATION_SHIFT | (token)which << RECV_SHIFT | slot_index(qp);
}

static uint64_t ring_size(uint32_t depth)
{
    uint64_t size = 1;
    while (size < depth)
        size *= 2;
    return size;
}

int queue_open(struct queue *queue, const struct slot *qp, int which, uint32_t qp_num, uint32_t depth, uint32_t max_sge)
{
    uint64_t size = ring_size(depth);
    if (size > RECORD_MASK)
        return errno = ENOMEM, -1;
    max_sge = max_sge ? max_sge : 1;
    struct record *records = calloc(size, sizeof *records);
    uint32_t *borrows = calloc(size * max_sge, sizeof *borrows);
    struct ibv_sge *sges = calloc(max_sge, sizeof *sges);
    if (!records || !borrows || !sges) {
        free(records);
        free(borrows);
        free(sges);
        return errno = ENOMEM, -1;
    }
    pthread_mutex_lock(&queue->lock);
    queue->open = true;
    queue->qp_num = qp_num;
    queue->qp = slot_token(qp);
    queue->name = queue_name(qp, which);
    queue->head = queue->tail = 0;
    queue->mask = size - 1;
    queue->max_sge = max_sge;
    queue->records = records;
    queue->borrows = borrows;
    queue->sges = sges;
    pthread_mutex_unlock(&queue->lock);
    return 0;
}

static void set_open(struct queue *queue, bool open)
{
    pthread_mutex_lock(&queue->lock);
    queue->open = open;
    pthread_mutex_unlock(&queue->lock);
}

void queue_shut(struct queue *queue)
{
    set_open(queue, false);
}

void queue_reopen(struct queue *queue)
{
    set_open(queue, true);
}

/* Borrows. An MR that was waiting for its last one is chained into *finished, to be released without the lock. */

static void end_borrow(struct slot *mr, struct finished *finished)
{
    if (object_unuse(mr)) {
        mr->cold.next = finished->first;
        finished->first = slot_index(mr);
    }
}

void release_finished(struct finished *finished)
{
    while (finished->first) {
        struct slot *mr = &slot_table[finished->first];
        finished->first = mr->cold.next;
        object_release_late(mr);
    }
}

static void end_record(struct queue *queue, uint64_t position, struct finished *finished)
{
    struct record *record = &queue->records[position & queue->mask];
    const uint32_t *borrows = &queue->borrows[(position & queue->mask) * queue->max_sge];
    while (record->count)
        end_borrow(slot_at(borrows[--record->count]), finished);
}

void queue_end_all(struct queue *queue)
{
    struct finished finished = {0};
    pthread_mutex_lock(&queue->lock);
    while (queue->tail != queue->head)
        end_record(queue, queue->tail++, &finished);
    free(queue->records);
    free(queue->borrows);
    free(queue->sges);
    queue->records = NULL;
    queue->borrows = NULL;
    queue->sges = NULL;
    pthread_mutex_unlock(&queue->lock);
    release_finished(&finished);
}

/* Borrows the MR of every piece. -1, or the first piece whose MR is not live. */
static int borrow_pieces(struct queue *queue, struct record *record, const struct wr *wr)
{
    uint32_t *borrows = &queue->borrows[(queue->head & queue->mask) * queue->max_sge];
    for (int i = 0; i < wr->count; i++) {
        const mrg_sge *piece = &wr->sgl[i];
        if (!piece->length || !piece->mr)
            continue;
        struct slot *mr;
        do {
            mr = slot_find(piece->mr, TYPE_MR);
            if (!mr)
                return i;
        } while (!object_hold(mr, handle_token(piece->mr)));
        borrows[record->count++] = slot_index(mr);
    }
    return -1;
}

static enum begin can_begin(const struct queue *queue, token qp, int pieces)
{
    if (!queue->open || queue->qp != qp)
        return BEGIN_CLOSED;
    if (pieces > (int)queue->max_sge)
        return BEGIN_TOO_MANY;
    return queue->head - queue->tail > queue->mask ? BEGIN_FULL : BEGIN_OK;
}

enum begin borrow_begin(struct queue *queue, token qp, const struct wr *wr, uint64_t *ret_wr_id, int *ret_piece)
{
    pthread_mutex_lock(&queue->lock);
    enum begin begun = can_begin(queue, qp, wr->count);
    if (begun != BEGIN_OK) {
        *ret_piece = (int)queue->max_sge;
        pthread_mutex_unlock(&queue->lock);
        return begun;
    }
    struct record *record = &queue->records[queue->head & queue->mask];
    *record = (struct record){.wr_id = wr->wr_id};
    int stale = wr->borrows ? borrow_pieces(queue, record, wr) : -1;
    if (stale >= 0) {
        borrow_withdraw(queue);
        *ret_piece = stale;
        return BEGIN_STALE;
    }
    *ret_wr_id = queue->name | (queue->head & RECORD_MASK) << RECORD_SHIFT;
    return BEGIN_OK;
}

void borrow_commit(struct queue *queue)
{
    queue->head++;
    pthread_mutex_unlock(&queue->lock);
}

void borrow_withdraw(struct queue *queue)
{
    struct finished finished = {0};
    end_record(queue, queue->head, &finished);
    pthread_mutex_unlock(&queue->lock);
    release_finished(&finished);
}

/* The queue that a completion's wr_id names; NULL if it names none. */
static struct queue *queue_named(uint64_t wr_id)
{
    uint64_t index = wr_id & INDEX_MASK;
    if (wr_id >> 55 != token_base(TYPE_QP) >> 55 ||
        index >= atomic_load_explicit(&slot_committed, memory_order_acquire) || slot_type(slot_at(wr_id)) != TYPE_QP)
        return NULL;
    return &qp_of(slot_at(wr_id))->queues[wr_id >> RECV_SHIFT & 1];
}

/* With the lock held: the position of the WR in flight that a completion belongs to; false if there is none. */
static bool find_record(const struct queue *queue, const struct ibv_wc *wc, uint64_t *position)
{
    token name = wc->wr_id & ~(RECORD_MASK << RECORD_SHIFT);
    if (name != queue->name || wc->qp_num != queue->qp_num)
        return false;
    uint64_t age = ((wc->wr_id >> RECORD_SHIFT) - queue->tail) & RECORD_MASK;
    *position = queue->tail + age;
    return age < queue->head - queue->tail;
}

enum completion borrow_end(struct ibv_wc *wc, struct finished *finished)
{
    struct queue *queue = queue_named(wc->wr_id);
    if (!queue)
        return COMPLETION_FOREIGN;
    uint64_t position;
    pthread_mutex_lock(&queue->lock);
    bool in_flight = find_record(queue, wc, &position);
    if (in_flight) {
        wc->wr_id = queue->records[position & queue->mask].wr_id;
        while (queue->tail <= position)
            end_record(queue, queue->tail++, finished);
    }
    pthread_mutex_unlock(&queue->lock);
    if (in_flight)
        return COMPLETION_OURS;
    atomic_fetch_add_explicit(&late_completions, 1, memory_order_relaxed);
    return COMPLETION_LATE;
}
