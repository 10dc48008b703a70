/*
 * refusals: what mrguard refuses, one line each, on a real device. usage: refusals ADDRESS, one that an RDMA device
 * serves. Each mistake is one that librdmacm lets pass, crashes on, or reports at the peer; here the call fails,
 * nothing has changed, and the finding says why. Exit status 1 if a mistake was not refused.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mrguard/mrguard.h>

static char memory[4096];
static char elsewhere[64];
static int surprises;

static void stay_silent(const struct mrg_finding *finding, void *arg)
{
    (void)finding, (void)arg;
}

static void show(const char *mistake, int refused)
{
    const struct mrg_finding *f = mrg_last_finding();
    if (!refused || !f) {
        surprises++;
        printf("  NOT REFUSED  %s\n", mistake);
    } else {
        printf("  %-42s %-9s %s: %s\n", mistake, strerrorname_np(f->error), f->rule, f->message);
    }
}

static void done(const char *what, int failed)
{
    surprises += failed != 0;
    printf("  %-42s %s\n", what, failed ? strerror(errno) : "done");
}

static mrg_id *bind_to(const char *host)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *at;
    mrg_id *id;
    if (rdma_getaddrinfo(host, "0", &hints, &at) || mrg_create_id(NULL, &id, NULL, RDMA_PS_TCP)) {
        perror(host);
        exit(1);
    }
    show("registering on an id that is not bound", !mrg_reg_msgs(id, memory, sizeof memory));
    mrg_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
    if (mrg_bind_addr(id, at->ai_src_addr) || mrg_create_qp(id, NULL, &attr)) {
        perror(host);
        exit(1);
    }
    rdma_freeaddrinfo(at);
    return id;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return fprintf(stderr, "usage: refusals ADDRESS\n"), 2;
    mrg_set_finding_handler(stay_silent, NULL);
    mrg_id *id = bind_to(argv[1]);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    mrg_mr *gone = mrg_reg_msgs(id, memory, sizeof memory);
    done("two registrations on the bound id", !mr || !gone || mrg_dereg_mr(gone));

    show("posting memory that no MR covers", mrg_post_recv(id, NULL, elsewhere, sizeof elsewhere, NULL));
    show("posting memory that this MR does not cover", mrg_post_recv(id, NULL, elsewhere, sizeof elsewhere, mr));
    show("posting one byte beyond the MR", mrg_post_recv(id, NULL, memory, sizeof memory + 1, mr));
    show("posting with a stale handle", mrg_post_recv(id, NULL, memory, 1, gone));
    show("a second release", mrg_dereg_mr(gone));
    done("posting a receive", mrg_post_recv(id, NULL, memory, sizeof memory, mr));
    show("deregistering with the receive posted", mrg_dereg_mr(mr));
    done("destroying the QP, which ends the receive", mrg_destroy_qp(id));
    show("destroying the id with the MR alive", mrg_destroy_id(id));
    done("releasing the MR", mrg_dereg_mr(mr));
    done("destroying the id, the same call", mrg_destroy_id(id));
    return surprises ? 1 : 0;
}
