/* What the kernel holds of this process. */
#ifndef MRG_HELD_H
#define MRG_HELD_H

#include <stddef.h>

/* "2 MRs, 1 QP" in held, "" for nothing, or why the kernel could not be asked. Returns held. */
const char *held_by_me(char *held, size_t size);

#endif
