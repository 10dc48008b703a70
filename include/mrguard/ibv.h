/*
 * One level below librdmacm: what infiniband/verbs.h does for programs that connect QPs themselves, with handles; and the
 * ways in and out for programs that are ported step by step. What is common to all calls stands in verbs.h.
 *
 * ibv_x is mrg_x here; where librdmacm has a function of that name, mrg_x is librdmacm's and this is mrg_ibv_x.
 */
#ifndef MRGUARD_IBV_H
#define MRGUARD_IBV_H

#include <mrguard/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Devices */

/*
 * Opens a device of ibv_get_device_list (ibv_open_device). The caller owns the context: mrg_close_device. EINVAL
 * (bad-argument): device NULL.
 */
MRG_API mrg_context *mrg_open_device(struct ibv_device *device) MRG_MUST_CHECK MRG_GIVES;

/*
 * Closes a device (ibv_close_device), or gives up what mrg_adopt_context or mrg_get_devices gave. EBUSY
 * (destroy-order): something made on it is left. EINVAL (wrong-state): it was not opened by the caller but for an id
 * (mrg_id_verbs), and closes with that.
 */
MRG_API int mrg_close_device(mrg_context *context MRG_TAKES);

/*
 * The contexts of all devices that librdmacm uses, NULL at the end, and how many in *num_devices unless that is NULL
 * (rdma_get_devices). The caller gives back the list with mrg_free_devices, which closes each context that is not
 * needed otherwise: -1 if one was closed already; the list is freed all the same. EINVAL (bad-argument): list NULL.
 */
MRG_API mrg_context **mrg_get_devices(int *num_devices) MRG_MUST_CHECK MRG_GIVES;
MRG_API int mrg_free_devices(mrg_context **list MRG_TAKES);

/* ibv_query_device and its like: what the device says. EINVAL (bad-argument): no room for the answer. */
MRG_API int mrg_query_device(mrg_context *context, struct ibv_device_attr *device_attr) MRG_MUST_CHECK;
MRG_API int mrg_query_device_ex(mrg_context *context, const struct ibv_query_device_ex_input *input,
                                struct ibv_device_attr_ex *attr) MRG_MUST_CHECK;
MRG_API int mrg_query_port(mrg_context *context, uint8_t port_num, struct ibv_port_attr *port_attr) MRG_MUST_CHECK;
MRG_API int mrg_query_gid(mrg_context *context, uint8_t port_num, int index, union ibv_gid *gid) MRG_MUST_CHECK;
MRG_API int mrg_query_pkey(mrg_context *context, uint8_t port_num, int index, __be16 *pkey) MRG_MUST_CHECK;

/* Asynchronous events */

/*
 * Waits for the device's next asynchronous event and stores it in *ret (ibv_get_async_event). The caller owns it until
 * mrg_ack_async_event: the QP, CQ or SRQ that it is about cannot be destroyed before (EBUSY, unacked-event), where
 * libibverbs would hang. Blocks unless the descriptor (mrg_context_async_fd, which stays the device's) is non-blocking
 * (EAGAIN). EINVAL (bad-argument): ret NULL.
 */
MRG_API int mrg_get_async_event(mrg_context *context, mrg_async_event **ret) MRG_MUST_CHECK;
MRG_API int mrg_ack_async_event(mrg_async_event *event MRG_TAKES);
MRG_API int mrg_context_async_fd(mrg_context *context MRG_BORROWS);

/* What it says: its ibv_event_type (-1 for a bad handle); what it is about, NULL or 0 where that is something else. */
MRG_API int mrg_async_event_type(mrg_async_event *event MRG_BORROWS);
MRG_API mrg_qp *mrg_async_event_qp(mrg_async_event *event MRG_BORROWS);
MRG_API mrg_cq *mrg_async_event_cq(mrg_async_event *event MRG_BORROWS);
MRG_API mrg_srq *mrg_async_event_srq(mrg_async_event *event MRG_BORROWS);
MRG_API int mrg_async_event_port(mrg_async_event *event MRG_BORROWS);

/* Domains */

/*
 * A thread domain (ibv_alloc_td), and a parent domain, which is a PD joined to it (ibv_alloc_parent_domain; td may be
 * NULL): what is made on either of the two PDs works with what is made on the other. The caller owns them:
 * mrg_dealloc_td, mrg_dealloc_pd; the parent domain goes first (EBUSY, destroy-order). EINVAL (bad-argument): attr
 * NULL. EXDEV (wrong-pd): td is on another device. EOPNOTSUPP: the provider has none.
 */
MRG_API mrg_td *mrg_alloc_td(mrg_context *context, struct ibv_td_init_attr *attr) MRG_MUST_CHECK MRG_GIVES;
MRG_API int mrg_dealloc_td(mrg_td *td MRG_TAKES);
MRG_API mrg_pd *mrg_alloc_parent_domain(mrg_pd *pd, mrg_td *td) MRG_MUST_CHECK MRG_GIVES;

/*
 * An XRC domain (ibv_open_xrcd). The caller owns it: mrg_close_xrcd, EBUSY (destroy-order) while a QP or SRQ uses it.
 * EINVAL (bad-argument): attr NULL. EOPNOTSUPP: the device has none.
 */
