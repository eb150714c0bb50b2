/* Level full: the tiny model's layers, and the participation ratio, against slow formulas. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cpu.h"
#include "core/stats/layer.h"
#include "core/stats/population.h"
#include "core/stats/spread.h"
#include "tests/unit/core/tiny_model.h"

enum { ITEMS = 6, ARENA = 16 << 20 };

static const size_t lengths[ITEMS] = {3, 1, TINY_POSITIONS, 7, 20, 2};

typedef struct request {
    int32_t ids[ITEMS][TINY_POSITIONS];
    float out[ITEMS][TINY_WIDTH];
    lam_item items[ITEMS];
    size_t count, rows;
    lam_encode_opts opts;
    lam_arena arena;
    lam_stats *stats;
} request;

static const lam_stats_opts full = {.level = LAM_STATS_FULL, .per_item = ITEMS};

static request *request_new(const lam_model *m, const lam_stats_opts *o, size_t count)
{
    request *r = calloc(1, sizeof *r);
    r->opts = lam_encode_opts_default(m);
    r->count = count;
    lam_arena_init(&r->arena, ARENA);
    for (size_t i = 0; i < count; i++)
        r->rows += lengths[i];
    if (o) {
        lam_stats_opts stats = *o;
        size_t bytes;
        stats.max_rows = r->rows;
        cr_assert_eq(lam_stats_bytes(m, &stats, &bytes, NULL), LAM_OK);
        cr_assert_eq(lam_stats_new(&r->stats, &r->arena, m, &stats, NULL), LAM_OK);
        cr_expect_leq(r->arena.used_bytes, bytes, "lam_stats_bytes is a bound");
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t t = 0; t < lengths[i]; t++)
            r->ids[i][t] = (int32_t)((i * 31 + t * 7) % TINY_VOCAB);
        r->items[i] = (lam_item){.ids = r->ids[i],
                                 .tokens = lengths[i],
                                 .opts = &r->opts,
                                 .stats = r->stats,
                                 .index = i,
                                 .out = r->out[i]};
        cr_assert_eq(lam_item_check(m, &r->items[i], NULL, NULL), LAM_OK);
    }
    return r;
}

static void request_free(request *r)
{
    lam_arena_fini(&r->arena);
    free(r);
}

static void run(const lam_model *m, lam_item *items, size_t count, size_t rows, size_t step)
{
    lam_ctx *c;
    cr_assert_eq(lam_ctx_new(&c, m, rows, NULL), LAM_OK);
    for (size_t i = 0; i < count; i += step)
        cr_assert_eq(lam_encode(c, items + i, i + step < count ? step : count - i, NULL), LAM_OK);
    lam_ctx_free(c);
}

/* ---- Slow formulas ---- */

static double slow_participation(const double *x, size_t rows, size_t width)
{
    double *mean = calloc(width, sizeof *mean), trace = 0, squares = 0;
    for (size_t i = 0; i < rows * width; i++)
        mean[i % width] += x[i] / (double)rows;
    for (size_t a = 0; a < width; a++)
        for (size_t b = 0; b < width; b++) {
            double c = 0;
            for (size_t r = 0; r < rows; r++)
                c += (x[r * width + a] - mean[a]) * (x[r * width + b] - mean[b]) / (double)rows;
            trace += a == b ? c : 0;
            squares += c * c;
        }
    free(mean);
    return rows < 2 || trace <= 0 ? (double)NAN : trace * trace / squares;
}

