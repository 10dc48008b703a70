/* Registration: bad input by table, references, the strict and the deferred release, owned memory. */
#include "fixture.h"

#include <sys/mman.h>

static char memory[8192];

TestSuite(mr, .init = setup_stub);

Test(mr, bad_input_is_refused_and_nothing_registered)
{
    mrg_id *id = bound_id();
    mrg_pd *pd = mrg_id_pd(id);
    char *last = (char *)UINTPTR_MAX;
    expect_refused(mrg_reg_msgs(NULL, memory, 1), EINVAL, "bad-argument");
    expect_refused(mrg_reg_msgs(id, memory, 0), EINVAL, "bad-argument");
    expect_refused(mrg_reg_read(id, memory, 0), EINVAL, "bad-argument");
    expect_refused(mrg_reg_write(id, NULL, 0), EINVAL, "bad-argument");
    expect_refused(mrg_reg_send(id, memory, 0), EINVAL, "bad-argument");
    expect_refused(mrg_reg_msgs(id, last, 2), ERANGE, "out-of-range");
    expect_refused(mrg_reg_msgs(id, memory, SIZE_MAX), ERANGE, "out-of-range");
    expect_refused(mrg_reg_mr(NULL, memory, 1, 0), EINVAL, "bad-argument");
    expect_refused(mrg_reg_mr((mrg_pd *)id, memory, 1, 0), ESTALE, "stale-handle");
    expect_refused(mrg_reg_mr(pd, memory, 1, 1 << 30), EINVAL, "bad-argument");
    expect_refused(mrg_reg_mr(pd, memory, 1, -1), EINVAL, "bad-argument");
    expect_refused(mrg_reg_mr(pd, memory, 1, IBV_ACCESS_REMOTE_WRITE), EINVAL, "missing-access");
    expect_refused(mrg_reg_mr(pd, memory, 1, IBV_ACCESS_REMOTE_ATOMIC), EINVAL, "missing-access");
    expect_refused(mrg_reg_mr_owned(pd, memory, 1, 0, NULL, NULL), EINVAL, "bad-argument");
    cr_expect_eq(stub.live_mrs, 0);
    mrg_pd_unref(pd);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

Test(mr, unbound_id_has_no_pd)
{
    mrg_id *id;
    cr_assert_eq(mrg_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    expect_refused(mrg_reg_msgs(id, memory, 1), ENODEV, "no-pd");
    expect_refused(mrg_reg_read(id, memory, 1), ENODEV, "no-pd");
    expect_refused(mrg_id_pd(id), ENODEV, "no-pd");
    expect_refused(mrg_id_verbs(id), ENODEV, "no-pd");
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

Test(mr, facts_are_those_of_the_registration)
{
    mrg_id *id = bound_id();
    mrg_mr *mr = mrg_reg_read(id, memory, 100);
    cr_expect_eq(mrg_mr_addr(mr), memory);
    cr_expect_eq(mrg_mr_length(mr), 100);
    cr_expect_neq(mrg_mr_rkey(mr), 0);
    cr_expect_eq(mrg_mr_access(mr), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    mrg_mr *send = mrg_reg_send(id, memory, 100);
    cr_expect_eq(mrg_mr_access(send), 0);
    struct mrg_stats stats;
    cr_assert_eq(mrg_stats(&stats), 0);
    cr_expect_eq(stats.live_mrs, 2);
    cr_expect_eq(stats.registered_bytes, 200);
}

Test(mr, strict_release_wants_the_only_reference)
{
    mrg_id *id = bound_id();
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    cr_expect_eq(mrg_mr_ref(mr), mr);
    expect_refused(mrg_dereg_mr(mr), EBUSY, "destroy-order");
    cr_expect_null(mrg_mr_unref(mr));
    cr_expect_eq(stub.live_mrs, 1);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    expect_refused(mrg_mr_ref(mr), ESTALE, "stale-handle");
    expect_refused(mrg_mr_unref(mr), ESTALE, "stale-handle");
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

Test(mr, last_unref_releases)
{
    mrg_id *id = bound_id();
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    mrg_mr_ref(mr);
    mrg_mr_unref(mr);
    cr_expect_eq(stub.live_mrs, 1);
    mrg_mr_unref(mr);
    cr_expect_eq(stub.live_mrs, 0);
    errno = 0;
    cr_expect_null(mrg_mr_unref(NULL));
    cr_expect_eq(errno, 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

Test(mr, goes_at_the_end_of_its_scope_unless_moved_out)
{
    mrg_id *id = bound_id();
    mrg_mr *kept;
    {
        MRG_AUTO(mrg_mr) goes = mrg_reg_msgs(id, memory, 1);
        MRG_AUTO(mrg_mr) stays = mrg_reg_msgs(id, memory, 1);
        MRG_AUTO(mrg_mr) never = NULL;
        cr_assert(goes && stays && !never);
        kept = mrg_steal(&stays);
        cr_expect_eq(stub.live_mrs, 2);
    }
    cr_expect_eq(stub.live_mrs, 1);
    cr_expect_eq(mrg_dereg_mr(kept), 0);
}

Test(mr, provider_that_refuses_to_deregister_leaves_it_live)
{
    inject_install();
    mrg_id *id = bound_id();
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    inject_arm(1, EBUSY);
    expect_fails(mrg_dereg_mr(mr), EBUSY);
    cr_expect_str_eq(inject_hit(), "dereg_mr");
    cr_expect_eq(mrg_mr_length(mr), sizeof memory);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

Test(mr, provider_that_refuses_the_last_unref_gives_the_reference_back)
{
    inject_install();
    mrg_id *id = bound_id();
    mrg_pd *pd = mrg_alloc_pd(mrg_id_verbs(id));
    mrg_mr *mr = mrg_reg_mr(pd, memory, sizeof memory, 0);
    inject_arm(1, EBUSY);
    errno = 0;
    cr_expect_null(mrg_mr_unref(mr));
    cr_expect_eq(errno, EBUSY);
    cr_expect_eq(mrg_mr_length(mr), sizeof memory);
    cr_expect_null(mrg_mr_unref(mr));
    cr_expect_eq(stub.live_mrs, 0);
    inject_arm(1, EBUSY);
    cr_expect_null(mrg_pd_unref(pd));
    cr_expect_eq(mrg_dealloc_pd(pd), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

Test(mr, kernel_that_refuses_to_register_is_explained)
{
    inject_install();
    mrg_id *id = bound_id();
    cr_assert(mrg_reg_msgs(id, memory, 1));
    void *readonly = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(readonly, MAP_FAILED);
    inject_arm(1, EFAULT);
    expect_refused(mrg_reg_msgs(id, readonly, 4096), EFAULT, "registration-refused");
    cr_expect(strstr(mrg_last_finding()->message, "read-only"), "%s", mrg_last_finding()->message);
    munmap(readonly, 4096);
    inject_arm(1, EFAULT);
    expect_refused(mrg_reg_msgs(id, readonly, 4096), EFAULT, "registration-refused");
    cr_expect(strstr(mrg_last_finding()->message, "nothing is mapped"), "%s", mrg_last_finding()->message);
    inject_arm(1, ENOMEM);
    expect_refused(mrg_reg_msgs(id, memory, sizeof memory), ENOMEM, "registration-refused");
    cr_expect(strstr(mrg_last_finding()->message, "registered by this process"), "%s", mrg_last_finding()->message);
    cr_expect_eq(stub.live_mrs, 1);
}

Test(mr, vector_is_registered_whole_or_not_at_all)
{
    inject_install();
    mrg_id *id = bound_id();
    struct iovec ranges[] = {{memory, 10}, {memory + 100, 20}, {memory + 200, 30}};
    mrg_mr *mrs[3] = {0};
    cr_assert_eq(mrg_reg_readv(id, ranges, 3, mrs), 0);
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(mrg_mr_length(mrs[i]), ranges[i].iov_len);
        cr_expect_eq(mrg_mr_access(mrs[i]), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
        cr_expect_eq(mrg_dereg_mr(mrs[i]), 0);
        mrs[i] = NULL;
    }
    for (int n = 1; n <= 3; n++) {
        inject_arm(n, ENOMEM);
        expect_refused(mrg_reg_msgsv(id, ranges, 3, mrs), ENOMEM, "registration-refused");
        cr_expect_eq(stub.live_mrs, 0);
        cr_expect(!mrs[0] && !mrs[1] && !mrs[2], "outputs are written only on success");
    }
    inject_arm(0, 0);
    ranges[2].iov_len = 0;
    expect_refused(mrg_reg_writev(id, ranges, 3, mrs), EINVAL, "bad-argument");
    expect_refused(mrg_reg_writev(id, ranges, -1, mrs), EINVAL, "bad-argument");
    expect_refused(mrg_reg_writev(id, NULL, 1, mrs), EINVAL, "bad-argument");
    expect_refused(mrg_reg_writev(id, ranges, 1, NULL), EINVAL, "bad-argument");
    cr_expect_eq(mrg_reg_writev(id, NULL, 0, NULL), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

/* Owned memory */

struct released {
    void *addr;
    size_t length;
    int times;
    int mrs_then; /* what the device still had */
};

static void note_release(void *addr, size_t length, void *arg)
{
    struct released *released = arg;
    *released = (struct released){addr, length, released->times + 1, stub.live_mrs};
}

Test(mr, owned_memory_is_given_back_after_deregistration)
{
    mrg_id *id = bound_id();
    MRG_AUTO(mrg_pd) pd = mrg_id_pd(id);
    struct released released = {0};
    mrg_mr *mr = mrg_reg_mr_owned(pd, memory, 64, IBV_ACCESS_LOCAL_WRITE, note_release, &released);
    cr_assert(mr);
    mrg_mr_ref(mr);
    mrg_mr_unref(mr);
    cr_expect_eq(released.times, 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(released.times, 1);
    cr_expect_eq(released.addr, memory);
    cr_expect_eq(released.length, 64);
    cr_expect_eq(released.mrs_then, 0);
}

Test(mr, owned_memory_stays_the_callers_if_registration_fails)
{
    inject_install();
    mrg_id *id = bound_id();
    MRG_AUTO(mrg_pd) pd = mrg_id_pd(id);
    struct released released = {0};
    inject_arm(1, ENOMEM);
    expect_refused(mrg_reg_mr_owned(pd, memory, 64, 0, note_release, &released), ENOMEM, "registration-refused");
    cr_expect_eq(released.times, 0);
    cr_expect_eq(stub.live_mrs, 0);
}

/* MRs, ids and PDs */

Test(mr, moved_from_its_id_it_outlives_it)
{
    mrg_id *id = bound_id();
    mrg_pd *pd = mrg_id_pd(id);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    expect_refused(mrg_destroy_id(id), EBUSY, "leaked-mr");
    cr_expect_eq(mrg_mr_move(mr, pd), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    cr_expect_eq(mrg_mr_length(mr), sizeof memory);
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "leaked-mr");
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_dealloc_pd(pd), 0);
    expect_nothing_left();
}

Test(mr, cannot_move_to_a_pd_it_is_not_on)
{
    mrg_id *id = bound_id();
    mrg_pd *other = mrg_alloc_pd(mrg_id_verbs(id));
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    expect_refused(mrg_mr_move(mr, other), EXDEV, "wrong-pd");
    expect_refused(mrg_mr_move(mr, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_mr_move(NULL, other), EINVAL, "bad-argument");
    expect_refused(mrg_destroy_id(id), EBUSY, "leaked-mr");
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    cr_expect_eq(mrg_dealloc_pd(other), 0);
    expect_nothing_left();
}

Test(mr, one_pd_serves_all_ids_of_a_device)
{
    mrg_id *first = bound_id(), *second = bound_id();
    stub_bind_to = &stub_devices[1];
    mrg_id *elsewhere = bound_id();
    mrg_pd *a = mrg_id_pd(first), *b = mrg_id_pd(second), *c = mrg_id_pd(elsewhere);
    cr_expect_eq(a, b);
    cr_expect_neq(a, c);
    cr_expect_eq(stub.live_pds, 2);
    mrg_pd_unref(a);
    mrg_pd_unref(b);
    mrg_pd_unref(c);
    expect_refused(mrg_pd_unref(a), ESTALE, "stale-handle");
    cr_expect_eq(mrg_destroy_id(first), 0);
    cr_expect_eq(stub.live_pds, 2);
    cr_expect_eq(mrg_destroy_id(second), 0);
    cr_expect_eq(stub.live_pds, 1);
    cr_expect_eq(mrg_destroy_id(elsewhere), 0);
    expect_nothing_left();
}

Test(mr, pd_given_up_goes_with_its_last_mr)
{
    mrg_id *id = bound_id();
    mrg_pd *pd = mrg_alloc_pd(mrg_id_verbs(id));
    mrg_mr *mr = mrg_reg_mr(pd, memory, 1, 0);
    mrg_pd_unref(pd);
    cr_expect_eq(stub.live_pds, 2);
    expect_refused(mrg_reg_mr(pd, memory, 1, 0), ESTALE, "stale-handle");
    expect_refused(mrg_pd_ref(pd), ESTALE, "stale-handle");
    cr_expect_eq(mrg_destroy_id(id), 0);
    cr_expect_eq(stub.live_pds, 1);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    expect_nothing_left();
}
