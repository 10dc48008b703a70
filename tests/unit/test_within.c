/* What is done from inside: by release functions, by a second thread between a verb and what follows it, by a forked child. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

TestSuite(within, .init = setup_stub, .timeout = 20);

static char memory[4096];
#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND)

/* A forked child */

static int in_child(int (*call)(void *), void *arg)
{
    pid_t child = fork();
    if (child == 0)
        _exit(call(arg));
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int wrong_answer(void)
{
    return errno == EPERM && mrg_last_finding() && !strcmp(mrg_last_finding()->rule, "after-fork") ? 0 : 1;
}

static int adopt_context(void *raw)
{
    return mrg_adopt_context(raw) ? 2 : wrong_answer();
}

static int adopt_pd(void *raw)
{
    return mrg_adopt_pd(raw) ? 2 : wrong_answer();
}

static int get_devices(void *raw)
{
    (void)raw;
    return mrg_get_devices(NULL) ? 2 : wrong_answer();
}

Test(within, child_that_adopts_is_refused)
{
    struct ibv_pd raw = {.context = &stub_devices[0]};
    mrg_context *context = mrg_adopt_context(&stub_devices[0]);
    cr_assert(context);
    cr_expect_eq(in_child(adopt_context, &stub_devices[0]), 0);
    cr_expect_eq(in_child(adopt_pd, &raw), 0);
    cr_expect_eq(in_child(get_devices, NULL), 0);
    cr_expect_eq(mrg_close_device(context), 0);
}

/* Release functions */

static mrg_id *waiting_id;
static int in_release;

static void wait_again(void *addr, size_t length, void *arg)
{
    struct ibv_wc wc;
    (void)addr, (void)length, (void)arg;
    in_release = mrg_get_send_comp(waiting_id, &wc);
}

Test(within, release_function_waits_for_a_completion)
{
    struct ibv_wc wc;
    mrg_id *id = waiting_id = bound_id();
    mrg_qp_init_attr attr = {.cap = {8, 8, 4, 4, 0}};
    cr_assert_eq(mrg_create_qp(id, NULL, &attr), 0);
    mrg_pd *pd = mrg_id_pd(id);
    mrg_mr *mr = mrg_reg_mr_owned(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE, wait_again, NULL);
    cr_assert_eq(mrg_post_send(id, NULL, memory, 1, mr, IBV_SEND_SIGNALED), 0);
    cr_assert_eq(mrg_post_send(id, NULL, memory, 0, NULL, IBV_SEND_SIGNALED), 0);
    mrg_mr_unref(mr);
    cr_expect_eq(mrg_get_send_comp(id, &wc), 1);
    cr_expect_eq(in_release, 1);
    mrg_pd_unref(pd);
    cr_expect_eq(mrg_destroy_ep(id), 0);
    expect_nothing_left();
}

static struct rig resetting;
static mrg_mr *lasting;

static void reset_and_post(void *addr, size_t length, void *arg)
{
    (void)addr, (void)length, (void)arg;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    mrg_sge sge = {memory, 1, lasting};
    mrg_recv_wr *bad, wr = {.wr_id = 7, .sg_list = &sge, .num_sge = 1};
    in_release = mrg_modify_qp(resetting.qp, &attr, IBV_QP_STATE) || mrg_ibv_post_recv(resetting.qp, &wr, &bad);
}

/* What it posts is in flight: it is not dropped by the reset that it is called from. */
Test(within, release_function_resets_and_posts)
{
    struct rig *rig = &resetting;
    *rig = new_rig(IBV_QPT_RC);
    stub.hold_sends = true;
    lasting = mrg_reg_mr(rig->pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    mrg_mr *mr = mrg_reg_mr_owned(rig->pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE, reset_and_post, NULL);
    mrg_sge sge = {memory, 1, mr};
    mrg_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};
    wr.opcode = IBV_WR_SEND;
    cr_assert_eq(mrg_ibv_post_send(rig->qp, &wr, &bad), 0);
    mrg_mr_unref(mr);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    cr_assert_eq(mrg_modify_qp(rig->qp, &attr, IBV_QP_STATE), 0);
    cr_expect_eq(in_release, 0);
    expect_refused(mrg_dereg_mr(lasting), EBUSY, "dereg-in-flight");
    stub_complete_recvs(rig->raw, 1, IBV_WC_SUCCESS);
    expect_completion(rig->cq, 7);
    cr_expect_eq(mrg_dereg_mr(lasting), 0);
    end_rig(rig);
    expect_nothing_left();
}

/* Windows */

static mrg_send_wr bind_wr(mrg_mw *mw, mrg_mr *mr, uint32_t rkey)
{
    mrg_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = (mrg_mw_bind_info){mr, (uintptr_t)memory, 64, IBV_ACCESS_REMOTE_READ};
    return wr;
}

static mrg_send_wr invalidate_wr(mrg_mw *mw)
{
    mrg_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED};
    wr.bind_mw.mw = mw;
    return wr;
}

