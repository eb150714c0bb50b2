#include "tests/kernels/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 7, ROWS = 512, STREAM_BYTES = 48 << 20 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static float *floats(size_t n)
{
    float *p = aligned_alloc(64, (n * sizeof *p + 63) / 64 * 64);
    if (!p) exit(2);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)(i * 2654435761u % 1000) / 1000.0f - 0.5f;
    return p;
}

/* Weights copied often enough to come from where a forward finds them: L3 or memory. */
static void bench_linear(const lam_kernels *k, size_t n, size_t width, size_t rows)
{
    const size_t matrix = n * width, copies = STREAM_BYTES / (matrix * sizeof(float)) + 1;
    float *weights = floats(copies * matrix), *x = floats(rows * width), *y = floats(rows * n);
    float *bias = floats(n);
    double times[ROUNDS];
    for (size_t r = 0; r < ROUNDS; r++) {
        const double start = now();
        for (size_t c = 0; c < copies; c++) {
            const lam_linear l = {.weight = weights + c * matrix, .bias = bias, .k = width, .n = n};
            k->linear(&l, x, width, rows, NULL, 0, 1.0f, y, n);
        }
        times[r] = (now() - start) / (double)copies;
    }
    qsort(times, ROUNDS, sizeof *times, by_value);
    printf("  linear %4zu x %4zu, %3zu rows %8.1f us %7.1f GFLOP/s\n", n, width, rows,
           times[ROUNDS / 2] * 1e6, 2e-9 * (double)(n * width * rows) / times[ROUNDS / 2]);
    free(weights);
    free(x);
    free(y);
    free(bias);
}

static void bench_attention(const lam_kernels *k, size_t tokens)
{
    enum { WIDTH = 384 };
    const lam_attention a = {.heads = 12, .head_width = 32, .scale = 0.1767767f};
    float *qkv = floats(tokens * 3 * WIDTH), *out = floats(tokens * WIDTH);
    float *scratch = floats(k->attention_scratch(&a, tokens));
    double times[ROUNDS];
    for (size_t r = 0; r < ROUNDS; r++) {
        const double start = now();
        k->attention(&a, qkv, qkv + WIDTH, qkv + (size_t)2 * WIDTH, (size_t)3 * WIDTH, tokens, out,
                     WIDTH, scratch);
        times[r] = now() - start;
    }
    qsort(times, ROUNDS, sizeof *times, by_value);
    printf("  attention 12 x 32, %3zu tokens %8.1f us %7.1f GFLOP/s\n", tokens,
           times[ROUNDS / 2] * 1e6, 4e-9 * (double)(tokens * tokens * WIDTH) / times[ROUNDS / 2]);
    free(qkv);
    free(out);
    free(scratch);
}

static void run_activation(const lam_kernels *k, const float *x, size_t width, float *y)
{
    k->activate(LAM_ACTIVATION_GELU, x, width, ROWS, width, y, width);
}

static void run_norm(const lam_kernels *k, const float *x, size_t width, float *y)
{
    const lam_layer_norm n = {.gain = x, .bias = x, .width = width, .eps = 1e-12f};
    k->layer_norm(&n, x, width, ROWS, y, width);
}

static void run_moments(const lam_kernels *k, const float *x, size_t width, float *y)
{
    static double squares[4096];
    lam_moments m;
    k->moments(x, width, ROWS, width, &m, squares);
    y[0] = (float)m.mean;
}

static void bench_rows(const lam_kernels *k, const char *name, size_t width,
                       void (*run)(const lam_kernels *, const float *, size_t, float *))
{
    float *x = floats(ROWS * width), *y = floats(ROWS * width);
    double times[ROUNDS];
    for (size_t r = 0; r < ROUNDS; r++) {
        const double start = now();
        run(k, x, width, y);
        times[r] = now() - start;
    }
    qsort(times, ROUNDS, sizeof *times, by_value);
    printf("  %-10s width %4zu %8.3f ns a value\n", name, width,
           times[ROUNDS / 2] * 1e9 / (double)(ROWS * width));
    free(x);
    free(y);
}

void bench_kernels(const lam_kernels *k, const char *isa)
{
    static const struct {
        size_t n, k;
    } shapes[] = {{1152, 384}, {384, 384}, {1536, 384}, {384, 1536}};
    static const size_t rows[] = {1, 8, 16, 32, 128, 512};
    printf("%s\n", isa);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            bench_linear(k, shapes[s].n, shapes[s].k, rows[r]);
    static const size_t tokens[] = {16, 128, 512};
    for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++)
        bench_attention(k, tokens[t]);
    bench_rows(k, "gelu", 1536, run_activation);
    bench_rows(k, "layer_norm", 384, run_norm);
    bench_rows(k, "moments", 384, run_moments);
}
