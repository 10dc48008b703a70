/* QPs that are connected without librdmacm: the two sides tell each other what that takes. */
#ifndef MRG_WALK_DIRECT_H
#define MRG_WALK_DIRECT_H

#include "walk.h"

/* Of ibv_get_device_list, opened: the device that has the guest's first address. */
mrg_context *direct_open(void);

/* Whether it is that device, by its name. */
bool direct_is_it(const struct ibv_device *device);

/* An RC QP, in state RESET, to RTS, with the other side's QP at its other end. Both sides are connected on return. */
void direct_connect(mrg_context *device, mrg_qp *qp);

#endif
