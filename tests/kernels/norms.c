/* Norms over rows, groups and columns, channel by channel and point by point, against their
 * formulas in double. */
#include <math.h>
#include <stdlib.h>

#include "tests/kernels/support.h"

static const size_t widths[] = {1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 100, 384, 1536};

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- Rows and groups ---- */

static double denominator(const lam_row_norm *n, double v)
{
    const double eps = (double)n->eps;
    switch (n->eps_mode) {
    case LAM_EPS_VARIANCE:
        return sqrt(v + eps);
    case LAM_EPS_STD:
        return sqrt(v) + eps;
    case LAM_EPS_FLOOR_VARIANCE:
        return sqrt(v > eps ? v : eps);
    case LAM_EPS_FLOOR_NORM:
        return v > eps ? v : eps;
    case LAM_EPS_MODE_COUNT:
        break;
    }
    return 0.0;
}

/* Mean and denominator of the group that begins at channel `first`. */
static void exact_group(const lam_row_norm *n, const matrix *x, size_t r, size_t first,
                        double *mean, double *d)
{
    double sum = 0.0;
    *mean = 0.0;
    for (size_t i = 0; i < n->measured && n->centre; i++)
        *mean += (double)at(x, r, first + i) / (double)n->measured;
    for (size_t i = 0; i < n->measured; i++)
        sum += pow((double)at(x, r, first + i) - *mean, 2.0);
    const bool length = n->eps_mode == LAM_EPS_FLOOR_NORM;
    *d = denominator(n, length ? sqrt(sum) : sum / (double)(n->measured - n->ddof));
}

/* 1e-6 of z's own size, and of the last place of a mean at an offset; ada has slope below
 * c (1 + 2 k |z|). */
static double row_excess(const lam_row_norm *n, const matrix *x, const matrix *y, size_t r,
                         size_t c)
{
    const size_t width = n->width / n->groups;
    const double g = (double)n->gain[c], b = (double)n->bias[c];
    double mean, d;
    exact_group(n, x, r, c / width * width, &mean, &d);
    double z = ((double)at(x, r, c) - mean) / d, slope = 1.0;
    double bound = 1e-6 * (1.0 + fabs(z)) + 1e-13 * fabs(mean) / d;
    if (n->ada) {
        slope = fabs((double)n->c) * (1.0 + 2.0 * fabs((double)n->k * z));
        z = (double)n->c * (1.0 - (double)n->k * z) * z;
        bound += 2e-7 * (1.0 + fabs(z)) / slope;
    }
    const double want = z * g + b;
    return excess(at(y, r, c), want, slope * bound * fabs(g) + 2 * EPS * fabs(want) + 1e-7);
}

static void run_rows(const lam_kernels *k, const lam_row_norm *n, const matrix *x, size_t first,
                     size_t rows, matrix *y)
{
    k->row_norm(n, x->data + first * x->stride, x->stride, rows, y->data, y->stride);
}

static void check_row_norm(const lam_kernels *k, lam_row_norm n, size_t rows, float offset,
                           float spread)
{
    const size_t width = n.width;
    matrix x = make_random(rows, width, offset, spread), y = make(rows, width),
           one = make(1, width);
    matrix gain = make_random(1, width, 1, 0.5f), bias = make_random(1, width, 0, 1);
    n.gain = gain.data, n.bias = bias.data;
    run_rows(k, &n, &x, 0, rows, &y);
    double worst = 0.0;
    bool alone = true;
    for (size_t i = 0; i < rows * width; i++)
        worst = larger(worst, row_excess(&n, &x, &y, i / width, i % width));
    for (size_t r = 0; r < rows; r++) {
        run_rows(k, &n, &x, r, 1, &one);
        alone = alone && same_rows(&one, 0, &y, r);
    }
    report(worst <= 1.0 && guards_hold(&y), "row_norm", "against double", rows, width,
           (size_t)offset, worst);
    report(alone, "row_norm", "bits of rows alone", rows, width, n.groups, 0);
    run_rows(k, &n, &x, 0, rows, &x);
    report(same_matrix(&x, &y), "row_norm", "in place", rows, width, n.groups, 0);
    drop(&x), drop(&y), drop(&one), drop(&gain), drop(&bias);
}

