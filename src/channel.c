#include "channel.h"

#include <errno.h>

#include "api.h"
#include "verbs.h"

static int channel_release(struct slot *slot)
{
    verbs.destroy_event_channel(channel_of(slot)->raw);
    return 0;
}

static const struct class channel_class = {
    .type = TYPE_CHANNEL, .body_size = sizeof(struct channel), .release = channel_release};

API_VOID(mrg_channel *, mrg_create_event_channel)
{
    struct slot *slot = object_new(&channel_class, site, NULL, 0);
    if (!slot)
        return object_refuse_new(&channel_class, HERE), NULL;
    channel_of(slot)->raw = verbs.create_event_channel();
    if (channel_of(slot)->raw)
        return object_publish(slot);
    object_abandon(slot);
    failed_below(errno);
    return NULL;
}

API(int, mrg_destroy_event_channel, (mrg_channel * channel), (channel))
{
    return object_destroy(channel, TYPE_CHANNEL, HERE);
}

API(int, mrg_channel_fd, (mrg_channel * channel), (channel))
{
    struct slot *slot = object_enter(channel, TYPE_CHANNEL, HERE);
    if (!slot)
        return -1;
    int fd = channel_of(slot)->raw->fd;
    object_exit(slot);
    return fd;
}
