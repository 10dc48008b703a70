/*
 * Handles are tokens, objects are slots.
 *
 * A handle is no address but a number that names a slot of one table and the generation of the object in it:
 *
 *     63      57 56 55 54            24 23          0
 *     [1 type   ][0][1][ generation    ][ slot index ]
 *
 * On x86-64 and arm64 no such address is mapped, so a dereference faults at once; and a handle whose object
 * is gone, that never was one, or that is of another type never compares equal to the word in its slot.
 *
 * The table is reserved once and committed from the bottom up; it never moves and is never unmapped. A slot
 * keeps its type, and the body behind it, for ever: whoever holds a slot that has just been reused may still
 * lock the mutex in the body and compare generations. So a look-up takes no lock.
 *
 * After fork(2) the table reads as zeros in the child (MADV_WIPEONFORK): no handle is good there.
 */
#ifndef MRG_HANDLE_H
#define MRG_HANDLE_H

#include <mrguard/types.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rules.h"

#if UINTPTR_MAX != UINT64_MAX
#error "mrguard keeps type, generation and index in a 64-bit pointer: it needs an LP64 system"
#endif

enum type {
    TYPE_NONE,
    TYPE_CHANNEL,
    TYPE_EVENT,
    TYPE_CONTEXT,
    TYPE_ID,
    TYPE_PD,
    TYPE_MR,
    TYPE_COMP_CHANNEL,
    TYPE_CQ,
    TYPE_QP,
    TYPE_SRQ,
    TYPE_XRCD,
    TYPE_TD,
    TYPE_AH,
    TYPE_MW,
    TYPE_MULTICAST, /* a join; known by its address, not by a handle */
    TYPE_ASYNC_EVENT,
    TYPE_BORROW, /* an explicit one: those of WRs are cells */
    TYPE_ANNEX,  /* no object: see struct annex */
    TYPE_COUNT
};

enum state {
    STATE_LIVE,     /* the only state in which a handle is good; 0, so the word is the handle less its index */
    STATE_FREE,     /* on the free list of its type */
    STATE_EMBRYO,   /* being made: counts as a child, answers to no handle */
    STATE_CLOSING,  /* a destroy is looking whether it may: live again, or freeing, within moments */
    STATE_DEFERRED, /* the last reference is gone; it is released when its last borrow or child goes */
    STATE_FREEING,  /* the provider is destroying it; live again if the provider refuses */
    STATE_COUNT
};

typedef uint64_t token;

#define INDEX_BITS 24
#define INDEX_MASK ((UINT64_C(1) << INDEX_BITS) - 1)
#define GENERATION_BITS 31
#define GENERATION_MAX ((UINT32_C(1) << GENERATION_BITS) - 1)

/*
 * One edge of the ownership graph, kept by the child. All edges lie in the table, so 32 bits name one: its
 * distance from the table's start, in words. A slot has room for two; an object with more parents keeps the
 * rest in an annex, a slot of its own.
 */
struct link {
    uint32_t parent; /* slot index, 0: none */
    uint32_t next;   /* the parent's next and previous child edge, 0: none */
    uint32_t prev;
};

#define LINKS_IN_SLOT 2
#define LINKS_IN_ANNEX 8

/* What every object but an MR and an event keeps outside its slot begins with this. Never freed, see above. */
struct body {
    pthread_mutex_t lock;
    bool kept_by_children; /* at zero references the object lives on while it has children */
    uint32_t annex;        /* slot index, 0: none */
};

/* What an event says. */
struct event_facts {
    token id;
    token listener;
    int type;
    int status;
    size_t data_length;
    const void *data;
};

/*
 * What a post reads. Written only while the object is not live, but for the filter, which a queue's first post writes;
 * atomic, since who looks may come too late.
 */
struct hot {
    _Atomic token word; /* the handle with the state in place of the index; 0: never used */
    union {
        void *raw;         /* MR: the struct ibv_mr; event: the struct rdma_cm_event */
        struct body *body; /* every other type */
    };
    union {
        struct {
            _Atomic uint64_t addr;   /* MR: first byte */
            _Atomic uint64_t length; /* MR: bytes */
            _Atomic uint32_t lkey;
            _Atomic uint32_t rkey;
            _Atomic uint32_t access; /* MR: IBV_ACCESS_* */
            _Atomic uint32_t pd;     /* MR: slot index of its PD */
            bool elsewhere;          /* MR, in the debug build alone: it covers no memory of the process */
        };
        struct event_facts event;
    };
    _Atomic uint64_t filter; /* the classes of queues that ever posted it, see cells.h */
};

/* What life and death read and write. */
struct cold {
    _Atomic uint64_t references; /* generation in the upper half, count in the lower */
    _Atomic uint32_t users;      /* calls under way inside it */
    uint32_t first_child;        /* link, 0: none. This and the next four are written under the registry's lock */
    _Atomic uint32_t children;   /* how many */
    uint32_t next;               /* free list, or a list of objects to release */
    const char *_Atomic site;    /* who made it, see site_print */
    struct link up[LINKS_IN_SLOT];
    struct owner *owner; /* MR: what to call once it is deregistered; NULL: nothing */
};

#define LINE 64 /* bytes of a cache line */

struct slot {
    _Alignas(LINE) struct hot hot;
    _Alignas(LINE) struct cold cold;
};
_Static_assert(sizeof(struct slot) == 128, "an MR costs 128 bytes");

