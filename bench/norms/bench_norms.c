/* Time of every norm: as a share of an encoder layer, and as a share of the bandwidth of a copy.
 *
 *     bench_norms [MODEL]      (make bench-norms)
 *
 * Each kind runs over three footprints of x and y together, which lie in the first and second level
 * cache and in memory on the machines we know; beside it, in the same rounds, memcpy over the same
 * rows. With a model the last column is the norm's time for 128 rows as a share of one layer of it
 * at 1x128. Medians of interleaved rounds. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/import/import.h"
#include "core/lamina.h"
#include "core/norm/norm.h"

enum { WIDTH = 384, ROUNDS = 21, LAYER_ROWS = 128, FOOTPRINTS = 3, MOST_ROWS = 32768 };
enum { ROWS_A_ROUND = 32768 };
static const size_t footprints[FOOTPRINTS] = {8, 256, MOST_ROWS}; /* rows: 24 kB, 0.8 MB, 100 MB */

typedef struct candidate {
    const char *name;
    lam_norm_spec spec;
} candidate;

typedef struct arrays {
    float *x, *y; /* [MOST_ROWS, WIDTH] */
    float *gain, *bias, *mean, *scale, *affine;
    double *sums;
} arrays;

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* what other programs take is not counted */
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, compare);
    return v[n / 2];
}

static void *floats(size_t n)
{
    void *p = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
    if (!p) abort();
    memset(p, 0, n * sizeof(float));
    return p;
}

static arrays make_arrays(void)
{
    const size_t stride = lam_row_stride(WIDTH);
    arrays a = {.x = floats(MOST_ROWS * stride), .y = floats(MOST_ROWS * stride)};
    a.gain = floats(stride), a.bias = floats(stride), a.mean = floats(stride);
    a.scale = floats(stride), a.affine = floats(3 * stride), a.sums = floats(4 * stride);
    uint64_t random = 1;
    for (size_t i = 0; i < MOST_ROWS * stride; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        a.x[i] = (float)((double)(random >> 40) / (1 << 23) - 1.0);
    }
    for (size_t c = 0; c < WIDTH; c++)
        a.gain[c] = a.scale[c] = 1.0f;
    return a;
}

/* One call for each item of `rows` rows, as the executor does for a batch of one. */
static void run(const lam_kernels *k, const candidate *c, const arrays *a, size_t rows)
{
    const size_t stride = lam_row_stride(WIDTH);
    const lam_norm_run r = {
        .kernels = k,
        .spec = &c->spec,
        .source = c->spec.source,
        .params = {.gain = a->gain,
                   .bias = a->bias,
                   .mean = a->mean,
                   .square = a->scale,
                   .scale = a->scale,
                   .factor = 1.0f,
                   .alpha = c->spec.kind == LAM_NORM_DYT || c->spec.kind == LAM_NORM_DERF ||
                                    c->spec.kind == LAM_NORM_REPBN
                                ? 0.5f
                                : 0.0f},
        .width = WIDTH,
        .rows = rows,
        .x = a->x,
        .x_stride = stride,
        .y = a->y,
        .y_stride = stride,
        .sums = a->sums,
        .affine = a->affine,
    };
    lam_norm_run_kind(&r);
}

static void copy(const arrays *a, size_t rows)
{
    memcpy(a->y, a->x, rows * lam_row_stride(WIDTH) * sizeof *a->y);
    __asm__ volatile("" : : "r"(a->y) : "memory");
}

/* Nanoseconds a row of the kind and of a copy, medians of rounds that take turns. */
static void time_kind(const lam_kernels *k, const candidate *c, const arrays *a, size_t rows,
                      double *norm_ns, double *copy_ns)
{
    const size_t repeats = ROWS_A_ROUND / rows;
    double norm[ROUNDS], plain[ROUNDS];
    for (size_t round = 0; round < ROUNDS; round++) {
        double began = now_ms();
        for (size_t i = 0; i < repeats; i++)
            copy(a, rows);
        plain[round] = now_ms() - began;
        began = now_ms();
        for (size_t i = 0; i < repeats; i++)
            run(k, c, a, rows);
        norm[round] = now_ms() - began;
    }
    *norm_ns = median(norm, ROUNDS) * 1e6 / ROWS_A_ROUND;
    *copy_ns = median(plain, ROUNDS) * 1e6 / ROWS_A_ROUND;
}

