/*
 * Memory, queues, work: what rdma_verbs.h and infiniband/verbs.h do, with handles.
 *
 * Common to every call here and in cm.h, and not repeated below:
 *   - It fails with NULL or -1 and errno, as its twin in librdmacm does, and then has changed nothing.
 *     Where a rule of mrguard's is broken mrg_last_finding() says which.
 *   - A NULL handle is EINVAL (bad-argument); one whose object is gone, or of another type, ESTALE
 *     (stale-handle); one of the parent process, after fork(2), EPERM (after-fork).
 *   - Lengths and offsets are bytes.
 *   - Any thread may call it, unless its comment says otherwise.
 *   - "Blocks" is said where the call waits for a peer or an event. Calls that only enter the kernel do not
 *     say so; posting and polling never do that either, beyond what the provider does.
 *   - Outputs are written only on success.
 */
#ifndef MRGUARD_VERBS_H
#define MRGUARD_VERBS_H

#include <errno.h>
#include <mrguard/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Protection domains */

/*
 * A PD on a device (ibv_alloc_pd). The caller owns one reference: mrg_dealloc_pd or mrg_pd_unref. Its device
 * stays open while it lives. Errno: the provider's.
 */
MRG_API mrg_pd *mrg_alloc_pd(mrg_context *context) MRG_MUST_CHECK MRG_GIVES;

/*
 * Destroys a PD that nothing uses (ibv_dealloc_pd); the handle is stale afterwards. EBUSY: an MR is
 * registered on it (leaked-mr); a QP or an id belongs to it, or others hold references (destroy-order).
 */
MRG_API int mrg_dealloc_pd(mrg_pd *pd MRG_TAKES);

/* One reference more. Returns pd; NULL, ESTALE if it is gone. */
MRG_API mrg_pd *mrg_pd_ref(mrg_pd *pd) MRG_GIVES;

/*
 * One reference less; the PD goes with its last reference and its last child, whichever is later. NULL is
 * ignored. Always returns NULL; errno tells a stale handle.
 */
MRG_API mrg_pd *mrg_pd_unref(mrg_pd *pd MRG_TAKES);

/* Registration */

/*
 * Registers [addr, addr + length) on the PD of the id's QP, or of its device while it has no QP. The caller
 * owns one reference to the MR: mrg_dereg_mr or mrg_mr_unref, and does so before the id is destroyed (or
 * moves it: mrg_mr_move). The memory stays the caller's and must outlive the MR.
 *
 *   mrg_reg_msgs   for sends and receives        local write                (rdma_reg_msgs)
 *   mrg_reg_read   a peer reads it               local write, remote read   (rdma_reg_read)
 *   mrg_reg_write  a peer writes it              local write, remote write  (rdma_reg_write)
 *   mrg_reg_send   sends and WRITEs from memory that may be read-only       (no twin: rdma_reg_* ask local write)
 *
 * EINVAL (bad-argument): length 0. ERANGE (out-of-range): the range wraps around. ENODEV (no-pd): the id has
 * no device: unbound, or a wildcard listener. The kernel's errno, often ENOMEM or EFAULT
 * (registration-refused): the finding says which limit, and how much this process holds.
 * Takes as long as the kernel needs to pin the pages; no lock of mrguard's is held meanwhile.
 */
MRG_API mrg_mr *mrg_reg_msgs(mrg_id *id, void *addr, size_t length) MRG_MUST_CHECK MRG_GIVES;
MRG_API mrg_mr *mrg_reg_read(mrg_id *id, void *addr, size_t length) MRG_MUST_CHECK MRG_GIVES;
MRG_API mrg_mr *mrg_reg_write(mrg_id *id, void *addr, size_t length) MRG_MUST_CHECK MRG_GIVES;
MRG_API mrg_mr *mrg_reg_send(mrg_id *id, const void *addr, size_t length) MRG_MUST_CHECK MRG_GIVES;

/*
 * Registers count ranges, all or none, and stores their MRs in ret[0] to ret[count - 1] (no twin). As the single
 * forms; EINVAL (bad-argument) also for a negative count or a NULL array. Where one is refused the ones before it
 * are released again.
 */
MRG_API int mrg_reg_msgsv(mrg_id *id, const struct iovec *ranges, int count, mrg_mr **ret) MRG_MUST_CHECK;
MRG_API int mrg_reg_readv(mrg_id *id, const struct iovec *ranges, int count, mrg_mr **ret) MRG_MUST_CHECK;
MRG_API int mrg_reg_writev(mrg_id *id, const struct iovec *ranges, int count, mrg_mr **ret) MRG_MUST_CHECK;