/* The key that is invalidated is the one that the chain has bound. */
Test(within, chain_binds_and_invalidates)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, sizeof memory, ALL);
    mrg_mw *mw = mrg_alloc_mw(rig.pd, IBV_MW_TYPE_2);
    uint32_t key = mrg_inc_rkey(mrg_mw_rkey(mw));
    mrg_send_wr *bad, second = invalidate_wr(mw), first = bind_wr(mw, mr, key);
    first.next = &second;
    cr_assert_eq(mrg_ibv_post_send(rig.qp, &first, &bad), 0);
    cr_expect_eq(stub.last_send.opcode, IBV_WR_LOCAL_INV);
    cr_expect_eq(stub.last_send.invalidate_rkey, key);
    struct ibv_wc wc[2];
    cr_expect_eq(mrg_poll_cq(rig.cq, 2, wc), 2);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_dealloc_mw(mw), 0);
    end_rig(&rig);
    expect_nothing_left();
}

/* Providers look at the MR of such a bind. */
Test(within, window_of_type_2_is_not_bound_to_nothing)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mw *mw = mrg_alloc_mw(rig.pd, IBV_MW_TYPE_2);
    mrg_send_wr *bad, wr = bind_wr(mw, NULL, mrg_inc_rkey(mrg_mw_rkey(mw)));
    wr.bind_mw.bind_info.length = 0;
    expect_refused(mrg_ibv_post_send(rig.qp, &wr, &bad), EINVAL, "bad-argument");
    cr_expect_eq(mrg_dealloc_mw(mw), 0);
    end_rig(&rig);
    expect_nothing_left();
}

/* A peer's invalidation is polled while a chain that would rebind the window is posted, and refused. */
static struct rig *polled;
static pthread_t poller;
static atomic_bool polling;

static void *poll_in_thread(void *arg)
{
    struct ibv_wc wc;
    (void)arg;
    polling = true;
    mrg_poll_cq(polled->cq, 1, &wc);
    return NULL;
}

static int poll_and_fail(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    (void)qp;
    pthread_create(&poller, NULL, poll_in_thread, NULL);
    while (!polling)
        usleep(1000);
    usleep(50000);
    *bad = wr;
    return ENOMEM;
}

Test(within, peer_invalidates_while_a_bind_is_refused)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, sizeof memory, ALL), *other = mrg_reg_mr(rig.pd, memory, 64, ALL);
    mrg_mw *mw = mrg_alloc_mw(rig.pd, IBV_MW_TYPE_2);
    mrg_send_wr *bad, wr = bind_wr(mw, mr, mrg_inc_rkey(mrg_mw_rkey(mw)));
    struct ibv_wc wc;
    cr_assert_eq(mrg_ibv_post_send(rig.qp, &wr, &bad), 0);
    cr_assert_eq(mrg_poll_cq(rig.cq, 1, &wc), 1);
    polled = &rig;
    stub_push_invalidated(mrg_cq_raw(rig.cq), 0, 1, mrg_mw_rkey(mw));
    verbs.post_send = poll_and_fail;
    wr = bind_wr(mw, other, mrg_inc_rkey(mrg_mw_rkey(mw)));
    expect_fails(mrg_ibv_post_send(rig.qp, &wr, &bad), ENOMEM);
    pthread_join(poller, NULL);
    cr_expect_eq(mrg_dereg_mr(mr), 0, "the peer has invalidated the window");
    cr_expect_eq(mrg_dealloc_mw(mw), 0);
    cr_expect_eq(mrg_dereg_mr(other), 0);
    end_rig(&rig);
    expect_nothing_left();
}

