/* Devices that are gone: what the kernel answers for them does not keep their handles alive. */
#ifndef MRG_DEVICE_H
#define MRG_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

/* An event said that the device is gone; or, device_back, its context is closed and the address may name another. */
void device_removed(struct ibv_context *device);
void device_back(struct ibv_context *device);

/*
 * What a release answers: 0 if the provider released the object, or cannot because its device is gone (EIO, the kernel's
 * answer for one that it has taken apart). Reports a removed device, once.
 */
int device_refusal(struct ibv_context *device, int error);

/* A macro: the device is read before the call that releases the object it is read from. */
#define device_answer(device, call)                   \
    __extension__({                                   \
        struct ibv_context *device_ = (device);       \
        int error_ = (call);                          \
        error_ ? device_refusal(device_, error_) : 0; \
    })

#endif
