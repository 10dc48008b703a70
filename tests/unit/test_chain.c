/* Chains of WRs: judged whole before the first is posted, handed over in groups, withdrawn where the device stops. */
#include "fixture.h"

#include <limits.h>

TestSuite(chain, .init = setup_stub);

enum { LONG = 40 }; /* more than two groups of 16 */

static char memory[8192];

struct chain {
    mrg_sge sges[LONG];
    mrg_send_wr sends[LONG];
    mrg_recv_wr recvs[LONG];
};

/* count signaled sends and as many receives, each of 16 bytes of mr. */
static void make_chain(struct chain *c, int count, mrg_mr *mr)
{
    *c = (struct chain){0};
    for (int i = 0; i < count; i++) {
        bool last = i == count - 1;
        c->sges[i] = (mrg_sge){memory + 16 * i, 16, mr};
        c->sends[i] = (mrg_send_wr){.wr_id = (uint64_t)i,
                                    .next = last ? NULL : &c->sends[i + 1],
                                    .sg_list = &c->sges[i],
                                    .num_sge = 1,
                                    .opcode = IBV_WR_SEND,
                                    .send_flags = IBV_SEND_SIGNALED};
        c->recvs[i] = (mrg_recv_wr){(uint64_t)i, last ? NULL : &c->recvs[i + 1], &c->sges[i], 1};
    }
}

/* A rig with a QP of LONG WRs. */
static struct rig long_rig(mrg_mr **mr)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    cr_assert_eq(mrg_ibv_destroy_qp(rig.qp), 0);
    mrg_qp_init_attr attr = {.send_cq = rig.cq, .recv_cq = rig.cq, .cap = {LONG, LONG, 2, 2, 0}, .qp_type = IBV_QPT_RC};
    rig.qp = mrg_ibv_create_qp(rig.pd, &attr);
    rig.raw = mrg_qp_raw(rig.qp);
    *mr = mrg_reg_mr(rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    cr_assert(rig.qp && *mr);
    return rig;
}

static void end_long_rig(struct rig *rig, mrg_mr *mr)
{
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_rig(rig);
    expect_nothing_left();
}

static void expect_completions(mrg_cq *cq, int count)
{
    struct ibv_wc wc[LONG + 1];
    cr_assert_eq(mrg_poll_cq(cq, LONG + 1, wc), count);
    for (int i = 0; i < count; i++)
        cr_expect_eq(wc[i].wr_id, (uint64_t)i);
}

Test(chain, longer_than_two_groups_goes_whole_and_in_order)
{
    mrg_mr *mr;
    struct rig rig = long_rig(&mr);
    struct chain c;
    mrg_send_wr *bad = c.sends;
    mrg_recv_wr *bad_recv = c.recvs;
    for (int round = 0; round < 5; round++) { /* around the ring of 64 */
        make_chain(&c, LONG, mr);
        stub.hold_sends = true;
        cr_assert_eq(mrg_ibv_post_send(rig.qp, c.sends, &bad), 0);
        expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
        cr_expect(strstr(mrg_last_finding()->message, "40 pieces"), "%s", mrg_last_finding()->message);
        stub_complete_sends(rig.raw, LONG, IBV_WC_SUCCESS);
        expect_completions(rig.cq, LONG);
        cr_assert_eq(mrg_ibv_post_recv(rig.qp, c.recvs, &bad_recv), 0);
        stub_complete_recvs(rig.raw, LONG, IBV_WC_SUCCESS);
        expect_completions(rig.cq, LONG);
    }
    cr_expect_eq(bad, c.sends, "written on failure only");
    end_long_rig(&rig, mr);
}

/* Wherever the fault is, nothing is posted, nothing is borrowed, and the first WR is the first not posted. */
Test(chain, with_a_fault_anywhere_is_not_posted_at_all)
{
    mrg_mr *mr;
    struct rig rig = long_rig(&mr);
    struct chain c;
    mrg_send_wr *bad;
    mrg_recv_wr *bad_recv;
    for (int i = 0; i < LONG; i += 13) {
        make_chain(&c, LONG, mr);
        c.sges[i].length = sizeof memory;
        c.sges[i].addr = memory + 1;
        bad = NULL, bad_recv = NULL;
        expect_refused(mrg_ibv_post_send(rig.qp, c.sends, &bad), ERANGE, "out-of-range");
        cr_expect_eq(bad, c.sends);
        expect_refused(mrg_ibv_post_recv(rig.qp, c.recvs, &bad_recv), ERANGE, "out-of-range");
        cr_expect_eq(bad_recv, c.recvs);
    }
    cr_expect_eq(stub.last_wr_id, 0, "the device saw nothing");
    struct ibv_wc wc;
    cr_expect_eq(mrg_poll_cq(rig.cq, 1, &wc), 0);
    end_long_rig(&rig, mr);
}

