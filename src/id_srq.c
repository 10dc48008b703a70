/* The SRQ of an id. */
#include <errno.h>

#include "api.h"
#include "id.h"
#include "srq.h"

static int create_srq(struct slot *slot, mrg_pd *pd, mrg_srq_init_attr *attr, const struct here *here)
{
    struct id *id = id_of(slot);
    if (id->srq)
        return refuse(RULE_WRONG_STATE, here, slot, "the id has an SRQ already");
    if (id->qp)
        return refuse(RULE_WRONG_STATE, here, slot, "the id has a QP already, which would not use the SRQ");
    mrg_srq_init_attr on_pd = *attr;
    on_pd.pd = pd ? pd : attr->pd;
    token srq = srq_new(slot, id->raw, (mrg_pd *)(uintptr_t)id->device_pd, &on_pd, here);
    if (!srq)
        return -1;
    attr->attr = on_pd.attr;
    id->srq = srq;
    id->queues[RECV_QUEUE] = NULL; /* receives go to the SRQ from here on */
    return 0;
}

static int enter_and_create_srq(mrg_id *id, mrg_pd *pd, mrg_srq_init_attr *attr, const struct here *here)
{
    struct slot *slot = object_enter(id, TYPE_ID, here);
    if (!slot)
        return -1;
    int result = -1;
    if (!attr)
        refuse(RULE_BAD_ARGUMENT, here, slot, "attr is NULL");
    else if (id_device_pd(slot, here) && !id_change_begin(slot, here))
        result = id_change_end(slot, create_srq(slot, pd, attr, here));
    object_exit(slot);
    return result;
}

API(int, mrg_create_srq, (mrg_id * id, mrg_pd *pd, mrg_srq_init_attr *attr), (id, pd, attr))
{
    return enter_and_create_srq(id, pd, attr, HERE);
}

API(int, mrg_create_srq_ex, (mrg_id * id, mrg_srq_init_attr *attr), (id, attr))
{
    return enter_and_create_srq(id, NULL, attr, HERE);
}

static int destroy_srq(struct id *id, const struct here *here)
{
    if (id->srq && object_destroy((void *)(uintptr_t)id->srq, TYPE_SRQ, here))
        return -1;
    id->srq = 0;
    return 0;
}

int id_destroy_srq(struct slot *slot, const struct here *here)
{
    return id_change_begin(slot, here) ? -1 : id_change_end(slot, destroy_srq(id_of(slot), here));
}

API(int, mrg_destroy_srq, (mrg_id * id), (id))
{
    struct slot *slot = object_enter(id, TYPE_ID, HERE);
    if (!slot)
        return -1;
    int result = id_change_begin(slot, HERE);
    if (!result) {
        bool has = id_of(slot)->srq;
        id_change_end(slot, result = has ? destroy_srq(id_of(slot), HERE) : -1);
        if (!has)
            refuse(RULE_WRONG_STATE, HERE, slot, "the id has no SRQ of its own");
    }
    object_exit(slot);
    return result;
}

API(mrg_srq *, mrg_id_srq, (mrg_id * id), (id))
{
    struct slot *slot = slot_find(id, TYPE_ID);
    token srq = slot ? atomic_load(&id_of(slot)->srq) : 0;
    if (!slot || !slot_find(id, TYPE_ID))
        return refuse_handle(id, TYPE_ID, HERE), NULL;
    if (!srq)
        refuse(RULE_WRONG_STATE, HERE, slot, "the id has no SRQ of its own");
    return (mrg_srq *)(uintptr_t)srq;
}
