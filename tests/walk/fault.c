/*
 * What can fail in a life, counted, and failed when it is its turn: the calls through the seam and the allocations of
 * mrguard's. tests/stub/inject.c makes calls through the seam fail; a layer of ours below it writes down what they are.
 */
#include <poll.h>
#include <sys/mman.h>

#include "life.h"
#include "stub.h"
#include "verbs.h"

static struct diary *diary; /* NULL: nothing counts */

static void note(enum kind kind, const char *name)
{
    if (!diary)
        return;
    if (diary->counts[kind] == CALLS_MAX)
        life_fails("a life of more than %d calls: enlarge CALLS_MAX", CALLS_MAX);
    diary->names[kind][diary->counts[kind]++] = name;
}

/* The seam */

static struct verbs below;

#define VERB_PTR(type, name, symbol, params, args) \
    static type note_##name params                 \
    {                                              \
        note(SEAM, #name);                         \
        return below.name args;                    \
    }
#define VERB_INT(name, symbol, params, args) VERB_PTR(int, name, symbol, params, args)
#define VERB_ERRNO(name, symbol, params, args) VERB_PTR(int, name, symbol, params, args)
#define VERB_VOID(name, symbol, params, args)
#include "verbs.def"
#undef VERB_PTR
#undef VERB_INT
#undef VERB_ERRNO
#undef VERB_VOID

static void install_notes(void)
{
#define VERB_PTR(type, name, symbol, params, args) verbs.name = note_##name;
#define VERB_INT(name, symbol, params, args) verbs.name = note_##name;
#define VERB_ERRNO(name, symbol, params, args) verbs.name = note_##name;
#define VERB_VOID(name, symbol, params, args)
#include "verbs.def"
#undef VERB_PTR
#undef VERB_INT
#undef VERB_ERRNO
#undef VERB_VOID
}

/* A synchronous wait, made to be always the same calls: see await_send and await_recv_asleep. */

static bool patient;
static void (*when_asleep)(void);

void fault_poll_patiently(bool patiently)
{
    patient = patiently;
}

void fault_when_asleep(void (*then)(void))
{
    when_asleep = then;
}

#define POLLS_MAX 8000 /* a millisecond each */

static int patient_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    int got = ibv_poll_cq(cq, count, wc);
    for (int i = 0; patient && !got && i < POLLS_MAX; i++) {
        poll(NULL, 0, 1);
        got = ibv_poll_cq(cq, count, wc);
    }
    return got;
}

static int sleeping_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
    void (*then)(void) = when_asleep;
    when_asleep = NULL;
    if (then)
        then();
    return ibv_get_cq_event(channel, cq, context);
}

/* Allocations. The linker sends mrguard's here (--wrap), and nobody else's but the walk's own, which makes none. */

static int allocation_due;

static bool refuse_allocation(const char *name)
{
    note(ALLOCATION, name);
    if (!diary || diary->counts[ALLOCATION] != allocation_due)
        return false;
    diary->struck = name;
    errno = ENOMEM;
    return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__real_mmap(void *addr, size_t length, int protection, int flags, int fd, off_t offset);
int __real_mprotect(void *addr, size_t length, int protection);
int __real_madvise(void *addr, size_t length, int advice);

void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return refuse_allocation("malloc") ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return refuse_allocation("calloc") ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
    return refuse_allocation("realloc") ? NULL : __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return refuse_allocation("aligned_alloc") ? NULL : __real_aligned_alloc(alignment, size);
}

void *__wrap_mmap(void *addr, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *addr, size_t length, int protection, int flags, int fd, off_t offset)
{
    return refuse_allocation("mmap") ? MAP_FAILED : __real_mmap(addr, length, protection, flags, fd, offset);
}

int __wrap_mprotect(void *addr, size_t length, int protection);
int __wrap_mprotect(void *addr, size_t length, int protection)
{
    return refuse_allocation("mprotect") ? -1 : __real_mprotect(addr, length, protection);
}

int __wrap_madvise(void *addr, size_t length, int advice);
int __wrap_madvise(void *addr, size_t length, int advice)
{
    return refuse_allocation("madvise") ? -1 : __real_madvise(addr, length, advice);
}

/* Both */

/* Nothing in the kernel, the provider or librdmacm says EPROTO. */
int fault_errno(enum kind kind)
{
    return kind == SEAM ? EPROTO : ENOMEM;
}

void fault_arm(enum kind kind, int n, struct diary *writes)
{
    below = verbs;
    below.poll_cq = patient_poll_cq;
    below.get_cq_event = sleeping_get_cq_event;
    install_notes();
    inject_install();
    inject_arm(kind == SEAM ? n : 0, fault_errno(SEAM));
    allocation_due = kind == ALLOCATION ? n : 0;
    diary = writes;
}

void fault_disarm(void)
{
    diary->struck = fault_struck();
    diary = NULL;
    inject_arm(0, 0);
}

const char *fault_struck(void)
{
    if (diary && !diary->struck)
        diary->struck = inject_hit();
    return diary ? diary->struck : NULL;
}
