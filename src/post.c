/*
 * Posting: find the queue, borrow the MRs, judge, hand to the device. The order of events is that of queue.h:
 * the judgement comes after the borrow, so what was judged cannot change before the device has it.
 */
#include <errno.h>
#include <inttypes.h>

#include "api.h"
#include "id.h"
#include "mr.h"
#include "queue.h"
#include "remote.h"
#include "verbs.h"

#define SEND_FLAGS ((unsigned int)(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE))

/* One WR as the caller asks for it. */
struct ask {
    void *context;
    const mrg_sge *sgl;
    int count;
    int flags;
    enum ibv_wr_opcode opcode;
    uint32_t access; /* what the device does to the local memory */
    uint64_t remote_addr;
    uint32_t rkey;
};

static bool is_inline(const struct ask *ask)
{
    return ask->flags & IBV_SEND_INLINE;
}

/* Refusals. They run after the queue is let go; handles are looked at anew, for words only. */

static const struct slot *piece_slot(const mrg_sge *piece)
{
    return piece->mr ? slot_find(piece->mr, TYPE_MR) : NULL;
}

#define NEAR (UINT64_C(1) << 30)

static int refuse_range(const struct here *here, const mrg_sge *piece, const struct slot *mr)
{
    uint64_t addr = (uintptr_t)piece->addr, start = mr->hot.addr, size = mr->hot.length;
    if (addr < start ? start - addr > NEAR : addr - start > size && addr - start - size > NEAR)
        return refuse(RULE_OUT_OF_RANGE, here, mr, "%zu bytes at %p are nowhere near the MR: is it another buffer's?",
                      piece->length, piece->addr);
    if (addr < start)
        return refuse(RULE_OUT_OF_RANGE, here, mr, "%zu bytes at %p begin %" PRIu64 " bytes before the MR",
                      piece->length, piece->addr, start - addr);
    uint64_t beyond =
        addr - start > size ? addr - start - size + piece->length : piece->length - (size - (addr - start));
    return refuse(RULE_OUT_OF_RANGE, here, mr, "%zu bytes at %p reach %" PRIu64 " byte%s beyond the MR", piece->length,
                  piece->addr, beyond, beyond == 1 ? "" : "s");
}

static int refuse_piece(enum rule rule, const struct here *here, const mrg_sge *piece)
{
    const struct slot *mr = piece_slot(piece);
    if (rule == RULE_OUT_OF_RANGE && !mr) /* it went meanwhile */
        rule = RULE_STALE_HANDLE;
    switch (rule) {
    case RULE_UNREGISTERED_POST:
        return refuse(rule, here, NULL, "%zu bytes at %p come without an MR", piece->length, piece->addr);
    case RULE_LENGTH_TRUNCATED:
        return refuse(rule, here, mr, "%zu bytes do not fit the 32-bit length of an SGE", piece->length);
    case RULE_WRONG_PD:
        return refuse(rule, here, mr, "the MR is on another PD than the QP");
    case RULE_OUT_OF_RANGE:
        return refuse_range(here, piece, mr);
    case RULE_MISSING_ACCESS:
        return refuse(rule, here, mr, "the device would write into an MR registered without IBV_ACCESS_LOCAL_WRITE");
    default:
        return refuse_handle(piece->mr, TYPE_MR, here);
    }
}

static int refuse_message(enum rule rule, const struct here *here, uint64_t bytes, const struct qp *qp)
{
    if (rule == RULE_INLINE_TOO_LONG)
        return refuse(rule, here, NULL, "%" PRIu64 " bytes inline, where the QP was granted %" PRIu32, bytes,
                      qp->max_inline);
    return refuse(rule, here, NULL, "%" PRIu64 " bytes in one WR, where a message holds 2 GiB", bytes);
}

/* Judgement */

struct verdict {
    enum rule rule;
    int piece; /* -1: the message as a whole */
    uint64_t bytes;
};

static enum rule judge_piece(const struct ask *ask, const mrg_sge *piece, uint32_t pd)
{
    if (!piece->length || is_inline(ask))
        return piece->length > UINT32_MAX ? RULE_LENGTH_TRUNCATED : RULE_NONE;
    struct sge_facts sge = {(uintptr_t)piece->addr, piece->length, ask->access, pd};
    if (!piece->mr)
        return check_sge(&sge, NULL);
    struct mr_facts mr = mr_facts(slot_at(handle_token(piece->mr)));
    return check_sge(&sge, &mr);
}

static struct verdict judge(const struct ask *ask, const struct qp *qp)
{
    struct verdict verdict = {.piece = -1};
    for (int i = 0; i < ask->count; i++) {
        verdict.rule = judge_piece(ask, &ask->sgl[i], qp->pd);
        if (verdict.rule != RULE_NONE) {
            verdict.piece = i;
            return verdict;
        }
        verdict.bytes += ask->sgl[i].length;
    }
    verdict.rule = check_message(verdict.bytes, is_inline(ask), qp->max_inline);
    return verdict;
}

