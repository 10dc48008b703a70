/* Composite calls whose parts fail: each call below us once, and then nothing is left and the same call works. */
#include "fixture.h"

#include <arpa/inet.h>

#include "id.h"

TestSuite(fail, .init = setup_stub);

static char memory[256];

/* Tries a call twice: once it may meet the failure. Whether it failed the first time counts in *failed. */
#define TWICE(call, failed)                                             \
    do {                                                                \
        if (call) {                                                     \
            (failed)++;                                                 \
            cr_expect_eq(call, 0, "%s again: %s", #call, inject_hit()); \
        }                                                               \
    } while (0)
#define MADE(var, call, failed)                                             \
    do {                                                                    \
        if (!((var) = (call))) {                                            \
            (failed)++;                                                     \
            cr_expect_eq(errno, EPROTO, "%s: %s", #call, strerror(errno));  \
            cr_assert((var) = (call), "%s again: %s", #call, inject_hit()); \
        }                                                                   \
    } while (0)

static int post_bind(mrg_qp *qp, mrg_mw *mw, mrg_mr *mr, enum ibv_wr_opcode opcode)
{
    mrg_send_wr wr = {.wr_id = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = mrg_inc_rkey(mrg_mw_rkey(mw));
    wr.bind_mw.bind_info = (mrg_mw_bind_info){mr, (uintptr_t)memory, 8, 0};
    return mrg_ibv_post_send(qp, &wr, &bad);
}

/* Everything of libibverbs' level, made and unmade. How many calls failed. */
static int life_of_verbs(void)
{
    static struct ibv_device device;
    int failed = 0;
    struct ibv_td_init_attr td_attr = {0};
    struct ibv_xrcd_init_attr xrcd_attr = {0};
    struct ibv_ah_attr ah_attr = {0};
    mrg_context *context;
    mrg_td *td;
    mrg_pd *pd, *domain;
    mrg_xrcd *xrcd;
    mrg_cq *cq;
    mrg_srq *srq;
    mrg_qp *qp;
    mrg_ah *ah;
    mrg_mw *one, *two;
    mrg_mr *mr, *at_iova;
    MADE(context, mrg_open_device(&device), failed);
    MADE(td, mrg_alloc_td(context, &td_attr), failed);
    MADE(pd, mrg_alloc_pd(context), failed);
    MADE(domain, mrg_alloc_parent_domain(pd, td), failed);
    MADE(xrcd, mrg_open_xrcd(context, &xrcd_attr), failed);
    MADE(cq, mrg_create_cq(context, 16, NULL, NULL, 0), failed);
    mrg_srq_init_attr srq_attr = {.attr = {4, 1, 0}};
    MADE(srq, mrg_ibv_create_srq(domain, &srq_attr), failed);
    mrg_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .srq = srq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    MADE(qp, mrg_ibv_create_qp(domain, &attr), failed);
    MADE(ah, mrg_create_ah(pd, &ah_attr), failed);
    MADE(one, mrg_alloc_mw(pd, IBV_MW_TYPE_1), failed);
    MADE(two, mrg_alloc_mw(domain, IBV_MW_TYPE_2), failed);
    MADE(mr, mrg_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND), failed);
    MADE(at_iova, mrg_reg_mr_iova(domain, memory, sizeof memory, 4096, IBV_ACCESS_LOCAL_WRITE), failed);
    mrg_sge sge = {memory, 8, mr};
    mrg_recv_wr recv = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;
    TWICE(mrg_post_srq_recv(srq, &recv, &bad), failed);
    mrg_mw_bind bind = {.wr_id = 1, .bind_info = {mr, (uintptr_t)memory, 8, 0}};
    TWICE(mrg_bind_mw(qp, one, &bind), failed);
    TWICE(post_bind(qp, two, mr, IBV_WR_BIND_MW), failed);
    TWICE(mrg_rereg_mr(at_iova, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS, pd, NULL, 0, 0), failed);
    TWICE(post_bind(qp, two, mr, IBV_WR_LOCAL_INV), failed);
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    TWICE(mrg_modify_qp(qp, &reset, IBV_QP_STATE), failed);
    TWICE(mrg_dealloc_mw(one), failed);
    TWICE(mrg_ibv_destroy_qp(qp), failed);
    TWICE(mrg_ibv_destroy_srq(srq), failed);
    TWICE(mrg_dealloc_mw(two), failed);
    TWICE(mrg_dereg_mr(mr), failed);
    TWICE(mrg_dereg_mr(at_iova), failed);
    TWICE(mrg_destroy_ah(ah), failed);
    TWICE(mrg_destroy_cq(cq), failed);
    TWICE(mrg_close_xrcd(xrcd), failed);
    TWICE(mrg_dealloc_pd(domain), failed);
    TWICE(mrg_dealloc_td(td), failed);
    TWICE(mrg_dealloc_pd(pd), failed);
    TWICE(mrg_close_device(context), failed);
    return failed;
}

/* An id with all that it may have. */
static int life_of_an_id(void)
{
    int failed = 0;
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef000001)};
    mrg_channel *channel;
    mrg_id *id = NULL;
    mrg_mr *mr;
    mrg_srq_init_attr srq_attr = {.attr = {4, 1, 0}};
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    MADE(channel, mrg_create_event_channel(), failed);
    TWICE(mrg_create_id(channel, &id, NULL, RDMA_PS_UDP), failed);
    TWICE(mrg_bind_addr(id, (struct sockaddr *)&addr), failed);
    TWICE(mrg_create_srq(id, NULL, &srq_attr), failed);
    TWICE(mrg_create_qp_ex(id, &attr), failed);
    MADE(mr, mrg_reg_msgs(id, memory, sizeof memory), failed);
    TWICE(mrg_post_recv(id, NULL, memory, 8, mr), failed);
    TWICE(mrg_join_multicast(id, (struct sockaddr *)&addr, NULL), failed);
    TWICE(mrg_leave_multicast(id, (struct sockaddr *)&addr), failed);
    TWICE(mrg_destroy_qp(id), failed);
    TWICE(mrg_destroy_srq(id), failed);
    TWICE(mrg_dereg_mr(mr), failed);
    TWICE(mrg_destroy_ep(id), failed);
    TWICE(mrg_destroy_event_channel(channel), failed);
    return failed;
}

/* Handles for raw objects, on both devices. */
static int life_of_adoption(void)
{
    int failed = 0;
    struct ibv_pd raw_pd = {.context = &stub_devices[0]};
    struct rdma_cm_id raw = {.verbs = &stub_devices[0], .pd = &raw_pd};
    mrg_context **list, *context;
    mrg_pd *pd;
    mrg_id *id;
    mrg_mr *mr;
    MADE(list, mrg_get_devices(NULL), failed);
    MADE(context, mrg_adopt_context(&stub_devices[1]), failed);
    MADE(pd, mrg_adopt_pd(&raw_pd), failed);
    MADE(id, mrg_adopt_id(&raw), failed);
    MADE(mr, mrg_reg_msgs(id, memory, sizeof memory), failed);
    TWICE(mrg_dereg_mr(mr), failed);
    TWICE(mrg_destroy_id(id), failed);
    TWICE(mrg_dealloc_pd(pd), failed);
    TWICE(mrg_close_device(context), failed);
    TWICE(mrg_free_devices(list), failed);
    return failed;
}

/* The whole-tree close goes on where the provider refused. */
static int life_until_shutdown(void)
{
    int failed = 0;
    mrg_id *id;
    mrg_mr *mr, *other;
    struct sockaddr addr = {0};
    mrg_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}};
    TWICE(mrg_create_id(NULL, &id, NULL, RDMA_PS_TCP), failed);
    TWICE(mrg_bind_addr(id, &addr), failed);
    TWICE(mrg_create_qp(id, NULL, &attr), failed);
    MADE(mr, mrg_reg_msgs(id, memory, sizeof memory), failed);
    MADE(other, mrg_reg_read(id, memory, sizeof memory), failed);
    TWICE(mrg_post_recv(id, NULL, memory, 1, mr), failed);
    TWICE(mrg_shutdown_ep(id, 0), failed);
    return failed;
}

