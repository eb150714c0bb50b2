/* Summary statistics of the tiny model against slow formulas over its states. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/core/tiny_model.h"

enum { ITEMS = 5 };

static const size_t lengths[ITEMS] = {3, 1, TINY_POSITIONS, 7, 20};

typedef struct request {
    int32_t ids[ITEMS][TINY_POSITIONS];
    float out[ITEMS][TINY_WIDTH];
    lam_item items[ITEMS];
    lam_encode_opts opts;
    lam_arena arena;
    lam_stats *stats;
} request;

static request *request_new(const lam_model *m, const lam_stats_opts *stats)
{
    request *r = calloc(1, sizeof *r);
    r->opts = lam_encode_opts_default(m);
    lam_arena_init(&r->arena, 1 << 20);
    if (stats) {
        size_t bytes;
        cr_assert_eq(lam_stats_bytes(m, stats, &bytes, NULL), LAM_OK);
        cr_assert_eq(lam_stats_new(&r->stats, &r->arena, m, stats, NULL), LAM_OK);
        cr_expect_leq(r->arena.used_bytes, bytes, "lam_stats_bytes is a bound");
    }
    for (size_t i = 0; i < ITEMS; i++) {
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

static void run(const lam_model *m, request *r, size_t rows, size_t step)
{
    lam_ctx *c;
    cr_assert_eq(lam_ctx_new(&c, m, rows, NULL), LAM_OK);
    for (size_t i = 0; i < ITEMS; i += step)
        cr_assert_eq(lam_encode(c, r->items + i, i + step < ITEMS ? step : ITEMS - i, NULL),
                     LAM_OK);
    lam_ctx_free(c);
}

/* State `state` of items first..last by the formulas, rows packed; returns their number. */
static size_t expected_rows(const request *r, size_t first, size_t last, size_t state, double *out)
{
    static const int32_t zeros[TINY_POSITIONS];
    size_t rows = 0;
    for (size_t i = first; i <= last; i++) {
        int32_t positions[TINY_POSITIONS];
        for (size_t t = 0; t < lengths[i]; t++)
            positions[t] = (int32_t)t;
        double *states = malloc((TINY_LAYERS + 1) * lengths[i] * TINY_WIDTH * sizeof *states);
        tiny_forward(r->ids[i], zeros, positions, lengths[i], states);
        memcpy(out + rows * TINY_WIDTH, states + state * lengths[i] * TINY_WIDTH,
               lengths[i] * TINY_WIDTH * sizeof *out);
        rows += lengths[i];
        free(states);
    }
    return rows;
}

static void expect_near(double got, double want, const char *what)
{
    cr_expect_lt(fabs(got - want), 2e-5 * fmax(1, fabs(want)), "%s: %.9g, expected %.9g", what, got,
                 want);
}

static void check(const lam_site_stats *got, const double *x, size_t rows)
{
    const size_t n = rows * TINY_WIDTH;
    double mean = 0, m2 = 0, m4 = 0, squares = 0, min = x[0], max = x[0], channel[TINY_WIDTH] = {0};
    for (size_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        const double d = x[i] - mean;
        m2 += d * d / (double)n;
        m4 += d * d * d * d / (double)n;
        squares += x[i] * x[i] / (double)n;
        channel[i % TINY_WIDTH] += x[i] * x[i] / (double)rows;
        min = fmin(min, x[i]);
        max = fmax(max, x[i]);
    }
    cr_expect_eq(got->tokens, rows);
    cr_expect_eq(got->nonfinite, 0);
    expect_near(got->mean, mean, "mean");
    expect_near(got->variance, m2, "variance");
    expect_near(got->rms, sqrt(squares), "rms");
    expect_near(got->kurtosis, m4 / (m2 * m2), "kurtosis");
    expect_near(got->min, min, "min");
    expect_near(got->max, max, "max");
    cr_expect_eq(got->channel_count, LAM_STATS_CHANNELS);
    double before = HUGE_VAL;
    for (size_t i = 0; i < got->channel_count; i++) {
        expect_near(got->channels[i].rms, sqrt(channel[got->channels[i].index]), "channel");
        cr_expect_leq(got->channels[i].rms, before);
        before = got->channels[i].rms;
        channel[got->channels[i].index] = -1;
    }
    for (size_t c = 0; c < TINY_WIDTH; c++)
        cr_expect_leq(sqrt(fmax(0, channel[c])), before + 1e-5, "no larger channel was left out");
}

