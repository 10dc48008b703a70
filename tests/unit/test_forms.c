/* The forms of registration beyond ibv_reg_mr, changes of an MR where it is, and explicit borrows. */
#include "fixture.h"

TestSuite(forms, .init = setup_stub);

static char memory[4096];

#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)
#define IOVA UINT64_C(0x10000)

static int post(mrg_qp *qp, uint64_t addr, size_t length, mrg_mr *mr)
{
    mrg_sge sge = {(void *)(uintptr_t)addr, length, mr};
    mrg_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;
    return mrg_ibv_post_recv(qp, &wr, &bad);
}

Test(forms, iova_is_where_wrs_and_peers_begin)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mr *mr = mrg_reg_mr_iova(rig.pd, memory, sizeof memory, IOVA, RW);
    cr_expect_eq(mrg_mr_addr(mr), memory);
    cr_expect_eq(mrg_mr_iova(mr), IOVA);
    cr_expect_eq(mrg_mr_length(mr), sizeof memory);
    expect_refused(post(rig.qp, (uintptr_t)memory, 1, mr), ERANGE, "out-of-range");
    expect_refused(post(rig.qp, IOVA + 1, sizeof memory, mr), ERANGE, "out-of-range");
    expect_refused(post(rig.qp, IOVA - 1, 1, mr), ERANGE, "out-of-range");
    cr_expect_eq(post(rig.qp, IOVA, sizeof memory, mr), 0);
    mrg_remote remote;
    cr_expect_eq(mrg_mr_export(mr, 16, 32, IBV_ACCESS_REMOTE_READ, &remote), 0);
    cr_expect(remote.addr == IOVA + 16 && remote.length == 32);
    mrg_borrow *borrow;
    expect_refused(mrg_borrow_begin(mr, memory, 1, 0, &borrow), ERANGE, "out-of-range");
    expect_refused(mrg_reg_mr_iova(rig.pd, memory, 16, UINT64_MAX - 8, RW), ERANGE, "out-of-range");
    expect_refused(mrg_reg_mr_iova(rig.pd, (void *)UINTPTR_MAX, 16, 0, RW), ERANGE, "out-of-range");
    expect_refused(mrg_reg_mr_iova(rig.pd, memory, 0, IOVA, RW), EINVAL, "bad-argument");
    expect_refused(mrg_reg_mr_iova(rig.pd, memory, 1, IOVA, IBV_ACCESS_REMOTE_WRITE), EINVAL, "missing-access");
    stub_complete_recvs(rig.raw, 1, IBV_WC_SUCCESS);
    expect_completion(rig.cq, 1);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_rig(&rig);
    expect_nothing_left();
}

Test(forms, dmabuf_null_and_implicit)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    struct mrg_stats stats;
    mrg_mr *dmabuf = mrg_reg_dmabuf_mr(rig.pd, 4096, 512, IOVA, 3, RW);
    cr_expect_eq(mrg_mr_iova(dmabuf), IOVA);
    expect_refused(post(rig.qp, 4096, 1, dmabuf), ERANGE, "out-of-range");
    cr_expect_eq(post(rig.qp, IOVA + 511, 1, dmabuf), 0);
    mrg_mr *null = mrg_alloc_null_mr(rig.pd);
    cr_expect_eq(post(rig.qp, 0, 1, null), 0);
    cr_expect_eq(post(rig.qp, UINT64_MAX - 1, 1, null), 0);
    cr_expect_eq(post(rig.qp, (uintptr_t)memory, UINT32_C(1) << 31, null), 0);
    mrg_mr *implicit = mrg_reg_mr(rig.pd, NULL, SIZE_MAX, RW | IBV_ACCESS_ON_DEMAND);
    cr_expect_eq(mrg_mr_length(implicit), SIZE_MAX);
    cr_expect_eq(post(rig.qp, (uintptr_t)memory, 64, implicit), 0);
    cr_assert_eq(mrg_stats(&stats), 0);
    cr_expect_eq(stats.live_mrs, 3);
    cr_expect_eq(stats.registered_bytes, 512, "what covers everything pins nothing");
    expect_refused(mrg_reg_mr(rig.pd, (void *)2, SIZE_MAX, RW | IBV_ACCESS_ON_DEMAND), ERANGE, "out-of-range");
    stub_complete_recvs(rig.raw, 5, IBV_WC_SUCCESS);
    struct ibv_wc wc[5];
    cr_expect_eq(mrg_poll_cq(rig.cq, 5, wc), 5);
    cr_expect_eq(mrg_dereg_mr(null), 0);
    cr_expect_eq(mrg_dereg_mr(dmabuf), 0);
    cr_expect_eq(mrg_dereg_mr(implicit), 0);
    end_rig(&rig);
    expect_nothing_left();
}

