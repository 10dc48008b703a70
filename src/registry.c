#include "registry.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHILDREN_NAMED 4

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Set before the first object of the type is published. */
static const struct class *_Atomic classes[TYPE_COUNT];

static const struct class *class_of(const struct slot *slot)
{
    return atomic_load_explicit(&classes[slot_type(slot)], memory_order_relaxed);
}

/* The word of an object once no close is looking: that comes within moments. */
static token await_verdict(const struct slot *slot, token t)
{
    token word;
    while ((word = atomic_load(&slot->hot.word)) == word_with(t, STATE_CLOSING))
        sched_yield();
    return word;
}

/* Edges */

static struct link *link_named(uint32_t name)
{
    return (struct link *)((uint32_t *)slot_table + name);
}

static uint32_t link_name(const struct link *link)
{
    return (uint32_t)((const uint32_t *)link - (const uint32_t *)slot_table);
}

/* The object that keeps a link. */
static struct slot *link_child(uint32_t name)
{
    struct slot *slot = &slot_table[name / (sizeof(struct slot) / sizeof(uint32_t))];
    return slot_type(slot) == TYPE_ANNEX ? &slot_table[((struct annex *)slot)->owner] : slot;
}

static inline struct link *link_of(struct slot *child, uint32_t edge)
{
    if (__builtin_expect(edge < LINKS_IN_SLOT, 1))
        return &child->cold.up[edge];
    return &((struct annex *)&slot_table[child->hot.body->annex])->up[edge - LINKS_IN_SLOT];
}

static inline void link_enter(struct link *link, struct slot *parent)
{
    uint32_t name = link_name(link);
    uint32_t next = parent->cold.first_child;
    *link = (struct link){slot_index(parent), next, 0};
    if (next)
        link_named(next)->prev = name;
    parent->cold.first_child = name;
    atomic_fetch_add(&parent->cold.children, 1);
}

/* Whether it was the parent's last. */
static inline bool link_leave(struct link *link, struct slot *parent)
{
    if (link->next)
        link_named(link->next)->prev = link->prev;
    if (link->prev)
        link_named(link->prev)->next = link->next;
    else
        parent->cold.first_child = link->next;
    link->parent = 0;
    return atomic_fetch_sub(&parent->cold.children, 1) == 1;
}

static bool kept_by_children(const struct slot *slot)
{
    return class_of(slot)->body_size && slot->hot.body->kept_by_children;
}

/* What no queue ever posted is not looked for. */
static inline bool borrowed(const struct slot *slot, token t)
{
    return atomic_load(&slot->hot.filter) && cells_look(slot, t, 1, NULL);
}

/*
 * An object that nothing holds any more is claimed for release: freeing from here on. Marked first and looked at
 * afterwards, as in object_close.
 */
static bool claim_orphan(struct slot *slot)
{
    token t = slot_token(slot);
    enum state held = kept_by_children(slot) ? STATE_LIVE : STATE_DEFERRED;
    if (!slot_move(slot, t, held, STATE_CLOSING))
        return false;
    full_fence();
    bool unused = !atomic_load(&slot->cold.children) && !references_count(slot) && !atomic_load(&slot->cold.users) &&
                  !borrowed(slot, t);
    slot_settle(slot, t, unused ? STATE_FREEING : held);
    return unused;
}

/*
 * Cuts all edges and gives the slot back. Parents that lived only for it are claimed and chained into *orphans by
 * cold.next, for the caller to release.
 */
static void bury(const struct class *class, struct slot *slot, uint32_t *orphans)
{
    for (uint32_t edge = 0; edge < class->edges; edge++) {
        struct link *link = link_of(slot, edge);
        if (!link->parent)
            continue;
        struct slot *parent = &slot_table[link->parent];
        if (link_leave(link, parent) && claim_orphan(parent)) {
            parent->cold.next = *orphans;
            *orphans = slot_index(parent);
        }
    }
    slot_give(slot, class->type);
}

static void release_orphans(uint32_t orphans)
{
    while (orphans) {
        struct slot *orphan = &slot_table[orphans];
        orphans = orphan->cold.next;
        object_release_late(orphan);
    }
}

static void bury_and_release_orphans(const struct class *class, struct slot *slot)
{
    uint32_t orphans = 0;
    pthread_mutex_lock(&lock);
    bury(class, slot, &orphans);
    pthread_mutex_unlock(&lock);
    release_orphans(orphans);
}