MRG_API mrg_xrcd *mrg_open_xrcd(mrg_context *context, struct ibv_xrcd_init_attr *attr) MRG_MUST_CHECK MRG_GIVES;
MRG_API int mrg_close_xrcd(mrg_xrcd *xrcd MRG_TAKES);

/* SRQs */

/*
 * An SRQ of no id (ibv_create_srq; _ex: on attr->pd). The caller owns it: mrg_ibv_destroy_srq, EBUSY while a QP
 * receives from it (destroy-order) or an event of its is not acknowledged (unacked-event); EINVAL (wrong-state): it was
 * made for an id. attr->attr holds what was granted afterwards. EINVAL (bad-argument): attr or its PD NULL. EXDEV
 * (wrong-pd): a part is on another device. An MR in a WR of an SRQ is borrowed until the WR's completion is polled or
 * the SRQ is gone.
 */
MRG_API mrg_srq *mrg_ibv_create_srq(mrg_pd *pd, mrg_srq_init_attr *attr) MRG_MUST_CHECK MRG_GIVES;
MRG_API mrg_srq *mrg_ibv_create_srq_ex(mrg_context *context, mrg_srq_init_attr *attr) MRG_MUST_CHECK MRG_GIVES;
MRG_API int mrg_ibv_destroy_srq(mrg_srq *srq MRG_TAKES);

/*
 * ibv_modify_srq, ibv_query_srq, ibv_get_srq_num: as there. EINVAL (bad-argument): NULL. EOPNOTSUPP (bad-argument):
 * IBV_SRQ_MAX_WR, since a tracked SRQ keeps its size.
 */
MRG_API int mrg_modify_srq(mrg_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask) MRG_MUST_CHECK;
MRG_API int mrg_query_srq(mrg_srq *srq, struct ibv_srq_attr *srq_attr) MRG_MUST_CHECK;
MRG_API int mrg_get_srq_num(mrg_srq *srq, uint32_t *srq_num) MRG_MUST_CHECK;

/* QPs */

/*
 * A QP of no id, in state RESET (ibv_create_qp; _ex: on attr->pd, and for XRC). The caller owns it: mrg_ibv_destroy_qp,
 * EBUSY while an asynchronous event of its is not acknowledged (unacked-event) or it is joined to a multicast group
 * (destroy-order); EINVAL (wrong-state): it was made for an id. attr->cap holds what was granted afterwards. EINVAL
 * (bad-argument): attr NULL, or a part that the type needs. EXDEV (wrong-pd): a part is on another device.
 */
MRG_API mrg_qp *mrg_ibv_create_qp(mrg_pd *pd, mrg_qp_init_attr *attr) MRG_MUST_CHECK MRG_GIVES;
MRG_API mrg_qp *mrg_ibv_create_qp_ex(mrg_context *context, mrg_qp_init_attr *attr) MRG_MUST_CHECK MRG_GIVES;
MRG_API int mrg_ibv_destroy_qp(mrg_qp *qp MRG_TAKES);

/*
 * Brings a QP to a state, an id's as well (ibv_modify_qp). To RESET: what was in flight is dropped and its borrows
 * end; completions of it that are still in a CQ are not handed out, but for receives from an SRQ, whose WRs they are. Posts
 * of other threads find the QP shut meanwhile (ESTALE). EINVAL (bad-argument): attr NULL.
 */
MRG_API int mrg_modify_qp(mrg_qp *qp, struct ibv_qp_attr *attr, int attr_mask) MRG_MUST_CHECK;

/* What a QP is and was made with (ibv_query_qp), with handles. EINVAL (bad-argument): NULL. */
MRG_API int mrg_query_qp(mrg_qp *qp, struct ibv_qp_attr *attr, int attr_mask, mrg_qp_init_attr *init_attr)
    MRG_MUST_CHECK;

/* ibv_attach_mcast, ibv_detach_mcast: as there; the kernel refuses to destroy an attached QP (EBUSY). */
MRG_API int mrg_attach_mcast(mrg_qp *qp, const union ibv_gid *gid, uint16_t lid) MRG_MUST_CHECK;
MRG_API int mrg_detach_mcast(mrg_qp *qp, const union ibv_gid *gid, uint16_t lid) MRG_MUST_CHECK;

/* Its number and its attributes' qp_context. Lock-free. 0 or NULL with errno for a bad handle. */
MRG_API uint32_t mrg_qp_num(mrg_qp *qp MRG_BORROWS);
MRG_API void *mrg_qp_context(mrg_qp *qp MRG_BORROWS);

/* Work */

/*
 * Post a chain of WRs to a QP's queues, an id's as well, or to an SRQ (ibv_post_send, ibv_post_recv, ibv_post_srq_recv).
 * Rules and errno are those of mrg_post_send in verbs.h. If a WR of the chain breaks a rule none is posted; nothing is
 * left open between calls, however many WRs go together. Where the device refuses one, those before it are posted.
 * *bad_wr: the first that is not posted. EINVAL (bad-argument): wr or bad_wr NULL, an opcode that cannot be posted
 * (TSO, DRIVER1); (wrong-state): a receive on a QP with an SRQ. Cost: as mrg_post_send; WRs go to the device in groups
 * of 16.
 */
