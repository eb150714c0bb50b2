/* Times of the kernels at the shapes of all-MiniLM-L6-v2, one thread: medians of seven rounds. */
#ifndef TESTS_KERNELS_BENCH_H
#define TESTS_KERNELS_BENCH_H

#include "core/kernels/kernels.h"

void bench_kernels(const lam_kernels *k, const char *isa);

/* Runs multiply-adds from registers; returns how many operations that were. */
double peak_work_avx2(size_t repeats);
double peak_work_avx512(size_t repeats);

#endif
