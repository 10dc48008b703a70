/*
 * The release of an MR beside posts of it, and the next MR in its slot. Each of two users posts to a queue of his own,
 * and ends what completes there. A holder gives the MR up: by dereg, tried up to DEREGS times; refused, by unref.
 *
 *     POSTS_1, POSTS_2  how many WRs each user posts
 *     DEREGS            how often dereg is tried; 0: the MR is given up by unref at once
 *     HOLDERS           2: it has two references, and two threads that give up one each
 *     STRANGERS         1: somebody without a reference tries dereg too, once
 *     REFERRERS         1: somebody takes one more reference through the holder's handle, and gives it up
 *     KID               1: it has a child too, that goes
 *     REFUSALS          1: the device may refuse a WR, which is withdrawn then though the MR is live
 *     GENERATIONS       2: in its slot another MR is made, and given up in the same way; users post either of them
 *
 * Shown, by the numbers of tests/model/run: no post reaches the device with an MR that is deregistered (1); none is
 * deregistered while a record names it (2); it is released once (3), and not never (4); a post fails only if the
 * last reference was given up, or dereg has claimed the MR (5).
 *
 * MUTANT_...: what is wrong then. SPARE_...: a fence without which all passes too: the lock is as good.
 */
#ifndef POSTS_1
#define POSTS_1 2
#endif
#ifndef POSTS_2
#define POSTS_2 POSTS_1
#endif
#ifndef DEREGS
#define DEREGS 0
#endif
#ifndef HOLDERS
#define HOLDERS 1
#endif
#ifndef STRANGERS
#define STRANGERS 0
#endif
#ifndef REFERRERS
#define REFERRERS 0
#endif
#ifndef KID
#define KID 0
#endif
#ifndef REFUSALS
#define REFUSALS 0
#endif
#ifndef GENERATIONS
#define GENERATIONS 1
#endif
#if POSTS_2
#define USERS 2
#else
#define USERS 1
#endif
#define GIVERS  (HOLDERS + GENERATIONS - 1)
#define THREADS (USERS + GIVERS + STRANGERS + REFERRERS + KID)

#define WORD 0
#define CELL(q) (1 + (q))
#define LOCK 3
#define FILTER 4
#define PLACES 5
#define DEPTH 4
#include "steps.pml"

byte references = HOLDERS;
byte children = KID;

/* Of the properties */
byte registered = 1 << 1; /* whose key the device knows: a mask of generations */
byte gone;                /* whose posts may fail: likewise */
byte names[2];            /* the MR that the device's WR of each queue uses, until its record ends */
byte made = 1;            /* the newest handle that is known */
byte done;

/* As in registry.c, queue.h, queue.c and post.c: word, generation, found, won are each thread's own. */

inline lock() { d_step { memory[LOCK] == 0 -> memory[LOCK] = 1 } }
inline unlock() { tso_store(LOCK, 0) }

inline await_verdict(t)
{
    do
    :: word_now(WORD, word);
       if
       :: word == word_with(t, CLOSING) -> memory[WORD] != word_with(t, CLOSING)
       :: else -> break
       fi
    od
}

inline cells_look(t)
{
    found = false;
    tso_load(FILTER, word);
    if
    :: word & 1 -> cell_names(CELL(0), t, found)
    :: else
    fi;
    if
    :: !found && word & 2 -> cell_names(CELL(1), t, found)
    :: else
    fi
}

/* With the lock. The object is whichever is in the slot now. */
inline claim_orphan()
{
    word_now(WORD, word);
    generation = word / 8;
#ifdef MUTANT_CLAIM_LOOKS_BEFORE_MARKING
    cells_look(generation);
#endif
    slot_move(WORD, generation, DEFERRED, CLOSING, won);
    if
    :: won ->
#ifndef MUTANT_CLAIM_WITHOUT_FENCE
        full_fence();
#endif
        if
        :: children -> won = false
        :: else ->
#ifndef MUTANT_CLAIM_LOOKS_BEFORE_MARKING
            cells_look(generation);
#endif
            won = !found
        fi;
        if
        :: won -> slot_settle(WORD, generation, FREEING)
        :: else -> slot_settle(WORD, generation, DEFERRED)
        fi;
        atomic { word = 0; found = false }
    :: else -> word = 0
    fi
}

