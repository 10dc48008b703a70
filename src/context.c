#include "context.h"

#include <errno.h>
#include <stdlib.h>

#include "api.h"
#include "device.h"
#include "pd.h"
#include "verbs.h"

/* Guards the list of contexts and each one's device PD. Taken before the registry's lock, never after. */
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t first_context;

static int context_release(struct slot *slot)
{
    struct context *context = context_of(slot);
    if (context->pinned)
        verbs.free_devices(context->pinned);
    return context->opened && verbs.close_device(context->raw) ? device_answer(context->raw, errno) : 0;
}

static void context_gone(struct slot *slot)
{
    pthread_mutex_lock(&devices_lock);
    uint32_t *link = &first_context;
    while (*link != slot_index(slot))
        link = &context_of(slot_at(*link))->next;
    *link = context_of(slot)->next;
    pthread_mutex_unlock(&devices_lock);
    device_back(context_of(slot)->raw);
}

static const struct class context_class = {
    .type = TYPE_CONTEXT, .body_size = sizeof(struct context), .release = context_release, .gone = context_gone};

/* Whose a raw context is: it decides what happens to it in the end. */
enum whose { LIBRDMACMS, OURS, CALLERS };

/* With the devices' lock. */
static void enlist(struct slot *slot, struct ibv_context *raw, enum whose whose)
{
    struct context *context = context_of(slot);
    context->raw = raw;
    context->opened = whose == OURS;
    context->device_pd = 0;
    context->next = first_context;
    first_context = slot_index(slot);
}

/* A device that librdmacm keeps open for its ids: kept open for what outlives them too. */
static int pin(struct context *context, enum whose whose)
{
    if (whose == LIBRDMACMS && !context->pinned)
        context->pinned = verbs.get_devices(NULL);
    return whose == LIBRDMACMS && !context->pinned ? -1 : 0;
}

/* Held. Refuses nothing: a handler of findings must not run under the lock. */
static struct slot *context_new(struct ibv_context *raw, enum whose whose, const struct here *here)
{
    struct slot *slot = object_new(&context_class, here->site, NULL, 0);
    if (!slot)
        return NULL;
    context_of(slot)->pinned = NULL;
    if (pin(context_of(slot), whose))
        return object_failed(slot);
    enlist(slot, raw, whose);
    token t = handle_token(object_publish_kept(slot));
    bool held = object_hold(slot, t); /* always: it has a reference */
    references_drop(slot, t);
    return held ? slot : NULL;
}

/* Held: it does not go before its caller is done with it. One that was adopted first may be librdmacm's after all. */
static struct slot *context_hold(struct ibv_context *raw, enum whose whose, const struct here *here)
{
    for (uint32_t index = first_context; index; index = context_of(slot_at(index))->next) {
        struct slot *slot = slot_at(index);
        if (context_of(slot)->raw != raw || !object_hold(slot, slot_token(slot)))
            continue;
        pin(context_of(slot), whose); /* if it can be: whoever adopted it promised that it outlives the handle */
        return slot;
    }
    return context_new(raw, whose, here);
}

static struct slot *context_enter(struct ibv_context *raw, enum whose whose, const struct here *here)
{
    if (handle_forked()) /* the list is the parent's, and so may be who has the lock */
        return errno = EPERM, object_refuse_new(&context_class, here), NULL;
    pthread_mutex_lock(&devices_lock);
    struct slot *slot = context_hold(raw, whose, here);
    pthread_mutex_unlock(&devices_lock);
    if (!slot)
        object_refuse_new(&context_class, here);
    return slot;
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
    object_join(id, edge, context->device_pd); /* it has a reference, so it is alive */
    references_drop(pd, context->device_pd);
    return context->device_pd;
}

/* No rule can be broken under the lock, so no handler of findings runs there: only memory or the provider may fail. */
token context_join_device_pd(struct slot *id, uint32_t edge, struct ibv_context *raw, const struct here *here)
{
    pthread_mutex_lock(&devices_lock);
    struct slot *joined = object_parent(id, TYPE_PD); /* by another thread */
    struct slot *context = joined ? NULL : context_hold(raw, LIBRDMACMS, here);
    token pd = joined ? slot_token(joined) : context ? join_device_pd(id, edge, context, here) : 0;
    pthread_mutex_unlock(&devices_lock);
    if (context)
        object_exit(context);
    return pd;
}

/* Devices of the caller's choice */

API(mrg_context *, mrg_open_device, (struct ibv_device * device), (device))
{
    if (!device)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "device is NULL"), NULL;
    struct slot *slot = object_new(&context_class, site, NULL, 0);
    if (!slot)
        return object_refuse_new(&context_class, HERE), NULL;
    struct ibv_context *raw = verbs.open_device(device);
    if (!raw)
        return object_failed(slot);
    context_of(slot)->base.kept_by_children = false;
    context_of(slot)->pinned = NULL;
    pthread_mutex_lock(&devices_lock);
    enlist(slot, raw, OURS);
    pthread_mutex_unlock(&devices_lock);
    return object_publish(slot);
}

