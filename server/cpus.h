/* How many CPUs this process may use. */
#ifndef SERVER_CPUS_H
#define SERVER_CPUS_H

#include <stddef.h>

/* CPUs in the affinity mask, cut to the cgroup's quota rounded up; at least 1. */
size_t srv_cpus_available(void);

/* Bytes of memory this process may use: what the machine has, cut to the cgroup's limit. */
size_t srv_memory_available(void);

/* The whole CPUs of a cgroup v2 `cpu.max` text ("200000 100000", "max 100000"), rounded up; 0: no
 * limit or not such a text. */
size_t srv_cpus_of_quota(const char *text);

/* The same for v1's two files; quota "-1" means none. */
size_t srv_cpus_of_quota_v1(const char *quota, const char *period);

#endif
