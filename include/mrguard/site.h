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
MRG_API int mrg_create_id_at(const char *site, mrg_channel *channel, mrg_id **ret, void *context,
                             enum rdma_port_space ps) MRG_MUST_CHECK;
MRG_API int mrg_destroy_id_at(const char *site, mrg_id *id);
MRG_API int mrg_create_ep_at(const char *site, mrg_id **ret, struct rdma_addrinfo *res, mrg_pd *pd,
                             mrg_qp_init_attr *attr) MRG_MUST_CHECK;
MRG_API int mrg_destroy_ep_at(const char *site, mrg_id *id);
MRG_API int mrg_bind_addr_at(const char *site, mrg_id *id, struct sockaddr *addr) MRG_MUST_CHECK;
MRG_API int mrg_resolve_addr_at(const char *site, mrg_id *id, struct sockaddr *src, struct sockaddr *dst,
                                int timeout_ms) MRG_MUST_CHECK;
MRG_API int mrg_resolve_route_at(const char *site, mrg_id *id, int timeout_ms) MRG_MUST_CHECK;
MRG_API int mrg_listen_at(const char *site, mrg_id *id, int backlog) MRG_MUST_CHECK;
MRG_API int mrg_get_request_at(const char *site, mrg_id *listener, mrg_id **ret) MRG_MUST_CHECK;
MRG_API int mrg_connect_at(const char *site, mrg_id *id, struct rdma_conn_param *param) MRG_MUST_CHECK;
MRG_API int mrg_accept_at(const char *site, mrg_id *id, struct rdma_conn_param *param) MRG_MUST_CHECK;
MRG_API int mrg_reject_at(const char *site, mrg_id *id, const void *private_data, uint8_t length);
MRG_API int mrg_disconnect_at(const char *site, mrg_id *id);
MRG_API int mrg_establish_at(const char *site, mrg_id *id) MRG_MUST_CHECK;
MRG_API int mrg_notify_at(const char *site, mrg_id *id, enum ibv_event_type event);
MRG_API int mrg_set_option_at(const char *site, mrg_id *id, int level, int name, void *value, size_t length)
    MRG_MUST_CHECK;
MRG_API int mrg_migrate_id_at(const char *site, mrg_id *id, mrg_channel *channel) MRG_MUST_CHECK;
MRG_API int mrg_create_qp_at(const char *site, mrg_id *id, mrg_pd *pd, mrg_qp_init_attr *attr) MRG_MUST_CHECK;
MRG_API int mrg_destroy_qp_at(const char *site, mrg_id *id);
MRG_API void *mrg_id_context_at(const char *site, mrg_id *id);
MRG_API mrg_channel *mrg_id_channel_at(const char *site, mrg_id *id);
MRG_API mrg_context *mrg_id_verbs_at(const char *site, mrg_id *id);
MRG_API mrg_qp *mrg_id_qp_at(const char *site, mrg_id *id);
MRG_API struct sockaddr *mrg_id_local_addr_at(const char *site, mrg_id *id);
MRG_API struct sockaddr *mrg_id_peer_addr_at(const char *site, mrg_id *id);
MRG_API int mrg_id_set_context_at(const char *site, mrg_id *id, void *context);
MRG_API const void *mrg_id_private_data_at(const char *site, mrg_id *id, size_t *length);
MRG_API mrg_pd *mrg_id_pd_at(const char *site, mrg_id *id) MRG_MUST_CHECK;
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
MRG_API int mrg_dereg_mr_at(const char *site, mrg_mr *mr);
MRG_API mrg_mr *mrg_mr_ref_at(const char *site, mrg_mr *mr);
MRG_API mrg_mr *mrg_mr_unref_at(const char *site, mrg_mr *mr);
MRG_API int mrg_mr_move_at(const char *site, mrg_mr *mr, mrg_pd *pd);
MRG_API void *mrg_mr_addr_at(const char *site, mrg_mr *mr);
MRG_API size_t mrg_mr_length_at(const char *site, mrg_mr *mr);
MRG_API uint32_t mrg_mr_rkey_at(const char *site, mrg_mr *mr);
MRG_API int mrg_mr_access_at(const char *site, mrg_mr *mr);
MRG_API mrg_comp_channel *mrg_create_comp_channel_at(const char *site, mrg_context *context) MRG_MUST_CHECK;
MRG_API int mrg_destroy_comp_channel_at(const char *site, mrg_comp_channel *channel);
MRG_API int mrg_comp_channel_fd_at(const char *site, mrg_comp_channel *channel);
MRG_API mrg_cq *mrg_create_cq_at(const char *site, mrg_context *device, int cqe, void *context,
                                 mrg_comp_channel *channel, int comp_vector) MRG_MUST_CHECK;