inline take_lock_and_claim()
{
#ifndef MUTANT_CLAIM_WITHOUT_LOCK
    lock();
#endif
    claim_orphan();
#ifndef MUTANT_CLAIM_WITHOUT_LOCK
    unlock()
#endif
}

/* The provider never refuses. */
inline release_what_is_won()
{
    if
    :: won ->
        d_step {
            assert(registered & 1 << generation);
            assert(names[0] != generation && names[1] != generation);
            registered = registered & ~(1 << generation)
        }
        lock();
        slot_settle(WORD, generation, FREE);
        unlock();
        won = false
    :: else
    fi
}

inline object_end_borrow(t)
{
#ifndef MUTANT_END_DOES_NOT_WAIT
    await_verdict(t);
#endif
    if
    :: word == word_with(t, DEFERRED) ->
#ifndef SPARE_FENCE_OF_END
        full_fence();
#endif
        take_lock_and_claim()
    :: else
    fi
}

/* withdraw_record, and end_cell; what follows is the same. */
inline withdraw(q)
{
    cell_clear(CELL(q));
#ifndef MUTANT_WITHDRAWAL_WITHOUT_FENCE
    full_fence()
#endif
}

inline complete(q)
{
    atomic { names[q] = 0; cell_clear(CELL(q)) }
    light_fence()
}

inline end_borrow(t)
{
    word_now(WORD, word);
    if
    :: word != word_with(t, LIVE) -> object_end_borrow(t)
    :: else
    fi
}

#ifdef MUTANT_POST_IGNORES_GENERATION
#define is_live(word, t) ((word) % 8 == LIVE)
#else
#define is_live(word, t) ((word) == word_with(t, LIVE))
#endif

inline post(q, t)
{
#ifdef MUTANT_CHECK_BEFORE_PUBLISH
    await_verdict(t);
#endif
#ifndef MUTANT_FILTER_AFTER_FENCE
    filter_add(FILTER, 1 << q);
#endif
    cell_publish(CELL(q), t);
#ifndef MUTANT_POST_WITHOUT_FENCE
    full_fence();
#endif
#ifdef MUTANT_POST_DOES_NOT_WAIT
    word_now(WORD, word);
#elif !defined(MUTANT_CHECK_BEFORE_PUBLISH)
    await_verdict(t);
#endif
#ifdef MUTANT_FILTER_AFTER_FENCE
    filter_add(FILTER, 1 << q);
#endif
    if
    :: is_live(word, t) ->
        d_step { assert(registered & 1 << t); names[q] = t }
        complete(q);
#ifdef MUTANT_COMPLETION_ENDS_NOTHING
        goto over
#endif
    :: !is_live(word, t) || REFUSALS ->
        assert(is_live(word, t) || gone & 1 << t);
        withdraw(q);
#ifdef MUTANT_WITHDRAWAL_ENDS_NOTHING
        goto over
#endif
    fi;
    end_borrow(t);
over:
    skip
}

proctype user(byte me; byte q; byte posts)
{
    byte word, generation, t;
    bool found, won;
    do
    :: posts ->
        posts--;
        if
        :: t = 1
        :: made == 2 -> t = 2
        fi;
        post(q, t);
        release_what_is_won();
        atomic { word = 0; generation = 0; found = 0; t = 0 }
    :: else -> break
    od;
    done++
}

/* Refused, or won. */
inline dereg(t)
{
    do
    :: slot_move(WORD, t, LIVE, CLOSING, won);
       if
       :: won -> break
       :: else ->
            await_verdict(t);
            if
            :: word != word_with(t, LIVE) -> break
            :: else
            fi
       fi
    od;
    if
    :: won ->
#ifndef MUTANT_DEREG_WITHOUT_FENCE
        full_fence();
#endif
#ifndef MUTANT_DEREG_LOOKS_BEFORE_MARKING
        cells_look(t);
#endif
        won = references == 1 && !children && !found;
        if
        :: won -> atomic { gone = gone | 1 << t; slot_settle(WORD, t, FREEING) }
        :: else -> slot_settle(WORD, t, LIVE)
        fi
    :: else
    fi
}

inline unref(t)
{
    d_step {
        tso_empty(me) ->
        references--;
        won = references == 0;
        if
        :: won -> gone = gone | 1 << t
        :: else
        fi
    }
    if
    :: won -> last_reference_gone(t)
    :: else
    fi
}

