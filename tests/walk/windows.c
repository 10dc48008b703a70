/*
 * Memory windows of both types, and the forms of registration. The passive side opens windows to its memory and closes
 * them; the active side WRITEs through each by the key that it is told.
 */
#include "direct.h"
#include "scenarios.h"

enum { WORK = 1, MESSAGE, INVALIDATION };
#define NAME(number) ((void *)(uintptr_t)(number))
#define SIZE 64
#define IOVA UINT64_C(0x10000)

static struct {
    mrg_context *device;
    mrg_pd *pd;
    mrg_cq *cq;
    mrg_qp *qp;
} self;

static _Alignas(4096) unsigned char memory[2 * SIZE]; /* as IOVA is: its place in its page must be the same */

/* What the passive side tells of a window. */
struct offer {
    uint64_t addr;
    uint32_t rkey;
};

static void equip(void)
{
    mrg_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {4, 2, 1, 1, 0}};
    self.device = direct_open();
    try_make(self.pd, mrg_alloc_pd(self.device));
    try_make(self.cq, mrg_create_cq(self.device, 8, NULL, NULL, 0));
    attr.send_cq = attr.recv_cq = self.cq;
    try_make(self.qp, mrg_ibv_create_qp(self.pd, &attr));
}

static void strip(void)
{
    try(mrg_ibv_destroy_qp(self.qp));
    try(mrg_destroy_cq(self.cq));
    try(mrg_dealloc_pd(self.pd));
    try(mrg_close_device(self.device));
}

/* One WR, to its completion. */
static void post(mrg_send_wr wr)
{
    mrg_send_wr *bad = NULL;
    wr.wr_id = WORK;
    wr.send_flags = IBV_SEND_SIGNALED;
    try_else(mrg_ibv_post_send(self.qp, &wr, &bad) == 0, bad == &wr, "mrg_ibv_post_send");
    await_polled(self.cq, NAME(WORK), NULL);
}

/* The active side */

/* From an MR whose address is one of our choice. */
static mrg_sge source(mrg_mr *mr)
{
    return (mrg_sge){(void *)(uintptr_t)IOVA, SIZE, mr};
}

static struct offer write_to_window(mrg_mr *mr)
{
    mrg_sge piece = source(mr);
    struct offer offer;
    hear_bytes(&offer, sizeof offer);
    post((mrg_send_wr){.sg_list = &piece,
                       .num_sge = 1,
                       .opcode = IBV_WR_RDMA_WRITE,
                       .wr.rdma = {.remote_addr = offer.addr, .rkey = offer.rkey}});
    say('w');
    return offer;
}

static void active(void)
{
    mrg_mr *mr;
    equip();
    memset(memory, 'w', sizeof memory);
    try_make(mr, mrg_reg_mr_iova(self.pd, memory, sizeof memory, IOVA, 0));
    direct_connect(self.device, self.qp);
    for (int window = 0; window < 3; window++)
        write_to_window(mr);
    uint32_t rkey = write_to_window(mr).rkey;
    mrg_sge piece = source(mr);
    post((mrg_send_wr){.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = rkey});
    hear('i');
    try(mrg_dereg_mr(mr));
    strip();
}

/* The passive side */

static void let_peer_write(mrg_mw *mw, const unsigned char *at)
{
    struct offer offer = {(uintptr_t)at, mrg_mw_rkey(mw)};
    say_bytes(&offer, sizeof offer);
    hear('w');
    life_requires(at[0] == 'w' && at[SIZE - 1] == 'w', "the WRITE did not come through the window");
    memset(memory, 0, sizeof memory);
}

static mrg_mw_bind_info half(mrg_mr *mr, const unsigned char *at)
{
    return (mrg_mw_bind_info){mr, (uintptr_t)at, SIZE, IBV_ACCESS_REMOTE_WRITE};
}

static void bind_1(mrg_mw *mw, mrg_mw_bind_info info)
{
    uint32_t before = mrg_mw_rkey(mw);
    mrg_mw_bind bind = {WORK, IBV_SEND_SIGNALED, info};
    try_else(mrg_bind_mw(self.qp, mw, &bind) == 0, mrg_mw_rkey(mw) == before, "mrg_bind_mw");
    await_polled(self.cq, NAME(WORK), NULL);
}

