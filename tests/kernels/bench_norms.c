/* Time of each norm over the rows of one batch, and the bytes it reads and writes a second beside
 * those of a pass that only reads, compares and writes: what the cache level gives. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/kernels/bench.h"

enum { ROUNDS = 9, ROWS = 128, WIDTH = 384, FLOATS = ROWS * WIDTH };

typedef struct bench {
    const lam_kernels *k;
    float *x, *y, *p; /* [ROWS, WIDTH], the same, [3, WIDTH] */
    double *sums;     /* [2, WIDTH] */
} bench;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* what other programs take is not counted */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void copy_rows(const bench *b)
{
    b->k->activate(LAM_ACTIVATION_RELU, b->x, WIDTH, ROWS, WIDTH, b->y, WIDTH);
}

static void layer(const bench *b)
{
    const lam_layer_norm n = {b->p, b->p, WIDTH, 1e-12f};
    b->k->layer_norm(&n, b->x, WIDTH, ROWS, b->y, WIDTH);
}

static void rows(const bench *b, bool centre, size_t groups)
{
    const lam_row_norm n = {.gain = b->p,
                            .bias = b->p,
                            .width = WIDTH,
                            .groups = groups,
                            .measured = WIDTH / groups,
                            .centre = centre,
                            .eps_mode = LAM_EPS_STD,
                            .eps = 1e-5f};
    b->k->row_norm(&n, b->x, WIDTH, ROWS, b->y, WIDTH);
}

static void layer_std(const bench *b)
{
    rows(b, true, 1);
}

static void rms(const bench *b)
{
    rows(b, false, 1);
}

static void group(const bench *b)
{
    rows(b, true, 12);
}

static void affine(const bench *b, size_t groups, float slope)
{
    const lam_channel_affine a = {b->p, b->p + WIDTH, b->p, WIDTH, slope, groups, 1e-5f};
    b->k->channel_affine(&a, b->x, WIDTH, ROWS, b->y, WIDTH);
}

static void batch(const bench *b)
{
    affine(b, 0, 0.0f);
}

static void repbn(const bench *b)
{
    affine(b, 0, 0.5f);
}

static void power(const bench *b)
{
    affine(b, 12, 0.0f);
}

static void columns(const bench *b)
{
    b->k->column_moments(b->x, WIDTH, ROWS, WIDTH, false, b->sums, b->sums + WIDTH);
}

static void squash(const bench *b, bool erf)
{
    const lam_squash s = {b->p, b->p, WIDTH, 0.5f, 0.1f, erf};
    b->k->squash(&s, b->x, WIDTH, ROWS, b->y, WIDTH);
}

static void dyt(const bench *b)
{
    squash(b, false);
}

static void derf(const bench *b)
{
    squash(b, true);
}

static double seconds_of(const bench *b, void (*run)(const bench *b))
{
    enum { REPEATS = 50 };
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        const double start = now();
        for (int i = 0; i < REPEATS; i++)
            run(b);
        const double each = (now() - start) / REPEATS;
        best = each < best ? each : best;
    }
    return best;
}

static float *take(size_t floats)
{
    float *p = aligned_alloc(64, (floats * sizeof *p + 63) / 64 * 64);
    if (!p) exit(2);
    for (size_t i = 0; i < floats; i++)
        p[i] = (float)(i % 97) * 0.02f - 0.96f;
    return p;
}

void bench_norms(const lam_kernels *k)
{
    static const struct {
        const char *name;
        void (*run)(const bench *b);
        double bytes; /* read and written a value */
    } table[] = {
        {"read, write", copy_rows, 8},
        {"layer", layer, 8},
        {"layer, std", layer_std, 8},
        {"rms", rms, 8},
        {"group of 32", group, 8},
        {"batch, running", batch, 8},
        {"repbn", repbn, 8},
        {"power, 12 groups", power, 8},
        {"column moments", columns, 4},
        {"dyt", dyt, 8},
        {"derf", derf, 8},
    };
    bench b = {k, take(FLOATS), take(FLOATS), take((size_t)3 * WIDTH), NULL};
    b.sums = malloc((size_t)2 * WIDTH * sizeof *b.sums);
    if (!b.sums) exit(2);
    double copied = 0.0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const double s = seconds_of(&b, table[i].run);
        const double speed = table[i].bytes * FLOATS / s / 1e9;
        if (i == 0) copied = speed;
        printf("%-16s %d x %d: %.3f ns/element, %.1f GB/s, %.0f %% of reading and writing\n",
               table[i].name, ROWS, WIDTH, s * 1e9 / FLOATS, speed, 100.0 * speed / copied);
    }
    free(b.x), free(b.y), free(b.p), free(b.sums);
}
