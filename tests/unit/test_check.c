/* The predicates, by table and, where the ground is small, exhaustively against a slower definition. */
#include <criterion/criterion.h>

#include "check.h"

#define LOCAL IBV_ACCESS_LOCAL_WRITE
#define READ IBV_ACCESS_REMOTE_READ
#define WRITE IBV_ACCESS_REMOTE_WRITE
#define ATOMIC IBV_ACCESS_REMOTE_ATOMIC

Test(check, range_within_agrees_with_wide_arithmetic)
{
    const uint64_t edges[] = {0, 1, 2, 15, 16, 17, UINT64_C(1) << 32, UINT64_MAX - 1, UINT64_MAX};
    const int n = sizeof edges / sizeof *edges;
    int inside = 0;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            for (int c = 0; c < n; c++)
                for (int d = 0; d < n; d++) {
                    __extension__ typedef unsigned __int128 wide;
                    wide addr = edges[a], length = edges[b], start = edges[c], size = edges[d];
                    if (start + size > UINT64_MAX) /* no memory is registered there */
                        continue;
                    bool expected = addr >= start && addr + length <= start + size;
                    inside += expected;
                    cr_assert_eq(range_within(edges[a], edges[b], edges[c], edges[d]), expected);
                }
    cr_assert_gt(inside, 50);
}

Test(check, sge_breaks_the_first_rule_that_applies)
{
    const struct mr_facts mr = {.addr = 4096, .length = 8192, .access = LOCAL, .pd = 1};
    const struct mr_facts readonly = {.addr = 4096, .length = 8192, .access = 0, .pd = 1};
    const struct {
        struct sge_facts sge;
        const struct mr_facts *mr;
        enum rule rule;
    } table[] = {
        {{4096, 8192, LOCAL, 1}, &mr, RULE_NONE},
        {{4096, 1, 0, 1}, &readonly, RULE_NONE},
        {{12288, 0, 0, 1}, &mr, RULE_NONE},
        {{4096, 1, 0, 1}, NULL, RULE_UNREGISTERED_POST},
        {{4096, 8193, 0, 1}, &mr, RULE_OUT_OF_RANGE},
        {{4095, 1, 0, 1}, &mr, RULE_OUT_OF_RANGE},
        {{12288, 1, 0, 1}, &mr, RULE_OUT_OF_RANGE},
        {{12289, 0, 0, 1}, &mr, RULE_OUT_OF_RANGE},
        {{UINT64_MAX, 2, 0, 1}, &mr, RULE_OUT_OF_RANGE},
        {{UINT64_MAX - 4095, 4096, 0, 1}, &mr, RULE_OUT_OF_RANGE},
        {{4096, 1, 0, 2}, &mr, RULE_WRONG_PD},
        {{4096, 1, LOCAL, 1}, &readonly, RULE_MISSING_ACCESS},
        {{4096, UINT64_C(1) << 32, 0, 1}, &mr, RULE_LENGTH_TRUNCATED},
        {{4096, (UINT64_C(1) << 32) + 16, 0, 2}, &mr, RULE_LENGTH_TRUNCATED},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        cr_expect_eq(check_sge(&table[i].sge, table[i].mr), table[i].rule, "row %zu", i);
}

Test(check, message_knows_inline_and_the_summed_limit)
{
    cr_expect_eq(check_message(0, false, 0), RULE_NONE);
    cr_expect_eq(check_message(MESSAGE_MAX, false, 0), RULE_NONE);
    cr_expect_eq(check_message(MESSAGE_MAX + 1, false, 0), RULE_LENGTH_TRUNCATED);
    cr_expect_eq(check_message(0, true, 0), RULE_NONE);
    cr_expect_eq(check_message(32, true, 32), RULE_NONE);
    cr_expect_eq(check_message(33, true, 32), RULE_INLINE_TOO_LONG);
    cr_expect_eq(check_message(1, true, 0), RULE_INLINE_TOO_LONG);
}

/* All 2^10 sets of the low access bits, and some high ones. */
Test(check, registration_wants_local_write_below_peer_writes)
{
    for (uint32_t access = 0; access < 1024; access++) {
        uint32_t known = LOCAL | WRITE | READ | ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB;
        enum rule expected = access & ~known                                    ? RULE_BAD_ARGUMENT
                             : (access & (WRITE | ATOMIC)) && !(access & LOCAL) ? RULE_MISSING_ACCESS
                                                                                : RULE_NONE;
        cr_assert_eq(check_registration(4096, 1, access), expected, "access 0x%x", access);
    }
    cr_expect_eq(check_registration(4096, 1, IBV_ACCESS_RELAXED_ORDERING), RULE_NONE);
    cr_expect_eq(check_registration(4096, 1, UINT32_C(1) << 31), RULE_BAD_ARGUMENT);
}

Test(check, registration_range)
{
    cr_expect_eq(check_registration(4096, 0, LOCAL), RULE_BAD_ARGUMENT);
    cr_expect_eq(check_registration(1, UINT64_MAX, LOCAL), RULE_NONE);
    cr_expect_eq(check_registration(2, UINT64_MAX, LOCAL), RULE_OUT_OF_RANGE);
    cr_expect_eq(check_registration(UINT64_MAX, 1, LOCAL), RULE_NONE);
    cr_expect_eq(check_registration(UINT64_MAX, 2, LOCAL), RULE_OUT_OF_RANGE);
}

Test(check, remote_range_and_access)
{
    cr_expect_eq(check_remote(0, 10, 10, READ, READ | WRITE), RULE_NONE);
    cr_expect_eq(check_remote(10, 0, 10, READ, READ), RULE_NONE);
    cr_expect_eq(check_remote(1, 10, 10, READ, READ), RULE_OUT_OF_RANGE);
    cr_expect_eq(check_remote(UINT64_MAX, 2, 10, READ, READ), RULE_OUT_OF_RANGE);
    cr_expect_eq(check_remote(0, 10, 10, WRITE, READ), RULE_MISSING_ACCESS);
    cr_expect_eq(check_remote(0, 10, 10, READ | WRITE, READ), RULE_MISSING_ACCESS);
}
