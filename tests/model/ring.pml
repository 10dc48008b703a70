/*
 * Looking for an MR in a queue's ring, of two records, while it is posted to and polled: cells_look reads tail and
 * head, and then the records between them alone. One thread posts, either that MR or another one that is always live;
 * one polls; one tries dereg, up to DEREGS times.
 *
 * Shown: the MR is not deregistered while a record names it (2), and none is posted afterwards (1).
 */
#ifndef WRS
#define WRS 6
#endif
#ifndef DEREGS
#define DEREGS 3
#endif
#define THREADS 3
#define WORD 0
#define HEAD 1
#define TAIL 2
#define RECORDS 2
#define CELL(position) (3 + (position) % RECORDS)
#define PLACES (3 + RECORDS)
#define DEPTH 4
#include "steps.pml"

byte names[RECORDS]; /* what the device's WR of each record uses: 1 is the MR */
byte posted;         /* WRs that the device has got */
bool gone;

/* borrow_begin, borrow_publish, and borrow_withdraw. */
proctype poster(byte me)
{
    byte word, head, tail, t;
    do
    :: head < WRS ->
        do
        :: tso_load(TAIL, tail);
           if
           :: head - tail < RECORDS -> break
           :: else -> memory[TAIL] != tail
           fi
        od;
        tail = 0;
        if
        :: t = 1
        :: t = 2
        fi;
        cell_publish(CELL(head), t);
#ifndef MUTANT_HEAD_AFTER_FENCE
        tso_store(HEAD, head + 1);
#endif
        full_fence();
        do
        :: word_now(WORD, word);
           if
           :: word == word_with(1, CLOSING) -> memory[WORD] != word_with(1, CLOSING)
           :: else -> break
           fi
        od;
#ifdef MUTANT_HEAD_AFTER_FENCE
        tso_store(HEAD, head + 1);
#endif
        if
        :: t == 2 || word == word_with(1, LIVE) ->
            d_step { assert(t == 2 || !gone); names[head % RECORDS] = t; head++; posted = head }
        :: else ->
            cell_clear(CELL(head));
            full_fence();
            tso_store(HEAD, head)
        fi;
        atomic { word = 0; t = 0 }
    :: else -> break
    od
}

/* end_in_order: the tail moves when some were ended. */
proctype poller(byte me)
{
    byte tail;
    do
    :: tail < posted ->
        atomic { names[tail % RECORDS] = 0; cell_clear(CELL(tail)); tail++ }
        if
        :: tso_store(TAIL, tail)
        :: tail < posted
        fi
    :: tail == WRS -> break
    od
}

inline look_at(t)
{
    found = false;
    tso_load(TAIL, first);
    tso_load(HEAD, end);
#ifdef MUTANT_LOOKS_AT_OLDEST_ALONE
    end = (end > first -> first + 1 : first);
#else
    end = (end - first > RECORDS -> first + RECORDS : end);
#endif
    do
    :: first != end && !found -> cell_names(CELL(first), t, found); first++
    :: else -> break
    od;
    first = 0;
    end = 0
}

proctype closer(byte me)
{
    byte first, end, deregs = DEREGS;
    bool found, won;
    do
    :: deregs && !gone ->
        deregs--;
        slot_move(WORD, 1, LIVE, CLOSING, won);
        full_fence();
        look_at(1);
        if
        :: found -> slot_settle(WORD, 1, LIVE)
        :: else ->
            slot_settle(WORD, 1, FREEING);
            d_step { assert(names[0] != 1 && names[1] != 1); gone = true }
        fi
    :: else -> break
    od
}

init
{
    atomic {
        memory[WORD] = word_with(1, LIVE);
        run poster(0);
        run poller(1);
        run closer(2)
    }
}