inline last_reference_gone(t)
{
    do
    :: slot_move(WORD, t, LIVE, DEFERRED, won);
       if
       :: won -> break
       :: else ->
            await_verdict(t);
            if
            :: word != word_with(t, LIVE) -> break
            :: else
            fi
       fi
#ifdef MUTANT_UNREF_DOES_NOT_WAIT
       ; break
#endif
    od;
    take_lock_and_claim();
#ifndef MUTANT_NO_SECOND_TRY
    if
    :: won
    :: else ->
        tso_load(FILTER, word);
        if
        :: word ->
#ifdef MUTANT_SECOND_TRY_DOES_NOT_WAIT
            word_now(WORD, word);
#else
            await_verdict(t);
#endif
            if
            :: word == word_with(t, DEFERRED) ->
#ifndef MUTANT_SECOND_TRY_WITHOUT_FENCE
                heavy_fence();
#endif
                take_lock_and_claim()
            :: else
            fi
        :: else
        fi
    fi
#endif
}

/* The next MR in the slot: slot_take, and object_publish. */
inline make(t)
{
    d_step { memory[WORD] == word_with(t - 1, FREE) && memory[LOCK] == 0 -> memory[LOCK] = 1 }
    references = HOLDERS;
    children = 0;
    tso_store(FILTER, 0);
    slot_settle(WORD, t, EMBRYO);
    unlock();
    d_step { registered = registered | 1 << t }
    slot_settle(WORD, t, LIVE);
    d_step { tso_empty(me) -> made = t }
}

/* A dereg that has won, or somebody who has no reference, gives none up. */
proctype holder(byte me; byte t; byte deregs; bool owns)
{
    byte word, generation;
    bool found, won;
    if
    :: t > 1 -> make(t)
    :: else
    fi;
    do
    :: deregs && !won ->
        deregs--;
#ifdef MUTANT_DEREG_LOOKS_BEFORE_MARKING
        cells_look(t);
#endif
        dereg(t);
        generation = t
    :: deregs && !won -> break
    :: else -> break
    od;
    if
    :: won || !owns
    :: else -> unref(t)
    fi;
    release_what_is_won();
    atomic { word = 0; generation = 0; found = 0; deregs = 0; done++ }
}

/* references_add: it is counted first, and then looks whether it may stay. */
inline reference(t)
{
    d_step {
        tso_empty(me) ->
        won = references > 0;
        references = references + won
    };
    if
    :: won ->
#ifdef MUTANT_REF_LETS_GO_WHILE_CLOSING
        word_now(WORD, word);
#else
        await_verdict(t);
#endif
        won = word == word_with(t, LIVE);
        if
        :: won
        :: else -> d_step { tso_empty(me) -> references-- }
        fi
    :: else -> word = 0
    fi
}

proctype referrer(byte me)
{
    byte word, generation;
    bool found, won;
#ifdef MUTANT_REF_LETS_GO_WHILE_CLOSING
    do
    :: reference(1);
       if
       :: word == word_with(1, CLOSING)
       :: else -> break
       fi
    od;
#else
    reference(1);
#endif
    if
    :: won -> unref(1)
    :: else
    fi;
    release_what_is_won();
    atomic { word = 0; generation = 0; found = 0; done++ }
}

proctype kid(byte me)
{
    byte word, generation;
    bool found, won;
    lock();
    d_step { tso_empty(me) -> children-- }
    claim_orphan();
    unlock();
    release_what_is_won();
    atomic { word = 0; generation = 0; found = 0; done++ }
}

init
{
    atomic {
        memory[WORD] = word_with(1, LIVE);
        run user(0, 0, POSTS_1);
#if POSTS_2
        run user(1, 1, POSTS_2);
#endif
        run holder(USERS, 1, DEREGS, true);
#if HOLDERS > 1
        run holder(USERS + 1, 1, 0, true);
#endif
#if GENERATIONS > 1
        run holder(USERS + 1, 2, DEREGS, true);
#endif
#if STRANGERS
        run holder(USERS + GIVERS, 1, 1, false);
#endif
#if REFERRERS
        run referrer(USERS + GIVERS + STRANGERS);
#endif
#if KID
        run kid(THREADS - 1);
#endif
    }
    done == THREADS && tso_all_empty;
    assert(!registered && memory[WORD] == word_with(GENERATIONS, FREE))
}