/* Birth */

/*
 * A child is entered first and its parent looked at afterwards, while a close marks its object first and looks for
 * children afterwards: one of the two sees the other. 0, or why not: ESTALE, or EAGAIN while a close is looking, or while
 * the parent is made: the device may have an event for it before the call that makes it is back. One that is deferred
 * lives as long as it has children, and nobody claims it meanwhile: that takes the lock.
 */
static inline int enter(struct link *link, token t)
{
    struct slot *parent = slot_at(t);
    link_enter(link, parent);
    token word = atomic_load(&parent->hot.word);
    if (word == word_with(t, STATE_LIVE) || word == word_with(t, STATE_DEFERRED))
        return 0;
    return word == word_with(t, STATE_CLOSING) || word == word_with(t, STATE_EMBRYO) ? EAGAIN : ESTALE;
}

static int enter_all(struct slot *child, const token parents[], uint32_t count)
{
    int error = 0;
    for (uint32_t edge = 0; edge < count && !error; edge++)
        if (parents[edge])
            error = enter(link_of(child, edge), parents[edge]);
    return error;
}

struct slot *object_new(const struct class *class, const char *site, const token parents[], uint32_t count)
{
    if (handle_forked())
        return errno = EPERM, NULL;
    int error;
    do {
        pthread_mutex_lock(&lock);
        atomic_store_explicit(&classes[class->type], class, memory_order_relaxed);
        struct slot *slot = slot_take(class->type, class->body_size, class->edges, site);
        error = slot ? enter_all(slot, parents, count) : ENOMEM;
        pthread_mutex_unlock(&lock);
        if (!error)
            return slot;
        if (slot)
            bury_and_release_orphans(class, slot);
    } while (error == EAGAIN && !sched_yield());
    return errno = error, NULL;
}

int object_refuse_new(const struct class *class, const struct here *here)
{
    const char *name = type_name(class->type);
    if (errno == EPERM)
        return refuse(RULE_AFTER_FORK, here, NULL, "the parent process has RDMA objects, so this child can make no %s",
                      name);
    if (errno == ESTALE)
        return refuse(RULE_STALE_HANDLE, here, NULL, "another thread is destroying what the new %s would belong to",
                      name);
    return failed_below(errno);
}

void *object_publish(struct slot *slot)
{
    token t = slot_token(slot);
    atomic_store_explicit(&slot->hot.word, word_with(t, STATE_LIVE), memory_order_release);
    return (void *)(uintptr_t)t;
}

void *object_publish_kept(struct slot *slot)
{
    slot->hot.body->kept_by_children = true;
    return object_publish(slot);
}

/* Death */

void object_abandon(struct slot *slot)
{
    int saved = errno;
    bury_and_release_orphans(class_of(slot), slot);
    errno = saved;
}

void *object_failed(struct slot *slot)
{
    object_abandon(slot);
    failed_below(errno);
    return NULL;
}

/* Whoever lent the memory of an MR gets it back last, when nothing names the MR any more. */
static __attribute__((noinline)) void bury_and_give_back(const struct class *class, struct slot *slot)
{
    struct owner *owner = slot->cold.owner;
    void *addr = (void *)(uintptr_t)slot->hot.addr;
    size_t length = slot->hot.length;
    bury_and_release_orphans(class, slot);
    owner->release(addr, length, owner->arg);
    free(owner);
}

/* Asks the provider. Where it refuses, the object is what it was before: refused says in which state that is. */
static int release(struct slot *slot, enum state refused)
{
    const struct class *class = class_of(slot);
    int error = class->release(slot);
    if (error) {
        atomic_store(&slot->hot.word, word_with(slot_token(slot), refused));
        return failed_below(error);
    }
    if (class->gone)
        class->gone(slot);
    if (slot->cold.owner)
        bury_and_give_back(class, slot);
    else
        bury_and_release_orphans(class, slot);
    return 0;
}

int object_release(struct slot *slot)
{
    return release(slot, STATE_LIVE);
}

static bool take_lock_and_claim(struct slot *slot)
{
    pthread_mutex_lock(&lock);
    bool claimed = claim_orphan(slot);
    pthread_mutex_unlock(&lock);
    return claimed;
}

