#include "alias.h"

#include <inttypes.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct use *in_flight;

static bool overlap(const struct use *a, const struct use *b)
{
    return (a->writes || b->writes) && a->addr < b->addr + b->length && b->addr < a->addr + a->length;
}

static void enter(struct use *use)
{
    use->next = in_flight;
    use->link = &in_flight;
    if (in_flight)
        in_flight->link = &use->next;
    in_flight = use;
}

static void leave(struct use *use)
{
    *use->link = use->next;
    if (use->next)
        use->next->link = use->link;
    use->link = NULL;
}

void alias_begin(struct use *use, const struct use *what, const struct slot *mr, struct alias *alias)
{
    pthread_mutex_lock(&lock);
    for (const struct use *other = in_flight; other && !use->link && !alias->mr; other = other->next)
        if (overlap(what, other))
            *alias = (struct alias){*what, *other, mr};
    if (!use->link) {
        *use = *what;
        enter(use);
    }
    pthread_mutex_unlock(&lock);
}

void alias_end(struct use *uses, uint32_t count)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++)
        if (uses[i].link)
            leave(&uses[i]);
    pthread_mutex_unlock(&lock);
}

static const char *done_by(const struct use *use)
{
    return use->writes ? "writes" : "reads";
}

void alias_tell(const struct alias *alias)
{
    const struct use *mine = &alias->mine, *other = &alias->other;
    char call[64], site[200];
    call_name(call, sizeof call, other->here.call);
    site_print(site, sizeof site, other->here.site);
    observe(RULE_ALIASED_BORROW, &mine->here, alias->mr,
            "the device %s %" PRIu64 " bytes at %p, while it %s %" PRIu64 " bytes at %p for %s at %s", done_by(mine),
            mine->length, (void *)(uintptr_t)mine->addr, done_by(other), other->length, (void *)(uintptr_t)other->addr,
            call, site);
}
