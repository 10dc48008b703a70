/* Completion queues. One that is made for an id has a completion channel of its own. */
#ifndef MRG_CQ_H
#define MRG_CQ_H

#include <infiniband/verbs.h>

#include "queue.h"

struct cq {
    struct body base;
    struct endings endings;  /* one poller at a time is inside the gate, where raw is not taken away either */
    bool ready;              /* waiting is initialised: once for ever */
    pthread_mutex_t waiting; /* one waiter at a time sleeps; the next finds what the event was for */
    struct ibv_cq *raw;
    void *context;                        /* the caller's */
    struct ibv_comp_channel *own_channel; /* for waiting, where the CQ was made for an id; else NULL */
    _Atomic unsigned int unacked;         /* events got and not acknowledged */
};

static inline struct cq *cq_of(const struct slot *slot)
{
    return (struct cq *)slot->hot.body;
}

/* A live CQ, held; refused, NULL, with a finding. One of which the provider has destroyed all but the channel is gone. */
struct slot *cq_enter(const void *handle, const struct here *here);

/* A CQ of an id's own, with a channel to wait on. Its token; 0 and errno. */
token cq_new_for_id(struct slot *id, token device, uint32_t cqe, bool single_threaded, const struct here *here);

/*
 * Takes up to count completions, as mrg_poll_cq; -1 and errno where the provider fails; CQ_GONE for a bad handle. What
 * waited for them joins *finished.
 */
#define CQ_GONE (-2)
int cq_poll(const void *handle, int count, struct ibv_wc *wc, struct finished *finished);

#endif
