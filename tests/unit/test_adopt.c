/* Handles for raw objects, which stay their owner's. */
#include "fixture.h"

#include "id.h"

TestSuite(adopt, .init = setup_stub);

static char memory[256];

static struct rdma_cm_id *raw_id(struct ibv_pd *pd)
{
    struct rdma_cm_id *raw;
    cr_assert_eq(verbs.create_id(NULL, &raw, memory, RDMA_PS_TCP), 0);
    raw->verbs = stub_bind_to;
    raw->pd = pd;
    return raw;
}

Test(adopt, pd_is_one_for_all_who_adopt_it)
{
    struct ibv_pd *raw = verbs.alloc_pd(&stub_devices[0]);
    mrg_pd *pd = mrg_adopt_pd(raw), *again = mrg_adopt_pd(raw);
    cr_expect(pd && pd == again);
    cr_expect_eq(mrg_pd_raw(pd), raw);
    mrg_mr *mr = mrg_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    cr_expect_eq(mrg_mr_raw(mr)->pd, raw);
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "destroy-order");
    cr_expect_null(mrg_pd_unref(again));
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "leaked-mr");
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_dealloc_pd(pd), 0);
    expect_refused(mrg_pd_raw(pd), ESTALE, "stale-handle");
    expect_refused(mrg_adopt_pd(NULL), EINVAL, "bad-argument");
    cr_expect_eq(stub.live_pds, 1, "the raw PD is its owner's");
    cr_expect_eq(verbs.dealloc_pd(raw), 0);
    expect_nothing_left();
}

Test(adopt, pd_given_up_lives_as_long_as_its_mrs)
{
    struct ibv_pd *raw = verbs.alloc_pd(&stub_devices[0]);
    mrg_pd *pd = mrg_adopt_pd(raw);
    mrg_mr *mr = mrg_reg_mr(pd, memory, sizeof memory, 0);
    mrg_pd_unref(pd);
    cr_expect_eq(mrg_adopt_pd(raw), pd, "it is still there");
    mrg_pd_unref(pd);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    mrg_pd *next = mrg_adopt_pd(raw);
    cr_expect_neq(next, pd);
    cr_expect_eq(mrg_dealloc_pd(next), 0);
    verbs.dealloc_pd(raw);
    expect_nothing_left();
}

Test(adopt, pd_of_ours)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    cr_expect_eq(mrg_adopt_pd(mrg_pd_raw(rig.pd)), rig.pd);
    expect_refused(mrg_dealloc_pd(rig.pd), EBUSY, "destroy-order");
    mrg_pd_unref(rig.pd);
    cr_expect_eq(stub.live_pds, 1);
    end_rig(&rig);
    expect_nothing_left();
}

Test(adopt, context)
{
    struct ibv_context *raw = &stub_devices[0];
    mrg_context *context = mrg_adopt_context(raw);
    cr_expect_eq(mrg_adopt_context(raw), context);
    cr_expect_eq(mrg_context_raw(context), raw);
    mrg_pd *pd = mrg_alloc_pd(context);
    cr_expect_eq(mrg_close_device(context), 0);
    cr_expect_eq(mrg_context_raw(context), raw);
    cr_expect_eq(mrg_close_device(context), 0);
    expect_refused(mrg_close_device(context), EINVAL, "wrong-state"); /* nobody's reference is left */
    cr_expect_eq(mrg_dealloc_pd(pd), 0);
    expect_refused(mrg_context_raw(context), ESTALE, "stale-handle");
    expect_refused(mrg_adopt_context(NULL), EINVAL, "bad-argument");
    expect_nothing_left();
}

/* Opened by one, adopted by another: each closes once, and the last one closes the device. */
Test(adopt, context_that_was_opened)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    cr_expect_eq(mrg_adopt_context(mrg_context_raw(rig.context)), rig.context);
    cr_expect_eq(mrg_close_device(rig.context), 0);
    cr_expect_eq(stub.live_others, 1);
    expect_refused(mrg_close_device(rig.context), EBUSY, "destroy-order");
    end_rig(&rig);
    expect_nothing_left();
}

