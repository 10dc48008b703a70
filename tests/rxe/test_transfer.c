/* Data over the wire: what is sent, read and written arrives, and nothing is left afterwards. */
#include "pair.h"

TestSuite(transfer, .init = be_quiet, .timeout = 60);

static void fill(char *buffer, unsigned int seed)
{
    for (int i = 0; i < BUFFER; i++)
        buffer[i] = (char)(seed = seed * 1103515245 + 12345, seed >> 16);
}

Test(transfer, send_and_receive)
{
    struct pair p;
    pair_up(&p);
    fill(p.client.buffer, 1);
    must(mrg_post_recv(p.server.id, &p, p.server.buffer, BUFFER, p.server.mr));
    must(mrg_post_send(p.client.id, &p.client, p.client.buffer, BUFFER, p.client.mr, IBV_SEND_SIGNALED));
    await_send(p.client.id, &p.client);
    await_recv(p.server.id, &p);
    cr_expect_arr_eq(p.client.buffer, p.server.buffer, BUFFER);
    take_down(&p);
}

/* An MR of the server's for the client, sent to it as a packed descriptor. */
static mrg_mr *hand_over(struct pair *p, int access, char *memory, size_t offset, size_t length, mrg_remote *ret)
{
    mrg_mr *mr = access == IBV_ACCESS_REMOTE_READ ? mrg_reg_read(p->server.id, memory, BUFFER)
                                                  : mrg_reg_write(p->server.id, memory, BUFFER);
    cr_assert(mr, "%s", strerror(errno));
    mrg_remote remote;
    must(mrg_mr_export(mr, offset, length, access, &remote));
    cr_assert_eq(mrg_remote_pack(&remote, p->server.buffer, BUFFER), MRG_REMOTE_SIZE);
    must(mrg_post_recv(p->client.id, NULL, p->client.buffer, MRG_REMOTE_SIZE, p->client.mr));
    must(mrg_post_send(p->server.id, NULL, p->server.buffer, MRG_REMOTE_SIZE, p->server.mr, IBV_SEND_SIGNALED));
    await_send(p->server.id, NULL);
    await_recv(p->client.id, NULL);
    must(mrg_remote_unpack(ret, p->client.buffer, MRG_REMOTE_SIZE));
    return mr;
}

Test(transfer, read_from_a_descriptor)
{
    static char memory[BUFFER];
    struct pair p;
    mrg_remote remote;
    pair_up(&p);
    fill(memory, 2);
    mrg_mr *mr = hand_over(&p, IBV_ACCESS_REMOTE_READ, memory, 4096, 8192, &remote);
    must(mrg_post_read_from(p.client.id, NULL, p.client.buffer, 8192, p.client.mr, IBV_SEND_SIGNALED, &remote, 0));
    await_send(p.client.id, NULL);
    cr_expect_arr_eq(p.client.buffer, memory + 4096, 8192);
    expect_refused(mrg_post_read_from(p.client.id, NULL, p.client.buffer, 8193, p.client.mr, 0, &remote, 0), ERANGE,
                   "out-of-range");
    expect_refused(mrg_post_write_to(p.client.id, NULL, p.client.buffer, 1, p.client.mr, 0, &remote, 0), EACCES,
                   "missing-access");
    must(mrg_dereg_mr(mr));
    take_down(&p);
}

Test(transfer, write_to_a_descriptor)
{
    static char memory[BUFFER];
    struct pair p;
    mrg_remote remote;
    pair_up(&p);
    mrg_mr *mr = hand_over(&p, IBV_ACCESS_REMOTE_WRITE, memory, 0, BUFFER, &remote);
    fill(p.client.buffer, 3);
    must(mrg_post_write_to(p.client.id, NULL, p.client.buffer, 4000, p.client.mr, IBV_SEND_SIGNALED, &remote, 100));
    await_send(p.client.id, NULL);
    cr_expect_arr_eq(memory + 100, p.client.buffer, 4000);
    cr_expect_eq(memory[99], 0);
    cr_expect_eq(memory[4100], 0);
    expect_refused(mrg_post_read_from(p.client.id, NULL, p.client.buffer, 1, p.client.mr, 0, &remote, 0), EACCES,
                   "missing-access");
    must(mrg_dereg_mr(mr));
    take_down(&p);
}

