/*
 * Findings: one thing that went against a rule, said once, in words.
 *
 * Everything here is off the hot path: a finding is formatted into buffers of the thread, handed to the
 * handler, printed by a single write(2), counted. No lock, no allocation: safe in a forked child.
 */
#ifndef MRG_FINDING_H
#define MRG_FINDING_H

#include <stddef.h>

#include "handle.h"
#include "rules.h"

/* Where a public call was made: its site as the caller's macro or return address gave it, and its name. */
struct here {
    const char *site;
    const char *call; /* __func__ of the _at form */
};

/*
 * Reports that a call was refused by a rule. object: the one at fault, for its description and the site that
 * made it, or NULL. Sets errno to the rule's, or to error where that is not 0. Always returns -1.
 */
int refuse(enum rule rule, const struct here *here, const struct slot *object, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int refuse_with(int error, enum rule rule, const struct here *here, const struct slot *object, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Reports what a call did all the same, under the policy observe. errno stays as it is. */
void observe(enum rule rule, const struct here *here, const struct slot *object, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* What this thread says next was done all the same: its finding says that no call was refused. */
void finding_observed(void);

/* Reports what is nobody's call: a leak at exit, a deferred release that failed. errno stays as it is. */
void finding_note(enum rule rule, const char *made, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Refuses a handle that slot_find did not find. role: the argument's name in the sentence. */
int refuse_handle(const void *handle, enum type type, const struct here *here);

/* The failure came from below us: no finding of ours explains it. Sets errno = error, returns -1. */
int failed_below(int error);

/* "mrg_post_send_at" is mrg_post_send to its caller. */
void call_name(char *buf, size_t size, const char *function);

/* Writes a site as people read it: "file.c:12", or module and offset for a return address. */
void site_print(char *buf, size_t size, const char *site);

/* A return address in the place of a site. */
static inline const char *site_of_address(const void *address)
{
    return (const char *)((uintptr_t)address | (uintptr_t)1 << 63);
}

/*
 * What findings say of an object: a copy, since the object may go meanwhile. If it is gone already they are of what
 * has taken its slot over: wrong words, in a race that the caller lost anyway, but no harm.
 */
struct object_facts {
    enum type type;
    const char *site;
    uint64_t addr;
    uint64_t length;
    bool made; /* false: another thread is about to make it, or waits for it */
};

static inline struct object_facts object_facts(const struct slot *slot)
{
    bool made = slot_state(slot) != STATE_EMBRYO;
    return (struct object_facts){
        .type = slot_type(slot),
        .site = atomic_load_explicit(&slot->cold.site, memory_order_relaxed),
        .addr = made ? atomic_load_explicit(&slot->hot.addr, memory_order_relaxed) : 0,
        .length = made ? atomic_load_explicit(&slot->hot.length, memory_order_relaxed) : 0,
        .made = made,
    };
}

/* "MR [0x7f01c000, +4096)", "id", ... */
void object_print(char *buf, size_t size, const struct object_facts *object);

/* IBV_ACCESS_* by name: "local-write remote-read". */
void access_print(char *buf, size_t size, uint32_t access);

/* How often a rule was reported in this process, printed or not. */
uint64_t finding_count(enum rule rule);
uint64_t finding_total(void);

#endif