struct owner {
    mrg_release_fn *release;
    void *arg;
};

struct annex {
    _Atomic token word; /* as in a slot, so that whoever scans the table knows it */
    uint32_t owner;     /* slot index */
    struct link up[LINKS_IN_ANNEX];
};
_Static_assert(sizeof(struct annex) <= sizeof(struct slot), "an annex is a slot");

/* -fvisibility=hidden speaks of definitions only; so declared, a variable is reached without the GOT. */
#define ALWAYS_INLINE inline __attribute__((always_inline)) /* on the hot path, where calls and spills count */
#define HIDDEN __attribute__((visibility("hidden")))

/* Set once, before the first handle exists. */
extern HIDDEN struct slot *slot_table;
extern HIDDEN _Atomic uint32_t slot_committed; /* slots below this index are readable */

static inline token handle_token(const void *handle)
{
    return (token)(uintptr_t)handle;
}

static inline token token_base(enum type type)
{
    return UINT64_C(1) << 63 | (token)type << 57 | UINT64_C(1) << 55;
}

static inline enum type token_type(token t)
{
    return (enum type)(t >> 57 & 0x3f);
}

static inline uint32_t token_generation(token t)
{
    return (uint32_t)(t >> INDEX_BITS) & GENERATION_MAX;
}

/* Whether a value has the form of a handle at all: the rest are addresses, small integers, noise. */
static inline bool token_is_handle(token t)
{
    return (t >> 55 & 0x103) == 0x101 && token_type(t) > TYPE_NONE && token_type(t) < TYPE_COUNT;
}

static inline struct slot *slot_at(token t)
{
    return &slot_table[t & INDEX_MASK];
}

static inline uint32_t slot_index(const struct slot *slot)
{
    return (uint32_t)(slot - slot_table);
}

static inline token word_with(token word, enum state state)
{
    return (word & ~INDEX_MASK) | (token)state;
}

static inline enum state word_state(token word)
{
    return (enum state)(word & INDEX_MASK);
}

/* The handle of the object now in the slot. */
static inline token slot_token(const struct slot *slot)
{
    return (atomic_load_explicit(&slot->hot.word, memory_order_relaxed) & ~INDEX_MASK) | slot_index(slot);
}

static inline void *slot_handle(const struct slot *slot)
{
    return (void *)(uintptr_t)slot_token(slot);
}

static inline enum type slot_type(const struct slot *slot)
{
    return token_type(atomic_load_explicit(&slot->hot.word, memory_order_relaxed));
}

static inline enum state slot_state(const struct slot *slot)
{
    return word_state(atomic_load_explicit(&slot->hot.word, memory_order_acquire));
}

struct slot *slot_find_slow(token t, enum type type);

/*
 * The slot of a live object, or NULL. About fifteen instructions, no lock, nothing written. Waits for the
 * verdict of a destroy that is only looking: a refused destroy disturbs nobody.
 */
static inline struct slot *slot_find(const void *handle, enum type type)
{
    token t = handle_token(handle);
    uint64_t index = t & INDEX_MASK;
    if (__builtin_expect(index < atomic_load_explicit(&slot_committed, memory_order_acquire), 1)) {
        struct slot *slot = &slot_table[index];
        token word = atomic_load_explicit(&slot->hot.word, memory_order_acquire);
        if (__builtin_expect(word == word_with(t, STATE_LIVE) && t >> 57 == token_base(type) >> 57, 1))
            return slot;
    }
    return slot_find_slow(t, type);
}

/*
 * A slot for a new object of a type, as an embryo, with one reference; NULL and ENOMEM where memory or slots run
 * out. It has no children and no users. body_size: of the type's body, zeroed and with its mutex ready when the
 * slot is new, 0: none; edges: how many parents the type can have. Both calls under the registry's lock.
 */
struct slot *slot_take(enum type type, size_t body_size, uint32_t edges, const char *site);

/* Gives a slot back. Its handles are stale from here on; a slot whose generations ran out is retired. */
void slot_give(struct slot *slot, enum type type);

/* Zeroed memory for a body, or for what belongs to one, in cache lines of its own; to be freed. NULL, ENOMEM. */
void *lines_alloc(size_t size);

/* Why a handle is not good, and what to say of it: a rule and a phrase. */
enum rule handle_fault(const void *handle, enum type type, const char **phrase);

/* Whether this process is a child of the one that made the table: the mark in slot 0 was wiped. */
static inline bool handle_forked(void)
{
    return atomic_load_explicit(&slot_committed, memory_order_acquire) &&
           !atomic_load_explicit(&slot_table[0].hot.word, memory_order_relaxed);
}

/* The type's name as findings print it: "MR", "id", ... */
const char *type_name(enum type type);

/* References are counted beside the generation, so nobody ever counts on an object that has taken the slot over. */

static inline uint64_t references_of(token t, uint32_t count)
{
    return (uint64_t)token_generation(t) << 32 | count;
}

static inline uint32_t references_count(const struct slot *slot)
{
    return (uint32_t)atomic_load(&slot->cold.references);
}

/*
 * One reference more; false if the object named by t is not live. Waits for the verdict of a close that looks. An
 * object that its children keep alive may be at zero: whoever knows that it is alive says from_zero.
 */
bool references_add(struct slot *slot, token t, bool from_zero);

/* One reference less; how many are left, -1: there was none. */
int64_t references_drop(struct slot *slot, token t);

#endif
