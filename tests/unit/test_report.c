/* What is said: options, the catalogue, findings as text, and what a process says when it ends. */
#include "fixture.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "finding.h"
#include "options.h"

static char memory[4096];

TestSuite(report, .init = stub_install);

Test(report, catalogue_is_sound)
{
    for (enum rule a = RULE_NONE + 1; a < RULE_COUNT; a++) {
        const struct rule_text *t = &rule_texts[a];
        cr_assert(t->name && t->sentence && t->hint && t->where);
        cr_expect(*t->name && *t->sentence && *t->hint && *t->where, "%s", t->name);
        cr_expect_eq(strspn(t->name, "abcdefghijklmnopqrstuvwxyz-"), strlen(t->name), "%s", t->name);
        cr_expect_eq(strspn(t->where, "LDRS"), strlen(t->where), "%s", t->name);
        for (enum rule b = RULE_NONE + 1; b < a; b++)
            cr_expect_str_neq(t->name, rule_texts[b].name);
    }
}

Test(report, options)
{
    struct options o;
    cr_expect_eq(options_parse(&o, ""), 0);
    cr_expect_eq(o.policy, POLICY_REFUSE);
    cr_expect_eq(o.output, STDERR_FILENO);
    cr_expect_eq(o.exitcode, 0);
    cr_expect_eq(options_parse(&o, "policy=abort,exitcode=23,help=1"), 0);
    cr_expect_eq(o.policy, POLICY_ABORT);
    cr_expect_eq(o.exitcode, 23);
    cr_expect(o.help);
    const char *bad[] = {"policy=maybe", "exitcode=256", "exitcode=-1", "exitcode=x", "exitcode=", "nonsense",
                         "what=1",       "help=2",       "output=",     "output=/",   "=",         "policy"};
    cr_assert(freopen("/dev/null", "w", stderr));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_eq(options_parse(&o, bad[i]), 1, "%s", bad[i]);
    cr_expect_eq(options_parse(&o, "what=1,policy=abort,,exitcode=1"), 1, "the rest still counts");
    cr_expect_eq(o.policy, POLICY_ABORT);
    cr_expect_eq(o.exitcode, 1);
}

