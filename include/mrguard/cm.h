/*
 * Connections: what rdma_cma.h does, with handles. What is common to all calls stands in verbs.h.
 *
 * An id without an event channel (mrg_create_ep, mrg_create_id with NULL) is synchronous: its calls block until
 * the event that ends them. With a channel they return at once and the event comes from mrg_get_cm_event.
 */
#ifndef MRGUARD_CM_H
#define MRGUARD_CM_H

#include <mrguard/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Event channels and events */

/* An event channel (rdma_create_event_channel). The caller owns it: mrg_destroy_event_channel. */
MRG_API mrg_channel *mrg_create_event_channel(void) MRG_MUST_CHECK MRG_GIVES;

/* Destroys a channel (rdma_destroy_event_channel). EBUSY (destroy-order): an id still uses it. */
MRG_API int mrg_destroy_event_channel(mrg_channel *channel MRG_TAKES);

/* The file descriptor to poll(2) for events; it stays the channel's. -1 for a bad handle. */
MRG_API int mrg_channel_fd(mrg_channel *channel MRG_BORROWS);

/*
 * Waits for the channel's next event and stores it in *ret (rdma_get_cm_event). The caller owns it until
 * mrg_ack_cm_event. A CONNECT_REQUEST brings a new id (mrg_event_id), which the caller owns: accept or
 * destroy it. Blocks unless the channel's descriptor is non-blocking (EAGAIN). EINVAL (bad-argument): ret NULL.
 */
MRG_API int mrg_get_cm_event(mrg_channel *channel, mrg_cm_event **ret) MRG_MUST_CHECK;

/*
 * Acknowledges an event (rdma_ack_cm_event); the handle is stale afterwards. An id with events not acknowledged
 * cannot be destroyed (EBUSY, unacked-event), where librdmacm would hang.
 */
MRG_API int mrg_ack_cm_event(mrg_cm_event *event MRG_TAKES);

/*
 * What the event says: rdma_cm_event's event, status, id, listen_id, and its private data (NULL and *length 0
 * if none), which lives until the acknowledgement. -1 or NULL with errno for a bad handle.
 */
MRG_API int mrg_event_type(mrg_cm_event *event MRG_BORROWS);
MRG_API int mrg_event_status(mrg_cm_event *event MRG_BORROWS);
MRG_API mrg_id *mrg_event_id(mrg_cm_event *event MRG_BORROWS);
MRG_API mrg_id *mrg_event_listen_id(mrg_cm_event *event MRG_BORROWS);
MRG_API const void *mrg_event_private_data(mrg_cm_event *event MRG_BORROWS, size_t *length);

/*
 * All that the event carries, copied to *ret: of a connection (event->param.conn), of datagrams or a multicast join
 * (event->param.ud, whose ah_attr makes an AH). Pointers in it live until the acknowledgement. A multicast event's
 * mrg_event_private_data is the join's context, with length 0. EINVAL (bad-argument): ret NULL.
 */
MRG_API int mrg_event_conn_param(mrg_cm_event *event MRG_BORROWS, struct rdma_conn_param *ret);
MRG_API int mrg_event_ud_param(mrg_cm_event *event MRG_BORROWS, struct rdma_ud_param *ret);

/* An event's name (rdma_event_str). */
static inline const char *mrg_event_str(enum rdma_cm_event_type event)
{
    return rdma_event_str(event);
}

/* rdma_getaddrinfo and rdma_freeaddrinfo, which make no object. */
static inline int mrg_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
                                  struct rdma_addrinfo **res)
{
    return rdma_getaddrinfo(node, service, hints, res);
}

static inline void mrg_freeaddrinfo(struct rdma_addrinfo *res)
{
    rdma_freeaddrinfo(res);
}

/* Ids */

/*
 * An id (rdma_create_id), stored in *ret; the caller owns it: mrg_destroy_id. channel NULL: synchronous.
 * EINVAL (bad-argument): ret NULL.
 */
MRG_API int mrg_create_id(mrg_channel *channel, mrg_id **ret, void *context, enum rdma_port_space ps) MRG_MUST_CHECK;

