/* Addresses and connections: what librdmacm does, with handles in front and its crashes refused. */
#include <errno.h>

#include "api.h"
#include "id.h"
#include "verbs.h"

/* The end of a call into librdmacm: errno survives, the id is let go. */
static int leave(struct slot *slot, int result)
{
    int error = errno;
    object_exit(slot);
    return result ? failed_below(error) : 0;
}

/*
 * Likewise for a call that the kernel answers with EINVAL where the id's state does not allow it. It says no more than
 * that, so before is what the call's users most often forgot.
 */
static int leave_stated(struct slot *slot, int result, const char *before, const struct here *here)
{
    int error = errno;
    if (result && error == EINVAL)
        refuse(RULE_WRONG_STATE, here, slot, "the kernel answers EINVAL: %s?", before);
    else if (result)
        failed_below(error);
    object_exit(slot);
    return result ? -1 : 0;
}

/* object_exit keeps the errno of the refusal. */
static int leave_refused(struct slot *slot)
{
    object_exit(slot);
    return -1;
}

API(int, mrg_bind_addr, (mrg_id * id, struct sockaddr *addr), (id, addr))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return -1;
    if (!addr)
        return refuse(RULE_BAD_ARGUMENT, HERE, slot, "addr is NULL"), leave_refused(slot);
    return leave_stated(slot, verbs.bind_addr(id_of(slot)->raw, addr), "is the id bound or resolved already", HERE);
}

API(int, mrg_resolve_addr, (mrg_id * id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms),
    (id, src, dst, timeout_ms))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return -1;
    if (!dst)
        return refuse(RULE_BAD_ARGUMENT, HERE, slot, "dst is NULL"), leave_refused(slot);
    return leave_stated(slot, verbs.resolve_addr(id_of(slot)->raw, src, dst, timeout_ms),
                        "is the address resolved already, or the id listening", HERE);
}

API(int, mrg_listen, (mrg_id * id, int backlog), (id, backlog))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return -1;
    return leave_stated(slot, verbs.listen(id_of(slot)->raw, backlog), "is the id connected, or listening already",
                        HERE);
}

/* An id with a device, held; librdmacm dereferences the device in the calls below without a look. */
static struct slot *enter_with_device(mrg_id *id, const struct here *here)
{
    struct slot *slot = object_enter(id, TYPE_ID, here);
    if (!slot || id_of(slot)->raw->verbs)
        return slot;
    refuse(RULE_WRONG_STATE, here, slot, "the id has no device: resolve its address or bind it first");
    object_exit(slot);
    return NULL;
}

API(int, mrg_resolve_route, (mrg_id * id, int timeout_ms), (id, timeout_ms))
{
    struct slot *slot = enter_with_device(id, HERE);
    if (!slot)
        return -1;
    return leave_stated(slot, verbs.resolve_route(id_of(slot)->raw, timeout_ms),
                        "is its address resolved (mrg_resolve_addr)", HERE);
}

/* Connect and accept take the QP number from the id's QP or from param: one of them must be there. */
static struct slot *enter_to_connect(mrg_id *id, const struct rdma_conn_param *param, const struct here *here)
{
    struct slot *slot = enter_with_device(id, here);
    if (!slot || param || id_of(slot)->raw->qp)
        return slot;
    refuse(RULE_WRONG_STATE, here, slot, "the id has no QP, and no param brings the number of another");
    object_exit(slot);
    return NULL;
}

/* On a synchronous id the call has waited: there is a connection now, or none. Else the event will tell. */
static int leave_connected(struct slot *slot, int result, const char *before, const struct here *here)
{
    if (id_of(slot)->synchronous)
        id_of(slot)->connected = !result;
    return leave_stated(slot, result, before, here);
}

API(int, mrg_connect, (mrg_id * id, struct rdma_conn_param *param), (id, param))
{
    struct slot *slot = enter_to_connect(id, param, HERE);
    if (!slot)
        return -1;
    return leave_connected(slot, verbs.connect(id_of(slot)->raw, param),
                           "is its route resolved (mrg_resolve_route), and no connection made before", HERE);
}

API(int, mrg_accept, (mrg_id * id, struct rdma_conn_param *param), (id, param))
{
    struct slot *slot = enter_to_connect(id, param, HERE);
    if (!slot)
        return -1;
    return leave_connected(slot, verbs.accept(id_of(slot)->raw, param),
                           "did the id come with a connection request, not yet answered", HERE);
}

API(int, mrg_reject, (mrg_id * id, const void *private_data, uint8_t length), (id, private_data, length))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return -1;
    if (!private_data && length)
        return refuse(RULE_BAD_ARGUMENT, HERE, slot, "private_data is NULL, length %u", length), leave_refused(slot);
    return leave(slot, verbs.reject(id_of(slot)->raw, private_data, length));
}

/* On a synchronous id that is not connected rdma_disconnect would wait for an event that never comes. */
API(int, mrg_disconnect, (mrg_id * id), (id))
{
    struct slot *slot = enter_with_device(id, HERE);
    if (!slot)
        return -1;
    struct id *of = id_of(slot);
    if (!atomic_exchange(&of->connected, false) && of->synchronous)
        return refuse(RULE_WRONG_STATE, HERE, slot, "the id is not connected"), leave_refused(slot);
    return leave(slot, verbs.disconnect(of->raw));
}

API(int, mrg_establish, (mrg_id * id), (id))
{
    struct slot *slot = enter_with_device(id, HERE);
    return slot ? leave(slot, verbs.establish(id_of(slot)->raw)) : -1;
}

API(int, mrg_notify, (mrg_id * id, enum ibv_event_type event), (id, event))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    return slot ? leave(slot, verbs.notify(id_of(slot)->raw, event)) : -1;
}

API(int, mrg_set_option, (mrg_id * id, int level, int name, void *value, size_t length),
    (id, level, name, value, length))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return -1;
    if (!value)
        return refuse(RULE_BAD_ARGUMENT, HERE, slot, "value is NULL"), leave_refused(slot);
    return leave(slot, verbs.set_option(id_of(slot)->raw, level, name, value, length));
}