Test(forms, that_the_provider_has_not_leave_nothing)
{
    inject_install();
    struct rig rig = new_rig(IBV_QPT_RC);
    inject_arm(1, EOPNOTSUPP);
    expect_refused(mrg_alloc_null_mr(rig.pd), EOPNOTSUPP, "registration-refused");
    inject_arm(1, EOPNOTSUPP);
    expect_refused(mrg_reg_dmabuf_mr(rig.pd, 0, 1, 0, 3, 0), EOPNOTSUPP, "registration-refused");
    inject_arm(1, EFAULT);
    expect_refused(mrg_reg_mr_iova(rig.pd, memory, 1, 0, 0), EFAULT, "registration-refused");
    end_rig(&rig);
    expect_nothing_left();
}

/* Changes */

Test(forms, rereg_changes_what_its_flags_name)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, 64, RW);
    uint32_t key = mrg_mr_rkey(mr);
    struct mrg_stats stats;
    cr_expect_eq(mrg_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory + 64, 128, -1), 0);
    cr_expect(mrg_mr_addr(mr) == memory + 64 && mrg_mr_iova(mr) == (uintptr_t)memory + 64);
    cr_expect_eq(mrg_mr_length(mr), 128);
    cr_expect_eq(mrg_mr_access(mr), RW);
    cr_expect_neq(mrg_mr_rkey(mr), key);
    cr_assert_eq(mrg_stats(&stats), 0);
    cr_expect(stats.live_mrs == 1 && stats.registered_bytes == 128);
    expect_refused(post(rig.qp, (uintptr_t)memory, 1, mr), ERANGE, "out-of-range");
    cr_expect_eq(mrg_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), 0);
    cr_expect_eq(mrg_mr_access(mr), 0);
    cr_expect_eq(mrg_mr_length(mr), 128);
    expect_refused(post(rig.qp, (uintptr_t)memory + 64, 1, mr), EACCES, "missing-access");
    cr_expect_eq(mrg_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 8, RW),
                 0);
    cr_expect_eq(post(rig.qp, (uintptr_t)memory, 8, mr), 0);
    expect_refused(mrg_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), EBUSY, "dereg-in-flight");
    stub_complete_recvs(rig.raw, 1, IBV_WC_SUCCESS);
    expect_completion(rig.cq, 1);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_rig(&rig);
    expect_nothing_left();
}

Test(forms, rereg_moves_an_mr_to_another_pd)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_pd *pd = mrg_alloc_pd(rig.context);
    mrg_mr *mr = mrg_reg_mr(pd, memory, 64, RW);
    expect_refused(post(rig.qp, (uintptr_t)memory, 1, mr), EXDEV, "wrong-pd");
    cr_expect_eq(mrg_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, rig.pd, NULL, 0, 0), 0);
    cr_expect_eq(mrg_dealloc_pd(pd), 0);
    expect_refused(mrg_dealloc_pd(rig.pd), EBUSY, "leaked-mr");
    cr_expect_eq(post(rig.qp, (uintptr_t)memory, 1, mr), 0);
    stub_complete_recvs(rig.raw, 1, IBV_WC_SUCCESS);
    expect_completion(rig.cq, 1);
    struct rig far = new_rig(IBV_QPT_RC);
    expect_refused(mrg_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, far.pd, NULL, 0, 0), EXDEV, "wrong-pd");
    cr_expect_eq(mrg_mr_length(mr), 64);
    end_rig(&far);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_rig(&rig);
    expect_nothing_left();
}

