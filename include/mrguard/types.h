/*
 * Handles, and the words that say who owns what.
 *
 * A handle is a pointer type that points nowhere: compare it with NULL, copy it, never look inside. Using one
 * whose object is gone is an error (ESTALE), not a crash.
 */
#ifndef MRGUARD_TYPES_H
#define MRGUARD_TYPES_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
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
typedef struct mrg_srq mrg_srq;                   /* struct ibv_srq */
typedef struct mrg_xrcd mrg_xrcd;                 /* XRC domain, struct ibv_xrcd */
typedef struct mrg_td mrg_td;                     /* thread domain, struct ibv_td */
typedef struct mrg_ah mrg_ah;                     /* address handle, struct ibv_ah */
typedef struct mrg_mw mrg_mw;                     /* memory window, struct ibv_mw */
typedef struct mrg_async_event mrg_async_event;   /* got and not acknowledged, struct ibv_async_event */
typedef struct mrg_borrow mrg_borrow;             /* an explicit borrow of an MR: mrg_borrow_begin */

/* What a peer may do with a range of this process's memory. Plain data: copy it, pack it, send it. */
typedef struct mrg_remote {
    uint64_t addr;   /* as the peer addresses it */
    uint64_t length; /* bytes, not 0 */
    uint32_t rkey;
    uint32_t access; /* IBV_ACCESS_REMOTE_READ, _WRITE, _ATOMIC: not 0 */
} mrg_remote;

/* One piece of local memory, struct ibv_sge with a handle in the place of the lkey. */
typedef struct mrg_sge {
    void *addr;    /* in the MR's iova space, which is that of its memory unless it was registered otherwise */
    size_t length; /* bytes; 0: the piece is skipped */
    mrg_mr *mr;    /* covers [addr, addr + length); NULL only where nothing is sent or it is sent inline */
} mrg_sge;

/* struct ibv_qp_init_attr, and what of _ex concerns ownership, with handles. */
typedef struct mrg_qp_init_attr {
    void *qp_context;
    mrg_cq *send_cq;          /* NULL: one is made for the id, and goes with its QP */
    mrg_cq *recv_cq;          /* likewise */
    mrg_srq *srq;             /* where receives come from; NULL: the id's SRQ if it has one, else the QP itself */
    struct ibv_qp_cap cap;    /* asked for; what was granted after success */
    enum ibv_qp_type qp_type; /* of an id's QP: 0, or what its port space says */
    int sq_sig_all;           /* every WR of the send queue is signaled */
    mrg_pd *pd;               /* the _ex forms only; NULL: the id's */
    mrg_xrcd *xrcd;           /* XRC only */

    /*
     * A promise that saves locks: no two threads are at once in posts to the QP's send queue, nor to its receive queue;
     * nor in polls of, or waits on, CQs that are made for it. Any thread may still do anything else, destroy it too.
     */
    bool single_threaded;
} mrg_qp_init_attr;

/* What of struct ibv_cq_init_attr_ex a tracked CQ can have, with handles. */
typedef struct mrg_cq_init_attr_ex {
    uint32_t cqe;              /* entries, at least 1 */
    void *cq_context;          /* the caller's */
    mrg_comp_channel *channel; /* where its events go; NULL: nowhere */
    uint32_t comp_vector;
    uint32_t comp_mask; /* 0, or IBV_CQ_INIT_ATTR_MASK_FLAGS where flags is set */
    uint32_t flags;     /* 0, or IBV_CREATE_CQ_ATTR_SINGLE_THREADED: a promise that no two threads poll it at once */
} mrg_cq_init_attr_ex;

/* struct ibv_srq_init_attr, and what of _ex concerns ownership, with handles. */
typedef struct mrg_srq_init_attr {
    void *srq_context;
    struct ibv_srq_attr attr;   /* asked for; what was granted after success */
    enum ibv_srq_type srq_type; /* 0: basic */
    mrg_pd *pd;                 /* the _ex forms only; NULL: the id's */
    mrg_xrcd *xrcd;             /* XRC only */
    mrg_cq *cq;                 /* XRC only */
} mrg_srq_init_attr;

/* struct ibv_mw_bind_info with a handle: what of an MR a window opens. Length 0 closes a window of type 1. */
typedef struct mrg_mw_bind_info {
    mrg_mr *mr;
    uint64_t addr;   /* in the MR's iova space */
    uint64_t length; /* bytes */
    unsigned int mw_access_flags;
} mrg_mw_bind_info;

/* struct ibv_send_wr with handles. */
typedef struct mrg_send_wr {
    uint64_t wr_id;
    struct mrg_send_wr *next; /* posted together with this one; NULL: the last */
    const mrg_sge *sg_list;
    int num_sge;
    enum ibv_wr_opcode opcode;
    unsigned int send_flags;
    union {
        uint32_t imm_data;        /* _WITH_IMM: in network order */
        uint32_t invalidate_rkey; /* SEND_WITH_INV: the peer's */
    };
    union {
        struct {
            uint64_t remote_addr;
            uint32_t rkey;
        } rdma;
        struct {
            uint64_t remote_addr;
            uint64_t compare_add;
            uint64_t swap;
            uint32_t rkey;
        } atomic;
        struct {
            mrg_ah *ah;
            uint32_t remote_qpn;
            uint32_t remote_qkey;
        } ud;
    } wr;
    union {
        struct {
            uint32_t remote_srqn;
        } xrc;
    } qp_type;
    struct {
        mrg_mw *mw;    /* BIND_MW and LOCAL_INV, which names the window in the place of its rkey */
        uint32_t rkey; /* BIND_MW: the window's from now on, mrg_inc_rkey(mrg_mw_rkey(mw)) */
        mrg_mw_bind_info bind_info;
    } bind_mw;
} mrg_send_wr;

/* struct ibv_recv_wr with handles. */
typedef struct mrg_recv_wr {
    uint64_t wr_id;
    struct mrg_recv_wr *next;
    const mrg_sge *sg_list;
    int num_sge;
} mrg_recv_wr;

/* struct ibv_mw_bind with a handle. */
typedef struct mrg_mw_bind {
    uint64_t wr_id;
    unsigned int send_flags;
    mrg_mw_bind_info bind_info;
} mrg_mw_bind;

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
