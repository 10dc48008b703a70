#include "mr.h"

#include <errno.h>

#include "api.h"
#include "device.h"
#include "options.h"
#include "pd.h"
#include "report.h"
#include "verbs.h"

static int mr_release(struct slot *slot)
{
    struct ibv_mr *raw = slot->hot.raw;
    int error = device_answer(raw->context, verbs.dereg_mr(raw));
    if (!error)
        report_registered(-1, slot->hot.length);
    return error;
}

const struct class mr_class = {.type = TYPE_MR, .edges = MR_EDGES, .release = mr_release};

/* A release is where raw ibv_mrs and numbers from peers turn up: they get a rule of their own. */
static int refuse_release(mrg_mr *mr, const struct here *here)
{
    if (!mr || token_is_handle(handle_token(mr)))
        return refuse_handle(mr, TYPE_MR, here);
    return refuse(RULE_FOREIGN_MR, here, NULL, "%p is not a handle: a raw ibv_mr, or a number from a peer?",
                  (void *)mr);
}

static bool in_use(struct slot *slot)
{
    return object_in_flight(slot) || atomic_load(&slot->cold.users) || object_has_child(slot, TYPE_BORROW);
}

/* Cheaply: what was never posted, nor is used otherwise, is not in use. */
static inline bool may_be_in_use(struct slot *slot)
{
    return atomic_load_explicit(&slot->hot.filter, memory_order_relaxed) |
           atomic_load_explicit(&slot->cold.users, memory_order_relaxed) |
           atomic_load_explicit(&slot->cold.children, memory_order_relaxed);
}

/* Raw verbs let an MR go that is in use. */
static int dereg_observed(struct slot *slot, token t, const struct here *here)
{
    observe(RULE_DEREG_IN_FLIGHT, here, slot,
            "WRs in flight or borrows use this MR: it is released with the last of them");
    return object_unref(slot, t, here);
}

API(int, mrg_dereg_mr, (mrg_mr * mr), (mr))
{
    struct slot *slot = slot_find(mr, TYPE_MR);
    if (!slot)
        return refuse_release(mr, HERE);
    if (__builtin_expect(may_be_in_use(slot), 0) && options()->policy == POLICY_OBSERVE && in_use(slot))
        return dereg_observed(slot, handle_token(mr), HERE);
    return object_end(slot, handle_token(mr), HERE);
}

API(mrg_mr *, mrg_mr_ref, (mrg_mr * mr), (mr))
{
    struct slot *slot = slot_find(mr, TYPE_MR);
    if (slot && references_add(slot, handle_token(mr), false))
        return mr;
    refuse_handle(mr, TYPE_MR, HERE);
    return NULL;
}

API(mrg_mr *, mrg_mr_unref, (mrg_mr * mr), (mr))
{
    struct slot *slot = slot_find(mr, TYPE_MR);
    if (slot)
        object_unref(slot, handle_token(mr), HERE);
    else if (mr)
        refuse_release(mr, HERE);
    return NULL;
}

static int move(struct slot *slot, token pd, const struct here *here)
{
    if (slot->hot.pd != pd_of(slot_at(pd))->root)
        return refuse(RULE_WRONG_PD, here, slot, "the MR is on another PD, and registered memory cannot change its PD");
    if (object_join(slot, MR_EDGE_PD, pd)) /* or it is there already */
        return refuse_handle((void *)(uintptr_t)pd, TYPE_PD, here);
    object_leave(slot, MR_EDGE_ID);
    return 0;
}

API(int, mrg_mr_move, (mrg_mr * mr, mrg_pd *pd), (mr, pd))
{
    if (!slot_find(pd, TYPE_PD))
        return refuse_handle(pd, TYPE_PD, HERE);
    struct slot *slot = object_enter(mr, TYPE_MR, HERE);
    if (!slot)
        return -1;
    int result = move(slot, handle_token(pd), HERE);
    object_exit(slot);
    return result;
}

/* What an accessor reads; all zero, with errno and a finding, where the handle is bad. */
struct look {
    struct mr_facts facts;
    uint32_t rkey;
};

static struct look look(mrg_mr *mr, const struct here *here)
{
    struct look look;
    if (mr_read(mr, &look.facts, &look.rkey))
        return look;
    refuse_handle(mr, TYPE_MR, here);
    return (struct look){0};
}

/* Held: where it is registered is not where peers and WRs address it, if it was registered with an iova. */
API(void *, mrg_mr_addr, (mrg_mr * mr), (mr))
{
    struct slot *slot = object_enter(mr, TYPE_MR, HERE);
    void *addr = slot ? ((struct ibv_mr *)slot->hot.raw)->addr : NULL;
    if (slot)
        object_exit(slot);
    return addr;
}

API(uint64_t, mrg_mr_iova, (mrg_mr * mr), (mr))
{
    return look(mr, HERE).facts.addr;
}

API(struct ibv_mr *, mrg_mr_raw, (mrg_mr * mr), (mr))
{
    struct slot *slot = object_enter(mr, TYPE_MR, HERE);
    if (!slot)
        return NULL;
    struct ibv_mr *found = slot->hot.raw;
    object_exit(slot);
    return found;
}

API(size_t, mrg_mr_length, (mrg_mr * mr), (mr))
{
    return look(mr, HERE).facts.length;
}

API(uint32_t, mrg_mr_rkey, (mrg_mr * mr), (mr))
{
    return look(mr, HERE).rkey;
}

API(int, mrg_mr_access, (mrg_mr * mr), (mr))
{
    return (int)look(mr, HERE).facts.access;
}