/*
 * Late releases that the provider refused: tried again before a parent's destroy is refused for their sake. A few,
 * since one is a wonder; what does not fit stays until the process ends, and is reported then.
 */
static _Atomic token refused_late[16];

static void remember_refused(token t)
{
    for (size_t i = 0; i < sizeof refused_late / sizeof *refused_late; i++) {
        token none = 0;
        if (atomic_compare_exchange_strong(&refused_late[i], &none, t))
            return;
    }
}

static void retry_refused(void)
{
    for (size_t i = 0; i < sizeof refused_late / sizeof *refused_late; i++) {
        token t = atomic_load_explicit(&refused_late[i], memory_order_relaxed);
        if (t && (t = atomic_exchange(&refused_late[i], 0)) && slot_at(t)->hot.word == word_with(t, STATE_DEFERRED) &&
            take_lock_and_claim(slot_at(t)))
            object_release_late(slot_at(t));
    }
}

void object_release_late(struct slot *slot)
{
    token t = slot_token(slot);
    struct object_facts facts = object_facts(slot);
    bool kept = kept_by_children(slot);
    int saved = errno; /* the call under way is about another object */
    if (!release(slot, kept ? STATE_LIVE : STATE_DEFERRED))
        return;
    int error = errno;
    errno = saved;
    if (!kept)
        remember_refused(t);
    finding_note(RULE_LEAKED_MR, facts.site, "the deferred release of this %s failed (%s); it will be tried again",
                 type_name(facts.type), strerrorname_np(error));
}

/* The children that stand in a parent's way: the first few are copied under the lock, and described without it. */
struct blame {
    enum rule rule; /* the worst that they break */
    uint32_t count;
    bool more;
    struct object_facts first[CHILDREN_NAMED];
};

static enum rule rule_of_child(enum type type, enum type parent)
{
    switch (type) {
    case TYPE_MR:
        return RULE_LEAKED_MR;
    case TYPE_EVENT:
    case TYPE_ASYNC_EVENT:
        return RULE_UNACKED_EVENT;
    case TYPE_BORROW:
        return RULE_DEREG_IN_FLIGHT;
    case TYPE_MW:
        return parent == TYPE_MR ? RULE_WINDOW_BOUND : RULE_DESTROY_ORDER;
    default:
        return RULE_DESTROY_ORDER;
    }
}

/* Spare children do not stand in the way. */
static struct blame blame_children(struct slot *parent, unsigned int spare)
{
    struct blame blame = {0};
    pthread_mutex_lock(&lock);
    for (uint32_t name = parent->cold.first_child; name && !blame.more; name = link_named(name)->next) {
        struct slot *child = link_child(name);
        enum type type = slot_type(child);
        if (spare >> type & 1)
            continue;
        if (blame.rule == RULE_NONE || type == TYPE_MR)
            blame.rule = rule_of_child(type, slot_type(parent));
        if (blame.count < CHILDREN_NAMED)
            blame.first[blame.count++] = object_facts(child);
        else
            blame.more = true;
    }
    pthread_mutex_unlock(&lock);
    return blame;
}

static size_t put_child(char *buf, size_t size, const struct object_facts *child)
{
    char object[96], site[200];
    object_print(object, sizeof object, child);
    site_print(site, sizeof site, child->site);
    int n = snprintf(buf, size, "%s %s at %s", object, child->made ? "made" : "being made", site);
    return n < 0 || (size_t)n >= size ? size : (size_t)n;
}

static void describe_blame(const struct blame *blame, enum type parent, char *why, size_t size)
{
    size_t used = (size_t)snprintf(why, size, "still belonging to this %s: ", type_name(parent));
    for (uint32_t i = 0; i < blame->count && used < size; i++) {
        used += put_child(why + used, size - used, &blame->first[i]);
        if (used < size && (i + 1 < blame->count || blame->more))
            used += (size_t)snprintf(why + used, size - used, ", ");
    }
    if (blame->more && used < size)
        snprintf(why + used, size - used, "...");
}

static enum rule blame_users(const struct slot *slot, uint32_t users, char *why, size_t size)
{
    const char *name = type_name(slot_type(slot));
    if (users == 1)
        snprintf(why, size, "another thread is inside a call on this %s", name);
    else
        snprintf(why, size, "%" PRIu32 " threads are inside calls on this %s", users, name);
    return RULE_DESTROY_ORDER;
}

