/* Changing an MR where it is, and advice about one. */
#include <errno.h>
#include <stdlib.h>

#include "api.h"
#include "mr.h"
#include "pd.h"
#include "report.h"
#include "verbs.h"

#define REREG_FLAGS (IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS)

struct change {
    int flags;
    struct slot *pd; /* held; NULL: it stays where it is */
    void *addr;
    size_t length;
    int access;
};

static int refuse_change(const struct slot *slot, const struct change *c, const struct here *here)
{
    if (!c->flags || (c->flags & ~REREG_FLAGS))
        return refuse(RULE_BAD_ARGUMENT, here, slot, "flags 0x%x", c->flags);
    bool moves = c->flags & IBV_REREG_MR_CHANGE_TRANSLATION;
    if (moves && slot->cold.owner)
        return refuse(RULE_WRONG_STATE, here, slot, "the memory belongs to the MR, which therefore stays on it");
    uint64_t addr = moves ? (uintptr_t)c->addr : slot->hot.addr, length = moves ? c->length : slot->hot.length;
    uint32_t access = c->flags & IBV_REREG_MR_CHANGE_ACCESS ? (uint32_t)c->access : slot->hot.access;
    enum rule rule = check_registration(addr, length, access);
    return rule == RULE_NONE ? 0
                             : refuse_with(rule == RULE_OUT_OF_RANGE ? ERANGE : EINVAL, rule, here, slot,
                                           "%p, %zu bytes with access 0x%x cannot be registered", c->addr, c->length,
                                           (unsigned int)access);
}

/* The provider changed it: so do we what posts read. The MR is closed, so nobody reads meanwhile. */
static void take_over(struct slot *slot, const struct change *c)
{
    const struct ibv_mr *raw = slot->hot.raw;
    if (c->flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
        report_registered(-1, slot->hot.length);
        report_registered(1, c->length);
        slot->hot.addr = (uintptr_t)c->addr;
        slot->hot.elsewhere = false;
        slot->hot.length = c->length;
    }
    if (c->flags & IBV_REREG_MR_CHANGE_ACCESS)
        slot->hot.access = (uint32_t)c->access;
    if (c->pd)
        slot->hot.pd = pd_of(c->pd)->root;
    slot->hot.lkey = raw->lkey;
    slot->hot.rkey = raw->rkey;
}

/* Failing with IBV_REREG_MR_ERR_DO_FORK_OLD it has succeeded, but for the old memory's behaviour at fork(2). */
static int rereg_raw(struct slot *slot, const struct change *c)
{
    errno = 0;
    int result =
        verbs.rereg_mr(slot->hot.raw, c->flags, c->pd ? pd_of(c->pd)->raw : NULL, c->addr, c->length, c->access);
    if (!result || result == IBV_REREG_MR_ERR_DO_FORK_OLD)
        return 0;
    return errno ? errno : EINVAL;
}

static int rereg(struct slot *slot, token t, const struct change *c, const struct here *here)
{
    if (refuse_change(slot, c, here) || object_close(slot, t, 0, here))
        return -1;
    if (c->pd && pd_of(c->pd)->raw->context != ((const struct ibv_mr *)slot->hot.raw)->context) {
        object_reopen(slot, t);
        return refuse(RULE_WRONG_PD, here, slot, "the PD is on another device than the MR");
    }
    int error = rereg_raw(slot, c);
    if (!error)
        take_over(slot, c);
    if (!error && c->pd) { /* before the MR is good again: from then on it may go */
        object_leave(slot, MR_EDGE_PD);
        object_join(slot, MR_EDGE_PD, slot_token(c->pd)); /* it is held, so it is alive */
    }
    object_reopen(slot, t);
    return error ? failed_below(error) : 0;
}

API(int, mrg_rereg_mr, (mrg_mr * mr, int flags, mrg_pd *pd, void *addr, size_t length, int access),
    (mr, flags, pd, addr, length, access))
{
    struct slot *slot = slot_find(mr, TYPE_MR);
    if (!slot)
        return refuse_handle(mr, TYPE_MR, HERE);
    struct change change = {flags, NULL, addr, length, access};
    if ((flags & IBV_REREG_MR_CHANGE_PD) && !(change.pd = object_enter(pd, TYPE_PD, HERE)))
        return -1;
    int result = rereg(slot, handle_token(mr), &change, HERE);
    if (change.pd)
        object_exit(change.pd);
    return result;
}

/* Every piece's MR is held while the provider reads the list. */
static int hold_pieces(const mrg_sge *sgl, uint32_t count, struct ibv_sge *raw, const struct here *here)
{
    for (uint32_t i = 0; i < count; i++) {
        bool fits = sgl[i].length <= UINT32_MAX;
        struct slot *slot = fits ? object_enter(sgl[i].mr, TYPE_MR, here) : NULL;
        if (!fits)
            refuse(RULE_LENGTH_TRUNCATED, here, NULL, "%zu bytes do not fit the 32-bit length of a piece",
                   sgl[i].length);
        if (!slot) {
            while (i-- > 0)
                object_exit(slot_at(handle_token(sgl[i].mr)));
            return -1;
        }
        raw[i] = (struct ibv_sge){(uintptr_t)sgl[i].addr, (uint32_t)sgl[i].length, slot->hot.lkey};
    }
    return 0;
}

API(int, mrg_advise_mr,
    (mrg_pd * pd, enum ibv_advise_mr_advice advice, uint32_t flags, const mrg_sge *sgl, uint32_t nsge),
    (pd, advice, flags, sgl, nsge))
{
    if (!sgl || !nsge)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "%u pieces at %p", nsge, (const void *)sgl);
    struct slot *slot = object_enter(pd, TYPE_PD, HERE);
    if (!slot)
        return -1;
    struct ibv_sge *raw = calloc(nsge, sizeof *raw);
    int error = raw ? 0 : ENOMEM;
    if (raw && hold_pieces(sgl, nsge, raw, HERE)) {
        free(raw);
        object_exit(slot);
        return -1;
    }
    if (raw) {
        error = verbs.advise_mr(pd_of(slot)->raw, advice, flags, raw, nsge);
        for (uint32_t i = 0; i < nsge; i++)
            object_exit(slot_at(handle_token(sgl[i].mr)));
    }
    free(raw);
    return object_exit_with(slot, error);
}
