/*
 * Starts the lives of each run and watches them. No RDMA object is made here, since a child of a process that has some
 * can make none. Two runs at a time; every run has ports of its own.
 */
#include "runs.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUNS 2
#define LIMIT_S 20
#define ALONE_S 1 /* a life whose other side has failed gets this much more */

static struct run runs[RUNS];

static void cannot(const char *what)
{
    perror(what);
    exit(2);
}

/* Preparing */

static void block_sigchld(void)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
}

static void share_diaries(void)
{
    size_t size = RUNS * SIDES * sizeof(struct diary);
    struct diary *diaries = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (diaries == MAP_FAILED)
        cannot("mmap");
    for (int i = 0; i < RUNS; i++)
        runs[i].diaries = diaries + i * SIDES;
}

/* Once, and not in every life, where that takes longer than all the rest. It opens no device. */
static void load_providers(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    if (!list)
        cannot("ibv_get_device_list");
    ibv_free_device_list(list);
}

void runs_prepare(void)
{
    block_sigchld();
    share_diaries();
    load_providers();
}

struct run *runs_free(void)
{
    for (int i = 0; i < RUNS; i++)
        if (!runs[i].busy)
            return &runs[i];
    return NULL;
}

bool runs_any_busy(void)
{
    bool busy = false;
    for (int i = 0; i < RUNS; i++)
        busy = busy || runs[i].busy;
    return busy;
}

/* Starting */

static void be_a_life(struct run *run, enum side side, const int sockets[SIDES])
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    close(sockets[!side]);
    exit(life(run->scenario, side, &run->fault, &run->diaries[side], sockets[side]));
}

void run_start(struct run *run, const struct scenario *scenario, const struct fault *fault)
{
    int sockets[SIDES];
    run->busy = true;
    run->late = false;
    run->scenario = scenario;
    run->fault = *fault;
    run->deadline = time(NULL) + LIMIT_S;
    memset(run->diaries, 0, SIDES * sizeof *run->diaries);
    fflush(NULL);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
        cannot("socketpair");
    for (enum side side = ACTIVE; side < SIDES; side++) {
        run->pids[side] = fork();
        if (run->pids[side] < 0)
            cannot("fork");
        if (!run->pids[side])
            be_a_life(run, side, sockets);
    }
    close(sockets[ACTIVE]);
    close(sockets[PASSIVE]);
}

/* Watching */

static void kill_rest(struct run *run)
{
    for (enum side side = ACTIVE; side < SIDES; side++)
        if (run->pids[side])
            kill(run->pids[side], SIGKILL);
}

static void look_at(struct run *run)
{
    for (enum side side = ACTIVE; side < SIDES; side++) {
        int status;
        if (!run->pids[side] || waitpid(run->pids[side], &status, WNOHANG) <= 0)
            continue;
        run->pids[side] = 0;
        run->status[side] = status;
        if (status && run->deadline > time(NULL) + ALONE_S)
            run->deadline = time(NULL) + ALONE_S + 1;
    }
    if (!run->late && (run->pids[ACTIVE] || run->pids[PASSIVE]) && time(NULL) >= run->deadline) {
        run->late = true;
        kill_rest(run);
    }
}

struct run *runs_await(void)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    for (;;) {
        for (int i = 0; i < RUNS; i++) {
            if (runs[i].busy)
                look_at(&runs[i]);
            if (runs[i].busy && !runs[i].pids[ACTIVE] && !runs[i].pids[PASSIVE])
                return &runs[i];
        }
        sigtimedwait(&child, NULL, &(struct timespec){.tv_nsec = 200 * 1000 * 1000});
    }
}