/* Runs a function in a child with MRGUARD_OPTIONS; what it printed, and its wait status. */
static int run_child(const char *text, void (*run)(void), char *output, size_t size)
{
    int out[2];
    cr_assert_eq(pipe(out), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(out[1], STDERR_FILENO);
        close(out[0]);
        close(out[1]);
        setenv("MRGUARD_OPTIONS", text, 1);
        run();
        exit(0);
    }
    close(out[1]);
    size_t n = 0;
    ssize_t more;
    while (n < size - 1 && (more = read(out[0], output + n, size - 1 - n)) > 0)
        n += (size_t)more;
    output[n] = '\0';
    close(out[0]);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

static void misuse_many_times(void)
{
    mrg_id *id = bound_id();
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    for (int i = 0; i < 100; i++)
        mrg_destroy_id(id);
    mrg_dereg_mr(mr);
    mrg_destroy_id(id);
}

static int occurrences(const char *text, const char *word)
{
    int n = 0;
    for (; (text = strstr(text, word)); text++)
        n++;
    return n;
}

Test(report, finding_reads_like_a_compilers_error)
{
    char text[8192];
    int status = run_child("", misuse_many_times, text, sizeof text);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_expect(strstr(text, "mrguard: leaked-mr: mrg_destroy_id: still belonging to this id: MR ["), "%s", text);
    cr_expect(strstr(text, "    at        tests/unit/test_report.c:"), "%s", text);
    cr_expect(strstr(text, "    made at   tests/unit/fixture.h:"), "%s", text);
    cr_expect(strstr(text, "    hint      release each MR"), "%s", text);
}

Test(report, repeated_finding_is_printed_at_powers_of_ten)
{
    char text[8192];
    run_child("", misuse_many_times, text, sizeof text);
    cr_expect_eq(occurrences(text, "mrguard: leaked-mr"), 3, "%s", text);
    cr_expect(strstr(text, "(10 times so far)") && strstr(text, "(100 times so far)"), "%s", text);
}

/* Sites whose literals lie close together, rules whose numbers do: each is printed. */
static void misuse_in_many_ways(void)
{
    static const char sites[64][9] = {"a.c:1"};
    mrg_id *id = bound_id();
    for (int i = 0; i < 64; i++) {
        mrg_dereg_mr_at(sites[i], NULL);
        mrg_dereg_mr_at(sites[i], (mrg_mr *)id);
        mrg_dereg_mr_at(sites[i], (mrg_mr *)memory);
        mrg_disconnect_at(sites[i], id);
    }
    mrg_dereg_mr(NULL), mrg_mr_ref(NULL); /* one line, one rule, two calls */
    mrg_destroy_id(id);
}

Test(report, first_finding_of_its_kind_is_always_printed)
{
    static char text[256 * 1024];
    run_child("", misuse_in_many_ways, text, sizeof text);
    cr_expect_eq(occurrences(text, "mrguard: "), 4 * 64 + 2, "%d", occurrences(text, "mrguard: "));
}

Test(report, policy_abort)
{
    char text[8192];
    int status = run_child("policy=abort", misuse_many_times, text, sizeof text);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    cr_expect_eq(occurrences(text, "mrguard: leaked-mr"), 1, "%s", text);
}

static void leak(void)
{
    mrg_id *id = bound_id();
    for (int i = 0; i < 3; i++)
        cr_assert(mrg_reg_msgs(id, memory, 100));
    cr_assert(mrg_reg_read(id, memory, 7));
}

static void leak_nothing(void)
{
    mrg_id *id = bound_id();
    mrg_dereg_mr(mrg_reg_msgs(id, memory, 100));
    mrg_destroy_id(id);
}

Test(report, process_that_ends_with_mrs_says_where_they_were_made)
{
    char text[8192];
    int status = run_child("exitcode=42", leak, text, sizeof text);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    cr_expect_eq(occurrences(text, "mrguard: leaked-mr"), 2, "%s", text);
    cr_expect(strstr(text, "at exit 3 MRs of 300 bytes made at this line are still registered"), "%s", text);
    cr_expect(strstr(text, "at exit 1 MR of 7 bytes made at this line is still registered"), "%s", text);
    cr_expect(strstr(text, "made at   tests/unit/test_report.c:"), "%s", text);
}

static void print_and_leak(void)
{
    dup2(STDERR_FILENO, STDOUT_FILENO);
    printf("written by the program, not flushed");
    leak();
}

Test(report, exit_status_for_findings_does_not_cost_the_programs_output)
{
    char text[8192];
    int status = run_child("exitcode=42", print_and_leak, text, sizeof text);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    cr_expect(strstr(text, "written by the program, not flushed"), "%s", text);
}

Test(report, process_that_leaks_nothing_says_nothing)
{
    char text[8192];
    int status = run_child("exitcode=42", leak_nothing, text, sizeof text);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_expect_str_eq(text, "");
}

static void leak_in_parent_only(void)
{
    leak();
    if (fork() == 0)
        exit(0); /* the destructor runs here too */
    wait(NULL);
    _exit(0); /* and not here */
}

Test(report, forked_child_says_nothing)
{
    char text[8192];
    run_child("", leak_in_parent_only, text, sizeof text);
    cr_expect_str_eq(text, "");
}

static void fork_after_a_finding(void)
{
    leak_nothing();
    mrg_dereg_mr(NULL);
    if (fork() == 0)
        exit(0);
    int status;
    wait(&status);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
}

Test(report, forked_child_keeps_its_exit_status)
{
    char text[8192];
    int status = run_child("exitcode=42", fork_after_a_finding, text, sizeof text);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "0x%x", status);
}

static void print_help(void)
{
    leak_nothing();
    mrg_dereg_mr(NULL);
}

Test(report, help_lists_the_options)
{
    char text[8192];
    run_child("help=1", print_help, text, sizeof text);
    const char *names[] = {"policy=", "output=", "exitcode=", "help="};
    for (int i = 0; i < 4; i++)
        cr_expect(strstr(text, names[i]), "%s", text);
}

