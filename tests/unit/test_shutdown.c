/* The whole-tree close: what it waits for, closes, leaves alone and reports. */
#include "fixture.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "id.h"

static char memory[4096];

/* Findings since the last look. */
static int told;
static char rules[200], words[1024];

static void keep(const struct mrg_finding *finding, void *arg)
{
    (void)arg;
    told++;
    strncat(rules, finding->rule, sizeof rules - strlen(rules) - 1);
    strncat(words, finding->message, sizeof words - strlen(words) - 1);
}

static void setup(void)
{
    stub_install();
    mrg_set_finding_handler(keep, NULL);
}

TestSuite(shutdown, .init = setup, .timeout = 60);

static void expect_silence(void)
{
    cr_expect_eq(told, 0, "%s: %s", rules, words);
}

static int64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct ibv_qp_attr state_of(struct ibv_qp *raw)
{
    return (struct ibv_qp_attr){.qp_state = raw->state};
}

Test(shutdown, takes_all_and_is_silent_where_nothing_was_forgotten)
{
    mrg_id *id = connected_id(NULL);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    cr_assert_eq(mrg_post_send(id, NULL, memory, 8, mr, IBV_SEND_SIGNALED), 0);
    cr_assert_eq(mrg_post_recv(id, NULL, memory + 8, 8, mr), 0);
    mrg_mr_unref(mr); /* given up, in flight */
    int64_t start = milliseconds();
    cr_expect_eq(mrg_shutdown_ep(id, 30000), 0);
    cr_expect(milliseconds() - start < 15000, "the send was done");
    expect_silence();
    expect_nothing_left();
    expect_refused(mrg_shutdown_ep(id, 0), ESTALE, "stale-handle");
}

Test(shutdown, without_a_qp_and_without_a_device)
{
    cr_expect_eq(mrg_shutdown_ep(bound_id(), 0), 0);
    mrg_id *id;
    cr_assert_eq(mrg_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    cr_expect_eq(mrg_shutdown_ep(id, 1000), 0);
    expect_silence();
    expect_nothing_left();
}

Test(shutdown, reports_the_mrs_that_it_released)
{
    mrg_id *id = connected_id(NULL);
    cr_assert(mrg_reg_msgs(id, memory, 16));
    cr_assert(mrg_reg_read(id, memory, 32));
    cr_expect_eq(mrg_shutdown_ep(id, 0), 0);
    cr_expect_str_eq(rules, "leaked-mr");
    cr_expect(strstr(words, "2 were released and 0 left") && strstr(words, "test_shutdown.c"), "%s", words);
    expect_nothing_left();
}

Test(shutdown, gives_up_what_never_completes)
{
    stub.hold_sends = true;
    mrg_id *id = connected_id(NULL);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(mrg_post_send(id, NULL, memory, 8, mr, IBV_SEND_SIGNALED), 0);
    int64_t start = milliseconds();
    cr_expect_eq(mrg_shutdown_ep(id, 50), 0);
    cr_expect(milliseconds() - start >= 50);
    cr_expect_str_eq(rules, "destroy-orderleaked-mr");
    cr_expect(strstr(words, "3 sends were still in flight"), "%s", words);
    expect_nothing_left();
}

/* Another thread polls the caller's CQ. */
static void *poll_until_three(void *cq)
{
    struct ibv_wc wc;
    for (int got = 0; got < 3;)
        got += mrg_poll_cq(cq, 1, &wc);
    return NULL;
}

Test(shutdown, lets_others_poll_their_cq_meanwhile)
{
    mrg_cq *cq;
    mrg_id *id = polled_id(&cq);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(mrg_post_send(id, NULL, memory, 8, mr, IBV_SEND_SIGNALED), 0);
    pthread_t poller;
    cr_assert_eq(pthread_create(&poller, NULL, poll_until_three, cq), 0);
    cr_expect_eq(mrg_shutdown_ep(id, 30000), 0);
    pthread_join(poller, NULL);
    cr_expect_str_eq(rules, "leaked-mr", "no send was given up: %s", words);
    cr_expect_eq(mrg_destroy_cq(cq), 0);
    expect_nothing_left();
}

Test(shutdown, leaves_an_mr_that_another_id_has_in_flight)
{
    mrg_id *id = connected_id(NULL), *other = connected_id(NULL);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory), *shared = mrg_reg_msgs(id, memory, 64);
    mrg_mr_ref(shared);
    cr_assert_eq(mrg_post_recv(other, NULL, memory, 8, mr), 0);
    cr_assert_eq(mrg_post_recv(id, NULL, memory + 8, 8, mr), 0);
    cr_expect_eq(mrg_shutdown_ep(id, 0), 0);
    cr_expect(strstr(words, "0 were released and 2 left"), "%s", words);
    cr_expect_eq(mrg_mr_length(mr), sizeof memory, "the handle is good");
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    mrg_mr_unref(shared);
    cr_expect_eq(mrg_dereg_mr(shared), 0);
    cr_expect_eq(mrg_destroy_qp(other), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_destroy_id(other), 0);
    expect_nothing_left();
}

Test(shutdown, refused_it_has_touched_nothing)
{
    mrg_id *id = connected_id(NULL);
    struct ibv_qp *raw = raw_qp(id);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    enum ibv_qp_state before = state_of(raw).qp_state;
    expect_refused(mrg_shutdown_ep(id, -1), EINVAL, "bad-argument");
    expect_refused(mrg_shutdown_ep(NULL, 0), EINVAL, "bad-argument");
    mrg_async_event *event;
    mrg_context *context = mrg_id_verbs(id);
    stub_async(IBV_EVENT_COMM_EST, raw);
    cr_assert_eq(mrg_get_async_event(context, &event), 0);
    expect_refused(mrg_shutdown_ep(id, 0), EBUSY, "unacked-event");
    cr_expect_eq(state_of(raw).qp_state, before);
    cr_expect_eq(mrg_post_send(id, NULL, memory, 8, mr, 0), 0, "the QP takes WRs");
    mrg_ack_async_event(event);
    cr_expect_eq(mrg_shutdown_ep(id, 0), 0);
    expect_nothing_left();
}

Test(shutdown, leaves_its_groups)
{
    mrg_id *id;
    struct sockaddr addr = {0};
    struct sockaddr_in group = {.sin_family = AF_INET};
    cr_assert_eq(inet_pton(AF_INET, "239.0.0.1", &group.sin_addr), 1);
    mrg_channel *channel = mrg_create_event_channel();
    mrg_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}};
    cr_assert_eq(mrg_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
    cr_assert_eq(mrg_bind_addr(id, &addr), 0);
    cr_assert_eq(mrg_create_qp(id, NULL, &attr), 0);
    cr_assert_eq(mrg_join_multicast(id, (struct sockaddr *)&group, NULL), 0);
    mrg_cm_event *event;
    stub_multicast_event(id_of(slot_at(handle_token(id)))->raw, RDMA_CM_EVENT_MULTICAST_JOIN, stub.last_join);
    cr_assert_eq(mrg_get_cm_event(channel, &event), 0);
    expect_refused(mrg_shutdown_ep(id, 0), EBUSY, "unacked-event");
    cr_expect_eq(stub.joins, 1, "nothing was touched");
    cr_assert_eq(mrg_ack_cm_event(event), 0);
    cr_expect_eq(mrg_shutdown_ep(id, 0), 0);
    cr_expect_eq(mrg_destroy_event_channel(channel), 0);
    expect_nothing_left();
}
