/*
 * usage: walk [SCENARIO [active|passive seam|allocation N]]
 *
 * The walker: decides what fails in which run, and judges how the run went.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "runs.h"
#include "scenarios.h"

static const char *const side_names[SIDES] = {"active", "passive"};
static const char *const kind_names[KINDS] = {"nothing", "seam", "allocation"};

/* What a scenario's run without failure has shown. */
static struct diary undisturbed[SIDES];

static int passed, failed, walked;

/* What was made to fail at least once. */
#define NAMES_MAX 500
static const char *names_walked[NAMES_MAX];
static int names_count;

/* Judging */

static void print_run(const struct run *run)
{
    printf("FAILED: walk %s", run->scenario->name);
    if (run->fault.kind != NOTHING)
        printf(" %s %s %d", side_names[run->fault.side], kind_names[run->fault.kind], run->fault.n);
    printf("\n");
}

static void print_side(const struct run *run, enum side side)
{
    const struct diary *diary = &run->diaries[side];
    int status = run->status[side];
    if (WIFEXITED(status) && (!WEXITSTATUS(status) || WEXITSTATUS(status) == STATUS_ALONE) && !run->late)
        return;
    printf("    %s: ", side_names[side]);
    if (WIFSIGNALED(status))
        printf("%s (signal %d): ", run->late ? "does not end" : "killed", WTERMSIG(status));
    else if (!diary->complaint[0])
        printf("status %d: ", WEXITSTATUS(status));
    printf("%s\n        in %s (%s:%d)\n", diary->complaint, diary->text, diary->file, diary->line);
}

/* The name of what was to fail: the run without failure knows it, whatever became of this one. */
static const char *due(const struct fault *fault)
{
    const struct diary *diary = &undisturbed[fault->side];
    return fault->kind == NOTHING || fault->n > diary->counts[fault->kind] ? NULL
                                                                           : diary->names[fault->kind][fault->n - 1];
}

/* The failure came where it was due; one beyond the last call did not. */
static bool struck_as_due(const struct run *run)
{
    const char *struck = run->diaries[run->fault.side].struck, *name = due(&run->fault);
    return struck && name ? !strcmp(struck, name) : struck == name;
}

static bool left_descriptors(const struct run *run, enum side side)
{
    return run->fault.kind != NOTHING && run->diaries[side].descriptors != undisturbed[side].descriptors;
}

static bool ended_well(const struct run *run)
{
    return !run->status[ACTIVE] && !run->status[PASSIVE];
}

/* Why a run failed whose lives ended well. */
static void print_oddities(const struct run *run)
{
    const char *struck = run->diaries[run->fault.side].struck;
    if (!struck_as_due(run))
        printf("    struck: %s; so the calls are not the same in every run\n", struck ? struck : "nothing");
    for (enum side side = ACTIVE; side < SIDES; side++)
        if (left_descriptors(run, side))
            printf("    %s: %d descriptors are open at the end, not %d\n", side_names[side],
                   run->diaries[side].descriptors, undisturbed[side].descriptors);
}

static int find(const char *const names[], int count, const char *name)
{
    int i = 0;
    while (i < count && strcmp(names[i], name))
        i++;
    return i;
}

static void remember_walked(const char *name)
{
    walked++;
    if (find(names_walked, names_count, name) == names_count && names_count < NAMES_MAX)
        names_walked[names_count++] = name;
}

static bool judge(const struct run *run)
{
    if (ended_well(run) && struck_as_due(run) && !left_descriptors(run, ACTIVE) && !left_descriptors(run, PASSIVE)) {
        passed++;
        if (due(&run->fault))
            remember_walked(due(&run->fault));
        return true;
    }
    failed++;
    print_run(run);
    if (run->fault.kind != NOTHING)
        printf("    %s fails\n", due(&run->fault) ? due(&run->fault) : "nothing");
    for (enum side side = ACTIVE; side < SIDES; side++)
        print_side(run, side);
    if (ended_well(run))
        print_oddities(run);
    fflush(stdout);
    return false;
}

/* Waits for a run to end, judges it and frees it. */
static bool end_one(void)
{
    struct run *run = runs_await();
    bool good = judge(run);
    run->busy = false;
    return good;
}

static struct run *free_run(void)
{
    struct run *run;
    while (!(run = runs_free()))
        end_one();
    return run;
}

/* Walking */

static bool run_undisturbed(const struct scenario *scenario)
{
    struct run *run = free_run();
    run_start(run, scenario, &(struct fault){.kind = NOTHING});
    bool good = end_one();
    memcpy(undisturbed, run->diaries, sizeof undisturbed);
    return good;
}

/* One beyond the last call too: that run proves that the count was right. */
static void walk_side(const struct scenario *scenario, enum side side)
{
    int before = failed;
    for (enum kind kind = SEAM; kind < KINDS; kind++)
        for (int n = 1; n <= undisturbed[side].counts[kind] + 1; n++)
            run_start(free_run(), scenario, &(struct fault){side, kind, n});
    while (runs_any_busy())
        end_one();
    printf("%-10s %-8s %3d calls through the seam, %3d allocations: %d failed\n", scenario->name, side_names[side],
           undisturbed[side].counts[SEAM], undisturbed[side].counts[ALLOCATION], failed - before);
    fflush(stdout);
}

static void walk_scenario(const struct scenario *scenario)
{
    if (run_undisturbed(scenario))
        for (enum side side = ACTIVE; side < SIDES; side++)
            walk_side(scenario, side);
}

static void walk_one(const struct scenario *scenario, char **words)
{
    int side = find(side_names, SIDES, words[0]), kind = find(kind_names, KINDS, words[1]);
    struct fault fault = {(enum side)side, (enum kind)kind, atoi(words[2])};
    if (side == SIDES || kind == KINDS || fault.n < 1 || !run_undisturbed(scenario))
        return;
    run_start(free_run(), scenario, &fault);
    end_one();
}

/* Worth knowing after a whole walk. Soft-RoCE makes no thread domain and no XRC domain, so what ends those is not walked. */
static void print_not_walked(void)
{
    static const char *const verb_names[] = {
#define VERB_PTR(type, name, symbol, params, args) #name,
#define VERB_INT(name, symbol, params, args) #name,
#define VERB_ERRNO(name, symbol, params, args) #name,
#define VERB_VOID(name, symbol, params, args)
#include "verbs.def"
#undef VERB_PTR
#undef VERB_INT
#undef VERB_ERRNO
#undef VERB_VOID
    };
    printf("not walked:");
    for (size_t i = 0; i < sizeof verb_names / sizeof *verb_names; i++)
        if (find(names_walked, names_count, verb_names[i]) == names_count)
            printf(" %s", verb_names[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    static const struct scenario *const scenarios[] = {
#define LISTED(name) &name##_scenario,
        SCENARIOS(LISTED)
#undef LISTED
    };
    if (!getenv("RXE_ADDR"))
        return fprintf(stderr, "RXE_ADDR is not set: this runs under tests/guest/rxe-run\n"), 2;
    runs_prepare();
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        if (argc > 1 && strcmp(argv[1], scenarios[i]->name))
            continue;
        if (argc == 5)
            walk_one(scenarios[i], argv + 2);
        else
            walk_scenario(scenarios[i]);
    }
    if (argc == 1)
        print_not_walked();
    printf("%d failing calls walked, of %d functions\n", walked, names_count);
    printf("%d passed, %d failed\n", passed, failed);
    return failed || !passed;
}
