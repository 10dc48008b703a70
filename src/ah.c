#include "ah.h"

#include <errno.h>

#include "api.h"
#include "context.h"
#include "device.h"
#include "pd.h"
#include "verbs.h"

static int ah_release(struct slot *slot)
{
    struct ibv_ah *raw = ah_of(slot)->raw;
    return device_answer(raw->context, verbs.destroy_ah(raw));
}

static const struct class ah_class = {
    .type = TYPE_AH, .edges = 1, .body_size = sizeof(struct ah), .release = ah_release};

static struct slot *ah_embryo(struct slot *pd, const struct here *here)
{
    struct slot *slot = object_new(&ah_class, here->site, (token[]){slot_token(pd)}, 1);
    if (!slot)
        return object_refuse_new(&ah_class, here), NULL;
    ah_of(slot)->pd = pd_of(pd)->root;
    return slot;
}

API(mrg_ah *, mrg_create_ah, (mrg_pd * pd, struct ibv_ah_attr *attr), (pd, attr))
{
    if (!attr)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "attr is NULL"), NULL;
    struct slot *parent = object_enter(pd, TYPE_PD, HERE);
    struct slot *slot = parent ? ah_embryo(parent, HERE) : NULL;
    mrg_ah *ah = NULL;
    if (slot)
        ah =
            (ah_of(slot)->raw = verbs.create_ah(pd_of(parent)->raw, attr)) ? object_publish(slot) : object_failed(slot);
    if (parent)
        object_exit(parent);
    return ah;
}

API(mrg_ah *, mrg_create_ah_from_wc, (mrg_pd * pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port_num),
    (pd, wc, grh, port_num))
{
    if (!wc || (!grh && (wc->wc_flags & IBV_WC_GRH)))
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "%s is NULL", wc ? "grh" : "wc"), NULL;
    struct slot *parent = object_enter(pd, TYPE_PD, HERE);
    if (!parent)
        return NULL;
    struct ibv_ah_attr attr = {0};
    struct ibv_context *device = pd_of(parent)->raw->context;
    int error = verbs.init_ah_from_wc(device, port_num, wc, grh, &attr) ? errno : 0;
    object_exit(parent);
    return error ? (failed_below(error), NULL) : mrg_create_ah_at(site, pd, &attr);
}

API(int, mrg_init_ah_from_wc,
    (mrg_context * context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *attr),
    (context, port_num, wc, grh, attr))
{
    if (!wc || !attr || (!grh && (wc->wc_flags & IBV_WC_GRH)))
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "%s is NULL", !wc ? "wc" : !attr ? "attr" : "grh");
    struct slot *slot = object_enter(context, TYPE_CONTEXT, HERE);
    if (!slot)
        return -1;
    int result = verbs.init_ah_from_wc(context_of(slot)->raw, port_num, wc, grh, attr);
    return object_exit_with(slot, result ? errno : 0);
}

API(int, mrg_destroy_ah, (mrg_ah * ah), (ah))
{
    return object_destroy(ah, TYPE_AH, HERE);
}
