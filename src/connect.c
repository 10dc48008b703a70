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
 * The kernel answers with EINVAL where the id's state does not allow a call. It says no more than that, so before is
 * what the call's users most often forgot.
 */
static int say_stated(struct slot *slot, int result, const char *before, const struct here *here)
{
    int error = errno;
    if (result && error == EINVAL)
        return refuse(RULE_WRONG_STATE, here, slot, "the kernel answers EINVAL: %s?", before);
    return result ? failed_below(error) : 0;
}

static int leave_stated(struct slot *slot, int result, const char *before, const struct here *here)
{
    result = say_stated(slot, result, before, here);
    object_exit(slot);
    return result;
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
    int result = verbs.listen(id_of(slot)->raw, backlog);
    if (!result)
        id_of(slot)->listening = true;
    return leave_stated(slot, result, "is the id connected, or listening already", HERE);
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

/*
 * A call in which librdmacm uses the id's QP: both are held, for another thread may be about to destroy it. Connect and
 * accept take the QP number from the QP or from param: one of them must be there.
 */
struct connecting {
    struct slot *id;
    struct slot *qp; /* NULL: none */
};

static bool enter_to_connect(struct connecting *c, mrg_id *id, const struct here *here)
{
    c->id = enter_with_device(id, here);
    if (!c->id)
        return false;
    token qp = id_of(c->id)->qp;
    c->qp = qp && object_hold(slot_at(qp), qp) ? slot_at(qp) : NULL;
    return true;
}

static int leave_connecting(const struct connecting *c, int result)
{
    if (c->qp)
        object_exit(c->qp);
    object_exit(c->id);
    return result;
}

static int refuse_param(const struct connecting *c, const struct rdma_conn_param *param, const struct here *here)
{
    if (!param && !c->qp)
        return refuse(RULE_WRONG_STATE, here, c->id, "the id has no QP, and no param brings the number of another");
    if (param && !param->private_data && param->private_data_len)
        return refuse(RULE_BAD_ARGUMENT, here, c->id, "private_data is NULL, its length %u", param->private_data_len);
    return 0;
}

/* On a synchronous id the call has waited, so its success is a connection. Else the event will tell. */
static int connect_or_accept(mrg_id *id, struct rdma_conn_param *param,
                             int (*verb)(struct rdma_cm_id *, struct rdma_conn_param *), const char *before,
                             const struct here *here)
{
    struct connecting c;
    if (!enter_to_connect(&c, id, here))
        return -1;
    if (refuse_param(&c, param, here))
        return leave_connecting(&c, -1);
    struct id *of = id_of(c.id);
    bool asked = of->asked;
    int result = verb(of->raw, param);
    if (!result)
        of->asked = false;
    if (!result && of->synchronous)
        of->connected = true;
    /* a peer that has withdrawn its request meanwhile is nobody's mistake here */
    result = asked ? (result ? failed_below(errno) : 0) : say_stated(c.id, result, before, here);
    return leave_connecting(&c, result);
}

API(int, mrg_connect, (mrg_id * id, struct rdma_conn_param *param), (id, param))
{
    return connect_or_accept(id, param, verbs.connect,
                             "is its route resolved (mrg_resolve_route), and no connection made before", HERE);
}

API(int, mrg_accept, (mrg_id * id, struct rdma_conn_param *param), (id, param))
{
    return connect_or_accept(id, param, verbs.accept, "did the id come with a connection request, not yet answered",
                             HERE);
}

API(int, mrg_reject, (mrg_id * id, const void *private_data, uint8_t length), (id, private_data, length))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return -1;
    if (!private_data && length)
        return refuse(RULE_BAD_ARGUMENT, HERE, slot, "private_data is NULL, length %u", length), leave_refused(slot);
    int result = verbs.reject(id_of(slot)->raw, private_data, length);
    if (!result)
        id_of(slot)->asked = false;
    return leave(slot, result);
}

/* On a synchronous id that is not connected rdma_disconnect would wait for an event that never comes. */
API(int, mrg_disconnect, (mrg_id * id), (id))
{
    struct connecting c;
    if (!enter_to_connect(&c, id, HERE))
        return -1;
    struct id *of = id_of(c.id);
    bool connected = atomic_exchange(&of->connected, false);
    if (!connected && of->synchronous)
        return leave_connecting(&c, refuse(RULE_WRONG_STATE, HERE, c.id, "the id is not connected"));
    int result = verbs.disconnect(of->raw) ? failed_below(errno) : 0;
    if (result && connected)
        of->connected = true;
    return leave_connecting(&c, result);
}

API(int, mrg_reject_ece, (mrg_id * id, const void *private_data, uint8_t length), (id, private_data, length))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return -1;
    if (!private_data && length)
        return refuse(RULE_BAD_ARGUMENT, HERE, slot, "private_data is NULL, length %u", length), leave_refused(slot);
    return leave(slot, verbs.reject_ece(id_of(slot)->raw, private_data, length));
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

/* What a QP of its own making needs to be brought to a state. librdmacm looks at the channel of a synchronous id too. */
API(int, mrg_init_qp_attr, (mrg_id * id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask), (id, qp_attr, qp_attr_mask))
{
    struct slot *slot = enter_with_device(id, HERE);
    if (!slot)
        return -1;
    if (!qp_attr || !qp_attr_mask)
        return refuse(RULE_BAD_ARGUMENT, HERE, slot, "%s is NULL", qp_attr ? "qp_attr_mask" : "qp_attr"),
               leave_refused(slot);
    return leave_stated(slot, verbs.init_qp_attr(id_of(slot)->raw, qp_attr, qp_attr_mask),
                        "does the id's state lead to the state that qp_attr asks for", HERE);
}

API(int, mrg_set_local_ece, (mrg_id * id, struct ibv_ece *ece), (id, ece))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return -1;
    if (!ece)
        return refuse(RULE_BAD_ARGUMENT, HERE, slot, "ece is NULL"), leave_refused(slot);
    return leave_stated(slot, verbs.set_local_ece(id_of(slot)->raw, ece), "has the id a QP already, or no vendor",
                        HERE);
}

API(int, mrg_get_remote_ece, (mrg_id * id, struct ibv_ece *ece), (id, ece))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return -1;
    if (!ece)
        return refuse(RULE_BAD_ARGUMENT, HERE, slot, "ece is NULL"), leave_refused(slot);
    return leave_stated(slot, verbs.get_remote_ece(id_of(slot)->raw, ece), "has the id a QP already", HERE);
}
