#include "pd.h"

#include <errno.h>

#include "api.h"
#include "verbs.h"

static int pd_release(struct slot *slot)
{
    return verbs.dealloc_pd(pd_of(slot)->raw);
}

static const struct class pd_class = {
    .type = TYPE_PD, .edges = 1, .body_size = sizeof(struct pd), .release = pd_release};

struct slot *pd_new(struct slot *context, struct ibv_context *raw_context, const struct here *here)
{
    struct slot *slot = object_new(&pd_class, here->site, (token[]){slot_token(context)}, 1);
    if (!slot)
        return object_refuse_new(&pd_class, here), NULL;
    struct ibv_pd *raw = verbs.alloc_pd(raw_context);
    if (!raw) {
        object_abandon(slot);
        failed_below(errno);
        return NULL;
    }
    pd_of(slot)->base.kept_by_children = false;
    pd_of(slot)->raw = raw;
    return slot;
}

API(int, mrg_dealloc_pd, (mrg_pd * pd), (pd))
{
    return object_destroy(pd, TYPE_PD, HERE);
}

API(mrg_pd *, mrg_pd_ref, (mrg_pd * pd), (pd))
{
    struct slot *slot = slot_find(pd, TYPE_PD);
    if (slot && references_add(slot, handle_token(pd), false))
        return pd;
    refuse_handle(pd, TYPE_PD, HERE);
    return NULL;
}

API(mrg_pd *, mrg_pd_unref, (mrg_pd * pd), (pd))
{
    struct slot *slot = pd ? slot_find(pd, TYPE_PD) : NULL;
    if (slot)
        object_unref(slot, handle_token(pd), HERE);
    else if (pd)
        refuse_handle(pd, TYPE_PD, HERE);
    return NULL;
}
