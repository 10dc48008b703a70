#include "context.h"

#include <errno.h>

#include "api.h"
#include "pd.h"
#include "verbs.h"

/* Guards the list of contexts and each one's device PD. Taken before the registry's lock, never after. */
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t first_context;

static int context_release(struct slot *slot)
{
    verbs.free_devices(context_of(slot)->pinned);
    return 0;
}

static void context_gone(struct slot *slot)
{
    pthread_mutex_lock(&devices_lock);
    uint32_t *link = &first_context;
    while (*link != slot_index(slot))
        link = &context_of(slot_at(*link))->next;
    *link = context_of(slot)->next;
    pthread_mutex_unlock(&devices_lock);
}

static const struct class context_class = {
    .type = TYPE_CONTEXT, .body_size = sizeof(struct context), .release = context_release, .gone = context_gone};

static struct slot *context_new(struct ibv_context *raw, const struct here *here)
{
    struct slot *slot = object_new(&context_class, here->site, NULL, 0);
    if (!slot)
        return object_refuse_new(&context_class, here), NULL;
    struct context *context = context_of(slot);
    context->pinned = verbs.get_devices(NULL);
    if (!context->pinned) {
        object_abandon(slot);
        failed_below(errno);
        return NULL;
    }
    context->raw = raw;
    context->device_pd = 0;
    context->next = first_context;
    first_context = slot_index(slot);
    object_publish_kept(slot);
    return slot;
}

/* Held: it does not go before context_join_device_pd is done with it. */
static struct slot *context_hold(struct ibv_context *raw, const struct here *here)
{
    for (uint32_t index = first_context; index; index = context_of(slot_at(index))->next) {
        struct slot *slot = slot_at(index);
        if (context_of(slot)->raw == raw && object_hold(slot, slot_token(slot)))
            return slot;
    }
    struct slot *slot = context_new(raw, here);
    return slot && object_hold(slot, slot_token(slot)) ? slot : NULL;
}

/* The device's PD, made anew where the one before went with its last child. */
static token join_device_pd(struct slot *id, uint32_t edge, struct slot *slot, const struct here *here)
{
    struct context *context = context_of(slot);
    if (context->device_pd && !object_join(id, edge, context->device_pd))
        return context->device_pd;
    struct slot *pd = pd_new(slot, context->raw, here);
    if (!pd)
        return 0;
    context->device_pd = handle_token(object_publish_kept(pd));
    object_join(id, edge, context->device_pd); /* it has no other child that could take it away */
    return context->device_pd;
}

/* No rule can be broken under the lock, so no handler of findings runs there: only memory or the provider may fail. */
token context_join_device_pd(struct slot *id, uint32_t edge, struct ibv_context *raw, const struct here *here)
{
    pthread_mutex_lock(&devices_lock);
    struct slot *joined = object_parent(id, TYPE_PD); /* by another thread */
    struct slot *context = joined ? NULL : context_hold(raw, here);
    token pd = joined ? slot_token(joined) : context ? join_device_pd(id, edge, context, here) : 0;
    pthread_mutex_unlock(&devices_lock);
    if (context)
        object_exit(context);
    return pd;
}

API(mrg_pd *, mrg_alloc_pd, (mrg_context * context), (context))
{
    struct slot *parent = object_enter(context, TYPE_CONTEXT, HERE);
    if (!parent)
        return NULL;
    struct slot *slot = pd_new(parent, context_of(parent)->raw, HERE);
    mrg_pd *pd = slot ? object_publish(slot) : NULL;
    object_exit(parent);
    return pd;
}
