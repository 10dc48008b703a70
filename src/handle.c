#include "handle.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fence.h"

#define SLOTS ((size_t)1 << INDEX_BITS)
#define SLOTS_PER_CHUNK ((size_t)8192) /* committed at a time: 1 MiB of address space, touched page by page */

struct slot *slot_table;
_Atomic uint32_t slot_committed;

/* Under the registry's lock. Slot 0 names nothing; its word is the mark that a fork wipes. */
static uint32_t next_unused = 1;
static uint32_t free_slots[TYPE_COUNT];

/*
 * LeakSanitizer, where it is linked in, must search the table for pointers: in the parent and in a forked child
 * alike, so there the table is not wiped by the kernel but by a handler that leaves the pointers.
 */
extern void __lsan_register_root_region(const void *begin, size_t size) __attribute__((weak));

static const char *const type_names[TYPE_COUNT] = {
    [TYPE_NONE] = "nothing",
    [TYPE_CHANNEL] = "event channel",
    [TYPE_EVENT] = "event",
    [TYPE_CONTEXT] = "context",
    [TYPE_ID] = "id",
    [TYPE_PD] = "PD",
    [TYPE_MR] = "MR",
    [TYPE_COMP_CHANNEL] = "completion channel",
    [TYPE_CQ] = "CQ",
    [TYPE_QP] = "QP",
    [TYPE_SRQ] = "SRQ",
    [TYPE_XRCD] = "XRC domain",
    [TYPE_TD] = "thread domain",
    [TYPE_AH] = "AH",
    [TYPE_MW] = "MW",
    [TYPE_MULTICAST] = "multicast join",
    [TYPE_ASYNC_EVENT] = "asynchronous event",
    [TYPE_BORROW] = "borrow",
    [TYPE_ANNEX] = "annex",
};

const char *type_name(enum type type)
{
    return type_names[type];
}

static void wipe_words(void)
{
    uint32_t committed = atomic_load_explicit(&slot_committed, memory_order_relaxed);
    for (uint32_t i = 0; i < committed; i++)
        atomic_store_explicit(&slot_table[i].hot.word, 0, memory_order_relaxed);
}

static int wipe_on_fork(void *table)
{
    if (__lsan_register_root_region)
        return pthread_atfork(NULL, NULL, wipe_words);
    return madvise(table, SLOTS * sizeof(struct slot), MADV_WIPEONFORK);
}

static int table_reserve(void)
{
    size_t size = SLOTS * sizeof(struct slot);
    void *table = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        return -1;
    if (wipe_on_fork(table)) {
        munmap(table, size);
        return -1;
    }
    fence_prepare();
    slot_table = table;
    return 0;
}

static int table_commit_chunk(void)
{
    uint32_t committed = atomic_load_explicit(&slot_committed, memory_order_relaxed);
    if (committed == SLOTS)
        return errno = ENOMEM, -1;
    struct slot *chunk = &slot_table[committed];
    if (mprotect(chunk, SLOTS_PER_CHUNK * sizeof(struct slot), PROT_READ | PROT_WRITE))
        return -1;
    if (__lsan_register_root_region)
        __lsan_register_root_region(chunk, SLOTS_PER_CHUNK * sizeof(struct slot));
    if (committed == 0)
        atomic_store_explicit(&chunk->hot.word, 1, memory_order_relaxed);
    atomic_store_explicit(&slot_committed, committed + (uint32_t)SLOTS_PER_CHUNK, memory_order_release);
    return 0;
}

static int table_reach(uint32_t end)
{
    if (!slot_table && table_reserve())
        return -1;
    while (end > atomic_load_explicit(&slot_committed, memory_order_relaxed))
        if (table_commit_chunk())
            return -1;
    return 0;
}

/* Whole cache lines of its own: what one thread writes lies not beside what another does. */
void *lines_alloc(size_t size)
{
    size_t whole = (size + LINE - 1) / LINE * LINE;
    void *lines = aligned_alloc(LINE, whole);
    return lines ? memset(lines, 0, whole) : NULL;
}

static struct body *body_new(size_t size)
{
    struct body *body = lines_alloc(size);
    if (body)
        pthread_mutex_init(&body->lock, NULL);
    return body;
}

/* An annex is the next slot; it stays with its body, and the body with its slot. */
static void attach_annex(struct slot *slot)
{
    struct annex *annex = (struct annex *)(slot + 1);
    atomic_store_explicit(&annex->word, token_base(TYPE_ANNEX), memory_order_relaxed);
    annex->owner = slot_index(slot);
    slot->hot.body->annex = slot_index(slot) + 1;
}