/* The device takes some of a group: these are in flight, and the others' MRs are free again. */
Test(chain, that_the_device_takes_in_part_is_withdrawn_in_part)
{
    mrg_mr *mr;
    struct rig rig = long_rig(&mr);
    mrg_mr *tail = mrg_reg_mr(rig.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    struct chain c;
    mrg_send_wr *bad;
    mrg_recv_wr *bad_recv;
    make_chain(&c, LONG, mr);
    for (int i = 3; i < LONG; i++)
        c.sges[i].mr = tail;
    stub.take = 3;
    expect_fails(mrg_ibv_post_send(rig.qp, c.sends, &bad), ENOMEM);
    cr_expect_eq(bad, &c.sends[3]);
    expect_fails(mrg_ibv_post_recv(rig.qp, c.recvs, &bad_recv), ENOMEM);
    cr_expect_eq(bad_recv, &c.recvs[3]);
    cr_expect_eq(mrg_dereg_mr(tail), 0);
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    expect_completions(rig.cq, 3);
    stub_complete_recvs(rig.raw, LONG, IBV_WC_SUCCESS);
    expect_completions(rig.cq, 3);
    end_long_rig(&rig, mr);
}

static int refuse_after;

static int post_some_groups(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    static int (*below)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
    if (qp)
        return refuse_after-- > 0 ? below(qp, wr, bad) : (*bad = wr, EIO);
    below = verbs.post_send;
    verbs.post_send = post_some_groups;
    return 0;
}

Test(chain, that_the_device_stops_at_a_group_counts_the_groups_before)
{
    mrg_mr *mr;
    struct rig rig = long_rig(&mr);
    post_some_groups(NULL, NULL, NULL);
    refuse_after = 2;
    struct chain c;
    mrg_send_wr *bad;
    make_chain(&c, LONG, mr);
    expect_fails(mrg_ibv_post_send(rig.qp, c.sends, &bad), EIO);
    cr_expect_eq(bad, &c.sends[32]);
    expect_completions(rig.cq, 32);
    refuse_after = 100;
    make_chain(&c, 2, mr);
    cr_expect_eq(mrg_ibv_post_send(rig.qp, c.sends, &bad), 0, "the ring goes on");
    expect_completions(rig.cq, 2);
    end_long_rig(&rig, mr);
}

Test(chain, that_has_no_end_or_no_room_is_refused)
{
    mrg_mr *mr;
    struct rig rig = long_rig(&mr);
    struct chain c;
    mrg_send_wr *bad;
    mrg_recv_wr *bad_recv;
    make_chain(&c, LONG, mr);
    c.sends[LONG - 1].next = c.sends;
    c.recvs[LONG - 1].next = c.recvs;
    expect_fails(mrg_ibv_post_send(rig.qp, c.sends, &bad), ENOMEM);
    expect_fails(mrg_ibv_post_recv(rig.qp, c.recvs, &bad_recv), ENOMEM);
    cr_expect(bad == c.sends && bad_recv == c.recvs);
    c.sends[0].next = c.sends;
    expect_fails(mrg_ibv_post_send(rig.qp, c.sends, &bad), ENOMEM);
    end_long_rig(&rig, mr);
}

/* What each opcode brings to the device, and whether the device writes the memory of its pieces. */
Test(chain, every_opcode_arrives_with_its_fields)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, 64, IBV_ACCESS_LOCAL_WRITE);
    mrg_mr *readonly = mrg_reg_mr(rig.pd, memory, 64, 0);
    static const struct {
        enum ibv_wr_opcode opcode;
        bool writes;
    } table[] = {
        {IBV_WR_RDMA_WRITE, false},
        {IBV_WR_RDMA_WRITE_WITH_IMM, false},
        {IBV_WR_SEND, false},
        {IBV_WR_SEND_WITH_IMM, false},
        {IBV_WR_RDMA_READ, true},
        {IBV_WR_ATOMIC_CMP_AND_SWP, true},
        {IBV_WR_ATOMIC_FETCH_AND_ADD, true},
        {IBV_WR_SEND_WITH_INV, false},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        mrg_sge sge = {memory, 8, readonly};
        mrg_send_wr wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;
        bool atomic = table[i].opcode == IBV_WR_ATOMIC_CMP_AND_SWP || table[i].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
        wr.opcode = table[i].opcode;
        wr.imm_data = 0x12345678;
        if (atomic)
            wr.wr.atomic.remote_addr = 0x1000, wr.wr.atomic.compare_add = 2, wr.wr.atomic.swap = 3,
            wr.wr.atomic.rkey = 4;
        else
            wr.wr.rdma.remote_addr = 0x1000, wr.wr.rdma.rkey = 4;
        if (table[i].writes)
            expect_refused(mrg_ibv_post_send(rig.qp, &wr, &bad), EACCES, "missing-access");
        sge.mr = table[i].writes ? mr : readonly;
        cr_assert_eq(mrg_ibv_post_send(rig.qp, &wr, &bad), 0, "%d", table[i].opcode);
        const struct ibv_send_wr *raw = &stub.last_send;
        cr_expect_eq(raw->opcode, table[i].opcode);
        cr_expect_eq(raw->imm_data, 0x12345678);
        bool one_sided =
            wr.opcode == IBV_WR_RDMA_READ || wr.opcode == IBV_WR_RDMA_WRITE || wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
        if (atomic)
            cr_expect(raw->wr.atomic.remote_addr == 0x1000 && raw->wr.atomic.rkey == 4);
        if (one_sided)
            cr_expect(raw->wr.rdma.remote_addr == 0x1000 && raw->wr.rdma.rkey == 4);
        if (atomic)
            cr_expect(raw->wr.atomic.compare_add == 2 && raw->wr.atomic.swap == 3);
        cr_expect_eq(stub.last_num_sge, 1);
        expect_completion(rig.cq, 7);
    }
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_dereg_mr(readonly), 0);
    end_rig(&rig);
    expect_nothing_left();
}