Test(report, output_goes_to_a_file)
{
    char path[] = "/tmp/mrguard-XXXXXX", option[64], text[256], line[16] = "";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    snprintf(option, sizeof option, "output=%s", path);
    run_child(option, misuse_many_times, text, sizeof text);
    cr_expect_str_eq(text, "");
    cr_expect_eq(read(fd, line, sizeof line - 1), sizeof line - 1);
    cr_expect_str_eq(line, "mrguard: leaked");
    close(fd);
    unlink(path);
}

/* Handler and last finding */

static void count_finding(const struct mrg_finding *finding, void *arg)
{
    cr_expect_str_eq(finding->rule, "bad-argument");
    ++*(int *)arg;
}

Test(report, handler_gets_every_finding)
{
    int seen = 0;
    mrg_set_finding_handler(count_finding, &seen);
    for (int i = 0; i < 25; i++)
        mrg_dereg_mr(NULL);
    cr_expect_eq(seen, 25);
    cr_expect_eq(mrg_finding_count("bad-argument"), 25);
    cr_expect_eq(mrg_finding_count("leaked-mr"), 0);
    cr_expect_eq(mrg_finding_count("no such rule"), 0);
    cr_expect_eq(mrg_finding_count(NULL), 0);
    struct mrg_stats stats;
    cr_expect_eq(mrg_stats(&stats), 0);
    cr_expect_eq(stats.findings, 25);
    cr_expect_eq(mrg_stats(NULL), -1);
}

/* Whatever it calls: it runs with no lock held. */
static void call_everything(const struct mrg_finding *finding, void *arg)
{
    mrg_id *id = *(mrg_id **)arg;
    static _Thread_local bool inside;
    (void)finding;
    if (inside)
        return;
    inside = true;
    mrg_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}};
    mrg_pd_unref(mrg_id_pd(id));
    mrg_mr_unref(mrg_reg_msgs(id, memory, 1));
    if (!mrg_create_qp(id, NULL, &attr))
        mrg_destroy_qp(id);
    mrg_destroy_id(id);
    mrg_dereg_mr((mrg_mr *)memory);
    inside = false;
}

Test(report, handler_may_call_the_library_from_anywhere, .timeout = 10)
{
    mrg_id *id = NULL;
    mrg_set_finding_handler(call_everything, &id);
    struct sockaddr addr = {0};
    mrg_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}};
    cr_assert_eq(mrg_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    mrg_id *kept = id;
    expect_refused(mrg_create_qp(id, (mrg_pd *)&addr, &attr), ENODEV, "no-pd");
    id = NULL;
    cr_assert(mrg_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0 && mrg_bind_addr(id, &addr) == 0);
    mrg_mr *mr = mrg_reg_msgs(id, memory, 1);
    expect_refused(mrg_create_qp(id, (mrg_pd *)&addr, &attr), ESTALE, "stale-handle");
    cr_assert_eq(mrg_create_qp(id, NULL, &attr), 0);
    expect_refused(mrg_create_qp(id, NULL, &attr), EINVAL, "wrong-state");
    expect_refused(mrg_post_recv(id, NULL, memory, 2, mr), ERANGE, "out-of-range");
    expect_refused(mrg_destroy_id(id), EBUSY, "leaked-mr");
    cr_expect_neq(kept, id);
    mrg_set_finding_handler(NULL, NULL); /* leaks are told at exit, when id is gone */
}

static void fail_again(const struct mrg_finding *finding, void *arg)
{
    (void)finding;
    ++*(int *)arg;
    mrg_dereg_mr(NULL);
}

Test(report, handler_is_not_handed_its_own_mistakes)
{
    int calls = 0;
    mrg_set_finding_handler(fail_again, &calls);
    expect_refused(mrg_destroy_id(NULL), EINVAL, "bad-argument");
    cr_expect_eq(calls, 1);
    cr_expect_str_eq(mrg_last_finding()->call, "mrg_destroy_id");
    cr_expect_eq(mrg_finding_count("bad-argument"), 2);
}

Test(report, plain_function_records_its_caller)
{
    setup_stub();
    int (*dereg)(mrg_mr *) = mrg_dereg_mr;
    cr_expect_eq(dereg(NULL), -1);
    const struct mrg_finding *f = mrg_last_finding();
    cr_expect_str_eq(f->call, "mrg_dereg_mr");
    cr_expect(strstr(f->misused, "+0x"), "%s", f->misused);
}
