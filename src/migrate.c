/* Moving an id from one event channel to another, or to none. */
#include <errno.h>

#include "api.h"
#include "channel.h"
#include "id.h"
#include "verbs.h"

/* The edge goes with the id. The new channel is held, so the id can be entered at it. */
static int migrate(struct slot *slot, struct slot *channel, const struct here *here)
{
    struct id *id = id_of(slot);
    if (id->adopted)
        return refuse(RULE_WRONG_STATE, here, slot, "the events of an adopted id stay raw: rdma_migrate_id");
    if (object_has_child(slot, TYPE_EVENT))
        return refuse_with(EBUSY, RULE_UNACKED_EVENT, here, slot,
                           "an event of this id is not acknowledged: rdma_migrate_id would wait for it");
    if (verbs.migrate_id(id->raw, channel ? channel_of(channel)->raw : NULL))
        return failed_below(errno);
    object_leave(slot, ID_EDGE_CHANNEL);
    if (channel)
        object_join(slot, ID_EDGE_CHANNEL, slot_token(channel));
    id->synchronous = !channel;
    return 0;
}

API(int, mrg_migrate_id, (mrg_id * id, mrg_channel *channel), (id, channel))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return -1;
    struct slot *to = channel ? object_enter(channel, TYPE_CHANNEL, HERE) : NULL;
    int result = (channel && !to) || id_change_begin(slot, HERE) ? -1 : id_change_end(slot, migrate(slot, to, HERE));
    if (to)
        object_exit(to);
    object_exit(slot);
    return result;
}