Test(chain, malformed_wrs)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, 64, IBV_ACCESS_LOCAL_WRITE);
    mrg_sge sge = {memory, 8, mr}, many[5] = {{memory, 8, mr}};
    mrg_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    mrg_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
    const mrg_send_wr good = wr;
    const int opcodes[] = {IBV_WR_TSO, IBV_WR_DRIVER1, 12, 31, 32, 64, 255, -1, INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof opcodes / sizeof *opcodes; i++) {
        wr.opcode = (enum ibv_wr_opcode)opcodes[i];
        expect_refused(mrg_ibv_post_send(rig.qp, &wr, &bad), EINVAL, "bad-argument");
    }
    wr = good;
    for (unsigned int flag = IBV_SEND_IP_CSUM; flag; flag <<= 1) {
        wr.send_flags = flag;
        expect_refused(mrg_ibv_post_send(rig.qp, &wr, &bad), EINVAL, "bad-argument");
    }
    wr = good;
    wr.num_sge = recv.num_sge = -1;
    expect_refused(mrg_ibv_post_send(rig.qp, &wr, &bad), EINVAL, "bad-argument");
    expect_refused(mrg_ibv_post_recv(rig.qp, &recv, &bad_recv), EINVAL, "bad-argument");
    wr.num_sge = recv.num_sge = 1;
    wr.sg_list = recv.sg_list = NULL;
    expect_refused(mrg_ibv_post_send(rig.qp, &wr, &bad), EINVAL, "bad-argument");
    expect_refused(mrg_ibv_post_recv(rig.qp, &recv, &bad_recv), EINVAL, "bad-argument");
    wr.num_sge = recv.num_sge = INT_MAX;
    wr.sg_list = recv.sg_list = many;
    expect_refused(mrg_ibv_post_send(rig.qp, &wr, &bad), EINVAL, "bad-argument");
    expect_refused(mrg_ibv_post_recv(rig.qp, &recv, &bad_recv), EINVAL, "bad-argument");
    expect_refused(mrg_ibv_post_send(rig.qp, NULL, &bad), EINVAL, "bad-argument");
    expect_refused(mrg_ibv_post_send(rig.qp, &wr, NULL), EINVAL, "bad-argument");
    expect_refused(mrg_ibv_post_recv(rig.qp, NULL, &bad_recv), EINVAL, "bad-argument");
    expect_refused(mrg_ibv_post_recv(rig.qp, &recv, NULL), EINVAL, "bad-argument");
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    end_rig(&rig);
    expect_nothing_left();
}

/* The device writes what a READ or an atomic brings: that is not data that goes with the WR. */
Test(chain, only_what_is_sent_goes_inline)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_sge sge = {memory, 8, NULL};
    mrg_send_wr wr = {.sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_INLINE}, *bad;
    const enum ibv_wr_opcode sent[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE};
    const enum ibv_wr_opcode fetched[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD};
    for (int i = 0; i < 3; i++) {
        wr.opcode = sent[i];
        cr_expect_eq(mrg_ibv_post_send(rig.qp, &wr, &bad), 0);
        wr.opcode = fetched[i];
        expect_refused(mrg_ibv_post_send(rig.qp, &wr, &bad), EINVAL, "bad-argument");
    }
    sge.length = 33;
    wr.opcode = IBV_WR_SEND;
    expect_refused(mrg_ibv_post_send(rig.qp, &wr, &bad), EMSGSIZE, "inline-too-long");
    end_rig(&rig);
    expect_nothing_left();
}

/* Unsignaled WRs of a chain end with the next completion, in a chain as alone. */
Test(chain, completion_of_the_last_ends_all)
{
    mrg_mr *mr;
    struct rig rig = long_rig(&mr);
    struct chain c;
    mrg_send_wr *bad;
    make_chain(&c, LONG, mr);
    for (int i = 0; i < LONG - 1; i++)
        c.sends[i].send_flags = 0;
    cr_assert_eq(mrg_ibv_post_send(rig.qp, c.sends, &bad), 0);
    expect_refused(mrg_dereg_mr(mr), EBUSY, "dereg-in-flight");
    expect_completion(rig.cq, LONG - 1);
    end_long_rig(&rig, mr);
}