static double cosine(const double *a, const double *b)
{
    double aa = 0, bb = 0, ab = 0;
    for (size_t c = 0; c < TINY_WIDTH; c++)
        aa += a[c] * a[c], bb += b[c] * b[c], ab += a[c] * b[c];
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

typedef struct slow_sums {
    double cosines, similarities, pairs, tokens;
    double *rows; /* [tokens, TINY_WIDTH] of the layer's output */
} slow_sums;

static void add_item(slow_sums *s, const request *r, size_t item, size_t layer)
{
    static const int32_t zeros[TINY_POSITIONS];
    int32_t positions[TINY_POSITIONS];
    const size_t n = lengths[item];
    for (size_t t = 0; t < n; t++)
        positions[t] = (int32_t)t;
    double *states = malloc((TINY_LAYERS + 1) * n * TINY_WIDTH * sizeof *states);
    tiny_forward(r->ids[item], zeros, positions, n, states);
    const double *x = states + layer * n * TINY_WIDTH, *y = x + n * TINY_WIDTH;
    memcpy(s->rows + (size_t)s->tokens * TINY_WIDTH, y, n * TINY_WIDTH * sizeof *y);
    for (size_t t = 0; t < n; t++) {
        s->cosines += cosine(x + t * TINY_WIDTH, y + t * TINY_WIDTH);
        for (size_t u = 0; u < n; u++)
            if (u != t) s->similarities += cosine(y + t * TINY_WIDTH, y + u * TINY_WIDTH);
    }
    s->pairs += (double)(n * (n - 1));
    s->tokens += (double)n;
    free(states);
}

static void expect_near(double got, double want, const char *what)
{
    if (isnan(want)) {
        cr_expect(isnan(got), "%s: %.9g, expected none", what, got);
        return;
    }
    cr_expect_lt(fabs(got - want), 2e-5 * fmax(1, fabs(want)), "%s: %.9g, expected %.9g", what, got,
                 want);
}

static void check_items(const request *r, size_t first, size_t last, size_t layer,
                        const lam_layer_stats *got)
{
    slow_sums s = {.rows = malloc(r->rows * TINY_WIDTH * sizeof *s.rows)};
    for (size_t i = first; i <= last; i++)
        add_item(&s, r, i, layer);
    expect_near(got->values[LAM_LAYER_LAYER_COSINE], s.cosines / s.tokens, "layer_cosine");
    expect_near(got->values[LAM_LAYER_TOKEN_SIMILARITY],
                s.pairs > 0 ? s.similarities / s.pairs : (double)NAN, "token_similarity");
    expect_near(got->values[LAM_LAYER_PARTICIPATION_RATIO],
                slow_participation(s.rows, (size_t)s.tokens, TINY_WIDTH), "participation_ratio");
    free(s.rows);
}

Test(layer_stats, requests_and_items_follow_the_formulas)
{
    lam_model *m = tiny_model_default();
    request *r = request_new(m, &full, ITEMS);
    run(m, r->items, ITEMS, 64, ITEMS);
    for (size_t layer = 0; layer < TINY_LAYERS; layer++) {
        lam_layer_stats got;
        cr_assert(lam_stats_read_layer(r->stats, layer, &got));
        cr_expect_eq(got.heads, TINY_HEADS);
        check_items(r, 0, ITEMS - 1, layer, &got);
        for (size_t i = 0; i < ITEMS; i++) {
            cr_assert(lam_stats_read_item_layer(r->stats, i, layer, &got));
            check_items(r, i, i, layer, &got);
        }
    }
    lam_layer_stats got;
    cr_expect_not(lam_stats_read_layer(r->stats, TINY_LAYERS, &got));
    cr_expect_not(lam_stats_read_item_layer(r->stats, ITEMS, 0, &got));
    request_free(r);
    lam_model_close(m);
}

Test(layer_stats, a_single_token_has_neither_pairs_nor_spread)
{
    lam_model *m = tiny_model_default();
    request *r = request_new(m, &full, ITEMS);
    lam_layer_stats got;
    run(m, r->items, ITEMS, 64, ITEMS);
    cr_assert(lam_stats_read_item_layer(r->stats, 1, 0, &got));
    cr_expect(isnan(got.values[LAM_LAYER_TOKEN_SIMILARITY]));
    cr_expect(isnan(got.values[LAM_LAYER_PARTICIPATION_RATIO]));
    for (size_t h = 0; h < got.heads; h++) {
        cr_expect_eq(got.head_values[LAM_HEAD_ENTROPY][h], 0.0);
        cr_expect_eq(got.head_values[LAM_HEAD_SINK][h], 1.0);
    }
    request_free(r);
    lam_model_close(m);
}

/* ---- Bits ---- */

static void expect_same_layers(const request *a, const request *b, size_t layer)
{
    lam_layer_stats x, y;
    double heads[LAM_HEAD_VALUE_COUNT][TINY_HEADS];
    cr_assert(lam_stats_read_layer(a->stats, layer, &x));
    for (size_t i = 0; i < LAM_HEAD_VALUE_COUNT; i++)
        memcpy(heads[i], x.head_values[i], sizeof heads[i]);
    cr_assert(lam_stats_read_layer(b->stats, layer, &y));
    cr_expect_arr_eq(x.values, y.values, sizeof x.values);
    for (size_t i = 0; i < LAM_HEAD_VALUE_COUNT; i++)
        cr_expect_arr_eq(heads[i], y.head_values[i], sizeof heads[i]);
}

Test(layer_stats, bits_do_not_depend_on_batching_and_do_not_touch_the_vectors)
{
    lam_model *m = tiny_model_default();
    request *plain = request_new(m, NULL, ITEMS), *want = request_new(m, &full, ITEMS);
    run(m, plain->items, ITEMS, 64, 1);
    run(m, want->items, ITEMS, 1000, ITEMS);
    cr_expect_arr_eq(want->out, plain->out, sizeof plain->out);
    for (size_t step = 1; step < ITEMS; step++) {
        request *r = request_new(m, &full, ITEMS);
        run(m, r->items, ITEMS, 32 + 5 * step, step);
        cr_expect_arr_eq(r->out, plain->out, sizeof r->out);
        for (size_t layer = 0; layer < TINY_LAYERS; layer++)
            expect_same_layers(r, want, layer);
        request_free(r);
    }
    request_free(plain);
    request_free(want);
    lam_model_close(m);
}

Test(layer_stats, levels_side_by_side_keep_everyones_bits)
{
    lam_model *m = tiny_model_default();
    const lam_stats_opts summary = {.level = LAM_STATS_SUMMARY};
    request *plain = request_new(m, NULL, ITEMS), *with = request_new(m, &full, ITEMS);
    request *some = request_new(m, &summary, ITEMS), *alone = request_new(m, &full, ITEMS);
    lam_item mixed[3 * ITEMS];
    for (size_t i = 0; i < ITEMS; i++) {
        mixed[3 * i] = plain->items[i];
        mixed[3 * i + 1] = with->items[i];
        mixed[3 * i + 2] = some->items[i];
    }
    run(m, alone->items, ITEMS, 64, 1);
    run(m, mixed, 3 * ITEMS, 1000, 3 * ITEMS);
    cr_expect_arr_eq(plain->out, alone->out, sizeof plain->out);
    cr_expect_arr_eq(with->out, alone->out, sizeof plain->out);
    cr_expect_arr_eq(some->out, alone->out, sizeof plain->out);
    for (size_t layer = 0; layer < TINY_LAYERS; layer++)
        expect_same_layers(with, alone, layer);
    lam_layer_stats got;
    cr_expect_not(lam_stats_read_layer(some->stats, 0, &got), "level summary has no such numbers");
    request_free(plain), request_free(with), request_free(some), request_free(alone);
    lam_model_close(m);
}

Test(layer_stats, layers_and_attention_can_be_left_out)
{
    lam_model *m = tiny_model_default();
    const bool layers[TINY_LAYERS] = {false, true, false};
    lam_stats_opts o = full;
    lam_layer_stats got;
    o.layers = layers;
    o.skip_attention = true;
    request *r = request_new(m, &o, 2);
    run(m, r->items, 2, 64, 2);
    cr_expect_not(lam_stats_read_layer(r->stats, 0, &got));
    cr_assert(lam_stats_read_layer(r->stats, 1, &got));
    cr_expect(isnan(got.head_values[LAM_HEAD_ENTROPY][0]));
    cr_expect(isfinite(got.values[LAM_LAYER_LAYER_COSINE]));
    request_free(r);
    lam_model_close(m);
}

/* One item's rows are spoilt: the request's numbers are those of the others. */
Test(layer_stats, rows_that_are_not_finite_are_left_out)
{
    const lam_open_opts opts = lam_open_opts_default();
    const size_t spoilt = 31 % TINY_VOCAB; /* the only id of item 1 */
    const tiny_fault fault = {LAM_MODULE_WORD_EMBEDDING, LAM_LAYER_NONE, "weight",
                              spoilt * TINY_WIDTH, NAN};
    lam_model *bad = tiny_model_new(&opts, &fault), *good = tiny_model_default();
    request *r = request_new(bad, &full, 2), *want = request_new(good, &full, 1);
    run(bad, r->items, 2, 64, 2);
    run(good, want->items, 1, 64, 1);
    cr_expect_eq(r->items[1].status, LAM_E_NON_FINITE);
    for (size_t layer = 0; layer < TINY_LAYERS; layer++) {
        lam_layer_stats got;
        expect_same_layers(r, want, layer);
        cr_assert(lam_stats_read_item_layer(r->stats, 1, layer, &got));
        for (size_t i = 0; i < LAM_LAYER_VALUE_COUNT; i++)
            cr_expect(isnan(got.values[i]), "%s", lam_layer_value_name((lam_layer_value)i));
        cr_expect(isnan(got.head_values[LAM_HEAD_SINK][0]));
    }
    request_free(r), request_free(want);
    lam_model_close(bad), lam_model_close(good);
}

/* ---- Population statistics alone ---- */

enum { CHANNELS = 7, MOST_ROWS = 11 };

static lam_channel_sums sums_of(const double *x, size_t rows, double *mean, double *squares,
                                bool around_zero)
{
    for (size_t c = 0; c < CHANNELS; c++) {
        mean[c] = squares[c] = 0;
        for (size_t r = 0; r < rows && !around_zero; r++)
            mean[c] += x[r * CHANNELS + c] / (double)rows;
        for (size_t r = 0; r < rows; r++)
            squares[c] += pow(x[r * CHANNELS + c] - mean[c], 2);
    }
    return (lam_channel_sums){.rows = rows, .mean = mean, .squares = squares};
}

Test(layer_stats, channel_sums_of_parts_are_those_of_the_whole)
{
    double x[MOST_ROWS * CHANNELS], v[6][CHANNELS];
    for (size_t i = 0; i < MOST_ROWS * CHANNELS; i++)
        x[i] = 1e4 + sin((double)(i * i));
    for (size_t cut = 0; cut <= MOST_ROWS; cut++) {
        lam_channel_sums whole = sums_of(x, MOST_ROWS, v[0], v[1], false);
        lam_channel_sums a = sums_of(x, cut, v[2], v[3], false);
        lam_channel_sums b = sums_of(x + cut * CHANNELS, MOST_ROWS - cut, v[4], v[5], false);
        lam__channel_sums_merge(&a, &b, CHANNELS);
        cr_expect_eq(a.rows, whole.rows);
        for (size_t c = 0; c < CHANNELS; c++) {
            cr_expect_lt(fabs(a.mean[c] - whole.mean[c]), 1e-10);
            cr_expect_lt(fabs(a.squares[c] - whole.squares[c]), 1e-9 * whole.squares[c]);
        }
    }
}

/* Means 1 apart and variances 4 against 1, eps 0: the definitions by hand. */
Test(layer_stats, population_by_hand)
{
    lam_norm_spec spec = lam_norm_spec_default(LAM_NORM_BATCH);
    const float mean[CHANNELS] = {2, 2, 2, 2, 2, 2, 2}, square[CHANNELS] = {4, 4, 4, 4, 4, 4, 4};
    double m[CHANNELS], s[CHANNELS];
    const double D = CHANNELS;
    lam_population_stats got;
    for (size_t c = 0; c < CHANNELS; c++)
        m[c] = 1.0, s[c] = 3.0; /* variance 1 over 3 rows */
    lam_channel_sums sums = {.rows = 3, .mean = m, .squares = s};
    spec.eps = 0.0;
    spec.eps_mode = LAM_EPS_VARIANCE;
    lam__population_compare(&(lam_stored_statistics){&spec, mean, square, CHANNELS}, &sums, &got);
    cr_expect_eq(got.form, LAM_POPULATION_OF_MEAN_AND_VARIANCE);
    expect_near(got.values[LAM_POPULATION_MEAN_DISTANCE], sqrt(D) / D, "mean_distance");
    expect_near(got.values[LAM_POPULATION_VARIANCE_DISTANCE], 3 * sqrt(D) / D, "variance_distance");
    expect_near(got.values[LAM_POPULATION_MEAN_TID], 1.0, "mean_tid");
    expect_near(got.values[LAM_POPULATION_VARIANCE_TID], 1.0, "variance_tid");
    cr_expect(isnan(got.values[LAM_POPULATION_SECOND_MOMENT_TID]));
    spec.kind = LAM_NORM_POWER_V;
    lam__population_compare(&(lam_stored_statistics){&spec, mean, square, CHANNELS}, &sums, &got);
    cr_expect(got.form == LAM_POPULATION_OF_MEAN_SQUARE &&
              isnan(got.values[LAM_POPULATION_MEAN_TID]));
    expect_near(got.values[LAM_POPULATION_SECOND_MOMENT_TID], 1.0, "second_moment_tid");
    sums.rows = 0;
    lam__population_compare(&(lam_stored_statistics){&spec, mean, square, CHANNELS}, &sums, &got);
    cr_expect(isnan(got.values[LAM_POPULATION_SECOND_MOMENT_DISTANCE]), "no rows, no distance");
}

Test(layer_stats, squashed_is_what_the_function_flattens)
{
    static const float alphas[] = {0.5f, -0.5f, 2.0f, 0.0f}, shifts[] = {0.0f, 0.7f, -3.0f};
    for (size_t i = 0; i < 24; i++) {
        const lam_norm_kind kind = i < 12 ? LAM_NORM_DYT : LAM_NORM_DERF;
        const float alpha = alphas[i % 4], shift = shifts[i / 4 % 3];
        const lam_squash_range range = lam__squash_range(kind, alpha, shift);
        for (int step = 0; step < 2400; step++) {
            const double x = -12.005 + 0.01 * step;
            const double u = (double)alpha * x;
            const double y = kind == LAM_NORM_DYT ? tanh(u) : erf(u + (double)shift);
            const bool flat = x < (double)range.low || x > (double)range.high;
            if (fabs(fabs(y) - 0.95) < 1e-6) continue;
            cr_assert_eq(flat, fabs(y) > 0.95, "kind %d alpha %g shift %g x %g", kind,
                         (double)alpha, (double)shift, x);
        }
    }
}

static int by_size(const void *a, const void *b)
{
    const float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);
    return (x > y) - (x < y);
}

