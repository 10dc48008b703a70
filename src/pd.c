#include "pd.h"

#include <errno.h>

#include "api.h"
#include "device.h"
#include "verbs.h"

static int pd_release(struct slot *slot)
{
    struct ibv_pd *raw = pd_of(slot)->raw;
    return pd_of(slot)->adopted ? 0 : device_answer(raw->context, verbs.dealloc_pd(raw));
}

/* Parents: the context; of a parent domain the PD and the thread domain as well. */
static const struct class pd_class = {
    .type = TYPE_PD, .edges = 3, .body_size = sizeof(struct pd), .release = pd_release};

struct slot *pd_embryo(const token parents[], uint32_t count, const struct here *here)
{
    struct slot *slot = object_new(&pd_class, here->site, parents, count);
    if (!slot)
        return object_refuse_new(&pd_class, here), NULL;
    pd_of(slot)->base.kept_by_children = false;
    pd_of(slot)->adopted = false;
    pd_of(slot)->root = slot_index(slot);
    return slot;
}

struct slot *pd_new(struct slot *context, struct ibv_context *raw_context, const struct here *here)
{
    struct slot *slot = pd_embryo((token[]){slot_token(context)}, 1, here);
    if (slot && !(pd_of(slot)->raw = verbs.alloc_pd(raw_context)))
        return object_failed(slot);
    return slot;
}

struct slot *pd_adopt(struct slot *context, struct ibv_pd *raw, const struct here *here)
{
    struct slot *slot = pd_embryo((token[]){slot_token(context)}, 1, here);
    if (slot) {
        pd_of(slot)->raw = raw;
        pd_of(slot)->adopted = true;
    }
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

API(struct ibv_pd *, mrg_pd_raw, (mrg_pd * pd), (pd))
{
    struct slot *slot = object_enter(pd, TYPE_PD, HERE);
    if (!slot)
        return NULL;
    struct ibv_pd *found = pd_of(slot)->raw;
    object_exit(slot);
    return found;
}
