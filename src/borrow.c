/*
 * The explicit borrow: for transports that post by themselves. A borrow is an object below its MR, so that an MR in
 * use is not deregistered, and the finding names the line that borrowed it.
 */
#include <errno.h>

#include "api.h"
#include "mr.h"
#include "options.h"

static int borrow_release(struct slot *slot)
{
    (void)slot;
    return 0;
}

static const struct class borrow_class = {.type = TYPE_BORROW, .edges = 1, .release = borrow_release};

static int refuse_use(const struct slot *mr, enum rule rule, const void *addr, size_t length, uint32_t access,
                      const struct here *here)
{
    if (rule == RULE_OUT_OF_RANGE)
        return refuse(rule, here, mr, "%zu bytes at %p reach outside the MR", length, addr);
    char has[96], needs[96];
    access_print(has, sizeof has, mr->hot.access);
    access_print(needs, sizeof needs, access);
    return refuse(rule, here, mr, "the MR was registered for %s, the borrow needs %s", has, needs);
}

static int borrow_begin(struct slot *mr, uint64_t addr, size_t length, uint32_t access, mrg_borrow **ret,
                        const struct here *here)
{
    struct mr_facts facts = mr_facts(mr);
    enum rule rule = check_range(addr, length, access, &facts);
    bool observed = rule != RULE_NONE && options()->policy == POLICY_OBSERVE;
    if (observed)
        finding_observed();
    if (rule != RULE_NONE && refuse_use(mr, rule, (void *)(uintptr_t)addr, length, access, here) && !observed)
        return -1;
    struct slot *slot = object_new(&borrow_class, here->site, (token[]){slot_token(mr)}, 1);
    if (!slot)
        return object_refuse_new(&borrow_class, here);
    *ret = object_publish(slot);
    return 0;
}

API(int, mrg_borrow_begin, (mrg_mr * mr, void *addr, size_t length, int access, mrg_borrow **ret),
    (mr, addr, length, access, ret))
{
    if (!ret)
        return refuse(RULE_BAD_ARGUMENT, HERE, NULL, "ret is NULL");
    struct slot *slot = object_enter(mr, TYPE_MR, HERE);
    if (!slot)
        return -1;
    int result = (uint32_t)access & ~ACCESS_KNOWN
                     ? refuse(RULE_BAD_ARGUMENT, HERE, slot, "access 0x%x has bits that a borrow does not know", access)
                     : borrow_begin(slot, (uintptr_t)addr, length, (uint32_t)access, ret, HERE);
    object_exit(slot);
    return result;
}

API(int, mrg_borrow_end, (mrg_borrow * borrow), (borrow))
{
    return object_destroy(borrow, TYPE_BORROW, HERE);
}
