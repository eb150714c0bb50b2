#include "core/kernels/isa.h"

void lam__kernels_init_avx512(lam_kernels *k)
{
    *k = LAM__TABLE(AVX512, avx512);
}