/* Nanoseconds a layer of the model at 1x128, or 0 without a model. */
static double layer_ns(const char *path)
{
    if (!path) return 0.0;
    lam_model *m = NULL;
    lam_ctx *ctx = NULL;
    lam_err err = {0};
    const lam_open_opts opts = lam_open_opts_default();
    if (lam_import_model(&m, path, &opts, &err) != LAM_OK ||
        lam_ctx_new(&ctx, m, lam_model_get_info(m)->positions, &err) != LAM_OK) {
        fprintf(stderr, "bench_norms: %s: %s\n", err.where, err.message);
        exit(2);
    }
    const lam_model_info *info = lam_model_get_info(m);
    const lam_encode_opts encode = lam_encode_opts_default(m);
    int32_t ids[LAYER_ROWS];
    for (size_t i = 0; i < LAYER_ROWS; i++)
        ids[i] = (int32_t)(i % info->vocab);
    float *out = floats(info->width);
    lam_item item = {.ids = ids, .tokens = LAYER_ROWS, .opts = &encode, .out = out};
    if (lam_item_check(m, &item, NULL, &err) != LAM_OK) exit(2);
    double ms[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) {
        const double began = now_ms();
        (void)lam_encode(ctx, &item, 1, NULL);
        ms[i] = now_ms() - began;
    }
    const double ns = median(ms, ROUNDS) * 1e6 / (double)info->layers;
    free(out);
    lam_ctx_free(ctx);
    lam_model_close(m);
    return ns;
}

static candidate of(const char *name, lam_norm_kind kind, lam_norm_source source)
{
    candidate c = {.name = name, .spec = lam_norm_spec_default(kind)};
    c.spec.source = source;
    if (c.spec.eps == 0.0) c.spec.eps = 1e-5;
    if (kind == LAM_NORM_GROUP || kind == LAM_NORM_POWER) c.spec.groups = 12;
    if (kind == LAM_NORM_PRMS) c.spec.p = 0.0625;
    if (kind == LAM_NORM_ADA) c.spec.c = 1.0;
    return c;
}

static size_t list_kinds(candidate *out)
{
    size_t n = 0;
    for (int kind = LAM_NORM_NONE; kind < LAM_NORM_KIND_COUNT; kind++) {
        const lam_norm_info *info = lam_norm_get_info((lam_norm_kind)kind);
        for (int source = 0; source < LAM_NORM_FROM_COUNT; source++)
            if (lam_norm_has_source(info, (lam_norm_source)source))
                out[n++] = of(lam_norm_kind_name((lam_norm_kind)kind), (lam_norm_kind)kind,
                              (lam_norm_source)source);
    }
    return n;
}

int main(int argc, char **argv)
{
    static candidate kinds[LAM_NORM_KIND_COUNT * LAM_NORM_FROM_COUNT];
    const size_t count = list_kinds(kinds);
    const double layer = layer_ns(argc > 1 ? argv[1] : NULL);
    const arrays a = make_arrays();
    lam_kernels k;
    const lam_isa isa = lam_open_opts_default().isa;
    lam__kernels_init(&k, isa);
    printf("%s, width %d; ns a row, and share of memcpy's bandwidth over the same rows\n",
           lam_isa_name(isa), WIDTH);
    printf("%-14s %-9s", "kind", "source");
    for (size_t f = 0; f < FOOTPRINTS; f++)
        printf("  %5zu rows      ", footprints[f]);
    printf(layer > 0.0 ? "  of a layer\n" : "\n");
    for (size_t i = 0; i < count; i++) {
        printf("%-14s %-9s", kinds[i].name, lam_norm_source_name(kinds[i].spec.source));
        double norm = 0.0, plain = 0.0;
        for (size_t f = 0; f < FOOTPRINTS; f++) {
            time_kind(&k, &kinds[i], &a, footprints[f], &norm, &plain);
            printf("  %7.1f  %4.0f %%", norm, 100.0 * plain / norm);
        }
        if (layer > 0.0) {
            time_kind(&k, &kinds[i], &a, LAYER_ROWS, &norm, &plain);
            printf("      %6.2f %%", 100.0 * norm * LAYER_ROWS / layer);
        }
        printf("\n");
        (void)fflush(stdout);
    }
    return 0;
}
