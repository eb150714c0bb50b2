#include "core/stats/moments.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

static lam_moments direct(const double *x, size_t n)
{
    lam_moments m = lam_moments_empty();
    for (size_t i = 0; i < n; i++) {
        m.mean += x[i] / (double)n;
        m.min = fmin(m.min, x[i]);
        m.max = fmax(m.max, x[i]);
    }
    m.count = n;
    for (size_t i = 0; i < n; i++) {
        const double d = x[i] - m.mean;
        m.m2 += d * d;
        m.m3 += d * d * d;
        m.m4 += d * d * d * d;
    }
    return m;
}

static void expect_close(double got, double want, double scale, const char *what)
{
    cr_expect_lt(fabs(got - want), 1e-11 * scale, "%s: %.17g, expected %.17g", what, got, want);
}

Test(moments, merging_any_split_gives_the_moments_of_all)
{
    enum { N = 997 };
    double x[N];
    srandom(7);
    for (size_t i = 0; i < N; i++) {
        x[i] = 3.0 + (double)random() / 1e9;
        if (i % 13 == 0) x[i] *= x[i];
    }
    const lam_moments want = direct(x, N);
    static const size_t steps[] = {1, 2, 7, 100, 996, 997};
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        lam_moments all = lam_moments_empty();
        for (size_t i = 0; i < N; i += steps[s]) {
            const lam_moments part = direct(x + i, i + steps[s] < N ? steps[s] : N - i);
            lam_moments_merge(&all, &part);
        }
        cr_expect_eq(all.count, want.count);
        expect_close(all.mean, want.mean, fabs(want.mean), "mean");
        expect_close(all.m2, want.m2, want.m2, "m2");
        expect_close(all.m3, want.m3, fabs(want.m3), "m3");
        expect_close(all.m4, want.m4, want.m4, "m4");
        cr_expect_eq(all.min, want.min);
        cr_expect_eq(all.max, want.max);
    }
}

Test(moments, empty_parts_and_nonfinite_counts)
{
    const double x[] = {1, 2, 4};
    lam_moments a = lam_moments_empty(), b = direct(x, 3), none = lam_moments_empty();
    none.nonfinite = 5;
    lam_moments_merge(&a, &none);
    cr_expect_eq(a.count, 0);
    cr_expect_eq(a.nonfinite, 5);
    lam_moments_merge(&a, &b);
    cr_expect_eq(a.count, 3);
    cr_expect_eq(a.nonfinite, 5);
    lam_moments_merge(&a, &none);
    cr_expect_eq(a.nonfinite, 10);
    cr_expect_eq(a.m4, b.m4);
}

Test(moments, a_large_offset_does_not_swallow_the_variance)
{
    lam_moments all = lam_moments_empty();
    for (size_t i = 0; i < 1000; i++) {
        const double x = 1e9 + (double)(i % 2);
        const lam_moments one = direct(&x, 1);
        lam_moments_merge(&all, &one);
    }
    cr_expect_lt(fabs(all.m2 / 1000 - 0.25), 1e-9);
}
