/* Handles that are not good, in every place that takes one. */
#include "fixture.h"

TestSuite(handles, .init = setup_stub);

static char memory[64];

static void give_back(void *addr, size_t length, void *arg)
{
    (void)addr, (void)length, (void)arg;
}

/* Every public call whose first argument is a handle: tests/structure/run compares the list with the headers. */
static void try_all(void *h, int error)
{
    struct sockaddr addr = {0};
    struct ibv_wc wc = {0};
    mrg_id *id = NULL;
    mrg_cm_event *event = NULL;
    mrg_async_event *async = NULL;
    mrg_cq *cq = NULL;
    mrg_mr *made = NULL;
    mrg_borrow *borrow = NULL;
    struct iovec range = {memory, 1};
    void *context = NULL;
    size_t length = 0;
    mrg_remote remote = {4096, 1, 1, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
    mrg_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    mrg_srq_init_attr srq_attr = {.attr = {1, 1, 0}};
    mrg_sge sge = {memory, 1, NULL};
    mrg_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send = NULL;
    mrg_recv_wr recv = {.wr_id = 1}, *bad_recv = NULL;
    mrg_mw_bind bind = {.wr_id = 1};
    struct rdma_conn_param conn;
    struct rdma_ud_param ud;
    struct rdma_cm_join_mc_attr_ex join = {.addr = &addr};
    struct ibv_ece ece = {0};
    struct ibv_qp_attr qp_attr = {0};
    struct ibv_ah_attr ah_attr = {0};
    struct ibv_td_init_attr td_attr = {0};
    struct ibv_xrcd_init_attr xrcd_attr = {0};
    struct ibv_device_attr device;
    struct ibv_device_attr_ex device_ex;
    struct ibv_port_attr port;
    union ibv_gid gid = {{0}};
    uint16_t pkey;
    uint32_t number;
    int mask, n = 0;
#define TRY(call)                                                                                          \
    do {                                                                                                   \
        errno = 0;                                                                                         \
        long r = (long)(call);                                                                             \
        cr_expect((r == 0 || r == -1) && errno == error, "%s(%p): %ld, %s", #call, h, r, strerror(errno)); \
        n++;                                                                                               \
    } while (0)
    TRY(mrg_destroy_event_channel(h));
    TRY(mrg_channel_fd(h));
    TRY(mrg_get_cm_event(h, &event));
    TRY(mrg_ack_cm_event(h));
    TRY(mrg_event_type(h));
    TRY(mrg_event_status(h));
    TRY(mrg_event_id(h));
    TRY(mrg_event_listen_id(h));
    TRY(mrg_event_private_data(h, &length));
    TRY(mrg_event_conn_param(h, &conn));
    TRY(mrg_event_ud_param(h, &ud));
    TRY(mrg_destroy_id(h));
    TRY(mrg_destroy_ep(h));
    TRY(mrg_shutdown_ep(h, 0));
    TRY(mrg_bind_addr(h, &addr));
    TRY(mrg_resolve_addr(h, &addr, &addr, 1));
    TRY(mrg_resolve_route(h, 1));
    TRY(mrg_listen(h, 1));
    TRY(mrg_get_request(h, &id));
    TRY(mrg_connect(h, NULL));
    TRY(mrg_accept(h, NULL));
    TRY(mrg_reject(h, NULL, 0));
    TRY(mrg_reject_ece(h, NULL, 0));
    TRY(mrg_disconnect(h));
    TRY(mrg_establish(h));
    TRY(mrg_notify(h, IBV_EVENT_COMM_EST));
    TRY(mrg_set_option(h, 0, 0, &addr, 1));
    TRY(mrg_migrate_id(h, NULL));
    TRY(mrg_init_qp_attr(h, &qp_attr, &mask));
    TRY(mrg_set_local_ece(h, &ece));
    TRY(mrg_get_remote_ece(h, &ece));
    TRY(mrg_join_multicast(h, &addr, NULL));
    TRY(mrg_join_multicast_ex(h, &join, NULL));
    TRY(mrg_leave_multicast(h, &addr));
    TRY(mrg_create_qp(h, NULL, &attr));
    TRY(mrg_create_qp_ex(h, &attr));
    TRY(mrg_destroy_qp(h));
    TRY(mrg_create_srq(h, NULL, &srq_attr));
    TRY(mrg_create_srq_ex(h, &srq_attr));
    TRY(mrg_destroy_srq(h));
    TRY(mrg_id_context(h));
    TRY(mrg_id_channel(h));
    TRY(mrg_id_verbs(h));
    TRY(mrg_id_qp(h));
    TRY(mrg_id_srq(h));
    TRY(mrg_id_send_cq(h));
    TRY(mrg_id_recv_cq(h));
    TRY(mrg_get_local_addr(h));
    TRY(mrg_get_peer_addr(h));
    TRY(mrg_get_src_port(h));
    TRY(mrg_get_dst_port(h));
    TRY(mrg_id_set_context(h, NULL));
    TRY(mrg_id_private_data(h, &length));
    TRY(mrg_id_pd(h));
    TRY(mrg_alloc_pd(h));
    TRY(mrg_dealloc_pd(h));
    TRY(mrg_pd_ref(h));
    TRY(mrg_reg_msgs(h, memory, 1));
    TRY(mrg_reg_read(h, memory, 1));
    TRY(mrg_reg_write(h, memory, 1));
    TRY(mrg_reg_send(h, memory, 1));
    TRY(mrg_reg_msgsv(h, &range, 1, &made));
    TRY(mrg_reg_readv(h, &range, 1, &made));
    TRY(mrg_reg_writev(h, &range, 1, &made));
    TRY(mrg_reg_mr(h, memory, 1, 0));
    TRY(mrg_reg_mr_owned(h, memory, 1, 0, give_back, NULL));
    TRY(mrg_reg_mr_iova(h, memory, 1, 4096, 0));
    TRY(mrg_reg_dmabuf_mr(h, 0, 1, 0, 0, 0));
    TRY(mrg_alloc_null_mr(h));
    TRY(mrg_rereg_mr(h, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0));
    TRY(mrg_advise_mr(h, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
    TRY(mrg_dereg_mr(h));
    TRY(mrg_mr_ref(h));
    TRY(mrg_mr_move(h, (mrg_pd *)h));
    TRY(mrg_borrow_begin(h, memory, 1, 0, &borrow));
    TRY(mrg_borrow_end(h));
    TRY(mrg_mr_addr(h));
    TRY(mrg_mr_iova(h));
    TRY(mrg_mr_length(h));
    TRY(mrg_mr_rkey(h));
    TRY(mrg_mr_access(h));
    TRY(mrg_mr_raw(h));
    TRY(mrg_create_comp_channel(h));
    TRY(mrg_destroy_comp_channel(h));
    TRY(mrg_comp_channel_fd(h));
    TRY(mrg_create_cq(h, 1, NULL, NULL, 0));
    TRY(mrg_create_cq_ex(h, &(mrg_cq_init_attr_ex){.cqe = 1}));
    TRY(mrg_destroy_cq(h));
    TRY(mrg_resize_cq(h, 1));
    TRY(mrg_cq_raw(h));
    TRY(mrg_req_notify_cq(h, 0));
    TRY(mrg_get_cq_event(h, &cq, &context));
    TRY(mrg_ack_cq_events(h, 1));
    TRY(mrg_poll_cq(h, 1, &wc));
    TRY(mrg_get_send_comp(h, &wc));
    TRY(mrg_get_recv_comp(h, &wc));
    TRY(mrg_post_recv(h, NULL, memory, 1, NULL));
    TRY(mrg_post_send(h, NULL, memory, 1, NULL, 0));
    TRY(mrg_post_read(h, NULL, memory, 1, NULL, 0, 0, 0));
    TRY(mrg_post_write(h, NULL, memory, 1, NULL, 0, 0, 0));
    TRY(mrg_post_recvv(h, NULL, NULL, 0));
    TRY(mrg_post_sendv(h, NULL, NULL, 0, 0));
    TRY(mrg_post_readv(h, NULL, NULL, 0, 0, 0, 0));
    TRY(mrg_post_writev(h, NULL, NULL, 0, 0, 0, 0));
    TRY(mrg_post_ud_send(h, NULL, memory, 1, NULL, 0, NULL, 1));
    TRY(mrg_post_read_from(h, NULL, memory, 1, NULL, 0, &remote, 0));
    TRY(mrg_post_write_to(h, NULL, memory, 1, NULL, 0, &remote, 0));
    TRY(mrg_mr_export(h, 0, 1, IBV_ACCESS_REMOTE_READ, &remote));
    TRY(mrg_close_device(h));
    TRY(mrg_query_device(h, &device));
    TRY(mrg_query_device_ex(h, NULL, &device_ex));
    TRY(mrg_query_port(h, 1, &port));
    TRY(mrg_query_gid(h, 1, 0, &gid));
    TRY(mrg_query_pkey(h, 1, 0, &pkey));
    TRY(mrg_get_async_event(h, &async));
    TRY(mrg_ack_async_event(h));
    TRY(mrg_context_async_fd(h));
    TRY(mrg_async_event_type(h));
    TRY(mrg_async_event_qp(h));
    TRY(mrg_async_event_cq(h));
    TRY(mrg_async_event_srq(h));
    TRY(mrg_async_event_port(h));
    TRY(mrg_alloc_td(h, &td_attr));
    TRY(mrg_dealloc_td(h));
    TRY(mrg_alloc_parent_domain(h, NULL));
    TRY(mrg_open_xrcd(h, &xrcd_attr));
    TRY(mrg_close_xrcd(h));
    TRY(mrg_ibv_create_srq(h, &srq_attr));
    TRY(mrg_ibv_create_srq_ex(h, &srq_attr));
    TRY(mrg_ibv_destroy_srq(h));
    TRY(mrg_modify_srq(h, &srq_attr.attr, IBV_SRQ_LIMIT));
    TRY(mrg_query_srq(h, &srq_attr.attr));
    TRY(mrg_get_srq_num(h, &number));
    TRY(mrg_ibv_create_qp(h, &attr));
    TRY(mrg_ibv_create_qp_ex(h, &attr));
    TRY(mrg_ibv_destroy_qp(h));
    TRY(mrg_modify_qp(h, &qp_attr, IBV_QP_STATE));
    TRY(mrg_query_qp(h, &qp_attr, 0, &attr));
    TRY(mrg_attach_mcast(h, &gid, 0));
    TRY(mrg_detach_mcast(h, &gid, 0));
    TRY(mrg_qp_num(h));
    TRY(mrg_qp_context(h));
    TRY(mrg_ibv_post_send(h, &send, &bad_send));
    TRY(mrg_ibv_post_recv(h, &recv, &bad_recv));
    TRY(mrg_post_srq_recv(h, &recv, &bad_recv));
    TRY(mrg_create_ah(h, &ah_attr));
    TRY(mrg_create_ah_from_wc(h, &wc, NULL, 1));
    TRY(mrg_init_ah_from_wc(h, 1, &wc, NULL, &ah_attr));
    TRY(mrg_destroy_ah(h));
    TRY(mrg_alloc_mw(h, IBV_MW_TYPE_1));
    TRY(mrg_dealloc_mw(h));
    TRY(mrg_mw_rkey(h));
    TRY(mrg_bind_mw(h, (mrg_mw *)h, &bind));
    TRY(mrg_context_raw(h));
    TRY(mrg_pd_raw(h));
    TRY(mrg_qp_raw(h));
    TRY(mrg_id_raw(h));
#undef TRY
    cr_expect_eq(n, 157);
}

Test(handles, no_call_takes_one_that_is_not_good)
{
    mrg_channel *stale = mrg_create_event_channel(); /* of a type that most calls do not take, and gone */
    cr_assert_eq(mrg_destroy_event_channel(stale), 0);
    try_all(NULL, EINVAL);
    try_all(stale, ESTALE);
    try_all((void *)((uintptr_t)stale ^ (uintptr_t)1 << 40), ESTALE);
    expect_nothing_left();
}

/* Raw objects and numbers have a rule of their own where they are released. */
Test(handles, unref_of_nothing_is_nothing)
{
    errno = 0;
    cr_expect_null(mrg_mr_unref(NULL));
    cr_expect_null(mrg_pd_unref(NULL));
    cr_expect_eq(errno, 0);
    expect_refused(mrg_pd_unref((mrg_pd *)memory), ESTALE, "stale-handle");
    expect_refused(mrg_mr_unref((mrg_mr *)memory), EINVAL, "foreign-mr");
    expect_refused(mrg_dereg_mr((mrg_mr *)memory), EINVAL, "foreign-mr");
    mrg_id *id;
    expect_refused(mrg_create_id((mrg_channel *)memory, &id, NULL, RDMA_PS_TCP), ESTALE, "stale-handle");
    expect_refused(mrg_free_devices(NULL), EINVAL, "bad-argument");
}

/* Handles in other places: of a live object of another type, gone, or no handle at all. */
struct wrong {
    void *handles[3];
};

static struct wrong wrong_ones(void *other)
{
    mrg_channel *gone = mrg_create_event_channel();
    cr_assert_eq(mrg_destroy_event_channel(gone), 0);
    return (struct wrong){{other, gone, memory}};
}

#define expect_each_refused(wrong, place, call)       \
    for (int i_ = 0; i_ < 3; i_++) {                  \
        (place) = (wrong).handles[i_];                \
        expect_refused(call, ESTALE, "stale-handle"); \
    }

Test(handles, in_what_a_qp_or_srq_is_made_of)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    struct wrong wrong = wrong_ones(rig.context);
    mrg_qp_init_attr attr = {.send_cq = rig.cq, .recv_cq = rig.cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    const mrg_qp_init_attr good = attr;
    expect_each_refused(wrong, attr.send_cq, mrg_ibv_create_qp(rig.pd, &attr));
    attr = good;
    expect_each_refused(wrong, attr.recv_cq, mrg_ibv_create_qp(rig.pd, &attr));
    attr = good;
    expect_each_refused(wrong, attr.srq, mrg_ibv_create_qp(rig.pd, &attr));
    attr = good;
    expect_each_refused(wrong, attr.xrcd, mrg_ibv_create_qp(rig.pd, &attr));
    attr = good;
    expect_each_refused(wrong, attr.pd, mrg_ibv_create_qp_ex(rig.context, &attr));
    mrg_srq_init_attr srq = {.attr = {1, 1, 0}};
    mrg_pd *pd;
    expect_each_refused(wrong, pd, mrg_ibv_create_srq(pd, &srq));
    expect_each_refused(wrong, srq.pd, mrg_ibv_create_srq_ex(rig.context, &srq));
    srq.pd = NULL;
    expect_each_refused(wrong, srq.cq, mrg_ibv_create_srq(rig.pd, &srq));
    srq.cq = NULL;
    expect_each_refused(wrong, srq.xrcd, mrg_ibv_create_srq(rig.pd, &srq));
    cr_expect_eq(stub.live_qps, 1);
    cr_expect_eq(stub.live_srqs, 0);
    end_rig(&rig);
    expect_nothing_left();
}

Test(handles, beside_the_first_argument)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    struct wrong wrong = wrong_ones(rig.cq);
    mrg_id *id = bound_id();
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    mrg_td *td;
    mrg_pd *pd;
    mrg_comp_channel *channel;
    mrg_channel *events;
    mrg_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}};
    mrg_srq_init_attr srq = {.attr = {1, 1, 0}};
    expect_each_refused(wrong, td, mrg_alloc_parent_domain(rig.pd, td));
    expect_each_refused(wrong, pd, mrg_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0));
    expect_each_refused(wrong, pd, mrg_mr_move(mr, pd));
    expect_each_refused(wrong, channel, mrg_create_cq(rig.context, 1, NULL, channel, 0));
    expect_each_refused(wrong, channel,
                        mrg_create_cq_ex(rig.context, &(mrg_cq_init_attr_ex){.cqe = 1, .channel = channel}));
    expect_each_refused(wrong, pd, mrg_create_qp(id, pd, &attr));
    expect_each_refused(wrong, pd, mrg_create_srq(id, pd, &srq));
    wrong.handles[0] = mr;
    expect_each_refused(wrong, events, mrg_migrate_id(id, events));
    mrg_sge sge = {memory, 1, mr};
    wrong.handles[0] = rig.pd;
    expect_each_refused(wrong, sge.mr, mrg_advise_mr(rig.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
    expect_refused(mrg_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0), EINVAL, "bad-argument");
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    end_rig(&rig);
    expect_nothing_left();
}

/* What a WR uses beside its pieces has a body of its own type, which another type's would be read as. */
Test(handles, in_a_send_and_its_window)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mw *two = mrg_alloc_mw(rig.pd, IBV_MW_TYPE_2), *one = mrg_alloc_mw(rig.pd, IBV_MW_TYPE_1);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, sizeof memory, IBV_ACCESS_MW_BIND);
    struct wrong wrong = wrong_ones(rig.cq);
    mrg_send_wr wr = {.opcode = IBV_WR_BIND_MW}, *bad;
    wr.bind_mw.mw = two;
    wr.bind_mw.rkey = mrg_inc_rkey(mrg_mw_rkey(two));
    wr.bind_mw.bind_info = (mrg_mw_bind_info){mr, (uintptr_t)memory, 1, 0};
    expect_each_refused(wrong, wr.bind_mw.bind_info.mr, mrg_ibv_post_send(rig.qp, &wr, &bad));
    wr.bind_mw.bind_info.mr = mr;
    wrong.handles[0] = mr;
    expect_each_refused(wrong, wr.bind_mw.mw, mrg_ibv_post_send(rig.qp, &wr, &bad));
    wr.opcode = IBV_WR_LOCAL_INV;
    expect_each_refused(wrong, wr.bind_mw.mw, mrg_ibv_post_send(rig.qp, &wr, &bad));
    wr.bind_mw.mw = NULL;
    expect_refused(mrg_ibv_post_send(rig.qp, &wr, &bad), EINVAL, "bad-argument");
    mrg_mw_bind bind = {.bind_info = {mr, (uintptr_t)memory, 1, 0}};
    wrong.handles[0] = rig.cq;
    expect_each_refused(wrong, bind.bind_info.mr, mrg_bind_mw(rig.qp, one, &bind));
    mrg_mw *mw;
    expect_each_refused(wrong, mw, mrg_bind_mw(rig.qp, mw, &bind));
    expect_refused(mrg_bind_mw(rig.qp, NULL, &bind), EINVAL, "bad-argument");
    cr_expect_eq(mrg_dealloc_mw(one), 0);
    cr_expect_eq(mrg_dealloc_mw(two), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_rig(&rig);
    expect_nothing_left();
}

Test(handles, in_a_datagram_and_in_pieces)
{
    struct rig rig = new_rig(IBV_QPT_UD);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_ah_attr attr = {.port_num = 1};
    mrg_ah *ah = mrg_create_ah(rig.pd, &attr);
    mrg_sge sge = {memory, 1, mr};
    mrg_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1}, *bad;
    mrg_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
    struct wrong wrong = wrong_ones(rig.cq);
    expect_each_refused(wrong, wr.wr.ud.ah, mrg_ibv_post_send(rig.qp, &wr, &bad));
    wrong.handles[0] = mr;
    expect_each_refused(wrong, wr.wr.ud.ah, mrg_ibv_post_send(rig.qp, &wr, &bad));
    wr.wr.ud.ah = ah;
    wrong.handles[0] = ah;
    expect_each_refused(wrong, sge.mr, mrg_ibv_post_send(rig.qp, &wr, &bad));
    expect_each_refused(wrong, sge.mr, mrg_ibv_post_recv(rig.qp, &recv, &bad_recv));
    cr_expect_eq(mrg_destroy_ah(ah), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_rig(&rig);
    expect_nothing_left();
}
