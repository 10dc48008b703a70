/*
 * Posting beside the destruction of the queue, and beside the next queue in the same memory. A thread posts to the QP
 * of the first life as long as it likes, even when it is gone; another one to that of the second life.
 *
 *     SINGLE_1, SINGLE_2  whether the QP of that life was declared single-threaded
 *     POSTERS             2: the first QP has two threads (so it is shared)
 *     OUTSIDERS           2: while all this goes on somebody else shuts the gate for a moment
 *
 * Shown: no post reaches a QP that is destroyed, or another one than it was meant for (6), nor do two at once, nor does
 * any while the gate is shut.
 */
#ifndef SINGLE_1
#define SINGLE_1 0
#endif
#ifndef SINGLE_2
#define SINGLE_2 0
#endif
#ifndef POSTERS
#define POSTERS 1
#endif
#ifndef OUTSIDERS
#define OUTSIDERS 1
#endif
#define THREADS (POSTERS + 1 + OUTSIDERS)
#define DEPTH 4
#define GATE 0
#define PLACES (GATE + GATE_PLACES)
#include "steps.pml"

byte raw = 1;  /* the life of the QP that the device has; 0: none */
byte made = 1; /* the newest handle that is known */
bool inside;   /* a post is at the device */
bool shut;     /* somebody relies on it that none is */

/* Among borrow_open, the device, and borrow_close. */
inline post(life)
{
    gate_way(GATE, life, way);
#ifdef MUTANT_LOOKS_BEFORE_ENTERING
    gate_is_open(GATE, life, open);
    gate_enter(GATE, way);
#else
    gate_enter(GATE, way);
    gate_is_open(GATE, life, open);
#endif
#ifdef MUTANT_WORD_IS_NOT_LOOKED_AT
    open = true;
#endif
    if
    :: open ->
        d_step { assert(raw == life && !inside && !shut); inside = true }
        d_step { assert(raw == life && !shut); inside = false }
    :: else
    fi;
    gate_leave(GATE, way)
}

proctype poster(byte me; byte life)
{
    byte way;
    bool open;
    made >= life;
    do
    :: atomic { way = 0; open = 0 } post(life)
    :: break
    od
}

/* qp_release and queue_end_all; where the provider refuses, the QP stays. */
inline destroy()
{
    do
    :: gate_shut(GATE); gate_open(GATE)
    :: break
    od;
    gate_shut(GATE);
    raw = 0;
    gate_give(GATE, 0, false);
    gate_open(GATE)
}

/* qp_make and queue_open */
inline make(life, single)
{
    raw = life;
    gate_shut(GATE);
    gate_give(GATE, life, single);
    gate_open(GATE);
    d_step { tso_empty(me) -> made = life }
}

proctype outsider(byte me)
{
    gate_shut(GATE);
    d_step { assert(!inside); shut = true }
    shut = false;
    gate_open(GATE)
}

init
{
    byte me = 0, before;
    atomic {
        memory[GATE] = word_with(1, 0);
        memory[SINGLE(GATE)] = SINGLE_1;
        run poster(1, 1);
        run poster(2, 2);
#if POSTERS > 1
        run poster(3, 1);
#endif
#if OUTSIDERS > 1
        run outsider(POSTERS + 2);
#endif
    }
    destroy();
    make(2, SINGLE_2);
    destroy()
}
