#include "cells.h"

#include <stddef.h>

#define CLASSES 64

/* The lists are read by whoever looks; memory of a queue is not given back before it was struck. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cells *classes[CLASSES];
static uint32_t listed;

_Atomic uint64_t cells_queues_looked_at;

void cells_list(struct cells *cells)
{
    pthread_mutex_lock(&lock);
    uint32_t class = listed++ % CLASSES;
    cells->bit = UINT64_C(1) << class;
    cells->link = &classes[class];
    cells->next = classes[class];
    if (cells->next)
        cells->next->link = &cells->next;
    classes[class] = cells;
    pthread_mutex_unlock(&lock);
}

void cells_strike(struct cells *cells)
{
    pthread_mutex_lock(&lock);
    *cells->link = cells->next;
    if (cells->next)
        cells->next->link = cells->link;
    pthread_mutex_unlock(&lock);
}

/*
 * The tail first: a completion clears its cells before it moves the tail, and a post moves the head before its fence. So what
 * is in use is not missed; where the head has run on meanwhile, all records are looked at.
 */
static uint32_t look_at(const struct cells *cells, token t, uint32_t at_least)
{
    uint64_t first = atomic_load_explicit(&cells->tail, memory_order_acquire);
    uint64_t end = atomic_load_explicit(&cells->head, memory_order_acquire);
    uint32_t found = 0;
    if (!cells->in_order || end - first > cells->mask)
        end = first + cells->mask + 1;
    for (uint64_t record = first; record != end && found < at_least; record++) {
        const _Atomic token *cell = cells_at(cells, record);
        for (uint32_t i = 0; i < cells->width; i++)
            found += cell_names(&cell[i], t);
    }
    return found;
}

uint32_t cells_look(const struct slot *slot, token t, uint32_t at_least, token *owner)
{
    uint64_t filter = atomic_load(&slot->hot.filter);
    uint32_t found = 0, looked = 0;
    if (!filter)
        return 0;
    pthread_mutex_lock(&lock);
    for (; filter && found < at_least; filter &= filter - 1)
        for (struct cells *cells = classes[__builtin_ctzll(filter)]; cells && found < at_least; cells = cells->next) {
            uint32_t here = look_at(cells, t, at_least - found);
            if (here && !found && owner)
                *owner = cells->owner;
            found += here;
            looked++;
        }
    pthread_mutex_unlock(&lock);
    atomic_fetch_add_explicit(&cells_queues_looked_at, looked, memory_order_relaxed);
    return found;
}
