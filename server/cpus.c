#include "server/cpus.h"

#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "server/guard.h"

/* Reads a small file as a NUL-terminated text; "" if it cannot. */
static void read_text(const char *path, char *out, size_t out_bytes)
{
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, out, out_bytes - 1);
        close(fd);
    }
    out[n > 0 ? n : 0] = '\0';
}

/* The number that text starts with, up to a space or line end; false if there is none. */
static bool leading_number(const char *text, uint64_t *out)
{
    bool over;
    return srv_parse_decimal((srv_text){text, strcspn(text, " \n")}, out, &over) && !over;
}

static size_t quota_cpus(uint64_t quota, uint64_t period)
{
    if (quota == 0 || period == 0) return 0;
    return (size_t)(quota / period + (quota % period != 0));
}

size_t srv_cpus_of_quota(const char *text)
{
    const char *space = strchr(text, ' ');
    uint64_t quota, period;
    if (!space || !leading_number(text, &quota) || !leading_number(space + 1, &period)) return 0;
    return quota_cpus(quota, period);
}

size_t srv_cpus_of_quota_v1(const char *quota_text, const char *period_text)
{
    uint64_t quota, period;
    if (!leading_number(quota_text, &quota) || !leading_number(period_text, &period)) return 0;
    return quota_cpus(quota, period);
}

static size_t cgroup_cpus(void)
{
    char quota[64], period[64];
    read_text("/sys/fs/cgroup/cpu.max", quota, sizeof quota);
    size_t n = srv_cpus_of_quota(quota);
    if (n > 0) return n;
    read_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof quota);
    read_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period);
    return srv_cpus_of_quota_v1(quota, period);
}

size_t srv_cpus_available(void)
{
    cpu_set_t set;
    size_t n = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        n = (size_t)CPU_COUNT(&set);
    } else { /* more CPUs than the set holds */
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        if (online > 0) n = (size_t)online;
    }
    size_t quota = cgroup_cpus();
    if (quota > 0 && quota < n) n = quota;
    return n > 0 ? n : 1;
}

size_t srv_memory_available(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    size_t bytes = pages > 0 && page_bytes > 0 ? (size_t)pages * (size_t)page_bytes : SIZE_MAX;
    static const char *const files[] = {"/sys/fs/cgroup/memory.max",
                                        "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char text[64];
        uint64_t limit;
        read_text(files[i], text, sizeof text);
        if (leading_number(text, &limit) && limit > 0 && limit < bytes) bytes = (size_t)limit;
    }
    return bytes;
}