/* Made through an id, moved to another PD: it is of both. */
Test(forms, rereg_of_an_ids_mr)
{
    mrg_id *id = bound_id();
    mrg_pd *pd = mrg_alloc_pd(mrg_id_verbs(id));
    mrg_mr *mr = mrg_reg_msgs(id, memory, 64);
    cr_expect_eq(mrg_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "leaked-mr");
    expect_refused(mrg_destroy_id(id), EBUSY, "leaked-mr");
    cr_expect_eq(mrg_mr_move(mr, pd), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_dealloc_pd(pd), 0);
    expect_nothing_left();
}

static void give_back(void *addr, size_t length, void *arg)
{
    (void)addr, (void)length;
    ++*(int *)arg;
}

Test(forms, rereg_that_is_refused_changes_nothing)
{
    inject_install();
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_pd *pd = mrg_alloc_pd(rig.context);
    int given_back = 0;
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, 64, RW), *owned;
    owned = mrg_reg_mr_owned(rig.pd, memory, 64, RW, give_back, &given_back);
    const int move = IBV_REREG_MR_CHANGE_TRANSLATION, access = IBV_REREG_MR_CHANGE_ACCESS;
    expect_refused(mrg_rereg_mr(mr, 0, NULL, memory, 1, 0), EINVAL, "bad-argument");
    expect_refused(mrg_rereg_mr(mr, 8, NULL, memory, 1, 0), EINVAL, "bad-argument");
    expect_refused(mrg_rereg_mr(mr, move, NULL, memory, 0, 0), EINVAL, "bad-argument");
    expect_refused(mrg_rereg_mr(mr, move, NULL, (void *)UINTPTR_MAX, 2, 0), ERANGE, "out-of-range");
    expect_refused(mrg_rereg_mr(mr, access, NULL, NULL, 0, 1 << 30), EINVAL, "bad-argument");
    expect_refused(mrg_rereg_mr(mr, access, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE), EINVAL, "missing-access");
    expect_refused(mrg_rereg_mr(owned, move, NULL, memory, 1, 0), EINVAL, "wrong-state");
    cr_expect_eq(mrg_rereg_mr(owned, access, NULL, NULL, 0, 0), 0, "its access may change");
    mrg_mr_ref(mr);
    expect_refused(mrg_rereg_mr(mr, access, NULL, NULL, 0, 0), EBUSY, "destroy-order");
    mrg_mr_unref(mr);
    mrg_borrow *borrow;
    cr_assert_eq(mrg_borrow_begin(mr, memory, 1, 0, &borrow), 0);
    expect_refused(mrg_rereg_mr(mr, access, NULL, NULL, 0, 0), EBUSY, "dereg-in-flight");
    cr_expect_eq(mrg_borrow_end(borrow), 0);
    uint32_t key = mrg_mr_rkey(mr);
    inject_arm(1, ENOMEM);
    expect_fails(mrg_rereg_mr(mr, move | access | IBV_REREG_MR_CHANGE_PD, pd, memory + 1, 1, 0), ENOMEM);
    cr_expect(mrg_mr_addr(mr) == memory && mrg_mr_length(mr) == 64 && mrg_mr_access(mr) == RW);
    cr_expect_eq(mrg_mr_rkey(mr), key);
    cr_expect_eq(mrg_dealloc_pd(pd), 0, "it did not move there");
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_dereg_mr(owned), 0);
    cr_expect_eq(given_back, 1);
    end_rig(&rig);
    expect_nothing_left();
}

static struct ibv_sge advised[2];

