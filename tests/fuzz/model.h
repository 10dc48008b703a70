/*
 * What mrguard must answer, written from include/mrguard/ and ARCHITECTURE.md alone: no line of src/ was read for it. It
 * keeps plain books of objects, references and work in flight, and is told after each call what the provider did.
 */
#ifndef MRG_MODEL_H
#define MRG_MODEL_H

#include <mrguard/mrguard.h>

enum kind { CONTEXT, PD, CQ, SRQ, ID, QP, MR, BORROW, KINDS };

#define SLOTS 20    /* objects of each kind */
#define ROOM 32     /* WRs in a queue at the most */
#define PIECES 4    /* of a WR, at the most */
#define CHAIN 20    /* WRs of a chain */
#define BACKLOG 512 /* completions that nobody has polled, in one CQ */
#define PARENTS 5

struct object;

/* One WR that the device or a CQ still has. */
struct wr {
    uint64_t wr_id;
    bool used, signaled;
    int uses;
    struct object *mrs[PIECES];
};

/* A QP's queues are rings in order. An SRQ's records are taken and given back one by one. */
struct queue {
    uint64_t epoch; /* another number after each end of the queue's work: tells old completions */
    bool shared;    /* of an SRQ */
    int depth, max_sge;
    struct object *cq;
    struct wr wrs[ROOM];
    uint64_t oldest, done, next; /* oldest: first that is not polled; done: first that the device still has */
    int listed[ROOM], count;     /* SRQ: the records that the device still has, in its order */
};

struct completion {
    struct queue *queue;
    uint64_t epoch, number, wr_id;
    uint32_t qp_num;
    struct object *qp;
    uint64_t qp_epoch;
    enum ibv_wc_status status;
};

enum state { GONE, LIVE, GIVEN_UP }; /* given up: the handle is stale, the raw object waits for its last use */

struct object {
    enum kind kind;
    enum state state;
    long serial; /* names it in a printed sequence; 0: there never was one */
    void *handle, *raw;
    int refs, uses; /* uses: by WRs in flight and explicit borrows */
    int children[KINDS];
    struct object *parents[PARENTS];
    bool refused; /* given up, and the provider refused to let it go */
    bool unowned; /* the PD or the context of an id's device: good while it has children, with references or without */
    bool bound;   /* an id that has a device */
    struct object *pd, *srq, *qp; /* what an MR or QP is on; what receives come from; what an id has */
    /* MR */
    size_t offset, length;
    int access;
    bool owned;
    /* QP, and SRQ: receives only */
    struct queue *send, *recv;
    uint32_t qp_num, max_inline;
    bool all_signaled;
    /* CQ */
    struct completion *backlog;
    unsigned int head, tail;
};

/* What the provider did during the call. */
struct below {
    const char *failed; /* the verb that was made to fail, NULL: none */
    int error;
    int nth;       /* it was that call of the verbs */
    void *refused; /* the raw object that it refused to release, NULL: it was no release */
    void *made;    /* the raw object made last */
    void *const *released;
    int released_count;
    int polled; /* completions that it gave */
};

/* An argument as the caller wrote it. */
enum origin { HANDLE, NONE, FOREIGN, OTHER_TYPE };
struct arg {
    enum kind kind;
    enum origin origin;
    void *handle;
    struct object *object; /* of a HANDLE, gone or not */
};

/* What the call may answer. No entry: it must succeed. Several: more than one rule is broken, any may be named. */
struct verdict {
    int count;
    struct {
        int error;
        const char *rule; /* NULL: no finding */
    } may[24];
};

struct piece {
    size_t offset, length; /* of the arena; offsets beyond it are outside of every MR */
    struct arg mr;
};

enum posting { SEND, WRITE, READ, RECV, UNKNOWN };

struct posted {
    uint64_t wr_id;
    enum posting what;
    bool signaled, in_line, bad_flags;
    int pieces;
    struct piece piece[PIECES + 2];
};

extern struct object objects[KINDS][SLOTS];
extern int raw_live[KINDS]; /* how many the provider must have */
extern struct below below;
extern void *releases[KINDS * SLOTS]; /* raw objects that this call must release */
extern int release_count;
extern int owned_count; /* how many release functions it must run */
extern uint64_t registered_bytes, mrs_live;

void model_reset(void);

/* Before each call. */
void model_begin(void);

/* After each call: a release that was refused once may come at any time. That it comes at last is asked elsewhere. */
void model_late(void);

/* Whether parent is o or above it. */
bool model_within(const struct object *o, const struct object *parent);

/* An unused place for an object, NULL if all are taken. */
struct object *model_place(enum kind kind, unsigned int from);

/* Creates into o, which then has a handle still to be noted. */
struct verdict model_open(struct object *o);
struct verdict model_create(struct object *o, const struct arg *parent);
struct verdict model_register(struct object *o, const struct arg *on, size_t offset, size_t length, int access);
struct verdict model_create_qp(struct object *o, const struct arg *id, const struct arg *on, const struct arg *cqs,
                               const struct arg *srq, const mrg_qp_init_attr *attr);

void model_start_srq(struct object *o, uint32_t depth, uint32_t max_sge);

/* An id gets its device: first the context, then, with the id's first use of it, the PD. */
struct object *model_device(enum kind kind);
struct verdict model_bind(const struct arg *id, struct object *context);
struct verdict model_id_pd(const struct arg *id, struct object *pd);
struct verdict model_register_through(struct object *o, const struct arg *id, size_t offset, size_t length, int access);
struct verdict model_rereg(const struct arg *mr, int flags, size_t offset, size_t length, int access);
struct verdict model_move(const struct arg *mr, const struct arg *pd);

/* The id's QP, or all that the id has. */
struct verdict model_destroy_qp(const struct arg *id);
struct verdict model_destroy_ep(const struct arg *id);

struct verdict model_destroy(const struct arg *a);
struct verdict model_ref(const struct arg *a);
struct verdict model_unref(const struct arg *a);
struct verdict model_borrow(struct object *o, const struct arg *mr, size_t offset, size_t length, int access);
struct verdict model_look(const struct arg *a);

/* *taken: how many of the chain were posted, whatever the verdict. take: how many the device takes at once, 0: any. */
struct verdict model_post(const struct arg *on, bool recv, const struct posted *chain, int count, int take, int *taken);
struct verdict model_post_through(const struct arg *id, bool recv, const struct posted *wr, int *taken);
struct verdict model_modify(const struct arg *qp, bool reset);

/* The device completes work. */
void model_complete(struct object *qp, bool recv, int count, enum ibv_wc_status status);
void model_complete_srq(struct object *srq, int which, struct object *qp, enum ibv_wc_status status);

/* What a poll must give: *got completions in wc. */
struct verdict model_poll(const struct arg *cq, int count, struct completion *wc, int *got);

#endif
