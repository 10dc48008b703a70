#include "gate.h"

#include <errno.h>
#include <linux/futex.h>

void gate_sleep(struct gate *gate)
{
    int saved = errno;
    while (atomic_exchange(&gate->locked, 2))
        syscall(SYS_futex, &gate->locked, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
    errno = saved;
}

void gate_wake(struct gate *gate)
{
    int saved = errno;
    syscall(SYS_futex, &gate->locked, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = saved;
}