/* A value that is not finite spoils its group, and no other. */
static void check_row_limits(const lam_kernels *k)
{
    for (int kind = 0; kind < 4; kind++) {
        matrix x = make_random(3, 40, 0, 1), y = make(3, 40), gain = make_random(2, 40, 1, 0);
        const lam_row_norm n = {.gain = gain.data,
                                .bias = gain.data + gain.stride,
                                .width = 40,
                                .groups = 4,
                                .measured = 10,
                                .centre = kind < 2,
                                .eps_mode = kind < 2 ? LAM_EPS_STD : LAM_EPS_FLOOR_VARIANCE,
                                .eps = 1e-5f};
        x.data[x.stride + 19] = kind % 2 ? INFINITY : NAN;
        run_rows(k, &n, &x, 0, 3, &y);
        bool ok = true;
        for (size_t i = 0; i < 120; i++) {
            const bool group = i / 40 == 1 && i % 40 / 10 == 1;
            /* A mean square of infinity makes the others zero and that value NaN. */
            const bool spoilt = group && (kind < 3 || i % 40 == 19);
            ok = ok && (isfinite(at(&y, i / 40, i % 40)) != 0) == !spoilt;
        }
        report(ok, "row_norm", "not finite", 3, 40, (size_t)kind, 0);
        drop(&x), drop(&y), drop(&gain);
    }
}

static void check_rows(const lam_kernels *k)
{
    static const lam_row_norm forms[] = {
        {.centre = true, .eps_mode = LAM_EPS_VARIANCE, .eps = 1e-5f, .ddof = 1},
        {.centre = true, .eps_mode = LAM_EPS_STD, .eps = 1e-5f, .ddof = 1},
        {.centre = true, .eps_mode = LAM_EPS_FLOOR_VARIANCE, .eps = 0.4f},
        {.centre = true, .eps_mode = LAM_EPS_VARIANCE, .eps = 1e12f},
        {.centre = true, .eps_mode = LAM_EPS_STD, .eps = 1e-5f, .ada = true, .c = 2, .k = 0.1f},
        {.centre = false, .eps_mode = LAM_EPS_VARIANCE, .eps = 1e-6f},
        {.centre = false, .eps_mode = LAM_EPS_STD, .eps = 1e-8f},
        {.centre = false, .eps_mode = LAM_EPS_FLOOR_NORM, .eps = 1e-5f},
        {.centre = false, .eps_mode = LAM_EPS_FLOOR_NORM, .eps = 100.0f},
    };
    static const float offsets[] = {0.3f, 1e4f};
    for (size_t f = 0; f < COUNT(forms); f++) {
        for (size_t w = 1; w < COUNT(widths); w++) {
            lam_row_norm n = forms[f];
            n.width = n.measured = widths[w];
            n.groups = 1;
            for (size_t o = 0; o < 2; o++)
                check_row_norm(k, n, 3, offsets[o], 1.0f);
            if (!n.centre && widths[w] > 2) n.measured = widths[w] / 3; /* prms */
            check_row_norm(k, n, 2, 0.0f, 1.0f);
            for (size_t g = 2; g <= 12; g++) {
                n.groups = g;
                n.measured = widths[w] / g;
                if (widths[w] % g == 0 && n.measured > 1) check_row_norm(k, n, 2, 0.2f, 1.0f);
            }
        }
    }
    lam_row_norm none = forms[0];
    none.width = none.measured = 32;
    none.groups = 1;
    check_row_norm(k, none, 0, 0, 1);
    check_row_limits(k);
}

/* ---- Channel by channel ---- */

/* Roundings of the scaled input, the difference, and the two multiply-adds. */
static double affine_excess(const lam_channel_affine *a, const matrix *x, const matrix *y, size_t r,
                            size_t c)
{
    double by = 1.0;
    if (a->groups) {
        const size_t width = a->width / a->groups, first = c / width * width;
        double square = 0.0;
        for (size_t i = first; i < first + width; i++)
            square += pow((double)at(x, r, i), 2.0) / (double)width;
        by = 1.0 / sqrt(square + (double)a->group_eps);
    }
    const double v = (double)at(x, r, c), scaled = v * by, m = (double)a->mean[c];
    const double s = (double)a->scale[c], d = (scaled - m) * s;
    const double want = d + (double)a->bias[c] + (double)a->slope * v;
    const double rounded = a->groups ? 8e-7 * fabs(scaled * s) : 0.0;
    const double sizes = fabs(d) + fabs((double)a->bias[c]) + fabs((double)a->slope * v);
    return excess(at(y, r, c), want, rounded + 4 * EPS * sizes + 1e-37);
}

static void run_affine(const lam_kernels *k, const lam_channel_affine *a, const matrix *x,
                       size_t first, size_t rows, matrix *y)
{
    k->channel_affine(a, x->data + first * x->stride, x->stride, rows, y->data, y->stride);
}

