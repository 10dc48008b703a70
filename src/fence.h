/*
 * Fences whose price is paid by the side that is seldom there. A light fence costs nothing: the heavy one of the other side
 * makes every thread of the process execute a full fence at that moment (membarrier(2)). So of two threads that each
 * store, fence, and load what the other stored, at least one sees the other's store, if one of the fences is
 * heavy. Where the kernel has no membarrier both are full fences.
 *
 * ThreadSanitizer does not know fences, but is content with the atomics around them.
 */
#ifndef MRG_FENCE_H
#define MRG_FENCE_H

#include <linux/membarrier.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Set with the table, before the first handle exists. */
extern __attribute__((visibility("hidden"))) bool fence_everywhere; /* there is no membarrier */
void fence_prepare(void);

static inline void full_fence(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

static inline void light_fence(void)
{
    if (__builtin_expect(fence_everywhere, 0))
        full_fence();
    atomic_signal_fence(memory_order_seq_cst);
}

/* 0.4 us, or some 10 us where other threads run: a system call, for what waits anyway. */
static inline void heavy_fence(void)
{
    if (fence_everywhere || syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
        full_fence();
}

#endif
