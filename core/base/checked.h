/* Size arithmetic that cannot wrap. Loaders and plans use nothing else. */
#ifndef LAM_BASE_CHECKED_H
#define LAM_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool lam_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool lam_add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* Rounds up to a multiple of `unit`, a power of two. */
static inline bool lam_round_up_size(size_t n, size_t unit, size_t *out)
{
    if (!lam_add_size(n, unit - 1, out)) return false;
    *out &= ~(unit - 1);
    return true;
}

#endif
