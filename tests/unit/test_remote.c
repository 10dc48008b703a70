/* Remote descriptors: what is packed is what is unpacked, and nothing else is. */
#include "fixture.h"

static char memory[4096];

TestSuite(remote, .init = setup_stub);

Test(remote, export_grants_no_more_than_was_registered)
{
    mrg_id *id = bound_id();
    mrg_mr *mr = mrg_reg_read(id, memory, sizeof memory), *msgs = mrg_reg_msgs(id, memory, sizeof memory);
    mrg_remote remote = {1, 2, 3, 4}, before = remote;
    const int read = IBV_ACCESS_REMOTE_READ;
    expect_refused(mrg_mr_export(mr, 0, 1, IBV_ACCESS_REMOTE_WRITE, &remote), EACCES, "missing-access");
    expect_refused(mrg_mr_export(mr, 0, 1, read | IBV_ACCESS_REMOTE_WRITE, &remote), EACCES, "missing-access");
    expect_refused(mrg_mr_export(msgs, 0, 1, read, &remote), EACCES, "missing-access");
    expect_refused(mrg_mr_export(mr, 0, sizeof memory + 1, read, &remote), ERANGE, "out-of-range");
    expect_refused(mrg_mr_export(mr, sizeof memory, 1, read, &remote), ERANGE, "out-of-range");
    expect_refused(mrg_mr_export(mr, SIZE_MAX, 2, read, &remote), ERANGE, "out-of-range");
    expect_refused(mrg_mr_export(mr, 0, 0, read, &remote), EINVAL, "bad-argument");
    expect_refused(mrg_mr_export(mr, 0, 1, 0, &remote), EINVAL, "bad-argument");
    expect_refused(mrg_mr_export(mr, 0, 1, IBV_ACCESS_LOCAL_WRITE, &remote), EINVAL, "bad-argument");
    expect_refused(mrg_mr_export(mr, 0, 1, -1, &remote), EINVAL, "bad-argument");
    expect_refused(mrg_mr_export(mr, 0, 1, read, NULL), EINVAL, "bad-argument");
    cr_expect_arr_eq(&remote, &before, sizeof remote, "outputs are written only on success");
    cr_expect_eq(mrg_mr_export(mr, 96, 4000, read, &remote), 0);
    cr_expect_eq(remote.addr, (uintptr_t)memory + 96);
    cr_expect_eq(remote.length, 4000);
    cr_expect_eq(remote.rkey, mrg_mr_rkey(mr));
    cr_expect_eq(remote.access, read);
}

static const unsigned char packed[MRG_REMOTE_SIZE] = {
    'm',  'r',  'g',  'R',  1,
    0,    0,    0, /* magic, version */
    0x08, 0x07, 0x06, 0x05, 0x04,
    0x03, 0x02, 0x01, /* addr */
    0x00, 0x10, 0,    0,    0,
    0,    0,    0, /* length */
    0x44, 0x33, 0x22, 0x11, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
    0,    0,    0};
static const mrg_remote unpacked = {UINT64_C(0x0102030405060708), 4096, 0x11223344,
                                    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};

Test(remote, layout_is_fixed)
{
    unsigned char buf[MRG_REMOTE_SIZE + 8];
    memset(buf, 0xaa, sizeof buf);
    cr_assert_eq(mrg_remote_pack(&unpacked, buf, sizeof buf), MRG_REMOTE_SIZE);
    cr_expect_arr_eq(buf, packed, MRG_REMOTE_SIZE);
    cr_expect_eq(buf[MRG_REMOTE_SIZE], 0xaa);
    mrg_remote back;
    cr_assert_eq(mrg_remote_unpack(&back, buf, sizeof buf), 0);
    cr_expect_arr_eq(&back, &unpacked, sizeof back);
}

