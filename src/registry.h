/*
 * The registry: which object belongs to which, and the life of every object.
 *
 *     object_new -> embryo -> object_publish -> live -> object_close -> freeing -> object_release -> gone
 *                      \-> object_abandon -> gone           \-> refused: live        \-> refused below: live
 *
 * A child is entered at its parents before it is made and leaves them after it is gone, so a parent with a
 * child that is only half made cannot be destroyed either. One mutex guards the edges; it is never held
 * while a verb runs, and never while another lock of ours is taken.
 */
#ifndef MRG_REGISTRY_H
#define MRG_REGISTRY_H

#include <stddef.h>

#include "cells.h"
#include "finding.h"

/* What a type of object is to the registry. Each type's file defines its class. */
struct class
{
    enum type type;
    size_t body_size; /* 0: an MR or event, which has no body */
    uint32_t edges;   /* how many parents it can have; above LINKS_IN_SLOT it needs a body */
    enum rule (*busy)(struct slot *slot, char *why, size_t size); /* what its users are, in words; may be NULL */
    int (*release)(struct slot *slot); /* asks the provider; 0, or the errno of its refusal: nothing changed */
    void (*gone)(struct slot *slot);   /* the provider's part is gone, the edges are not yet cut; may be NULL */
};

/*
 * A new object as an embryo below its parents (tokens; 0: none), by edge. NULL and errno, no finding: ENOMEM; ESTALE,
 * a parent is no longer live; EPERM, this is a forked child. object_refuse_new makes the finding; returns -1.
 */
struct slot *object_new(const struct class *class, const char *site, const token parents[], uint32_t count);
int object_refuse_new(const struct class *class, const struct here *here);

/* The embryo is made: its handle is good from here on. */
void *object_publish(struct slot *slot);

/*
 * Likewise; without a reference it lives as long as it has children or users. The first reference is given up
 * (references_drop) once there is one.
 */
void *object_publish_kept(struct slot *slot);

/* The embryo could not be made. */
void object_abandon(struct slot *slot);

/* Likewise, where what is below us failed with errno. Returns NULL. */
void *object_failed(struct slot *slot);

/*
 * The strict claim on a live object by its only owner: from live to freeing, or refused (-1, errno EBUSY, a
 * finding) with nothing changed: other references, children, calls or borrows. spare: a mask of 1 << type of
 * children that the caller will destroy itself. here NULL: without a finding.
 */
int object_close(struct slot *slot, token t, unsigned int spare, const struct here *here);

/* Whether it would be refused now: then it is, else nothing is done. */
int object_refuse_busy(struct slot *slot, token t, unsigned int spare, const struct here *here);

/* Back to live after a close, where the provider refused. */
void object_reopen(struct slot *slot, token t);

/*
 * Releases an object that is freeing: the provider first, then the edges, then the slot, then every parent
 * that lived only for its children. -1 and errno if the provider refuses: the object is live again.
 */
int object_release(struct slot *slot);

/* object_close and object_release: what mrg_destroy_* and mrg_de* are, by the slot and by the handle. */
int object_end(struct slot *slot, token t, const struct here *here);
int object_destroy(const void *handle, enum type type, const struct here *here);

/* Gives up one reference. The last one releases, now or when the last child and borrow are gone. */
int object_unref(struct slot *slot, token t, const struct here *here);

/* object_release where no caller waits for the answer: a refusal by the provider becomes a finding. */
void object_release_late(struct slot *slot);

/* Enters a living child at one more parent, if the edge is not there already. -1, no finding: the parent is going. */
int object_join(struct slot *child, uint32_t edge, token parent);

/*
 * Cuts an edge of a child, if it is there. object_leave releases the parent if that was all it lived for; object_cut
 * returns it, for callers that hold a lock and must object_release_late it afterwards.
 */
void object_leave(struct slot *child, uint32_t edge);
struct slot *object_cut(struct slot *child, uint32_t edge);

/*
 * A live child of a type for which match, called with the registry locked, is true (NULL: any), held until object_exit;
 * NULL if there is none. Looks through all children.
 */
struct slot *object_hold_child(struct slot *parent, enum type type, bool (*match)(const struct slot *, const void *),
                               const void *arg);

/* Likewise a child that was given up and waits for its last use; to be let go with object_exit as well. */
struct slot *object_hold_deferred_child(struct slot *parent, enum type type);

/* Whether the object has a child of a type now, live or not. */
bool object_has_child(struct slot *parent, enum type type);

/* The parent of a type, 0 if there is none. Stable while the child lives and is not moved. */
struct slot *object_parent(struct slot *child, enum type parent_type);

/*
 * Uses: a call inside an object. While it has a user an object is not destroyed but by
 * its provider's will. object_hold: false if the object named by t is not live (any more). object_unuse: true
 * for the one caller that ended a deferred object's last use, and must object_release_late it.
 */
bool object_hold(struct slot *slot, token t);
bool object_unuse(struct slot *slot);
/* For callers that hold a lock: likewise, but the use is to be ended even if it is false. */
bool object_use(struct slot *slot, token t);

/*
 * Borrows: a cell names the object named by t. Whether it stays, being live (or deferred): waits for the verdict of who
 * looks whether it may go. And where a borrow has ended of one that is not live: true for the one caller that must
 * object_release_late it. object_in_flight: whether a cell names it now.
 */
bool object_stays(struct slot *slot, token t, bool deferred_too);
bool object_end_borrow(struct slot *slot, token t);
bool object_in_flight(const struct slot *slot);

/* For calls that may block: look-up and hold; refused with a finding, NULL, if the handle is not good. */
struct slot *object_enter(const void *handle, enum type type, const struct here *here);
/* Ends the use, releases what was deferred to it. Keeps errno. */
void object_exit(struct slot *slot);
/* Likewise after a verb that answered with an errno, or 0: -1, or 0. */
int object_exit_with(struct slot *slot, int error);

/* Calls visit for every live or deferred object of a type, with the registry locked: visit calls nothing here. */
void object_each(enum type type, void (*visit)(const struct slot *slot, void *arg), void *arg);

#endif
