/* Two WRs in flight on the same bytes, one of which writes: the debug build says so, the others say nothing. */
#include "fixture.h"

static char memory[8192];
static int told;
static char words[512], site[64];

/* The build under test. */
#ifdef MRG_DEBUG
static const int debug_build = 1;
#else
static const int debug_build = 0;
#endif

static void keep(const struct mrg_finding *finding, void *arg)
{
    (void)arg;
    cr_expect_str_eq(finding->rule, "aliased-borrow");
    cr_expect_eq(finding->error, 0, "nothing is refused");
    told++;
    snprintf(words, sizeof words, "%s", finding->message);
    snprintf(site, sizeof site, "%s", finding->misused);
}

static void setup(void)
{
    stub_install();
    mrg_set_finding_handler(keep, NULL);
}

TestSuite(alias, .init = setup);

/* So many aliased borrows were reported since the last look, if this is the debug build. */
static void expect_told(int count)
{
    cr_expect_eq(told, debug_build * count, "%d were reported, not %d", told, debug_build * count);
    told = 0;
}

static void end(mrg_id *id, mrg_mr *mr)
{
    mrg_destroy_qp(id);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_told(0);
    expect_nothing_left();
}

/* An id whose QP completes to CQs of its own. */
static mrg_id *begin(mrg_mr **mr)
{
    mrg_id *id = connected_id(NULL);
    *mr = mrg_reg_msgs(id, memory, sizeof memory);
    cr_assert(*mr);
    return id;
}

Test(alias, disjoint_parts_of_one_mr_are_free)
{
    mrg_mr *mr;
    mrg_id *id = begin(&mr);
    cr_assert_eq(mrg_post_recv(id, NULL, memory, 100, mr), 0);
    cr_assert_eq(mrg_post_recv(id, NULL, memory + 100, 100, mr), 0);
    cr_assert_eq(mrg_post_send(id, NULL, memory + 200, 100, mr, 0), 0);
    cr_assert_eq(mrg_post_send(id, NULL, memory + 250, 100, mr, 0), 0); /* both only read */
    cr_assert_eq(mrg_post_recv(id, NULL, memory + 100, 0, mr), 0);      /* no bytes */
    end(id, mr);
}

Test(alias, overlap_of_which_one_writes_is_told_with_both_sites)
{
    mrg_mr *mr;
    mrg_id *id = begin(&mr);
    cr_assert_eq(mrg_post_recv(id, NULL, memory, 100, mr), 0);
    int first = __LINE__ - 1;
    cr_assert_eq(mrg_post_send(id, NULL, memory + 99, 100, mr, 0), 0);
    int second = __LINE__ - 1;
    expect_told(1);
    if (debug_build) {
        char tail[64];
        snprintf(tail, sizeof tail, "test_alias.c:%d", first);
        cr_expect(strstr(words, tail), "%s", words);
        cr_expect(strstr(words, "mrg_post_recv"), "%s", words);
        snprintf(tail, sizeof tail, "test_alias.c:%d", second);
        cr_expect(strstr(site, tail), "%s", site);
    }
    end(id, mr);
}

Test(alias, over_two_mrs_of_the_same_memory)
{
    mrg_mr *mr;
    mrg_id *id = begin(&mr);
    mrg_mr *other = mrg_reg_msgs(id, memory + 50, 100);
    mrg_mr *elsewhere = mrg_reg_mr_iova(mrg_id_pd(id), memory + 4096, 100, 0, IBV_ACCESS_LOCAL_WRITE);
    cr_assert(other && elsewhere);
    cr_assert_eq(mrg_post_recv(id, NULL, memory, 100, mr), 0);
    cr_assert_eq(mrg_post_recv(id, NULL, memory + 60, 10, other), 0);
    expect_told(1);
    cr_assert_eq(mrg_post_recv(id, NULL, NULL, 50, elsewhere), 0); /* iova 0 is memory + 4096 */
    expect_told(0);
    cr_assert_eq(mrg_post_send(id, NULL, memory + 4100, 1, mr, 0), 0);
    expect_told(1);
    mrg_destroy_qp(id);
    cr_expect_eq(mrg_dereg_mr(other), 0);
    cr_expect_eq(mrg_dereg_mr(elsewhere), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
}

Test(alias, ends_with_the_completion_and_with_a_refusal)
{
    mrg_mr *mr;
    mrg_id *id = begin(&mr);
    struct ibv_wc wc;
    for (int round = 0; round < 20; round++) {
        cr_assert_eq(mrg_post_recv(id, NULL, memory, 100, mr), 0);
        stub_complete_recvs(raw_qp(id), 1, IBV_WC_SUCCESS);
        cr_assert_eq(mrg_get_recv_comp(id, &wc), 1);
    }
    inject_install();
    inject_arm(1, ENOMEM);
    cr_assert_eq(mrg_post_recv(id, NULL, memory, 100, mr), -1);
    cr_assert_eq(mrg_post_recv(id, NULL, memory, 100, mr), 0);
    expect_told(0);
    end(id, mr);
}

Test(alias, within_one_chain_and_one_wr)
{
    mrg_mr *mr;
    mrg_id *id = begin(&mr);
    mrg_sge sges[] = {{memory, 100, mr}, {memory + 100, 0, mr}, {memory + 100, 100, mr}, {memory + 150, 1, mr}};
    cr_assert_eq(mrg_post_recvv(id, NULL, sges, 3), 0);
    expect_told(0);
    cr_assert_eq(mrg_post_recvv(id, NULL, sges, 4), 0); /* over itself and the one before: told once */
    expect_told(1);
    end(id, mr);
}

Test(alias, sends_inline_are_done_with_their_memory)
{
    mrg_mr *mr;
    mrg_id *id = bound_id();
    mrg_qp_init_attr attr = {.cap = {8, 8, 1, 1, 64}};
    cr_assert_eq(mrg_create_qp(id, NULL, &attr), 0);
    mr = mrg_reg_msgs(id, memory, sizeof memory);
    cr_assert_eq(mrg_post_send(id, NULL, memory, 8, mr, IBV_SEND_INLINE), 0);
    cr_assert_eq(mrg_post_recv(id, NULL, memory, 8, mr), 0);
    end(id, mr);
}

Test(alias, reset_forgets_what_was_in_flight)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    mrg_sge sge = {memory, 10, mr};
    mrg_recv_wr wr = {1, NULL, &sge, 1}, *bad;
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    cr_assert_eq(mrg_ibv_post_recv(rig.qp, &wr, &bad), 0);
    cr_assert_eq(mrg_modify_qp(rig.qp, &reset, IBV_QP_STATE), 0);
    reset.qp_state = IBV_QPS_INIT;
    cr_assert_eq(mrg_modify_qp(rig.qp, &reset, IBV_QP_STATE), 0);
    cr_assert_eq(mrg_ibv_post_recv(rig.qp, &wr, &bad), 0);
    expect_told(0);
    cr_expect_eq(mrg_ibv_destroy_qp(rig.qp), 0);
    rig.qp = rig_qp(&rig, IBV_QPT_RC, NULL);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_rig(&rig);
    expect_nothing_left();
}
