/* Thread domains, and the parent domains that join one to a PD. */
#include <errno.h>

#include "api.h"
#include "context.h"
#include "device.h"
#include "pd.h"
#include "verbs.h"

struct td {
    struct body base;
    struct ibv_td *raw;
    struct ibv_context *device;
};

static struct td *td_of(const struct slot *slot)
{
    return (struct td *)slot->hot.body;
}

static int td_release(struct slot *slot)
{
    return device_answer(td_of(slot)->device, verbs.dealloc_td(td_of(slot)->raw));
}

static const struct class td_class = {
    .type = TYPE_TD, .edges = 1, .body_size = sizeof(struct td), .release = td_release};

static mrg_td *td_new(struct slot *context, struct ibv_td_init_attr *attr, const struct here *here)
{
    struct slot *slot = object_new(&td_class, here->site, (token[]){slot_token(context)}, 1);
    if (!slot)
        return object_refuse_new(&td_class, here), NULL;
    td_of(slot)->device = context_of(context)->raw;
    td_of(slot)->raw = verbs.alloc_td(td_of(slot)->device, attr);
    return td_of(slot)->raw ? object_publish(slot) : object_failed(slot);
}

API(mrg_td *, mrg_alloc_td, (mrg_context * context, struct ibv_td_init_attr *attr), (context, attr))
{
    struct slot *device = object_enter(context, TYPE_CONTEXT, HERE);
    if (!device)
        return NULL;
    mrg_td *td = NULL;
    if (attr)
        td = td_new(device, attr, HERE);
    else
        refuse(RULE_BAD_ARGUMENT, HERE, NULL, "attr is NULL");
    object_exit(device);
    return td;
}

API(int, mrg_dealloc_td, (mrg_td * td), (td))
{
    return object_destroy(td, TYPE_TD, HERE);
}

/* The PD and the thread domain are held. */
static mrg_pd *parent_domain_new(struct slot *pd, struct slot *td, const struct here *here)
{
    struct ibv_pd *base = pd_of(pd)->raw;
    if (td && td_of(td)->device != base->context)
        return refuse(RULE_WRONG_PD, here, td, "the thread domain is on another device than the PD"), NULL;
    struct slot *context = object_parent(pd, TYPE_CONTEXT);
    struct slot *slot = pd_embryo((token[]){slot_token(context), slot_token(pd), td ? slot_token(td) : 0}, 3, here);
    if (!slot)
        return NULL;
    struct ibv_parent_domain_init_attr attr = {.pd = base, .td = td ? td_of(td)->raw : NULL};
    pd_of(slot)->root = pd_of(pd)->root;
    pd_of(slot)->raw = verbs.alloc_parent_domain(base->context, &attr);
    return pd_of(slot)->raw ? object_publish(slot) : object_failed(slot);
}

API(mrg_pd *, mrg_alloc_parent_domain, (mrg_pd * pd, mrg_td *td), (pd, td))
{
    struct slot *base = object_enter(pd, TYPE_PD, HERE);
    if (!base)
        return NULL;
    struct slot *thread = td ? object_enter(td, TYPE_TD, HERE) : NULL;
    mrg_pd *domain = td && !thread ? NULL : parent_domain_new(base, thread, HERE);
    if (thread)
        object_exit(thread);
    object_exit(base);
    return domain;
}
