/* Scheduling of the loop thread. */
#ifndef SERVER_LATENCY_H
#define SERVER_LATENCY_H

/* Asks the kernel for short turns of the calling thread: it runs sooner after it wakes, without a
 * larger share of the CPU. Probes are answered in time while workers use all cores. Older kernels
 * ignore it. */
void srv_latency_prefer(void);

#endif