MRG_API int mrg_ibv_post_send(mrg_qp *qp, mrg_send_wr *wr, mrg_send_wr **bad_wr) MRG_MUST_CHECK;
MRG_API int mrg_ibv_post_recv(mrg_qp *qp, mrg_recv_wr *wr, mrg_recv_wr **bad_wr) MRG_MUST_CHECK;
MRG_API int mrg_post_srq_recv(mrg_srq *srq, mrg_recv_wr *wr, mrg_recv_wr **bad_wr) MRG_MUST_CHECK;

/* Address handles */

/*
 * An address handle (ibv_create_ah), or one that answers a datagram that was received (ibv_create_ah_from_wc). The caller
 * owns it: mrg_destroy_ah, EBUSY (destroy-order) while a WR in flight uses it. EINVAL (bad-argument): NULL.
 */
MRG_API mrg_ah *mrg_create_ah(mrg_pd *pd, struct ibv_ah_attr *attr) MRG_MUST_CHECK MRG_GIVES;
MRG_API mrg_ah *mrg_create_ah_from_wc(mrg_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port_num)
    MRG_MUST_CHECK MRG_GIVES;
MRG_API int mrg_init_ah_from_wc(mrg_context *context, uint8_t port_num, struct ibv_wc *wc, struct ibv_grh *grh,
                                struct ibv_ah_attr *ah_attr) MRG_MUST_CHECK;
MRG_API int mrg_destroy_ah(mrg_ah *ah MRG_TAKES);

/* Memory windows */

/*
 * A memory window of a PD (ibv_alloc_mw). The caller owns it: mrg_dealloc_mw, EBUSY (destroy-order) while a WR in flight
 * binds or invalidates it. EINVAL (bad-argument): no such type.
 */
MRG_API mrg_mw *mrg_alloc_mw(mrg_pd *pd, enum ibv_mw_type type) MRG_MUST_CHECK MRG_GIVES;
MRG_API int mrg_dealloc_mw(mrg_mw *mw MRG_TAKES);

/* The window's key for peers: that of its last bind. 0 with errno for a bad handle. Lock-free. */
MRG_API uint32_t mrg_mw_rkey(mrg_mw *mw MRG_BORROWS);

/* The key that a window of type 2 gets with its next bind (ibv_inc_rkey). */
static inline uint32_t mrg_inc_rkey(uint32_t rkey)
{
    return ibv_inc_rkey(rkey);
}

/*
 * Posts the bind of a window of type 1 (ibv_bind_mw), length 0 closes it; one of type 2 is bound by a WR,
 * IBV_WR_BIND_MW, and unbound by IBV_WR_LOCAL_INV, which names the window, or by a peer's SEND_WITH_INV. From the post
 * on, the MR is not deregistered while the window is bound to it (EBUSY, window-bound). EINVAL: bind NULL, a window of
 * the other type (bad-argument); another thread posts a bind of it, its chain has bound it already, or it is to be closed
 * and is bound to nothing (wrong-state). EACCES (missing-access): the MR was registered without IBV_ACCESS_MW_BIND, or
 * without local write for a window that lets a peer write. ERANGE, EXDEV, ESTALE: as for mrg_post_send.
 */
MRG_API int mrg_bind_mw(mrg_qp *qp, mrg_mw *mw, mrg_mw_bind *mw_bind) MRG_MUST_CHECK;

/* Step by step */

/*
 * Handles for raw objects of the caller's, which stay the caller's: releasing the handle lets the raw object go and does
 * not destroy it. The handle goes first. On an adopted PD mrg_reg_mr and its siblings work as on any other, with QPs
 * and CQs left raw (post by mrg_mr_raw(mr)->lkey, and mrg_borrow_begin). An adopted id registers on the PD that it has;
 * its events and its QP, if it has one already, stay raw. A PD or device that is adopted again gives the same handle,
 * with one reference more. EINVAL (bad-argument): raw NULL. The raw object must outlive the handle; nothing checks that.
 */
MRG_API mrg_context *mrg_adopt_context(struct ibv_context *raw) MRG_MUST_CHECK MRG_GIVES;
MRG_API mrg_pd *mrg_adopt_pd(struct ibv_pd *raw) MRG_MUST_CHECK MRG_GIVES;
MRG_API mrg_id *mrg_adopt_id(struct rdma_cm_id *raw) MRG_MUST_CHECK MRG_GIVES;

/* The raw object behind a handle, borrowed: good while the handle is, not to be destroyed. NULL for a bad handle. */
MRG_API struct ibv_context *mrg_context_raw(mrg_context *context MRG_BORROWS);
MRG_API struct ibv_pd *mrg_pd_raw(mrg_pd *pd MRG_BORROWS);
MRG_API struct ibv_qp *mrg_qp_raw(mrg_qp *qp MRG_BORROWS);
MRG_API struct rdma_cm_id *mrg_id_raw(mrg_id *id MRG_BORROWS);

#ifdef __cplusplus
}
#endif
#endif