/* PDs that live only for their children */

Test(within, id_registers_on_a_pd_that_its_qp_keeps)
{
    mrg_id *id = bound_id();
    mrg_pd *pd = mrg_alloc_pd(mrg_id_verbs(id));
    mrg_qp_init_attr attr = {.cap = {8, 8, 4, 4, 0}};
    cr_assert_eq(mrg_create_qp(id, pd, &attr), 0);
    mrg_pd_unref(pd);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    cr_assert(mr, "%s", mrg_last_finding()->message);
    cr_expect_eq(mrg_post_send(id, NULL, memory, 1, mr, 0), 0);
    cr_expect_eq(mrg_destroy_qp(id), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

static mrg_pd *given_up;
static int (*rereg_below)(struct ibv_mr *, int, struct ibv_pd *, void *, size_t, int);

static int rereg_and_give_up(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
    mrg_pd_unref(given_up);
    return rereg_below(mr, flags, pd, addr, length, access);
}

Test(within, pd_is_given_up_while_an_mr_comes_to_it)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    given_up = mrg_alloc_pd(rig.context);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, sizeof memory, ALL);
    rereg_below = verbs.rereg_mr;
    verbs.rereg_mr = rereg_and_give_up;
    cr_assert_eq(mrg_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, given_up, NULL, 0, 0), 0);
    cr_expect_eq(stub.live_pds, 2, "the PD is gone, and an MR is registered on it");
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(stub.live_pds, 1);
    end_rig(&rig);
    expect_nothing_left();
}

/* Two threads change one id */

static mrg_id *moving;
static mrg_channel *to[2];
static int (*migrate_below)(struct rdma_cm_id *, struct rdma_event_channel *);

static int migrate_twice(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    verbs.migrate_id = migrate_below;
    in_release = mrg_migrate_id(moving, to[1]);
    return migrate_below(id, channel);
}

Test(within, id_is_moved_by_two_at_once)
{
    to[0] = mrg_create_event_channel(), to[1] = mrg_create_event_channel();
    moving = bound_id();
    migrate_below = verbs.migrate_id;
    verbs.migrate_id = migrate_twice;
    cr_expect_eq(mrg_migrate_id(moving, to[0]), 0);
    cr_expect_eq(in_release, -1);
    cr_expect_eq(mrg_id_channel(moving), to[0]);
    expect_refused(mrg_destroy_event_channel(to[0]), EBUSY, "destroy-order");
    cr_expect_eq(mrg_destroy_event_channel(to[1]), 0);
    cr_expect_eq(mrg_destroy_id(moving), 0);
    cr_expect_eq(mrg_destroy_event_channel(to[0]), 0);
    expect_nothing_left();
}

static struct sockaddr_in group = {.sin_family = AF_INET};
static int (*join_below)(struct rdma_cm_id *, struct sockaddr *, void *);

static int join_twice(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
    verbs.join_multicast = join_below;
    in_release = mrg_join_multicast(moving, (struct sockaddr *)&group, NULL);
    return join_below(id, addr, context);
}