/* Work in flight: how much of it, and on which queue. */
static enum rule blame_borrows(const struct slot *slot, token t, char *why, size_t size)
{
    token owner = 0;
    uint32_t count = cells_look(slot, t, UINT32_MAX, &owner);
    if (!count)
        return RULE_NONE;
    char queue[96], site[200];
    struct object_facts facts = object_facts(slot_at(owner));
    object_print(queue, sizeof queue, &facts);
    site_print(site, sizeof site, facts.site);
    bool is_mr = slot_type(slot) == TYPE_MR;
    const char *name = type_name(slot_type(slot));
    int n = count == 1 ? snprintf(why, size, "a %sWR in flight uses this %s", is_mr ? "piece of a " : "", name)
                       : snprintf(why, size, "%" PRIu32 " %s in flight use this %s", count,
                                  is_mr ? "pieces of WRs" : "WRs", name);
    if (n > 0 && (size_t)n < size)
        snprintf(why + n, size - (size_t)n, ", %s on the %s made at %s", count == 1 ? "posted" : "among them", queue,
                 site);
    return is_mr ? RULE_DEREG_IN_FLIGHT : RULE_DESTROY_ORDER;
}

/* Only the one reference of whoever closes, no child, no user. */
static bool nothing_in_the_way(struct slot *slot, token t)
{
    return atomic_load(&slot->cold.references) == references_of(t, 1) &&
           !(atomic_load(&slot->cold.children) | atomic_load(&slot->cold.users)) && !borrowed(slot, t);
}

/* The object is closing: why it cannot be closed, RULE_NONE where it can. */
static enum rule look_closely(struct slot *slot, token t, unsigned int spare, char *why, size_t size)
{
    const struct class *class = class_of(slot);
    uint32_t references = references_count(slot);
    if (references != 1) {
        snprintf(why, size, "%" PRIu32 " other references to this %s are held: use unref", references - 1,
                 type_name(class->type));
        return references ? RULE_DESTROY_ORDER : RULE_STALE_HANDLE;
    }
    struct blame blame = blame_children(slot, spare);
    if (blame.rule != RULE_NONE) {
        describe_blame(&blame, class->type, why, size);
        return blame.rule;
    }
    enum rule rule = blame_borrows(slot, t, why, size);
    if (rule != RULE_NONE)
        return rule;
    uint32_t users = atomic_load(&slot->cold.users);
    rule = users && class->busy ? class->busy(slot, why, size) : RULE_NONE;
    return rule == RULE_NONE && users ? blame_users(slot, users, why, size) : rule;
}

static int refuse_gone(token t, const struct here *here)
{
    return here ? refuse_handle((void *)(uintptr_t)t, token_type(t), here) : -1;
}

/* It is closing, and something is in its way. */
static __attribute__((noinline)) int close_slowly(struct slot *slot, token t, unsigned int spare, enum state closed,
                                                  const struct here *here)
{
    char why[400];
    enum rule rule = look_closely(slot, t, spare, why, sizeof why);
    slot_settle(slot, t, rule == RULE_NONE ? closed : STATE_LIVE);
    if (rule == RULE_STALE_HANDLE)
        return refuse_gone(t, here);
    return rule == RULE_NONE ? 0 : here ? refuse(rule, here, slot, "%s", why) : -1;
}

/*
 * Marks the object and then looks who is in it; children, users and references enter it and then look at the mark.
 * So each of them is seen here, or sees the mark: then it waits for the verdict, which comes within moments.
 */
static inline int close_live(struct slot *slot, token t, unsigned int spare, enum state closed, const struct here *here)
{
    if (atomic_load_explicit(&slot->cold.children, memory_order_relaxed))
        retry_refused();
    while (!slot_move(slot, t, STATE_LIVE, STATE_CLOSING)) /* another close may be looking, and find that it may not */
        if (await_verdict(slot, t) != word_with(t, STATE_LIVE))
            return refuse_gone(t, here);
    full_fence();
    if (__builtin_expect(!nothing_in_the_way(slot, t), 0))
        return close_slowly(slot, t, spare, closed, here);
    slot_settle(slot, t, closed);
    return 0;
}

