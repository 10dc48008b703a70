/* The raw WR that the provider gets for one of ours. All that the WR uses is held. */
#ifndef MRG_RAW_H
#define MRG_RAW_H

#include "ah.h"
#include "mw.h"
#include "qp.h"

static inline void raw_bind_info(struct ibv_mw_bind_info *raw, const mrg_mw_bind_info *bind)
{
    *raw = (struct ibv_mw_bind_info){
        .mr = bind->mr ? slot_at(handle_token(bind->mr))->hot.raw : NULL,
        .addr = bind->addr,
        .length = bind->length,
        .mw_access_flags = bind->mw_access_flags,
    };
}

/* What only windows, datagrams and XRC have. */
static inline void raw_odd(struct ibv_send_wr *raw, const mrg_send_wr *wr, const struct qp *qp)
{
    if (wr->opcode == IBV_WR_BIND_MW || wr->opcode == IBV_WR_LOCAL_INV) {
        struct mw *mw = mw_of(slot_at(handle_token(wr->bind_mw.mw)));
        if (wr->opcode == IBV_WR_LOCAL_INV) {
            raw->invalidate_rkey = mw->handed;
        } else {
            raw->bind_mw.mw = mw->raw;
            raw->bind_mw.rkey = mw->handed = wr->bind_mw.rkey;
            raw_bind_info(&raw->bind_mw.bind_info, &wr->bind_mw.bind_info);
        }
    } else if (qp->raw->qp_type == IBV_QPT_UD) {
        raw->wr.ud.ah = ah_of(slot_at(handle_token(wr->wr.ud.ah)))->raw;
        raw->wr.ud.remote_qpn = wr->wr.ud.remote_qpn;
        raw->wr.ud.remote_qkey = wr->wr.ud.remote_qkey;
    }
    raw->qp_type.xrc.remote_srqn = wr->qp_type.xrc.remote_srqn;
}

/* Field by field, and only what the opcode has: this is on every send's way. */
static inline void raw_send(struct ibv_send_wr *raw, const mrg_send_wr *wr)
{
    raw->next = NULL;
    raw->opcode = wr->opcode;
    raw->send_flags = wr->send_flags;
    raw->imm_data = wr->imm_data;
    switch (wr->opcode) {
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        raw->wr.atomic.compare_add = wr->wr.atomic.compare_add;
        raw->wr.atomic.swap = wr->wr.atomic.swap;
        raw->wr.atomic.remote_addr = wr->wr.atomic.remote_addr;
        raw->wr.atomic.rkey = wr->wr.atomic.rkey;
        break;
    case IBV_WR_RDMA_READ:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        raw->wr.rdma.remote_addr = wr->wr.rdma.remote_addr;
        raw->wr.rdma.rkey = wr->wr.rdma.rkey;
        break;
    default:
        break;
    }
}

#endif