Test(within, group_is_joined_by_two_at_once)
{
    moving = bound_id();
    join_below = verbs.join_multicast;
    verbs.join_multicast = join_twice;
    cr_expect_eq(mrg_join_multicast(moving, (struct sockaddr *)&group, NULL), 0);
    cr_expect_eq(in_release, -1);
    cr_expect_eq(stub.joins, 1);
    cr_expect_eq(mrg_leave_multicast(moving, (struct sockaddr *)&group), 0);
    cr_expect_eq(mrg_destroy_id(moving), 0);
    expect_nothing_left();
}

/* Policy observe: what confuses the books is refused as ever. */

Test(within, nothing_given_back_by_the_second_destroy)
{
    mrg_id *id = bound_id();
    expect_refused(mrg_destroy_qp(id), EINVAL, "no-qp");
    cr_expect_eq(mrg_destroy_id(id), 0);
}

/* Threads beside each other; each runs until the time is over or something is wrong. */

static atomic_bool over;
static _Atomic(const char *) wrong;

static void run_threads(void *(*const bodies[])(void *), int count, int ms)
{
    pthread_t threads[8];
    over = false;
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, bodies[i], NULL);
    for (int i = 0; i < ms && !wrong; i++)
        usleep(1000);
    over = true;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    cr_expect(!wrong, "%s", wrong);
}

static struct ibv_pd common = {.context = &stub_devices[0]};
static mrg_pd *common_handle;

static void *adopt_often(void *arg)
{
    while (!over && !wrong) {
        mrg_pd *pd = mrg_adopt_pd(&common);
        if (pd != common_handle)
            wrong = "a PD that is adopted again is another";
        mrg_pd_unref(pd);
    }
    return arg;
}

Test(within, pd_is_adopted_by_many)
{
    common_handle = mrg_adopt_pd(&common);
    run_threads((void *(*const[])(void *)){adopt_often, adopt_often, adopt_often}, 3, 3000);
    mrg_pd_unref(common_handle);
    expect_nothing_left();
}

static mrg_context *common_context;

static void *adopt_context_often(void *arg)
{
    while (!over && !wrong) {
        mrg_context *context = mrg_adopt_context(&stub_devices[0]);
        if (context != common_context)
            wrong = "a device that is adopted again is another";
        mrg_close_device(context);
    }
    return arg;
}

Test(within, device_is_adopted_by_many)
{
    common_context = mrg_adopt_context(&stub_devices[0]);
    run_threads((void *(*const[])(void *)){adopt_context_often, adopt_context_often, adopt_context_often}, 3, 3000);
    mrg_close_device(common_context);
    expect_nothing_left();
}

/* The device's context goes with its last id, and comes back with the next. */
static void *live_and_die(void *arg)
{
    struct sockaddr addr = {0};
    while (!over && !wrong) {
        mrg_id *id;
        if (mrg_create_id(NULL, &id, NULL, RDMA_PS_TCP) || mrg_bind_addr(id, &addr))
            wrong = "no id";
        mrg_pd *pd = mrg_id_pd(id);
        if (!pd)
            wrong = "an id with a device has no PD";
        mrg_mr *mr = pd ? mrg_reg_mr(pd, memory, 64, 0) : NULL;
        if (!mr || mrg_dereg_mr(mr))
            wrong = "an MR is not registered, or not released";
        mrg_pd_unref(pd);
        if (mrg_destroy_id(id))
            wrong = "the id is not destroyed";
    }
    return arg;
}

Test(within, device_comes_and_goes)
{
    run_threads((void *(*const[])(void *)){live_and_die, live_and_die, live_and_die}, 3, 4000);
    expect_nothing_left();
}

static mrg_pd *parent;

static void *destroy_often(void *arg)
{
    while (!over && !wrong)
        if (!mrg_dealloc_pd(parent) || errno != EBUSY)
            wrong = "a PD that has a child is not EBUSY";
    return arg;
}

Test(within, destroys_are_refused_side_by_side)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    parent = rig.pd;
    run_threads((void *(*const[])(void *)){destroy_often, destroy_often, destroy_often}, 3, 3000);
    end_rig(&rig);
    expect_nothing_left();
}

static mrg_mr *moved;
static atomic_int turn;