int object_close(struct slot *slot, token t, unsigned int spare, const struct here *here)
{
    return close_live(slot, t, spare, STATE_FREEING, here);
}

int object_refuse_busy(struct slot *slot, token t, unsigned int spare, const struct here *here)
{
    return close_live(slot, t, spare, STATE_LIVE, here);
}

void object_reopen(struct slot *slot, token t)
{
    slot_move(slot, t, STATE_FREEING, STATE_LIVE);
}

int object_end(struct slot *slot, token t, const struct here *here)
{
    return close_live(slot, t, 0, STATE_FREEING, here) ? -1 : release(slot, STATE_LIVE);
}

int object_destroy(const void *handle, enum type type, const struct here *here)
{
    struct slot *slot = slot_find(handle, type);
    if (!slot)
        return refuse_handle(handle, type, here);
    return object_end(slot, handle_token(handle), here);
}

/* A close that looks is waited for: refused, it would make the object live again. */
static bool last_reference_gone(struct slot *slot, token t)
{
    if (!kept_by_children(slot))
        while (!slot_move(slot, t, STATE_LIVE, STATE_DEFERRED))
            if (await_verdict(slot, t) != word_with(t, STATE_LIVE))
                break;
    if (take_lock_and_claim(slot))
        return true;
    /*
     * A completion that saw the object live has cleared its cell, but may not have let us see it, nor those who try after
     * us: see cells.h. So whatever was in the way, all completions are made to show what they did. Another try may be
     * looking at this moment, and see no more than ours did: its verdict is waited for.
     */
    if (!atomic_load(&slot->hot.filter) || await_verdict(slot, t) != word_with(t, STATE_DEFERRED))
        return false;
    heavy_fence();
    return take_lock_and_claim(slot);
}

int object_unref(struct slot *slot, token t, const struct here *here)
{
    int64_t left = references_drop(slot, t);
    if (left < 0)
        return refuse_handle((void *)(uintptr_t)t, token_type(t), here);
    if (left || !last_reference_gone(slot, t))
        return 0;
    if (kept_by_children(slot)) {
        object_release_late(slot);
        return 0;
    }
    /* Refused, the caller has its reference again; nobody can see it before the object is live. */
    atomic_store(&slot->cold.references, references_of(t, 1));
    return release(slot, STATE_LIVE);
}

/* Edges of living objects */

static struct link *link_to(struct slot *child, enum type parent_type)
{
    uint32_t edges = class_of(child)->edges;
    for (uint32_t edge = 0; edge < edges; edge++) {
        struct link *link = link_of(child, edge);
        if (link->parent && slot_type(&slot_table[link->parent]) == parent_type)
            return link;
    }
    return NULL;
}

struct slot *object_cut(struct slot *child, uint32_t edge)
{
    pthread_mutex_lock(&lock);
    struct link *link = link_of(child, edge);
    struct slot *parent = &slot_table[link->parent];
    bool orphan = link->parent && link_leave(link, parent) && claim_orphan(parent);
    pthread_mutex_unlock(&lock);
    return orphan ? parent : NULL;
}

void object_leave(struct slot *child, uint32_t edge)
{
    struct slot *orphan = object_cut(child, edge);
    if (orphan)
        object_release_late(orphan);
}

int object_join(struct slot *child, uint32_t edge, token parent)
{
    struct link *link = link_of(child, edge);
    int error;
    do {
        pthread_mutex_lock(&lock);
        error = link->parent ? 0 : enter(link, parent); /* another thread may have been faster */
        if (error)
            link_leave(link, slot_at(parent));
        pthread_mutex_unlock(&lock);
    } while (error == EAGAIN && !sched_yield());
    return error ? -1 : 0;
}

struct slot *object_parent(struct slot *child, enum type parent_type)
{
    pthread_mutex_lock(&lock);
    struct link *link = link_to(child, parent_type);
    struct slot *parent = link ? &slot_table[link->parent] : NULL;
    pthread_mutex_unlock(&lock);
    return parent;
}

/* With the lock: the first child of a type in one of states (a mask), for which match is true (NULL: any). */
static struct slot *find_child(struct slot *parent, enum type type, unsigned int states,
                               bool (*match)(const struct slot *, const void *), const void *arg)
{
    for (uint32_t name = parent->cold.first_child; name; name = link_named(name)->next) {
        struct slot *child = link_child(name);
        if (slot_type(child) == type && (states >> slot_state(child) & 1) && (!match || match(child, arg)))
            return child;
    }
    return NULL;
}