/*
 * Destroys an id (rdma_destroy_id). EBUSY: an MR made through it lives (leaked-mr), an event of its is not acknowledged
 * (unacked-event), its QP, SRQ or a multicast join is still there, or another thread is in a call on it
 * (destroy-order). The handle is good until the call has succeeded. The kernel's errno where it refuses. An adopted id
 * is let go and stays the caller's; its MRs are left on their PD, and reported (leaked-mr).
 */
MRG_API int mrg_destroy_id(mrg_id *id MRG_TAKES);

/*
 * A synchronous id, bound (RAI_PASSIVE) or resolved, with a QP if attr is given (rdma_create_ep). The caller owns it:
 * mrg_destroy_ep. res: from rdma_getaddrinfo. pd NULL: the device's. A passive id keeps attr for the ids that
 * mrg_get_request returns, and a reference to pd. Blocks until the address is resolved, 2 s at the most each
 * for address and route. EINVAL (bad-argument): ret or res NULL. Else as mrg_create_qp, and the kernel's.
 */
MRG_API int mrg_create_ep(mrg_id **ret, struct rdma_addrinfo *res, mrg_pd *pd, mrg_qp_init_attr *attr) MRG_MUST_CHECK;

/*
 * Destroys an id with its QP, the CQs made for it and its SRQ (rdma_destroy_ep). MRs that were given up with
 * mrg_mr_unref do not stand in its way: they go with what is in flight. EBUSY as mrg_destroy_id, but for the QP; then
 * nothing was touched. If the provider refuses half way, what is left is usable and the same call goes on from there.
 */
MRG_API int mrg_destroy_ep(mrg_id *id MRG_TAKES);

/*
 * The whole-tree close, for shutting down (ours): an id with all that was made through it, whatever the peer does. Waits
 * up to timeout_ms milliseconds (0: not at all) until what was sent is done, then brings the QP to error; leaves groups;
 * destroys QP, the CQs made for it and its SRQ; releases the MRs made through the id; destroys the id, which tells the
 * peer. From its first moment no other call is taken on the id. Completions on CQs made for the id are dropped; on a CQ of
 * the caller's, others go on polling meanwhile, and what they have not polled before the QP goes never comes. A send that
 * is not signaled is known to be done from a later completion only, so one at the end costs the whole time.
 *
 * What it had to close is reported, though nothing was refused: sends given up (destroy-order), and MRs (leaked-mr). An MR
 * that something else needs (it is in flight on another id's queue, borrowed, bound to a window, has other references)
 * stays as it is, on its PD. Its handle stays good; those of all else are gone.
 *
 * Any thread; blocks, for timeout_ms and what the provider takes. EINVAL (bad-argument): timeout_ms negative. EBUSY as
 * mrg_destroy_ep, but for MRs and groups; then nothing was touched. Where the provider refuses half way, or an event is got
 * or another thread comes while sends are waited for (EBUSY), what is left is usable and the same call goes on from there.
 */
MRG_API int mrg_shutdown_ep(mrg_id *id MRG_TAKES, int timeout_ms);

/*
 * rdma_bind_addr, rdma_resolve_addr, rdma_resolve_route, rdma_listen: as there. EINVAL: addr or dst NULL (bad-argument);
 * resolve_route before the address is resolved, or what else the id's state does not allow (wrong-state).
 */
MRG_API int mrg_bind_addr(mrg_id *id, struct sockaddr *addr) MRG_MUST_CHECK;
MRG_API int mrg_resolve_addr(mrg_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms) MRG_MUST_CHECK;
MRG_API int mrg_resolve_route(mrg_id *id, int timeout_ms) MRG_MUST_CHECK;
MRG_API int mrg_listen(mrg_id *id, int backlog) MRG_MUST_CHECK;

/*
 * Waits for a connection request on a synchronous listener and stores the new id in *ret, with a QP if the listener
 * keeps attributes (rdma_get_request). The caller owns it: mrg_accept or mrg_reject, then mrg_destroy_ep. Its
 * event is acknowledged already; mrg_id_private_data has what the peer sent. Blocks.
 */
MRG_API int mrg_get_request(mrg_id *listener, mrg_id **ret) MRG_MUST_CHECK;

