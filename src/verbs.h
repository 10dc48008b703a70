/* The seam: the one table through which mrguard calls libibverbs and librdmacm. See verbs.def. */
#ifndef MRG_VERBS_H
#define MRG_VERBS_H

#include <rdma/rdma_cma.h>

struct verbs {
#define VERB_PTR(type, name, symbol, params, args) type(*name) params;
#define VERB_INT(name, symbol, params, args) int(*name) params;
#define VERB_ERRNO(name, symbol, params, args) int(*name) params;
#define VERB_VOID(name, symbol, params, args) void(*name) params;
#include "verbs.def"
#undef VERB_PTR
#undef VERB_INT
#undef VERB_ERRNO
#undef VERB_VOID
};

/* The real libraries; tests write other functions into it before they make their first object. */
extern __attribute__((visibility("hidden"))) struct verbs verbs;

#endif