/* Bound, bound elsewhere, unbound, bound again and given up so. */
static void use_type_1(mrg_mr *mr)
{
    mrg_mw *mw;
    try_make(mw, mrg_alloc_mw(self.pd, IBV_MW_TYPE_1));
    bind_1(mw, half(mr, memory));
    let_peer_write(mw, memory);
    try_refused(mrg_dereg_mr(mr) == 0, EBUSY, "window-bound");
    bind_1(mw, half(mr, memory + SIZE));
    let_peer_write(mw, memory + SIZE);
    bind_1(mw, (mrg_mw_bind_info){0});
    bind_1(mw, half(mr, memory));
    bind_1(mw, (mrg_mw_bind_info){.mr = mr, .addr = (uintptr_t)memory}); /* closes it as well */
    try_refused(mrg_bind_mw(self.qp, mw, &(mrg_mw_bind){0}) == 0, EINVAL, "wrong-state");
    bind_1(mw, half(mr, memory));
    try_refused(mrg_dereg_mr(mr) == 0, EBUSY, "window-bound");
    try(mrg_dealloc_mw(mw));
}

/* An MR that is given up with a window bound to it goes with the window. */
static void give_up_bound(void)
{
    static unsigned char bytes[SIZE];
    mrg_mw *mw;
    mrg_mr *mr;
    try_make(mw, mrg_alloc_mw(self.pd, IBV_MW_TYPE_1));
    try_make(mr, mrg_reg_mr(self.pd, bytes, sizeof bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND));
    bind_1(mw, half(mr, bytes));
    try_unref(mrg_mr_unref(mr));
    tolerate(LATE_RELEASE, "dereg_mr", try(mrg_dealloc_mw(mw)));
}

static void bind_2(mrg_mw *mw, mrg_mw_bind_info info)
{
    uint32_t rkey = mrg_inc_rkey(mrg_mw_rkey(mw));
    post((mrg_send_wr){.opcode = IBV_WR_BIND_MW, .bind_mw = {mw, rkey, info}});
    life_requires(mrg_mw_rkey(mw) == rkey, "the window has another key");
}

/* Closed by us once, and once by the peer, with a message. */
static void use_type_2(mrg_mr *mr)
{
    static unsigned char message[SIZE];
    mrg_mw *mw;
    mrg_mr *message_mr;
    struct ibv_wc wc;
    try_make(mw, mrg_alloc_mw(self.pd, IBV_MW_TYPE_2));
    try_make(message_mr, mrg_reg_mr(self.pd, message, sizeof message, IBV_ACCESS_LOCAL_WRITE));
    mrg_sge into = {message, sizeof message, message_mr};
    mrg_recv_wr recv = {.wr_id = INVALIDATION, .sg_list = &into, .num_sge = 1}, *bad = NULL;
    try_else(mrg_ibv_post_recv(self.qp, &recv, &bad) == 0, bad == &recv, "mrg_ibv_post_recv");
    bind_2(mw, half(mr, memory));
    let_peer_write(mw, memory);
    try_refused(mrg_dereg_mr(mr) == 0, EBUSY, "window-bound");
    post((mrg_send_wr){.opcode = IBV_WR_LOCAL_INV, .bind_mw.mw = mw});
    bind_2(mw, half(mr, memory + SIZE));
    let_peer_write(mw, memory + SIZE);
    await_polled(self.cq, NAME(INVALIDATION), &wc);
    life_requires(wc.invalidated_rkey == mrg_mw_rkey(mw), "no invalidation");
    try(mrg_dereg_mr(mr)); /* the completion said that the window is closed */
    try(mrg_dealloc_mw(mw));
    try(mrg_dereg_mr(message_mr));
}

/* What soft-RoCE has not. */
static void ask_for_what_is_not_there(mrg_mr *mr)
{
    const int access = IBV_ACCESS_LOCAL_WRITE;
    try_refused(mrg_alloc_null_mr(self.pd), EOPNOTSUPP, "registration-refused");
    try_refused(mrg_reg_dmabuf_mr(self.pd, 0, SIZE, 0, 0, access), EOPNOTSUPP, "registration-refused");
    try_refused(mrg_reg_mr(self.pd, memory, SIZE, access | IBV_ACCESS_ON_DEMAND), EINVAL, "registration-refused");
    try_refused(mrg_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, access) == 0, EOPNOTSUPP, NULL);
    life_requires(mrg_mr_access(mr) == (access | IBV_ACCESS_MW_BIND), "a change that was refused shows");
}

static void passive(void)
{
    mrg_mr *mr;
    equip();
    try_make(mr, mrg_reg_mr(self.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND));
    ask_for_what_is_not_there(mr);
    direct_connect(self.device, self.qp);
    use_type_1(mr);
    give_up_bound();
    use_type_2(mr);
    say('i');
    strip();
}

const struct scenario windows_scenario = {"windows", {active, passive}};
