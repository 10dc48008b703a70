/*
 * Handles, and the words that say who owns what.
 *
 * A handle is a pointer type that points nowhere: compare it with NULL, copy it, never look inside. Using one
 * whose object is gone is an error (ESTALE), not a crash.
 */
#ifndef MRGUARD_TYPES_H
#define MRGUARD_TYPES_H

#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mrg_channel mrg_channel;           /* event channel, struct rdma_event_channel */
typedef struct mrg_cm_event mrg_cm_event;         /* an event got and not acknowledged, struct rdma_cm_event */
typedef struct mrg_id mrg_id;                     /* struct rdma_cm_id */
typedef struct mrg_context mrg_context;           /* an open device, struct ibv_context */
typedef struct mrg_pd mrg_pd;                     /* struct ibv_pd */
typedef struct mrg_mr mrg_mr;                     /* struct ibv_mr */
typedef struct mrg_comp_channel mrg_comp_channel; /* struct ibv_comp_channel */
typedef struct mrg_cq mrg_cq;                     /* struct ibv_cq */
typedef struct mrg_qp mrg_qp;                     /* struct ibv_qp */

/* What a peer may do with a range of this process's memory. Plain data: copy it, pack it, send it. */
typedef struct mrg_remote {
    uint64_t addr;   /* as the peer addresses it */
    uint64_t length; /* bytes, not 0 */
    uint32_t rkey;
    uint32_t access; /* IBV_ACCESS_REMOTE_READ, _WRITE, _ATOMIC: not 0 */
} mrg_remote;

/* One piece of local memory, struct ibv_sge with a handle in the place of the lkey. */
typedef struct mrg_sge {
    void *addr;
    size_t length; /* bytes; 0: the piece is skipped */
    mrg_mr *mr;    /* covers [addr, addr + length); NULL only where nothing is sent or it is sent inline */
} mrg_sge;

/* struct ibv_qp_init_attr with handles. */
typedef struct mrg_qp_init_attr {
    void *qp_context;
    mrg_cq *send_cq;       /* NULL: one is made for the id, and goes with its QP */
    mrg_cq *recv_cq;       /* likewise */
    struct ibv_qp_cap cap; /* asked for; what was granted after success */
    int sq_sig_all;        /* every WR of the send queue is signaled */
} mrg_qp_init_attr;

/* Takes memory back that a registration owned: mrg_reg_mr_owned. */
typedef void mrg_release_fn(void *addr, size_t length, void *arg);

#define MRG_API __attribute__((visibility("default")))
#define MRG_MUST_CHECK __attribute__((warn_unused_result))

/* Ownership, for readers and for mrguard's lint: the function gives, takes or borrows what it is beside. */
#ifdef __clang__
#define MRG_GIVES __attribute__((annotate("mrg_gives")))
#define MRG_TAKES __attribute__((annotate("mrg_takes")))
#define MRG_BORROWS __attribute__((annotate("mrg_borrows")))
#else
#define MRG_GIVES
#define MRG_TAKES
#define MRG_BORROWS
#endif

/* MRG_AUTO(mrg_mr) mr = ...; gives up the reference where the variable's scope ends. For mrg_mr and mrg_pd. */
#define MRG_AUTO(type) __attribute__((cleanup(type##_auto))) type *

/* Moves a handle out of a variable, which is NULL afterwards: return mrg_steal(&mr); */
#define mrg_steal(var)                           \
    __extension__({                              \
        __typeof__(*(var)) mrg_stolen_ = *(var); \
        *(var) = NULL;                           \
        mrg_stolen_;                             \
    })

#ifdef __cplusplus
}
#endif
#endif
