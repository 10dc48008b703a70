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

/* Ids */

/*
 * An id (rdma_create_id), stored in *ret; the caller owns it: mrg_destroy_id. channel NULL: synchronous.
 * EINVAL (bad-argument): ret NULL.
 */
MRG_API int mrg_create_id(mrg_channel *channel, mrg_id **ret, void *context, enum rdma_port_space ps) MRG_MUST_CHECK;

/*
 * Destroys an id (rdma_destroy_id). EBUSY: an MR made through it lives (leaked-mr), an event of its is not acknowledged
 * (unacked-event), its QP is still there, or another thread is in a call on it (destroy-order). The handle is
 * good until the call has succeeded. The kernel's errno where it refuses.
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
 * Destroys an id with its QP and the CQs made for it (rdma_destroy_ep). EBUSY as mrg_destroy_id, but for the QP; then
 * nothing was touched. If the provider refuses half way, what is left is usable and the same call goes on from there.
 */
MRG_API int mrg_destroy_ep(mrg_id *id MRG_TAKES);

/* rdma_bind_addr, rdma_resolve_addr, rdma_resolve_route, rdma_listen: as there. The latter two want a bound id
 * (EINVAL, wrong-state: resolve_route before the address is resolved). EINVAL (bad-argument): addr or dst NULL. */
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
 * rdma_connect, rdma_accept, rdma_reject, rdma_disconnect: as there; on a synchronous id they block until the peer
 * answers, or the kernel gives it up. param may be NULL where the id has a QP. EINVAL (wrong-state): no device
 * yet; connect or accept without QP and param; disconnect on a synchronous id that is not connected, where
 * librdmacm would wait for ever. EINVAL (bad-argument): private_data NULL with a length.
 */
MRG_API int mrg_connect(mrg_id *id, struct rdma_conn_param *param) MRG_MUST_CHECK;
MRG_API int mrg_accept(mrg_id *id, struct rdma_conn_param *param) MRG_MUST_CHECK;
MRG_API int mrg_reject(mrg_id *id, const void *private_data, uint8_t length);
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
 * meanwhile. EINVAL from below: it is synchronous already.
 */
MRG_API int mrg_migrate_id(mrg_id *id, mrg_channel *channel) MRG_MUST_CHECK;

/* QPs */

/*
 * Makes the id's QP (rdma_create_qp), on pd or, NULL, on its device's PD; from here on mrg_reg_* through the id
 * register on that PD too. attr->cap holds what was granted afterwards. CQs that attr does not name are made
 * for the id, to be read with mrg_get_send_comp and mrg_get_recv_comp. EINVAL: attr is NULL (bad-argument); it has a
 * QP, or another thread is making or destroying it (wrong-state). ENODEV (no-pd): no device yet. EXDEV (wrong-pd): pd
 * or a CQ is on another device. Else the provider's.
 */
MRG_API int mrg_create_qp(mrg_id *id, mrg_pd *pd, mrg_qp_init_attr *attr) MRG_MUST_CHECK;

/*
 * Destroys the id's QP and the CQs made for it (rdma_destroy_qp, which cannot fail there). Ends all borrows of its
 * WRs; their completions are not handed out any more. EINVAL: there is none (no-qp); another thread is making or
 * destroying it (wrong-state). EBUSY (destroy-order): a thread waits for a completion of it. The provider's errno:
 * it refused; what it refused to destroy is as before, and the same call goes on with it.
 */
MRG_API int mrg_destroy_qp(mrg_id *id);

/* What an id has. Handles are borrowed: good while the id is, not to be released. NULL with errno if it has none. */
MRG_API void *mrg_id_context(mrg_id *id MRG_BORROWS);
MRG_API mrg_channel *mrg_id_channel(mrg_id *id MRG_BORROWS);
MRG_API mrg_context *mrg_id_verbs(mrg_id *id MRG_BORROWS);
MRG_API mrg_qp *mrg_id_qp(mrg_id *id MRG_BORROWS);
MRG_API struct sockaddr *mrg_id_local_addr(mrg_id *id MRG_BORROWS);
MRG_API struct sockaddr *mrg_id_peer_addr(mrg_id *id MRG_BORROWS);

/* Changes what mrg_id_context returns; an id that came with a request has its listener's. */
MRG_API int mrg_id_set_context(mrg_id *id MRG_BORROWS, void *context);

/* What the peer sent with its connection request to this id. NULL and *length 0 if nothing. */
MRG_API const void *mrg_id_private_data(mrg_id *id MRG_BORROWS, size_t *length);

/*
 * A reference to the PD of the id's device: one PD for all ids of that device, so MRs on it serve every
 * connection and belong to none (mrg_reg_mr). The caller gives it up with mrg_pd_unref. ENODEV (no-pd): the id
 * has no device yet.
 */
MRG_API mrg_pd *mrg_id_pd(mrg_id *id MRG_BORROWS) MRG_MUST_CHECK MRG_GIVES;

#ifdef __cplusplus
}
#endif
#endif