/* A slot that never held an object, with its body and annex; all of it or nothing. */
static struct slot *slot_new(enum type type, size_t body_size, uint32_t edges)
{
    bool with_annex = edges > LINKS_IN_SLOT;
    struct body *body = body_size ? body_new(body_size) : NULL;
    if ((body_size && !body) || table_reach(next_unused + 1 + with_annex)) {
        free(body);
        errno = ENOMEM;
        return NULL;
    }
    struct slot *slot = &slot_table[next_unused];
    slot->hot.body = body;
    if (with_annex)
        attach_annex(slot);
    atomic_store_explicit(&slot->hot.word, word_with(token_base(type), STATE_FREE), memory_order_release);
    next_unused += 1 + with_annex;
    return slot;
}

struct slot *slot_take(enum type type, size_t body_size, uint32_t edges, const char *site)
{
    struct slot *slot;
    if (__builtin_expect(free_slots[type] != 0, 1)) {
        slot = &slot_table[free_slots[type]];
        free_slots[type] = slot->cold.next;
    } else if (!(slot = slot_new(type, body_size, edges))) {
        return NULL;
    }
    token word = atomic_load_explicit(&slot->hot.word, memory_order_relaxed) + (UINT64_C(1) << INDEX_BITS);
    atomic_store_explicit(&slot->cold.site, site, memory_order_relaxed);
    atomic_store_explicit(&slot->cold.references, references_of(word, 1), memory_order_relaxed);
    atomic_store_explicit(&slot->hot.filter, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->hot.word, word_with(word, STATE_EMBRYO), memory_order_release);
    return slot;
}

void slot_give(struct slot *slot, enum type type)
{
    token word = atomic_load_explicit(&slot->hot.word, memory_order_relaxed);
    atomic_store_explicit(&slot->hot.word, word_with(word, STATE_FREE), memory_order_release);
    if (token_generation(word) == GENERATION_MAX)
        return;
    slot->cold.next = free_slots[type];
    free_slots[type] = slot_index(slot);
}

/* The word in the slot that a token names, 0 where there is none. */
static token word_of(token t)
{
    uint64_t index = t & INDEX_MASK;
    if (!token_is_handle(t) || index >= atomic_load_explicit(&slot_committed, memory_order_acquire))
        return 0;
    return atomic_load_explicit(&slot_table[index].hot.word, memory_order_acquire);
}

struct slot *slot_find_slow(token t, enum type type)
{
    token word;
    while ((word = word_of(t)) && word == word_with(t, STATE_CLOSING))
        sched_yield();
    return word && word == word_with(t, STATE_LIVE) && token_type(t) == type ? slot_at(t) : NULL;
}

enum rule handle_fault(const void *handle, enum type type, const char **phrase)
{
    token t = handle_token(handle);
    *phrase = "";
    if (!t) {
        *phrase = "is NULL: did the call that should have made it fail?";
        return RULE_BAD_ARGUMENT;
    }
    if (handle_forked()) {
        *phrase = "belongs to the parent process";
        return RULE_AFTER_FORK;
    }
    if (!token_is_handle(t)) {
        *phrase = "is not a handle but some other pointer or number";
        return RULE_STALE_HANDLE;
    }
    if (token_type(t) != type) {
        *phrase = "is a handle of another type";
        return RULE_STALE_HANDLE;
    }
    uint32_t now = token_generation(word_of(t));
    *phrase = token_generation(t) > now || !now ? "was never handed out: forged or corrupted" : "was released before";
    return RULE_STALE_HANDLE;
}

/* Counts first and looks afterwards, as everybody does who enters an object: see object_close. */
bool references_add(struct slot *slot, token t, bool from_zero)
{
    uint64_t seen = atomic_load(&slot->cold.references);
    do {
        uint32_t count = (uint32_t)seen;
        if (seen != references_of(t, count) || (count == 0 && !from_zero) || count == UINT32_MAX)
            return false;
    } while (!atomic_compare_exchange_weak(&slot->cold.references, &seen, seen + 1));
    token word; /* a close that looks is waited for with the reference held: let go, it might be the last one */
    while ((word = atomic_load(&slot->hot.word)) == word_with(t, STATE_CLOSING))
        sched_yield();
    if (word == word_with(t, STATE_LIVE))
        return true;
    references_drop(slot, t);
    return false;
}

int64_t references_drop(struct slot *slot, token t)
{
    uint64_t seen = atomic_load(&slot->cold.references);
    do {
        if (seen != references_of(t, (uint32_t)seen) || (uint32_t)seen == 0)
            return -1;
    } while (!atomic_compare_exchange_weak(&slot->cold.references, &seen, seen - 1));
    return (uint32_t)seen - 1;
}
