/* Runs of a scenario: two processes each, watched, a few runs at a time. */
#ifndef MRG_WALK_RUNS_H
#define MRG_WALK_RUNS_H

#include <time.h>

#include "life.h"

struct run {
    bool busy;
    const struct scenario *scenario;
    struct fault fault;
    struct diary *diaries; /* of each side, shared with it */
    pid_t pids[SIDES];     /* 0: ended */
    int status[SIDES];
    bool late;
    time_t deadline;
};

/* Once, before the first run. */
void runs_prepare(void);

struct run *runs_free(void); /* NULL: none */
bool runs_any_busy(void);

void run_start(struct run *run, const struct scenario *scenario, const struct fault *fault);

/* Waits until both lives of a run have ended; the run is still busy. */
struct run *runs_await(void);

#endif
