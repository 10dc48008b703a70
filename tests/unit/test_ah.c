/* Address handles, and the datagrams that use them. */
#include "fixture.h"

#include "id.h"

TestSuite(ah, .init = setup_stub);

static char memory[256];

static mrg_ah *make_ah(mrg_pd *pd)
{
    struct ibv_ah_attr attr = {.port_num = 1};
    mrg_ah *ah = mrg_create_ah(pd, &attr);
    cr_assert(ah);
    return ah;
}

/* An id of RDMA_PS_UDP; the stub's ids are RC, so its type is set here. */
static mrg_id *datagram_id(mrg_cq **cq)
{
    mrg_id *id = bound_id();
    id_of(slot_at(handle_token(id)))->raw->qp_type = IBV_QPT_UD;
    *cq = mrg_create_cq(mrg_id_verbs(id), 16, NULL, NULL, 0);
    mrg_qp_init_attr attr = {.send_cq = *cq, .recv_cq = *cq, .cap = {8, 8, 1, 1, 0}};
    cr_assert_eq(mrg_create_qp(id, NULL, &attr), 0);
    return id;
}

Test(ah, is_used_by_a_datagram_until_its_completion)
{
    mrg_cq *cq;
    mrg_id *id = datagram_id(&cq);
    mrg_pd *pd = mrg_id_pd(id);
    mrg_ah *ah = make_ah(pd);
    mrg_mr *mr = mrg_reg_send(id, memory, sizeof memory);
    stub.hold_sends = true;
    cr_assert_eq(mrg_post_ud_send(id, (void *)5, memory, 64, mr, IBV_SEND_SIGNALED, ah, 0x1234), 0);
    cr_expect_eq(stub.last_send.wr.ud.remote_qpn, 0x1234);
    cr_expect_eq(stub.last_send.wr.ud.remote_qkey, RDMA_UDP_QKEY);
    cr_expect(stub.last_send.wr.ud.ah);
    expect_refused(mrg_destroy_ah(ah), EBUSY, "destroy-order");
    cr_expect(strstr(mrg_last_finding()->message, "a WR in flight"), "%s", mrg_last_finding()->message);
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    cr_assert_eq(mrg_post_ud_send(id, (void *)6, memory, 8, NULL, IBV_SEND_INLINE, ah, 1), 0);
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    stub_complete_sends(raw_qp(id), 1, IBV_WC_SUCCESS);
    expect_completion(cq, 5);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    expect_refused(mrg_destroy_ah(ah), EBUSY, "destroy-order"); /* inline data is gone, the address is not */
    cr_expect_eq(mrg_destroy_qp(id), 0);
    cr_expect_eq(mrg_destroy_ah(ah), 0, "the QP's end ends its WRs");
    expect_refused(mrg_destroy_ah(ah), ESTALE, "stale-handle");
    cr_expect_eq(mrg_destroy_cq(cq), 0);
    mrg_pd_unref(pd);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

Test(ah, rules_of_a_datagram)
{
    mrg_cq *cq;
    mrg_id *id = datagram_id(&cq), *connected = connected_id(NULL), *bare = bound_id();
    mrg_pd *pd = mrg_id_pd(id), *other = mrg_alloc_pd(mrg_id_verbs(id));
    mrg_ah *ah = make_ah(pd), *far = make_ah(other), *gone = make_ah(pd);
    mrg_mr *mr = mrg_reg_send(id, memory, sizeof memory);
    cr_assert_eq(mrg_destroy_ah(gone), 0);
    expect_refused(mrg_post_ud_send(id, NULL, memory, 1, mr, 0, NULL, 1), EINVAL, "bad-argument");
    expect_refused(mrg_post_ud_send(id, NULL, memory, 1, mr, 0, gone, 1), ESTALE, "stale-handle");
    expect_refused(mrg_post_ud_send(id, NULL, memory, 1, mr, 0, far, 1), EXDEV, "wrong-pd");
    expect_refused(mrg_post_ud_send(id, NULL, memory, 257, mr, 0, ah, 1), ERANGE, "out-of-range");
    expect_refused(mrg_post_ud_send(connected, NULL, memory, 1, mr, 0, ah, 1), EINVAL, "wrong-state");
    expect_refused(mrg_post_ud_send(bare, NULL, memory, 1, mr, 0, ah, 1), EINVAL, "no-qp");
    expect_refused(mrg_post_send(id, NULL, memory, 1, mr, 0), EINVAL, "bad-argument");
    expect_refused(mrg_post_read(id, NULL, memory, 1, mr, 0, 1, 1), EINVAL, "bad-argument");
    expect_refused(mrg_post_write(id, NULL, memory, 1, mr, 0, 1, 1), EINVAL, "bad-argument");
    expect_refused(mrg_dealloc_pd(other), EBUSY, "destroy-order");
    cr_expect_eq(mrg_destroy_ah(far), 0);
    cr_expect_eq(mrg_dealloc_pd(other), 0);
    cr_expect_eq(mrg_destroy_ah(ah), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    mrg_pd_unref(pd);
    cr_expect_eq(mrg_destroy_ep(id), 0);
    cr_expect_eq(mrg_destroy_cq(cq), 0);
    cr_expect_eq(mrg_destroy_ep(connected), 0);
    cr_expect_eq(mrg_destroy_id(bare), 0);
    expect_nothing_left();
}

Test(ah, of_a_datagram_that_was_received)
{
    struct rig rig = new_rig(IBV_QPT_UD);
    struct ibv_wc wc = {.wc_flags = IBV_WC_GRH}, plain = {0};
    struct ibv_grh grh = {0};
    struct ibv_ah_attr attr = {0};
    expect_refused(mrg_create_ah(rig.pd, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_create_ah_from_wc(rig.pd, NULL, &grh, 1), EINVAL, "bad-argument");
    expect_refused(mrg_create_ah_from_wc(rig.pd, &wc, NULL, 1), EINVAL, "bad-argument");
    expect_refused(mrg_init_ah_from_wc(rig.context, 1, &wc, NULL, &attr), EINVAL, "bad-argument");
    expect_refused(mrg_init_ah_from_wc(rig.context, 1, NULL, &grh, &attr), EINVAL, "bad-argument");
    expect_refused(mrg_init_ah_from_wc(rig.context, 1, &wc, &grh, NULL), EINVAL, "bad-argument");
    cr_expect_eq(mrg_init_ah_from_wc(rig.context, 2, &wc, &grh, &attr), 0);
    cr_expect_eq(attr.port_num, 2);
    mrg_ah *with = mrg_create_ah_from_wc(rig.pd, &wc, &grh, 1),
           *without = mrg_create_ah_from_wc(rig.pd, &plain, NULL, 1);
    cr_assert(with && without);
    cr_expect_eq(mrg_destroy_ah(with), 0);
    cr_expect_eq(mrg_destroy_ah(without), 0);
    end_rig(&rig);
    expect_nothing_left();
}

Test(ah, chain_of_datagrams_to_several_addresses)
{
    struct rig rig = new_rig(IBV_QPT_UD);
    mrg_ah *ahs[3] = {make_ah(rig.pd), make_ah(rig.pd), make_ah(rig.pd)};
    mrg_send_wr wrs[3], *bad;
    for (int i = 0; i < 3; i++) {
        wrs[i] = (mrg_send_wr){.wr_id = 1, .next = i < 2 ? &wrs[i + 1] : NULL, .opcode = IBV_WR_SEND};
        wrs[i].wr.ud.ah = ahs[i];
    }
    stub.take = 2;
    expect_fails(mrg_ibv_post_send(rig.qp, wrs, &bad), ENOMEM);
    cr_expect_eq(bad, &wrs[2]);
    expect_refused(mrg_destroy_ah(ahs[0]), EBUSY, "destroy-order");
    expect_refused(mrg_destroy_ah(ahs[1]), EBUSY, "destroy-order");
    cr_expect_eq(mrg_destroy_ah(ahs[2]), 0, "the last one was withdrawn");
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    cr_expect_eq(mrg_modify_qp(rig.qp, &reset, IBV_QP_STATE), 0);
    cr_expect_eq(mrg_destroy_ah(ahs[0]), 0);
    cr_expect_eq(mrg_destroy_ah(ahs[1]), 0);
    end_rig(&rig);
    expect_nothing_left();
}
