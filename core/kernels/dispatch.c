/* Which table runs: the reference below, each instruction set up to the highest allowed above it.
 */
#include "core/kernels/kernels.h"

void lam__kernels_init(lam_kernels *k, lam_isa highest)
{
    lam__kernels_init_ref(k);
#if defined(__x86_64__)
    if (highest >= LAM_ISA_AVX2) lam__kernels_init_avx2(k);
    if (highest >= LAM_ISA_AVX512) lam__kernels_init_avx512(k);
#else
    (void)highest;
#endif
}
