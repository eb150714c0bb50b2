/* What level full measures with, against sums in double. */
#include "tests/kernels/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const size_t widths[] = {1, 2, 7, 8, 9, 16, 17, 33, 100, 384, 1536};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static const struct {
    float offset, spread;
    const char *what;
} data[] = {{0.1f, 1.0f, "ordinary"},    {1e4f, 1.0f, "offset 1e4"}, {0.0f, 0.0f, "zero"},
            {0.0f, 1e-20f, "tiny"},      {0.0f, 1e-39f, "denormal"}, {0.0f, 1e30f, "huge"},
            {-3.0f, 4.0f, "wide spread"}};

/* ---- products ---- */

/* xx and yy to 2e-6 of themselves, xy to 2e-6 of the product of the lengths. */
static void check_products(const lam_kernels *k, const matrix *x, const matrix *y, const char *what)
{
    lam_row_products *got = take((x->rows + 1) * sizeof *got);
    got[x->rows].xx = 42.0;
    k->products(x->data, x->stride, y->data, y->stride, x->rows, x->width, got);
    double worst = 0.0;
    bool ok = got[x->rows].xx == 42.0;
    for (size_t r = 0; r < x->rows; r++) {
        double xx = 0, yy = 0, xy = 0;
        for (size_t c = 0; c < x->width; c++) {
            const double a = (double)at(x, r, c), b = (double)at(y, r, c);
            xx += a * a, yy += b * b, xy += a * b;
        }
        ok = ok && isfinite(xx) == isfinite(got[r].xx) && isfinite(yy) == isfinite(got[r].yy);
        if (!isfinite(xx) || !isfinite(yy)) continue;
        worst = larger(worst, fabs(got[r].xx - xx) / (2e-6 * xx + 1e-300));
        worst = larger(worst, fabs(got[r].yy - yy) / (2e-6 * yy + 1e-300));
        worst = larger(worst, fabs(got[r].xy - xy) / (2e-6 * sqrt(xx) * sqrt(yy) + 1e-300));
    }
    report(ok && worst <= 1.0, "products", what, x->rows, x->width, 0, worst);
    free(got);
}

/* ---- add_scaled and centre ---- */

/* A rounding of each product; rows of scale 0 hold NaN and leave no trace. */
static void check_add_scaled(const lam_kernels *k, const matrix *x, const char *what)
{
    const size_t columns = lam_row_stride(x->width);
    double *sums = take((columns + 1) * sizeof *sums), worst = 0.0;
    float *scale = take((x->rows + 1) * sizeof *scale);
    matrix holes = copy(x);
    for (size_t c = 0; c <= columns; c++)
        sums[c] = 7.0;
    for (size_t r = 0; r < x->rows; r++) {
        scale[r] = r % 4 == 1 ? 0.0f : uniform();
        if (scale[r] == 0.0f) holes.data[r * holes.stride + r % x->width] = NAN;
    }
    k->add_scaled(holes.data, holes.stride, x->rows, x->width, scale, sums);
    for (size_t c = 0; c < x->width; c++) {
        double want = 7.0, size = 7.0;
        for (size_t r = 0; r < x->rows; r++) {
            const double p = scale[r] == 0.0f ? 0.0 : (double)scale[r] * (double)at(x, r, c);
            want += p, size += fabs(p);
        }
        worst = larger(worst, fabs(sums[c] - want) / (1.01 * EPS * size + 1e-37));
    }
    report(worst <= 1.0 && sums[columns] == 7.0, "add_scaled", what, x->rows, x->width, 0, worst);
    drop(&holes);
    free(sums), free(scale);
}

/* Rows side by side: what stands behind the last one stays. */
static void check_centre(const lam_kernels *k, const matrix *x, float offset, const char *what)
{
    const size_t width = x->width, n = x->rows * width;
    matrix high = make(1, width), low = make(1, width);
    float *y = take((n + 1) * sizeof *y);
    double worst = 0.0;
    y[n] = 42.0f;
    for (size_t c = 0; c < width; c++) {
        const double mean = (double)offset * (1.0 + 1e-9 * (double)c);
        high.data[c] = (float)mean;
        low.data[c] = (float)(mean - (double)high.data[c]);
    }
    k->centre(x->data, x->stride, x->rows, width, high.data, low.data, y, width);
    for (size_t i = 0; i < n; i++) {
        const size_t c = i % width;
        const double h = (double)high.data[c], l = (double)low.data[c];
        const double want = (double)at(x, i / width, c) - h - l;
        worst = larger(worst,
                       fabs((double)y[i] - want) / (EPS * (fabs(want) * 3 + fabs(l) * 2) + 1e-44));
    }
    report(worst <= 1.0 && y[n] == 42.0f, "centre", what, x->rows, width, 0, worst);
    drop(&high), drop(&low), free(y);
}

/* ---- tail_counts ---- */

static void check_tails(const lam_kernels *k, const matrix *x, const char *what)
{
    lam_tail_counts got, want = {0};
    k->tail_counts(x->data, x->stride, x->rows, x->width, -3.0f, 3.0f, &got);
    for (size_t i = 0; i < x->rows * x->width; i++) {
        const float v = at(x, i / x->width, i % x->width);
        want.finite += isfinite(v) != 0;
        want.below += isfinite(v) && v < -3.0f;
        want.above += isfinite(v) && v > 3.0f;
    }
    report(got.finite == want.finite && got.below == want.below && got.above == want.above,
           "tail_counts", what, x->rows, x->width, 0, 0);
}

