/* What mrguard found, and how much it holds. */
#ifndef MRGUARD_REPORT_H
#define MRGUARD_REPORT_H

#include <mrguard/types.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One thing that went against a rule. Strings are never NULL unless it says so. */
struct mrg_finding {
    const char *rule;    /* "out-of-range": its name in the table of rules */
    int error;           /* the errno of the refused call; 0: no call was refused */
    const char *call;    /* "mrg_post_send"; NULL: found outside of any call */
    const char *message; /* one sentence */
    const char *object;  /* "MR [0x7f2a6c000000, +4096)"; NULL: none is known */
    const char *made;    /* "server.c:120", where the object was made; NULL: not known */
    const char *misused; /* "server.c:164", where the call was made; NULL: no call */
    const char *hint;    /* what to do */
};

/*
 * The finding of this thread's last call that failed; NULL if the failure came from below mrguard (its errno
 * is the kernel's or the provider's) or no call has failed yet. Valid until this thread's next call fails.
 * Any thread; does not block.
 */
MRG_API const struct mrg_finding *mrg_last_finding(void);

typedef void mrg_finding_handler(const struct mrg_finding *finding, void *arg);

/*
 * Hands every finding to a function in place of printing it; NULL prints again. The function runs in the
 * thread that made the call, with no lock of mrguard's held; it may call mrguard; what it breaks
 * itself is counted and not handed to it. Any thread may set it;
 * findings under way may still reach the one before. Leaks
 * are told when the process exits: arg must be good until then, or the handler taken back.
 */
MRG_API void mrg_set_finding_handler(mrg_finding_handler *handler, void *arg);

struct mrg_stats {
    uint64_t live_mrs;         /* registered now, deferred releases included */
    uint64_t registered_bytes; /* by them; memory covered twice counts twice */
    uint64_t findings;         /* since the process started, printed or not */
    uint64_t late_completions; /* swallowed: their QP was destroyed before they were polled */
};

/* Writes what this process holds now to *ret. -1 and EINVAL (bad-argument) for NULL. Any thread; does not block. */
MRG_API int mrg_stats(struct mrg_stats *ret);

/* How often a rule was broken in this process; 0 for a name that no rule has. Any thread; does not block. */
MRG_API uint64_t mrg_finding_count(const char *rule);

#ifdef __cplusplus
}
#endif
#endif
