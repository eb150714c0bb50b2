/* Times of the kernels at the shapes of all-MiniLM-L6-v2, one thread: medians of seven rounds. */
#ifndef TESTS_KERNELS_BENCH_H
#define TESTS_KERNELS_BENCH_H

#include "core/kernels/kernels.h"

void bench_kernels(const lam_kernels *k, const char *isa);

#endif
