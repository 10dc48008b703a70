/*
 * A program that is ported step by step: ids, PDs, QPs and CQs are raw, and stay so. mrguard registers on them, and its
 * MRs are posted by their raw keys under explicit borrows. The handles go first, the raw objects after them.
 */
#include <rdma/rdma_verbs.h>
#include <stdlib.h>

#include "scenarios.h"

#define SIZE 64

static unsigned char memory[SIZE];
static unsigned char message[MRG_REMOTE_SIZE];

/* Raw calls, which no failure strikes. */
static void raw(int result, const char *call)
{
    if (result < 0)
        life_fails("raw %s: %s", call, strerror(errno));
}

#define raw(call) raw(call, #call)

static struct rdma_cm_id *make_endpoint(uint16_t port, int flags)
{
    struct rdma_addrinfo *res = address(port, flags);
    struct ibv_qp_init_attr attr = {.cap = {2, 2, 1, 1, 0}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
    struct rdma_cm_id *id;
    raw(rdma_create_ep(&id, res, NULL, &attr));
    rdma_freeaddrinfo(res);
    return id;
}

static mrg_borrow *borrow(mrg_mr *mr, void *addr, size_t length, int access)
{
    mrg_borrow *made;
    try_out(made, mrg_borrow_begin(mr, addr, length, access, &made));
    return made;
}

static void await_sent(struct rdma_cm_id *id)
{
    struct ibv_wc wc;
    raw(rdma_get_send_comp(id, &wc));
    life_requires(wc.status == IBV_WC_SUCCESS, "a raw WR failed");
}

static void await_received(struct rdma_cm_id *id)
{
    struct ibv_wc wc;
    raw(rdma_get_recv_comp(id, &wc));
    life_requires(wc.status == IBV_WC_SUCCESS, "a raw WR failed");
}

/* Borrowed, an MR stays; mr: given up afterwards. */
static void end_and_dereg(mrg_borrow *borrowed, mrg_mr *mr)
{
    try_refused(mrg_dereg_mr(mr) == 0, EBUSY, "dereg-in-flight");
    try(mrg_borrow_end(borrowed));
    try(mrg_dereg_mr(mr));
}

/* The active side adopts its id. */

static void read_from(struct rdma_cm_id *id, mrg_id *adopted, const mrg_remote *remote)
{
    mrg_mr *mr;
    try_make(mr, mrg_reg_msgs(adopted, memory, sizeof memory));
    mrg_borrow *borrowed = borrow(mr, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    raw(rdma_post_read(id, NULL, memory, SIZE, mrg_mr_raw(mr), 0, remote->addr, remote->rkey));
    await_sent(id);
    life_requires(memory[SIZE - 1] == 'r', "the READ brought something else");
    end_and_dereg(borrowed, mr);
}

static void active(void)
{
    struct rdma_cm_id *id = make_endpoint(hear_port(), 0);
    mrg_id *adopted;
    mrg_mr *mr;
    mrg_remote remote;
    try_make(adopted, mrg_adopt_id(id));
    try_make(mr, mrg_reg_msgs(adopted, message, sizeof message));
    mrg_borrow *borrowed = borrow(mr, message, sizeof message, IBV_ACCESS_LOCAL_WRITE);
    raw(rdma_post_recv(id, NULL, message, sizeof message, mrg_mr_raw(mr)));
    raw(rdma_connect(id, NULL));
    await_received(id);
    try(mrg_remote_unpack(&remote, message, sizeof message));
    read_from(id, adopted, &remote);
    end_and_dereg(borrowed, mr);
    try(mrg_destroy_id(adopted)); /* lets it go */
    say('r');
    raw(rdma_disconnect(id));
    rdma_destroy_ep(id);
}

/* The passive side adopts its PD and its device. */

static mrg_mr *offer(struct rdma_cm_id *id, mrg_pd *pd)
{
    mrg_mr *mr, *message_mr;
    mrg_remote remote;
    memset(memory, 'r', sizeof memory);
    try_make(mr, mrg_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_REMOTE_READ));
    try_make(message_mr, mrg_reg_mr(pd, message, sizeof message, 0));
    try(mrg_mr_export(mr, 0, SIZE, IBV_ACCESS_REMOTE_READ, &remote));
    life_requires(mrg_remote_pack(&remote, message, sizeof message) == MRG_REMOTE_SIZE, "not packed");
    mrg_borrow *borrowed = borrow(message_mr, message, sizeof message, 0);
    raw(rdma_post_send(id, NULL, message, sizeof message, mrg_mr_raw(message_mr), 0));
    await_sent(id);
    end_and_dereg(borrowed, message_mr);
    return mr;
}

/* The same PD adopted twice is one handle with two references. */
static mrg_pd *adopt_pd(struct ibv_pd *pd)
{
    mrg_pd *adopted, *again;
    try_make(adopted, mrg_adopt_pd(pd));
    try_make(again, mrg_adopt_pd(pd));
    life_requires(again == adopted && mrg_pd_raw(adopted) == pd, "another handle for the same PD");
    try_unref(mrg_pd_unref(again));
    return adopted;
}

/* An object of mrguard's own on the raw device. */
static void use_device(struct ibv_context *device)
{
    mrg_context *adopted;
    mrg_comp_channel *channel;
    mrg_cq *cq;
    try_make(adopted, mrg_adopt_context(device));
    try_make(channel, mrg_create_comp_channel(adopted));
    try_make(cq, mrg_create_cq(adopted, 1, NULL, channel, 0));
    try(mrg_destroy_cq(cq));
    try(mrg_destroy_comp_channel(channel));
    try(mrg_close_device(adopted)); /* lets it go */
}

static void passive(void)
{
    struct rdma_cm_id *listener = make_endpoint(0, RAI_PASSIVE), *id;
    uint16_t port = ntohs(rdma_get_src_port(listener));
    raw(rdma_listen(listener, 4));
    say_bytes(&port, sizeof port);
    raw(rdma_get_request(listener, &id));
    mrg_pd *pd = adopt_pd(id->pd);
    use_device(id->verbs);
    raw(rdma_accept(id, NULL));
    mrg_mr *mr = offer(id, pd);
    hear('r');
    try(mrg_dereg_mr(mr));
    try(mrg_dealloc_pd(pd)); /* lets it go */
    raw(rdma_disconnect(id));
    rdma_destroy_ep(id);
    rdma_destroy_ep(listener);
}

const struct scenario adopted_scenario = {"adopted", {active, passive}};
