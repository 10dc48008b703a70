/* Every arrow of the ownership graph over rxe: the parent is refused, then goes when its child is gone. */
#include "held.h"
#include "pair.h"

#include <poll.h>
#include <stdlib.h>

static char memory[8192];

TestSuite(arrows, .init = be_quiet, .timeout = 60);

static mrg_context *open_rxe(void)
{
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);
    cr_assert(list && count > 0);
    mrg_context *context = mrg_open_device(list[0]);
    cr_assert(context, "%s", strerror(errno));
    ibv_free_device_list(list);
    return context;
}

Test(arrows, everything_below_a_context)
{
    mrg_context *context = open_rxe();
    mrg_pd *pd = mrg_alloc_pd(context);
    expect_refused(mrg_close_device(context), EBUSY, "destroy-order"); /* PD -> context */
    must(mrg_dealloc_pd(pd));
    mrg_comp_channel *channel = mrg_create_comp_channel(context);
    expect_refused(mrg_close_device(context), EBUSY, "destroy-order"); /* completion channel -> context */
    must(mrg_destroy_comp_channel(channel));
    mrg_cq *cq = mrg_create_cq(context, 4, NULL, NULL, 0);
    expect_refused(mrg_close_device(context), EBUSY, "destroy-order"); /* CQ -> context */
    must(mrg_destroy_cq(cq));
    must(mrg_close_device(context));
    expect_refused(mrg_close_device(context), ESTALE, "stale-handle");
    expect_nothing_left();
}

/* rxe has neither: what it refuses leaves nothing behind. The arrows: tests/unit/test_qp.c. */
Test(arrows, domains_that_the_device_does_not_have)
{
    mrg_context *context = open_rxe();
    struct ibv_td_init_attr td = {0};
    struct ibv_xrcd_init_attr xrcd = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
    mrg_pd *pd = mrg_alloc_pd(context);
    expect_fails(mrg_alloc_td(context, &td), EOPNOTSUPP);
    expect_fails(mrg_alloc_parent_domain(pd, NULL), EOPNOTSUPP);
    cr_expect_null(mrg_open_xrcd(context, &xrcd));
    must(mrg_dealloc_pd(pd));
    must(mrg_close_device(context));
    expect_nothing_left();
}

Test(arrows, everything_below_a_pd)
{
    mrg_context *context = open_rxe();
    mrg_pd *pd = mrg_alloc_pd(context);
    mrg_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
    mrg_srq *srq = mrg_ibv_create_srq(pd, &srq_attr);
    cr_assert(srq, "%s", strerror(errno));
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "destroy-order"); /* SRQ -> PD */
    must(mrg_ibv_destroy_srq(srq));
    mrg_mw *mw = mrg_alloc_mw(pd, IBV_MW_TYPE_2);
    cr_assert(mw, "%s", strerror(errno));
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "destroy-order"); /* MW -> PD */
    must(mrg_dealloc_mw(mw));
    mrg_mr *mr = mrg_reg_mr(pd, memory, sizeof memory, 0);
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "leaked-mr"); /* MR -> PD */
    must(mrg_dereg_mr(mr));
    union ibv_gid gid;
    must(mrg_query_gid(context, 1, 1, &gid));
    struct ibv_ah_attr ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = 1, .hop_limit = 1}};
    mrg_ah *ah = mrg_create_ah(pd, &ah_attr);
    cr_assert(ah, "%s", strerror(errno));
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "destroy-order"); /* AH -> PD */
    must(mrg_destroy_ah(ah));
    must(mrg_dealloc_pd(pd));
    must(mrg_close_device(context));
    expect_nothing_left();
}

