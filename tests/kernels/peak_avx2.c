#include "tests/kernels/bench.h"

#if defined(__x86_64__)
#include "core/kernels/vec_avx2.inc"

#define PEAK_NAME peak_work_avx2
#include "tests/kernels/peak.inc"
#endif
