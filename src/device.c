#include "device.h"

#include <errno.h>
#include <pthread.h>

#include "finding.h"

/* As many at once as anybody unplugs; of what does not fit, EIO alone tells. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_context *removed[32];
#define REMOVED_MAX (sizeof removed / sizeof *removed)

/* Its place in the list, or that of an empty entry; REMOVED_MAX: neither. */
static size_t place_of(const struct ibv_context *device)
{
    size_t place = REMOVED_MAX;
    for (size_t i = 0; i < REMOVED_MAX; i++) {
        if (removed[i] == device)
            return i;
        if (!removed[i])
            place = i;
    }
    return place;
}

static bool is_removed(const struct ibv_context *device)
{
    pthread_mutex_lock(&lock);
    size_t place = place_of(device);
    bool found = place < REMOVED_MAX && removed[place];
    pthread_mutex_unlock(&lock);
    return found;
}

/* False if it was there already. */
static bool add(struct ibv_context *device)
{
    pthread_mutex_lock(&lock);
    size_t place = place_of(device);
    bool added = place == REMOVED_MAX || !removed[place];
    if (place < REMOVED_MAX)
        removed[place] = device;
    pthread_mutex_unlock(&lock);
    return added;
}

void device_removed(struct ibv_context *device)
{
    if (add(device))
        finding_note(RULE_DEVICE_REMOVED, NULL, "the device is gone, and objects are still held on it");
}

void device_back(struct ibv_context *device)
{
    pthread_mutex_lock(&lock);
    size_t place = place_of(device);
    if (place < REMOVED_MAX)
        removed[place] = NULL;
    pthread_mutex_unlock(&lock);
}

int device_refusal(struct ibv_context *device, int error)
{
    if (error == EIO)
        device_removed(device);
    return (error == EIO || is_removed(device)) ? 0 : error;
}
