/* Tokens and slots: no handle that is not live is ever taken for one. */
#include "fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#include "handle.h"
#include "registry.h"

static char memory[4096];

TestSuite(handle, .init = setup_stub);

static mrg_mr *made_mr(mrg_id *id)
{
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    cr_assert(mr);
    return mr;
}

Test(handle, is_no_address)
{
    token t = handle_token(made_mr(bound_id()));
    cr_expect_eq(t >> 63, 1);
    cr_expect_eq(t >> 56 & 1, 0);
    cr_expect_eq(t >> 55 & 1, 1);
    cr_expect_eq(token_type(t), TYPE_MR);
}

Test(handle, every_one_bit_change_is_caught)
{
    mrg_id *id = bound_id();
    mrg_mr *mr = made_mr(id);
    for (int bit = 0; bit < 64; bit++) {
        mrg_mr *forged = (mrg_mr *)(uintptr_t)(handle_token(mr) ^ UINT64_C(1) << bit);
        errno = 0;
        cr_expect_eq(mrg_mr_length(forged), 0, "bit %d", bit);
        cr_expect_eq(errno, ESTALE, "bit %d", bit);
    }
    cr_expect_eq(mrg_mr_length(mr), sizeof memory);
}

Test(handle, stale_wrong_type_null_and_noise)
{
    mrg_id *id = bound_id();
    mrg_mr *mr = made_mr(id);
    cr_assert_eq(mrg_dereg_mr(mr), 0);
    expect_refused(mrg_dereg_mr(mr), ESTALE, "stale-handle");
    expect_refused(mrg_mr_addr(mr), ESTALE, "stale-handle");
    expect_refused(mrg_mr_addr((mrg_mr *)id), ESTALE, "stale-handle");
    expect_refused(mrg_dereg_mr((mrg_mr *)id), ESTALE, "stale-handle");
    expect_refused(mrg_mr_addr(NULL), EINVAL, "bad-argument");
    expect_refused(mrg_dereg_mr(NULL), EINVAL, "bad-argument");
    expect_refused(mrg_mr_addr((mrg_mr *)memory), ESTALE, "stale-handle");
    expect_refused(mrg_dereg_mr((mrg_mr *)memory), EINVAL, "foreign-mr");
    expect_refused(mrg_dereg_mr((mrg_mr *)1), EINVAL, "foreign-mr");
    expect_refused(mrg_dereg_mr((mrg_mr *)UINTPTR_MAX), EINVAL, "foreign-mr");
}

Test(handle, reused_slot_does_not_revive_the_old_handle)
{
    mrg_id *id = bound_id();
    mrg_mr *first = made_mr(id);
    cr_assert_eq(mrg_dereg_mr(first), 0);
    for (int i = 0; i < 1000; i++) {
        mrg_mr *next = made_mr(id);
        cr_assert_eq(handle_token(next) & INDEX_MASK, handle_token(first) & INDEX_MASK, "slots are reused");
        cr_assert_neq(next, first);
        cr_assert_eq(mrg_mr_length(first), 0);
        cr_assert_eq(mrg_dereg_mr(next), 0);
    }
}

Test(handle, slot_is_retired_when_its_generations_run_out)
{
    mrg_id *id = bound_id();
    cr_assert_eq(mrg_dereg_mr(made_mr(id)), 0);
    struct slot *slot = slot_at(handle_token(made_mr(id)));
    cr_assert_eq(mrg_dereg_mr(slot_handle(slot)), 0);
    atomic_store(&slot->hot.word,
                 word_with(token_base(TYPE_MR) | (token)(GENERATION_MAX - 1) << INDEX_BITS, STATE_FREE));
    mrg_mr *last = made_mr(id);
    cr_assert_eq(slot_at(handle_token(last)), slot);
    cr_assert_eq(token_generation(handle_token(last)), GENERATION_MAX);
    cr_assert_eq(mrg_dereg_mr(last), 0);
    mrg_mr *other = made_mr(id);
    cr_expect_neq(slot_at(handle_token(other)), slot);
    expect_refused(mrg_dereg_mr(last), ESTALE, "stale-handle");
}

Test(handle, child_process_is_told_so_and_the_parent_goes_on)
{
    mrg_id *id = bound_id();
    mrg_mr *mr = made_mr(id);
    pid_t child = fork();
    if (child == 0) {
        mrg_id *made = NULL;
        int wrong = 0;
        wrong |= !(mrg_dereg_mr(mr) == -1 && errno == EPERM) << 0;
        wrong |= strcmp(mrg_last_finding()->rule, "after-fork") ? 2 : 0;
        wrong |= !(mrg_create_id(NULL, &made, NULL, RDMA_PS_TCP) == -1 && errno == EPERM) << 2;
        wrong |= !(mrg_mr_unref(mr) == NULL && errno == EPERM) << 3;
        _exit(wrong);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
    cr_expect_eq(WEXITSTATUS(status), 0, "0x%x", WEXITSTATUS(status));
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_destroy_id(id), 0);
    expect_nothing_left();
}

/* All words of a slot: only the live one of the right generation answers. */
Test(handle, only_live_is_found)
{
    mrg_mr *mr = made_mr(bound_id());
    struct slot *slot = slot_at(handle_token(mr));
    for (enum state state = STATE_LIVE; state < STATE_COUNT; state++) {
        if (state == STATE_CLOSING)
            continue; /* waits for the verdict: see stress */
        atomic_store(&slot->hot.word, word_with(handle_token(mr), state));
        cr_expect_eq(slot_find(mr, TYPE_MR) != NULL, state == STATE_LIVE, "state %d", (int)state);
    }
}
