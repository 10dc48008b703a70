#include "finding.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <mrguard/report.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "options.h"

#define SITE_TEXT_MAX 256

/* The last finding of the thread, with the text that it points to. */
static _Thread_local struct last_finding {
    struct mrg_finding finding;
    bool valid;
    char call[64];
    char message[512];
    char object[128];
    char made[SITE_TEXT_MAX];
    char misused[SITE_TEXT_MAX];
} last;

static _Atomic uint64_t counts[RULE_COUNT];

static struct {
    _Atomic(mrg_finding_handler *) handler;
    _Atomic(void *) arg;
} handler;

void call_name(char *buf, size_t size, const char *function)
{
    size_t length = strlen(function);
    if (length > 3 && !strcmp(function + length - 3, "_at"))
        length -= 3;
    snprintf(buf, size, "%.*s", (int)length, function);
}

/* The module may have been unloaded since: a literal is only read where some module is mapped now. */
void site_print(char *buf, size_t size, const char *site)
{
    uintptr_t address = (uintptr_t)site & ~((uintptr_t)1 << 63);
    Dl_info info;
    if (!site) {
        snprintf(buf, size, "(unknown)");
    } else if (!dladdr((const void *)address, &info)) {
        snprintf(buf, size, "(in a module that is no longer loaded)");
    } else if (address == (uintptr_t)site) {
        snprintf(buf, size, "%.200s", site);
    } else {
        const char *slash = strrchr(info.dli_fname, '/');
        snprintf(buf, size, "%s+0x%" PRIxPTR "%s%s", slash ? slash + 1 : info.dli_fname,
                 address - (uintptr_t)info.dli_fbase, info.dli_sname ? " in " : "",
                 info.dli_sname ? info.dli_sname : "");
    }
}

void object_print(char *buf, size_t size, const struct object_facts *object)
{
    if (object->type == TYPE_MR && !object->length)
        snprintf(buf, size, "MR (being registered)");
    else if (object->type == TYPE_MR)
        snprintf(buf, size, "MR [0x%" PRIx64 ", +%" PRIu64 ")", object->addr, object->length);
    else
        snprintf(buf, size, "%s", type_name(object->type));
}

/*
 * A service that retries a refused call in a loop must not drown its log: a rule broken by a call at a site, for objects
 * that one line made, is printed the 1st, 10th, 100th ... time. Returns that count where it is to be printed, else 0. A bucket remembers whose count
 * it is, so what was not seen before is always printed; two that share a bucket are printed more often, not less.
 */
static uint64_t turn_to_print(enum rule rule, const char *call, const char *site, const char *made)
{
    static struct {
        _Atomic uint64_t whose;
        _Atomic uint64_t count;
    } seen[1024];
    uint64_t hash = (uintptr_t)site * UINT64_C(0x9e3779b97f4a7c15) ^ (uintptr_t)call * UINT64_C(0xc2b2ae3d27d4eb4f) ^
                    (uint64_t)(rule + 1) * UINT64_C(0x165667b19e3779f9) ^
                    (uintptr_t)made * UINT64_C(0xff51afd7ed558ccd);
    uint64_t n = 1;
    size_t bucket = hash >> 54;
    if (atomic_exchange(&seen[bucket].whose, hash) == hash)
        n = atomic_fetch_add(&seen[bucket].count, 1) + 1;
    else
        atomic_store(&seen[bucket].count, 1);
    uint64_t step = 1;
    while (step * 10 <= n)
        step *= 10;
    return n == step ? n : 0;
}

/* Text that is put together piece by piece, cut off where it is full. */
struct text {
    size_t used;
    char bytes[SITE_TEXT_MAX * 6];
};

static void __attribute__((format(printf, 2, 3))) put(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text->bytes + text->used, sizeof text->bytes - text->used, format, args);
    va_end(args);
    text->used += n > 0 ? (size_t)n : 0;
    if (text->used >= sizeof text->bytes)
        text->used = sizeof text->bytes - 1;
}

static void write_all(const struct text *text)
{
    for (size_t done = 0; done < text->used;) {
        ssize_t written = write(options()->output, text->bytes + done, text->used - done);
        if (written < 0 && errno != EINTR)
            return;
        done += written > 0 ? (size_t)written : 0;
    }
}