/* A child that may be held, counted as used; one that is closing may be live again. */
static struct slot *use_child(struct slot *parent, enum type type, bool (*match)(const struct slot *, const void *),
                              const void *arg, token *t)
{
    pthread_mutex_lock(&lock);
    struct slot *found = find_child(parent, type, 1U << STATE_LIVE | 1U << STATE_CLOSING, match, arg);
    if (found) {
        *t = slot_token(found);
        atomic_fetch_add(&found->cold.users, 1);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

struct slot *object_hold_child(struct slot *parent, enum type type, bool (*match)(const struct slot *, const void *),
                               const void *arg)
{
    token t;
    struct slot *found;
    while ((found = use_child(parent, type, match, arg, &t)) && await_verdict(found, t) != word_with(t, STATE_LIVE))
        object_exit(found); /* it is being destroyed: the next look does not find it */
    return found;
}

/* Its edge keeps it from being buried, and the lock from being claimed: nothing else ends that state. */
struct slot *object_hold_deferred_child(struct slot *parent, enum type type)
{
    pthread_mutex_lock(&lock);
    struct slot *found = find_child(parent, type, 1U << STATE_DEFERRED, NULL, NULL);
    if (found)
        atomic_fetch_add(&found->cold.users, 1);
    pthread_mutex_unlock(&lock);
    return found;
}

bool object_has_child(struct slot *parent, enum type type)
{
    pthread_mutex_lock(&lock);
    bool found = find_child(parent, type, ~0U, NULL, NULL);
    pthread_mutex_unlock(&lock);
    return found;
}

/* Uses: calls and borrows under way */

bool object_use(struct slot *slot, token t)
{
    atomic_fetch_add(&slot->cold.users, 1);
    return __builtin_expect(atomic_load(&slot->hot.word) == word_with(t, STATE_LIVE), 1) ||
           await_verdict(slot, t) == word_with(t, STATE_LIVE);
}

bool object_hold(struct slot *slot, token t)
{
    if (object_use(slot, t))
        return true;
    object_exit(slot);
    return false;
}

bool object_unuse(struct slot *slot)
{
    if (atomic_fetch_sub(&slot->cold.users, 1) != 1)
        return false;
    while (slot_state(slot) == STATE_CLOSING)
        sched_yield();
    return (slot_state(slot) == STATE_DEFERRED || kept_by_children(slot)) && take_lock_and_claim(slot);
}

bool object_stays(struct slot *slot, token t, bool deferred_too)
{
    token word = await_verdict(slot, t);
    return word == word_with(t, STATE_LIVE) || (deferred_too && word == word_with(t, STATE_DEFERRED));
}

bool object_end_borrow(struct slot *slot, token t)
{
    if (await_verdict(slot, t) != word_with(t, STATE_DEFERRED))
        return false;
    full_fence();
    return take_lock_and_claim(slot);
}

bool object_in_flight(const struct slot *slot)
{
    return borrowed(slot, slot_token(slot));
}

struct slot *object_enter(const void *handle, enum type type, const struct here *here)
{
    struct slot *slot;
    do {
        slot = slot_find(handle, type);
        if (!slot) {
            refuse_handle(handle, type, here);
            return NULL;
        }
    } while (!object_hold(slot, handle_token(handle)));
    return slot;
}

void object_exit(struct slot *slot)
{
    int saved = errno;
    if (object_unuse(slot))
        object_release_late(slot);
    errno = saved;
}

int object_exit_with(struct slot *slot, int error)
{
    object_exit(slot);
    return error ? failed_below(error) : 0;
}

/* Looking at all */

void object_each(enum type type, void (*visit)(const struct slot *slot, void *arg), void *arg)
{
    pthread_mutex_lock(&lock);
    uint32_t committed = atomic_load(&slot_committed);
    for (uint32_t i = 1; i < committed; i++) {
        const struct slot *slot = &slot_table[i];
        enum state state = slot_state(slot);
        if (slot_type(slot) == type && (state == STATE_LIVE || state == STATE_DEFERRED || state == STATE_FREEING))
            visit(slot, arg);
    }
    pthread_mutex_unlock(&lock);
}
