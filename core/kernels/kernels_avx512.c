#include "core/kernels/kernels.h"

void lam__kernels_init_avx512(lam_kernels *k)
{
    k->isa = LAM_ISA_AVX512;
}
