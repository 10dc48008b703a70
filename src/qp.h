/* QPs as objects: making one for an id, and taking it down. What is in flight on it is queue.h's. */
#ifndef MRG_QP_H
#define MRG_QP_H

#include "queue.h"

/* What a QP is made of; tokens of live objects. */
struct qp_parts {
    token id;
    token pd;
    token cqs[QUEUES];
};

/* Makes the QP on cm; attr->cap becomes what was granted. Its token; 0 and errno. */
token qp_new(const struct qp_parts *parts, struct rdma_cm_id *cm, mrg_qp_init_attr *attr, const struct here *here);

#endif