Test(adopt, context_of_an_id_is_not_closed_by_others)
{
    mrg_id *id = bound_id();
    mrg_context *context = mrg_id_verbs(id);
    expect_refused(mrg_close_device(context), EINVAL, "wrong-state");
    cr_expect_eq(mrg_adopt_context(&stub_devices[0]), context);
    cr_expect_eq(mrg_close_device(context), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

/* librdmacm closes a device with its last id; what outlives the ids keeps it open, whoever came first. */
Test(adopt, device_that_was_adopted_first_is_kept_open_for_ids)
{
    mrg_context *context = mrg_adopt_context(&stub_devices[0]);
    cr_expect_eq(stub.device_lists, 0);
    mrg_id *id = bound_id();
    mrg_pd *pd = mrg_id_pd(id);
    cr_expect_eq(mrg_id_verbs(id), context);
    cr_expect_eq(stub.device_lists, 1);
    cr_expect_eq(mrg_close_device(context), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    cr_expect_eq(stub.device_lists, 1);
    mrg_pd_unref(pd);
    expect_nothing_left();
}

Test(adopt, all_devices)
{
    inject_install();
    int count = 0;
    mrg_context **list = mrg_get_devices(&count);
    cr_assert(list && count == 2 && list[0] && list[1] && !list[2]);
    cr_expect_eq(mrg_context_raw(list[1]), &stub_devices[1]);
    mrg_pd *pd = mrg_alloc_pd(list[1]);
    cr_expect_eq(mrg_close_device(list[0]), 0);
    expect_refused(mrg_free_devices(list), ESTALE, "stale-handle");
    cr_expect_eq(mrg_dealloc_pd(pd), 0);
    list = mrg_get_devices(NULL);
    cr_expect_eq(mrg_free_devices(list), 0);
    int calls = 3; /* the list, and one for each device */
    for (int n = 1; n <= calls; n++) {
        inject_arm(n, ENODEV);
        expect_fails(mrg_get_devices(&count), ENODEV);
        expect_nothing_left();
    }
}

/* Ids */

Test(adopt, id_registers_on_the_pd_that_it_has)
{
    struct ibv_pd *raw_pd = verbs.alloc_pd(&stub_devices[0]);
    struct rdma_cm_id *raw = raw_id(raw_pd);
    const struct rdma_cm_id before = *raw;
    mrg_id *id = mrg_adopt_id(raw);
    cr_expect_eq(mrg_id_raw(id), raw);
    cr_expect_eq(mrg_id_context(id), memory);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    cr_expect_eq(mrg_mr_raw(mr)->pd, raw_pd);
    mrg_pd *pd = mrg_id_pd(id);
    cr_expect_eq(mrg_pd_raw(pd), raw_pd);
    cr_expect_eq(mrg_adopt_pd(raw_pd), pd);
    mrg_pd_unref(pd);
    mrg_pd_unref(pd);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_refused(mrg_destroy_id(id), ESTALE, "stale-handle");
    cr_expect(!memcmp(raw, &before, sizeof before), "the raw id is as it was");
    cr_expect_eq(stub.live_ids, 1);
    expect_refused(mrg_adopt_id(NULL), EINVAL, "bad-argument");
    verbs.destroy_id(raw);
    verbs.dealloc_pd(raw_pd);
    expect_nothing_left();
}

Test(adopt, id_leaves_its_mrs_on_their_pd_and_says_so)
{
    struct ibv_pd *raw_pd = verbs.alloc_pd(&stub_devices[0]);
    struct rdma_cm_id *raw = raw_id(raw_pd);
    mrg_id *id = mrg_adopt_id(raw);
    mrg_mr *mrs[] = {mrg_reg_msgs(id, memory, 64), mrg_reg_read(id, memory, 64)};
    cr_expect_eq(mrg_destroy_id(id), 0);
    cr_expect_eq(mrg_finding_count("leaked-mr"), 1);
    const struct mrg_finding *f = mrg_last_finding();
    cr_assert(f);
    cr_expect_eq(f->error, 0);
    cr_expect(strstr(f->message, "2 MRs are left behind"), "%s", f->message);
    mrg_pd *pd = mrg_adopt_pd(raw_pd);
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "leaked-mr");
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(mrg_mr_length(mrs[i]), 64);
        cr_expect_eq(mrg_dereg_mr(mrs[i]), 0);
    }
    cr_expect_eq(mrg_dealloc_pd(pd), 0);
    verbs.destroy_id(raw);
    verbs.dealloc_pd(raw_pd);
    expect_nothing_left();
}

Test(adopt, id_twice_and_its_qp)
{
    struct ibv_pd *raw_pd = verbs.alloc_pd(&stub_devices[0]);
    struct rdma_cm_id *raw = raw_id(raw_pd);
    mrg_id *first = mrg_adopt_id(raw), *second = mrg_adopt_id(raw);
    cr_expect_neq(first, second);
    mrg_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}};
    cr_assert_eq(mrg_create_qp(first, NULL, &attr), 0);
    cr_expect_eq(raw->qp->pd, raw_pd);
    expect_refused(mrg_create_qp(second, NULL, &attr), EINVAL, "wrong-state");
    expect_refused(mrg_destroy_id(first), EBUSY, "destroy-order");
    mrg_mr *mr = mrg_reg_msgs(second, memory, 64);
    cr_expect_eq(mrg_post_recv(first, NULL, memory, 64, mr), 0, "one PD for both");
    cr_expect_eq(mrg_destroy_qp(first), 0);
    cr_expect_null(raw->qp);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_destroy_ep(first), 0);
    cr_expect_eq(mrg_destroy_id(second), 0);
    verbs.destroy_id(raw);
    verbs.dealloc_pd(raw_pd);
    expect_nothing_left();
}

