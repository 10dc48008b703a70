/* What is said of everything at once. See report.c. */
#ifndef MRG_REPORT_H
#define MRG_REPORT_H

#include <stdatomic.h>
#include <stdint.h>

/* The books of what is under registration now. */
struct registered {
    _Atomic int64_t mrs;
    _Atomic int64_t bytes;
};
extern __attribute__((visibility("hidden"))) struct registered registered;

/* What an MR of a length counts as registered: one that covers everything (null, on demand) pins nothing. */
static inline uint64_t report_pinned(uint64_t length)
{
    return length == UINT64_MAX ? 0 : length;
}

/* An MR is registered: sign 1, or no longer: sign -1. */
static inline void report_registered(int sign, uint64_t length)
{
    atomic_fetch_add_explicit(&registered.mrs, sign, memory_order_relaxed);
    uint64_t bytes = report_pinned(length);
    atomic_fetch_add_explicit(&registered.bytes, (int64_t)(sign < 0 ? -bytes : bytes), memory_order_relaxed);
}

uint64_t report_registered_bytes(void);

#endif
