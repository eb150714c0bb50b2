#include "core/kernels/isa.h"

void lam__kernels_init_avx2(lam_kernels *k)
{
    *k = LAM__TABLE(AVX2, avx2);
}