/*
 * Registers on a PD, for memory that belongs to no id (ibv_reg_mr). access: IBV_ACCESS_* or 0. As above, and
 * EINVAL (bad-argument) for unknown access bits, EINVAL (missing-access) for remote write or atomic without
 * local write.
 */
MRG_API mrg_mr *mrg_reg_mr(mrg_pd *pd, void *addr, size_t length, int access) MRG_MUST_CHECK MRG_GIVES;

/*
 * As mrg_reg_mr, and the memory belongs to the MR from success on: release(addr, length, arg) is called once
 * the MR is deregistered, however late that is, by the thread that ended it and with no lock held. On failure
 * the memory is still the caller's. EINVAL (bad-argument): release is NULL.
 */
MRG_API mrg_mr *mrg_reg_mr_owned(mrg_pd *pd, void *addr, size_t length, int access, mrg_release_fn *release, void *arg)
    MRG_MUST_CHECK MRG_GIVES;

/*
 * The other forms of registration, on a PD: with an address of the caller's choice for WRs and peers, iova (ibv_reg_mr_iova);
 * of a DMA buffer by its descriptor, [offset, offset + length) of it (ibv_reg_dmabuf_mr); and the MR that reads as zeros
 * and swallows what is written (ibv_alloc_null_mr), for all addresses. What is posted is checked in iova space. As
 * mrg_reg_mr; ERANGE (out-of-range): iova + length wraps around; EOPNOTSUPP and others: the provider has no such form.
 * On-demand registration is IBV_ACCESS_ON_DEMAND; with addr NULL and length SIZE_MAX it covers the address space.
 */
MRG_API mrg_mr *mrg_reg_mr_iova(mrg_pd *pd, void *addr, size_t length, uint64_t iova, int access)
    MRG_MUST_CHECK MRG_GIVES;
