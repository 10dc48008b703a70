/*
 * What is in flight, as those see it who would release an object: cells.
 *
 * A cell names one object that one WR in flight uses. Each queue has cells of its own, in memory that nobody else writes,
 * so posts of one MR from many queues do not disturb each other. Who releases an object looks whether a cell names it. He
 * looks only at queues that ever posted it: an object's filter has a bit for each of 64 classes of queues.
 *
 * The order of events is the protocol; tests/model proves it, step by step, by the names of the functions here.
 *
 *     post      filter_add, cell_publish for each piece; full_fence; word_now: live, or the cell is withdrawn;
 *               closing: the verdict is waited for, which may be that the object is live again
 *     withdraw  cell_clear; full_fence; then as the end of a borrow
 *     complete  cell_clear; light_fence; word_now: live, and all is done; deferred: full_fence, and the release is tried
 *     unref     slot_move live -> deferred; tried; where that failed, by whatever, heavy_fence, and tried once more
 *     try       under the registry's lock: slot_move deferred -> closing; full_fence; look; slot_settle: freeing, or
 *               deferred again if a cell names it
 *     dereg     slot_move live -> closing; full_fence; look; slot_settle: freeing, or live again
 *
 * A completion has no fence of its own. Either it sees that the release is deferred, and tries itself; or it saw the object
 * live, before that, and then heavy_fence makes its cleared cell visible to the second try of unref.
 */
#ifndef MRG_CELLS_H
#define MRG_CELLS_H

#include "fence.h"
#include "handle.h"

/* The cells of a queue: width for each record. Those in use are among the records of [tail, head), if it is in order. */
struct cells {
    _Atomic token *at; /* the first record's */
    uint64_t mask;     /* records, a power of two, less 1 */
    uint64_t stride;   /* bytes from record to record */
    uint64_t bit;      /* of the filters of what is posted there */
    uint32_t width;
    bool in_order;
    token owner; /* the QP or SRQ */
    struct cells *next;
    struct cells **link;
    _Alignas(LINE) _Atomic uint64_t head; /* written by posts */
    _Alignas(LINE) _Atomic uint64_t tail; /* written by completions */
};

/* The cells of a record, by its number; it may be a position, which counts on beyond the ring. */
static inline _Atomic token *cells_at(const struct cells *cells, uint64_t record)
{
    return (_Atomic token *)((char *)cells->at + (record & cells->mask) * cells->stride);
}

/* From listing to striking the cells are looked at. list chooses the bit. */
void cells_list(struct cells *cells);
void cells_strike(struct cells *cells);

/* How many cells name the object now, and the owner of the first such; 0: none. At least: up to that many are counted. */
uint32_t cells_look(const struct slot *slot, token t, uint32_t at_least, token *owner);

/* How many queues were looked at so far, in this process: for tests. */
extern HIDDEN _Atomic uint64_t cells_queues_looked_at;

/* The steps of who posts. The filter is written by a queue's first post of an object; from then on it is only read. */

static inline void filter_add(struct slot *slot, uint64_t bit)
{
    if (__builtin_expect(!(atomic_load_explicit(&slot->hot.filter, memory_order_relaxed) & bit), 0))
        atomic_fetch_or(&slot->hot.filter, bit);
}

static inline void cell_publish(_Atomic token *cell, token t)
{
    atomic_store_explicit(cell, t, memory_order_relaxed);
}

static inline token word_now(const struct slot *slot)
{
    return atomic_load_explicit(&slot->hot.word, memory_order_acquire);
}

/* Of who ends a borrow */

static inline void cell_clear(_Atomic token *cell)
{
    atomic_store_explicit(cell, 0, memory_order_release);
}

/* Of who releases */

static inline bool cell_names(const _Atomic token *cell, token t)
{
    return atomic_load_explicit(cell, memory_order_acquire) == t;
}

/* Moves the object named by t from one state to another; false if it was not there any more. */
static inline bool slot_move(struct slot *slot, token t, enum state from, enum state to)
{
    token word = word_with(t, from);
    return atomic_compare_exchange_strong(&slot->hot.word, &word, word_with(t, to));
}

/* The verdict of who moved it to closing. */
static inline void slot_settle(struct slot *slot, token t, enum state state)
{
    atomic_store_explicit(&slot->hot.word, word_with(t, state), memory_order_release);
}

#endif
