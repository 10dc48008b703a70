/* What the tests over rxe share: two connected ids in one process, over the guest's soft-RoCE device. */
#ifndef MRG_PAIR_H
#define MRG_PAIR_H

#include "expect.h"

/* The call succeeds; its errno is printed if not. */
#define must(call) cr_assert_eq(call, 0, "%s: %s", #call, strerror(errno))

#define BUFFER 65536

struct end {
    mrg_id *id;
    mrg_mr *mr; /* local write, of buffer */
    char *buffer;
    bool with_srq;
};

struct pair {
    mrg_id *listener;
    struct end client;
    struct end server;
    bool with_srq;
};

/* The address that the guest's device serves: RXE_ADDR (second: RXE_ADDR2), with a port or 0. */
struct rdma_addrinfo *device_addr(const char *variable, const char *port, int flags);

/* A synchronous id that is bound to that device. */
mrg_id *bound_to(const char *variable);

/* A connected pair, each end with an MR of its buffer. */
void pair_up(struct pair *p);

/* Likewise; the server receives through an SRQ. */
void pair_up_with_srq(struct pair *p);

/* In the right order; every step must succeed. Ends without QP are fine. */
void take_down(struct pair *p);

/* Brings the QP to ERR, behind mrguard's back: what is posted is flushed. */
void to_error(mrg_id *id);

/* One successful completion of a queue. */
void await_send(mrg_id *id, void *context);
void await_recv(mrg_id *id, void *context);

/* Until so many threads are inside mrg_get_recv_comp of the id: nothing else tells when. */
void await_waiters(mrg_id *id, unsigned int count);

/* No finding is printed from here on. */
static inline void be_quiet(void)
{
    mrg_set_finding_handler(ignore_finding, NULL);
}

/* Nothing is registered: in mrguard's books, and no MR, QP, CQ, PD or SRQ of this process in the kernel's. */
void expect_nothing_left(void);

#endif
