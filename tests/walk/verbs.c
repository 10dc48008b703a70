/*
 * Without librdmacm: devices, an SRQ, QPs that are connected by hand, chains of WRs, atomics, asynchronous events, and
 * what soft-RoCE refuses. The passive side lends a counter and receives through the SRQ.
 */
#include <fcntl.h>

#include "direct.h"
#include "scenarios.h"

enum { CHAIN = 100, LAST, ANSWER };
#define NAME(number) ((void *)(uintptr_t)(number))
#define MESSAGES 17 /* one more than go to the device together */
#define PIECE 16

static struct {
    mrg_context *device;
    mrg_pd *pd;
    mrg_comp_channel *completions;
    mrg_cq *cq;
    mrg_srq *srq;
    mrg_qp *qp;
    mrg_mr *mr;
} self;

static unsigned char memory[512];
static _Alignas(8) uint64_t counter = 40;

/* What the active side needs to know of the counter. */
struct offer {
    uint64_t addr;
    uint32_t rkey;
};

static void reset_qp(void)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    try(mrg_modify_qp(self.qp, &attr, IBV_QP_STATE));
}

/* The active side */

static mrg_context **list;

static mrg_context *choose_device(void)
{
    int count = -1;
    try_make(list, mrg_get_devices(&count));
    for (int i = 0; i < count; i++)
        if (direct_is_it(mrg_context_raw(list[i])->device))
            return list[i];
    life_fails("librdmacm does not know rxe0");
}

static void query_device(mrg_context *device)
{
    struct ibv_device_attr attr;
    struct ibv_device_attr_ex attr_ex;
    __be16 pkey;
    try(mrg_query_device(device, &attr));
    try(mrg_query_device_ex(device, NULL, &attr_ex));
    try(mrg_query_pkey(device, 1, 0, &pkey));
    life_requires(attr.max_qp > 0 && attr_ex.orig_attr.max_qp == attr.max_qp && pkey, "no answer");
}

static void equip_active(void)
{
    mrg_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {24, 1, 2, 1, 0}};
    self.device = choose_device();
    query_device(self.device);
    try_make(self.pd, mrg_alloc_pd(self.device));
    try_make(self.completions, mrg_create_comp_channel(self.device));
    try_make(self.cq, mrg_create_cq(self.device, 8, NULL, self.completions, 0));
    try(mrg_resize_cq(self.cq, 32));
    try(mrg_req_notify_cq(self.cq, 0));
    attr.send_cq = attr.recv_cq = self.cq;
    const mrg_qp_init_attr before = attr;
    try_else((self.qp = mrg_ibv_create_qp(self.pd, &attr)) != NULL, !memcmp(&attr, &before, sizeof attr),
             "mrg_ibv_create_qp");
    try_make(self.mr, mrg_reg_mr(self.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE));
}

/* Where it fails *bad says how much is posted, and it goes on there: the chain goes to the device in groups of 16. */
static void post_sends(mrg_send_wr *first)
{
    mrg_send_wr *rest = first, *bad = NULL;
    try_else(mrg_ibv_post_send(self.qp, rest, &bad) == 0 || (rest = bad, false), bad == first || bad == first + 16,
             "mrg_ibv_post_send");
}

static void post_receive(void)
{
    mrg_sge into = {memory + sizeof memory - PIECE, PIECE, self.mr};
    mrg_recv_wr wr = {.wr_id = ANSWER, .sg_list = &into, .num_sge = 1}, *bad = NULL;
    try_else(mrg_ibv_post_recv(self.qp, &wr, &bad) == 0, bad == &wr, "mrg_ibv_post_recv");
}

static mrg_send_wr atomic_wr(enum ibv_wr_opcode opcode, const mrg_sge *into, const struct offer *offer)
{
    mrg_send_wr wr = {.wr_id = CHAIN, .sg_list = into, .num_sge = 1, .opcode = opcode};
    wr.wr.atomic.remote_addr = offer->addr;
    wr.wr.atomic.rkey = offer->rkey;
    return wr;
}

