#include "core/kernels/ref.h"

void lam__kernels_init_ref(lam_kernels *k)
{
    *k = (lam_kernels){
        .isa = LAM_ISA_REF,
        .linear = lam__linear_ref,
        .attention_scratch = lam__attention_scratch_ref,
        .attention = lam__attention_ref,
        .layer_norm = lam__layer_norm_ref,
        .embed = lam__embed_ref,
        .add = lam__add_ref,
        .activate = lam__activate_ref,
        .moments = lam__moments_ref,
    };
}