/* Refused for another child's sake, it has its MRs still. */
Test(adopt, id_that_does_not_go_leaves_nothing_behind)
{
    struct ibv_pd *raw_pd = verbs.alloc_pd(&stub_devices[0]);
    struct rdma_cm_id *raw = raw_id(raw_pd);
    mrg_id *id = mrg_adopt_id(raw);
    mrg_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}};
    mrg_mr *mr = mrg_reg_msgs(id, memory, 64);
    cr_assert_eq(mrg_create_qp(id, NULL, &attr), 0);
    cr_expect_eq(mrg_destroy_id(id), -1);
    cr_expect_eq(errno, EBUSY);
    cr_expect(object_parent(slot_at(handle_token(mr)), TYPE_ID));
    cr_expect_eq(mrg_destroy_ep(id), 0);
    cr_expect_null(object_parent(slot_at(handle_token(mr)), TYPE_ID));
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    verbs.destroy_id(raw);
    verbs.dealloc_pd(raw_pd);
    expect_nothing_left();
}

/* Its events carry its owner's context, which is no token of ours. */
Test(adopt, id_stays_on_its_raw_channel)
{
    struct ibv_pd *raw_pd = verbs.alloc_pd(&stub_devices[0]);
    struct rdma_cm_id *raw = raw_id(raw_pd);
    mrg_id *id = mrg_adopt_id(raw);
    mrg_channel *channel = mrg_create_event_channel();
    expect_refused(mrg_migrate_id(id, channel), EINVAL, "wrong-state");
    expect_refused(mrg_migrate_id(id, NULL), EINVAL, "wrong-state");
    cr_expect_eq(mrg_destroy_event_channel(channel), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    verbs.destroy_id(raw);
    verbs.dealloc_pd(raw_pd);
    expect_nothing_left();
}

/* Following the hints of a refused release leads out: what was given up keeps no endpoint, nor an id. */
Test(adopt, given_up_mrs_go_with_the_endpoint)
{
    mrg_id *id = connected_id(NULL);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    cr_assert_eq(mrg_post_recv(id, NULL, memory, 64, mr), 0);
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    mrg_mr_unref(mr);
    cr_expect_eq(mrg_destroy_ep(id), 0);
    expect_nothing_left();
}

/* In flight elsewhere it waits on its PD. */
Test(adopt, given_up_mr_outlives_the_id_that_made_it)
{
    mrg_id *id = bound_id(), *other = connected_id(NULL);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    cr_assert_eq(mrg_post_recv(other, NULL, memory, 64, mr), 0);
    expect_refused(mrg_destroy_id(id), EBUSY, "leaked-mr");
    mrg_mr_unref(mr);
    cr_expect_eq(mrg_destroy_id(id), 0);
    cr_expect_eq(stub.live_mrs, 1);
    cr_expect_eq(mrg_destroy_qp(other), 0);
    cr_expect_eq(stub.live_mrs, 0);
    cr_expect_eq(mrg_destroy_id(other), 0);
    expect_nothing_left();
}
