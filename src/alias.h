/*
 * The debug build's borrows know their range: two WRs in flight that overlap, one of which writes, are reported, with the
 * lines of both. In the other builds all of this is nothing.
 *
 * Uses in flight stand in one list under one lock. A post looks through all of them: that is what the debug build costs.
 */
#ifndef MRG_ALIAS_H
#define MRG_ALIAS_H

#include "finding.h"

#ifdef MRG_DEBUG
#define DEBUG_BUILD true
#else
#define DEBUG_BUILD false
#endif

/* What one piece of a WR in flight does to memory. */
struct use {
    uint64_t addr; /* of the process, whatever the MR's iova is */
    uint64_t length;
    bool writes;
    struct here here; /* who posted it */
    struct use *next;
    struct use **link; /* NULL: not in flight */
};

/* The first overlap of a post, to be told when the queue's gate is left. */
struct alias {
    struct use mine;
    struct use other;
    const struct slot *mr; /* NULL: there was none */
};

/* From here on the use is in flight, as what says; nothing is done if it is already. */
void alias_begin(struct use *use, const struct use *what, const struct slot *mr, struct alias *alias);

/* None of a WR's uses is any more. */
void alias_end(struct use *uses, uint32_t count);

void alias_tell(const struct alias *alias);

#endif
