#include "xrcd.h"

#include <errno.h>

#include "api.h"
#include "context.h"
#include "device.h"
#include "verbs.h"

static int xrcd_release(struct slot *slot)
{
    struct ibv_xrcd *raw = xrcd_of(slot)->raw;
    return device_answer(raw->context, verbs.close_xrcd(raw));
}

static const struct class xrcd_class = {
    .type = TYPE_XRCD, .edges = 1, .body_size = sizeof(struct xrcd), .release = xrcd_release};

static mrg_xrcd *xrcd_new(struct slot *context, struct ibv_xrcd_init_attr *attr, const struct here *here)
{
    struct slot *slot = object_new(&xrcd_class, here->site, (token[]){slot_token(context)}, 1);
    if (!slot)
        return object_refuse_new(&xrcd_class, here), NULL;
    xrcd_of(slot)->raw = verbs.open_xrcd(context_of(context)->raw, attr);
    return xrcd_of(slot)->raw ? object_publish(slot) : object_failed(slot);
}

API(mrg_xrcd *, mrg_open_xrcd, (mrg_context * context, struct ibv_xrcd_init_attr *attr), (context, attr))
{
    if (!attr)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "attr is NULL"), NULL;
    struct slot *device = object_enter(context, TYPE_CONTEXT, HERE);
    if (!device)
        return NULL;
    mrg_xrcd *xrcd = xrcd_new(device, attr, HERE);
    object_exit(device);
    return xrcd;
}

API(int, mrg_close_xrcd, (mrg_xrcd * xrcd), (xrcd))
{
    return object_destroy(xrcd, TYPE_XRCD, HERE);
}
