/* Centred moments that can be merged in any grouping.
 *
 * Source of the merge: Chan, Golub and LeVeque (1979) for the second moment; Pebay (Sandia report
 * SAND2008-6212, 2008) for the third and fourth. All in double: one-pass sums of squares lose
 * everything at an offset of 1e4. */
#ifndef LAM_STATS_MOMENTS_H
#define LAM_STATS_MOMENTS_H

#include <stdint.h>

typedef struct lam_moments {
    uint64_t count;     /* finite values */
    uint64_t nonfinite; /* NaN and infinities */
    double mean;        /* 0 if count is 0 */
    double m2, m3, m4;  /* sums of (x - mean)^2, ^3, ^4 */
    double min, max;    /* +inf and -inf if count is 0 */
} lam_moments;

/* The moments of nothing. */
static inline lam_moments lam_moments_empty(void)
{
    return (lam_moments){.min = __builtin_inf(), .max = -__builtin_inf()};
}

/* a = a and b together. Commutes up to rounding; callers merge in a fixed order. */
static inline void lam_moments_merge(lam_moments *a, const lam_moments *b)
{
    a->nonfinite += b->nonfinite;
    if (b->count == 0) return;
    if (a->count == 0) {
        uint64_t nonfinite = a->nonfinite;
        *a = *b;
        a->nonfinite = nonfinite;
        return;
    }
    const double na = (double)a->count, nb = (double)b->count, n = na + nb;
    const double d = b->mean - a->mean, dn = d / n, dn2 = dn * dn;
    const double m2a = a->m2, m3a = a->m3;
    a->m4 += b->m4 + d * dn * dn2 * na * nb * (na * na - na * nb + nb * nb) +
             6.0 * dn2 * (na * na * b->m2 + nb * nb * m2a) + 4.0 * dn * (na * b->m3 - nb * m3a);
    a->m3 += b->m3 + d * dn2 * na * nb * (na - nb) + 3.0 * dn * (na * b->m2 - nb * m2a);
    a->m2 += b->m2 + d * dn * na * nb;
    a->mean += dn * nb;
    a->count += b->count;
    if (b->min < a->min) a->min = b->min;
    if (b->max > a->max) a->max = b->max;
}

#endif
