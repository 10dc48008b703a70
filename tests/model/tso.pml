/*
 * Memory as x86 shows it to threads (TSO): each thread's stores go through a buffer, first in first out, and reach
 * memory at any later moment; a load sees the thread's own stores at once. In one way it is weaker, since arm64 is: a
 * compare-and-swap is atomic, but its store waits in the buffer too, so later loads may overtake it. Nobody else can
 * swap meanwhile.
 *
 * A model defines THREADS, PLACES (bytes of memory) and DEPTH (of a buffer: a store into a full one waits, so
 * DEPTH must be what a thread stores between two fences). Every process has a byte me. What begins with tso_ is no step
 * of the protocol.
 */
byte memory[PLACES];
byte tso_count[THREADS];
byte tso_place[THREADS * DEPTH];
byte tso_value[THREADS * DEPTH];
byte tso_line[PLACES]; /* which thread, counted from 1, has the line for a swap that is on its way */
hidden byte tso_i, tso_seen, tso_more;

inline tso_flush(thread)
{
    d_step {
        tso_count[thread] > 0;
        tso_seen = tso_place[(thread) * DEPTH];
        memory[tso_seen] = tso_value[(thread) * DEPTH];
        tso_count[thread]--;
        tso_i = 0;
        tso_more = 0;
        do
        :: tso_i < tso_count[thread] ->
            tso_place[(thread) * DEPTH + tso_i] = tso_place[(thread) * DEPTH + tso_i + 1];
            tso_value[(thread) * DEPTH + tso_i] = tso_value[(thread) * DEPTH + tso_i + 1];
            tso_more = tso_more + (tso_place[(thread) * DEPTH + tso_i] == tso_seen);
            tso_i++
        :: else -> break
        od;
        tso_place[(thread) * DEPTH + tso_i] = 0;
        tso_value[(thread) * DEPTH + tso_i] = 0;
        if
        :: !tso_more && tso_line[tso_seen] == (thread) + 1 -> tso_line[tso_seen] = 0
        :: else
        fi;
        tso_i = 0;
        tso_seen = 0;
        tso_more = 0
    }
}

active proctype tso_memory()
{
end:
    do
    :: tso_flush(0)
#if THREADS > 1
    :: tso_flush(1)
#endif
#if THREADS > 2
    :: tso_flush(2)
#endif
#if THREADS > 3
    :: tso_flush(3)
#endif
#if THREADS > 4
    :: tso_flush(4)
#endif
    od
}

#define tso_empty(thread) (tso_count[thread] == 0)
#if THREADS == 2
#define tso_all_empty (tso_empty(0) && tso_empty(1))
#elif THREADS == 3
#define tso_all_empty (tso_empty(0) && tso_empty(1) && tso_empty(2))
#elif THREADS == 4
#define tso_all_empty (tso_empty(0) && tso_empty(1) && tso_empty(2) && tso_empty(3))
#elif THREADS == 5
#define tso_all_empty (tso_empty(0) && tso_empty(1) && tso_empty(2) && tso_empty(3) && tso_empty(4))
#endif

inline tso_push(place, value)
{
    tso_place[me * DEPTH + tso_count[me]] = place;
    tso_value[me * DEPTH + tso_count[me]] = value;
    tso_count[me]++
}

inline tso_store(place, value)
{
    d_step { tso_count[me] < DEPTH -> tso_push(place, value) }
}

/* Within a d_step. */
inline tso_see(place, result)
{
    result = memory[place];
    tso_i = 0;
    do
    :: tso_i < tso_count[me] ->
        if
        :: tso_place[me * DEPTH + tso_i] == place -> result = tso_value[me * DEPTH + tso_i]
        :: else
        fi;
        tso_i++
    :: else -> break
    od;
    tso_i = 0
}

inline tso_load(place, result)
{
    d_step { tso_see(place, result) }
}

/* A read-modify-write that is a full fence, as all are on x86. */
inline tso_add(place, amount)
{
    d_step { tso_empty(me) -> memory[place] = memory[place] + amount }
}

/* Compare and swap; see above. */
inline tso_swap(place, from, to, done)
{
    d_step {
        memory[place] != from || !tso_line[place] || tso_line[place] == me + 1 ->
        tso_see(place, tso_seen);
        done = tso_seen == from;
        if
        :: done -> tso_push(place, to); tso_line[place] = me + 1
        :: else
        fi;
        tso_seen = 0
    }
}
