/* Every kernel of every instruction set this CPU has, against the formula in double.
 *
 * check_kernels [--seed N] [--isa NAME] [--bench]
 *
 * Around each result stand guard words; the padding of inputs is NaN, which no result may show.
 * Each bound stands at its op. Rows are also computed one at a time: their bits must be those of
 * the whole call. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cpu.h"
#include "core/kernels/kernels.h"
#include "tests/kernels/bench.h"
#include "tests/kernels/support.h"

/* ---- Activation ---- */

static double exact_activation(lam_activation act, double x)
{
    switch (act) {
    case LAM_ACTIVATION_GELU:
        return 0.5 * x * (1.0 + erf(x * sqrt(0.5)));
    case LAM_ACTIVATION_GELU_TANH:
        return 0.5 * x * (1.0 + tanh(sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case LAM_ACTIVATION_RELU:
        return x < 0.0 ? 0.0 : x;
    case LAM_ACTIVATION_SILU:
        return x / (1.0 + exp(-x));
    case LAM_ACTIVATION_TANH:
        return tanh(x);
    case LAM_ACTIVATION_IDENTITY:
    case LAM_ACTIVATION_COUNT:
        break;
    }
    return x;
}

/* 4e-7 * max(1, |x|), all of them. */
static double activation_bound(double x)
{
    return 4e-7 * larger(1.0, fabs(x));
}

static void check_activation(const lam_kernels *k, lam_activation act)
{
    static const float special[] = {0.0f,   -0.0f,  1e-40f,   -1e-40f,   1e-6f,   5.4f, -5.4f,
                                    0.625f, 87.4f,  -87.4f,   100.0f,    -100.0f, 1e4f, -1e4f,
                                    3e38f,  1e-20f, INFINITY, -INFINITY, NAN,     -NAN};
    enum { SPECIAL = sizeof special / sizeof *special };
    matrix x = make(1, 40000 + SPECIAL), y = make(1, x.width);
    for (size_t i = 0; i < 40000; i++)
        x.data[i] = -20.0f + (float)i * 0.001f + 0.0005f * uniform();
    memcpy(x.data + 40000, special, sizeof special);
    k->activate(act, x.data, x.stride, 1, x.width, y.data, y.stride);
    double worst = 0.0;
    for (size_t i = 0; i < x.width; i++) {
        const double v = (double)x.data[i];
        const bool limit = isinf(v) && isfinite(exact_activation(act, v));
        if (limit && !isfinite(y.data[i])) continue;
        worst = larger(worst, excess(y.data[i], exact_activation(act, v), activation_bound(v)));
    }
    report(worst <= 1.0 && guards_hold(&y), "activate", "against double", (size_t)act, x.width, 0,
           worst);
    matrix z = copy(&x);
    k->activate(act, z.data, z.stride, 1, z.width, z.data, z.stride);
    report(same_matrix(&y, &z), "activate", "in place", (size_t)act, x.width, 0, 0);
    drop(&x), drop(&y), drop(&z);
}

/* ---- Linear ---- */

typedef struct layer {
    lam_linear l;
    float *w, *packed, *bias; /* w [n, k] */
} layer;

static layer make_layer(size_t n, size_t k, lam_activation act)
{
    const size_t columns = lam_row_stride(n);
    layer y = {.w = take(n * k * 4), .packed = take(columns * k * 4), .bias = take(columns * 4)};
    memset(y.packed, 0, columns * k * 4);
    memset(y.bias, 0, columns * 4);
    for (size_t i = 0; i < n * k; i++)
        y.w[i] = uniform();
    for (size_t i = 0; i < n; i++)
        y.bias[i] = uniform();
    /* In two parts, as query, key and value are. */
    const size_t part = n / 3;
    lam__pack_weight(y.w, part, k, 0, y.packed);
    lam__pack_weight(y.w + part * k, n - part, k, part, y.packed);
    y.l = (lam_linear){.weight = y.packed, .bias = y.bias, .k = k, .n = n, .activation = act};
    return y;
}

static void drop_layer(layer *y)
{
    free(y->w), free(y->packed), free(y->bias);
}

/* (k + 2) * eps * (sum |x w| + |b|), plus the activation's own bound and 2 eps of result and
 * residual. GELU and its kin have slopes below 1.2. */
static double linear_excess(const layer *y, const matrix *x, const matrix *res, float scale,
                            const matrix *out, size_t r, size_t c)
{
    double sum = (double)y->bias[c], size = fabs(sum);
    for (size_t i = 0; i < y->l.k; i++) {
        const double p = (double)at(x, r, i) * (double)y->w[c * y->l.k + i];
        sum += p, size += fabs(p);
    }
    double want = exact_activation(y->l.activation, sum);
    double bound = 1.2 * (double)(y->l.k + 2) * EPS * size + 1e-37;
    if (y->l.activation != LAM_ACTIVATION_IDENTITY) bound += activation_bound(sum);
    if (res)
        want += (double)scale * (double)at(res, r, c),
            bound += 2 * EPS * fabs((double)scale * (double)at(res, r, c));
    return excess(at(out, r, c), want, bound + 2 * EPS * fabs(want));
}

static void run_linear(const lam_kernels *k, const layer *y, const matrix *x, const matrix *res,
                       float scale, matrix *out)
{
    k->linear(&y->l, x->data, x->stride, x->rows, res ? res->data : NULL, res ? res->stride : 0,
              scale, out->data, out->stride);
}

static void check_linear_values(const lam_kernels *k, size_t rows, size_t n, size_t kk,
                                lam_activation act)
{
    layer y = make_layer(n, kk, act);
    matrix x = make_random(rows, kk, 0, 1), res = make_random(rows, n, 0, 3), out = make(rows, n);
    run_linear(k, &y, &x, NULL, 0.0f, &out);
    double worst = 0.0;
    const size_t step = rows * n * kk > 4000000 ? 37 : 1; /* a sample where there are many */
    for (size_t i = 0; i < rows * n; i += step)
        worst = larger(worst, linear_excess(&y, &x, NULL, 0.0f, &out, i / n, i % n));
    report(worst <= 1.0 && guards_hold(&out), "linear", "against double", rows, n, kk, worst);

    /* A residual in the epilogue, apart and in place, and `add` afterwards: the same bits. */
    matrix fused = make(rows, n), inplace = copy(&res), apart = make(rows, n);
    run_linear(k, &y, &x, &res, 0.7f, &fused);
    k->linear(&y.l, x.data, x.stride, rows, inplace.data, inplace.stride, 0.7f, inplace.data,
              inplace.stride);
    k->add(out.data, out.stride, res.data, res.stride, 0.7f, rows, n, apart.data, apart.stride);
    report(same_matrix(&fused, &apart) && guards_hold(&fused), "linear", "residual as add", rows, n,
           kk, 0);
    report(same_matrix(&fused, &inplace), "linear", "residual in place", rows, n, kk, 0);

    /* The activation afterwards: the same bits. */
    y.l.activation = LAM_ACTIVATION_IDENTITY;
    run_linear(k, &y, &x, NULL, 0.0f, &apart);
    k->activate(act, apart.data, apart.stride, rows, n, apart.data, apart.stride);
    report(same_matrix(&out, &apart), "linear", "epilogue as activate", rows, n, kk, 0);
    drop(&x), drop(&res), drop(&out), drop(&fused), drop(&inplace), drop(&apart);
    drop_layer(&y);
}

/* Every row alone, and every prefix length in `counts`, gives the bits of the largest call. One row
 * holds a NaN and one an infinity: they show in their own row only. */
static void check_linear_rows(const lam_kernels *k, size_t n, size_t kk)
{
    enum { MOST = 512 };
    layer y = make_layer(n, kk, LAM_ACTIVATION_GELU);
    matrix x = make_random(MOST, kk, 0, 1), all = make(MOST, n), some = make(MOST, n);
    x.data[5 * x.stride + kk / 2] = NAN;
    x.data[17 * x.stride + kk - 1] = INFINITY;
    run_linear(k, &y, &x, NULL, 0.0f, &all);
    for (size_t count = 1; count <= 70; count++) {
        const size_t first = count * 7 % 50;
        bool equal = true;
        k->linear(&y.l, x.data + first * x.stride, x.stride, count, NULL, 0, 0.0f, some.data,
                  some.stride);
        for (size_t r = 0; r < count; r++)
            equal = equal && same_rows(&some, r, &all, first + r);
        report(equal, "linear", "bits by number of rows", count, n, kk, 0);
    }
    bool equal = true, apart = true;
    for (size_t r = 0; r < MOST; r++) {
        k->linear(&y.l, x.data + r * x.stride, x.stride, 1, NULL, 0, 0.0f, some.data, some.stride);
        equal = equal && same_rows(&some, 0, &all, r);
        for (size_t c = 0; c < n; c++)
            apart = apart && (isfinite(at(&all, r, c)) != 0) == (r != 5 && r != 17);
    }
    report(equal, "linear", "bits of rows alone", MOST, n, kk, 0);
    report(apart, "linear", "NaN and infinity stay in their rows", MOST, n, kk, 0);
    drop(&x), drop(&all), drop(&some);
    drop_layer(&y);
}

static void check_linear(const lam_kernels *k)
{
    static const size_t rows[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 14, 15, 16, 29};
    static const size_t shapes[][2] = {{1, 1},  {8, 3},   {31, 5},   {32, 8},
                                       {33, 7}, {96, 12}, {65, 130}, {128, 33}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            check_linear_values(k, rows[r], shapes[s][0], shapes[s][1],
                                (lam_activation)((r + s) % LAM_ACTIVATION_COUNT));
    check_linear_values(k, 33, 1152, 384, LAM_ACTIVATION_IDENTITY);
    check_linear_values(k, 33, 1536, 384, LAM_ACTIVATION_GELU);
    check_linear_values(k, 130, 384, 1536, LAM_ACTIVATION_IDENTITY);
    check_linear_rows(k, 96, 64);
    check_linear_rows(k, 70, 333);
}

/* ---- Attention ---- */

/* Scores carry a rounding of d eps sum|q k| scale into the exponent; then (tokens + 8) eps of the
 * values. */
static double attention_excess(const lam_attention *a, const lam_attention_bias *bias,
                               const matrix *q, const matrix *k, const matrix *v, const matrix *out,
                               size_t t, size_t c)
{
    const size_t d = a->head_width, h = c / d * d, n = q->rows;
    double top = -HUGE_VAL, error = 0.0, sum = 0.0, want = 0.0, size = 0.0;
    double *s = take((n + 1) * sizeof *s);
    for (size_t u = 0; u < n; u++) {
        double dot = 0.0, dot_size = 0.0;
        for (size_t i = h; i < h + d; i++) {
            const double p = (double)at(q, t, i) * (double)at(k, u, i);
            dot += p, dot_size += fabs(p);
        }
        s[u] = dot * (double)a->scale;
        if (bias) {
            const size_t row = c / d * (2 * bias->span + 1) + bias->span;
            const int32_t distance = bias->positions[u] - bias->positions[t];
            const double b = (double)bias->table[(ptrdiff_t)row + distance];
            s[u] += b;
            error = larger(error,
                           EPS * (4.0 * fabs(b) + dot_size * (double)a->scale * (double)(d + 8)));
        }
        error = larger(error, dot_size * (double)a->scale * (double)(d + 3) * EPS);
        top = larger(top, s[u]);
    }
    for (size_t u = 0; u < n; u++) {
        const double e = exp(s[u] - top);
        sum += e, want += e * (double)at(v, u, c), size += e * fabs((double)at(v, u, c));
    }
    free(s);
    const double bound = size / sum * (2.0 * error + (double)(n + 8) * EPS + 2e-7) + 1e-36;
    return excess(at(out, t, c), want / sum, bound);
}

static void run_attention(const lam_kernels *k, const lam_attention *a, const matrix *q,
                          const matrix *key, const matrix *v, matrix *out)
{
    const size_t floats = k->attention_scratch(a, q->rows);
    float *scratch = take((floats + 16) * 4);
    for (size_t i = 0; i < floats + 16; i++)
        memcpy(scratch + i, &GUARD_BITS, 4);
    k->attention(a, q->data, key->data, v->data, q->stride, q->rows, out->data, out->stride,
                 scratch);
    bool kept = guards_hold(out);
    for (size_t i = floats; i < floats + 16; i++)
        kept = kept && memcmp(scratch + i, &GUARD_BITS, 4) == 0;
    report(kept, "attention", "stays within its buffers", q->rows, a->heads, a->head_width, 0);
    free(scratch);
}

static void check_attention_case(const lam_kernels *k, size_t tokens, size_t heads, size_t d,
                                 float spread)
{
    const lam_attention a = {.heads = heads, .head_width = d, .scale = 1.0f / sqrtf((float)d)};
    const size_t width = heads * d;
    matrix q = make_random(tokens, width, 0, spread), key = make_random(tokens, width, 0, spread);
    matrix v = make_random(tokens, width, 0, 2), out = make(tokens, width),
           again = make(tokens, width);
    run_attention(k, &a, &q, &key, &v, &out);
    double worst = 0.0;
    const size_t step = tokens * tokens * width > 1000000 ? 101 : 1;
    for (size_t i = 0; i < tokens * width; i += step)
        worst = larger(worst, attention_excess(&a, NULL, &q, &key, &v, &out, i / width, i % width));
    report(worst <= 1.0, "attention", "against double", tokens, heads, d, worst);
    if (tokens == 0) goto done;

    /* A NaN or an infinity in one query: that row's head alone; the other rows keep their bits. */
    for (int kind = 0; kind < 2; kind++) {
        const size_t row = tokens / 2;
        matrix bad = copy(&q);
        bad.data[row * bad.stride + d - 1] = kind ? INFINITY : NAN;
        run_attention(k, &a, &bad, &key, &v, &again);
        bool ok = true;
        for (size_t r = 0; r < tokens; r++)
            ok = ok && (r == row ? !isfinite(at(&again, r, 0)) : same_rows(&again, r, &out, r));
        report(ok, "attention", kind ? "infinity in a query" : "NaN in a query", tokens, heads, d,
               0);
        drop(&bad);
    }
    /* In a key: the whole head. */
    key.data[(tokens - 1) * key.stride] = NAN;
    run_attention(k, &a, &q, &key, &v, &again);
    bool spoilt = true;
    for (size_t r = 0; r < tokens; r++)
        spoilt = spoilt && isnan(at(&again, r, 0)) &&
                 (heads == 1 || same(at(&again, r, d), at(&out, r, d)));
    report(spoilt, "attention", "NaN in a key", tokens, heads, d, 0);
done:
    drop(&q), drop(&key), drop(&v), drop(&out), drop(&again);
}

/* Positions with holes, the largest distance that the table holds, NaN around the table. */
static void check_biased_case(const lam_kernels *k, size_t tokens, size_t heads, size_t d)
{
    const lam_attention a = {.heads = heads, .head_width = d, .scale = 1.0f / sqrtf((float)d)};
    const size_t width = heads * d, span = 2 * tokens;
    matrix q = make_random(tokens, width, 0, 1), key = make_random(tokens, width, 0, 1);
    matrix v = make_random(tokens, width, 0, 2), out = make(tokens, width),
           plain = make(tokens, width);
    matrix table = make_random(1, heads * (2 * span + 1), 0, 3);
    int32_t *positions = take((tokens + 1) * sizeof *positions);
    for (size_t t = 0; t < tokens; t++)
        positions[t] = (int32_t)(t < tokens / 2 ? t : t + tokens);
    const lam_attention_bias bias = {table.data, span, positions};
    float *scratch = take((k->attention_scratch(&a, tokens) + 16) * 4);
    k->attention_biased(&a, &bias, q.data, key.data, v.data, q.stride, tokens, out.data, out.stride,
                        scratch);
    double worst = guards_hold(&out) ? 0.0 : HUGE_VAL;
    for (size_t i = 0; i < tokens * width; i++)
        worst =
            larger(worst, attention_excess(&a, &bias, &q, &key, &v, &out, i / width, i % width));
    report(worst <= 1.0, "attention_biased", "against double", tokens, heads, d, worst);

    /* Values of 1 for the first key and 0 for the others make the result its weight. */
    lam_attention_sums *sums = take((heads + 1) * sizeof *sums);
    k->attention_sums(&a, &bias, q.data, key.data, q.stride, tokens, sums, scratch);
    double sink = 0.0, sinks = 0.0;
    for (size_t t = 0; t < tokens; t++)
        for (size_t c = 0; c < width; c++)
            v.data[t * v.stride + c] = t == 0 ? 1.0f : 0.0f;
    k->attention_biased(&a, &bias, q.data, key.data, v.data, q.stride, tokens, out.data, out.stride,
                        scratch);
    for (size_t h = 0; h < heads; h++) {
        sink += sums[h].sink;
        for (size_t t = 0; t < tokens; t++)
            sinks += (double)at(&out, t, h * d);
    }
    report(fabs(sink - sinks) <= 1e-5 * sinks, "attention_sums", "with a bias", tokens, heads, d,
           fabs(sink - sinks));

    /* A bias of 0 is none. */
    for (size_t i = 0; i < table.width; i++)
        table.data[i] = 0.0f;
    k->attention(&a, q.data, key.data, v.data, q.stride, tokens, plain.data, plain.stride, scratch);
    k->attention_biased(&a, &bias, q.data, key.data, v.data, q.stride, tokens, out.data, out.stride,
                        scratch);
    double apart = 0.0;
    for (size_t i = 0; i < tokens * width; i++)
        apart = larger(apart, fabs((double)at(&out, i / width, i % width) -
                                   (double)at(&plain, i / width, i % width)));
    report(apart <= 1e-5, "attention_biased", "without a bias", tokens, heads, d, apart);
    free(scratch), free(sums), free(positions);
    drop(&q), drop(&key), drop(&v), drop(&out), drop(&plain), drop(&table);
}

static void check_attention(const lam_kernels *k)
{
    static const size_t sizes[] = {1, 2, 5, 8, 13, 16, 31, 33, 70};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_biased_case(k, sizes[i], 1 + i % 3, 32);
        check_biased_case(k, sizes[i], 2, 7 + i);
    }
    static const size_t tokens[] = {0, 1, 2, 5, 6, 7, 8, 9, 14, 15, 16, 17, 31, 32, 33, 100};
    static const size_t widths[] = {1, 7, 8, 12, 32, 33, 64, 256};
    for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++)
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            check_attention_case(k, tokens[t], 1 + (t + w) % 3, widths[w], 1.0f);
    check_attention_case(k, 512, 2, 32, 1.0f);
    /* Scores of thousands, whose maximum often stands in the last, partial vector. */
    for (size_t n = 39; n < 48; n++)
        check_attention_case(k, n, 2, 32, 100.0f);
}

/* ---- Main ---- */

/* In the emulated build (VARIANT=simde) the AVX-512 table is made of AVX2 instructions. */
static bool may_run(lam_isa isa)
{
#if defined(LAM_EMULATE_AVX512)
    if (isa == LAM_ISA_AVX512) return lam_cpu_supports(LAM_ISA_AVX2);
#endif
    return lam_cpu_supports(isa);
}

static void check_isa(const lam_kernels *k)
{
    for (int act = 0; act < LAM_ACTIVATION_COUNT; act++)
        check_activation(k, (lam_activation)act);
    check_linear(k);
    check_attention(k);
    check_norm(k);
    check_norms(k);
    check_embed_and_add(k, 8);
    check_embed_and_add(k, 33);
    check_embed_and_add(k, 384);
    check_moments(k);
    check_measures(k);
}

int main(int argc, char **argv)
{
#define ISA_NAME_ROW(name, text) text,
    static const char *const names[] = {LAM_ISA_MAP(ISA_NAME_ROW)};
    const char *only = NULL;
    bool bench = false;
    random_state = 88172645463325252u;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0) bench = true;
        if (strcmp(argv[i], "--isa") == 0 && i + 1 < argc) only = argv[++i];
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            random_state = strtoull(argv[++i], NULL, 10);
            if (random_state == 0) return 2;
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %llu, best isa %s\n", (unsigned long long)random_state, names[lam_cpu_best()]);
    for (int isa = 0; isa < LAM_ISA_COUNT; isa++) {
        if (!may_run((lam_isa)isa) || (only && strcmp(only, names[isa]) != 0)) continue;
        lam_kernels k;
        lam__kernels_init(&k, (lam_isa)isa);
        isa_now = names[isa];
        report(k.isa == (lam_isa)isa, "table", "its own name", 0, 0, 0, 0);
        if (bench)
            bench_kernels(&k, isa_now);
        else
            check_isa(&k);
    }
    printf("%zu passed, %zu failed\n", passed, failed);
    return failed != 0;
}