/* spared: calls whose failure a call of ours gets over. */
static void fail_each(int (*life)(void), int least, const char *spared)
{
    inject_install();
    inject_arm(0, 0);
    cr_assert_eq(life(), 0);
    expect_nothing_left();
    int calls = inject_calls();
    cr_assert_geq(calls, least, "%d", calls);
    for (int n = 1; n <= calls; n++) {
        inject_arm(n, EPROTO);
        int failed = life();
        bool nobodys = inject_hit() && !strcmp(inject_hit(), "dealloc_pd") && !failed; /* a PD of a device */
        cr_expect(failed == 1 || nobodys || strstr(spared, inject_hit()), "call %d (%s): %d failed", n, inject_hit(),
                  failed);
        inject_arm(0, 0);
        if (nobodys) /* a finding says so, and the device's next user takes it along */
            cr_expect_eq(life(), 0);
        expect_nothing_left();
    }
}

Test(fail, each_call_of_verbs_level_objects)
{
    fail_each(life_of_verbs, 32, "query_device");
}

Test(fail, each_call_of_an_id_with_all_that_it_may_have)
{
    fail_each(life_of_an_id, 20, "query_device");
}

Test(fail, each_call_of_a_shutdown)
{
    fail_each(life_until_shutdown, 15, "query_device poll_cq modify_qp");
}

Test(fail, each_call_of_adoption)
{
    fail_each(life_of_adoption, 4, "query_device");
}