/*
 * rdma_connect, rdma_accept, rdma_reject, rdma_reject_ece, rdma_disconnect: as there; on a synchronous id they block
 * until the peer answers, or the kernel gives it up. param may be NULL where the id has a QP. EINVAL (wrong-state): no
 * device yet; connect or accept without QP and param; accept on an id that owes no answer; disconnect on a synchronous
 * id that is not connected, where librdmacm would wait for ever. EINVAL (bad-argument): private_data NULL with a
 * length. EINVAL without a finding: the peer has withdrawn its request, or was the first to disconnect.
 */
MRG_API int mrg_connect(mrg_id *id, struct rdma_conn_param *param) MRG_MUST_CHECK;
MRG_API int mrg_accept(mrg_id *id, struct rdma_conn_param *param) MRG_MUST_CHECK;
MRG_API int mrg_reject(mrg_id *id, const void *private_data, uint8_t length);
MRG_API int mrg_reject_ece(mrg_id *id, const void *private_data, uint8_t length);
MRG_API int mrg_disconnect(mrg_id *id);

/*
 * rdma_establish, rdma_notify, rdma_set_option: as there. EINVAL (bad-argument): value NULL. EINVAL (wrong-state):
 * establish before the id has a device.
 */
MRG_API int mrg_establish(mrg_id *id) MRG_MUST_CHECK;
MRG_API int mrg_notify(mrg_id *id, enum ibv_event_type event);
MRG_API int mrg_set_option(mrg_id *id, int level, int name, void *value, size_t length) MRG_MUST_CHECK;

/*
 * Moves an id to another channel, or makes it synchronous: channel NULL (rdma_migrate_id). EBUSY (unacked-event): an
 * event of its is not acknowledged, for which librdmacm would wait. No thread may be getting events of the old channel
 * meanwhile. EINVAL (wrong-state): it is adopted, so its events stay raw; another thread is changing
 * what the id has. EINVAL from below: it is synchronous already.
 */
MRG_API int mrg_migrate_id(mrg_id *id, mrg_channel *channel) MRG_MUST_CHECK;

/*
 * The attributes that bring a QP of the caller's own making to the state that qp_attr->qp_state asks for
 * (rdma_init_qp_attr); and the connection's options of the vendor's (rdma_set_local_ece, rdma_get_remote_ece). EINVAL: a
 * NULL argument (bad-argument); no device yet, or what the kernel does not allow in the id's state (wrong-state).
 */
MRG_API int mrg_init_qp_attr(mrg_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask) MRG_MUST_CHECK;
MRG_API int mrg_set_local_ece(mrg_id *id, struct ibv_ece *ece) MRG_MUST_CHECK;
MRG_API int mrg_get_remote_ece(mrg_id *id, struct ibv_ece *ece) MRG_MUST_CHECK;

/*
 * Joins a multicast group (rdma_join_multicast), by its address or by all that rdma_join_multicast_ex takes. The event
 * MULTICAST_JOIN tells when it is done and has the address to send to; context comes back with it. The join is a child
 * of the id, and of its QP, which is attached to the group: leave before either goes. EINVAL: addr NULL
 * (bad-argument); the id has joined it already, or another thread is changing what the id has (wrong-state). Blocks on a
 * synchronous id.
 */
MRG_API int mrg_join_multicast(mrg_id *id, struct sockaddr *addr, void *context) MRG_MUST_CHECK;
MRG_API int mrg_join_multicast_ex(mrg_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr, void *context)
    MRG_MUST_CHECK;

/*
 * Leaves a group (rdma_leave_multicast). EBUSY (unacked-event): an event of the join is not acknowledged, for which
 * librdmacm would wait. EADDRNOTAVAIL (wrong-state): the id has not joined it.
 */
MRG_API int mrg_leave_multicast(mrg_id *id, struct sockaddr *addr);

/* QPs */

/*
 * Makes the id's QP (rdma_create_qp), on pd or, NULL, on its device's PD; from here on mrg_reg_* through the id
 * register on that PD too. attr->cap holds what was granted afterwards. CQs that attr does not name are made
 * for the id, to be read with mrg_get_send_comp and mrg_get_recv_comp. EINVAL: attr is NULL (bad-argument); it has a
 * QP, or another thread is making or destroying it (wrong-state). ENODEV (no-pd): no device yet. EXDEV (wrong-pd): pd
 * or a CQ is on another device. Else the provider's.
 */
