/* One life: what surrounds each of its calls, and its end. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "life.h"

static struct {
    struct diary *diary;
    enum side side;
    struct fault fault;
    bool told; /* a call has failed with the injected failure */
    enum tolerance tolerance;
    const char *tolerated; /* the verb */
    int notes;             /* findings that tell of a late release */
    const char *rule;      /* that a refusal may break; NULL: none */
} self;

bool peer_is_struck(void)
{
    return self.fault.kind != NOTHING && self.fault.side != self.side;
}

/* _exit: what is left is left on purpose, no leak detector need say it again. */
void life_fails(const char *format, ...)
{
    char *complaint = self.diary->complaint;
    va_list args;
    va_start(args, format);
    vsnprintf(complaint, sizeof self.diary->complaint, format, args);
    va_end(args);
    _exit(1);
}

/* Calls */

void life_calls(const char *text, const char *file, int line)
{
    self.diary->text = text;
    self.diary->file = file;
    self.diary->line = line;
    errno = 0;
}

void life_tolerates(enum tolerance tolerance, const char *verb)
{
    self.tolerance = verb ? tolerance : NO_TOLERANCE;
    self.tolerated = verb;
}

static bool is_tolerated(const char *struck)
{
    return struck && self.tolerated && !strcmp(self.tolerated, struck);
}

static bool registers(const char *verb)
{
    return !strcmp(verb, "reg_mr") || !strcmp(verb, "reg_mr_iova") || !strcmp(verb, "reg_dmabuf_mr") ||
           !strcmp(verb, "alloc_null_mr");
}

/* A failure from below has no finding; a refused registration has one, with the reason (include/mrguard/verbs.h). */
static void expect_no_finding(const char *struck)
{
    const struct mrg_finding *finding = mrg_last_finding();
    if (finding && !registers(struck))
        life_fails("a finding explains what came from below: %s: %s", finding->rule, finding->message);
}

static void tell(int error)
{
    const char *struck = fault_struck();
    if (!struck || self.told || self.diary->swallowed)
        life_fails("it failed by itself: %s", strerror(error));
    if (error != fault_errno(self.fault.kind))
        life_fails("errno is %s, not that of the failure, %s", strerrorname_np(error),
                   strerrorname_np(fault_errno(self.fault.kind)));
    expect_no_finding(struck);
    self.told = true;
}

static void expect_nothing_swallowed(void)
{
    const char *struck = fault_struck();
    if (!struck || self.told || self.diary->swallowed)
        return;
    if (!is_tolerated(struck))
        life_fails("it succeeded although %s failed", struck);
    if (self.notes != (self.tolerance == LATE_RELEASE))
        life_fails("%d findings tell that %s failed", self.notes, struck);
    self.diary->swallowed = true;
}

bool life_passes(bool ok)
{
    int error = errno;
    if (ok)
        expect_nothing_swallowed();
    else
        tell(error);
    return ok;
}

void life_requires(bool ok, const char *complaint)
{
    if (!ok)
        life_fails("%s (%s)", complaint, strerror(errno));
}

/* Refusals */

void life_awaits_refusal(const char *rule)
{
    self.rule = rule;
}

static void expect_refusal(int error, int expected)
{
    const struct mrg_finding *finding = mrg_last_finding();
    const char *rule = finding ? finding->rule : "none";
    if (error != expected)
        life_fails("it is refused with %s, not %s", strerrorname_np(error), strerrorname_np(expected));
    if (strcmp(rule, self.rule ? self.rule : "none"))
        life_fails("the finding's rule is %s, not %s", rule, self.rule ? self.rule : "none");
}

/* False: not refused yet, since the injected failure came before. */
bool life_is_refused(bool ok, int error)
{
    int got = errno;
    const char *struck = fault_struck();
    if (ok)
        life_fails("it succeeded");
    if (struck && !self.told && !self.diary->swallowed)
        return tell(got), false;
    expect_refusal(got, error);
    errno = 0;
    return true;
}

/* Findings: none, but for a registration that we refuse, a late release that we refuse, and refusals awaited. */
static void on_finding(const struct mrg_finding *finding, void *arg)
{
    (void)arg;
    const char *struck = fault_struck();
    bool refused = struck && registers(struck) && !strcmp(finding->rule, "registration-refused");
    bool awaited = self.rule && !strcmp(finding->rule, self.rule);
    bool late = self.tolerance == LATE_RELEASE && is_tolerated(struck) && !finding->call;
    if (!refused && !awaited && !late)
        life_fails("a finding: %s: %s", finding->rule, finding->message);
    self.notes += late;
}

/* The end */

/* The PD of a device that could not be released goes with the device's next id (ARCHITECTURE.md). */
static void release_device_pd(void)
{
    struct rdma_addrinfo *res = address(0, RAI_PASSIVE);
    mrg_id *id;
    try(mrg_create_id(NULL, &id, NULL, RDMA_PS_TCP));
    try(mrg_bind_addr(id, res->ai_src_addr));
    rdma_freeaddrinfo(res);
    mrg_pd *pd;
    try_make(pd, mrg_id_pd(id));
    try_unref(mrg_pd_unref(pd));
    try(mrg_destroy_id(id));
}

static void end(void)
{
    struct diary *diary = self.diary;
    life_calls("the end", __FILE__, __LINE__);
    fault_disarm();
    if (diary->struck && !self.told && !diary->swallowed)
        life_fails("%s failed and nobody was told", diary->struck);
    if (diary->swallowed && !strcmp(diary->struck, "dealloc_pd"))
        release_device_pd();
    life_calls("the end", __FILE__, __LINE__);
    expect_nothing_left();
    if (mrg_finding_count("leaked-mr") != (uint64_t)self.notes)
        life_fails("%u findings of leaked-mr", (unsigned int)mrg_finding_count("leaked-mr"));
    diary->descriptors = open_descriptors();
}

int life(const struct scenario *scenario, enum side side, const struct fault *fault, struct diary *diary, int peer)
{
    self.diary = diary;
    self.side = side;
    self.fault = *fault;
    mrg_set_finding_handler(on_finding, NULL);
    talk_begin(peer);
    bool mine = fault->side == side;
    fault_arm(mine ? fault->kind : NOTHING, fault->n, diary);
    scenario->play[side]();
    talk_meet();
    end();
    return 0;
}
