/*
 * A gate keeps what one thread does at a time: posting to a queue, polling a CQ. Insiders enter and leave, within
 * moments. An outsider that changes what they work on shuts the gate: later ones are turned away, and those inside are
 * waited for.
 *
 * A gate's word says whose it is, as the word of a slot does, with the number of those that keep it shut in the place of
 * the state: so one comparison tells an insider that he may stay.
 *
 * A gate is shared, and then a lock; or its user has declared that one thread at a time comes, and entering is a plain
 * store. A gate outlives its object: a thread that found the object before it was destroyed may enter, and leave, while
 * the gate serves another one. It must not undo what that one's thread stored. So there are several ways in: the lock,
 * and a byte for each of the last lives of the gate; who enters by one leaves by it. (A thread would have to sleep
 * through LIVES lives of a single-threaded gate between its look at the handle and its first store to do harm.)
 */
#ifndef MRG_GATE_H
#define MRG_GATE_H

#include <sched.h>

#include "fence.h"
#include "handle.h"

#define LIVES 8
#define SHARED_WAY LIVES

struct gate {
    _Atomic token word;            /* 0: nobody's */
    _Atomic uint32_t locked;       /* shared: 0 free, 1 locked, 2 locked and others may sleep */
    _Atomic uint8_t inside[LIVES]; /* single-threaded: 1 while the thread of that life is inside */
    _Atomic bool single;
};

/* Sleeps until the lock is free, and takes it. Wakes one who sleeps. */
void gate_sleep(struct gate *gate);
void gate_wake(struct gate *gate);

/* The way in for who knows the gate's object by a handle. */
static inline unsigned int gate_way(const struct gate *gate, token t)
{
    return atomic_load_explicit(&gate->single, memory_order_relaxed) ? (t >> INDEX_BITS) % LIVES : SHARED_WAY;
}

/* To be left, by the same way, even if the gate turns out to be shut, or another object's. */
static inline void gate_enter(struct gate *gate, unsigned int way)
{
    uint32_t unlocked = 0;
    if (way != SHARED_WAY) {
        atomic_store_explicit(&gate->inside[way], 1, memory_order_relaxed);
        light_fence();
    } else if (__builtin_expect(!atomic_compare_exchange_strong(&gate->locked, &unlocked, 1), 0)) {
        gate_sleep(gate);
    }
}

/* Whether it is open, and that object's. */
static inline bool gate_is_open(const struct gate *gate, token t)
{
    return __builtin_expect(atomic_load_explicit(&gate->word, memory_order_acquire) == word_with(t, 0), 1);
}

static inline void gate_leave(struct gate *gate, unsigned int way)
{
    if (way != SHARED_WAY)
        atomic_store_explicit(&gate->inside[way], 0, memory_order_release);
    else if (__builtin_expect(atomic_exchange_explicit(&gate->locked, 0, memory_order_release) == 2, 0))
        gate_wake(gate);
}

static inline bool gate_is_empty(const struct gate *gate)
{
    for (int i = 0; i < LIVES; i++)
        if (atomic_load_explicit(&gate->inside[i], memory_order_acquire))
            return false;
    return !atomic_load_explicit(&gate->locked, memory_order_acquire);
}

/* Nobody is inside from here to gate_open. Counted: several outsiders may be at it. */
static inline void gate_shut(struct gate *gate)
{
    atomic_fetch_add(&gate->word, 1);
    heavy_fence();
    while (!gate_is_empty(gate))
        sched_yield();
}

static inline void gate_open(struct gate *gate)
{
    atomic_fetch_sub(&gate->word, 1);
}

/* While it is shut: whose it is from here on, 0: nobody's; and whether one thread at a time comes. */
static inline void gate_give(struct gate *gate, token t, bool single)
{
    token before = atomic_load(&gate->word) & ~INDEX_MASK;
    atomic_store_explicit(&gate->single, single, memory_order_relaxed);
    atomic_fetch_add(&gate->word, (t & ~INDEX_MASK) - before);
}

#endif
