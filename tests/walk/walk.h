/*
 * The failure walk: every life of an RDMA program goes on after any one failure. A scenario is two lives, active and
 * passive, each in a process of its own. It runs once undisturbed, which counts every call through the seam and every
 * allocation of mrguard's; then once for each of these, with that one failing.
 *
 * A scenario more: a file like refusal.c, and a line in scenarios.h. Each life begins with nothing and ends with
 * nothing. Every call that can fail stands in a try. Number and order of a side's calls depend on no race (see
 * await_completion and await_send): a run in which the n-th call is another one than in the first run fails.
 */
#ifndef MRG_WALK_H
#define MRG_WALK_H

#include <errno.h>
#include <mrguard/mrguard.h>
#include <stdbool.h>
#include <string.h>

enum side { ACTIVE, PASSIVE, SIDES };

struct scenario {
    const char *name;
    void (*play[SIDES])(void);
};

/*
 * Around every call of mrguard's that can fail. Where it fails, the failure must be the injected one: its errno, no
 * finding, and *unchanged* true. Then the same call is made once more and must succeed. A call that succeeds although
 * a failure struck inside it has swallowed it, which fails the run but in tolerate.
 */
#define try_else(ok, unchanged, text)                              \
    do {                                                           \
        life_calls(text, __FILE__, __LINE__);                      \
        if (!life_passes(ok)) {                                    \
            life_requires(unchanged, "what was there is changed"); \
            life_requires(ok, "it failed again");                  \
        }                                                          \
    } while (0)

/* 0 is success. */
#define try(call) try_else((call) == 0, true, #call)

/* Makes a handle; NULL is failure. */
#define try_make(handle, call) try_else(((handle) = (call)) != NULL, true, #call)

/* 0 is success, and writes *out*, a handle; a failure leaves it as it was. */
#define try_out(out, call)                           \
    do {                                             \
        (out) = NULL;                                \
        try_else((call) == 0, (out) == NULL, #call); \
    } while (0)

/* A negative number is failure. */
#define try_count(got, call) try_else(((got) = (call)) >= 0, true, #call)

/* For mrg_mr_unref and mrg_pd_unref, which tell of a failure in errno alone. */
#define try_unref(call) try_else((errno = 0, (call), errno == 0), true, #call)

/*
 * Around a call that is refused however often it is made: by the device or the kernel, which has no such thing, or by a
 * rule of mrguard's. Where the injected failure strikes in it, it fails with that first, and is refused when it is made
 * again. error: the refusal's errno; rule: that of its finding, NULL for none.
 */
#define try_refused(ok, error, rule)          \
    do {                                      \
        life_calls(#ok, __FILE__, __LINE__);  \
        life_awaits_refusal(rule);            \
        if (!life_is_refused(ok, error))      \
            (void)life_is_refused(ok, error); \
        life_awaits_refusal(NULL);            \
    } while (0)

/*
 * Around a try of a call in which the verb may fail with nobody told, by design; say there why.
 *   LATE_RELEASE  of what was deferred to this call: mrguard keeps the object, notes a finding, releases it later
 *   HARMLESS      what the verb was to do is done by others
 */
enum tolerance { NO_TOLERANCE, LATE_RELEASE, HARMLESS };
#define tolerate(tolerance, verb, statement) \
    do {                                     \
        life_tolerates(tolerance, verb);     \
        statement;                           \
        life_tolerates(NO_TOLERANCE, NULL);  \
    } while (0)

/* The machinery of the above. */
void life_calls(const char *text, const char *file, int line);
bool life_passes(bool ok);
void life_requires(bool ok, const char *complaint);
void life_tolerates(enum tolerance tolerance, const char *verb);
void life_awaits_refusal(const char *rule);
bool life_is_refused(bool ok, int error);

/* Ends this life as failed, with a sentence. */
void life_fails(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Whether this run's failure strikes the other side. */
bool peer_is_struck(void);

/* To and from the other side, beside RDMA. Hearing has a deadline and fails if the other side is gone. */
void say(char word);
void hear(char word);
void say_bytes(const void *bytes, size_t size);
void hear_bytes(void *bytes, size_t size);
void say_port(mrg_id *listener);
uint16_t hear_port(void);

/* The device's address, from rdma_getaddrinfo. flags: RAI_PASSIVE or 0. */
struct rdma_addrinfo *address(uint16_t port, int flags);

/* Waits for the channel's next event, which must be of this type. The caller acknowledges it. */
mrg_cm_event *get_event(mrg_channel *channel, enum rdma_cm_event_type type);

/* Likewise, and acknowledges it. The id that it is for. */
mrg_id *await_event(mrg_channel *channel, enum rdma_cm_event_type type);

/*
 * Waits for one completion event, arms the CQ again and polls it empty: exactly one completion, successful, of this
 * wr_id. Have one WR in flight at a time, so that the number of calls is the same in every run. late: a verb with which
 * the poll may release what was deferred to the completion, or NULL.
 */
void await_completion(mrg_comp_channel *channel, void *context, const char *late);

/*
 * How many calls a synchronous wait makes depends on who is first, the completion or the waiter. These two decide it:
 * mrg_get_send_comp finds the completion; mrg_get_recv_comp sleeps, and the other side hears a word when it does.
 */
void await_send(mrg_id *id, void *context);
void await_recv_asleep(mrg_id *id, void *context, char word);

/*
 * Polls one completion, which may come at any time; others may wait behind it. It must be successful and of this wr_id;
 * *wc: what it says, NULL if nobody asks.
 */
void await_polled(mrg_cq *cq, void *context, struct ibv_wc *wc);

/* Waits for the device's next asynchronous event, which must be of this type. The caller acknowledges it. */
mrg_async_event *get_async_event(mrg_context *device, enum ibv_event_type type);

#endif
