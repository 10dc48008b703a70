#include "comp_channel.h"

#include <errno.h>

#include "api.h"
#include "context.h"
#include "device.h"
#include "verbs.h"

static int comp_channel_release(struct slot *slot)
{
    struct ibv_comp_channel *raw = comp_channel_of(slot)->raw;
    return device_answer(raw->context, verbs.destroy_comp_channel(raw));
}

static const struct class comp_channel_class = {
    .type = TYPE_COMP_CHANNEL, .edges = 1, .body_size = sizeof(struct comp_channel), .release = comp_channel_release};

static mrg_comp_channel *comp_channel_new(struct slot *device, const struct here *here)
{
    struct slot *slot = object_new(&comp_channel_class, here->site, (token[]){slot_token(device)}, 1);
    if (!slot)
        return object_refuse_new(&comp_channel_class, here), NULL;
    comp_channel_of(slot)->raw = verbs.create_comp_channel(context_of(device)->raw);
    if (comp_channel_of(slot)->raw)
        return object_publish(slot);
    object_abandon(slot);
    failed_below(errno);
    return NULL;
}

API(mrg_comp_channel *, mrg_create_comp_channel, (mrg_context * context), (context))
{
    struct slot *device = object_enter(context, TYPE_CONTEXT, HERE);
    if (!device)
        return NULL;
    mrg_comp_channel *channel = comp_channel_new(device, HERE);
    object_exit(device);
    return channel;
}

API(int, mrg_destroy_comp_channel, (mrg_comp_channel * channel), (channel))
{
    return object_destroy(channel, TYPE_COMP_CHANNEL, HERE);
}

API(int, mrg_comp_channel_fd, (mrg_comp_channel * channel), (channel))
{
    struct slot *slot = object_enter(channel, TYPE_COMP_CHANNEL, HERE);
    if (!slot)
        return -1;
    int fd = comp_channel_of(slot)->raw->fd;
    object_exit(slot);
    return fd;
}
