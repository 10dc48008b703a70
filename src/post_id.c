/* Posting as librdmacm does it: one WR to an id, with its parts as arguments. */
#include <errno.h>

#include "api.h"
#include "id.h"
#include "post.h"
#include "quick.h"
#include "remote.h"
#include "verbs.h"

static int send_to(mrg_id *id, mrg_send_wr *wr, const struct here *here)
{
    const mrg_send_wr *bad;
    token qp = id_find_qp(id, here);
    return qp ? post_sends(qp, wr, &bad, here) : -1;
}

/* A receive goes to the id's SRQ if it has one. */
static int recv_to(mrg_id *id, const mrg_recv_wr *wr, const struct here *here)
{
    const mrg_recv_wr *bad;
    token owner = id_find_recv(id, here);
    return owner ? post_recvs(owner, wr, &bad, here) : -1;
}

/* One WR as its caller gives it. */
#define SEND_WR(code, context, sgl, nsge, flags, ...)                                         \
    {                                                                                         \
        .wr_id = (uintptr_t)(context), .sg_list = (sgl), .num_sge = (nsge), .opcode = (code), \
        .send_flags = (unsigned int)(flags), __VA_ARGS__                                      \
    }

API(int, mrg_post_recvv, (mrg_id * id, void *context, const mrg_sge *sgl, int nsge), (id, context, sgl, nsge))
{
    mrg_recv_wr wr = {(uintptr_t)context, NULL, sgl, nsge};
    return recv_to(id, &wr, HERE);
}

API(int, mrg_post_sendv, (mrg_id * id, void *context, const mrg_sge *sgl, int nsge, int flags),
    (id, context, sgl, nsge, flags))
{
    mrg_send_wr wr = SEND_WR(IBV_WR_SEND, context, sgl, nsge, flags, );
    return send_to(id, &wr, HERE);
}

API(int, mrg_post_readv,
    (mrg_id * id, void *context, const mrg_sge *sgl, int nsge, int flags, uint64_t remote_addr, uint32_t rkey),
    (id, context, sgl, nsge, flags, remote_addr, rkey))
{
    mrg_send_wr wr = SEND_WR(IBV_WR_RDMA_READ, context, sgl, nsge, flags, .wr.rdma = {remote_addr, rkey});
    return send_to(id, &wr, HERE);
}

API(int, mrg_post_writev,
    (mrg_id * id, void *context, const mrg_sge *sgl, int nsge, int flags, uint64_t remote_addr, uint32_t rkey),
    (id, context, sgl, nsge, flags, remote_addr, rkey))
{
    mrg_send_wr wr = SEND_WR(IBV_WR_RDMA_WRITE, context, sgl, nsge, flags, .wr.rdma = {remote_addr, rkey});
    return send_to(id, &wr, HERE);
}

API(int, mrg_post_recv, (mrg_id * id, void *context, void *addr, size_t length, mrg_mr *mr),
    (id, context, addr, length, mr))
{
    struct quick quick;
    token qp = 0;
    struct queue *queue = quick_queue(id, RECV_QUEUE, &qp);
    if (queue && quick_begin(&quick, queue, qp, RECV_QUEUE, (uintptr_t)context, (uintptr_t)addr, length, mr,
                             IBV_ACCESS_LOCAL_WRITE)) {
        struct ibv_recv_wr *bad, raw = {quick.wr_id, NULL, &quick.sge, 1};
        int error = verbs.post_recv(quick_qp(queue, RECV_QUEUE)->raw, &raw, &bad);
        return quick_close(&quick, error, IBV_QPS_INIT, HERE);
    }
    mrg_sge sge = {addr, length, mr};
    mrg_recv_wr wr = {(uintptr_t)context, NULL, &sge, 1};
    return recv_to(id, &wr, HERE);
}