Test(remote, pack_refuses_what_unpack_would)
{
    unsigned char buf[MRG_REMOTE_SIZE];
    const mrg_remote bad[] = {
        {4096, 0, 1, IBV_ACCESS_REMOTE_READ},
        {UINT64_MAX, 2, 1, IBV_ACCESS_REMOTE_READ},
        {4096, 1, 1, 0},
        {4096, 1, 1, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ},
        {4096, 1, 1, UINT32_C(1) << 31},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_refused(mrg_remote_pack(&bad[i], buf, sizeof buf), EINVAL, "bad-argument");
    expect_refused(mrg_remote_pack(NULL, buf, sizeof buf), EINVAL, "bad-argument");
    expect_refused(mrg_remote_pack(&unpacked, NULL, 32), EINVAL, "bad-argument");
    expect_refused(mrg_remote_pack(&unpacked, buf, MRG_REMOTE_SIZE - 1), EMSGSIZE, "bad-argument");
}

/* Every single-bit change of a good descriptor is either refused or gives exactly the changed field. */
Test(remote, unpack_trusts_no_bit)
{
    int accepted = 0;
    for (int bit = 0; bit < MRG_REMOTE_SIZE * 8; bit++) {
        unsigned char buf[MRG_REMOTE_SIZE];
        memcpy(buf, packed, sizeof buf);
        buf[bit / 8] ^= (unsigned char)(1 << bit % 8);
        mrg_remote back = {9, 9, 9, 9};
        if (mrg_remote_unpack(&back, buf, sizeof buf) == 0) {
            unsigned char again[MRG_REMOTE_SIZE];
            cr_assert_eq(mrg_remote_pack(&back, again, sizeof again), MRG_REMOTE_SIZE);
            cr_expect_arr_eq(again, buf, sizeof buf, "bit %d", bit);
            accepted++;
        } else {
            cr_expect_eq(back.addr, 9, "bit %d: written on failure", bit);
        }
    }
    /* of addr all, of length all but the one that makes it 0, of rkey all, of access the three that it knows */
    cr_expect_eq(accepted, 64 + 63 + 32 + 3, "%d", accepted);
}

Test(remote, unpack_bad_sizes)
{
    mrg_remote back;
    for (size_t size = 0; size < MRG_REMOTE_SIZE; size++)
        expect_refused(mrg_remote_unpack(&back, packed, size), EMSGSIZE, "bad-argument");
    expect_refused(mrg_remote_unpack(&back, NULL, MRG_REMOTE_SIZE), EINVAL, "bad-argument");
    expect_refused(mrg_remote_unpack(NULL, packed, MRG_REMOTE_SIZE), EINVAL, "bad-argument");
}

Test(remote, checked_posts_stay_inside_what_the_peer_gave)
{
    mrg_id *id = connected_id(NULL);
    mrg_mr *mr = mrg_reg_msgs(id, memory, sizeof memory);
    mrg_remote readable = {0x10000, 100, 7, IBV_ACCESS_REMOTE_READ};
    mrg_remote writable = {0x10000, 100, 7, IBV_ACCESS_REMOTE_WRITE};
    mrg_remote invalid = {0x10000, 0, 7, IBV_ACCESS_REMOTE_READ};
    cr_expect_eq(mrg_post_read_from(id, NULL, memory, 100, mr, IBV_SEND_SIGNALED, &readable, 0), 0);
    cr_expect_eq(mrg_post_read_from(id, NULL, memory, 1, mr, IBV_SEND_SIGNALED, &readable, 99), 0);
    cr_expect_eq(mrg_post_write_to(id, NULL, memory, 50, mr, IBV_SEND_SIGNALED, &writable, 50), 0);
    expect_refused(mrg_post_read_from(id, NULL, memory, 101, mr, 0, &readable, 0), ERANGE, "out-of-range");
    expect_refused(mrg_post_read_from(id, NULL, memory, 1, mr, 0, &readable, 100), ERANGE, "out-of-range");
    expect_refused(mrg_post_read_from(id, NULL, memory, 2, mr, 0, &readable, UINT64_MAX), ERANGE, "out-of-range");
    expect_refused(mrg_post_read_from(id, NULL, memory, 1, mr, 0, &writable, 0), EACCES, "missing-access");
    expect_refused(mrg_post_write_to(id, NULL, memory, 1, mr, 0, &readable, 0), EACCES, "missing-access");
    expect_refused(mrg_post_read_from(id, NULL, memory, 1, mr, 0, &invalid, 0), EINVAL, "bad-argument");
    expect_refused(mrg_post_read_from(id, NULL, memory, 1, mr, 0, NULL, 0), EINVAL, "bad-argument");
    struct ibv_wc wc;
    for (int i = 0; i < 3; i++)
        cr_expect_eq(mrg_get_send_comp(id, &wc), 1);
    cr_expect_eq(mrg_dereg_mr(mr), 0);
    cr_expect_eq(mrg_destroy_ep(id), 0);
    expect_nothing_left();
}