/* To the device. The queue is locked: its sges are ours for the moment. */

static int fill(struct ibv_sge *sges, const struct ask *ask)
{
    int filled = 0;
    for (int i = 0; i < ask->count; i++) {
        const mrg_sge *piece = &ask->sgl[i];
        if (!piece->length)
            continue;
        sges[filled++] = (struct ibv_sge){
            .addr = (uintptr_t)piece->addr,
            .length = (uint32_t)piece->length,
            .lkey = is_inline(ask) || !piece->mr
                        ? 0
                        : atomic_load_explicit(&slot_at(handle_token(piece->mr))->hot.lkey, memory_order_relaxed),
        };
    }
    return filled;
}

static int hand_send(struct qp *qp, const struct ask *ask, uint64_t wr_id, struct ibv_sge *sges)
{
    struct ibv_send_wr *bad;
    struct ibv_send_wr wr = {
        .wr_id = wr_id,
        .sg_list = sges,
        .num_sge = fill(sges, ask),
        .opcode = ask->opcode,
        .send_flags = (unsigned int)ask->flags,
        .wr.rdma = {ask->remote_addr, ask->rkey},
    };
    return verbs.post_send(qp->raw, &wr, &bad);
}

static int hand_recv(struct qp *qp, const struct ask *ask, uint64_t wr_id, struct ibv_sge *sges)
{
    struct ibv_recv_wr *bad;
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = sges, .num_sge = fill(sges, ask)};
    return verbs.post_recv(qp->raw, &wr, &bad);
}

static int refuse_begin(enum begin why, const struct ask *ask, int piece, const struct here *here)
{
    if (why == BEGIN_FULL)
        return failed_below(ENOMEM);
    if (why == BEGIN_STALE)
        return refuse_handle(ask->sgl[piece].mr, TYPE_MR, here);
    if (why == BEGIN_TOO_MANY)
        return refuse(RULE_BAD_ARGUMENT, here, NULL, "%d pieces, where the QP was granted %d", ask->count, piece);
    return refuse(RULE_STALE_HANDLE, here, NULL, "another thread is destroying the QP");
}

static int post(token t, int which, const struct ask *ask, const struct here *here)
{
    struct slot *slot = slot_at(t);
    struct qp *qp = qp_of(slot);
    struct queue *queue = &qp->queues[which];
    struct wr wr = {(uintptr_t)ask->context, ask->sgl, ask->count, .borrows = !is_inline(ask)};
    uint64_t wr_id;
    int piece;
    enum begin begun = borrow_begin(queue, t, &wr, &wr_id, &piece);
    if (begun != BEGIN_OK)
        return refuse_begin(begun, ask, piece, here);
    struct verdict verdict = judge(ask, qp);
    if (verdict.rule != RULE_NONE) {
        borrow_withdraw(queue);
        return verdict.piece < 0 ? refuse_message(verdict.rule, here, verdict.bytes, qp)
                                 : refuse_piece(verdict.rule, here, &ask->sgl[verdict.piece]);
    }
    int error = which == SEND_QUEUE ? hand_send(qp, ask, wr_id, queue->sges) : hand_recv(qp, ask, wr_id, queue->sges);
    if (!error) {
        borrow_commit(queue);
        return 0;
    }
    bool early = qp->raw->state < (which == SEND_QUEUE ? IBV_QPS_RTS : IBV_QPS_INIT);
    borrow_withdraw(queue);
    if (error == EINVAL && early)
        return refuse(RULE_WRONG_STATE, here, slot, "the QP is not connected yet, so it takes no such WR");
    return failed_below(error);
}

static int post_to(mrg_id *id, int which, const struct ask *ask, const struct here *here)
{
    token qp = id_find_qp(id, here);
    if (!qp)
        return -1;
    const struct slot *slot = slot_at(qp);
    if ((unsigned int)ask->flags & ~SEND_FLAGS)
        return refuse(RULE_BAD_ARGUMENT, here, slot, "flags 0x%x have bits that a post does not know", ask->flags);
    if (ask->count < 0 || (ask->count && !ask->sgl))
        return refuse(RULE_BAD_ARGUMENT, here, slot, "%d pieces at %p", ask->count, (const void *)ask->sgl);
    return post(qp, which, ask, here);
}

/* The calls */

API(int, mrg_post_recvv, (mrg_id * id, void *context, const mrg_sge *sgl, int nsge), (id, context, sgl, nsge))
{
    struct ask ask = {context, sgl, nsge, .access = IBV_ACCESS_LOCAL_WRITE};
    return post_to(id, RECV_QUEUE, &ask, HERE);
}

