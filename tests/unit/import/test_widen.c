#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "core/import/widen.h"

static float f16_by_definition(uint16_t h)
{
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const double sign = h & 0x8000 ? -1.0 : 1.0;
    if (exponent == 31) return fraction ? NAN : (float)(sign * (double)INFINITY);
    if (exponent == 0) return (float)(sign * ldexp(fraction, -24));
    return (float)(sign * ldexp(1024 + fraction, exponent - 25));
}

Test(widen, f16_all_values)
{
    static uint16_t h[65536];
    static float f[65536];
    for (size_t i = 0; i < 65536; i++)
        h[i] = (uint16_t)i;
    lam_widen_f16(f, h, 65535); /* odd: the tail too */
    lam_widen_f16(f + 65535, h + 65535, 1);
    for (size_t i = 0; i < 65536; i++) {
        const float want = f16_by_definition(h[i]);
        const bool same = isnan(want) ? isnan(f[i]) : memcmp(&want, &f[i], sizeof want) == 0;
        cr_assert(same, "%zu: %g, not %g", i, (double)f[i], (double)want);
    }
}

Test(widen, bf16_and_f64)
{
    static const uint16_t b[] = {0x3f80, 0xc000, 0x0001, 0x7f80, 0x8000};
    static const float want[] = {1.0f, -2.0f, 0x1p-133f, INFINITY, -0.0f};
    static const double d[] = {1.0, 1.0 + 0x1p-25, 1e39, -1e-50};
    static const float narrowed[] = {1.0f, 1.0f, INFINITY, -0.0f};
    float f[5];
    lam_widen_bf16(f, b, 5);
    cr_expect_arr_eq(f, want, sizeof want);
    lam_narrow_f64(f, d, 4);
    cr_expect_arr_eq(f, narrowed, sizeof narrowed);
}

Test(widen, finite_at_every_place)
{
    float v[40];
    for (size_t n = 0; n <= 40; n++) {
        for (size_t i = 0; i < 40; i++)
            v[i] = i % 2 ? 3.4e38f : -1e-45f;
        cr_expect(lam_all_finite(v, n));
        for (size_t bad = 0; bad < n; bad++) {
            const float kept = v[bad];
            v[bad] = bad % 3 == 0 ? NAN : bad % 3 == 1 ? INFINITY : -INFINITY;
            cr_expect(!lam_all_finite(v, n), "%zu of %zu", bad, n);
            v[bad] = kept;
        }
    }
}