static void *move_in_turn(void *arg)
{
    int mine = 0;
    while (!over && !wrong) {
        while (turn == mine && !over)
            ;
        mine = turn;
        mrg_mr_move(moved, parent);
    }
    return arg;
}

static void *move_and_count(void *arg)
{
    while (!over && !wrong) {
        moved = mrg_reg_msgs(moving, memory, 64);
        turn++;
        if (mrg_mr_move(moved, parent))
            wrong = "an MR is not moved";
        while (mrg_dereg_mr(moved) && errno == EBUSY)
            ;
    }
    return arg;
}

Test(within, mr_is_moved_by_two_at_once)
{
    moving = bound_id();
    parent = mrg_id_pd(moving);
    run_threads((void *(*const[])(void *)){move_in_turn, move_and_count}, 2, 4000);
    cr_expect_eq(mrg_destroy_id(moving), 0);
    mrg_pd_unref(parent);
    expect_nothing_left();
}

/* A post meets an MR that another thread gives up: its release function posts to the same QP. */

static _Atomic(mrg_mr *) offered;
static mrg_qp *posting;
static mrg_cq *poll_here;

static void post_empty(void *addr, size_t length, void *arg)
{
    (void)addr, (void)length, (void)arg;
    mrg_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    if (mrg_ibv_post_send(posting, &wr, &bad) && errno != ENOMEM)
        wrong = "a release function does not post";
}

static void *post_offered(void *arg)
{
    struct ibv_wc wc[8];
    while (!over && !wrong) {
        mrg_sge sge = {memory, 64, offered};
        mrg_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1};
        if (mrg_ibv_post_send(posting, &wr, &bad) && errno != ESTALE && errno != ENOMEM && errno != EINVAL)
            wrong = "a post fails otherwise";
        mrg_poll_cq(poll_here, 8, wc);
    }
    return arg;
}

static void *offer_often(void *arg)
{
    while (!over && !wrong) {
        mrg_mr *mr = mrg_reg_mr_owned(parent, memory, 64, 0, post_empty, NULL);
        offered = mr;
        mrg_mr_unref(mr);
    }
    return arg;
}

Test(within, post_of_an_mr_that_goes)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    struct ibv_wc wc[8];
    parent = rig.pd, posting = rig.qp, poll_here = rig.cq;
    run_threads((void *(*const[])(void *)){post_offered, offer_often, offer_often}, 3, 4000);
    while (mrg_poll_cq(rig.cq, 8, wc) > 0)
        ;
    end_rig(&rig);
    expect_nothing_left();
}

/* Refused half way */

static int refuse_channel(struct ibv_comp_channel *channel)
{
    (void)channel;
    return EBUSY;
}