Test(layer_stats, median_of_sizes_is_that_of_the_sorted)
{
    enum { WIDTH = 5, STRIDE = 8, MOST = 9 };
    for (size_t rows = 1; rows <= MOST; rows++)
        for (int magnitude = -40; magnitude <= 38; magnitude += 13) {
            float x[MOST * STRIDE], sorted[MOST * WIDTH];
            size_t n = 0;
            for (size_t i = 0; i < rows * STRIDE; i++)
                x[i] = (float)(sin((double)(i * i)) * pow(10, magnitude));
            if (rows > 2) x[1] = NAN, x[STRIDE] = -INFINITY;
            for (size_t i = 0; i < rows * STRIDE; i++)
                if (i % STRIDE < WIDTH && isfinite(x[i])) sorted[n++] = x[i];
            qsort(sorted, n, sizeof *sorted, by_size);
            cr_expect_eq(lam__median_size(x, STRIDE, rows, WIDTH, n), fabsf(sorted[(n - 1) / 2]));
        }
}

/* Two values far out, one that is large but not beyond 1000 medians, one below 100. */
Test(layer_stats, massive_activations_are_beyond_both_limits)
{
    enum { ROWS = 4 };
    lam_model *m = tiny_model_default();
    lam_arena arena;
    lam_layers f;
    lam_layer_stats got;
    float x[ROWS * TINY_WIDTH];
    const lam_stats_opts o = {.level = LAM_STATS_FULL, .max_rows = 2 * ROWS};
    lam_arena_init(&arena, ARENA);
    cr_assert(lam__layers_init(&f, &arena, m, &o));
    for (size_t i = 0; i < ROWS * TINY_WIDTH; i++)
        x[i] = i % 2 ? 0.2f : -0.2f;
    x[3] = 250.0f, x[TINY_WIDTH] = -201.0f, x[5] = 150.0f, x[6] = 99.0f;
    const lam_measured rows = {.what = LAM_MEASURE_LAYER,
                               .rows = ROWS,
                               .x = x,
                               .x_stride = TINY_WIDTH,
                               .width = TINY_WIDTH,
                               .y = x,
                               .y_stride = TINY_WIDTH,
                               .scale = 1.0f};
    lam__layers_add(&f, 0, 1, &rows);
    cr_assert(lam__layers_read(&f, 1, &got));
    cr_expect_eq(got.values[LAM_LAYER_MASSIVE_ACTIVATIONS], 2.0);
    x[3] = 0.2f;
    lam__layers_add(&f, 1, 1, &rows);
    cr_assert(lam__layers_read(&f, 1, &got));
    cr_expect_eq(got.values[LAM_LAYER_MASSIVE_ACTIVATIONS], 3.0, "items add up");
    cr_assert(lam__layers_read(&f, 0, &got));
    cr_expect(isnan(got.values[LAM_LAYER_MASSIVE_ACTIVATIONS]), "nothing came");
    lam_arena_fini(&arena);
    lam_model_close(m);
}