/* The library forgets nothing, the device does: after the release the peer's key opens nothing any more. */
Test(transfer, released_memory_is_closed_to_the_peer)
{
    static char memory[BUFFER];
    struct pair p;
    mrg_remote remote;
    pair_up(&p);
    mrg_mr *mr = hand_over(&p, IBV_ACCESS_REMOTE_READ, memory, 0, BUFFER, &remote);
    must(mrg_dereg_mr(mr));
    must(mrg_post_read_from(p.client.id, NULL, p.client.buffer, 1, p.client.mr, IBV_SEND_SIGNALED, &remote, 0));
    struct ibv_wc wc;
    cr_assert_eq(mrg_get_send_comp(p.client.id, &wc), 1);
    cr_expect_neq(wc.status, IBV_WC_SUCCESS);
    take_down(&p);
}

Test(transfer, pieces_gather_and_scatter)
{
    struct pair p;
    pair_up(&p);
    fill(p.client.buffer, 4);
    mrg_sge from[] = {{p.client.buffer, 100, p.client.mr}, {NULL, 0, NULL}, {p.client.buffer + 5000, 28, p.client.mr}};
    mrg_sge into[] = {{p.server.buffer + 64, 1, p.server.mr}, {p.server.buffer + 1000, 127, p.server.mr}};
    must(mrg_post_recvv(p.server.id, NULL, into, 2));
    must(mrg_post_sendv(p.client.id, NULL, from, 3, IBV_SEND_SIGNALED));
    await_send(p.client.id, NULL);
    await_recv(p.server.id, NULL);
    cr_expect_eq(p.server.buffer[64], p.client.buffer[0]);
    cr_expect_arr_eq(p.server.buffer + 1000, p.client.buffer + 1, 99);
    cr_expect_arr_eq(p.server.buffer + 1099, p.client.buffer + 5000, 28);
    take_down(&p);
}

Test(transfer, empty_and_inline_messages_need_no_mr)
{
    struct pair p;
    pair_up(&p);
    char word[] = "inline";
    must(mrg_post_recv(p.server.id, NULL, p.server.buffer, 64, p.server.mr));
    must(mrg_post_recv(p.server.id, NULL, p.server.buffer, 64, p.server.mr));
    must(mrg_post_send(p.client.id, NULL, NULL, 0, NULL, IBV_SEND_SIGNALED));
    await_send(p.client.id, NULL);
    await_recv(p.server.id, NULL);
    must(mrg_post_send(p.client.id, NULL, word, sizeof word, NULL, IBV_SEND_INLINE | IBV_SEND_SIGNALED));
    memset(word, 'x', sizeof word);
    await_send(p.client.id, NULL);
    await_recv(p.server.id, NULL);
    cr_expect_str_eq(p.server.buffer, "inline");
    take_down(&p);
}

/* Many more WRs than the queue holds, most of them unsignaled: records come round again and again. */
Test(transfer, thousand_messages)
{
    struct pair p;
    pair_up(&p);
    for (uintptr_t i = 0; i < 1000; i++) {
        int flags = i % 8 == 7 ? IBV_SEND_SIGNALED : 0;
        must(mrg_post_recv(p.server.id, (void *)i, p.server.buffer, 64, p.server.mr));
        must(mrg_post_send(p.client.id, (void *)i, p.client.buffer, 64, p.client.mr, flags));
        await_recv(p.server.id, (void *)i);
        if (flags)
            await_send(p.client.id, (void *)i);
    }
    must(mrg_dereg_mr(p.client.mr)); /* nothing in flight: the last one was signaled */
    p.client.mr = NULL;
    take_down(&p);
}