Test(arrows, everything_below_a_qp_without_an_id)
{
    mrg_context *context = open_rxe();
    mrg_pd *pd = mrg_alloc_pd(context);
    mrg_comp_channel *channel = mrg_create_comp_channel(context);
    mrg_cq *send = mrg_create_cq(context, 4, NULL, channel, 0), *recv = mrg_create_cq(context, 4, NULL, NULL, 0);
    mrg_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
    mrg_srq *srq = mrg_ibv_create_srq(pd, &srq_attr);
    mrg_qp_init_attr attr = {.send_cq = send, .recv_cq = recv, .srq = srq, .cap = {4, 4, 1, 1, 0}};
    attr.qp_type = IBV_QPT_RC;
    attr.qp_context = &attr;
    mrg_qp *qp = mrg_ibv_create_qp(pd, &attr);
    cr_assert(qp, "%s", strerror(errno));
    cr_expect_eq(mrg_qp_context(qp), &attr);
    cr_expect_eq(mrg_qp_num(qp), mrg_qp_raw(qp)->qp_num);
    expect_refused(mrg_destroy_cq(send), EBUSY, "destroy-order");              /* QP -> send CQ */
    expect_refused(mrg_destroy_cq(recv), EBUSY, "destroy-order");              /* QP -> receive CQ */
    expect_refused(mrg_ibv_destroy_srq(srq), EBUSY, "destroy-order");          /* QP -> SRQ */
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "destroy-order");                /* QP -> PD */
    expect_refused(mrg_destroy_comp_channel(channel), EBUSY, "destroy-order"); /* CQ -> completion channel */
    expect_refused(mrg_destroy_qp(NULL), EINVAL, "bad-argument");
    must(mrg_ibv_destroy_qp(qp));
    must(mrg_ibv_destroy_srq(srq));
    must(mrg_destroy_cq(send));
    must(mrg_destroy_cq(recv));
    must(mrg_destroy_comp_channel(channel));
    must(mrg_dealloc_pd(pd));
    must(mrg_close_device(context));
    expect_nothing_left();
}

Test(arrows, srq_and_cqs_of_an_id)
{
    mrg_id *id = bound_to("RXE_ADDR");
    mrg_srq_init_attr srq = {.attr = {.max_wr = 8, .max_sge = 1}};
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    must(mrg_create_srq(id, NULL, &srq));
    expect_refused(mrg_destroy_id(id), EBUSY, "destroy-order"); /* SRQ -> id */
    must(mrg_create_qp(id, NULL, &attr));
    expect_refused(mrg_destroy_srq(id), EBUSY, "destroy-order"); /* QP -> SRQ */
    expect_refused(mrg_ibv_destroy_srq(mrg_id_srq(id)), EINVAL, "wrong-state");
    expect_refused(mrg_ibv_destroy_qp(mrg_id_qp(id)), EINVAL, "wrong-state");
    expect_refused(mrg_destroy_cq(mrg_id_send_cq(id)), EBUSY, "destroy-order"); /* QP -> the id's own CQ */
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    must(mrg_post_recv(id, NULL, memory, 64, mr));
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight"); /* borrow -> MR, held by the SRQ */
    must(mrg_destroy_qp(id));
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight"); /* the QP's end is not the SRQ's */
    must(mrg_destroy_srq(id));
    must(mrg_dereg_mr(mr));
    must(mrg_destroy_id(id));
    expect_nothing_left();
}

/* librdmacm's own rdma_destroy_ep: QP, SRQ and CQs go with the id in one call. */
Test(arrows, endpoint_with_an_srq_goes_as_a_whole)
{
    mrg_id *id = bound_to("RXE_ADDR");
    mrg_srq_init_attr srq = {.attr = {.max_wr = 8, .max_sge = 1}};
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    must(mrg_create_srq_ex(id, &srq));
    must(mrg_create_qp_ex(id, &attr));
    expect_refused(mrg_create_srq(id, NULL, &srq), EINVAL, "wrong-state");
    must(mrg_destroy_ep(id));
    expect_nothing_left();
}

