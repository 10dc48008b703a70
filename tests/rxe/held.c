#include "held.h"

#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * The kernel's lists of objects, as `rdma resource show` prints them. That tool takes longer to start in the guest than
 * most tests take, so the kernel is asked here.
 */
static const struct {
    uint16_t command;
    const char *name;
} lists[] = {
    {RDMA_NLDEV_CMD_RES_MR_GET, "MR"}, {RDMA_NLDEV_CMD_RES_QP_GET, "QP"},       {RDMA_NLDEV_CMD_RES_CQ_GET, "CQ"},
    {RDMA_NLDEV_CMD_RES_PD_GET, "PD"}, {RDMA_NLDEV_CMD_RES_CM_ID_GET, "cm id"}, {RDMA_NLDEV_CMD_RES_SRQ_GET, "SRQ"},
};
#define LISTS (sizeof lists / sizeof *lists)

/* What is found in the kernel's answers. */
struct found {
    uint32_t devices[8];
    int device_count;
    int entries; /* of any process, or the kernel's own */
    int mine;
};

static uint32_t value_of(const struct nlattr *attr)
{
    uint32_t value;
    memcpy(&value, attr + 1, sizeof value);
    return value;
}

static bool is_entry(uint16_t type)
{
    return type == RDMA_NLDEV_ATTR_RES_MR_ENTRY || type == RDMA_NLDEV_ATTR_RES_QP_ENTRY ||
           type == RDMA_NLDEV_ATTR_RES_CQ_ENTRY || type == RDMA_NLDEV_ATTR_RES_PD_ENTRY ||
           type == RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY || type == RDMA_NLDEV_ATTR_RES_SRQ_ENTRY;
}

static bool is_list(uint16_t type)
{
    return type == RDMA_NLDEV_ATTR_RES_MR || type == RDMA_NLDEV_ATTR_RES_QP || type == RDMA_NLDEV_ATTR_RES_CQ ||
           type == RDMA_NLDEV_ATTR_RES_PD || type == RDMA_NLDEV_ATTR_RES_CM_ID || type == RDMA_NLDEV_ATTR_RES_SRQ;
}

static void look_at_attributes(const char *at, size_t size, struct found *found)
{
    while (size >= sizeof(struct nlattr)) {
        const struct nlattr *attr = (const void *)at;
        uint16_t type = (uint16_t)(attr->nla_type & (unsigned int)NLA_TYPE_MASK);
        size_t length = NLA_ALIGN(attr->nla_len);
        if (attr->nla_len < sizeof *attr)
            return;
        found->entries += is_entry(type);
        if (is_list(type) || is_entry(type))
            look_at_attributes((const char *)(attr + 1), attr->nla_len - sizeof *attr, found);
        else if (type == RDMA_NLDEV_ATTR_RES_PID)
            found->mine += value_of(attr) == (uint32_t)getpid();
        else if (type == RDMA_NLDEV_ATTR_DEV_INDEX && found->device_count < 8)
            found->devices[found->device_count++] = value_of(attr);
        at += length < size ? length : size;
        size -= length < size ? length : size;
    }
}

/* One datagram of an answer; false at the end. */
static bool look_at_messages(const char *bytes, size_t size, struct found *found)
{
    const struct nlmsghdr *message = (const void *)bytes;
    for (; NLMSG_OK(message, size); message = NLMSG_NEXT(message, size)) {
        if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR)
            return false;
        look_at_attributes((const char *)NLMSG_DATA(message), NLMSG_PAYLOAD(message, 0), found);
    }
    return true;
}

/* A list of one device, or the list of the devices. -1 and errno. */
static int ask(int kernel, uint16_t command, const uint32_t *device, struct found *found)
{
    static _Alignas(NLMSG_ALIGNTO) char answer[65536];
    struct {
        struct nlmsghdr header;
        struct nlattr attr;
        uint32_t device;
    } question = {
        .header = {.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .attr = {sizeof question.attr + sizeof question.device, RDMA_NLDEV_ATTR_DEV_INDEX},
        .device = device ? *device : 0,
    };
    question.header.nlmsg_len = device ? sizeof question : sizeof question.header;
    ssize_t got = send(kernel, &question, question.header.nlmsg_len, 0);
    if (got < 0)
        return -1;
    do
        got = recv(kernel, answer, sizeof answer, 0);
    while (got > 0 && look_at_messages(answer, (size_t)got, found));
    return got <= 0 ? -1 : 0;
}

static int add_list(int kernel, size_t list, const struct found *devices, struct found *all, char *held, size_t size)
{
    struct found found = {0};
    for (int d = 0; d < devices->device_count; d++)
        if (ask(kernel, lists[list].command, &devices->devices[d], &found))
            return -1;
    all->entries += found.entries;
    size_t used = strlen(held);
    if (found.mine)
        snprintf(held + used, size - used, "%s%d %s%s", used ? ", " : "", found.mine, lists[list].name,
                 found.mine > 1 ? "s" : "");
    return 0;
}

static int look(int kernel, char *held, size_t size)
{
    struct found devices = {0}, all = {0};
    if (ask(kernel, RDMA_NLDEV_CMD_GET, NULL, &devices))
        return -1;
    for (size_t i = 0; i < LISTS; i++)
        if (add_list(kernel, i, &devices, &all, held, size))
            return -1;
    if (!all.entries)
        snprintf(held, size, "the kernel lists nothing, not even its own QPs");
    return 0;
}

const char *held_by_me(char *held, size_t size)
{
    held[0] = '\0';
    int kernel = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
    if (kernel < 0 || look(kernel, held, size))
        snprintf(held, size, "the kernel does not answer: %s", strerror(errno));
    if (kernel >= 0)
        close(kernel);
    return held;
}