static int note_advice(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sges,
                       uint32_t count)
{
    (void)pd, (void)advice, (void)flags;
    memcpy(advised, sges, count * sizeof *sges);
    return 0;
}

Test(forms, advice)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mr *mr = mrg_reg_mr(rig.pd, NULL, SIZE_MAX, RW | IBV_ACCESS_ON_DEMAND);
    verbs.advise_mr = note_advice;
    mrg_sge sges[] = {{memory, 64, mr}, {memory + 64, 8, mr}};
    const enum ibv_advise_mr_advice advice = IBV_ADVISE_MR_ADVICE_PREFETCH;
    cr_expect_eq(mrg_advise_mr(rig.pd, advice, 0, sges, 2), 0);
    cr_expect(advised[1].addr == (uintptr_t)memory + 64 && advised[1].length == 8);
    cr_expect_eq(advised[0].lkey, mrg_mr_raw(mr)->lkey);
    expect_refused(mrg_advise_mr(rig.pd, advice, 0, NULL, 1), EINVAL, "bad-argument");
    expect_refused(mrg_advise_mr(rig.pd, advice, 0, sges, 0), EINVAL, "bad-argument");
    sges[1].length = (size_t)5 << 30;
    expect_refused(mrg_advise_mr(rig.pd, advice, 0, sges, 2), EMSGSIZE, "length-truncated");
    sges[1] = (mrg_sge){memory, 1, NULL};
    expect_refused(mrg_advise_mr(rig.pd, advice, 0, sges, 2), EINVAL, "bad-argument");
    cr_expect_eq(mrg_dereg_mr(mr), 0, "nothing holds it any more");
    end_rig(&rig);
    expect_nothing_left();
}

/* Explicit borrows */

Test(forms, borrow_keeps_the_mr_until_its_end)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, 64, IBV_ACCESS_LOCAL_WRITE);
    mrg_borrow *first, *second;
    cr_assert_eq(mrg_borrow_begin(mr, memory, 64, IBV_ACCESS_LOCAL_WRITE, &first), 0);
    cr_assert_eq(mrg_borrow_begin(mr, memory + 63, 1, 0, &second), 0);
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    cr_expect(strstr(mrg_last_finding()->message, "borrow made at tests/unit/test_forms.c:"), "%s",
              mrg_last_finding()->message);
    cr_expect_eq(mrg_borrow_end(first), 0);
    expect_refused(mrg_borrow_end(first), ESTALE, "stale-handle");
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    mrg_mr_unref(mr);
    cr_expect_eq(stub.live_mrs, 1);
    expect_refused(mrg_borrow_begin(mr, memory, 1, 0, &first), ESTALE, "stale-handle");
    expect_refused(mrg_dealloc_pd(rig.pd), EBUSY, "leaked-mr");
    cr_expect_eq(mrg_borrow_end(second), 0);
    cr_expect_eq(stub.live_mrs, 0, "the deferred release waited for it");
    end_rig(&rig);
    expect_nothing_left();
}

Test(forms, borrow_is_judged_as_a_post)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, 64, 0);
    mrg_borrow *borrow = NULL;
    expect_refused(mrg_borrow_begin(mr, memory, 65, 0, &borrow), ERANGE, "out-of-range");
    expect_refused(mrg_borrow_begin(mr, memory + 65, 0, 0, &borrow), ERANGE, "out-of-range");
    expect_refused(mrg_borrow_begin(mr, memory, SIZE_MAX, 0, &borrow), ERANGE, "out-of-range");
    expect_refused(mrg_borrow_begin(mr, memory, 1, IBV_ACCESS_LOCAL_WRITE, &borrow), EACCES, "missing-access");
    expect_refused(mrg_borrow_begin(mr, memory, 1, -1, &borrow), EINVAL, "bad-argument");
    expect_refused(mrg_borrow_begin(mr, memory, 1, 0, NULL), EINVAL, "bad-argument");
    cr_expect_null(borrow);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_rig(&rig);
    expect_nothing_left();
}