/* ---- attention_sums ---- */

/* Scores carry a rounding of d eps sum|q k| scale; entropy feels it times the spread of the scores,
 * which a probability of e^-s outweighs. */
static void check_attention_sums(const lam_kernels *k, size_t tokens, size_t heads, size_t d,
                                 float spread, bool bad)
{
    const lam_attention a = {.heads = heads, .head_width = d, .scale = 1.0f / sqrtf((float)d)};
    matrix q = make_random(tokens, heads * d, 0, spread);
    matrix key = make_random(tokens, heads * d, 0, spread);
    lam_attention_sums *sums = take((heads + 1) * sizeof *sums);
    const size_t floats = k->attention_scratch(&a, tokens);
    float *scratch = take((floats + 16) * sizeof *scratch);
    double *s = take((tokens + 1) * sizeof *s), worst = 0.0;
    bool ok = true;
    for (size_t i = 0; i < floats + 16; i++)
        memcpy(scratch + i, &GUARD_BITS, 4);
    sums[heads].sink = 42.0;
    if (bad) q.data[tokens / 2 * q.stride] = NAN;
    k->attention_sums(&a, NULL, q.data, key.data, q.stride, tokens, sums, scratch);
    for (size_t h = 0; h < heads; h++) {
        double entropy = 0, sink = 0, error = 0;
        uint64_t queries = 0;
        for (size_t t = 0; t < tokens; t++) {
            double top = -HUGE_VAL, z = 0, weighted = 0, rounding = 0;
            if (bad && h == 0 && t == tokens / 2) continue;
            for (size_t u = 0; u < tokens; u++) {
                double dot = 0, size = 0;
                for (size_t c = h * d; c < (h + 1) * d; c++) {
                    const double p = (double)at(&q, t, c) * (double)at(&key, u, c);
                    dot += p, size += fabs(p);
                }
                s[u] = dot * (double)a.scale;
                top = larger(top, s[u]);
                rounding = larger(rounding, size * (double)a.scale * (double)(d + 3) * EPS);
            }
            for (size_t u = 0; u < tokens; u++) {
                const double e = exp(s[u] - top);
                z += e, weighted += e * (s[u] - top);
            }
            entropy += log(z) - weighted / z;
            sink += exp(s[0] - top) / z;
            error += 4.0 * rounding * (1.0 + log((double)tokens));
            queries++;
        }
        ok = ok && sums[h].queries == queries;
        worst = larger(worst, fabs(sums[h].entropy - entropy) / (error + 4e-7 * entropy + 1e-12));
        worst = larger(worst, fabs(sums[h].sink - sink) / (error + 4e-7 * sink + 1e-12));
    }
    for (size_t i = floats; i < floats + 16; i++)
        ok = ok && memcmp(scratch + i, &GUARD_BITS, 4) == 0;
    report(ok && worst <= 1.0 && sums[heads].sink == 42.0, "attention_sums",
           bad ? "NaN in a query" : "against double", tokens, heads, d, worst);
    drop(&q), drop(&key);
    free(sums), free(scratch), free(s);
}

static void check_rows(const lam_kernels *k, size_t rows, size_t width)
{
    for (size_t d = 0; d < COUNT(data); d++) {
        matrix x = make_random(rows, width, data[d].offset, data[d].spread);
        matrix y = make_random(rows, width, 0.0f, 1.0f);
        check_products(k, &x, &y, data[d].what);
        check_products(k, &y, &x, data[d].what);
        check_add_scaled(k, &x, data[d].what);
        check_centre(k, &x, data[d].offset, data[d].what);
        check_tails(k, &x, data[d].what);
        for (size_t i = 0; i < rows; i += 3)
            x.data[i * x.stride + i % width] = i % 2 ? NAN : i % 4 ? INFINITY : -INFINITY;
        check_products(k, &x, &y, "not finite");
        check_tails(k, &x, "not finite");
        drop(&x), drop(&y);
    }
}

void check_measures(const lam_kernels *k)
{
    static const size_t tokens[] = {1, 2, 5, 7, 8, 9, 15, 16, 17, 33, 100};
    static const size_t head_widths[] = {1, 7, 8, 32, 33, 64};
    for (size_t w = 0; w < COUNT(widths); w++)
        for (size_t rows = 0; rows <= 21; rows += 7)
            check_rows(k, rows, widths[w]);
    for (size_t t = 0; t < COUNT(tokens); t++)
        for (size_t w = 0; w < COUNT(head_widths); w++) {
            check_attention_sums(k, tokens[t], 1 + (t + w) % 3, head_widths[w], 1.0f, false);
            check_attention_sums(k, tokens[t], 2, head_widths[w], 4.0f, true);
        }
    check_attention_sums(k, 512, 2, 32, 1.0f, false);
    /* One key takes nearly everything. */
    check_attention_sums(k, 47, 2, 32, 10.0f, false);
}
