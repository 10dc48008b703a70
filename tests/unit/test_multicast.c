/* Multicast joins: children of their id and its QP, and their events counted on them. */
#include "fixture.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <unistd.h>

#include "id.h"

TestSuite(multicast, .init = setup_stub);

static char memory[64];

static struct sockaddr_in group(const char *text)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    cr_assert_eq(inet_pton(AF_INET, text, &addr.sin_addr), 1);
    return addr;
}

#define ADDR(in) ((struct sockaddr *)&(in))

static struct rdma_cm_id *raw_id(mrg_id *id)
{
    return id_of(slot_at(handle_token(id)))->raw;
}

/* An id of datagrams on a channel. */
static mrg_id *datagram_id(mrg_channel **channel)
{
    mrg_id *id;
    struct sockaddr addr = {0};
    *channel = mrg_create_event_channel();
    cr_assert_eq(mrg_create_id(*channel, &id, NULL, RDMA_PS_UDP), 0);
    cr_assert_eq(mrg_bind_addr(id, &addr), 0);
    return id;
}

static void end_id(mrg_id *id, mrg_channel *channel)
{
    cr_expect_eq(mrg_destroy_id(id), 0);
    if (channel)
        cr_expect_eq(mrg_destroy_event_channel(channel), 0);
    expect_nothing_left();
}

Test(multicast, join_keeps_its_id_and_its_qp)
{
    mrg_channel *channel;
    mrg_id *id = datagram_id(&channel);
    mrg_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}};
    struct sockaddr_in one = group("239.0.0.1"), two = group("239.0.0.2");
    cr_assert_eq(mrg_create_qp(id, NULL, &attr), 0);
    cr_assert_eq(mrg_join_multicast(id, ADDR(one), memory), 0);
    struct rdma_cm_join_mc_attr_ex ex = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS, .addr = ADDR(two)};
    cr_assert_eq(mrg_join_multicast_ex(id, &ex, memory), 0);
    cr_expect_eq(stub.joins, 2);
    expect_refused(mrg_join_multicast(id, ADDR(one), NULL), EINVAL, "wrong-state");
    expect_refused(mrg_join_multicast_ex(id, &ex, NULL), EINVAL, "wrong-state");
    expect_refused(mrg_destroy_qp(id), EBUSY, "destroy-order");
    cr_expect(strstr(mrg_last_finding()->message, "multicast join made at"), "%s", mrg_last_finding()->message);
    expect_refused(mrg_destroy_ep(id), EBUSY, "destroy-order");
    expect_refused(mrg_destroy_id(id), EBUSY, "destroy-order");
    cr_expect_eq(mrg_leave_multicast(id, ADDR(one)), 0);
    expect_refused(mrg_leave_multicast(id, ADDR(one)), EADDRNOTAVAIL, "wrong-state");
    cr_expect_eq(mrg_leave_multicast(id, ADDR(two)), 0);
    cr_expect_eq(mrg_destroy_qp(id), 0);
    end_id(id, channel);
}

