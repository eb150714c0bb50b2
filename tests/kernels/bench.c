#include "tests/kernels/bench.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 7, MOST_ROWS = 512, WIDEST = 1536, STREAM_FLOATS = 11 * 1024 * 1024 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* what other programs take is not counted */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static float *take(size_t floats)
{
    float *p = aligned_alloc(64, (floats * sizeof(float) + 63) / 64 * 64);
    if (!p) exit(2);
    for (size_t i = 0; i < floats; i++)
        p[i] = (float)(i % 97) * 0.02f - 0.96f;
    return p;
}

typedef struct bench {
    const lam_kernels *k;
    float *weights, *x, *y, *bias; /* [STREAM_FLOATS], [MOST_ROWS, WIDEST] twice, [WIDEST] */
    float *scratch;
} bench;

/* GFLOP/s of one linear layer. Streaming: as many copies of the weights as make 42 MB, in turn. */
static double linear_speed(const bench *b, size_t n, size_t k, size_t rows, bool streaming)
{
    const double work = 2.0 * (double)(rows * n * k);
    const size_t copies = streaming ? STREAM_FLOATS / (n * k) : 1;
    const size_t repeats = streaming ? 1 : (size_t)(1e8 / work) + 1;
    double seconds[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        const double start = now();
        for (size_t i = 0; i < repeats * copies; i++) {
            const lam_linear l = {
                .weight = b->weights + i % copies * n * k, .bias = b->bias, .k = k, .n = n};
            b->k->linear(&l, b->x, k, rows, NULL, 0, 0.0f, b->y, n);
        }
        seconds[round] = (now() - start) / (double)(repeats * copies);
    }
    qsort(seconds, ROUNDS, sizeof *seconds, by_size);
    return work / seconds[ROUNDS / 2] / 1e9;
}

static void bench_linear(const bench *b)
{
    static const size_t shapes[][2] = {{1152, 384}, {384, 384}, {1536, 384}, {384, 1536}};
    static const size_t rows[] = {1, 8, 16, 32, 128, 512};
    printf("linear, GFLOP/s hot / streaming\n  N    K   ");
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        printf("        M=%-4zu", rows[r]);
    printf("\n");
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        printf("%5zu %5zu", shapes[s][0], shapes[s][1]);
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            printf("  %5.1f /%5.1f", linear_speed(b, shapes[s][0], shapes[s][1], rows[r], false),
                   linear_speed(b, shapes[s][0], shapes[s][1], rows[r], true));
        printf("\n");
    }
}

static void bench_attention(const bench *b)
{
    static const size_t tokens[] = {16, 128, 512};
    const lam_attention a = {.heads = 12, .head_width = 32, .scale = 0.1767767f};
    for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++) {
        const size_t n = tokens[t], repeats = 1 + 200000 / (n * n);
        double seconds[ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            const double start = now();
            for (size_t i = 0; i < repeats; i++)
                b->k->attention(&a, b->x, b->x + 384, b->x + 768, 1152, n, b->y, 384, b->scratch);
            seconds[round] = (now() - start) / (double)repeats;
        }
        qsort(seconds, ROUNDS, sizeof *seconds, by_size);
        const double s = seconds[ROUNDS / 2];
        printf("attention 12 x 32, T=%zu: %.1f us, %.1f GFLOP/s\n", n, s * 1e6,
               4.0 * 384.0 * (double)(n * n) / s / 1e9);
    }
}

typedef enum row_op { OP_NORM, OP_ADD, OP_EMBED, OP_MOMENTS, OP_ACTIVATE } row_op;

