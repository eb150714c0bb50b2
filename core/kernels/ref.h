/* What the reference kernels share with others.
 *
 * They are plain C that any compiler for any machine turns into something usable: the floor on
 * which faster tables stand, and in the tests the second opinion beside the double oracle. Sums run
 * in float32 in the order the code shows, a multiply and then an add. */
#ifndef LAM_KERNELS_REF_H
#define LAM_KERNELS_REF_H

#include <math.h>

#include "core/kernels/isa.h"

/* One value; libm's erf, exp and tanh. */
float lam__activate_one_ref(lam_activation act, float x);

/* What all moments kernels do with a row that has non-finite values, or whose numbers leave the
 * range in which float32 powers are exact enough: two passes in double. */
lam_moments lam__moments_row_exact(const float *x, size_t width);

/* In double: what all products kernels do with rows that leave the range of float32 sums. */
lam_row_products lam__products_row_exact(const float *x, const float *y, size_t width);

/* What all tail_counts kernels do with a row that has non-finite values: added to *out. */
void lam__tail_counts_row_exact(const float *x, size_t width, float low, float high,
                                lam_tail_counts *out);

/* d(v) of a row or group. A NaN stays: comparisons with it are false, so it must be what is kept.
 */
static inline float lam__denominator(const lam_row_norm *n, float v)
{
    switch (n->eps_mode) {
    case LAM_EPS_VARIANCE:
        return sqrtf(v + n->eps);
    case LAM_EPS_STD:
        return sqrtf(v) + n->eps;
    case LAM_EPS_FLOOR_VARIANCE:
        return sqrtf(v < n->eps ? n->eps : v);
    case LAM_EPS_FLOOR_NORM:
        return v < n->eps ? n->eps : v;
    case LAM_EPS_MODE_COUNT:
        break;
    }
    return NAN;
}

/* 1 / d from the sum of squares, centred or not. */
static inline float lam__row_scale(const lam_row_norm *n, float squares)
{
    const bool length = n->eps_mode == LAM_EPS_FLOOR_NORM;
    const float v = length ? sqrtf(squares) : squares / (float)(n->measured - n->ddof);
    return 1.0f / lam__denominator(n, v);
}

/* Sums of (x - first) and of its square over a column -> mean and the sum of squares around it.
 * `first` is one of the values, so that (first - mean)^2 is at most the sum wanted: what cancels is
 * less than `rows` times what stays. */
static inline void lam__close_moments(size_t rows, bool around_zero, double first, double sum,
                                      double *mean, double *squares)
{
    *mean = around_zero ? 0.0 : first + sum / (double)rows;
    if (around_zero) return;
    *squares -= sum * (sum / (double)rows);
    if (*squares < 0.0) *squares = 0.0; /* a NaN stays */
}

#endif