MRG_API int mrg_destroy_cq_at(const char *site, mrg_cq *cq);
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
#define mrg_create_id(...) mrg_create_id_at(MRG_SITE, __VA_ARGS__)
#define mrg_destroy_id(...) mrg_destroy_id_at(MRG_SITE, __VA_ARGS__)
#define mrg_create_ep(...) mrg_create_ep_at(MRG_SITE, __VA_ARGS__)
#define mrg_destroy_ep(...) mrg_destroy_ep_at(MRG_SITE, __VA_ARGS__)
#define mrg_bind_addr(...) mrg_bind_addr_at(MRG_SITE, __VA_ARGS__)
#define mrg_resolve_addr(...) mrg_resolve_addr_at(MRG_SITE, __VA_ARGS__)
#define mrg_resolve_route(...) mrg_resolve_route_at(MRG_SITE, __VA_ARGS__)
#define mrg_listen(...) mrg_listen_at(MRG_SITE, __VA_ARGS__)
#define mrg_get_request(...) mrg_get_request_at(MRG_SITE, __VA_ARGS__)
#define mrg_connect(...) mrg_connect_at(MRG_SITE, __VA_ARGS__)
#define mrg_accept(...) mrg_accept_at(MRG_SITE, __VA_ARGS__)
#define mrg_reject(...) mrg_reject_at(MRG_SITE, __VA_ARGS__)
#define mrg_disconnect(...) mrg_disconnect_at(MRG_SITE, __VA_ARGS__)
#define mrg_establish(...) mrg_establish_at(MRG_SITE, __VA_ARGS__)
#define mrg_notify(...) mrg_notify_at(MRG_SITE, __VA_ARGS__)
#define mrg_set_option(...) mrg_set_option_at(MRG_SITE, __VA_ARGS__)
#define mrg_migrate_id(...) mrg_migrate_id_at(MRG_SITE, __VA_ARGS__)
#define mrg_create_qp(...) mrg_create_qp_at(MRG_SITE, __VA_ARGS__)
#define mrg_destroy_qp(...) mrg_destroy_qp_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_context(...) mrg_id_context_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_channel(...) mrg_id_channel_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_verbs(...) mrg_id_verbs_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_qp(...) mrg_id_qp_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_local_addr(...) mrg_id_local_addr_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_peer_addr(...) mrg_id_peer_addr_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_set_context(...) mrg_id_set_context_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_private_data(...) mrg_id_private_data_at(MRG_SITE, __VA_ARGS__)
#define mrg_id_pd(...) mrg_id_pd_at(MRG_SITE, __VA_ARGS__)
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
#define mrg_dereg_mr(...) mrg_dereg_mr_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_ref(...) mrg_mr_ref_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_unref(...) mrg_mr_unref_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_move(...) mrg_mr_move_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_addr(...) mrg_mr_addr_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_length(...) mrg_mr_length_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_rkey(...) mrg_mr_rkey_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_access(...) mrg_mr_access_at(MRG_SITE, __VA_ARGS__)
#define mrg_create_comp_channel(...) mrg_create_comp_channel_at(MRG_SITE, __VA_ARGS__)
#define mrg_destroy_comp_channel(...) mrg_destroy_comp_channel_at(MRG_SITE, __VA_ARGS__)
#define mrg_comp_channel_fd(...) mrg_comp_channel_fd_at(MRG_SITE, __VA_ARGS__)
#define mrg_create_cq(...) mrg_create_cq_at(MRG_SITE, __VA_ARGS__)
#define mrg_destroy_cq(...) mrg_destroy_cq_at(MRG_SITE, __VA_ARGS__)
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
#define mrg_post_read_from(...) mrg_post_read_from_at(MRG_SITE, __VA_ARGS__)
#define mrg_post_write_to(...) mrg_post_write_to_at(MRG_SITE, __VA_ARGS__)
#define mrg_mr_export(...) mrg_mr_export_at(MRG_SITE, __VA_ARGS__)
#define mrg_remote_pack(...) mrg_remote_pack_at(MRG_SITE, __VA_ARGS__)
#define mrg_remote_unpack(...) mrg_remote_unpack_at(MRG_SITE, __VA_ARGS__)
#endif

#endif