/* ---- Participation ratio alone ---- */

static void check_spread(const lam_kernels *k, size_t rows, size_t width, float offset)
{
    lam_arena arena;
    lam_spread p;
    lam_spread_scratch s;
    float *x = calloc(rows * width, sizeof *x), *keep = calloc(rows, sizeof *keep);
    double *exact = calloc(rows * width, sizeof *exact);
    lam_arena_init(&arena, ARENA);
    for (size_t i = 0; i < rows * width; i++) {
        const float wave = sinf((float)(i * i % 1009)) * (1.0f + 3.0f * (float)(i % width == 0));
        x[i] = offset * (float)(i % 3) + wave;
        exact[i] = (double)x[i];
    }
    for (size_t i = 0; i < rows; i++)
        keep[i] = 1.0f;
    cr_assert(lam__spread_init(&p, &arena, width, rows));
    cr_assert(lam__spread_scratch_init(&s, &arena, width, rows));
    cr_expect_leq(arena.used_bytes,
                  lam__spread_bytes(width, rows) + lam__spread_scratch_bytes(width, rows));
    for (size_t i = 0, step = 1; i < rows; i += step, step = 1 + step % 7) {
        const size_t n = i + step < rows ? step : rows - i;
        lam__spread_add(&p, &s, k, x + i * width, width, n, keep);
    }
    const double want = slow_participation(exact, rows, width);
    expect_near(lam__spread_read(&p, &s, k), want, "bit by bit");
    expect_near(lam__spread_of(&s, k, x, width, rows, keep), want, "at once");
    lam_arena_fini(&arena);
    free(x), free(keep), free(exact);
}

