#include "id.h"

#include <errno.h>

#include "api.h"
#include "channel.h"
#include "context.h"
#include "device.h"
#include "pd.h"
#include "verbs.h"

static int id_release(struct slot *slot)
{
    struct id *id = id_of(slot);
    if (id->adopted)
        return 0;
    struct ibv_context *device = id->raw->verbs; /* the raw id is gone afterwards */
    return verbs.destroy_id(id->raw) ? device_answer(device, errno) : 0;
}

static void id_gone(struct slot *slot)
{
    token pd = id_of(slot)->request_pd;
    if (pd)
        object_unref(slot_at(pd), pd, &(struct here){slot->cold.site, "mrg_destroy_ep"});
}

static const struct class id_class = {
    .type = TYPE_ID, .edges = 2, .body_size = sizeof(struct id), .release = id_release, .gone = id_gone};

struct slot *id_embryo(token channel, void *context, const struct here *here)
{
    struct slot *slot = object_new(&id_class, here->site, &channel, 1);
    if (!slot)
        return object_refuse_new(&id_class, here), NULL;
    struct id *id = id_of(slot);
    id->raw = NULL;
    id->context = context;
    id->synchronous = !channel;
    id->listening = false;
    id->changing = false;
    id->asked = false;
    id->connected = false;
    id->device_pd = id->registration_pd = id->qp = id->srq = 0;
    id->adopted = false;
    id->cqs[0] = id->cqs[1] = 0;
    id->queues[0] = id->queues[1] = NULL;
    id->has_request_attr = false;
    id->request_pd = 0;
    id->private_length = 0;
    return slot;
}

mrg_id *id_publish(struct slot *slot, struct rdma_cm_id *raw)
{
    id_of(slot)->raw = raw;
    raw->context = slot_handle(slot);
    return object_publish(slot);
}

/* Life */

static int create_id(struct slot *channel, mrg_id **ret, void *context, enum rdma_port_space ps,
                     const struct here *here)
{
    struct slot *slot = id_embryo(channel ? slot_token(channel) : 0, context, here);
    if (!slot)
        return -1;
    struct rdma_cm_id *raw;
    if (verbs.create_id(channel ? channel_of(channel)->raw : NULL, &raw, NULL, ps)) {
        object_abandon(slot);
        return failed_below(errno);
    }
    *ret = id_publish(slot, raw);
    return 0;
}

API(int, mrg_create_id, (mrg_channel * channel, mrg_id **ret, void *context, enum rdma_port_space ps),
    (channel, ret, context, ps))
{
    if (!ret)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "ret is NULL");
    struct slot *parent = channel ? object_enter(channel, TYPE_CHANNEL, HERE) : NULL;
    if (channel && !parent)
        return -1;
    int result = create_id(parent, ret, context, ps, HERE);
    if (parent)
        object_exit(parent);
    return result;
}

/* The raw id keeps its context, channel and QP: what is posted and polled there is the caller's own. */
API(mrg_id *, mrg_adopt_id, (struct rdma_cm_id * raw), (raw))
{
    if (!raw)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "raw is NULL"), NULL;
    struct slot *slot = id_embryo(0, raw->context, HERE);
    if (!slot)
        return NULL;
    id_of(slot)->adopted = true;
    id_of(slot)->synchronous = false;
    id_of(slot)->raw = raw;
    return object_publish(slot);
}

/* The device */

token id_device_pd(struct slot *slot, const struct here *here)
{
    struct id *id = id_of(slot);
    token pd = id->device_pd, none = 0;
    if (pd)
        return pd;
    if (!id->raw->verbs)
        return refuse(RULE_NO_PD, here, slot,
                      "the id has no device: it is not bound or resolved yet, or listens on any address"),
               0;
    pd = id->adopted && id->raw->pd ? context_join_adopted_pd(slot, ID_EDGE_DEVICE_PD, id->raw->pd, here)
                                    : context_join_device_pd(slot, ID_EDGE_DEVICE_PD, id->raw->verbs, here);
    if (pd && atomic_compare_exchange_strong(&id->device_pd, &none, pd)) {
        id->raw->pd = pd_of(slot_at(pd))->raw;
        none = 0;
        atomic_compare_exchange_strong(&id->registration_pd, &none, pd);
    }
    return pd;
}

token id_find_device_pd(mrg_id *handle, const struct here *here)
{
    struct slot *slot = object_enter(handle, TYPE_ID, here);
    if (!slot)
        return 0;
    token pd = id_device_pd(slot, here);
    object_exit(slot);
    return pd;
}

API(mrg_pd *, mrg_id_pd, (mrg_id * id), (id))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return NULL;
    token pd = id_device_pd(slot, HERE);
    if (pd && !references_add(slot_at(pd), pd, true)) { /* a caller's own, given up: its child, the id, keeps it */
        refuse_handle((void *)(uintptr_t)pd, TYPE_PD, HERE);
        pd = 0;
    }
    object_exit(slot);
    return (mrg_pd *)(uintptr_t)pd;
}

API(mrg_context *, mrg_id_verbs, (mrg_id * id), (id))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return NULL;
    token pd = id_device_pd(slot, HERE);
    mrg_context *context = pd ? slot_handle(object_parent(slot_at(pd), TYPE_CONTEXT)) : NULL;
    object_exit(slot);
    return context;
}

/* What an id has */

API(void *, mrg_id_context, (mrg_id * id), (id))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return NULL;
    void *found = id_of(slot)->context;
    object_exit(slot);
    return found;
}

API(int, mrg_id_set_context, (mrg_id * id, void *context), (id, context))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return -1;
    id_of(slot)->context = context;
    object_exit(slot);
    return 0;
}

API(mrg_channel *, mrg_id_channel, (mrg_id * id), (id))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return NULL;
    struct slot *parent = object_parent(slot, TYPE_CHANNEL);
    mrg_channel *channel = parent ? slot_handle(parent) : NULL;
    object_exit(slot);
    if (!channel)
        failed_below(EINVAL); /* it is synchronous */
    return channel;
}

API(struct rdma_cm_id *, mrg_id_raw, (mrg_id * id), (id))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return NULL;
    struct rdma_cm_id *found = id_of(slot)->raw;
    object_exit(slot);
    return found;
}

API(uint16_t, mrg_get_src_port, (mrg_id * id), (id))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return 0;
    uint16_t found = rdma_get_src_port(id_of(slot)->raw);
    object_exit(slot);
    return found;
}

API(uint16_t, mrg_get_dst_port, (mrg_id * id), (id))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return 0;
    uint16_t found = rdma_get_dst_port(id_of(slot)->raw);
    object_exit(slot);
    return found;
}

API(struct sockaddr *, mrg_get_local_addr, (mrg_id * id), (id))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return NULL;
    struct sockaddr *found = rdma_get_local_addr(id_of(slot)->raw);
    object_exit(slot);
    return found;
}

API(struct sockaddr *, mrg_get_peer_addr, (mrg_id * id), (id))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return NULL;
    struct sockaddr *found = rdma_get_peer_addr(id_of(slot)->raw);
    object_exit(slot);
    return found;
}

API(const void *, mrg_id_private_data, (mrg_id * id, size_t *length), (id, length))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return NULL;
    const void *found = NULL;
    if (!length)
        refuse(RULE_BAD_ARGUMENT, HERE, NULL, "length is NULL");
    else
        found = (*length = id_of(slot)->private_length) ? id_of(slot)->private_data : NULL;
    object_exit(slot);
    return found;
}