static void check_affine_case(const lam_kernels *k, size_t rows, size_t width, size_t groups,
                              float slope, float offset)
{
    matrix x = make_random(rows, width, offset, 1), y = make(rows, width), one = make(1, width);
    matrix mean = make_random(1, width, groups ? 0 : offset, 0.5f),
           scale = make_random(1, width, 0, 2), bias = make_random(1, width, 0, 1);
    const lam_channel_affine a = {.mean = mean.data,
                                  .scale = scale.data,
                                  .bias = bias.data,
                                  .width = width,
                                  .slope = slope,
                                  .groups = groups,
                                  .group_eps = 1e-5f};
    run_affine(k, &a, &x, 0, rows, &y);
    double worst = 0.0;
    bool alone = true;
    for (size_t i = 0; i < rows * width; i++)
        worst = larger(worst, affine_excess(&a, &x, &y, i / width, i % width));
    for (size_t r = 0; r < rows; r++) {
        run_affine(k, &a, &x, r, 1, &one);
        alone = alone && same_rows(&one, 0, &y, r);
    }
    report(worst <= 1.0 && guards_hold(&y), "channel_affine", "against double", rows, width, groups,
           worst);
    report(alone, "channel_affine", "bits of rows alone", rows, width, groups, 0);
    run_affine(k, &a, &x, 0, rows, &x);
    report(same_matrix(&x, &y), "channel_affine", "in place", rows, width, groups, 0);
    if (rows > 1) {
        x.data[x.stride + width - 1] = NAN;
        run_affine(k, &a, &x, 0, rows, &y);
        bool ok = isnan(at(&y, 1, width - 1));
        for (size_t r = 0; r < rows; r++)
            ok = ok && (r == 1 || isfinite(at(&y, r, width - 1)));
        report(ok, "channel_affine", "NaN stays in its row", rows, width, groups, 0);
    }
    drop(&x), drop(&y), drop(&one), drop(&mean), drop(&scale), drop(&bias);
}

static void check_affine(const lam_kernels *k)
{
    static const size_t rows[] = {0, 1, 2, 3, 4, 5, 9};
    for (size_t w = 0; w < COUNT(widths); w++) {
        for (size_t r = 0; r < COUNT(rows); r++)
            check_affine_case(k, rows[r], widths[w], 0, r % 2 ? 0.5f : 0.0f, r % 3 ? 1e4f : 0.1f);
        for (size_t g = 1; g <= 12; g++)
            if (widths[w] % g == 0) check_affine_case(k, 3, widths[w], g, 0.0f, 0.3f);
    }
}

/* ---- Point by point ---- */

/* f to 2 ulp, and what a rounded argument makes of it: |u| f'(u) of 2 eps, at most 0.85 eps. */
static double squash_excess(const lam_squash *s, float x, float got, size_t c)
{
    const double u = (double)s->alpha * (double)x + (double)s->shift;
    const double parts = fabs((double)s->alpha * (double)x) + fabs((double)s->shift);
    const double f = s->erf ? erf(u) : tanh(u);
    const double slope = s->erf ? 2.0 / sqrt(M_PI) * exp(-u * u) : 1.0 - f * f;
    const double g = (double)s->gain[c], want = f * g + (double)s->bias[c];
    const double bound = 4 * EPS * fabs(f) + 2 * EPS * parts * slope;
    return excess(got, want,
                  fabs(g) * bound + 2 * EPS * (fabs(f * g) + fabs((double)s->bias[c])) + 1e-37);
}

static void check_squash_case(const lam_kernels *k, size_t rows, size_t width, bool is_erf,
                              float alpha, float shift)
{
    matrix x = make_random(rows, width, 0, 6), y = make(rows, width);
    matrix gain = make_random(1, width, 1, 0.5f), bias = make_random(1, width, 0, 1);
    const lam_squash s = {gain.data, bias.data, width, alpha, shift, is_erf};
    k->squash(&s, x.data, x.stride, rows, y.data, y.stride);
    double worst = 0.0;
    for (size_t i = 0; i < rows * width; i++)
        worst = larger(worst, squash_excess(&s, at(&x, i / width, i % width),
                                            at(&y, i / width, i % width), i % width));
    report(worst <= 1.0 && guards_hold(&y), "squash", "against double", rows, width, is_erf, worst);
    k->squash(&s, x.data, x.stride, rows, x.data, x.stride);
    report(same_matrix(&x, &y), "squash", "in place", rows, width, is_erf, 0);
    drop(&x), drop(&y), drop(&gain), drop(&bias);
}

/* The functions alone, gain 1 and bias 0: within 2.5 units in the last place, everywhere; libm's
 * tanhf takes 2.1. */