static void run_row_op(const bench *b, row_op op, lam_activation act, size_t rows, size_t width)
{
    static int32_t ids[MOST_ROWS];
    static double squares[WIDEST];
    const lam_layer_norm norm = {b->bias, b->bias, width, 1e-12f};
    const lam_embedding table = {b->weights, b->weights, NULL, width};
    lam_moments m;
    switch (op) {
    case OP_NORM:
        b->k->layer_norm(&norm, b->x, width, rows, b->y, width);
        break;
    case OP_ADD:
        b->k->add(b->x, width, b->x, width, 1.0f, rows, width, b->y, width);
        break;
    case OP_EMBED:
        for (size_t i = 0; i < rows; i++)
            ids[i] = (int32_t)(i * 37 % 500);
        b->k->embed(&table, ids, ids, NULL, rows, b->y, width);
        break;
    case OP_MOMENTS:
        b->k->moments(b->x, width, rows, width, &m, squares);
        break;
    case OP_ACTIVATE:
        b->k->activate(act, b->x, width, rows, width, b->y, width);
        break;
    }
}

static void time_row_op(const bench *b, const char *name, row_op op, lam_activation act,
                        size_t width)
{
    const size_t rows = 64, repeats = 20;
    double seconds[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        const double start = now();
        for (size_t i = 0; i < repeats; i++)
            run_row_op(b, op, act, rows, width);
        seconds[round] = (now() - start) / (double)repeats;
    }
    qsort(seconds, ROUNDS, sizeof *seconds, by_size);
    printf("%-12s %5zu wide: %.3f ns/element\n", name, width,
           seconds[ROUNDS / 2] * 1e9 / (double)(rows * width));
}

/* 0 where nothing measures it. */
static double peak_speed(lam_isa isa)
{
    double best = 0.0;
#if defined(__x86_64__)
    for (int round = 0; round < ROUNDS && isa != LAM_ISA_REF; round++) {
        const double start = now();
        const double work =
            isa == LAM_ISA_AVX512 ? peak_work_avx512(2000000) : peak_work_avx2(2000000);
        const double speed = work / (now() - start) / 1e9;
        best = speed > best ? speed : best;
    }
#else
    (void)isa;
#endif
    return best;
}

static void read_bandwidth(const bench *b)
{
    double best = 0.0;
    float sums[64] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        const double start = now();
        for (size_t i = 0; i < STREAM_FLOATS; i += 64)
            for (size_t j = 0; j < 64; j++)
                sums[j] += b->weights[i + j];
        const double speed = STREAM_FLOATS * sizeof(float) / (now() - start) / 1e9;
        best = speed > best ? speed : best;
    }
    volatile float sink = sums[0] + sums[63];
    (void)sink;
    printf("read bandwidth over 44 MB: %.1f GB/s\n", best);
}

void bench_kernels(const lam_kernels *k, const char *isa)
{
    bench b = {.k = k, .weights = take(STREAM_FLOATS), .x = take(MOST_ROWS * WIDEST)};
    b.y = take(MOST_ROWS * WIDEST), b.bias = take(WIDEST), b.scratch = take(1 << 18);
    printf("== %s, peak %.1f GFLOP/s\n", isa, peak_speed(k->isa));
    read_bandwidth(&b);
    bench_linear(&b);
    bench_attention(&b);
    time_row_op(&b, "layer_norm", OP_NORM, LAM_ACTIVATION_IDENTITY, 384);
    time_row_op(&b, "add", OP_ADD, LAM_ACTIVATION_IDENTITY, 384);
    time_row_op(&b, "embed", OP_EMBED, LAM_ACTIVATION_IDENTITY, 384);
    time_row_op(&b, "moments", OP_MOMENTS, LAM_ACTIVATION_IDENTITY, 384);
    time_row_op(&b, "moments", OP_MOMENTS, LAM_ACTIVATION_IDENTITY, 1536);
#define TIME_ACTIVATION(name, text) time_row_op(&b, text, OP_ACTIVATE, LAM_ACTIVATION_##name, 1536);
    LAM_ACTIVATION_MAP(TIME_ACTIVATION)
    free(b.weights), free(b.x), free(b.y), free(b.bias), free(b.scratch);
}