/* Sends and atomics in one chain, of which the last alone completes. */
static void send_chain(const struct offer *offer)
{
    mrg_sge pieces[MESSAGES + 2];
    mrg_send_wr wrs[MESSAGES + 2];
    for (int i = 0; i < MESSAGES + 2; i++)
        pieces[i] = (mrg_sge){memory + i * PIECE, i < MESSAGES ? PIECE : sizeof(uint64_t), self.mr};
    for (int i = 0; i < MESSAGES; i++)
        wrs[i] = (mrg_send_wr){.wr_id = CHAIN, .sg_list = &pieces[i], .num_sge = 1, .opcode = IBV_WR_SEND};
    wrs[MESSAGES] = atomic_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, &pieces[MESSAGES], offer);
    wrs[MESSAGES].wr.atomic.compare_add = 2;
    wrs[MESSAGES + 1] = atomic_wr(IBV_WR_ATOMIC_CMP_AND_SWP, &pieces[MESSAGES + 1], offer);
    wrs[MESSAGES + 1].wr.atomic.compare_add = 42;
    wrs[MESSAGES + 1].wr.atomic.swap = 1000;
    wrs[MESSAGES + 1].wr_id = LAST;
    wrs[MESSAGES + 1].send_flags = IBV_SEND_SIGNALED;
    for (int i = 0; i < MESSAGES + 1; i++)
        wrs[i].next = &wrs[i + 1];
    post_sends(wrs);
    await_completion(self.completions, NAME(LAST), NULL);
    life_requires(*(uint64_t *)(void *)(memory + MESSAGES * PIECE) == 40, "the addition found something else");
    life_requires(*(uint64_t *)(void *)(memory + (MESSAGES + 1) * PIECE) == 42, "the exchange found something else");
}

static void expect_ready_to_send(void)
{
    struct ibv_qp_attr attr;
    mrg_qp_init_attr init;
    try(mrg_query_qp(self.qp, &attr, IBV_QP_STATE, &init));
    life_requires(attr.qp_state == IBV_QPS_RTS, "the QP is in another state");
    life_requires(init.send_cq == self.cq && init.pd == self.pd && !init.srq, "the QP has other parts");
}

/* A reset ends what is in flight, and with it the borrow of the MR. */
static void strip_active(void)
{
    post_receive();
    try_refused(mrg_dereg_mr(self.mr) == 0, EBUSY, "dereg-in-flight");
    reset_qp();
    try(mrg_dereg_mr(self.mr));
    try(mrg_ibv_destroy_qp(self.qp));
    try(mrg_destroy_cq(self.cq));
    try(mrg_destroy_comp_channel(self.completions));
    try(mrg_dealloc_pd(self.pd));
    try(mrg_free_devices(list));
}

static void active(void)
{
    struct offer offer;
    equip_active();
    direct_connect(self.device, self.qp);
    hear_bytes(&offer, sizeof offer);
    post_receive();
    send_chain(&offer);
    say('s');
    await_completion(self.completions, NAME(ANSWER), NULL);
    expect_ready_to_send();
    strip_active();
}

/* The passive side */

static void make_srq(void)
{
    mrg_srq_init_attr attr = {.attr = {.max_wr = 24, .max_sge = 1}};
    const mrg_srq_init_attr before = attr;
    try_else((self.srq = mrg_ibv_create_srq(self.pd, &attr)) != NULL, !memcmp(&attr, &before, sizeof attr),
             "mrg_ibv_create_srq");
}

static void equip_passive(void)
{
    mrg_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {2, 0, 1, 0, 0}};
    self.device = direct_open();
    try_make(self.pd, mrg_alloc_pd(self.device));
    try_make(self.cq, mrg_create_cq(self.device, 32, NULL, NULL, 0));
    make_srq();
    attr.pd = self.pd;
    attr.srq = self.srq;
    attr.send_cq = attr.recv_cq = self.cq;
    try_make(self.qp, mrg_ibv_create_qp_ex(self.device, &attr));
    try_make(self.mr, mrg_reg_mr(self.pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE));
}

