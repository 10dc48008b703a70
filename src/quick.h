/*
 * The short way of the commonest post: one WR of one piece, to the QP of an id, that breaks no rule. It does what post.c does,
 * in as few instructions as that takes. Whatever is not so is left to post.c, which begins anew and says why.
 */
#ifndef MRG_QUICK_H
#define MRG_QUICK_H

#include "id.h"
#include "mr.h"
#include "qp.h"

struct quick {
    struct queue *queue;
    unsigned int way;
    uint64_t wr_id; /* for the device */
    struct ibv_sge sge;
};

/* The device refused the WR: withdraws it. -1 and errno. needs: the state below which the QP takes none. */
int quick_refused(struct queue *queue, unsigned int way, int error, enum ibv_qp_state needs, const struct here *here);

/* The queue that the id's WRs go to, and its QP; NULL if the handle is not good or the long way is to be taken. */
static ALWAYS_INLINE struct queue *quick_queue(mrg_id *id, int which, token *qp)
{
    token t = handle_token(id);
    if (DEBUG_BUILD || !names_slot(t, TYPE_ID)) /* the long way notes what each piece does to memory */
        return NULL;
    const struct slot *slot = slot_at(t);
    if (__builtin_expect(word_now(slot) != word_with(t, STATE_LIVE), 0))
        return NULL;
    *qp = atomic_load_explicit(&id_of(slot)->qp, memory_order_acquire);
    struct queue *queue = atomic_load_explicit(&id_of(slot)->queues[which], memory_order_acquire);
    bool ours = word_now(slot) == word_with(t, STATE_LIVE); /* bodies are reused: what was read may be another id's */
    return __builtin_expect(*qp && ours, 1) ? queue : NULL;
}

static ALWAYS_INLINE struct qp *quick_qp(const struct queue *queue, int which)
{
    return (struct qp *)((char *)(uintptr_t)(queue - which) - offsetof(struct queues, at));
}

/*
 * True: the WR is begun, inside the queue's gate; the caller hands it to the device, and quick_closes. False: nothing was
 * done. The queue has posted the MR before, or its filter wants the long way.
 */
static ALWAYS_INLINE bool quick_begin(struct quick *quick, struct queue *queue, token qp, int which, uint64_t wr_id,
                                      uint64_t addr, size_t length, mrg_mr *mr, uint32_t access)
{
    token t = handle_token(mr);
    if (__builtin_expect(!length, 0) || !names_slot(t, TYPE_MR))
        return false;
    struct slot *slot = slot_at(t);
    unsigned int way = gate_way(&queue->posts, qp);
    gate_enter(&queue->posts, way);
    uint64_t position = atomic_load_explicit(&queue->cells.head, memory_order_relaxed);
    if (!gate_is_open(&queue->posts, qp) || !queue_has_room(queue, position) ||
        __builtin_expect(!(atomic_load_explicit(&slot->hot.filter, memory_order_relaxed) & queue->cells.bit), 0)) {
        gate_leave(&queue->posts, way);
        return false;
    }
    struct record *record = record_of(queue, position);
    cell_publish(&record->cells[0], t);
    record->count = 1;
    record->wr_id = wr_id;
    quick->queue = queue;
    quick->way = way;
    quick->wr_id = borrow_wr_id(queue, position);
    quick->sge.addr = addr;
    quick->sge.length = (uint32_t)length;
    borrow_publish(queue, position + 1);
    if (__builtin_expect(mr_lends(slot, t, addr, length, access, quick_qp(queue, which)->base.pd), 1)) {
        quick->sge.lkey = atomic_load_explicit(&slot->hot.lkey, memory_order_relaxed);
        return true;
    }
    borrow_withdraw(queue, position, position + 1);
    borrow_close(queue, way);
    return false;
}

/* The device took the WR, or refused it with an errno. */
static ALWAYS_INLINE int quick_close(const struct quick *quick, int error, enum ibv_qp_state needs,
                                     const struct here *here)
{
    if (__builtin_expect(error, 0))
        return quick_refused(quick->queue, quick->way, error, needs, here);
    gate_leave(&quick->queue->posts, quick->way);
    return 0;
}

#endif
