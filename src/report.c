/* What is said of everything at once: statistics, and the leaks of a process that ends. */
#include <inttypes.h>
#include <mrguard/report.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "options.h"
#include "queue.h"
#include "report.h"

#define SITES_MAX 64

struct registered registered;

uint64_t report_registered_bytes(void)
{
    return (uint64_t)atomic_load_explicit(&registered.bytes, memory_order_relaxed);
}

int mrg_stats(struct mrg_stats *ret)
{
    if (!ret)
        return refuse(RULE_BAD_ARGUMENT, &(struct here){API_SITE, __func__}, NULL, "ret is NULL");
    *ret = (struct mrg_stats){
        .live_mrs = (uint64_t)atomic_load_explicit(&registered.mrs, memory_order_relaxed),
        .registered_bytes = report_registered_bytes(),
        .findings = finding_total(),
        .late_completions = queue_late_completions(),
    };
    return 0;
}

uint64_t mrg_finding_count(const char *rule)
{
    for (enum rule r = RULE_NONE + 1; rule && r < RULE_COUNT; r++)
        if (!strcmp(rule_texts[r].name, rule))
            return finding_count(r);
    return 0;
}

/* Leaks by the site that made them. What does not fit is counted under the last. */
struct leaks {
    struct {
        const char *site;
        uint64_t mrs;
        uint64_t bytes;
        uint64_t given_up; /* of the mrs */
    } sites[SITES_MAX];
    int count;
};

static void add_leak(const struct slot *slot, void *arg)
{
    struct leaks *leaks = arg;
    int i = 0;
    while (i < leaks->count && leaks->sites[i].site != slot->cold.site)
        i++;
    if (i == leaks->count && leaks->count < SITES_MAX)
        leaks->sites[leaks->count++].site = slot->cold.site;
    i = i < SITES_MAX ? i : SITES_MAX - 1;
    leaks->sites[i].mrs++;
    leaks->sites[i].given_up += slot_state(slot) == STATE_DEFERRED;
    leaks->sites[i].bytes += report_pinned(slot->hot.length);
}

/* A forked child has nothing of its own here, and says nothing of its parent's. */
__attribute__((destructor)) static void report_leaks(void)
{
    if (!atomic_load(&slot_committed) || handle_forked())
        return;
    struct leaks leaks = {0};
    object_each(TYPE_MR, add_leak, &leaks);
    for (int i = 0; i < leaks.count; i++)
        finding_note(RULE_LEAKED_MR, leaks.sites[i].site,
                     "at exit %" PRIu64 " MR%s of %" PRIu64 " bytes made at this line %s still registered%s",
                     leaks.sites[i].mrs, leaks.sites[i].mrs == 1 ? "" : "s", leaks.sites[i].bytes,
                     leaks.sites[i].mrs == 1 ? "is" : "are",
                     leaks.sites[i].given_up ? " (given up, and still in flight or under a window)" : "");
    if (options()->exitcode && finding_total()) {
        fflush(NULL); /* _exit would drop what the program has not written yet */
        _exit(options()->exitcode);
    }
}
