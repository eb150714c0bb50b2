#include <math.h>

#include "core/kernels/ref.h"

/* In this order: vectors, what is made of them, the kernels. */
#include "core/kernels/vec_avx512.inc"

#include "core/kernels/vec_math.inc"

#include "core/kernels/norms.inc"
