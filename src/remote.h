/* What a WR may do with a peer's descriptor. */
#ifndef MRG_REMOTE_H
#define MRG_REMOTE_H

#include "finding.h"

/* Refuses (-1) the use of length bytes at offset of what the descriptor describes, for need; 0: it grants that. */
int remote_refuse_use(const mrg_remote *remote, uint64_t offset, size_t length, uint32_t need, const struct here *here);

#endif