Test(multicast, event_is_counted_on_the_join)
{
    mrg_channel *channel;
    mrg_id *id = datagram_id(&channel);
    struct sockaddr_in one = group("239.0.0.1"), two = group("239.0.0.2");
    mrg_cm_event *event;
    cr_assert_eq(mrg_join_multicast(id, ADDR(one), memory), 0);
    void *join = stub.last_join;
    cr_assert_eq(mrg_join_multicast(id, ADDR(two), NULL), 0);
    stub_multicast_event(raw_id(id), RDMA_CM_EVENT_MULTICAST_JOIN, join);
    cr_assert_eq(mrg_get_cm_event(channel, &event), 0);
    cr_expect_eq(mrg_event_id(event), id);
    size_t length = 1;
    cr_expect_eq(mrg_event_private_data(event, &length), memory, "the context of the join");
    cr_expect_eq(length, 0);
    struct rdma_ud_param ud;
    cr_expect_eq(mrg_event_ud_param(event, &ud), 0);
    cr_expect_eq(ud.private_data, memory, "and here");
    cr_expect_eq(ud.qp_num, 0xffffff);
    expect_refused(mrg_event_ud_param(event, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_leave_multicast(id, ADDR(one)), EBUSY, "unacked-event");
    cr_expect_eq(mrg_leave_multicast(id, ADDR(two)), 0, "it is not this one's");
    cr_expect_eq(mrg_ack_cm_event(event), 0);
    cr_expect_eq(mrg_leave_multicast(id, ADDR(one)), 0);
    stub_multicast_event(raw_id(id), RDMA_CM_EVENT_MULTICAST_ERROR, join);
    expect_fails(mrg_get_cm_event(channel, &event), EAGAIN); /* of a join that is gone */
    end_id(id, channel);
}

/* A program that is ported step by step may have joined by the raw call: its context is its own. */
Test(multicast, event_of_a_raw_join_passes)
{
    mrg_channel *channel;
    mrg_id *id = datagram_id(&channel);
    mrg_cm_event *event;
    struct rdma_ud_param ud;
    size_t length;
    const void *contexts[] = {memory, NULL, (void *)-1};
    for (int i = 0; i < 3; i++) {
        stub_multicast_event(raw_id(id), RDMA_CM_EVENT_MULTICAST_JOIN, contexts[i]);
        cr_assert_eq(mrg_get_cm_event(channel, &event), 0);
        cr_expect_eq(mrg_event_private_data(event, &length), contexts[i]);
        cr_expect_eq(mrg_event_ud_param(event, &ud), 0);
        cr_expect_eq(ud.private_data, contexts[i]);
        expect_refused(mrg_destroy_id(id), EBUSY, "unacked-event");
        cr_expect_eq(mrg_ack_cm_event(event), 0);
    }
    end_id(id, channel);
}

Test(multicast, bad_arguments)
{
    mrg_channel *channel;
    mrg_id *id = datagram_id(&channel);
    sa_family_t *family = malloc(sizeof *family); /* nothing may be read behind it */
    const sa_family_t families[] = {AF_UNSPEC, AF_UNIX, 0xffff};
    struct sockaddr_in one = group("239.0.0.1");
    expect_refused(mrg_join_multicast(id, NULL, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_join_multicast_ex(id, NULL, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_join_multicast_ex(id, &(struct rdma_cm_join_mc_attr_ex){0}, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_leave_multicast(id, NULL), EINVAL, "bad-argument");
    for (int i = 0; i < 3; i++) {
        *family = families[i];
        expect_refused(mrg_join_multicast(id, (struct sockaddr *)family, NULL), EINVAL, "bad-argument");
        expect_refused(mrg_leave_multicast(id, (struct sockaddr *)family), EINVAL, "bad-argument");
    }
    free(family);
    expect_refused(mrg_leave_multicast(id, ADDR(one)), EADDRNOTAVAIL, "wrong-state");
    end_id(id, channel);
}

Test(multicast, calls_that_the_kernel_refuses)
{
    inject_install();
    mrg_channel *channel;
    mrg_id *id = datagram_id(&channel);
    struct sockaddr_in one = group("239.0.0.1");
    inject_arm(1, ENODEV);
    expect_fails(mrg_join_multicast(id, ADDR(one), NULL), ENODEV);
    cr_assert_eq(mrg_join_multicast(id, ADDR(one), NULL), 0);
    inject_arm(1, EINTR);
    expect_fails(mrg_leave_multicast(id, ADDR(one)), EINTR);
    expect_refused(mrg_destroy_id(id), EBUSY, "destroy-order");
    inject_arm(1, EADDRNOTAVAIL); /* librdmacm forgot it the first time */
    cr_expect_eq(mrg_leave_multicast(id, ADDR(one)), 0);
    stub.joins = 0;
    end_id(id, channel);
}

/* On a synchronous id the join's event is the id's last, and leaving would wait for its acknowledgement. */

static int join_and_wait(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
    (void)addr;
    stub.joins++;
    id->event = calloc(1, sizeof *id->event);
    id->event->event = RDMA_CM_EVENT_MULTICAST_JOIN;
    id->event->param.ud.private_data = context;
    return 0;
}

static int leave_when_acked(struct rdma_cm_id *id, struct sockaddr *addr)
{
    (void)addr;
    if (id->event)
        return errno = EDEADLK, -1;
    stub.joins--;
    return 0;
}

Test(multicast, synchronous_id_leaves_what_it_joined)
{
    mrg_id *id = bound_id();
    struct sockaddr_in one = group("239.0.0.1");
    verbs.join_multicast = join_and_wait;
    verbs.leave_multicast = leave_when_acked;
    cr_assert_eq(mrg_join_multicast(id, ADDR(one), NULL), 0);
    cr_expect(mrg_id_raw(id)->event, "there it says where to send to");
    cr_expect_eq(mrg_leave_multicast(id, ADDR(one)), 0);
    end_id(id, NULL);
}

/* The event comes while the call that joins is not back yet. */

static mrg_channel *watched;
static mrg_cm_event *early;

static void *get_early(void *arg)
{
    (void)arg;
    cr_expect_eq(mrg_get_cm_event(watched, &early), 0);
    return NULL;
}

static pthread_t getter;

static int join_slowly(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
    (void)addr;
    stub.joins++;
    stub_multicast_event(id, RDMA_CM_EVENT_MULTICAST_JOIN, context);
    cr_assert_eq(pthread_create(&getter, NULL, get_early, NULL), 0);
    usleep(20000);
    return 0;
}

Test(multicast, event_that_comes_before_the_join_is_back_is_not_lost, .timeout = 10)
{
    mrg_id *id = datagram_id(&watched);
    struct sockaddr_in one = group("239.0.0.1");
    verbs.join_multicast = join_slowly;
    cr_assert_eq(mrg_join_multicast(id, ADDR(one), memory), 0);
    pthread_join(getter, NULL);
    cr_assert(early);
    size_t length;
    cr_expect_eq(mrg_event_private_data(early, &length), memory);
    cr_expect_eq(mrg_ack_cm_event(early), 0);
    cr_expect_eq(mrg_leave_multicast(id, ADDR(one)), 0);
    end_id(id, watched);
}
