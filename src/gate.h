/*
 * A gate keeps what one thread does at a time: posting to a queue, polling a CQ. Insiders enter and leave, within
 * moments. An outsider that changes what they work on shuts the gate: later ones are turned away, and those inside are
 * waited for.
 *
 * A gate is shared, and then a lock; or its user has declared that one thread at a time comes, and entering is a plain
 * store. Which it is can change when the gate's object is made anew, while a thread with an old handle is still about
 * to enter or leave. So the two kinds have a word each, and who enters by one leaves by it.
 */
#ifndef MRG_GATE_H
#define MRG_GATE_H

#include <sched.h>
#include <stdint.h>

#include "fence.h"

struct gate {
    _Atomic uint32_t locked; /* shared: 0 free, 1 locked, 2 locked and others may sleep */
    _Atomic uint32_t inside; /* single-threaded: 1 while the thread is inside */
    _Atomic uint32_t shut;   /* how many keep it shut */
    _Atomic bool single;
};

/* Sleeps until the lock is free, and takes it. Wakes one who sleeps. */
void gate_sleep(struct gate *gate);
void gate_wake(struct gate *gate);

static inline bool gate_single(const struct gate *gate)
{
    return atomic_load_explicit(&gate->single, memory_order_relaxed);
}

/* To be left, by the same way, even if the gate turns out to be shut. */
static inline void gate_enter(struct gate *gate, bool single)
{
    uint32_t unlocked = 0;
    if (single) {
        atomic_store_explicit(&gate->inside, 1, memory_order_relaxed);
        light_fence();
    } else if (__builtin_expect(!atomic_compare_exchange_strong(&gate->locked, &unlocked, 1), 0)) {
        gate_sleep(gate);
    }
}

static inline bool gate_is_shut(const struct gate *gate)
{
    return __builtin_expect(atomic_load_explicit(&gate->shut, memory_order_acquire) != 0, 0);
}

static inline void gate_leave(struct gate *gate, bool single)
{
    if (single)
        atomic_store_explicit(&gate->inside, 0, memory_order_release);
    else if (__builtin_expect(atomic_exchange_explicit(&gate->locked, 0, memory_order_release) == 2, 0))
        gate_wake(gate);
}

static inline bool gate_is_empty(const struct gate *gate)
{
    return !atomic_load_explicit(&gate->inside, memory_order_acquire) &&
           !atomic_load_explicit(&gate->locked, memory_order_acquire);
}

/* Nobody is inside from here to gate_open. Counted: several outsiders may be at it. */
static inline void gate_shut(struct gate *gate)
{
    atomic_fetch_add(&gate->shut, 1);
    heavy_fence();
    while (!gate_is_empty(gate))
        sched_yield();
}

static inline void gate_open(struct gate *gate)
{
    atomic_fetch_sub(&gate->shut, 1);
}

#endif