/* Receives through an SRQ end one by one; the event of its limit holds it. */
Test(arrows, srq_limit_event_holds_the_srq)
{
    struct pair p;
    pair_up_with_srq(&p);
    mrg_context *context = mrg_id_verbs(p.server.id);
    mrg_srq *srq = mrg_id_srq(p.server.id);
    struct ibv_srq_attr limit = {.srq_limit = 3}, now;
    mrg_async_event *event;
    struct pollfd pfd = {mrg_context_async_fd(context), POLLIN, 0};
    for (uintptr_t i = 1; i <= 4; i++)
        must(mrg_post_recv(p.server.id, (void *)i, p.server.buffer + 64 * i, 64, p.server.mr));
    must(mrg_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
    must(mrg_query_srq(srq, &now));
    cr_expect_eq(now.srq_limit, 3);
    expect_refused(mrg_modify_srq(srq, &limit, IBV_SRQ_MAX_WR), EOPNOTSUPP, "bad-argument");
    cr_expect_eq(poll(&pfd, 1, 0), 0, "nothing has happened yet");
    for (uintptr_t i = 1; i <= 2; i++) {
        must(mrg_post_send(p.client.id, NULL, p.client.buffer, 64, p.client.mr, IBV_SEND_SIGNALED));
        await_send(p.client.id, NULL);
        await_recv(p.server.id, (void *)i);
    }
    cr_assert_eq(poll(&pfd, 1, 5000), 1);
    must(mrg_get_async_event(context, &event));
    cr_expect_eq(mrg_async_event_type(event), IBV_EVENT_SRQ_LIMIT_REACHED);
    cr_expect_eq(mrg_async_event_srq(event), srq);
    cr_expect_null(mrg_async_event_qp(event));
    must(mrg_destroy_qp(p.server.id));
    expect_refused(mrg_destroy_srq(p.server.id), EBUSY, "unacked-event");
    must(mrg_ack_async_event(event));
    take_down(&p);
}

/* An explicit borrow is a child of its MR; MR made through an id -> that id. */
Test(arrows, borrow_and_mr)
{
    mrg_id *id = bound_to("RXE_ADDR");
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    mrg_borrow *borrow;
    expect_refused(mrg_borrow_begin(mr, memory + 1, sizeof memory, 0, &borrow), ERANGE, "out-of-range");
    expect_refused(mrg_borrow_begin(mr, memory, 1, IBV_ACCESS_REMOTE_READ, &borrow), EACCES, "missing-access");
    must(mrg_borrow_begin(mr, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE, &borrow));
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    cr_expect(strstr(mrg_last_finding()->message, "test_objects.c:"), "%s", mrg_last_finding()->message);
    must(mrg_borrow_end(borrow));
    expect_refused(mrg_borrow_end(borrow), ESTALE, "stale-handle");
    expect_refused(mrg_destroy_id(id), EBUSY, "leaked-mr");
    must(mrg_dereg_mr(mr));
    must(mrg_destroy_id(id));
    expect_nothing_left();
}

/* Registration at an address of the caller's choice is checked there, and data goes where the memory is. */
Test(arrows, iova_is_where_work_is_checked)
{
    struct pair p;
    pair_up(&p);
    mrg_pd *pd = mrg_id_pd(p.client.id);
    static char buffer[8192] __attribute__((aligned(4096)));
    mrg_mr *mr = mrg_reg_mr_iova(pd, buffer, sizeof buffer, 0x10000, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    cr_assert(mr, "%s", strerror(errno));
    cr_expect_eq(mrg_mr_addr(mr), buffer);
    cr_expect_eq(mrg_mr_iova(mr), 0x10000);
    expect_refused(mrg_post_recv(p.client.id, NULL, buffer, 64, mr), ERANGE, "out-of-range");
    must(mrg_post_recv(p.client.id, NULL, (void *)0x10000, 64, mr));
    strcpy(p.server.buffer, "by iova");
    must(mrg_post_send(p.server.id, NULL, p.server.buffer, 64, p.server.mr, IBV_SEND_SIGNALED));
    await_send(p.server.id, NULL);
    await_recv(p.client.id, NULL);
    cr_expect_str_eq(buffer, "by iova");
    mrg_remote remote;
    must(mrg_mr_export(mr, 16, 64, IBV_ACCESS_REMOTE_READ, &remote));
    cr_expect_eq(remote.addr, 0x10010);
    must(mrg_dereg_mr(mr));
    mrg_pd_unref(pd);
    take_down(&p);
}

/* What rxe does not have is refused, explained, and leaves nothing. */
Test(arrows, forms_that_the_device_does_not_have)
{
    mrg_id *id = bound_to("RXE_ADDR");
    mrg_pd *pd = mrg_id_pd(id);
    mrg_mr *mr = mrg_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    cr_expect_null(mrg_alloc_null_mr(pd));
    cr_expect_str_eq(mrg_last_finding()->rule, "registration-refused");
    cr_expect_null(mrg_reg_dmabuf_mr(pd, 0, 4096, 0, 0, IBV_ACCESS_LOCAL_WRITE));
    cr_expect_str_eq(mrg_last_finding()->rule, "registration-refused");
    cr_expect(strstr(mrg_last_finding()->message, "no registration of this kind"), "%s", mrg_last_finding()->message);
    cr_expect_null(mrg_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_ON_DEMAND));
    cr_expect(strstr(mrg_last_finding()->message, "on demand"), "%s", mrg_last_finding()->message);
    cr_expect_null(mrg_reg_mr_iova(pd, memory, 64, ((uintptr_t)memory + 1) % 4096, 0));
    cr_expect(strstr(mrg_last_finding()->message, "iova must lie"), "%s", mrg_last_finding()->message);
    cr_expect_eq(mrg_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), -1);
    cr_expect_eq(mrg_mr_access(mr), IBV_ACCESS_LOCAL_WRITE, "as before");
    must(mrg_dereg_mr(mr));
    mrg_pd_unref(pd);
    must(mrg_destroy_id(id));
    expect_nothing_left();
}

