/* Connection events as objects: counted where librdmacm counts them. */
#include "fixture.h"

#include "id.h"

TestSuite(event, .init = setup_stub);

static struct rdma_cm_id *raw_id(mrg_id *id)
{
    return id_of(slot_at(handle_token(id)))->raw;
}

Test(event, id_waits_for_the_acknowledgement)
{
    mrg_channel *channel = mrg_create_event_channel();
    mrg_id *id;
    mrg_cm_event *event;
    cr_assert_eq(mrg_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    expect_fails(mrg_get_cm_event(channel, &event), EAGAIN);
    stub_event(raw_id(id), NULL, RDMA_CM_EVENT_ADDR_RESOLVED);
    cr_assert_eq(mrg_get_cm_event(channel, &event), 0);
    cr_expect_eq(mrg_event_type(event), RDMA_CM_EVENT_ADDR_RESOLVED);
    cr_expect_eq(mrg_event_status(event), 0);
    cr_expect_eq(mrg_event_id(event), id);
    cr_expect_null(mrg_event_listen_id(event));
    expect_refused(mrg_destroy_id(id), EBUSY, "unacked-event");
    cr_expect_eq(mrg_ack_cm_event(event), 0);
    expect_refused(mrg_ack_cm_event(event), ESTALE, "stale-handle");
    expect_refused(mrg_event_type(event), ESTALE, "stale-handle");
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_refused(mrg_get_cm_event(channel, NULL), EINVAL, "bad-argument");
    cr_expect_eq(mrg_destroy_event_channel(channel), 0);
    expect_nothing_left();
}

Test(event, id_moves_between_channels_once_its_events_are_acknowledged)
{
    mrg_channel *from = mrg_create_event_channel(), *to = mrg_create_event_channel();
    mrg_id *id;
    mrg_cm_event *event;
    cr_assert_eq(mrg_create_id(from, &id, NULL, RDMA_PS_TCP), 0);
    stub_event(raw_id(id), NULL, RDMA_CM_EVENT_ADDR_RESOLVED);
    cr_assert_eq(mrg_get_cm_event(from, &event), 0);
    expect_refused(mrg_migrate_id(id, to), EBUSY, "unacked-event");
    expect_refused(mrg_migrate_id(id, (mrg_channel *)id), ESTALE, "stale-handle");
    cr_expect_eq(mrg_id_channel(id), from);
    cr_expect_eq(mrg_ack_cm_event(event), 0);
    cr_expect_eq(mrg_migrate_id(id, to), 0);
    cr_expect_eq(mrg_id_channel(id), to);
    cr_expect_eq(mrg_destroy_event_channel(from), 0);
    expect_refused(mrg_destroy_event_channel(to), EBUSY, "destroy-order");
    cr_expect_eq(mrg_migrate_id(id, NULL), 0);
    cr_expect_null(mrg_id_channel(id));
    cr_expect_eq(mrg_destroy_event_channel(to), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

/* A CONNECT_REQUEST as the raw library delivers it: its new id has the listener's channel and context. */
static struct rdma_cm_id *raw_request(mrg_id *listener)
{
    struct rdma_cm_id *child;
    cr_assert_eq(verbs.create_id(raw_id(listener)->channel, &child, raw_id(listener)->context, RDMA_PS_TCP), 0);
    stub_event(child, raw_id(listener), RDMA_CM_EVENT_CONNECT_REQUEST);
    return child;
}

Test(event, request_is_counted_on_the_listener)
{
    mrg_channel *channel = mrg_create_event_channel();
    mrg_id *listener;
    mrg_cm_event *event;
    cr_assert_eq(mrg_create_id(channel, &listener, (void *)7, RDMA_PS_TCP), 0);
    raw_request(listener);
    cr_assert_eq(mrg_get_cm_event(channel, &event), 0);
    mrg_id *child = mrg_event_id(event);
    cr_expect_neq(child, listener);
    cr_expect_eq(mrg_event_listen_id(event), listener);
    cr_expect_eq(mrg_id_context(child), (void *)7);
    size_t length = 1;
    cr_expect_null(mrg_event_private_data(event, &length));
    cr_expect_eq(length, 0);
    expect_refused(mrg_destroy_id(listener), EBUSY, "unacked-event");
    cr_expect_eq(mrg_destroy_id(child), 0);
    cr_expect_eq(mrg_event_id(event), child, "its id may be gone, the event is not");
    expect_refused(mrg_id_context(mrg_event_id(event)), ESTALE, "stale-handle");
    cr_expect_null(mrg_event_private_data(event, &length));
    cr_expect_eq(mrg_ack_cm_event(event), 0);
    expect_refused(mrg_destroy_event_channel(channel), EBUSY, "destroy-order");
    cr_expect_eq(mrg_destroy_id(listener), 0);
    cr_expect_eq(mrg_destroy_event_channel(channel), 0);
    expect_nothing_left();
}

Test(event, request_that_cannot_be_told_is_undone)
{
    inject_install();
    mrg_channel *channel = mrg_create_event_channel();
    mrg_id *listener;
    mrg_cm_event *event;
    cr_assert_eq(mrg_create_id(channel, &listener, NULL, RDMA_PS_TCP), 0);
    /* the listener is on its way out when the event comes */
    raw_request(listener);
    struct slot *slot = slot_at(handle_token(listener));
    atomic_store(&slot->hot.word, word_with(handle_token(listener), STATE_FREEING));
    cr_expect_eq(stub.live_ids, 2);
    expect_fails(mrg_get_cm_event(channel, &event), EAGAIN);
    cr_expect_eq(stub.live_ids, 1, "the request's id went with its event");
    atomic_store(&slot->hot.word, word_with(handle_token(listener), STATE_LIVE));
    cr_expect_eq(mrg_destroy_id(listener), 0);
    cr_expect_eq(mrg_destroy_event_channel(channel), 0);
    expect_nothing_left();
}
