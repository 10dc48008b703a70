#include "multicast.h"

#include <errno.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <string.h>

#include "api.h"
#include "device.h"
#include "id.h"
#include "verbs.h"

/*
 * A synchronous id keeps its last event, not acknowledged, until its next call that waits; leaving the group that the
 * event is of would wait for it for ever.
 */
static void ack_own_event(struct rdma_cm_id *cm, const void *join)
{
    struct rdma_cm_event *event = cm->event;
    if (event && event_is_multicast(event) && event->param.ud.private_data == join && !verbs.ack_cm_event(event))
        cm->event = NULL;
}

/* librdmacm forgets a group even where the kernel refuses to leave it; the next try then knows of none. */
static int multicast_release(struct slot *slot)
{
    struct multicast *join = multicast_of(slot);
    ack_own_event(join->cm, slot_handle(slot));
    if (!verbs.leave_multicast(join->cm, (struct sockaddr *)&join->addr) || errno == EADDRNOTAVAIL)
        return 0;
    return device_answer(join->cm->verbs, errno);
}

static const struct class multicast_class = {
    .type = TYPE_MULTICAST, .edges = 2, .body_size = sizeof(struct multicast), .release = multicast_release};

/* 0: librdmacm knows no groups of that family. */
static size_t size_of(const struct sockaddr *addr)
{
    switch (addr->sa_family) {
    case AF_INET:
        return sizeof(struct sockaddr_in);
    case AF_INET6:
        return sizeof(struct sockaddr_in6);
    case AF_IB:
        return sizeof(struct sockaddr_ib);
    default:
        return 0;
    }
}

static bool same_group(const struct slot *slot, const void *addr)
{
    return !memcmp(&multicast_of(slot)->addr, addr, size_of(addr));
}

/* The token of the id's join of a group; 0: it has not joined it. */
static token find_join(struct slot *id, const struct sockaddr *addr)
{
    struct slot *found = object_hold_child(id, TYPE_MULTICAST, same_group, addr);
    token t = found ? slot_token(found) : 0;
    if (found)
        object_exit(found);
    return t;
}

/* attr NULL: rdma_join_multicast; else the _ex form, which has the address in attr. */
static int join(struct slot *id, const struct sockaddr *addr, struct rdma_cm_join_mc_attr_ex *attr, void *context,
                const struct here *here)
{
    if (find_join(id, addr))
        return refuse(RULE_WRONG_STATE, here, id, "the id has joined this group already");
    token parents[] = {slot_token(id), id_of(id)->qp};
    struct slot *slot = object_new(&multicast_class, here->site, parents, 2);
    if (!slot)
        return object_refuse_new(&multicast_class, here);
    struct multicast *m = multicast_of(slot);
    m->cm = id_of(id)->raw;
    m->context = context;
    memset(&m->addr, 0, sizeof m->addr);
    memcpy(&m->addr, addr, size_of(addr));
    void *token_of_join = slot_handle(slot);
    if (attr ? verbs.join_multicast_ex(m->cm, attr, token_of_join)
             : verbs.join_multicast(m->cm, (struct sockaddr *)&m->addr, token_of_join))
        return object_failed(slot), -1;
    object_publish(slot);
    return 0;
}

static int refuse_addr(const struct slot *id, const struct sockaddr *addr, const struct here *here)
{
    if (!addr)
        return refuse(RULE_BAD_ARGUMENT, here, id, "addr is NULL");
    return size_of(addr)
               ? 0
               : refuse(RULE_BAD_ARGUMENT, here, id, "there are no groups of address family %d", addr->sa_family);
}

static int enter_and_join(mrg_id *id, const struct sockaddr *addr, struct rdma_cm_join_mc_attr_ex *attr, void *context,
                          const struct here *here)
{
    struct slot *slot = object_enter(id, TYPE_ID, here);
    if (!slot)
        return -1;
    int result = refuse_addr(slot, addr, here) || id_change_begin(slot, here)
                     ? -1
                     : id_change_end(slot, join(slot, addr, attr, context, here));
    object_exit(slot);
    return result;
}

API(int, mrg_join_multicast, (mrg_id * id, struct sockaddr *addr, void *context), (id, addr, context))
{
    return enter_and_join(id, addr, NULL, context, HERE);
}

API(int, mrg_join_multicast_ex, (mrg_id * id, struct rdma_cm_join_mc_attr_ex *mc_join_attr, void *context),
    (id, mc_join_attr, context))
{
    return enter_and_join(id, mc_join_attr ? mc_join_attr->addr : NULL, mc_join_attr, context, HERE);
}

API(int, mrg_leave_multicast, (mrg_id * id, struct sockaddr *addr), (id, addr))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return -1;
    int result = refuse_addr(slot, addr, HERE);
    token joined = result ? 0 : find_join(slot, addr);
    if (joined)
        result = object_destroy((void *)(uintptr_t)joined, TYPE_MULTICAST, HERE);
    else if (!result)
        result = refuse_with(EADDRNOTAVAIL, RULE_WRONG_STATE, HERE, slot, "the id has not joined this group");
    object_exit(slot);
    return result;
}