Test(stats, numbers_of_requests_and_items_follow_the_formulas)
{
    lam_model *m = tiny_model_default();
    const lam_stats_opts o = {.level = LAM_STATS_SUMMARY, .per_item = ITEMS};
    request *r = request_new(m, &o);
    run(m, r, 64, ITEMS);
    double *x = malloc((size_t)ITEMS * TINY_POSITIONS * TINY_WIDTH * sizeof *x);
    for (size_t state = 0; state <= TINY_LAYERS; state++) {
        const size_t layer = state == 0 ? LAM_LAYER_NONE : state - 1;
        const lam_site site = state == 0 ? LAM_SITE_EMBEDDING : LAM_SITE_OUTPUT;
        lam_site_stats got;
        cr_assert(lam_stats_read(r->stats, layer, site, &got));
        check(&got, x, expected_rows(r, 0, ITEMS - 1, state, x));
        for (size_t i = 0; i < ITEMS; i++) {
            cr_assert(lam_stats_read_item(r->stats, i, layer, site, &got));
            check(&got, x, expected_rows(r, i, i, state, x));
        }
    }
    free(x);
    request_free(r);
    lam_model_close(m);
}

Test(stats, bits_do_not_depend_on_batching_and_do_not_touch_the_vectors)
{
    lam_model *m = tiny_model_default();
    const lam_stats_opts o = {.level = LAM_STATS_SUMMARY, .per_item = ITEMS};
    request *plain = request_new(m, NULL), *want = request_new(m, &o);
    run(m, plain, 64, 1);
    run(m, want, 1000, ITEMS);
    for (size_t step = 1; step < ITEMS; step++) {
        request *r = request_new(m, &o);
        run(m, r, 32 + 5 * step, step);
        cr_expect_arr_eq(r->out, plain->out, sizeof r->out);
        for (size_t l = 0; l <= TINY_LAYERS; l++)
            for (int site = 0; site < LAM_SITE_COUNT; site++) {
                const size_t layer = l == TINY_LAYERS ? LAM_LAYER_NONE : l;
                lam_site_stats a, b;
                memset(&a, 0, sizeof a);
                memset(&b, 0, sizeof b);
                const bool has = lam_stats_read(r->stats, layer, (lam_site)site, &a);
                cr_expect_eq(has, lam_stats_read(want->stats, layer, (lam_site)site, &b));
                cr_expect_eq(has, lam_model_has_site(m, layer, (lam_site)site));
                cr_expect_arr_eq(&a, &b, sizeof a, "layer %zu site %d", l, site);
            }
        request_free(r);
    }
    request_free(plain);
    request_free(want);
    lam_model_close(m);
}

Test(stats, filters_keep_what_was_asked_for)
{
    lam_model *m = tiny_model_default();
    const bool layers[TINY_LAYERS] = {false, true, false};
    const bool sites[LAM_SITE_COUNT] = {[LAM_SITE_FFN] = true, [LAM_SITE_FINAL] = true};
    const lam_stats_opts o = {.level = LAM_STATS_SUMMARY, .layers = layers, .sites = sites};
    request *r = request_new(m, &o);
    run(m, r, 64, ITEMS);
    lam_site_stats got;
    cr_expect(lam_stats_read(r->stats, 1, LAM_SITE_FFN, &got));
    cr_expect_not(lam_stats_read(r->stats, 0, LAM_SITE_FFN, &got));
    cr_expect_not(lam_stats_read(r->stats, 1, LAM_SITE_ATTENTION, &got));
    cr_expect(lam_stats_read(r->stats, LAM_LAYER_NONE, LAM_SITE_FINAL, &got));
    cr_expect_not(lam_stats_read(r->stats, LAM_LAYER_NONE, LAM_SITE_EMBEDDING, &got));
    cr_expect_not(lam_stats_read(r->stats, 99, LAM_SITE_FFN, &got));
    cr_expect_not(lam_stats_read_item(r->stats, 0, 1, LAM_SITE_FFN, &got));
    request_free(r);
    lam_model_close(m);
}
