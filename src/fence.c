#include "fence.h"

bool fence_everywhere;

void fence_prepare(void)
{
    fence_everywhere = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}