/* A reference on a context that is kept by its children, by the raw one. */
static mrg_context *context_ref(struct ibv_context *raw, enum whose whose, const struct here *here)
{
    struct slot *slot = context_enter(raw, whose, here);
    if (!slot)
        return NULL;
    token t = slot_token(slot);
    references_add(slot, t, true); /* it is held, so it is alive */
    object_exit(slot);
    return (mrg_context *)(uintptr_t)t;
}

API(mrg_context *, mrg_adopt_context, (struct ibv_context * raw), (raw))
{
    if (raw)
        return context_ref(raw, CALLERS, HERE);
    return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "raw is NULL"), NULL;
}

API(int, mrg_close_device, (mrg_context * context), (context))
{
    struct slot *slot = slot_find(context, TYPE_CONTEXT);
    bool shared = slot && references_count(slot) > 1; /* opened, and adopted too */
    if (!slot || (!context_of(slot)->base.kept_by_children && !shared))
        return object_destroy(context, TYPE_CONTEXT, HERE);
    if (!references_count(slot))
        return refuse(RULE_WRONG_STATE, HERE, slot, "the device was not opened by you: it closes with its last id");
    return object_unref(slot, handle_token(context), HERE);
}

/* The list is ours, since its contexts are handles; each has a reference. */
static mrg_context **ref_all(struct ibv_context **raw, int count, const struct here *here)
{
    mrg_context **list = calloc((size_t)count + 1, sizeof *list);
    if (!list)
        return failed_below(ENOMEM), NULL;
    for (int i = 0; i < count; i++) {
        list[i] = context_ref(raw[i], LIBRDMACMS, here);
        if (list[i])
            continue;
        int error = errno;
        mrg_free_devices_at(here->site, list);
        return errno = error, NULL;
    }
    return list;
}

API(mrg_context **, mrg_get_devices, (int *num_devices), (num_devices))
{
    if (handle_forked())
        return errno = EPERM, object_refuse_new(&context_class, HERE), NULL;
    int count = 0;
    struct ibv_context **raw = verbs.get_devices(&count);
    if (!raw)
        return failed_below(errno), NULL;
    mrg_context **list = ref_all(raw, count, HERE);
    int error = errno;
    verbs.free_devices(raw);
    errno = error;
    if (list && num_devices)
        *num_devices = count;
    return list;
}

API(int, mrg_free_devices, (mrg_context * *list), (list))
{
    if (!list)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "list is NULL");
    int result = 0;
    for (mrg_context **each = list; *each; each++)
        result |= mrg_close_device_at(site, *each);
    free(list);
    return result;
}

API(struct ibv_context *, mrg_context_raw, (mrg_context * context), (context))
{
    struct slot *slot = object_enter(context, TYPE_CONTEXT, HERE);
    if (!slot)
        return NULL;
    struct ibv_context *found = context_of(slot)->raw;
    object_exit(slot);
    return found;
}

/* PDs */

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

static bool wraps(const struct slot *slot, const void *raw)
{
    return pd_of(slot)->raw == raw;
}

/* The one PD that stands for a raw PD, held: MRs and QPs on it belong together whoever adopted it. */
static struct slot *enter_adopted_pd(struct ibv_pd *raw, const struct here *here)
{
    struct slot *context = context_enter(raw->context, CALLERS, here);
    if (!context)
        return NULL;
    static pthread_mutex_t adopting = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&adopting);
    struct slot *pd = object_hold_child(context, TYPE_PD, wraps, raw);
    if (!pd && (pd = pd_adopt(context, raw, here))) {
        token t = handle_token(object_publish_kept(pd));
        object_hold(pd, t); /* it has a reference, so it is alive */
        references_drop(pd, t);
    }
    pthread_mutex_unlock(&adopting);
    object_exit(context);
    return pd;
}

token context_join_adopted_pd(struct slot *id, uint32_t edge, struct ibv_pd *raw, const struct here *here)
{
    struct slot *pd = enter_adopted_pd(raw, here);
    if (!pd)
        return 0;
    pthread_mutex_lock(&devices_lock);
    struct slot *joined = object_parent(id, TYPE_PD); /* by another thread */
    if (!joined && !object_join(id, edge, slot_token(pd)))
        joined = pd;
    token t = joined ? slot_token(joined) : 0;
    pthread_mutex_unlock(&devices_lock);
    object_exit(pd);
    return t;
}

API(mrg_pd *, mrg_adopt_pd, (struct ibv_pd * raw), (raw))
{
    if (!raw)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "raw is NULL"), NULL;
    struct slot *slot = enter_adopted_pd(raw, HERE);
    if (!slot)
        return NULL;
    token t = slot_token(slot);
    references_add(slot, t, true); /* it is held, so it is alive */
    object_exit(slot);
    return (mrg_pd *)(uintptr_t)t;
}