API(int, mrg_post_sendv, (mrg_id * id, void *context, const mrg_sge *sgl, int nsge, int flags),
    (id, context, sgl, nsge, flags))
{
    struct ask ask = {context, sgl, nsge, flags, IBV_WR_SEND, 0, 0, 0};
    return post_to(id, SEND_QUEUE, &ask, HERE);
}

API(int, mrg_post_readv,
    (mrg_id * id, void *context, const mrg_sge *sgl, int nsge, int flags, uint64_t remote_addr, uint32_t rkey),
    (id, context, sgl, nsge, flags, remote_addr, rkey))
{
    struct ask ask = {context, sgl, nsge, flags, IBV_WR_RDMA_READ, IBV_ACCESS_LOCAL_WRITE, remote_addr, rkey};
    return post_to(id, SEND_QUEUE, &ask, HERE);
}

API(int, mrg_post_writev,
    (mrg_id * id, void *context, const mrg_sge *sgl, int nsge, int flags, uint64_t remote_addr, uint32_t rkey),
    (id, context, sgl, nsge, flags, remote_addr, rkey))
{
    struct ask ask = {context, sgl, nsge, flags, IBV_WR_RDMA_WRITE, 0, remote_addr, rkey};
    return post_to(id, SEND_QUEUE, &ask, HERE);
}

API(int, mrg_post_recv, (mrg_id * id, void *context, void *addr, size_t length, mrg_mr *mr),
    (id, context, addr, length, mr))
{
    mrg_sge sge = {addr, length, mr};
    struct ask ask = {context, &sge, 1, .access = IBV_ACCESS_LOCAL_WRITE};
    return post_to(id, RECV_QUEUE, &ask, HERE);
}

API(int, mrg_post_send, (mrg_id * id, void *context, const void *addr, size_t length, mrg_mr *mr, int flags),
    (id, context, addr, length, mr, flags))
{
    mrg_sge sge = {(void *)(uintptr_t)addr, length, mr};
    struct ask ask = {context, &sge, 1, flags, IBV_WR_SEND, 0, 0, 0};
    return post_to(id, SEND_QUEUE, &ask, HERE);
}

API(int, mrg_post_read,
    (mrg_id * id, void *context, void *addr, size_t length, mrg_mr *mr, int flags, uint64_t remote_addr, uint32_t rkey),
    (id, context, addr, length, mr, flags, remote_addr, rkey))
{
    mrg_sge sge = {addr, length, mr};
    struct ask ask = {context, &sge, 1, flags, IBV_WR_RDMA_READ, IBV_ACCESS_LOCAL_WRITE, remote_addr, rkey};
    return post_to(id, SEND_QUEUE, &ask, HERE);
}

API(int, mrg_post_write,
    (mrg_id * id, void *context, const void *addr, size_t length, mrg_mr *mr, int flags, uint64_t remote_addr,
     uint32_t rkey),
    (id, context, addr, length, mr, flags, remote_addr, rkey))
{
    mrg_sge sge = {(void *)(uintptr_t)addr, length, mr};
    struct ask ask = {context, &sge, 1, flags, IBV_WR_RDMA_WRITE, 0, remote_addr, rkey};
    return post_to(id, SEND_QUEUE, &ask, HERE);
}

API(int, mrg_post_read_from,
    (mrg_id * id, void *context, void *addr, size_t length, mrg_mr *mr, int flags, const mrg_remote *remote,
     uint64_t offset),
    (id, context, addr, length, mr, flags, remote, offset))
{
    if (remote_refuse_use(remote, offset, length, IBV_ACCESS_REMOTE_READ, HERE))
        return -1;
    mrg_sge sge = {addr, length, mr};
    struct ask ask = {context,     &sge, 1, flags, IBV_WR_RDMA_READ, IBV_ACCESS_LOCAL_WRITE, remote->addr + offset,
                      remote->rkey};
    return post_to(id, SEND_QUEUE, &ask, HERE);
}

API(int, mrg_post_write_to,
    (mrg_id * id, void *context, const void *addr, size_t length, mrg_mr *mr, int flags, const mrg_remote *remote,
     uint64_t offset),
    (id, context, addr, length, mr, flags, remote, offset))
{
    if (remote_refuse_use(remote, offset, length, IBV_ACCESS_REMOTE_WRITE, HERE))
        return -1;
    mrg_sge sge = {(void *)(uintptr_t)addr, length, mr};
    struct ask ask = {context, &sge, 1, flags, IBV_WR_RDMA_WRITE, 0, remote->addr + offset, remote->rkey};
    return post_to(id, SEND_QUEUE, &ask, HERE);
}