Test(within, cq_that_is_half_gone_is_not_polled)
{
    struct ibv_wc wc;
    mrg_id *id = bound_id();
    mrg_qp_init_attr attr = {.cap = {8, 8, 4, 4, 0}};
    cr_assert_eq(mrg_create_qp(id, NULL, &attr), 0);
    mrg_cq *cq = mrg_id_send_cq(id);
    int (*below)(struct ibv_comp_channel *) = verbs.destroy_comp_channel;
    verbs.destroy_comp_channel = refuse_channel;
    expect_fails(mrg_destroy_qp(id), EBUSY);
    expect_refused(mrg_poll_cq(cq, 1, &wc), ESTALE, "stale-handle");
    expect_refused(mrg_req_notify_cq(cq, 0), ESTALE, "stale-handle");
    expect_refused(mrg_resize_cq(cq, 16), ESTALE, "stale-handle");
    mrg_id *other = bound_id();
    attr = (mrg_qp_init_attr){.send_cq = cq, .recv_cq = cq, .cap = {8, 8, 4, 4, 0}};
    expect_refused(mrg_create_qp(other, NULL, &attr), ESTALE, "stale-handle");
    verbs.destroy_comp_channel = below;
    cr_expect_eq(mrg_destroy_qp(id), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    cr_expect_eq(mrg_destroy_id(other), 0);
    expect_nothing_left();
}

static int no_qp(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    (void)id, (void)attr;
    return errno = ENOSPC, -1;
}

static int refuse_cq(struct ibv_cq *cq)
{
    (void)cq;
    return EBUSY;
}

/* The next id is not the one that has them. */
Test(within, endpoint_that_fails_leaves_cqs)
{
    struct rdma_addrinfo res = {0};
    mrg_qp_init_attr attr = {.cap = {8, 8, 4, 4, 0}};
    mrg_id *id;
    int (*below)(struct rdma_cm_id *, struct ibv_qp_init_attr_ex *) = verbs.create_qp;
    int (*destroy_below)(struct ibv_cq *) = verbs.destroy_cq;
    verbs.create_qp = no_qp;
    verbs.destroy_cq = refuse_cq;
    cr_expect_eq(mrg_create_ep(&id, &res, NULL, &attr), -1);
    cr_expect_eq(errno, ENOSPC);
    verbs.create_qp = below;
    verbs.destroy_cq = destroy_below;
    id = bound_id();
    mrg_pd *pd = mrg_id_pd(id);
    expect_refused(mrg_dealloc_pd(pd), EBUSY, "destroy-order"); /* what was refused is tried again */
    cr_expect_eq(stub.live_cqs, 0);
    mrg_pd_unref(pd);
    cr_expect_eq(mrg_destroy_id(id), 0, "%s", mrg_last_finding()->message);
    expect_nothing_left();
}

static void setup_observe_within(void)
{
    setenv("MRGUARD_OPTIONS", "policy=observe", 1);
    setup_stub();
}

/* Refused it has changed nothing: what keeps the QP keeps the id. */
Test(within, endpoint_that_is_refused_keeps_its_mrs, .init = setup_observe_within)
{
    mrg_id *id = bound_id();
    mrg_qp_init_attr attr = {.cap = {8, 8, 4, 4, 0}};
    cr_assert_eq(mrg_create_qp(id, NULL, &attr), 0);
    mrg_mr *mr = mrg_reg_msgs(id, memory, 64);
    mrg_async_event *event;
    stub_async(IBV_EVENT_QP_FATAL, mrg_qp_raw(mrg_id_qp(id)));
    cr_assert_eq(mrg_get_async_event(mrg_id_verbs(id), &event), 0);
    cr_expect_eq(mrg_destroy_ep(id), -1);
    cr_expect_eq(errno, EBUSY);
    cr_expect_eq(mrg_ack_async_event(event), 0);
    uint64_t before = mrg_finding_count("leaked-mr");
    cr_expect_eq(mrg_destroy_ep(id), 0);
    cr_expect_eq(mrg_finding_count("leaked-mr"), before + 1, "the MR was left behind by the call that was refused");
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    expect_nothing_left();
}

Test(within, bind_without_mr_is_not_observed, .init = setup_observe_within)
{
    struct rig rig = new_rig(IBV_QPT_RC);
    mrg_mr *mr = mrg_reg_mr(rig.pd, memory, sizeof memory, ALL);
    mrg_mw *mw = mrg_alloc_mw(rig.pd, IBV_MW_TYPE_1);
    mrg_mw_bind bind = {.bind_info = {mr, (uintptr_t)memory, 64, IBV_ACCESS_REMOTE_READ}};
    cr_assert_eq(mrg_bind_mw(rig.qp, mw, &bind), 0);
    bind.bind_info.mr = NULL;
    expect_refused(mrg_bind_mw(rig.qp, mw, &bind), EINVAL, "unregistered-post");
    cr_expect_eq(mrg_dealloc_mw(mw), -1);
    cr_expect_eq(mrg_ibv_destroy_qp(rig.qp), 0);
    expect_refused(mrg_dereg_mr(mr), EBUSY, "window-bound");
    cr_expect_eq(mrg_dealloc_mw(mw), 0);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
}
