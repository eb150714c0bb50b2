#include "core/kernels/isa.h"

void lam__kernels_init_ref(lam_kernels *k)
{
    *k = LAM__TABLE(REF, ref);
}