/* A chain goes to the device as one; a fault in its last WR lets none go. */
Test(arrows, chains)
{
    struct pair p;
    pair_up(&p);
    mrg_sge sges[2] = {{p.client.buffer, 32, p.client.mr}, {p.client.buffer + 32, 32, p.client.mr}};
    mrg_send_wr wrs[2] = {{.wr_id = 1, .sg_list = &sges[0], .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM},
                          {.wr_id = 2, .sg_list = &sges[1], .num_sge = 1, .opcode = IBV_WR_SEND}};
    mrg_send_wr *bad = NULL;
    wrs[0].next = &wrs[1];
    wrs[0].imm_data = 0x01020304;
    wrs[0].send_flags = wrs[1].send_flags = IBV_SEND_SIGNALED;
    mrg_qp *qp = mrg_id_qp(p.client.id);
    for (int i = 0; i < 2; i++)
        must(mrg_post_recv(p.server.id, NULL, p.server.buffer, 64, p.server.mr));
    sges[1].length = BUFFER;
    expect_refused(mrg_ibv_post_send(qp, wrs, &bad), ERANGE, "out-of-range");
    cr_expect_eq(bad, &wrs[0], "none is posted");
    sges[1].length = 32;
    must(mrg_ibv_post_send(qp, wrs, &bad));
    struct ibv_wc wc;
    for (uint64_t i = 1; i <= 2; i++) {
        cr_assert_eq(mrg_get_send_comp(p.client.id, &wc), 1);
        cr_expect_eq(wc.wr_id, i);
    }
    cr_assert_eq(mrg_get_recv_comp(p.server.id, &wc), 1);
    cr_expect(wc.wc_flags & IBV_WC_WITH_IMM);
    cr_expect_eq(wc.imm_data, 0x01020304);
    await_recv(p.server.id, NULL);
    take_down(&p);
}

/* A reset drops what is in flight: its borrows end, its completions are not handed out, and the QP goes on. */
Test(arrows, reset_ends_the_borrows)
{
    mrg_context *context = open_rxe();
    mrg_pd *pd = mrg_alloc_pd(context);
    mrg_cq *cq = mrg_create_cq(context, 16, NULL, NULL, 0);
    mrg_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    mrg_qp *qp = mrg_ibv_create_qp(pd, &attr);
    mrg_mr *mr = mrg_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    mrg_sge sge = {memory, 64, mr};
    mrg_recv_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1}, *bad;
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1}, reset = {.qp_state = IBV_QPS_RESET};
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR}, now;
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    must(mrg_modify_qp(qp, &init, mask));
    must(mrg_ibv_post_recv(qp, &wr, &bad));
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    must(mrg_modify_qp(qp, &error, IBV_QP_STATE));
    must(mrg_modify_qp(qp, &reset, IBV_QP_STATE));
    must(mrg_query_qp(qp, &now, IBV_QP_STATE, &attr));
    cr_expect_eq(now.qp_state, IBV_QPS_RESET);
    cr_expect_eq(attr.send_cq, cq);
    cr_expect_eq(attr.pd, pd);
    must(mrg_dereg_mr(mr));
    struct ibv_wc wc;
    cr_expect_eq(mrg_poll_cq(cq, 1, &wc), 0, "a completion of before the reset came out");
    mr = mrg_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    sge.mr = mr;
    must(mrg_modify_qp(qp, &init, mask));
    must(mrg_ibv_post_recv(qp, &wr, &bad));
    must(mrg_modify_qp(qp, &error, IBV_QP_STATE));
    int got = 0;
    for (int i = 0; i < 100 && !got; i++, poll(NULL, 0, 10))
        got = mrg_poll_cq(cq, 1, &wc);
    cr_expect(!got || wc.wr_id == 7, "it is the caller's own again");
    must(mrg_ibv_destroy_qp(qp));
    must(mrg_dereg_mr(mr));
    must(mrg_destroy_cq(cq));
    must(mrg_dealloc_pd(pd));
    must(mrg_close_device(context));
    expect_nothing_left();
}

/* What expect_nothing_left relies on: the kernel does tell what is held. */
Test(arrows, the_kernel_tells_what_is_held)
{
    char held[200];
    mrg_id *id = bound_to("RXE_ADDR");
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    must(mrg_create_qp(id, NULL, &attr));
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    held_by_me(held, sizeof held);
    cr_expect(strstr(held, "1 MR") && strstr(held, "1 QP") && strstr(held, "2 CQs") && strstr(held, "1 cm id"), "%s",
              held);
    must(mrg_destroy_qp(id));
    must(mrg_dereg_mr(mr));
    must(mrg_destroy_id(id));
    expect_nothing_left();
}
