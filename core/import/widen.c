#include "core/import/widen.h"

#include <stdint.h>
#include <string.h>

enum { BLOCK = 16 };

/* Exact: the exponent is rebiased by a multiplication, which also normalizes subnormals; infinities
 * and NaN (exponent 31) come out at 2^16 and above and get float32's largest exponent by hand. */
static inline float widen_f16_one(uint16_t h)
{
    const uint32_t magnitude = (uint32_t)(h & 0x7fffu) << 13;
    float f;
    uint32_t u;
    memcpy(&f, &magnitude, sizeof f);
    f *= 0x1p112f;
    memcpy(&u, &f, sizeof u);
    u |= (h & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0;
    u |= (uint32_t)(h & 0x8000u) << 16;
    memcpy(&f, &u, sizeof f);
    return f;
}

void lam_widen_f16(float *dst, const void *src, size_t n)
{
    const uint16_t *s = src;
    size_t i = 0;
    for (; n - i >= BLOCK; i += BLOCK)
        for (size_t k = 0; k < BLOCK; k++)
            dst[i + k] = widen_f16_one(s[i + k]);
    for (; i < n; i++)
        dst[i] = widen_f16_one(s[i]);
}

static inline float widen_bf16_one(uint16_t h)
{
    const uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

void lam_widen_bf16(float *dst, const void *src, size_t n)
{
    const uint16_t *s = src;
    size_t i = 0;
    for (; n - i >= BLOCK; i += BLOCK)
        for (size_t k = 0; k < BLOCK; k++)
            dst[i + k] = widen_bf16_one(s[i + k]);
    for (; i < n; i++)
        dst[i] = widen_bf16_one(s[i]);
}

void lam_narrow_f64(float *dst, const void *src, size_t n)
{
    const double *s = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)s[i];
}

bool lam_all_finite(const float *v, size_t n)
{
    uint32_t bad[BLOCK] = {0}, u[BLOCK];
    size_t i = 0;
    for (; n - i >= BLOCK; i += BLOCK) {
        memcpy(u, v + i, sizeof u);
        /* exponent 255 carries into the sign bit */
        for (size_t k = 0; k < BLOCK; k++)
            bad[k] |= (u[k] & 0x7fffffffu) + 0x00800000u;
    }
    memset(u, 0, sizeof u);
    memcpy(u, v + i, (n - i) * sizeof *v);
    uint32_t any = 0;
    for (size_t k = 0; k < BLOCK; k++)
        any |= bad[k] | ((u[k] & 0x7fffffffu) + 0x00800000u);
    return (any & 0x80000000u) == 0;
}