MRG_API int mrg_create_qp(mrg_id *id, mrg_pd *pd, mrg_qp_init_attr *attr) MRG_MUST_CHECK;

/* Likewise, with the PD and the XRC domain that attr names (rdma_create_qp_ex). */
MRG_API int mrg_create_qp_ex(mrg_id *id, mrg_qp_init_attr *attr) MRG_MUST_CHECK;

/*
 * Destroys the id's QP and the CQs made for it (rdma_destroy_qp, which cannot fail there). Ends all borrows of its
 * WRs; their completions are not handed out any more. EINVAL: there is none (no-qp); another thread is making or
 * destroying it (wrong-state). EBUSY (destroy-order): a thread waits for a completion of it. The provider's errno:
 * it refused; what it refused to destroy is as before, and the same call goes on with it.
 */
MRG_API int mrg_destroy_qp(mrg_id *id);

/*
 * Makes the id's SRQ (rdma_create_srq), before its QP, which will receive from it; mrg_post_recv through the id posts to
 * it then. pd NULL: attr's, or the device's. attr->attr holds what was granted afterwards. An XRC SRQ wants attr->xrcd
 * and attr->cq. EINVAL: attr NULL (bad-argument); the id has an SRQ or a QP already (wrong-state). EXDEV (wrong-pd): a
 * part is on another device. Else as mrg_create_qp.
 */
MRG_API int mrg_create_srq(mrg_id *id, mrg_pd *pd, mrg_srq_init_attr *attr) MRG_MUST_CHECK;
MRG_API int mrg_create_srq_ex(mrg_id *id, mrg_srq_init_attr *attr) MRG_MUST_CHECK;

/*
 * Destroys the id's SRQ (rdma_destroy_srq, which cannot fail there). Ends the borrows of its WRs. EINVAL (wrong-state):
 * the id has none. EBUSY (destroy-order): a QP receives from it; (unacked-event): an event of its is not acknowledged.
 */
MRG_API int mrg_destroy_srq(mrg_id *id);

/* What an id has. Handles are borrowed: good while the id is, not to be released. NULL with errno if it has none. */
MRG_API void *mrg_id_context(mrg_id *id MRG_BORROWS);
MRG_API mrg_channel *mrg_id_channel(mrg_id *id MRG_BORROWS);
MRG_API mrg_context *mrg_id_verbs(mrg_id *id MRG_BORROWS);
MRG_API mrg_qp *mrg_id_qp(mrg_id *id MRG_BORROWS);
MRG_API mrg_srq *mrg_id_srq(mrg_id *id MRG_BORROWS);
MRG_API mrg_cq *mrg_id_send_cq(mrg_id *id MRG_BORROWS);
MRG_API mrg_cq *mrg_id_recv_cq(mrg_id *id MRG_BORROWS);

/* Its addresses and, in network order, ports (rdma_get_local_addr, ...). NULL or 0 with errno for a bad handle. */
MRG_API struct sockaddr *mrg_get_local_addr(mrg_id *id MRG_BORROWS);
MRG_API struct sockaddr *mrg_get_peer_addr(mrg_id *id MRG_BORROWS);
MRG_API uint16_t mrg_get_src_port(mrg_id *id MRG_BORROWS);
MRG_API uint16_t mrg_get_dst_port(mrg_id *id MRG_BORROWS);

/* Changes what mrg_id_context returns; an id that came with a request has its listener's. */
MRG_API int mrg_id_set_context(mrg_id *id MRG_BORROWS, void *context);

/* What the peer sent with its connection request to this id. NULL and *length 0 if nothing. */
MRG_API const void *mrg_id_private_data(mrg_id *id MRG_BORROWS, size_t *length);

/*
 * A reference to the PD of the id's device: one PD for all ids of that device, so MRs on it serve every
 * connection and belong to none (mrg_reg_mr). The caller gives it up with mrg_pd_unref. It is not the PD of a QP that
 * was made on another: mrg_query_qp tells that one. ENODEV (no-pd): the id
 * has no device yet.
 */
MRG_API mrg_pd *mrg_id_pd(mrg_id *id MRG_BORROWS) MRG_MUST_CHECK MRG_GIVES;

#ifdef __cplusplus
}
#endif
#endif
