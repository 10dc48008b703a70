/* Between mrguard and the stub: notes which raw objects a call makes and releases, and which release is refused. */
#ifndef MRG_WATCH_H
#define MRG_WATCH_H

#include "stub.h"

#define WATCHED 512

struct watch {
    void *made;    /* last */
    void *refused; /* last */
    int count;
    int polled; /* completions */
    void *released[WATCHED];
};

extern struct watch watch;

/* Over what is in the seam now. */
void watch_install(void);

#endif
