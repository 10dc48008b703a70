/*
 * The caller's site: under this header every call of mrguard's passes along its file and line, as one string
 * literal, so that findings name both where an object was made and where it was misused.
 *
 * Each function has a twin with a site in front, and a macro of the function's own name that calls the twin.
 * The function itself is still there for pointers and for other languages: it records its return address, as
 * does everything where MRG_NO_SITE is defined before the header is included. (mrg_dereg_mr)(mr) calls it too.
 */
#ifndef MRGUARD_SITE_H
#define MRGUARD_SITE_H

#include <mrguard/cm.h>
#include <mrguard/ibv.h>
#include <mrguard/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

MRG_API mrg_channel *mrg_create_event_channel_at(const char *site) MRG_MUST_CHECK;
MRG_API int mrg_destroy_event_channel_at(const char *site, mrg_channel *channel);
MRG_API int mrg_channel_fd_at(const char *site, mrg_channel *channel);
MRG_API int mrg_get_cm_event_at(const char *site, mrg_channel *channel, mrg_cm_event **ret) MRG_MUST_CHECK;
MRG_API int mrg_ack_cm_event_at(const char *site, mrg_cm_event *event);
MRG_API int mrg_event_type_at(const char *site, mrg_cm_event *event);
MRG_API int mrg_event_status_at(const char *site, mrg_cm_event *event);
MRG_API mrg_id *mrg_event_id_at(const char *site, mrg_cm_event *event);
MRG_API mrg_id *mrg_event_listen_id_at(const char *site, mrg_cm_event *event);
MRG_API const void *mrg_event_private_data_at(const char *site, mrg_cm_event *event, size_t *length);
MRG_API int mrg_event_conn_param_at(const char *site, mrg_cm_event *event, struct rdma_conn_param *ret);
MRG_API int mrg_event_ud_param_at(const char *site, mrg_cm_event *event, struct rdma_ud_param *ret);
MRG_API int mrg_create_id_at(const char *site, mrg_channel *channel, mrg_id **ret, void *context,
                             enum rdma_port_space ps) MRG_MUST_CHECK;
MRG_API int mrg_destroy_id_at(const char *site, mrg_id *id);
MRG_API int mrg_create_ep_at(const char *site, mrg_id **ret, struct rdma_addrinfo *res, mrg_pd *pd,
                             mrg_qp_init_attr *attr) MRG_MUST_CHECK;
MRG_API int mrg_destroy_ep_at(const char *site, mrg_id *id);
MRG_API int mrg_shutdown_ep_at(const char *site, mrg_id *id, int timeout_ms);
MRG_API int mrg_bind_addr_at(const char *site, mrg_id *id, struct sockaddr *addr) MRG_MUST_CHECK;
MRG_API int mrg_resolve_addr_at(const char *site, mrg_id *id, struct sockaddr *src, struct sockaddr *dst,
                                int timeout_ms) MRG_MUST_CHECK;
MRG_API int mrg_resolve_route_at(const char *site, mrg_id *id, int timeout_ms) MRG_MUST_CHECK;
MRG_API int mrg_listen_at(const char *site, mrg_id *id, int backlog) MRG_MUST_CHECK;
MRG_API int mrg_get_request_at(const char *site, mrg_id *listener, mrg_id **ret) MRG_MUST_CHECK;
MRG_API int mrg_connect_at(const char *site, mrg_id *id, struct rdma_conn_param *param) MRG_MUST_CHECK;
MRG_API int mrg_accept_at(const char *site, mrg_id *id, struct rdma_conn_param *param) MRG_MUST_CHECK;
MRG_API int mrg_reject_at(const char *site, mrg_id *id, const void *private_data, uint8_t length);
MRG_API int mrg_reject_ece_at(const char *site, mrg_id *id, const void *private_data, uint8_t length);
MRG_API int mrg_disconnect_at(const char *site, mrg_id *id);
MRG_API int mrg_establish_at(const char *site, mrg_id *id) MRG_MUST_CHECK;
MRG_API int mrg_notify_at(const char *site, mrg_id *id, enum ibv_event_type event);
MRG_API int mrg_set_option_at(const char *site, mrg_id *id, int level, int name, void *value, size_t length)
    MRG_MUST_CHECK;