MRG_API mrg_mr *mrg_reg_dmabuf_mr(mrg_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
    MRG_MUST_CHECK MRG_GIVES;
MRG_API mrg_mr *mrg_alloc_null_mr(mrg_pd *pd) MRG_MUST_CHECK MRG_GIVES;

/*
 * Changes an MR where it is (ibv_rereg_mr): flags of IBV_REREG_MR_CHANGE_TRANSLATION, _PD and _ACCESS say which of the
 * arguments count. The handle stays good, the rkey may change. EBUSY as mrg_dereg_mr. EINVAL: flags (bad-argument);
 * memory that belongs to the MR is to change (wrong-state); ranges and access as mrg_reg_mr. EXDEV (wrong-pd): pd is on
 * another device. The provider's errno: it refused, and the MR is to be taken for what it was. While it runs the
 * handle is not good for other threads (ESTALE).
 */
MRG_API int mrg_rereg_mr(mrg_mr *mr, int flags, mrg_pd *pd, void *addr, size_t length, int access) MRG_MUST_CHECK;

/*
 * Advice about pieces of on-demand MRs (ibv_advise_mr). EINVAL (bad-argument): no pieces. EMSGSIZE (length-truncated): a
 * piece over 32 bits. Else the provider's.
 */
MRG_API int mrg_advise_mr(mrg_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, const mrg_sge *sgl,
                          uint32_t nsge) MRG_MUST_CHECK;

/*
 * Deregisters, the strict form (rdma_dereg_mr): the only reference, nothing in flight. The handle is stale
 * afterwards. EBUSY: a WR in flight or an explicit borrow uses it (dereg-in-flight), a memory window is bound to it
 * (window-bound), or others hold references (destroy-order).
 * EINVAL (foreign-mr): not a handle at all but a raw ibv_mr or a peer's number. ESTALE: a second release.
 * The provider's errno: it refused; the MR is live as before.
 */
MRG_API int mrg_dereg_mr(mrg_mr *mr MRG_TAKES);

/* One reference more. Returns mr; NULL, ESTALE if it is gone. Lock-free. */
MRG_API mrg_mr *mrg_mr_ref(mrg_mr *mr) MRG_GIVES;

/*
 * One reference less. The last one deregisters, at once or, with work in flight, when the last completion is
 * polled or the QP destroyed; the handle is stale from now on either way, the memory free only then (see
 * mrg_reg_mr_owned). It waits for explicit borrows and bound windows too. NULL is ignored. Always returns NULL; errno tells a stale handle, or that the provider
 * refused: then the reference is still the caller's.
 */
MRG_API mrg_mr *mrg_mr_unref(mrg_mr *mr MRG_TAKES);

/*
 * Frees an MR from the id that made it, so that it may outlive it; it stays on its PD. EXDEV (wrong-pd): pd
 * is not the PD that it is on.
 */
MRG_API int mrg_mr_move(mrg_mr *mr, mrg_pd *pd);

/*
 * The explicit borrow, for those who build work requests of their own (mlx5dv, DEVX, ibv_cq_ex): from begin to end the
 * MR cannot be deregistered, as if a WR were in flight. What begin stores in *ret is given up by end, once. addr is in
 * the MR's iova space; access: IBV_ACCESS_LOCAL_WRITE where the device writes, 0 where it reads. ERANGE
 * (out-of-range), EACCES (missing-access): as for a post. EINVAL (bad-argument): ret NULL, unknown bits. A borrow costs an object:
 * one lock that all share.
 */
MRG_API int mrg_borrow_begin(mrg_mr *mr, void *addr, size_t length, int access, mrg_borrow **ret) MRG_MUST_CHECK;
MRG_API int mrg_borrow_end(mrg_borrow *borrow MRG_TAKES);

/*
 * What the MR covers and grants. Lock-free. NULL or 0 with errno for a bad handle. There is no lkey. _iova: what WRs and
 * peers begin at, which is _addr but for mrg_reg_mr_iova and its like.
 */
MRG_API void *mrg_mr_addr(mrg_mr *mr MRG_BORROWS);
MRG_API uint64_t mrg_mr_iova(mrg_mr *mr MRG_BORROWS);
MRG_API size_t mrg_mr_length(mrg_mr *mr MRG_BORROWS);
MRG_API uint32_t mrg_mr_rkey(mrg_mr *mr MRG_BORROWS);
MRG_API int mrg_mr_access(mrg_mr *mr MRG_BORROWS);

/* The raw MR, for code that is not ported yet: it stays the handle's, and goes with it. NULL for a bad handle. */
MRG_API struct ibv_mr *mrg_mr_raw(mrg_mr *mr MRG_BORROWS);

/* Completion channels and queues */

/* A completion channel (ibv_create_comp_channel). The caller owns it: mrg_destroy_comp_channel. */
MRG_API mrg_comp_channel *mrg_create_comp_channel(mrg_context *context) MRG_MUST_CHECK MRG_GIVES;

/* Destroys a channel (ibv_destroy_comp_channel). EBUSY (destroy-order): a CQ still uses it. */
MRG_API int mrg_destroy_comp_channel(mrg_comp_channel *channel MRG_TAKES);

/* The file descriptor to poll(2) for completion events; it stays the channel's. -1 for a bad handle. */
MRG_API int mrg_comp_channel_fd(mrg_comp_channel *channel MRG_BORROWS);

/*
 * A CQ of at least cqe entries that several ids may share (ibv_create_cq); poll it with mrg_poll_cq. The caller
 * owns it: mrg_destroy_cq. channel: where its events go, NULL for none; context: given back with them.
 * EINVAL (bad-argument): cqe below 1. EXDEV (wrong-pd): the channel is another device's. Else the provider's errno.
 */
MRG_API mrg_cq *mrg_create_cq(mrg_context *device, int cqe, void *context, mrg_comp_channel *channel, int comp_vector)
    MRG_MUST_CHECK MRG_GIVES;

/*
 * Likewise, with what a CQ of ours can have of ibv_create_cq_ex's attributes: with IBV_CREATE_CQ_ATTR_SINGLE_THREADED the
 * caller promises that no two threads are in mrg_poll_cq on it at once, which then takes no lock. Anything else, its
 * destruction too, may come from any thread. It is polled with mrg_poll_cq, and has no struct ibv_cq_ex. May block.
 * NULL with errno EINVAL (bad-argument: attr is NULL, no entries, or comp_mask or flags have other bits), else as
 * mrg_create_cq.
 */
MRG_API mrg_cq *mrg_create_cq_ex(mrg_context *device, mrg_cq_init_attr_ex *attr) MRG_MUST_CHECK MRG_GIVES;

/*
 * Destroys a CQ (ibv_destroy_cq). EBUSY: a QP still uses it (destroy-order); an event got for it is not
 * acknowledged (unacked-event), where libibverbs would hang.
 */
MRG_API int mrg_destroy_cq(mrg_cq *cq MRG_TAKES);

/* Changes a CQ's size (ibv_resize_cq). EINVAL (bad-argument): cqe below 1. Else the provider's errno. */
MRG_API int mrg_resize_cq(mrg_cq *cq, int cqe) MRG_MUST_CHECK;

/* The raw CQ, which stays the handle's. Who polls it raw must not poll the handle too. NULL for a bad handle. */
MRG_API struct ibv_cq *mrg_cq_raw(mrg_cq *cq MRG_BORROWS);

/* Asks for an event at the next completion, or the next solicited or failed one (ibv_req_notify_cq). */
MRG_API int mrg_req_notify_cq(mrg_cq *cq, int solicited_only);

/*
 * Waits for the channel's next event: the CQ that it is for in *ret, the CQ's context in *context (ibv_get_cq_event).
 * To be acknowledged with mrg_ack_cq_events. Blocks unless the channel's descriptor is non-blocking (EAGAIN).
 * EINVAL (bad-argument): ret or context NULL.
 */
MRG_API int mrg_get_cq_event(mrg_comp_channel *channel, mrg_cq **ret, void **context);

/* Acknowledges count events of a CQ (ibv_ack_cq_events). EINVAL (bad-argument): more than were got. */
MRG_API int mrg_ack_cq_events(mrg_cq *cq, unsigned int count);

/*
 * Takes up to count completions into wc (ibv_poll_cq) and ends the borrows of their WRs. wr_id is what the
 * caller posted; on an error only wr_id, status, qp_num and vendor_err are valid, as ever. Completions of a QP that is
 * gone are swallowed, but for receives from an SRQ, whose WRs they are. Returns how many, 0 if there is none; -1. EINVAL
 * (bad-argument): count below 1, wc NULL. Cost: a lock of the CQ's, none if it is single-threaded; an SRQ's completion
 * takes one of the SRQ's. Releases MRs whose release was deferred to these completions.
 */
MRG_API int mrg_poll_cq(mrg_cq *cq, int count, struct ibv_wc *wc);

/*
 * Waits for one completion of the id's send (receive) queue. Returns 1; -1. Blocks, in the kernel, until there
 * is one: for ever if the peer is gone without a word and nothing is sent (an event loop sees the disconnection:
 * examples/blockd.c). EINTR: a signal came. EINVAL (no-qp): the id has no QP; EINVAL (wrong-state): the QP was given a
 * CQ of the caller's, which only mrg_poll_cq reads. (rdma_get_send_comp, rdma_get_recv_comp)
 */
MRG_API int mrg_get_send_comp(mrg_id *id, struct ibv_wc *wc);
MRG_API int mrg_get_recv_comp(mrg_id *id, struct ibv_wc *wc);

/* Work */

/*
 * Post one WR to the id's QP; context comes back as the completion's wr_id. From success until that completion
 * is polled (or a later one of the same queue, or the QP is destroyed) the WR borrows its MRs: they cannot be
 * deregistered, and the memory must not be touched as the direction of the transfer demands.
 *
 *   mrg_post_recv, _recvv     into addr                               (rdma_post_recv, rdma_post_recvv)
 *   mrg_post_send, _sendv     from addr                               (rdma_post_send, ...)
 *   mrg_post_read, _readv     from the peer's remote_addr into addr   (rdma_post_read, ...)
 *   mrg_post_write, _writev   from addr to the peer's remote_addr     (rdma_post_write, ...)
 *
 * With an SRQ of the id's, receives go to that. flags: IBV_SEND_SIGNALED, _FENCE, _SOLICITED, _INLINE. Inline data needs no MR and may be reused at once.
 * The v forms take nsge pieces; a piece of length 0 is skipped, and no piece at all is a message of length 0.
 *
 * EINVAL: no-qp, the id has no QP; unregistered-post, mr is NULL though data is neither empty nor inline;
 * bad-argument, unknown flags, nsge negative or above what the QP was granted. ESTALE (stale-handle): the MR is gone,
 * or another thread is destroying the QP. ERANGE (out-of-range): outside the MR. EMSGSIZE: a length or sum over what a
 * message can hold (length-truncated); inline data over what the QP was granted (inline-too-long). EXDEV (wrong-pd): MR
 * and QP are on different PDs. EACCES (missing-access): a receive or READ into an MR without local write. ENOMEM, no
 * finding: as many WRs as the QP was granted are in flight: poll. Else the provider's errno.
 * Cost: the queue's lock, one counter in each MR; no allocation, no system call of mrguard's.
 */
MRG_API int mrg_post_recv(mrg_id *id, void *context, void *addr, size_t length, mrg_mr *mr);
MRG_API int mrg_post_send(mrg_id *id, void *context, const void *addr, size_t length, mrg_mr *mr, int flags);
MRG_API int mrg_post_read(mrg_id *id, void *context, void *addr, size_t length, mrg_mr *mr, int flags,
                          uint64_t remote_addr, uint32_t rkey);
MRG_API int mrg_post_write(mrg_id *id, void *context, const void *addr, size_t length, mrg_mr *mr, int flags,
                           uint64_t remote_addr, uint32_t rkey);
MRG_API int mrg_post_recvv(mrg_id *id, void *context, const mrg_sge *sgl, int nsge);
MRG_API int mrg_post_sendv(mrg_id *id, void *context, const mrg_sge *sgl, int nsge, int flags);
MRG_API int mrg_post_readv(mrg_id *id, void *context, const mrg_sge *sgl, int nsge, int flags, uint64_t remote_addr,
                           uint32_t rkey);
MRG_API int mrg_post_writev(mrg_id *id, void *context, const mrg_sge *sgl, int nsge, int flags, uint64_t remote_addr,
                            uint32_t rkey);

/*
 * Posts a datagram to a QP of a peer by an address handle (rdma_post_ud_send). As mrg_post_send, and EINVAL: ah NULL
 * (bad-argument); the id is not of RDMA_PS_UDP (wrong-state). EXDEV (wrong-pd): AH and QP are on different PDs. ESTALE
 * (stale-handle): the AH is gone. The WR uses the AH until its completion.
 */
MRG_API int mrg_post_ud_send(mrg_id *id, void *context, const void *addr, size_t length, mrg_mr *mr, int flags,
                             mrg_ah *ah, uint32_t remote_qpn);

/*
 * The checked remote form: READs from (WRITEs to) the length bytes at offset of what a peer exported. As
 * mrg_post_read and mrg_post_write, and ERANGE (out-of-range): beyond the descriptor; EACCES
 * (missing-access): it does not grant the operation; EINVAL (bad-argument): no valid descriptor.
 */
MRG_API int mrg_post_read_from(mrg_id *id, void *context, void *addr, size_t length, mrg_mr *mr, int flags,
                               const mrg_remote *remote, uint64_t offset);
MRG_API int mrg_post_write_to(mrg_id *id, void *context, const void *addr, size_t length, mrg_mr *mr, int flags,
                              const mrg_remote *remote, uint64_t offset);

/* What a peer may do: remote descriptors */

/* Bytes of a packed descriptor, and its most significant facts: magic "mrgR", version 1, little-endian. */
#define MRG_REMOTE_SIZE 32

/*
 * Describes [offset, offset + length) of an MR for a peer. access: what the peer may do, some of
 * IBV_ACCESS_REMOTE_READ, _WRITE, _ATOMIC. ERANGE (out-of-range): outside the MR. EACCES (missing-access): the
 * MR was not registered for it. EINVAL (bad-argument): access or length 0, other bits, ret NULL. The key opens
 * the whole MR to a peer that means ill; and no borrow is taken: releasing the MR ends the peer's access.
 */
MRG_API int mrg_mr_export(mrg_mr *mr MRG_BORROWS, size_t offset, size_t length, int access, mrg_remote *ret);

/*
 * Writes a descriptor into buf, MRG_REMOTE_SIZE bytes, the same on every machine. Returns the bytes written.
 * EMSGSIZE (bad-argument): size is less. EINVAL (bad-argument): NULL, or not a valid descriptor.
 */
MRG_API ssize_t mrg_remote_pack(const mrg_remote *remote, void *buf, size_t size);

/*
 * Reads the descriptor at the start of the size bytes in buf, which may come from anybody: every field is
 * checked. EMSGSIZE (bad-argument): too short. EINVAL (bad-argument): NULL, another magic or version, unknown
 * bits, no access, length 0, or a range that wraps around.
 */
MRG_API int mrg_remote_unpack(mrg_remote *ret, const void *buf, size_t size);

/* For MRG_AUTO. errno is kept. */
static inline void mrg_mr_auto(mrg_mr **mr)
{
    int saved = errno;
    if (*mr)
        mrg_mr_unref(*mr);
    errno = saved;
}

static inline void mrg_pd_auto(mrg_pd **pd)
{
    int saved = errno;
    if (*pd)
        mrg_pd_unref(*pd);
    errno = saved;
}

#ifdef __cplusplus
}
#endif
#endif
