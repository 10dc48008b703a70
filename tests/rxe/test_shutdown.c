/* The whole-tree close against peers that are slow, silent, or dead. */
#include "pair.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(shutdown, .init = be_quiet, .timeout = 100);

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* What is left of a pair when the client is gone. */
static void end_server(struct pair *p)
{
    must(mrg_shutdown_ep(p->server.id, 0));
    must(mrg_shutdown_ep(p->listener, 0));
    free(p->client.buffer);
    free(p->server.buffer);
    expect_nothing_left();
}

Test(shutdown, what_was_sent_arrives)
{
    struct pair p;
    pair_up(&p);
    for (int i = 0; i < 8; i++)
        must(mrg_post_recv(p.server.id, NULL, p.server.buffer + i * 4096, 4096, p.server.mr));
    memset(p.client.buffer, 7, 8 * 4096);
    for (int i = 0; i < 8; i++)
        must(mrg_post_send(p.client.id, NULL, p.client.buffer + i * 4096, 4096, p.client.mr, IBV_SEND_SIGNALED));
    must(mrg_shutdown_ep(p.client.id, 30000));
    cr_expect_eq(mrg_finding_count("destroy-order"), 0, "all sends were done");
    for (int i = 0; i < 8; i++)
        await_recv(p.server.id, NULL);
    cr_expect_arr_eq(p.server.buffer, p.client.buffer, 8 * 4096);
    end_server(&p);
}

Test(shutdown, peer_that_never_takes_what_is_sent)
{
    struct pair p;
    pair_up(&p);
    must(mrg_post_send(p.client.id, NULL, p.client.buffer, 64, p.client.mr, IBV_SEND_SIGNALED)); /* tried for ever */
    double start = seconds();
    must(mrg_shutdown_ep(p.client.id, 300));
    double took = seconds() - start;
    cr_expect(took >= 0.3 && took < 20, "%f s", took);
    cr_expect_eq(mrg_finding_count("destroy-order"), 1);
    end_server(&p);
}

Test(shutdown, mr_that_another_connection_has_in_flight_stays)
{
    struct pair p;
    pair_up(&p);
    mrg_mr *shared = mrg_reg_msgs(p.client.id, p.client.buffer, 64);
    must(mrg_post_recv(p.server.id, NULL, p.client.buffer, 64, shared)); /* both ends are on one device */
    must(mrg_shutdown_ep(p.client.id, 0));
    cr_expect_eq(mrg_mr_length(shared), 64);
    must(mrg_destroy_qp(p.server.id));
    must(mrg_dereg_mr(shared));
    end_server(&p);
}

/* A process that accepts one connection, says so, and waits for its end. */
static void serve(int port_to, int ready_to)
{
    mrg_id *listener, *id;
    struct rdma_addrinfo *res = device_addr("RXE_ADDR", "0", RAI_PASSIVE);
    mrg_qp_init_attr attr = {.cap = {16, 16, 4, 4, 0}};
    if (mrg_create_ep(&listener, res, NULL, &attr) || mrg_listen(listener, 1))
        _exit(1);
    in_port_t port = ((struct sockaddr_in *)mrg_get_local_addr(listener))->sin_port;
    if (write(port_to, &port, sizeof port) != sizeof port || mrg_get_request(listener, &id) || mrg_accept(id, NULL) ||
        write(ready_to, "", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static mrg_id *connect_to_port(in_port_t port)
{
    char text[8];
    snprintf(text, sizeof text, "%u", ntohs(port));
    mrg_id *id;
    mrg_qp_init_attr attr = {.cap = {16, 16, 4, 4, 0}};
    struct rdma_addrinfo *res = device_addr("RXE_ADDR", text, 0);
    must(mrg_create_ep(&id, res, NULL, &attr));
    rdma_freeaddrinfo(res);
    must(mrg_connect(id, NULL));
    return id;
}

/* Asleep it neither takes nor refuses what is sent; killed, the kernel has taken its QP away. */
static void end_against(int how)
{
    int port_of[2], ready[2];
    char byte;
    in_port_t port;
    cr_assert_eq(pipe(port_of) | pipe(ready), 0);
    pid_t peer = fork();
    if (!peer)
        serve(port_of[1], ready[1]);
    cr_assert_eq(read(port_of[0], &port, sizeof port), sizeof port);
    mrg_id *id = connect_to_port(port);
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    static char memory[4096];
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    must(mrg_post_recv(id, NULL, memory, 64, mr));
    must(mrg_post_send(id, NULL, memory + 64, 64, mr, IBV_SEND_SIGNALED));
    cr_assert_eq(kill(peer, how), 0);
    if (how == SIGKILL)
        cr_assert_eq(waitpid(peer, NULL, 0), peer);
    double start = seconds();
    must(mrg_shutdown_ep(id, 500));
    cr_expect_lt(seconds() - start, 20);
    expect_nothing_left();
    if (how != SIGKILL) {
        kill(peer, SIGKILL);
        cr_assert_eq(waitpid(peer, NULL, 0), peer);
    }
}

Test(shutdown, peer_that_was_killed)
{
    end_against(SIGKILL);
}

Test(shutdown, peer_that_is_stopped)
{
    end_against(SIGSTOP);
}