MRG_API int mrg_migrate_id_at(const char *site, mrg_id *id, mrg_channel *channel) MRG_MUST_CHECK;
MRG_API int mrg_init_qp_attr_at(const char *site, mrg_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
    MRG_MUST_CHECK;
MRG_API int mrg_set_local_ece_at(const char *site, mrg_id *id, struct ibv_ece *ece) MRG_MUST_CHECK;
MRG_API int mrg_get_remote_ece_at(const char *site, mrg_id *id, struct ibv_ece *ece) MRG_MUST_CHECK;
MRG_API int mrg_join_multicast_at(const char *site, mrg_id *id, struct sockaddr *addr, void *context) MRG_MUST_CHECK;
MRG_API int mrg_join_multicast_ex_at(const char *site, mrg_id *id, struct rdma_cm_join_mc_attr_ex *mc_join_attr,
                                     void *context) MRG_MUST_CHECK;
MRG_API int mrg_leave_multicast_at(const char *site, mrg_id *id, struct sockaddr *addr);
MRG_API int mrg_create_qp_at(const char *site, mrg_id *id, mrg_pd *pd, mrg_qp_init_attr *attr) MRG_MUST_CHECK;
MRG_API int mrg_create_qp_ex_at(const char *site, mrg_id *id, mrg_qp_init_attr *attr) MRG_MUST_CHECK;
MRG_API int mrg_destroy_qp_at(const char *site, mrg_id *id);
MRG_API int mrg_create_srq_at(const char *site, mrg_id *id, mrg_pd *pd, mrg_srq_init_attr *attr) MRG_MUST_CHECK;
MRG_API int mrg_create_srq_ex_at(const char *site, mrg_id *id, mrg_srq_init_attr *attr) MRG_MUST_CHECK;
MRG_API int mrg_destroy_srq_at(const char *site, mrg_id *id);
MRG_API void *mrg_id_context_at(const char *site, mrg_id *id);
MRG_API mrg_channel *mrg_id_channel_at(const char *site, mrg_id *id);
MRG_API mrg_context *mrg_id_verbs_at(const char *site, mrg_id *id);
MRG_API mrg_qp *mrg_id_qp_at(const char *site, mrg_id *id);
MRG_API mrg_srq *mrg_id_srq_at(const char *site, mrg_id *id);
MRG_API mrg_cq *mrg_id_send_cq_at(const char *site, mrg_id *id);
MRG_API mrg_cq *mrg_id_recv_cq_at(const char *site, mrg_id *id);
MRG_API struct sockaddr *mrg_get_local_addr_at(const char *site, mrg_id *id);
MRG_API struct sockaddr *mrg_get_peer_addr_at(const char *site, mrg_id *id);
MRG_API uint16_t mrg_get_src_port_at(const char *site, mrg_id *id);
MRG_API uint16_t mrg_get_dst_port_at(const char *site, mrg_id *id);
MRG_API int mrg_id_set_context_at(const char *site, mrg_id *id, void *context);
MRG_API const void *mrg_id_private_data_at(const char *site, mrg_id *id, size_t *length);
MRG_API mrg_pd *mrg_id_pd_at(const char *site, mrg_id *id) MRG_MUST_CHECK;
MRG_API mrg_context *mrg_open_device_at(const char *site, struct ibv_device *device) MRG_MUST_CHECK;
MRG_API int mrg_close_device_at(const char *site, mrg_context *context);
MRG_API mrg_context **mrg_get_devices_at(const char *site, int *num_devices) MRG_MUST_CHECK;
MRG_API int mrg_free_devices_at(const char *site, mrg_context **list);
MRG_API int mrg_query_device_at(const char *site, mrg_context *context, struct ibv_device_attr *device_attr)
    MRG_MUST_CHECK;
MRG_API int mrg_query_device_ex_at(const char *site, mrg_context *context,
                                   const struct ibv_query_device_ex_input *input, struct ibv_device_attr_ex *attr)
    MRG_MUST_CHECK;
MRG_API int mrg_query_port_at(const char *site, mrg_context *context, uint8_t port_num, struct ibv_port_attr *port_attr)
    MRG_MUST_CHECK;
MRG_API int mrg_query_gid_at(const char *site, mrg_context *context, uint8_t port_num, int index, union ibv_gid *gid)
    MRG_MUST_CHECK;
MRG_API int mrg_query_pkey_at(const char *site, mrg_context *context, uint8_t port_num, int index, __be16 *pkey)
    MRG_MUST_CHECK;
MRG_API int mrg_get_async_event_at(const char *site, mrg_context *context, mrg_async_event **ret) MRG_MUST_CHECK;
MRG_API int mrg_ack_async_event_at(const char *site, mrg_async_event *event);
MRG_API int mrg_context_async_fd_at(const char *site, mrg_context *context);
MRG_API int mrg_async_event_type_at(const char *site, mrg_async_event *event);
MRG_API mrg_qp *mrg_async_event_qp_at(const char *site, mrg_async_event *event);
MRG_API mrg_cq *mrg_async_event_cq_at(const char *site, mrg_async_event *event);
MRG_API mrg_srq *mrg_async_event_srq_at(const char *site, mrg_async_event *event);
MRG_API int mrg_async_event_port_at(const char *site, mrg_async_event *event);
MRG_API mrg_td *mrg_alloc_td_at(const char *site, mrg_context *context, struct ibv_td_init_attr *attr) MRG_MUST_CHECK;
MRG_API int mrg_dealloc_td_at(const char *site, mrg_td *td);
MRG_API mrg_pd *mrg_alloc_parent_domain_at(const char *site, mrg_pd *pd, mrg_td *td) MRG_MUST_CHECK;
MRG_API mrg_xrcd *mrg_open_xrcd_at(const char *site, mrg_context *context, struct ibv_xrcd_init_attr *attr)
    MRG_MUST_CHECK;
MRG_API int mrg_close_xrcd_at(const char *site, mrg_xrcd *xrcd);
MRG_API mrg_srq *mrg_ibv_create_srq_at(const char *site, mrg_pd *pd, mrg_srq_init_attr *attr) MRG_MUST_CHECK;
MRG_API mrg_srq *mrg_ibv_create_srq_ex_at(const char *site, mrg_context *context, mrg_srq_init_attr *attr)
    MRG_MUST_CHECK;
MRG_API int mrg_ibv_destroy_srq_at(const char *site, mrg_srq *srq);
MRG_API int mrg_modify_srq_at(const char *site, mrg_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask)
    MRG_MUST_CHECK;
MRG_API int mrg_query_srq_at(const char *site, mrg_srq *srq, struct ibv_srq_attr *srq_attr) MRG_MUST_CHECK;
MRG_API int mrg_get_srq_num_at(const char *site, mrg_srq *srq, uint32_t *srq_num) MRG_MUST_CHECK;
MRG_API mrg_qp *mrg_ibv_create_qp_at(const char *site, mrg_pd *pd, mrg_qp_init_attr *attr) MRG_MUST_CHECK;
MRG_API mrg_qp *mrg_ibv_create_qp_ex_at(const char *site, mrg_context *context, mrg_qp_init_attr *attr) MRG_MUST_CHECK;
MRG_API int mrg_ibv_destroy_qp_at(const char *site, mrg_qp *qp);
MRG_API int mrg_modify_qp_at(const char *site, mrg_qp *qp, struct ibv_qp_attr *attr, int attr_mask) MRG_MUST_CHECK;
MRG_API int mrg_query_qp_at(const char *site, mrg_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
                            mrg_qp_init_attr *init_attr) MRG_MUST_CHECK;
MRG_API int mrg_attach_mcast_at(const char *site, mrg_qp *qp, const union ibv_gid *gid, uint16_t lid) MRG_MUST_CHECK;
MRG_API int mrg_detach_mcast_at(const char *site, mrg_qp *qp, const union ibv_gid *gid, uint16_t lid) MRG_MUST_CHECK;
MRG_API uint32_t mrg_qp_num_at(const char *site, mrg_qp *qp);
MRG_API void *mrg_qp_context_at(const char *site, mrg_qp *qp);
MRG_API int mrg_ibv_post_send_at(const char *site, mrg_qp *qp, mrg_send_wr *wr, mrg_send_wr **bad_wr) MRG_MUST_CHECK;
MRG_API int mrg_ibv_post_recv_at(const char *site, mrg_qp *qp, mrg_recv_wr *wr, mrg_recv_wr **bad_wr) MRG_MUST_CHECK;
MRG_API int mrg_post_srq_recv_at(const char *site, mrg_srq *srq, mrg_recv_wr *wr, mrg_recv_wr **bad_wr) MRG_MUST_CHECK;
MRG_API mrg_ah *mrg_create_ah_at(const char *site, mrg_pd *pd, struct ibv_ah_attr *attr) MRG_MUST_CHECK;
MRG_API mrg_ah *mrg_create_ah_from_wc_at(const char *site, mrg_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
                                         uint8_t port_num) MRG_MUST_CHECK;
MRG_API int mrg_init_ah_from_wc_at(const char *site, mrg_context *context, uint8_t port_num, struct ibv_wc *wc,
                                   struct ibv_grh *grh, struct ibv_ah_attr *ah_attr) MRG_MUST_CHECK;
MRG_API int mrg_destroy_ah_at(const char *site, mrg_ah *ah);
MRG_API mrg_mw *mrg_alloc_mw_at(const char *site, mrg_pd *pd, enum ibv_mw_type type) MRG_MUST_CHECK;
MRG_API int mrg_dealloc_mw_at(const char *site, mrg_mw *mw);
MRG_API uint32_t mrg_mw_rkey_at(const char *site, mrg_mw *mw);
MRG_API int mrg_bind_mw_at(const char *site, mrg_qp *qp, mrg_mw *mw, mrg_mw_bind *mw_bind) MRG_MUST_CHECK;
MRG_API mrg_context *mrg_adopt_context_at(const char *site, struct ibv_context *raw) MRG_MUST_CHECK;
MRG_API mrg_pd *mrg_adopt_pd_at(const char *site, struct ibv_pd *raw) MRG_MUST_CHECK;
MRG_API mrg_id *mrg_adopt_id_at(const char *site, struct rdma_cm_id *raw) MRG_MUST_CHECK;
MRG_API struct ibv_context *mrg_context_raw_at(const char *site, mrg_context *context);
MRG_API struct ibv_pd *mrg_pd_raw_at(const char *site, mrg_pd *pd);
MRG_API struct ibv_qp *mrg_qp_raw_at(const char *site, mrg_qp *qp);
MRG_API struct rdma_cm_id *mrg_id_raw_at(const char *site, mrg_id *id);
MRG_API mrg_pd *mrg_alloc_pd_at(const char *site, mrg_context *context) MRG_MUST_CHECK;
MRG_API int mrg_dealloc_pd_at(const char *site, mrg_pd *pd);
MRG_API mrg_pd *mrg_pd_ref_at(const char *site, mrg_pd *pd);
MRG_API mrg_pd *mrg_pd_unref_at(const char *site, mrg_pd *pd);
MRG_API mrg_mr *mrg_reg_msgs_at(const char *site, mrg_id *id, void *addr, size_t length) MRG_MUST_CHECK;
MRG_API mrg_mr *mrg_reg_read_at(const char *site, mrg_id *id, void *addr, size_t length) MRG_MUST_CHECK;
MRG_API mrg_mr *mrg_reg_write_at(const char *site, mrg_id *id, void *addr, size_t length) MRG_MUST_CHECK;
MRG_API mrg_mr *mrg_reg_send_at(const char *site, mrg_id *id, const void *addr, size_t length) MRG_MUST_CHECK;
MRG_API int mrg_reg_msgsv_at(const char *site, mrg_id *id, const struct iovec *ranges, int count, mrg_mr **ret)
    MRG_MUST_CHECK;
MRG_API int mrg_reg_readv_at(const char *site, mrg_id *id, const struct iovec *ranges, int count, mrg_mr **ret)
    MRG_MUST_CHECK;
MRG_API int mrg_reg_writev_at(const char *site, mrg_id *id, const struct iovec *ranges, int count, mrg_mr **ret)
    MRG_MUST_CHECK;
MRG_API mrg_mr *mrg_reg_mr_at(const char *site, mrg_pd *pd, void *addr, size_t length, int access) MRG_MUST_CHECK;
MRG_API mrg_mr *mrg_reg_mr_owned_at(const char *site, mrg_pd *pd, void *addr, size_t length, int access,
                                    mrg_release_fn *release, void *arg) MRG_MUST_CHECK;
MRG_API mrg_mr *mrg_reg_mr_iova_at(const char *site, mrg_pd *pd, void *addr, size_t length, uint64_t iova, int access)
    MRG_MUST_CHECK;
MRG_API mrg_mr *mrg_reg_dmabuf_mr_at(const char *site, mrg_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                     int fd, int access) MRG_MUST_CHECK;
MRG_API mrg_mr *mrg_alloc_null_mr_at(const char *site, mrg_pd *pd) MRG_MUST_CHECK;
MRG_API int mrg_rereg_mr_at(const char *site, mrg_mr *mr, int flags, mrg_pd *pd, void *addr, size_t length, int access)
    MRG_MUST_CHECK;
MRG_API int mrg_advise_mr_at(const char *site, mrg_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                             const mrg_sge *sgl, uint32_t nsge) MRG_MUST_CHECK;
MRG_API int mrg_dereg_mr_at(const char *site, mrg_mr *mr);
MRG_API mrg_mr *mrg_mr_ref_at(const char *site, mrg_mr *mr);
MRG_API mrg_mr *mrg_mr_unref_at(const char *site, mrg_mr *mr);
MRG_API int mrg_mr_move_at(const char *site, mrg_mr *mr, mrg_pd *pd);
MRG_API int mrg_borrow_begin_at(const char *site, mrg_mr *mr, void *addr, size_t length, int access, mrg_borrow **ret)
    MRG_MUST_CHECK;
MRG_API int mrg_borrow_end_at(const char *site, mrg_borrow *borrow);
MRG_API void *mrg_mr_addr_at(const char *site, mrg_mr *mr);
MRG_API uint64_t mrg_mr_iova_at(const char *site, mrg_mr *mr);
MRG_API size_t mrg_mr_length_at(const char *site, mrg_mr *mr);
MRG_API uint32_t mrg_mr_rkey_at(const char *site, mrg_mr *mr);
MRG_API int mrg_mr_access_at(const char *site, mrg_mr *mr);
MRG_API struct ibv_mr *mrg_mr_raw_at(const char *site, mrg_mr *mr);
MRG_API mrg_comp_channel *mrg_create_comp_channel_at(const char *site, mrg_context *context) MRG_MUST_CHECK;
MRG_API int mrg_destroy_comp_channel_at(const char *site, mrg_comp_channel *channel);
MRG_API int mrg_comp_channel_fd_at(const char *site, mrg_comp_channel *channel);
MRG_API mrg_cq *mrg_create_cq_at(const char *site, mrg_context *device, int cqe, void *context,
                                 mrg_comp_channel *channel, int comp_vector) MRG_MUST_CHECK;
MRG_API mrg_cq *mrg_create_cq_ex_at(const char *site, mrg_context *device, mrg_cq_init_attr_ex *attr) MRG_MUST_CHECK;
MRG_API int mrg_destroy_cq_at(const char *site, mrg_cq *cq);
MRG_API int mrg_resize_cq_at(const char *site, mrg_cq *cq, int cqe) MRG_MUST_CHECK;
MRG_API struct ibv_cq *mrg_cq_raw_at(const char *site, mrg_cq *cq);
MRG_API int mrg_req_notify_cq_at(const char *site, mrg_cq *cq, int solicited_only);
MRG_API int mrg_get_cq_event_at(const char *site, mrg_comp_channel *channel, mrg_cq **ret, void **context);
MRG_API int mrg_ack_cq_events_at(const char *site, mrg_cq *cq, unsigned int count);
MRG_API int mrg_poll_cq_at(const char *site, mrg_cq *cq, int count, struct ibv_wc *wc);
MRG_API int mrg_get_send_comp_at(const char *site, mrg_id *id, struct ibv_wc *wc);
MRG_API int mrg_get_recv_comp_at(const char *site, mrg_id *id, struct ibv_wc *wc);
MRG_API int mrg_post_recv_at(const char *site, mrg_id *id, void *context, void *addr, size_t length, mrg_mr *mr);
MRG_API int mrg_post_send_at(const char *site, mrg_id *id, void *context, const void *addr, size_t length, mrg_mr *mr,
                             int flags);
MRG_API int mrg_post_read_at(const char *site, mrg_id *id, void *context, void *addr, size_t length, mrg_mr *mr,
                             int flags, uint64_t remote_addr, uint32_t rkey);
MRG_API int mrg_post_write_at(const char *site, mrg_id *id, void *context, const void *addr, size_t length, mrg_mr *mr,
                              int flags, uint64_t remote_addr, uint32_t rkey);
MRG_API int mrg_post_recvv_at(const char *site, mrg_id *id, void *context, const mrg_sge *sgl, int nsge);
MRG_API int mrg_post_sendv_at(const char *site, mrg_id *id, void *context, const mrg_sge *sgl, int nsge, int flags);
MRG_API int mrg_post_readv_at(const char *site, mrg_id *id, void *context, const mrg_sge *sgl, int nsge, int flags,
                              uint64_t remote_addr, uint32_t rkey);
MRG_API int mrg_post_writev_at(const char *site, mrg_id *id, void *context, const mrg_sge *sgl, int nsge, int flags,
                               uint64_t remote_addr, uint32_t rkey);
MRG_API int mrg_post_ud_send_at(const char *site, mrg_id *id, void *context, const void *addr, size_t length,
                                mrg_mr *mr, int flags, mrg_ah *ah, uint32_t remote_qpn);
MRG_API int mrg_post_read_from_at(const char *site, mrg_id *id, void *context, void *addr, size_t length, mrg_mr *mr,
                                  int flags, const mrg_remote *remote, uint64_t offset);
MRG_API int mrg_post_write_to_at(const char *site, mrg_id *id, void *context, const void *addr, size_t length,
                                 mrg_mr *mr, int flags, const mrg_remote *remote, uint64_t offset);
MRG_API int mrg_mr_export_at(const char *site, mrg_mr *mr, size_t offset, size_t length, int access, mrg_remote *ret);
MRG_API ssize_t mrg_remote_pack_at(const char *site, const mrg_remote *remote, void *buf, size_t size);
MRG_API int mrg_remote_unpack_at(const char *site, mrg_remote *ret, const void *buf, size_t size);

#ifdef __cplusplus
}
#endif

