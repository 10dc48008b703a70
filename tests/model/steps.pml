/*
 * The steps of the protocol: each bears the name of a static inline function of src/fence.h, src/gate.h or src/cells.h,
 * and does what that does. tests/model/run sees that none is missing, and none left over.
 *
 * A word is generation and state; a token is the generation alone, since a model has one slot (0: none).
 */
#define LIVE     0
#define CLOSING  1
#define DEFERRED 2
#define FREEING  3
#define FREE     4
#define EMBRYO   5
#define word_with(t, state) ((t) * 8 + (state))

/*
 * A gate is places from gate on; its word is the token of whose it is, with the number of those that keep it shut. It
 * has a byte for each of two lives: a third one is not modelled. The lock is held or not: nobody sleeps for it, but
 * waits.
 */
#ifdef MUTANT_ONE_WAY_FOR_ALL_LIVES
#define LIVES 1
#else
#define LIVES 2
#endif
#define SHARED_WAY   LIVES
#define LOCKED(gate) ((gate) + 1)
#define SINGLE(gate) ((gate) + 2)
#define INSIDE(gate) ((gate) + 3)
#define GATE_PLACES  (3 + LIVES)

#include "tso.pml"

/* fence.h */

inline full_fence()
{
    tso_empty(me)
}

inline light_fence()
{
#ifdef NO_MEMBARRIER
    full_fence()
#else
    skip
#endif
}

inline heavy_fence()
{
#if defined(NO_MEMBARRIER) || defined(MUTANT_HEAVY_FENCE_IS_FULL)
    full_fence()
#else
    tso_all_empty
#endif
}

/* cells.h */

inline filter_add(filter, mask)
{
    byte seen;
    tso_load(filter, seen);
    if
    :: seen & (mask)
    :: else -> d_step { tso_empty(me) -> memory[filter] = memory[filter] | (mask) }
    fi;
    seen = 0
}

inline cell_publish(cell, t)
{
    tso_store(cell, t)
}

inline word_now(slot, result)
{
    tso_load(slot, result)
}

inline cell_clear(cell)
{
    tso_store(cell, 0)
}

inline cell_names(cell, t, result)
{
    d_step { tso_see(cell, tso_seen); result = tso_seen == t; tso_seen = 0 }
}

inline slot_move(slot, t, from, to, done)
{
    tso_swap(slot, word_with(t, from), word_with(t, to), done)
}

inline slot_settle(slot, t, state)
{
    tso_store(slot, word_with(t, state))
}

/* gate.h */

inline gate_way(gate, t, way)
{
    d_step { tso_see(SINGLE(gate), tso_seen); way = (tso_seen -> (t) % LIVES : SHARED_WAY); tso_seen = 0 }
}

inline gate_enter(gate, way)
{
    if
    :: way != SHARED_WAY -> tso_store(INSIDE(gate) + way, 1); light_fence()
    :: else -> d_step { tso_empty(me) && memory[LOCKED(gate)] == 0 -> memory[LOCKED(gate)] = 1 }
    fi
}

inline gate_is_open(gate, t, result)
{
    d_step { tso_see(gate, tso_seen); result = tso_seen == word_with(t, 0); tso_seen = 0 }
}

inline gate_leave(gate, way)
{
    if
    :: way != SHARED_WAY -> tso_store(INSIDE(gate) + way, 0)
    :: else -> tso_store(LOCKED(gate), 0)
    fi
}

/* One after the other is seen empty, once: who comes after that sees the gate shut. */
inline gate_is_empty(gate)
{
    memory[INSIDE(gate)] == 0;
#if LIVES > 1
    memory[INSIDE(gate) + 1] == 0;
#endif
    memory[LOCKED(gate)] == 0
}

inline gate_shut(gate)
{
#ifdef MUTANT_WAITS_BEFORE_SHUTTING
    gate_is_empty(gate);
    tso_add(gate, 1);
    heavy_fence()
#else
    tso_add(gate, 1);
#ifndef MUTANT_SHUT_WITHOUT_FENCE
    heavy_fence();
#endif
#ifndef MUTANT_SHUT_WITHOUT_WAITING
    gate_is_empty(gate)
#endif
#endif
}

inline gate_open(gate)
{
    tso_add(gate, -1)
}

inline gate_give(gate, t, single)
{
#ifdef MUTANT_GIVEN_WITH_A_STORE
    tso_store(SINGLE(gate), single);
    tso_store(gate, word_with(t, 1))
#else
    tso_load(gate, before);
    tso_store(SINGLE(gate), single);
    tso_add(gate, word_with(t, 0) - (before - before % 8))
#endif
}