/* Nobody may read what we say any more; that must not end the process. */
static void write_out(const struct text *text)
{
    sigset_t pipe, before, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    write_all(text);
    if (!sigismember(&pending, SIGPIPE))
        sigtimedwait(&pipe, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void print_text(const struct mrg_finding *f, uint64_t times)
{
    struct text text = {0};
    put(&text, "mrguard: %s: %s%s%s\n", f->rule, f->call ? f->call : "", f->call ? ": " : "", f->message);
    if (f->misused)
        put(&text, "    at        %s%s", f->misused, f->error ? "" : "   (let through)");
    if (f->misused && times > 1)
        put(&text, "   (%" PRIu64 " times so far)", times);
    if (f->misused)
        put(&text, "\n");
    if (f->made)
        put(&text, "    made at   %s%s%s\n", f->made, f->object ? "   " : "", f->object ? f->object : "");
    put(&text, "    hint      %s\n", f->hint);
    write_out(&text);
}

static void describe(enum rule rule, int error, const struct here *here, const struct slot *object, const char *made)
{
    struct mrg_finding *f = &last.finding;
    *f = (struct mrg_finding){
        .rule = rule_texts[rule].name,
        .error = error,
        .message = last.message,
        .hint = rule_texts[rule].hint,
    };
    if (here) {
        call_name(last.call, sizeof last.call, here->call);
        site_print(last.misused, sizeof last.misused, here->site);
        f->call = last.call;
        f->misused = last.misused;
    }
    if (object) {
        struct object_facts facts = object_facts(object);
        object_print(last.object, sizeof last.object, &facts);
        f->object = last.object;
        made = facts.site;
    }
    if (made) {
        site_print(last.made, sizeof last.made, made);
        f->made = last.made;
    }
}

/* What the handler calls may fail in turn; the finding that is handed over is the thread's last one all the same. */
static void hand_over(mrg_finding_handler *call)
{
    static _Thread_local bool inside;
    if (inside) /* a handler that always fails would never come to an end */
        return;
    inside = true;
    struct last_finding saved = last;
    call(&last.finding, atomic_load(&handler.arg));
    last = saved;
    inside = false;
}

/* Counts, hands out, prints. */
static void publish(enum rule rule, const char *call, const char *site, const char *made)
{
    atomic_fetch_add_explicit(&counts[rule], 1, memory_order_relaxed);
    last.valid = true;
    mrg_finding_handler *own = atomic_load(&handler.handler);
    uint64_t times = turn_to_print(rule, call, site, made);
    if (own)
        hand_over(own);
    else if (times)
        print_text(&last.finding, times);
    if (options()->policy == POLICY_ABORT)
        abort();
}

static _Thread_local bool observed;

void finding_observed(void)
{
    observed = true;
}

static int refuse_va(int error, enum rule rule, const struct here *here, const struct slot *object, const char *format,
                     va_list args)
{
    vsnprintf(last.message, sizeof last.message, format, args);
    describe(rule, observed ? 0 : error, here, object, NULL);
    observed = false;
    publish(rule, here->call, here->site, object ? atomic_load(&object->cold.site) : NULL);
    errno = error;
    return -1;
}

int refuse(enum rule rule, const struct here *here, const struct slot *object, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    refuse_va(rule_texts[rule].error, rule, here, object, format, args);
    va_end(args);
    return -1;
}

int refuse_with(int error, enum rule rule, const struct here *here, const struct slot *object, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    refuse_va(error, rule, here, object, format, args);
    va_end(args);
    return -1;
}

void observe(enum rule rule, const struct here *here, const struct slot *object, const char *format, ...)
{
    int saved = errno;
    va_list args;
    va_start(args, format);
    refuse_va(0, rule, here, object, format, args);
    va_end(args);
    errno = saved;
}

void finding_note(enum rule rule, const char *made, const char *format, ...)
{
    int saved = errno;
    va_list args;
    va_start(args, format);
    vsnprintf(last.message, sizeof last.message, format, args);
    va_end(args);
    describe(rule, 0, NULL, NULL, made);
    publish(rule, NULL, made, made);
    errno = saved;
}

int refuse_handle(const void *handle, enum type type, const struct here *here)
{
    const char *phrase;
    enum rule rule = handle_fault(handle, type, &phrase);
    const char *name = type_name(type);
    if (!handle)
        return refuse(rule, here, NULL, "the %s %s", name, phrase);
    return refuse(rule, here, NULL, "the %s %p %s", name, handle, phrase);
}

void access_print(char *buf, size_t size, uint32_t access)
{
    static const char *const names[] = {"local-write", "remote-write", "remote-read", "remote-atomic",
                                        "mw-bind",     "zero-based",   "on-demand",   "huge-tlb"};
    size_t used = (size_t)snprintf(buf, size, "%s", access ? "" : "nothing");
    for (uint32_t bit = 0; bit < 32; bit++) {
        if (!(access >> bit & 1) || used >= size)
            continue;
        const char *space = used ? " " : "";
        used += bit < sizeof names / sizeof *names
                    ? (size_t)snprintf(buf + used, size - used, "%s%s", space, names[bit])
                    : (size_t)snprintf(buf + used, size - used, "%s0x%" PRIx32, space, UINT32_C(1) << bit);
    }
}

int failed_below(int error)
{
    last.valid = false;
    errno = error;
    return -1;
}

uint64_t finding_count(enum rule rule)
{
    return atomic_load_explicit(&counts[rule], memory_order_relaxed);
}

uint64_t finding_total(void)
{
    uint64_t total = 0;
    for (enum rule rule = RULE_NONE; rule < RULE_COUNT; rule++)
        total += finding_count(rule);
    return total;
}

const struct mrg_finding *mrg_last_finding(void)
{
    return last.valid ? &last.finding : NULL;
}

void mrg_set_finding_handler(mrg_finding_handler *call, void *arg)
{
    atomic_store(&handler.handler, NULL); /* nobody meets the new function with the old argument */
    atomic_store(&handler.arg, arg);
    atomic_store(&handler.handler, call);
}