#ifndef MRG_NO_SITE
#define MRG_SITE_LINE_(line) #line
#define MRG_SITE_LINE(line) MRG_SITE_LINE_(line)
#define MRG_SITE __FILE__ ":" MRG_SITE_LINE(__LINE__)

#define mrg_create_event_channel() mrg_create_event_channel_at(MRG_SITE)
#define mrg_destroy_event_channel(...) mrg_destroy_event_channel_at(MRG_SITE, __VA_ARGS__)
#define mrg_channel_fd(...) mrg_channel_fd_at(MRG_SITE, __VA_ARGS__)
#define mrg_get_cm_event(...) mrg_get_cm_event_at(MRG_SITE, __VA_ARGS__)
#define mrg_ack_cm_event(...) mrg_ack_cm_event_at(MRG_SITE, __VA_ARGS__)
#define mrg_event_type(...) mrg_event_type_at(MRG_SITE, __VA_ARGS__)
#define mrg_event_status(...) mrg_event_status_at(MRG_SITE, __VA_ARGS__)
#define mrg_event_id(...) mrg_event_id_at(MRG_SITE, __VA_ARGS__)
#define mrg_event_listen_id(...) mrg_event_listen_id_at(MRG_SITE, __VA_ARGS__)
#define mrg_event_private_data(...) mrg_event_private_data_at(MRG_SITE, __VA_ARGS__)
#define mrg_event_conn_param(...) mrg_event_conn_param_at(MRG_SITE, __VA_ARGS__)
#define mrg_event_ud_param(...) mrg_event_ud_param_at(MRG_SITE, __VA_ARGS__)
#define mrg_create_id(...) mrg_create_id_at(MRG_SITE, __VA_ARGS__)
#define mrg_destroy_id(...) mrg_destroy_id_at(MRG_SITE, __VA_ARGS__)
#define mrg_create_ep(...) mrg_create_ep_at(MRG_SITE, __VA_ARGS__)
#define mrg_destroy_ep(...) mrg_destroy_ep_at(MRG_SITE, __VA_ARGS__)
#define mrg_shutdown_ep(...) mrg_shutdown_ep_at(MRG_SITE, __VA_ARGS__)
#define mrg_bind_addr(...) mrg_bind_addr_at(MRG_SITE, __VA_ARGS__)
#define mrg_resolve_addr(...) mrg_resolve_addr_at(MRG_SITE, __VA_ARGS__)
#define mrg_resolve_route(...) mrg_resolve_route_at(MRG_SITE, __VA_ARGS__)
#define mrg_listen(...) mrg_listen_at(MRG_SITE, __VA_ARGS__)
#define mrg_get_request(...) mrg_get_request_at(MRG_SITE, __VA_ARGS__)
#define mrg_connect(...) mrg_connect_at(MRG_SITE, __VA_ARGS__)
#define mrg_accept(...) mrg_accept_at(MRG_SITE, __VA_ARGS__)
#define mrg_reject(...) mrg_reject_at(MRG_SITE, __VA_ARGS__)
#define mrg_reject_ece(...) mrg_reject_ece_at(MRG_SITE, __VA_ARGS__)
#define mrg_disconnect(...) mrg_disconnect_at(MRG_SITE, __VA_ARGS__)
#define mrg_establish(...) mrg_establish_at(MRG_SITE, __VA_ARGS__)
#define mrg_notify(...) mrg_notify_at(MRG_SITE, __VA_ARGS__)
#define mrg_set_option(...) mrg_set_option_at(MRG_SITE, __VA_ARGS__)
#define mrg_migrate_id(...) mrg_migrate_id_at(MRG_SITE, __VA_ARGS__)
#define mrg_init_qp_attr(...) mrg_init_qp_attr_at(MRG_SITE, __VA_ARGS__)
#define mrg_set_local_ece(...) mrg_set_local_ece_at(MRG_SITE, __VA_ARGS__)
#define mrg_get_remote_ece(...) mrg_get_remote_ece_at(MRG_SITE, __VA_ARGS__)
#define mrg_join_multicast(...) mrg_join_multicast_at(MRG_SITE, __VA_ARGS__)
#define mrg_join_multicast_ex(...) mrg_join_multicast_ex_at(MRG_SITE, __VA_ARGS__)
#define mrg_leave_multicast(...) mrg_leave_multicast_at(MRG_SITE, __VA_ARGS__)
#define mrg_create_qp(...) mrg_create_qp_at(MRG_SITE, __VA_ARGS__)
#define mrg_create_qp_ex(...) mrg_create_qp_ex_at(MRG_SITE, __VA_ARGS__)
#define mrg_destroy_qp(...) mrg_destroy_qp_at(MRG_SITE, __VA_ARGS__)
#define mrg_create_srq(...) mrg_create_srq_at(MRG_SITE, __VA_ARGS__)
#define mrg_create_srq_ex(...) mrg_create_srq_ex_at(MRG_SITE, __VA_ARGS__)
#define mrg_destroy_srq(...) mrg_destroy_srq_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_context(...) mrg_id_context_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_channel(...) mrg_id_channel_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_verbs(...) mrg_id_verbs_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_qp(...) mrg_id_qp_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_srq(...) mrg_id_srq_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_send_cq(...) mrg_id_send_cq_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_recv_cq(...) mrg_id_recv_cq_at(MRG_SITE, __VA_ARGS__)
#define mrg_get_local_addr(...) mrg_get_local_addr_at(MRG_SITE, __VA_ARGS__)
#define mrg_get_peer_addr(...) mrg_get_peer_addr_at(MRG_SITE, __VA_ARGS__)
#define mrg_get_src_port(...) mrg_get_src_port_at(MRG_SITE, __VA_ARGS__)
#define mrg_get_dst_port(...) mrg_get_dst_port_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_set_context(...) mrg_id_set_context_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_private_data(...) mrg_id_private_data_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_pd(...) mrg_id_pd_at(MRG_SITE, __VA_ARGS__)
#define mrg_open_device(...) mrg_open_device_at(MRG_SITE, __VA_ARGS__)
#define mrg_close_device(...) mrg_close_device_at(MRG_SITE, __VA_ARGS__)
#define mrg_get_devices(...) mrg_get_devices_at(MRG_SITE, __VA_ARGS__)
#define mrg_free_devices(...) mrg_free_devices_at(MRG_SITE, __VA_ARGS__)
#define mrg_query_device(...) mrg_query_device_at(MRG_SITE, __VA_ARGS__)
#define mrg_query_device_ex(...) mrg_query_device_ex_at(MRG_SITE, __VA_ARGS__)
#define mrg_query_port(...) mrg_query_port_at(MRG_SITE, __VA_ARGS__)
#define mrg_query_gid(...) mrg_query_gid_at(MRG_SITE, __VA_ARGS__)
#define mrg_query_pkey(...) mrg_query_pkey_at(MRG_SITE, __VA_ARGS__)
#define mrg_get_async_event(...) mrg_get_async_event_at(MRG_SITE, __VA_ARGS__)
#define mrg_ack_async_event(...) mrg_ack_async_event_at(MRG_SITE, __VA_ARGS__)
#define mrg_context_async_fd(...) mrg_context_async_fd_at(MRG_SITE, __VA_ARGS__)
#define mrg_async_event_type(...) mrg_async_event_type_at(MRG_SITE, __VA_ARGS__)
#define mrg_async_event_qp(...) mrg_async_event_qp_at(MRG_SITE, __VA_ARGS__)
#define mrg_async_event_cq(...) mrg_async_event_cq_at(MRG_SITE, __VA_ARGS__)
#define mrg_async_event_srq(...) mrg_async_event_srq_at(MRG_SITE, __VA_ARGS__)
#define mrg_async_event_port(...) mrg_async_event_port_at(MRG_SITE, __VA_ARGS__)
#define mrg_alloc_td(...) mrg_alloc_td_at(MRG_SITE, __VA_ARGS__)
#define mrg_dealloc_td(...) mrg_dealloc_td_at(MRG_SITE, __VA_ARGS__)
#define mrg_alloc_parent_domain(...) mrg_alloc_parent_domain_at(MRG_SITE, __VA_ARGS__)
#define mrg_open_xrcd(...) mrg_open_xrcd_at(MRG_SITE, __VA_ARGS__)
#define mrg_close_xrcd(...) mrg_close_xrcd_at(MRG_SITE, __VA_ARGS__)
#define mrg_ibv_create_srq(...) mrg_ibv_create_srq_at(MRG_SITE, __VA_ARGS__)
#define mrg_ibv_create_srq_ex(...) mrg_ibv_create_srq_ex_at(MRG_SITE, __VA_ARGS__)
#define mrg_ibv_destroy_srq(...) mrg_ibv_destroy_srq_at(MRG_SITE, __VA_ARGS__)
#define mrg_modify_srq(...) mrg_modify_srq_at(MRG_SITE, __VA_ARGS__)
#define mrg_query_srq(...) mrg_query_srq_at(MRG_SITE, __VA_ARGS__)
#define mrg_get_srq_num(...) mrg_get_srq_num_at(MRG_SITE, __VA_ARGS__)
#define mrg_ibv_create_qp(...) mrg_ibv_create_qp_at(MRG_SITE, __VA_ARGS__)
#define mrg_ibv_create_qp_ex(...) mrg_ibv_create_qp_ex_at(MRG_SITE, __VA_ARGS__)
#define mrg_ibv_destroy_qp(...) mrg_ibv_destroy_qp_at(MRG_SITE, __VA_ARGS__)
#define mrg_modify_qp(...) mrg_modify_qp_at(MRG_SITE, __VA_ARGS__)
#define mrg_query_qp(...) mrg_query_qp_at(MRG_SITE, __VA_ARGS__)
#define mrg_attach_mcast(...) mrg_attach_mcast_at(MRG_SITE, __VA_ARGS__)
#define mrg_detach_mcast(...) mrg_detach_mcast_at(MRG_SITE, __VA_ARGS__)
#define mrg_qp_num(...) mrg_qp_num_at(MRG_SITE, __VA_ARGS__)
#define mrg_qp_context(...) mrg_qp_context_at(MRG_SITE, __VA_ARGS__)
#define mrg_ibv_post_send(...) mrg_ibv_post_send_at(MRG_SITE, __VA_ARGS__)
#define mrg_ibv_post_recv(...) mrg_ibv_post_recv_at(MRG_SITE, __VA_ARGS__)
#define mrg_post_srq_recv(...) mrg_post_srq_recv_at(MRG_SITE, __VA_ARGS__)
#define mrg_create_ah(...) mrg_create_ah_at(MRG_SITE, __VA_ARGS__)
#define mrg_create_ah_from_wc(...) mrg_create_ah_from_wc_at(MRG_SITE, __VA_ARGS__)
#define mrg_init_ah_from_wc(...) mrg_init_ah_from_wc_at(MRG_SITE, __VA_ARGS__)
#define mrg_destroy_ah(...) mrg_destroy_ah_at(MRG_SITE, __VA_ARGS__)
#define mrg_alloc_mw(...) mrg_alloc_mw_at(MRG_SITE, __VA_ARGS__)
#define mrg_dealloc_mw(...) mrg_dealloc_mw_at(MRG_SITE, __VA_ARGS__)
#define mrg_mw_rkey(...) mrg_mw_rkey_at(MRG_SITE, __VA_ARGS__)
#define mrg_bind_mw(...) mrg_bind_mw_at(MRG_SITE, __VA_ARGS__)
#define mrg_adopt_context(...) mrg_adopt_context_at(MRG_SITE, __VA_ARGS__)
#define mrg_adopt_pd(...) mrg_adopt_pd_at(MRG_SITE, __VA_ARGS__)
#define mrg_adopt_id(...) mrg_adopt_id_at(MRG_SITE, __VA_ARGS__)
#define mrg_context_raw(...) mrg_context_raw_at(MRG_SITE, __VA_ARGS__)
#define mrg_pd_raw(...) mrg_pd_raw_at(MRG_SITE, __VA_ARGS__)
#define mrg_qp_raw(...) mrg_qp_raw_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_raw(...) mrg_id_raw_at(MRG_SITE, __VA_ARGS__)
#define mrg_alloc_pd(...) mrg_alloc_pd_at(MRG_SITE, __VA_ARGS__)
#define mrg_dealloc_pd(...) mrg_dealloc_pd_at(MRG_SITE, __VA_ARGS__)
#define mrg_pd_ref(...) mrg_pd_ref_at(MRG_SITE, __VA_ARGS__)
#define mrg_pd_unref(...) mrg_pd_unref_at(MRG_SITE, __VA_ARGS__)
#define mrg_reg_msgs(...) mrg_reg_msgs_at(MRG_SITE, __VA_ARGS__)
#define mrg_reg_read(...) mrg_reg_read_at(MRG_SITE, __VA_ARGS__)
#define mrg_reg_write(...) mrg_reg_write_at(MRG_SITE, __VA_ARGS__)
#define mrg_reg_send(...) mrg_reg_send_at(MRG_SITE, __VA_ARGS__)
#define mrg_reg_msgsv(...) mrg_reg_msgsv_at(MRG_SITE, __VA_ARGS__)
#define mrg_reg_readv(...) mrg_reg_readv_at(MRG_SITE, __VA_ARGS__)
#define mrg_reg_writev(...) mrg_reg_writev_at(MRG_SITE, __VA_ARGS__)
#define mrg_reg_mr(...) mrg_reg_mr_at(MRG_SITE, __VA_ARGS__)
#define mrg_reg_mr_owned(...) mrg_reg_mr_owned_at(MRG_SITE, __VA_ARGS__)
#define mrg_reg_mr_iova(...) mrg_reg_mr_iova_at(MRG_SITE, __VA_ARGS__)
#define mrg_reg_dmabuf_mr(...) mrg_reg_dmabuf_mr_at(MRG_SITE, __VA_ARGS__)
#define mrg_alloc_null_mr(...) mrg_alloc_null_mr_at(MRG_SITE, __VA_ARGS__)
#define mrg_rereg_mr(...) mrg_rereg_mr_at(MRG_SITE, __VA_ARGS__)
#define mrg_advise_mr(...) mrg_advise_mr_at(MRG_SITE, __VA_ARGS__)
#define mrg_dereg_mr(...) mrg_dereg_mr_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_ref(...) mrg_mr_ref_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_unref(...) mrg_mr_unref_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_move(...) mrg_mr_move_at(MRG_SITE, __VA_ARGS__)
#define mrg_borrow_begin(...) mrg_borrow_begin_at(MRG_SITE, __VA_ARGS__)
#define mrg_borrow_end(...) mrg_borrow_end_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_addr(...) mrg_mr_addr_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_iova(...) mrg_mr_iova_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_length(...) mrg_mr_length_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_rkey(...) mrg_mr_rkey_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_access(...) mrg_mr_access_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_raw(...) mrg_mr_raw_at(MRG_SITE, __VA_ARGS__)
#define mrg_create_comp_channel(...) mrg_create_comp_channel_at(MRG_SITE, __VA_ARGS__)
#define mrg_destroy_comp_channel(...) mrg_destroy_comp_channel_at(MRG_SITE, __VA_ARGS__)
#define mrg_comp_channel_fd(...) mrg_comp_channel_fd_at(MRG_SITE, __VA_ARGS__)
#define mrg_create_cq(...) mrg_create_cq_at(MRG_SITE, __VA_ARGS__)
#define mrg_create_cq_ex(...) mrg_create_cq_ex_at(MRG_SITE, __VA_ARGS__)
#define mrg_destroy_cq(...) mrg_destroy_cq_at(MRG_SITE, __VA_ARGS__)
#define mrg_resize_cq(...) mrg_resize_cq_at(MRG_SITE, __VA_ARGS__)
#define mrg_cq_raw(...) mrg_cq_raw_at(MRG_SITE, __VA_ARGS__)
#define mrg_req_notify_cq(...) mrg_req_notify_cq_at(MRG_SITE, __VA_ARGS__)
#define mrg_get_cq_event(...) mrg_get_cq_event_at(MRG_SITE, __VA_ARGS__)
#define mrg_ack_cq_events(...) mrg_ack_cq_events_at(MRG_SITE, __VA_ARGS__)
#define mrg_poll_cq(...) mrg_poll_cq_at(MRG_SITE, __VA_ARGS__)
#define mrg_get_send_comp(...) mrg_get_send_comp_at(MRG_SITE, __VA_ARGS__)
#define mrg_get_recv_comp(...) mrg_get_recv_comp_at(MRG_SITE, __VA_ARGS__)
#define mrg_post_recv(...) mrg_post_recv_at(MRG_SITE, __VA_ARGS__)
#define mrg_post_send(...) mrg_post_send_at(MRG_SITE, __VA_ARGS__)
#define mrg_post_read(...) mrg_post_read_at(MRG_SITE, __VA_ARGS__)
#define mrg_post_write(...) mrg_post_write_at(MRG_SITE, __VA_ARGS__)
#define mrg_post_recvv(...) mrg_post_recvv_at(MRG_SITE, __VA_ARGS__)
#define mrg_post_sendv(...) mrg_post_sendv_at(MRG_SITE, __VA_ARGS__)
#define mrg_post_readv(...) mrg_post_readv_at(MRG_SITE, __VA_ARGS__)
#define mrg_post_writev(...) mrg_post_writev_at(MRG_SITE, __VA_ARGS__)
#define mrg_post_ud_send(...) mrg_post_ud_send_at(MRG_SITE, __VA_ARGS__)
#define mrg_post_read_from(...) mrg_post_read_from_at(MRG_SITE, __VA_ARGS__)
#define mrg_post_write_to(...) mrg_post_write_to_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_export(...) mrg_mr_export_at(MRG_SITE, __VA_ARGS__)
#define mrg_remote_pack(...) mrg_remote_pack_at(MRG_SITE, __VA_ARGS__)
#define mrg_remote_unpack(...) mrg_remote_unpack_at(MRG_SITE, __VA_ARGS__)
#endif

#endif