/* A WR of one piece, for the queue of sends: the remote part of READs and WRITEs alone. */
static inline int send_one(mrg_id *id, void *context, const void *addr, size_t length, mrg_mr *mr,
                           enum ibv_wr_opcode opcode, int flags, uint64_t remote_addr, uint32_t rkey,
                           const struct here *here)
{
    struct quick quick;
    token qp = 0;
    struct queue *queue = (unsigned int)flags & ~PLAIN_FLAGS ? NULL : quick_queue(id, SEND_QUEUE, &qp);
    uint32_t access = opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0;
    if (queue && quick_begin(&quick, queue, qp, SEND_QUEUE, (uintptr_t)context, (uintptr_t)addr, length, mr, access)) {
        struct ibv_send_wr *bad, raw;
        raw.wr_id = quick.wr_id;
        raw.next = NULL;
        raw.sg_list = &quick.sge;
        raw.num_sge = 1;
        raw.opcode = opcode;
        raw.send_flags = (unsigned int)flags;
        raw.wr.rdma.remote_addr = remote_addr;
        raw.wr.rdma.rkey = rkey;
        int error = verbs.post_send(quick_qp(queue, SEND_QUEUE)->raw, &raw, &bad);
        return quick_close(&quick, error, IBV_QPS_RTS, here);
    }
    mrg_sge sge = {(void *)(uintptr_t)addr, length, mr};
    mrg_send_wr wr = SEND_WR(opcode, context, &sge, 1, flags, .wr.rdma = {remote_addr, rkey});
    return send_to(id, &wr, here);
}

API(int, mrg_post_send, (mrg_id * id, void *context, const void *addr, size_t length, mrg_mr *mr, int flags),
    (id, context, addr, length, mr, flags))
{
    return send_one(id, context, addr, length, mr, IBV_WR_SEND, flags, 0, 0, HERE);
}

API(int, mrg_post_read,
    (mrg_id * id, void *context, void *addr, size_t length, mrg_mr *mr, int flags, uint64_t remote_addr, uint32_t rkey),
    (id, context, addr, length, mr, flags, remote_addr, rkey))
{
    return send_one(id, context, addr, length, mr, IBV_WR_RDMA_READ, flags, remote_addr, rkey, HERE);
}

API(int, mrg_post_write,
    (mrg_id * id, void *context, const void *addr, size_t length, mrg_mr *mr, int flags, uint64_t remote_addr,
     uint32_t rkey),
    (id, context, addr, length, mr, flags, remote_addr, rkey))
{
    return send_one(id, context, addr, length, mr, IBV_WR_RDMA_WRITE, flags, remote_addr, rkey, HERE);
}

API(int, mrg_post_read_from,
    (mrg_id * id, void *context, void *addr, size_t length, mrg_mr *mr, int flags, const mrg_remote *remote,
     uint64_t offset),
    (id, context, addr, length, mr, flags, remote, offset))
{
    if (remote_refuse_use(remote, offset, length, IBV_ACCESS_REMOTE_READ, HERE))
        return -1;
    return send_one(id, context, addr, length, mr, IBV_WR_RDMA_READ, flags, remote->addr + offset, remote->rkey, HERE);
}

API(int, mrg_post_write_to,
    (mrg_id * id, void *context, const void *addr, size_t length, mrg_mr *mr, int flags, const mrg_remote *remote,
     uint64_t offset),
    (id, context, addr, length, mr, flags, remote, offset))
{
    if (remote_refuse_use(remote, offset, length, IBV_ACCESS_REMOTE_WRITE, HERE))
        return -1;
    return send_one(id, context, addr, length, mr, IBV_WR_RDMA_WRITE, flags, remote->addr + offset, remote->rkey, HERE);
}

API(int, mrg_post_ud_send,
    (mrg_id * id, void *context, const void *addr, size_t length, mrg_mr *mr, int flags, mrg_ah *ah,
     uint32_t remote_qpn),
    (id, context, addr, length, mr, flags, ah, remote_qpn))
{
    token qp = id_find_qp(id, HERE);
    if (!qp)
        return -1;
    struct slot *slot = object_enter((void *)(uintptr_t)qp, TYPE_QP, HERE);
    if (!slot)
        return -1;
    bool datagrams = qp_of(slot)->raw->qp_type == IBV_QPT_UD;
    object_exit(slot);
    if (!datagrams)
        return refuse(RULE_WRONG_STATE, HERE, slot_at(qp),
                      "the QP does not send datagrams: its id is not of RDMA_PS_UDP");
    mrg_sge sge = {(void *)(uintptr_t)addr, length, mr};
    mrg_send_wr wr = SEND_WR(IBV_WR_SEND, context, &sge, 1, flags, .wr.ud = {ah, remote_qpn, RDMA_UDP_QKEY});
    return send_to(id, &wr, HERE);
}
