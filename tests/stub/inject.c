/* Failure injection: every call through the seam is counted, and the n-th one fails in its own manner. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "stub.h"

static struct verbs below;
static _Atomic int countdown;
static _Atomic int calls;
static int failure;
static const char *_Atomic hit;

static bool due(const char *name)
{
    atomic_fetch_add(&calls, 1);
    if (atomic_load(&countdown) == 0 || atomic_fetch_sub(&countdown, 1) != 1)
        return false;
    atomic_store(&hit, name);
    return true;
}

#define VERB_PTR(type, name, symbol, params, args) \
    static type inject_##name params               \
    {                                              \
        if (due(#name))                            \
            return errno = failure, NULL;          \
        return below.name args;                    \
    }
#define VERB_INT(name, symbol, params, args) \
    static int inject_##name params          \
    {                                        \
        if (due(#name))                      \
            return errno = failure, -1;      \
        return below.name args;              \
    }
#define VERB_ERRNO(name, symbol, params, args)         \
    static int inject_##name params                    \
    {                                                  \
        return due(#name) ? failure : below.name args; \
    }
#define VERB_VOID(name, symbol, params, args) \
    static void inject_##name params          \
    {                                         \
        below.name args;                      \
    }
#include "verbs.def"
#undef VERB_PTR
#undef VERB_INT
#undef VERB_ERRNO
#undef VERB_VOID

void inject_install(void)
{
    below = verbs;
    verbs = (struct verbs)
    {
#define VERB_PTR(type, name, symbol, params, args) .name = inject_##name,
#define VERB_INT(name, symbol, params, args) .name = inject_##name,
#define VERB_ERRNO(name, symbol, params, args) .name = inject_##name,
#define VERB_VOID(name, symbol, params, args) .name = inject_##name,
#include "verbs.def"
#undef VERB_PTR
#undef VERB_INT
#undef VERB_ERRNO
#undef VERB_VOID
    };
}

void inject_arm(int n, int error)
{
    failure = error;
    atomic_store(&hit, NULL);
    atomic_store(&calls, 0);
    atomic_store(&countdown, n);
}

int inject_calls(void)
{
    return atomic_load(&calls);
}

const char *inject_hit(void)
{
    return atomic_load(&hit);
}