Test(layer_stats, participation_of_few_and_of_many_rows)
{
    static const size_t widths[] = {1, 5, 32, 33, 70};
    static const size_t rows[] = {1, 2, 5, 31, 33, 70, 71, 200};
    for (int isa = 0; isa < LAM_ISA_COUNT; isa++) {
        lam_kernels k;
        if (!lam_cpu_supports((lam_isa)isa)) continue;
        lam__kernels_init(&k, (lam_isa)isa);
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
                check_spread(&k, rows[r], widths[w], 0.0f);
                check_spread(&k, rows[r], widths[w], 1000.0f);
            }
    }
}

Test(layer_stats, equal_rows_have_no_participation_ratio)
{
    enum { WIDTH = 40, ROWS = 90 };
    lam_kernels k;
    lam_arena arena;
    lam_spread p;
    lam_spread_scratch s;
    float x[WIDTH];
    const float keep = 1.0f;
    lam__kernels_init(&k, lam_cpu_best());
    lam_arena_init(&arena, ARENA);
    for (size_t c = 0; c < WIDTH; c++)
        x[c] = 0.1f * (float)c + 0.3f;
    cr_assert(lam__spread_init(&p, &arena, WIDTH, ROWS));
    cr_assert(lam__spread_scratch_init(&s, &arena, WIDTH, ROWS));
    for (size_t i = 0; i < ROWS; i++)
        lam__spread_add(&p, &s, &k, x, WIDTH, 1, &keep);
    cr_expect(isnan(lam__spread_read(&p, &s, &k)));
    lam_arena_fini(&arena);
}
