/* How tests say "this call is refused", over the stub and over rxe alike. */
#ifndef MRG_EXPECT_H
#define MRG_EXPECT_H

#include <criterion/criterion.h>
#include <errno.h>
#include <mrguard/mrguard.h>
#include <string.h>

/* The call fails with this errno, and mrguard's finding is of this rule. */
#define expect_refused(call, error, rule_name)                                                            \
    do {                                                                                                  \
        errno = 0;                                                                                        \
        long failed_ = (long)(call);                                                                      \
        int errno_ = errno;                                                                               \
        const struct mrg_finding *finding_ = mrg_last_finding();                                          \
        cr_expect(failed_ == -1 || failed_ == 0, "%s returned %ld", #call, failed_);                      \
        cr_expect_eq(errno_, error, "%s: errno is %s, not %s", #call, strerror(errno_), strerror(error)); \
        cr_assert(finding_, "%s: no finding", #call);                                                     \
        cr_expect_str_eq(finding_->rule, rule_name, "%s broke %s (%s), not %s", #call, finding_->rule,    \
                         finding_->message, rule_name);                                                   \
    } while (0)

/* The call fails with this errno, which comes from below: no rule explains it. */
#define expect_fails(call, error)                                                                         \
    do {                                                                                                  \
        errno = 0;                                                                                        \
        long failed_ = (long)(call);                                                                      \
        int errno_ = errno;                                                                               \
        cr_expect(failed_ == -1 || failed_ == 0, "%s returned %ld", #call, failed_);                      \
        cr_expect_eq(errno_, error, "%s: errno is %s, not %s", #call, strerror(errno_), strerror(error)); \
        cr_expect_null(mrg_last_finding(), "%s: a finding explains what came from below", #call);         \
    } while (0)

/* For mrg_set_finding_handler: nothing is printed. */
static inline void ignore_finding(const struct mrg_finding *finding, void *arg)
{
    (void)finding, (void)arg;
}

#endif