/* One more than comes: what is left goes with the SRQ. */
static void post_receives(void)
{
    mrg_sge pieces[MESSAGES + 1];
    mrg_recv_wr wrs[MESSAGES + 1], *rest = wrs, *bad = NULL;
    for (int i = 0; i < MESSAGES + 1; i++) {
        pieces[i] = (mrg_sge){memory + i * PIECE, PIECE, self.mr};
        wrs[i] = (mrg_recv_wr){.wr_id = (uint64_t)i, .next = &wrs[i + 1], .sg_list = &pieces[i], .num_sge = 1};
    }
    wrs[MESSAGES].next = NULL;
    try_else(mrg_post_srq_recv(self.srq, rest, &bad) == 0 || (rest = bad, false), bad == wrs || bad == wrs + 16,
             "mrg_post_srq_recv");
}

/* When fewer receives than this are left, there is an event. */
static void set_limit(void)
{
    struct ibv_srq_attr attr = {.srq_limit = 2};
    try(mrg_modify_srq(self.srq, &attr, IBV_SRQ_LIMIT));
    try(mrg_query_srq(self.srq, &attr));
    life_requires(attr.srq_limit == 2, "the SRQ has another limit");
}

static void offer_counter(mrg_mr *mr)
{
    struct offer offer = {(uintptr_t)&counter, mrg_mr_rkey(mr)};
    say_bytes(&offer, sizeof offer);
}

static void answer(void)
{
    mrg_sge piece = {memory, PIECE, self.mr};
    mrg_send_wr wr = {.wr_id = ANSWER, .sg_list = &piece, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
    wr.opcode = IBV_WR_SEND;
    post_sends(&wr);
    await_polled(self.cq, NAME(ANSWER), NULL);
}

/* What soft-RoCE has not: called so that a failure of it is seen to be told as well. */
static void ask_for_what_is_not_there(void)
{
    struct ibv_td_init_attr td = {0};
    struct ibv_xrcd_init_attr xrcd = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
    mrg_sge piece = {memory, PIECE, self.mr};
    uint32_t number;
    try_refused(mrg_alloc_td(self.device, &td), EOPNOTSUPP, NULL);
    try_refused(mrg_alloc_parent_domain(self.pd, NULL), EOPNOTSUPP, NULL);
    try_refused(mrg_open_xrcd(self.device, &xrcd), EOPNOTSUPP, NULL);
    try_refused(mrg_get_srq_num(self.srq, &number) == 0, EOPNOTSUPP, NULL);
    try_refused(mrg_advise_mr(self.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &piece, 1) == 0, EOPNOTSUPP, NULL);
}

/* An SRQ whose event is not acknowledged stays. */
static void strip_passive(mrg_async_event *event)
{
    reset_qp();
    try(mrg_ibv_destroy_qp(self.qp));
    try_refused(mrg_ibv_destroy_srq(self.srq) == 0, EBUSY, "unacked-event");
    try(mrg_ack_async_event(event));
    try_refused(mrg_dereg_mr(self.mr) == 0, EBUSY, "dereg-in-flight");
    try(mrg_ibv_destroy_srq(self.srq));
    try(mrg_dereg_mr(self.mr));
    try(mrg_destroy_cq(self.cq));
    try(mrg_dealloc_pd(self.pd));
    try(mrg_close_device(self.device));
}

static void passive(void)
{
    mrg_mr *counter_mr;
    equip_passive();
    try_make(counter_mr,
             mrg_reg_mr(self.pd, &counter, sizeof counter, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC));
    post_receives();
    set_limit();
    ask_for_what_is_not_there();
    direct_connect(self.device, self.qp);
    offer_counter(counter_mr);
    for (uintptr_t i = 0; i < MESSAGES; i++)
        await_polled(self.cq, NAME(i), NULL);
    mrg_async_event *event = get_async_event(self.device, IBV_EVENT_SRQ_LIMIT_REACHED);
    life_requires(mrg_async_event_srq(event) == self.srq, "the event is about another SRQ");
    hear('s');
    life_requires(counter == 1000, "the counter is another");
    answer();
    try(mrg_dereg_mr(counter_mr));
    strip_passive(event);
}

const struct scenario verbs_scenario = {"verbs", {active, passive}};
