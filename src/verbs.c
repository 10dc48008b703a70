#include "verbs.h"

/* ibv_reg_mr is a macro that chooses between two symbols by its flags. */
static struct ibv_mr *reg_mr_function(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return ibv_reg_mr(pd, addr, length, (unsigned int)access);
}

/* Likewise. */
static struct ibv_mr *reg_mr_iova_function(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
    return ibv_reg_mr_iova(pd, addr, length, iova, (unsigned int)access);
}

/* A macro that clears what an older provider does not write. */
static int query_port_function(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    return ibv_query_port(context, port, attr);
}

struct verbs verbs = {
#define VERB_PTR(type, name, symbol, params, args) .name = symbol,
#define VERB_INT(name, symbol, params, args) .name = symbol,
#define VERB_ERRNO(name, symbol, params, args) .name = symbol,
#define VERB_VOID(name, symbol, params, args) .name = symbol,
#include "verbs.def"
#undef VERB_PTR
#undef VERB_INT
#undef VERB_ERRNO
#undef VERB_VOID
};
