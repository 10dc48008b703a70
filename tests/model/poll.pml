/*
 * Polling beside the end of a queue that completes to the CQ, beside the destruction of the CQ, and beside the next CQ
 * in its slot. A thread polls the CQ of the first life as long as it likes; others that of the second life.
 *
 *     SINGLE_1, SINGLE_2  whether the CQ of that life was declared single-threaded
 *     POLLERS             how many threads poll the second one (two: it is shared)
 *
 * Each CQ has one queue, with two WRs in flight. Shown: no CQ is polled that is destroyed, and no ring is looked at
 * that is freed; each record is ended once, by a poller or with its queue, and in the order of polling.
 */
#ifndef SINGLE_1
#define SINGLE_1 0
#endif
#ifndef SINGLE_2
#define SINGLE_2 0
#endif
#ifndef POLLERS
#define POLLERS 1
#endif
#define WRS 2
#define THREADS (POLLERS + 2)
#define DEPTH 5
#define RAW 0  /* the CQ as the poller finds it; 0: it is taken away */
#define NAME 1 /* of the queue: the life; 0: it is closed */
#define TAIL 2 /* of its ring */
#define GATE 3
#define PLACES (GATE + GATE_PLACES)
#include "steps.pml"

byte cq = 1;     /* the life of the CQ that the device has; 0: none */
byte ring = 1;   /* and of the queue whose ring is there */
byte polled;     /* completions of that queue that were polled */
byte ended;      /* records of it that were ended */
byte made = 1;   /* the newest handle that is known */

/* Ends the n-th record of the queue of that life, if it is not closed: borrow_end. */
inline end_record(life, n)
{
    tso_load(NAME, seen);
    if
    :: seen == life ->
        assert(ring == life);
        tso_load(TAIL, seen);
        d_step { assert(seen == n && ended == n && ring == life); ended++ }
        tso_store(TAIL, n + 1)
    :: else
    fi
}

/* poll_once */
inline poll(life)
{
    gate_way(GATE, life, way);
    gate_enter(GATE, way);
    gate_is_open(GATE, life, open);
#ifdef MUTANT_WORD_IS_NOT_LOOKED_AT
    open = true;
#endif
    if
    :: open ->
        tso_load(RAW, seen);
        if
        :: seen ->
            d_step {
                assert(cq == life);
                n = polled;
                polled = (n < WRS -> n + 1 : n)
            }
#ifdef MUTANT_LEAVES_EARLY
            gate_leave(GATE, way);
#endif
            if
            :: n < WRS -> end_record(life, n)
            :: else
            fi
        :: else
        fi
    :: else
    fi;
#ifndef MUTANT_LEAVES_EARLY
    gate_leave(GATE, way)
#endif
}

proctype poller(byte me; byte life)
{
    byte way, seen, n;
    bool open;
    made >= life;
    do
    :: atomic { way = 0; seen = 0; n = 0; open = 0 } poll(life)
    :: break
    od
}

/* queue_end_all */
inline end_queue()
{
#ifndef MUTANT_QUEUE_ENDS_WITH_THE_GATE_OPEN
    gate_shut(GATE);
#endif
#ifndef MUTANT_QUEUE_KEEPS_ITS_NAME
    tso_store(NAME, 0);
#endif
    tso_load(TAIL, seen);
    do
    :: seen < WRS -> d_step { assert(seen == ended); ended++; seen++ }
    :: else -> break
    od;
    tso_store(TAIL, WRS);
    ring = 0;
#ifndef MUTANT_QUEUE_ENDS_WITH_THE_GATE_OPEN
    gate_open(GATE)
#endif
}

/* cq_release: refused, it is what it was. */
inline release(life)
{
    do
    :: gate_shut(GATE);
       tso_store(RAW, 0);
       gate_open(GATE);
       if
       :: cq = 0; break
       :: gate_shut(GATE); tso_store(RAW, 1); gate_open(GATE)
       fi
#ifdef MUTANT_CQ_GOES_WITH_THE_GATE_OPEN
    :: cq = 0; tso_store(RAW, 0); break
#endif
    od
}

/* cq_new; and a queue that completes to it, with its WRs posted. */
inline make(life, single)
{
#ifndef MUTANT_MADE_WITH_THE_GATE_OPEN
    gate_shut(GATE);
#endif
    gate_give(GATE, life, single);
#ifndef MUTANT_MADE_WITH_THE_GATE_OPEN
    gate_open(GATE);
#endif
    d_step { cq = life; ring = life; polled = 0; ended = 0 }
    tso_store(RAW, 1);
    tso_store(TAIL, 0);
    tso_store(NAME, life);
    d_step { tso_empty(me) -> made = life }
}

init
{
    byte me = 0, seen, before;
    atomic {
        memory[RAW] = 1;
        memory[NAME] = 1;
        memory[GATE] = word_with(1, 0);
        memory[SINGLE(GATE)] = SINGLE_1;
        run poller(1, 1);
        run poller(2, 2);
#if POLLERS > 1
        run poller(3, 2);
#endif
    }
    end_queue();
    release(1);
    make(2, SINGLE_2);
    end_queue();
    assert(ended == WRS);
    release(2)
}
