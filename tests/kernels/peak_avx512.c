#include "tests/kernels/bench.h"

#if defined(__x86_64__)
#include "core/kernels/vec_avx512.inc"

#define PEAK_NAME peak_work_avx512
#include "tests/kernels/peak.inc"
#endif
