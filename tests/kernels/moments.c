/* Moments against sums in long double. */
#include "tests/kernels/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct exact_moments {
    double n, bad, mean, variance, kurtosis, rms, min, max;
} exact_moments;

static exact_moments moments_of(const matrix *x)
{
    long double sum = 0, m2 = 0, m4 = 0, squares = 0;
    exact_moments e = {.min = HUGE_VAL, .max = -HUGE_VAL};
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < x->rows * x->width; i++) {
            const double v = (double)at(x, i / x->width, i % x->width);
            if (!isfinite(v)) {
                e.bad += pass;
                continue;
            }
            const long double d = (long double)v - (long double)e.mean;
            if (pass == 0) sum += (long double)v, squares += (long double)v * (long double)v, e.n++;
            if (pass == 1) m2 += d * d, m4 += d * d * d * d;
            e.min = v < e.min ? v : e.min, e.max = v > e.max ? v : e.max;
        }
        e.mean = e.n > 0 ? (double)(sum / (long double)e.n) : 0;
    }
    e.variance = (double)m2 / e.n, e.rms = sqrt((double)squares / e.n);
    e.kurtosis = m2 > 0 ? (double)((long double)e.n * m4 / (m2 * m2)) : 0;
    return e;
}

/* Mean to 2e-6 of the spread (and a float's last place of the mean), variance and kurtosis to 2e-6,
 * minimum, maximum and counts exactly, squares of a channel to 2e-6. */
static void check_moments_of(const lam_kernels *k, const matrix *x, const char *what)
{
    lam_moments m;
    double *squares = take((x->width + 8) * sizeof *squares);
    for (size_t c = 0; c < x->width + 8; c++)
        squares[c] = 42.0;
    k->moments(x->data, x->stride, x->rows, x->width, &m, squares);
    const exact_moments e = moments_of(x);
    bool ok = (double)m.count == e.n && (double)m.nonfinite == e.bad;
    double worst = 0.0;
    if (e.n > 0) {
        ok = ok && m.min == e.min && m.max == e.max;
        worst = fabs(m.mean - e.mean) / (2e-6 * sqrt(e.variance) + 1e-12 * fabs(e.mean) + 1e-300);
        worst = larger(worst, fabs(m.m2 / e.n - e.variance) /
                                  (2e-6 * e.variance + 1e-14 * e.mean * e.mean + 1e-300));
        if (e.variance > 1e-10 * e.mean * e.mean)
            worst =
                larger(worst, fabs(e.n * m.m4 / (m.m2 * m.m2) - e.kurtosis) / (2e-6 * e.kurtosis));
    }
    for (size_t c = 0; c < x->width; c++) {
        double want = 0.0;
        for (size_t r = 0; r < x->rows; r++)
            if (isfinite(at(x, r, c))) want += (double)at(x, r, c) * (double)at(x, r, c);
        worst =
            larger(worst, fabs(squares[c] - want) / (2e-6 * want + 1e-37 * (double)(x->rows + 1)));
    }
    for (size_t c = x->width; c < x->width + 8; c++)
        ok = ok && squares[c] == 42.0;
    report(ok && worst <= 1.0, "moments", what, x->rows, x->width, 0, worst);
    lam_moments without;
    k->moments(x->data, x->stride, x->rows, x->width, &without, NULL);
    report(memcmp(&m, &without, sizeof m) == 0, "moments", "without squares", x->rows, x->width, 0,
           0);
    free(squares);
}

void check_moments(const lam_kernels *k)
{
    static const size_t widths[] = {1, 2, 7, 8, 9, 16, 17, 33, 100, 384, 1536};
    static const size_t rows[] = {0, 1, 15, 16, 17, 40};
    static const struct {
        float offset, spread;
        const char *what;
    } data[] = {{0.1f, 1.0f, "ordinary"},
                {1e4f, 1.0f, "offset 1e4"},
                {1e4f, 0.0f, "equal"},
                {0.0f, 1e-12f, "tiny"},
                {0.0f, 1e-10f, "fourth powers are denormal"},
                {0.0f, 1e-39f, "denormal"},
                {0.0f, 1e30f, "huge"},
                {-3.0f, 0.01f, "small spread"}};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            for (size_t d = 0; d < sizeof data / sizeof *data; d++) {
                matrix x = make_random(rows[r], widths[w], data[d].offset, data[d].spread);
                check_moments_of(k, &x, data[d].what);
                for (size_t i = 0; i < x.rows; i += 5) {
                    x.data[i * x.stride + i % x.width] = i % 2 ? NAN : -INFINITY;
                }
                check_moments_of(k, &x, "not finite");
                drop(&x);
            }
}
