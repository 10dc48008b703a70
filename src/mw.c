#include "mw.h"

#include <errno.h>
#include <sched.h>

#include "api.h"
#include "device.h"
#include "pd.h"
#include "verbs.h"

/* Windows by the part of the key that a window keeps for life, so that a completion finds the one it names. */
#define BUCKETS 1024
static pthread_mutex_t keys_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t buckets[BUCKETS];

static uint32_t *bucket_of(uint32_t rkey)
{
    return &buckets[(rkey >> 8) % BUCKETS];
}

static void enlist(struct slot *slot)
{
    uint32_t *bucket = bucket_of(mw_of(slot)->rkey);
    pthread_mutex_lock(&keys_lock);
    mw_of(slot)->next = *bucket;
    *bucket = slot_index(slot);
    pthread_mutex_unlock(&keys_lock);
}

static void strike(struct slot *slot)
{
    uint32_t *link = bucket_of(mw_of(slot)->rkey);
    pthread_mutex_lock(&keys_lock);
    while (*link != slot_index(slot))
        link = &mw_of(&slot_table[*link])->next;
    *link = mw_of(slot)->next;
    pthread_mutex_unlock(&keys_lock);
}

/* The window leaves the list before its key may be another's. */
static int mw_release(struct slot *slot)
{
    strike(slot);
    int error = device_answer(mw_of(slot)->raw->context, verbs.dealloc_mw(mw_of(slot)->raw));
    if (error)
        enlist(slot);
    return error;
}

static const struct class mw_class = {
    .type = TYPE_MW, .edges = MW_EDGES, .body_size = sizeof(struct mw), .release = mw_release};

static mrg_mw *mw_new(struct slot *pd, enum ibv_mw_type type, const struct here *here)
{
    struct slot *slot = object_new(&mw_class, here->site, (token[]){slot_token(pd)}, 1);
    if (!slot)
        return object_refuse_new(&mw_class, here), NULL;
    struct mw *mw = mw_of(slot);
    mw->device = pd_of(pd)->raw->context;
    mw->pd = pd_of(pd)->root;
    mw->changer = NULL;
    mw->changes = 0;
    mw->pending = 0;
    mw->edge = MW_EDGE_PD;
    mw->raw = verbs.alloc_mw(pd_of(pd)->raw, type);
    if (!mw->raw)
        return object_failed(slot);
    mw->rkey = mw->raw->rkey;
    enlist(slot);
    return object_publish(slot);
}

API(mrg_mw *, mrg_alloc_mw, (mrg_pd * pd, enum ibv_mw_type type), (pd, type))
{
    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "there is no type %d of memory windows", (int)type), NULL;
    struct slot *parent = object_enter(pd, TYPE_PD, HERE);
    if (!parent)
        return NULL;
    mrg_mw *mw = mw_new(parent, type, HERE);
    object_exit(parent);
    return mw;
}

API(int, mrg_dealloc_mw, (mrg_mw * mw), (mw))
{
    return object_destroy(mw, TYPE_MW, HERE);
}

API(uint32_t, mrg_mw_rkey, (mrg_mw * mw), (mw))
{
    const struct slot *slot = slot_find(mw, TYPE_MW);
    return slot ? atomic_load(&mw_of(slot)->rkey) : (uint32_t)(refuse_handle(mw, TYPE_MW, HERE), 0);
}

/* Bound and not bound */

token mw_bound_to(struct slot *slot)
{
    const struct slot *mr = object_parent(slot, TYPE_MR);
    return mr ? slot_token(mr) : 0;
}

static uint32_t other_edge(uint32_t edge)
{
    return edge == MW_EDGE_MR ? MW_EDGE_OTHER_MR : MW_EDGE_MR;
}

/* One change less is under way; with the last one others may change it. */
static void end_change(struct slot *slot)
{
    struct mw *mw = mw_of(slot);
    if (!--mw->changes)
        atomic_store(&mw->changer, NULL);
    object_unuse(slot); /* a window's release is never deferred */
}

/* Used: its WR may be posted, completed and polled by another thread before this one comes to say that it is done. */
bool mw_change_begin(struct slot *slot, const void *by, token mr)
{
    struct mw *mw = mw_of(slot);
    const void *changer = NULL;
    if (!atomic_compare_exchange_strong(&mw->changer, &changer, by) && changer != by)
        return false;
    object_use(slot, slot_token(slot));
    if (!mw->changes++)
        mw->handed = mw->rkey;
    if (mr && (mw->pending || object_join(slot, other_edge(mw->edge), mr)))
        return end_change(slot), false;
    if (mr)
        mw->pending = other_edge(mw->edge);
    return true;
}

/* rxe tells a window by the key in the raw one, which its provider updates for type 1 alone. */
static void set_key(struct slot *slot, uint32_t rkey)
{
    struct mw *mw = mw_of(slot);
    bool moves = bucket_of(rkey) != bucket_of(mw->rkey);
    if (moves)
        strike(slot);
    mw->rkey = rkey;
    mw->raw->rkey = rkey;
    if (moves)
        enlist(slot);
}

static void leave(struct slot *slot, uint32_t edge, struct finished *finished)
{
    struct slot *orphan = object_cut(slot, edge);
    if (orphan)
        finished_add(finished, orphan);
}

void mw_change_done(struct slot *slot, token mr, uint32_t rkey, struct finished *finished)
{
    struct mw *mw = mw_of(slot);
    uint32_t before = mw->edge;
    mw->edge = mr ? mw->pending : MW_EDGE_PD;
    if (mr)
        mw->pending = 0;
    if (rkey)
        set_key(slot, rkey);
    if (before != MW_EDGE_PD)
        leave(slot, before, finished);
    end_change(slot);
}

void mw_change_undone(struct slot *slot, token mr, struct finished *finished)
{
    struct mw *mw = mw_of(slot);
    if (mr) {
        leave(slot, mw->pending, finished);
        mw->pending = 0;
    }
    end_change(slot);
}

/* Used: the window is not dealloced while we look. Keys of several devices may be alike. */
static struct slot *use_by_key(const struct ibv_context *device, uint32_t rkey)
{
    struct slot *found = NULL;
    pthread_mutex_lock(&keys_lock);
    for (uint32_t index = *bucket_of(rkey); index && !found; index = mw_of(&slot_table[index])->next) {
        struct slot *slot = &slot_table[index];
        const struct mw *mw = mw_of(slot);
        if (mw->rkey != rkey || mw->device != device)
            continue;
        if (object_use(slot, slot_token(slot)))
            found = slot;
        else
            object_unuse(slot); /* a window's release is never deferred */
    }
    pthread_mutex_unlock(&keys_lock);
    return found;
}

/*
 * A chain that changes the window is waited for, since it may be refused: that comes within moments, and waits for no CQ.
 * Posted, it has rebound the window, and what the peer did is past.
 */
void mw_invalidated(const struct ibv_context *device, uint32_t rkey, struct finished *finished)
{
    struct slot *slot = use_by_key(device, rkey);
    if (!slot)
        return;
    struct mw *mw = mw_of(slot);
    const void *nobody = NULL;
    while (!atomic_compare_exchange_weak(&mw->changer, &nobody, finished)) {
        nobody = NULL;
        sched_yield();
    }
    uint32_t before = mw->rkey == rkey ? atomic_exchange(&mw->edge, MW_EDGE_PD) : MW_EDGE_PD;
    if (before != MW_EDGE_PD)
        leave(slot, before, finished);
    atomic_store(&mw->changer, NULL);
    if (object_unuse(slot))
        finished_add(finished, slot);
}
