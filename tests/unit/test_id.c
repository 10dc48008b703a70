/* The ownership graph over the stub: every arrow refuses first and lets go afterwards. Over rxe: tests/rxe. */
#include "fixture.h"

static char memory[4096];

TestSuite(id, .init = setup_stub);

Test(id, destroy_names_the_mr_and_the_line_that_made_it)
{
    mrg_id *id = bound_id();
    mrg_mr *mr = mrg_reg_read(id, memory, sizeof memory);
    expect_refused(mrg_destroy_id(id), EBUSY, "leaked-mr");
    const struct mrg_finding *f = mrg_last_finding();
    cr_expect(strstr(f->message, "+4096) made at tests/unit/test_id.c:11"), "%s", f->message);
    cr_expect_eq(mrg_mr_length(mr), sizeof memory, "still good");
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_refused(mrg_destroy_id(id), ESTALE, "stale-handle");
    expect_nothing_left();
}

Test(id, with_a_qp_is_not_destroyed_but_as_endpoint)
{
    mrg_id *id = connected_id(NULL);
    expect_refused(mrg_destroy_id(id), EBUSY, "destroy-order");
    cr_expect_eq(mrg_destroy_qp(id), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    id = connected_id(NULL);
    cr_expect_eq(mrg_destroy_ep(id), 0);
    expect_nothing_left();
}

Test(id, endpoint_with_an_mr_is_refused_before_anything_is_touched)
{
    mrg_id *id = connected_id(NULL);
    mrg_mr *mr = mrg_reg_msgs(id, memory, 1);
    expect_refused(mrg_destroy_ep(id), EBUSY, "leaked-mr");
    cr_expect_eq(mrg_post_recv(id, NULL, memory, 1, mr), 0);
    cr_expect_eq(mrg_destroy_qp(id), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_destroy_ep(id), 0);
    expect_nothing_left();
}

Test(id, channel_waits_for_its_ids)
{
    mrg_channel *channel = mrg_create_event_channel();
    mrg_id *id;
    cr_assert_eq(mrg_create_id(channel, &id, (void *)42, RDMA_PS_TCP), 0);
    cr_expect_eq(mrg_id_context(id), (void *)42);
    cr_expect_eq(mrg_id_channel(id), channel);
    expect_refused(mrg_destroy_event_channel(channel), EBUSY, "destroy-order");
    cr_expect_eq(mrg_destroy_id(id), 0);
    cr_expect_eq(mrg_destroy_event_channel(channel), 0);
    expect_refused(mrg_create_id(channel, &id, NULL, RDMA_PS_TCP), ESTALE, "stale-handle");
    expect_nothing_left();
}

Test(id, cq_and_pd_wait_for_the_qp)
{
    mrg_id *id = bound_id();
    mrg_cq *cq = mrg_create_cq(mrg_id_verbs(id), 16, NULL, NULL, 0);
    mrg_pd *pd = mrg_alloc_pd(mrg_id_verbs(id));
    mrg_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}};
    cr_assert_eq(mrg_create_qp(id, pd, &attr), 0);
    expect_refused(mrg_destroy_cq(cq), EBUSY, "destroy-order");
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "destroy-order");
    cr_expect_eq(mrg_destroy_qp(id), 0);
    cr_expect_eq(mrg_destroy_cq(cq), 0);
    cr_expect_eq(mrg_dealloc_pd(pd), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

/* The silent PD switch of rdma_create_qp: an MR made before, on the device's PD, does not fit any more. */
Test(id, qp_on_another_pd)
{
    mrg_id *id = bound_id();
    mrg_pd *pd = mrg_alloc_pd(mrg_id_verbs(id));
    mrg_mr *before = mrg_reg_msgs(id, memory, sizeof memory);
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    cr_assert_eq(mrg_create_qp(id, pd, &attr), 0);
    expect_refused(mrg_post_recv(id, NULL, memory, 1, before), EXDEV, "wrong-pd");
    mrg_mr *after = mrg_reg_msgs(id, memory, sizeof memory);
    cr_expect_eq(mrg_post_recv(id, NULL, memory, 1, after), 0);
    cr_expect_eq(mrg_destroy_qp(id), 0);
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "leaked-mr");
    cr_expect_eq(mrg_dereg_mr(after), 0);
    cr_expect_eq(mrg_dereg_mr(before), 0);
    cr_expect_eq(mrg_dealloc_pd(pd), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

Test(id, qp_of_parts_from_another_device)
{
    mrg_id *id = bound_id();
    stub_bind_to = &stub_devices[1];
    mrg_id *far = bound_id();
    mrg_pd *far_pd = mrg_id_pd(far);
    mrg_cq *far_cq = mrg_create_cq(mrg_id_verbs(far), 4, NULL, NULL, 0);
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}}, with_cq = {.recv_cq = far_cq, .cap = {4, 4, 1, 1, 0}};
    expect_refused(mrg_create_qp(id, far_pd, &attr), EXDEV, "wrong-pd");
    expect_refused(mrg_create_qp(id, NULL, &with_cq), EXDEV, "wrong-pd");
    expect_refused(mrg_create_qp(id, NULL, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_create_qp(NULL, NULL, &attr), EINVAL, "bad-argument");
    cr_expect_eq(mrg_create_qp(id, NULL, &attr), 0);
    expect_refused(mrg_create_qp(id, NULL, &attr), EINVAL, "wrong-state");
    cr_expect_eq(mrg_destroy_ep(id), 0);
    mrg_pd_unref(far_pd);
    cr_expect_eq(mrg_destroy_cq(far_cq), 0);
    cr_expect_eq(mrg_destroy_id(far), 0);
    expect_nothing_left();
}

Test(id, cq_and_its_channel_are_of_one_device)
{
    mrg_id *id = bound_id();
    stub_bind_to = &stub_devices[1];
    mrg_id *far = bound_id();
    mrg_comp_channel *channel = mrg_create_comp_channel(mrg_id_verbs(far));
    expect_refused(mrg_create_cq(mrg_id_verbs(id), 4, NULL, channel, 0), EXDEV, "wrong-pd");
    mrg_cq *cq = mrg_create_cq(mrg_id_verbs(far), 4, NULL, channel, 0), *from;
    void *context;
    expect_refused(mrg_get_cq_event(channel, NULL, &context), EINVAL, "bad-argument");
    expect_refused(mrg_get_cq_event(channel, &from, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_ack_cq_events(cq, 1), EINVAL, "bad-argument");
    expect_refused(mrg_destroy_comp_channel(channel), EBUSY, "destroy-order");
    cr_expect_eq(mrg_destroy_id(far), 0, "a CQ belongs to its device, not to an id");
    cr_expect_eq(mrg_destroy_cq(cq), 0);
    cr_expect_eq(mrg_destroy_comp_channel(channel), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

Test(id, qp_that_the_provider_does_not_destroy_works_on)
{
    inject_install();
    mrg_id *id = connected_id(NULL);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    cr_assert_eq(mrg_post_recv(id, (void *)1, memory, 1, mr), 0);
    inject_arm(1, EBUSY);
    expect_fails(mrg_destroy_qp(id), EBUSY);
    cr_expect_str_eq(inject_hit(), "destroy_qp");
    cr_expect_eq(mrg_post_recv(id, (void *)2, memory, 1, mr), 0);
    stub_complete_recvs(raw_qp(id), 2, IBV_WC_SUCCESS);
    struct ibv_wc wc;
    for (uintptr_t i = 1; i <= 2; i++) {
        cr_expect_eq(mrg_get_recv_comp(id, &wc), 1);
        cr_expect_eq(wc.wr_id, i);
    }
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_destroy_ep(id), 0);
    expect_nothing_left();
}

Test(id, caps_beyond_the_device_are_explained)
{
    mrg_id *id = bound_id();
    mrg_qp_init_attr attr = {.cap = {4, 100000, 1, 1, 0}}, pieces = {.cap = {4, 4, 100, 1, 0}};
    expect_refused(mrg_create_qp(id, NULL, &attr), EINVAL, "bad-argument");
    cr_expect(strstr(mrg_last_finding()->message, "max_recv_wr is 100000"), "%s", mrg_last_finding()->message);
    expect_refused(mrg_create_qp(id, NULL, &pieces), EINVAL, "bad-argument");
    cr_expect_eq(attr.cap.max_recv_wr, 100000, "attributes are as they were");
    cr_expect_eq(stub.live_cqs, 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

Test(id, granted_caps_come_back)
{
    mrg_id *id = bound_id();
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    cr_assert_eq(mrg_create_qp(id, NULL, &attr), 0);
    cr_expect_eq(attr.cap.max_inline_data, 32);
}

static int fail_create_qp(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    (void)id, (void)attr;
    return errno = EPROTO, -1;
}

static int fail_destroy_cq(struct ibv_cq *cq)
{
    (void)cq;
    return EBUSY;
}

/* Requests */

Test(id, request_brings_its_data_and_a_qp_like_the_listeners_attributes)
{
    struct rdma_addrinfo res = {.ai_flags = RAI_PASSIVE};
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    mrg_id *listener, *child;
    cr_assert_eq(mrg_create_ep(&listener, &res, NULL, &attr), 0);
    expect_refused(mrg_get_request(listener, &child), EINVAL, "wrong-state");
    cr_assert_eq(mrg_listen(listener, 1), 0);
    cr_assert_eq(mrg_get_request(listener, &child), 0);
    size_t length;
    cr_expect_str_eq(mrg_id_private_data(child, &length), "hello");
    cr_expect_eq(length, 6);
    cr_expect_null(mrg_id_private_data(listener, &length));
    cr_expect_eq(length, 0);
    mrg_mr *mr = mrg_reg_msgs(child, memory, 1);
    cr_expect_eq(mrg_post_recv(child, NULL, memory, 1, mr), 0);
    cr_expect_eq(mrg_accept(child, NULL), 0);
    cr_expect_eq(mrg_disconnect(child), 0);
    cr_expect_eq(mrg_destroy_ep(listener), 0);
    mrg_mr_unref(mr);
    cr_expect_eq(mrg_destroy_qp(child), 0);
    cr_expect_eq(mrg_destroy_ep(child), 0);
    expect_nothing_left();
}

Test(id, listener_keeps_the_pd_of_its_requests)
{
    struct rdma_addrinfo res = {.ai_flags = RAI_PASSIVE};
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    mrg_id *id = bound_id(), *listener;
    mrg_pd *pd = mrg_alloc_pd(mrg_id_verbs(id));
    cr_assert_eq(mrg_create_ep(&listener, &res, pd, &attr), 0);
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "destroy-order");
    cr_expect_eq(mrg_destroy_ep(listener), 0);
    cr_expect_eq(mrg_dealloc_pd(pd), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

Test(id, failed_call_does_not_forget_the_connection)
{
    inject_install();
    mrg_id *id = connected_id(NULL);
    cr_assert_eq(mrg_connect(id, NULL), 0);
    inject_arm(1, EINVAL);
    expect_refused(mrg_connect(id, NULL), EINVAL, "wrong-state");
    inject_arm(1, EINTR);
    expect_fails(mrg_disconnect(id), EINTR);
    cr_expect_eq(mrg_disconnect(id), 0);
    expect_refused(mrg_disconnect(id), EINVAL, "wrong-state");
    cr_expect_eq(mrg_destroy_ep(id), 0);
    expect_nothing_left();
}

/* A QP cannot be made, and then not even the CQs made for it destroyed: the next call goes on with them. */
Test(id, cqs_of_a_qp_that_failed_are_not_forgotten)
{
    inject_install();
    mrg_id *id = bound_id();
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    mrg_pd_unref(mrg_id_pd(id));
    verbs.create_qp = fail_create_qp;
    int (*destroy_cq)(struct ibv_cq *) = verbs.destroy_cq;
    verbs.destroy_cq = fail_destroy_cq;
    cr_expect_eq(mrg_create_qp(id, NULL, &attr), -1);
    verbs.destroy_cq = destroy_cq;
    cr_expect_eq(stub.live_cqs, 2);
    expect_refused(mrg_destroy_id(id), EBUSY, "destroy-order");
    cr_expect_eq(mrg_destroy_qp(id), 0);
    cr_expect_eq(stub.live_cqs, 0);
    cr_expect_eq(mrg_destroy_ep(id), 0);
    expect_nothing_left();
}

/* Calls that crash in librdmacm */

Test(id, bad_arguments)
{
    mrg_id *id, *unbound;
    struct rdma_addrinfo res = {0};
    struct sockaddr addr = {0};
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    expect_refused(mrg_create_id(NULL, NULL, NULL, RDMA_PS_TCP), EINVAL, "bad-argument");
    expect_refused(mrg_create_ep(NULL, &res, NULL, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_create_ep(&id, NULL, NULL, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_create_ep(&id, &res, (mrg_pd *)&res, &attr), ESTALE, "stale-handle");
    cr_assert_eq(mrg_create_id(NULL, &unbound, NULL, RDMA_PS_TCP), 0);
    expect_refused(mrg_bind_addr(unbound, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_resolve_addr(unbound, &addr, NULL, 1), EINVAL, "bad-argument");
    expect_refused(mrg_resolve_route(unbound, 1), EINVAL, "wrong-state");
    expect_refused(mrg_connect(unbound, NULL), EINVAL, "wrong-state");
    expect_refused(mrg_accept(unbound, NULL), EINVAL, "wrong-state");
    expect_refused(mrg_disconnect(unbound), EINVAL, "wrong-state");
    expect_refused(mrg_create_qp(unbound, NULL, &attr), ENODEV, "no-pd");
    expect_refused(mrg_establish(unbound), EINVAL, "wrong-state");
    expect_refused(mrg_set_option(unbound, 0, 0, NULL, 1), EINVAL, "bad-argument");
    expect_refused(mrg_reject(unbound, NULL, 1), EINVAL, "bad-argument");
    expect_refused(mrg_get_request(unbound, NULL), EINVAL, "bad-argument");
    id = bound_id();
    expect_refused(mrg_connect(id, NULL), EINVAL, "wrong-state");
    expect_refused(mrg_accept(id, NULL), EINVAL, "wrong-state");
    struct rdma_conn_param empty = {.private_data_len = 4};
    expect_refused(mrg_connect(id, &empty), EINVAL, "bad-argument");
    expect_refused(mrg_create_cq(mrg_id_verbs(id), 0, NULL, NULL, 0), EINVAL, "bad-argument");
    expect_refused(mrg_create_cq(mrg_id_verbs(id), -1, NULL, NULL, 0), EINVAL, "bad-argument");
    cr_expect_eq(mrg_destroy_id(id), 0);
    cr_expect_eq(mrg_destroy_id(unbound), 0);
    expect_nothing_left();
}

/* Composite calls whose parts fail */

static int build_and_tear_down(void)
{
    mrg_channel *channel = mrg_create_event_channel();
    mrg_id *id = NULL;
    struct sockaddr addr = {0};
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    mrg_mr *mr = NULL;
    int failed = !channel;
    failed = failed || mrg_create_id(channel, &id, NULL, RDMA_PS_TCP);
    failed = failed || mrg_bind_addr(id, &addr);
    failed = failed || mrg_create_qp(id, NULL, &attr);
    failed = failed || !(mr = mrg_reg_msgs(id, memory, sizeof memory));
    failed = failed || mrg_post_recv(id, NULL, memory, 1, mr);
    int error = errno;
    /* each teardown call is tried twice: once it may meet the failure, then it must go on from there */
    for (int i = 0; i < 2 && id && (i == 0 || mrg_id_context(id) || errno != ESTALE); i++)
        if (!mrg_destroy_qp(id))
            break;
    for (int i = 0; mr && i < 2 && mrg_dereg_mr(mr); i++)
        ;
    for (int i = 0; id && i < 2 && mrg_destroy_ep(id); i++)
        ;
    for (int i = 0; channel && i < 2 && mrg_destroy_event_channel(channel); i++)
        ;
    errno = error;
    return failed ? -1 : 0;
}

Test(id, every_call_below_fails_once_and_nothing_is_left)
{
    inject_install();
    inject_arm(0, 0);
    cr_assert_eq(build_and_tear_down(), 0);
    expect_nothing_left();
    int calls = inject_calls();
    cr_assert_geq(calls, 18, "%d", calls);
    for (int n = 1; n <= calls; n++) {
        inject_arm(n, EPROTO);
        int result = build_and_tear_down();
        if (result)
            cr_expect_eq(errno, EPROTO, "call %d (%s): %s", n, inject_hit(), strerror(errno));
        bool device_pd = inject_hit() && !strcmp(inject_hit(), "dealloc_pd");
        inject_arm(0, 0);
        if (device_pd) { /* nobody's call: a finding says so, and the device's next user takes it along */
            cr_expect_eq(mrg_finding_count("leaked-mr"), 1);
            cr_expect_eq(build_and_tear_down(), 0);
        }
        expect_nothing_left();
    }
}
