/* Posting as libibverbs does it: chains of WRs to a QP or an SRQ by its handle. */
#include <errno.h>

#include "api.h"
#include "post.h"
#include "qp.h"

API(int, mrg_ibv_post_send, (mrg_qp * qp, mrg_send_wr *wr, mrg_send_wr **bad_wr), (qp, wr, bad_wr))
{
    const mrg_send_wr *bad;
    if (!slot_find(qp, TYPE_QP))
        return refuse_handle(qp, TYPE_QP, HERE);
    if (!wr || !bad_wr)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "%s is NULL", wr ? "bad_wr" : "wr");
    int result = post_sends(handle_token(qp), wr, &bad, HERE);
    if (result)
        *bad_wr = (mrg_send_wr *)(uintptr_t)bad;
    return result;
}

static int recv_to(void *handle, enum type type, mrg_recv_wr *wr, mrg_recv_wr **bad_wr, const struct here *here)
{
    const mrg_recv_wr *bad;
    if (!slot_find(handle, type))
        return refuse_handle(handle, type, here);
    if (!wr || !bad_wr)
        return refuse(RULE_BAD_ARGUMENT, here, NULL, "%s is NULL", wr ? "bad_wr" : "wr");
    int result = post_recvs(handle_token(handle), wr, &bad, here);
    if (result)
        *bad_wr = (mrg_recv_wr *)(uintptr_t)bad;
    return result;
}

API(int, mrg_ibv_post_recv, (mrg_qp * qp, mrg_recv_wr *wr, mrg_recv_wr **bad_wr), (qp, wr, bad_wr))
{
    return recv_to(qp, TYPE_QP, wr, bad_wr, HERE);
}

API(int, mrg_post_srq_recv, (mrg_srq * srq, mrg_recv_wr *wr, mrg_recv_wr **bad_wr), (srq, wr, bad_wr))
{
    return recv_to(srq, TYPE_SRQ, wr, bad_wr, HERE);
}

/* Windows of type 1 */
API(int, mrg_bind_mw, (mrg_qp * qp, mrg_mw *mw, mrg_mw_bind *bind), (qp, mw, bind))
{
    if (!slot_find(qp, TYPE_QP))
        return refuse_handle(qp, TYPE_QP, HERE);
    if (!slot_find(mw, TYPE_MW))
        return refuse_handle(mw, TYPE_MW, HERE);
    if (!bind)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "bind is NULL");
    mrg_send_wr wr = {.wr_id = bind->wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = bind->send_flags};
    wr.bind_mw.mw = mw;
    wr.bind_mw.bind_info = bind->bind_info;
    return post_bind(handle_token(qp), &wr, HERE);
}
