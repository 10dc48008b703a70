/*
 * A device that is unplugged under a live connection. It takes every other test's device away, so tests/rxe/run runs it
 * alone, and last.
 */
#include "pair.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(removal, .init = be_quiet, .timeout = 100);

/* rxe is taken apart only when its last user is gone: the command waits for us, as an administrator's would. */
static pid_t unplug(void)
{
    pid_t child = fork();
    if (!child) {
        execlp("rdma", "rdma", "link", "delete", "rxe0", NULL);
        _exit(127);
    }
    return child;
}

static mrg_id *watch(mrg_channel *channel)
{
    mrg_id *id;
    struct rdma_addrinfo *res = device_addr("RXE_ADDR", "0", RAI_PASSIVE);
    must(mrg_create_id(channel, &id, NULL, RDMA_PS_TCP));
    must(mrg_bind_addr(id, res->ai_src_addr));
    rdma_freeaddrinfo(res);
    return id;
}

static mrg_cm_event *await_removal(mrg_channel *channel)
{
    mrg_cm_event *event = NULL;
    cr_assert_eq(poll(&(struct pollfd){mrg_channel_fd(channel), POLLIN, 0}, 1, 20000), 1, "no event came");
    must(mrg_get_cm_event(channel, &event));
    cr_assert_eq(mrg_event_type(event), RDMA_CM_EVENT_DEVICE_REMOVAL);
    return event;
}

Test(removal, everything_is_let_go)
{
    struct pair p;
    pair_up(&p);
    mrg_channel *channel = mrg_create_event_channel();
    mrg_id *watcher = watch(channel);
    mrg_pd *pd = mrg_id_pd(p.client.id);
    mrg_mr *extra = mrg_reg_mr(pd, p.client.buffer, 64, 0);
    must(mrg_post_recv(p.client.id, NULL, p.client.buffer, 64, p.client.mr));
    pid_t command = unplug();
    mrg_cm_event *event = await_removal(channel);
    cr_expect_eq(mrg_finding_count("device-removed"), 1);
    cr_expect_eq(mrg_event_id(event), watcher);
    must(mrg_ack_cm_event(event));
    /* the rules hold as ever; what the provider answers to a release does not */
    expect_refused(mrg_dereg_mr(p.client.mr), EBUSY, "dereg-in-flight");
    must(mrg_destroy_qp(p.client.id));
    must(mrg_destroy_qp(p.server.id));
    must(mrg_dereg_mr(p.client.mr));
    must(mrg_dereg_mr(p.server.mr));
    must(mrg_dereg_mr(extra));
    must(mrg_destroy_ep(p.client.id));
    must(mrg_destroy_ep(p.server.id));
    must(mrg_destroy_ep(p.listener));
    must(mrg_destroy_id(watcher));
    must(mrg_destroy_event_channel(channel));
    mrg_pd_unref(pd);
    cr_expect_eq(mrg_finding_count("device-removed"), 1, "once for a device");
    struct mrg_stats stats;
    must(mrg_stats(&stats));
    cr_expect_eq(stats.live_mrs, 0);
    cr_expect_eq(waitpid(command, NULL, WNOHANG), 0, "librdmacm keeps the device open as long as we live");
}
