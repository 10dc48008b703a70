/* What a device says of itself: asked through its handle, and otherwise as libibverbs answers. */
#include <errno.h>

#include "api.h"
#include "context.h"
#include "verbs.h"

static struct slot *enter_for(mrg_context *context, const void *ret, const struct here *here)
{
    if (!ret)
        return refuse(RULE_BAD_ARGUMENT, here, NULL, "there is no room for the answer: NULL"), NULL;
    return object_enter(context, TYPE_CONTEXT, here);
}

API(int, mrg_query_device, (mrg_context * context, struct ibv_device_attr *device_attr), (context, device_attr))
{
    struct slot *slot = enter_for(context, device_attr, HERE);
    return slot ? object_exit_with(slot, verbs.query_device(context_of(slot)->raw, device_attr)) : -1;
}

API(int, mrg_query_device_ex,
    (mrg_context * context, const struct ibv_query_device_ex_input *input, struct ibv_device_attr_ex *attr),
    (context, input, attr))
{
    struct slot *slot = enter_for(context, attr, HERE);
    return slot ? object_exit_with(slot, verbs.query_device_ex(context_of(slot)->raw, input, attr)) : -1;
}

API(int, mrg_query_port, (mrg_context * context, uint8_t port_num, struct ibv_port_attr *port_attr),
    (context, port_num, port_attr))
{
    struct slot *slot = enter_for(context, port_attr, HERE);
    return slot ? object_exit_with(slot, verbs.query_port(context_of(slot)->raw, port_num, port_attr)) : -1;
}

API(int, mrg_query_gid, (mrg_context * context, uint8_t port_num, int index, union ibv_gid *gid),
    (context, port_num, index, gid))
{
    struct slot *slot = enter_for(context, gid, HERE);
    if (!slot)
        return -1;
    int result = verbs.query_gid(context_of(slot)->raw, port_num, index, gid);
    return object_exit_with(slot, result ? errno : 0);
}

API(int, mrg_query_pkey, (mrg_context * context, uint8_t port_num, int index, __be16 *pkey),
    (context, port_num, index, pkey))
{
    struct slot *slot = enter_for(context, pkey, HERE);
    if (!slot)
        return -1;
    int result = verbs.query_pkey(context_of(slot)->raw, port_num, index, pkey);
    return object_exit_with(slot, result ? errno : 0);
}
