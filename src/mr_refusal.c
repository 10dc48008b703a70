#include "mr_refusal.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "report.h"

/* What /proc/self/maps says of the range that a registration asked for. */
struct mapping {
    bool holed;
    uint64_t hole; /* the first address of the range that is not mapped */
    bool read_only;
    bool shared_file;
};

static bool next_mapping(FILE *maps, uint64_t *begin, uint64_t *end, char perms[5], char path[8])
{
    char line[512];
    while (fgets(line, sizeof line, maps)) {
        path[0] = '\0';
        int fields = sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %7s", begin, end, perms, path);
        if (fields >= 3)
            return true;
    }
    return false;
}

static struct mapping look_at(uint64_t addr, uint64_t length)
{
    struct mapping found = {0};
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return found;
    uint64_t begin, end, next = addr;
    char perms[5], path[8];
    while (next - addr < length && next_mapping(maps, &begin, &end, perms, path)) {
        if (end <= next)
            continue;
        if (begin > next)
            break;
        found.read_only |= perms[1] != 'w';
        found.shared_file |= perms[3] == 's' && path[0] == '/';
        next = end;
    }
    fclose(maps);
    found.holed = next - addr < length;
    found.hole = next;
    return found;
}

static void explain_memory(char *buf, size_t size, size_t length)
{
    struct rlimit limit;
    uint64_t held = report_registered_bytes();
    if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY ||
        (length <= limit.rlim_cur && held <= limit.rlim_cur - length))
        snprintf(buf, size,
                 "the kernel or the device is short of memory or of MRs; %" PRIu64
                 " bytes are registered by this process",
                 held);
    else
        snprintf(buf, size,
                 "RLIMIT_MEMLOCK is %ju bytes and %" PRIu64
                 " are registered by this process: raise it (ulimit -l, LimitMEMLOCK=)",
                 (uintmax_t)limit.rlim_cur, held);
}

void mr_explain_refusal(char *buf, size_t size, int error, const void *addr, size_t length, int access)
{
    struct mapping mapping = look_at((uintptr_t)addr, length);
    if (mapping.holed)
        snprintf(buf, size, "nothing is mapped at 0x%" PRIx64, mapping.hole);
    else if (mapping.read_only && (access & IBV_ACCESS_LOCAL_WRITE))
        snprintf(buf, size, "the mapping is read-only: map it writable, or register it with mrg_reg_send");
    else if (mapping.shared_file && (access & IBV_ACCESS_LOCAL_WRITE))
        snprintf(buf, size, "it is a shared mapping of a file, which Linux 6.5 and later do not register for writing");
    else if (error == ENOMEM || error == EAGAIN || error == EPERM)
        explain_memory(buf, size, length);
    else
        snprintf(buf, size, "%s", strerror(error));
}