static void check_ulp(const lam_kernels *k, bool is_erf)
{
    static const float special[] = {0.0f,   -0.0f,    1e-40f,    -1e-40f,  1e-20f, 0.9f,
                                    0.625f, 0.62499f, 0.899999f, 4.0f,     -4.0f,  100.0f,
                                    -1e30f, 3e38f,    INFINITY,  -INFINITY};
    enum { SPECIAL = COUNT(special), MOST = 200000 };
    matrix x = make(1, MOST + SPECIAL), y = make(1, x.width), gain = make(1, x.width),
           bias = make(1, x.width);
    for (size_t i = 0; i < x.width; i++) {
        const float far = (float)(i % MOST) / MOST * 6.0f * uniform();
        x.data[i] = i < SPECIAL ? special[i] : i % 3 ? far : far * 1e-3f;
        gain.data[i] = 1.0f, bias.data[i] = 0.0f;
    }
    const lam_squash s = {gain.data, bias.data, x.width, 1.0f, 0.0f, is_erf};
    k->squash(&s, x.data, x.stride, 1, y.data, y.stride);
    double worst = 0.0;
    for (size_t i = 0; i < x.width; i++) {
        const double want = is_erf ? erf((double)x.data[i]) : tanh((double)x.data[i]);
        const float near = fabsf((float)want);
        const double ulp = (double)nextafterf(near, INFINITY) - (double)near;
        worst = larger(worst, excess(y.data[i], want, 2.5 * ulp));
    }
    report(worst <= 1.0, "squash", "within 2.5 ulp", is_erf, x.width, 0, worst);
    x.data[3] = NAN;
    k->squash(&s, x.data, x.stride, 1, y.data, y.stride);
    report(isnan(y.data[3]) && !isnan(y.data[2]), "squash", "NaN stays", is_erf, 0, 0, 0);
    drop(&x), drop(&y), drop(&gain), drop(&bias);
}

static void check_squash(const lam_kernels *k)
{
    for (int is_erf = 0; is_erf < 2; is_erf++) {
        check_ulp(k, is_erf);
        for (size_t w = 0; w < COUNT(widths); w++) {
            check_squash_case(k, 3, widths[w], is_erf, 0.5f, 0.0f);
            check_squash_case(k, 2, widths[w], is_erf, -0.7f, is_erf ? 0.3f : 0.0f);
        }
        check_squash_case(k, 0, 32, is_erf, 1, 0);
    }
}

/* ---- Columns ---- */

/* Long double decides; 1e-12 relative at every offset, and 1e-12 of one of the values' size for
 * the mean. */
static void check_columns_case(const lam_kernels *k, size_t rows, size_t width, float offset,
                               float spread, bool around_zero)
{
    matrix x = make_random(rows, width, offset, spread);
    const size_t stride = lam_row_stride(width);
    double *mean = take((2 * stride + 2) * sizeof *mean), *squares = mean + stride;
    mean[2 * stride] = mean[2 * stride + 1] = -7.0;
    k->column_moments(x.data, x.stride, rows, width, around_zero, mean, squares);
    double worst = 0.0;
    for (size_t c = 0; c < width; c++) {
        long double middle = 0.0L, sum = 0.0L;
        for (size_t r = 0; r < rows && !around_zero; r++)
            middle += (long double)at(&x, r, c) / (long double)rows;
        for (size_t r = 0; r < rows; r++)
            sum += ((long double)at(&x, r, c) - middle) * ((long double)at(&x, r, c) - middle);
        const double size = fabs((double)offset) + (double)spread;
        worst = larger(worst, fabs(mean[c] - (double)middle) / (1e-15 * size + 1e-300));
        worst = larger(worst, fabs(squares[c] - (double)sum) / (1e-12 * (double)sum + 1e-300));
    }
    /* Of equal values the spread is 0, to the last place. */
    if (spread == 0.0f && !around_zero)
        worst = squares[0] == 0.0 && mean[0] == (double)offset ? 0 : 9;
    report(worst <= 1.0 && mean[2 * stride] == -7.0 && mean[2 * stride + 1] == -7.0,
           "column_moments", "against long double", rows, width, (size_t)offset, worst);
    free(mean);
    drop(&x);
}

static void check_columns(const lam_kernels *k)
{
    static const size_t rows[] = {1, 2, 3, 5, 8, 39, 128};
    for (size_t w = 0; w < COUNT(widths); w++) {
        for (size_t r = 0; r < COUNT(rows); r++) {
            check_columns_case(k, rows[r], widths[w], 0.2f, 1.0f, false);
            check_columns_case(k, rows[r], widths[w], 1e4f, 1.0f, false);
            check_columns_case(k, rows[r], widths[w], 1e6f, 1e-2f, true);
        }
        check_columns_case(k, 39, widths[w], 1e4f, 0.0f, false);
    }
    check_columns_case(k, 20000, 33, 1e4f, 1.0f, false);
}

void check_norms(const lam_kernels *k)
{
    check_rows(k);
    check_affine(k);
    check_squash(k);
    check_columns(k);
}
