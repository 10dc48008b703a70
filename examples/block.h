/*
 * What blockd and blockcat say to each other. The client says READY; the server answers with an offer: how long the
 * file is, where in it the window lies that it offers, and a remote descriptor of the window's memory, for the client
 * to READ. When the client has read it all it says READY again. An offer at the end of the file has no window.
 */
#ifndef BLOCK_H
#define BLOCK_H

#include <fcntl.h>
#include <mrguard/mrguard.h>
#include <unistd.h>

#define BLOCK_PORT "7174"
#define BLOCK_READY_SIZE 1
#define BLOCK_OFFER_SIZE (16 + MRG_REMOTE_SIZE)

struct offer {
    uint64_t file_size;
    uint64_t offset;
    mrg_remote window; /* length 0: none, that was all */
};

/* Descriptors 0 to 2 must not become something else, such as a channel to the kernel, where they came closed. */
static inline void open_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2);
    if (fd > 2)
        close(fd);
}

static inline void put_u64(unsigned char *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

static inline uint64_t get_u64(const unsigned char *at)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

/* Returns the bytes of the message. */
static inline size_t offer_pack(const struct offer *offer, unsigned char *buf)
{
    put_u64(buf, offer->file_size);
    put_u64(buf + 8, offer->offset);
    if (!offer->window.length)
        return 16;
    return mrg_remote_pack(&offer->window, buf + 16, MRG_REMOTE_SIZE) < 0 ? 0 : BLOCK_OFFER_SIZE;
}

/* The bytes come from a peer: -1 if they are no offer that makes sense. */
static inline int offer_unpack(struct offer *ret, const unsigned char *buf, size_t size)
{
    if (size != 16 && size != BLOCK_OFFER_SIZE)
        return -1;
    struct offer offer = {.file_size = get_u64(buf), .offset = get_u64(buf + 8)};
    if (size == BLOCK_OFFER_SIZE && mrg_remote_unpack(&offer.window, buf + 16, MRG_REMOTE_SIZE))
        return -1;
    if (offer.offset > offer.file_size || offer.window.length > offer.file_size - offer.offset)
        return -1;
    *ret = offer;
    return 0;
}

#endif
