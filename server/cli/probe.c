#include "server/cli/probe.h"

#include <math.h>
#include <stdlib.h>

#include "server/cli/inputs.h"
#include "server/cli/sample.h"

enum { RANDOM_SEQUENCES = 48, LONGEST = 128, TIMED_SEQUENCES = 8, WARM_ROUNDS = 3 };

#define MAX_ARENA_BYTES ((size_t)1 << 30)

static lam_status no_memory(lam_err *err)
{
    return lam_fail(err, LAM_E_NOMEM, "", "no memory for the probe inputs");
}

lam_status cli_probe_open(cli_probe *p, lam_model *first, lam_model *second, lam_err *err)
{
    const lam_model_info *info = lam_model_get_info(first);
    *p = (cli_probe){.models = {first, second}, .opts = lam_encode_opts_default(first)};
    lam_arena_init(&p->arena, MAX_ARENA_BYTES);
    p->opts.pool = LAM_POOL_NONE;
    p->opts.normalize = false;
    p->ids = calloc(info->positions, sizeof *p->ids);
    for (size_t i = 0; i < 2; i++) {
        const size_t timed = (size_t)TIMED_SEQUENCES * LONGEST;
        p->rows[i] = calloc(info->positions * info->width, sizeof **p->rows);
        if (!p->rows[i] || !p->ids) return no_memory(err);
        LAM_TRY(lam_ctx_new(&p->contexts[i], p->models[i],
                            timed > info->positions ? timed : info->positions, err));
    }
    return LAM_OK;
}

void cli_probe_close(cli_probe *p)
{
    for (size_t i = 0; i < 2; i++) {
        lam_ctx_free(p->contexts[i]);
        free(p->rows[i]);
    }
    free(p->ids);
    lam_arena_fini(&p->arena);
}

/* ---- Differences ----------------------------------------------------------------------------- */

static void compare_row(const float *a, const float *b, size_t width, cli_difference *d)
{
    double aa = 0.0, bb = 0.0, ab = 0.0;
    for (size_t c = 0; c < width; c++) {
        const double x = (double)a[c], y = (double)b[c];
        d->largest = fmax(d->largest, fabs(x - y));
        d->scale = fmax(d->scale, fabs(x));
        aa += x * x, bb += y * y, ab += x * y;
    }
    if (aa > 0.0 && bb > 0.0) d->cosine = fmin(d->cosine, ab / sqrt(aa * bb));
}

static lam_status compare(cli_probe *p, const int32_t *ids, size_t tokens, cli_difference *d,
                          lam_err *err)
{
    const size_t width = lam_model_get_info(p->models[0])->width;
    size_t finite = 0;
    for (size_t i = 0; i < 2; i++) {
        lam_item item = {.ids = ids, .tokens = tokens, .opts = &p->opts, .out = p->rows[i]};
        LAM_TRY(lam_item_check(p->models[i], &item, NULL, err));
        LAM_TRY(lam_request_check(p->models[i], &p->opts, tokens, SIZE_MAX, err));
        LAM_TRY(lam_encode(p->contexts[i], &item, 1, NULL));
        finite += item.status == LAM_OK;
    }
    d->sequences++;
    d->tokens += tokens;
    d->failed += finite == 0;
    if (finite == 1) d->largest = (double)INFINITY;
    for (size_t r = 0; finite == 2 && r < tokens; r++)
        compare_row(p->rows[0] + r * width, p->rows[1] + r * width, width, d);
    return LAM_OK;
}

double cli_relative(const cli_difference *d)
{
    if (d->largest > 0.0 && d->scale <= 0.0) return (double)INFINITY;
    return d->scale > 0.0 ? d->largest / d->scale : 0.0;
}

static size_t longest(const cli_probe *p)
{
    const size_t positions = lam_model_get_info(p->models[0])->positions;
    return positions < LONGEST ? positions : LONGEST;
}

lam_status cli_probe_random(cli_probe *p, uint64_t seed, cli_difference *out, lam_err *err)
{
    uint64_t random = seed;
    *out = (cli_difference){.cosine = 1.0};
    for (size_t i = 0; i < RANDOM_SEQUENCES; i++) {
        /* From 2: some norms cannot measure a single row. */
        size_t tokens = 2 + cli_random(&random) % LONGEST;
        if (tokens > longest(p)) tokens = longest(p);
        cli_random_ids(p->models[0], p->ids, tokens, &random);
        LAM_TRY(compare(p, p->ids, tokens, out, err));
    }
    return LAM_OK;
}

lam_status cli_probe_texts(cli_probe *p, const char *path, cli_difference *out, lam_err *err)
{
    cli_inputs in = {0};
    lam_status s = cli_inputs_read(&in, p->models[0], path, err);
    *out = (cli_difference){.cosine = 1.0};
    for (size_t i = 0; s == LAM_OK && i < in.request.item_count; i++)
        s = compare(p, in.request.items[i].ids, in.request.items[i].tokens, out, err);
    cli_inputs_free(&in);
    return s;
}

/* ---- Times ----------------------------------------------------------------------------------- */

static lam_status make_batch(cli_probe *p, uint64_t seed, const lam_encode_opts *opts,
                             lam_item items[TIMED_SEQUENCES], lam_err *err)
{
    const size_t tokens = longest(p), width = lam_model_get_info(p->models[0])->width;
    uint64_t random = seed;
    lam_arena_reset(&p->arena);
    for (size_t i = 0; i < TIMED_SEQUENCES; i++) {
        int32_t *ids = lam_arena_calloc(&p->arena, tokens, sizeof *ids);
        float *out = lam_arena_calloc(&p->arena, width, sizeof *out);
        if (!ids || !out) return no_memory(err);
        cli_random_ids(p->models[0], ids, tokens, &random);
        items[i] = (lam_item){.ids = ids, .tokens = tokens, .opts = opts, .index = i, .out = out};
        LAM_TRY(lam_item_check(p->models[0], &items[i], NULL, err));
    }
    return LAM_OK;
}

/* In turns, so that a change of the machine's speed is in both. */
lam_status cli_probe_time(cli_probe *p, uint64_t seed, size_t rounds, cli_times *out, lam_err *err)
{
    lam_encode_opts opts = p->opts;
    lam_item items[TIMED_SEQUENCES];
    double ms[2][CLI_PROBE_ROUNDS];
    opts.pool = LAM_POOL_MEAN;
    LAM_TRY(make_batch(p, seed, &opts, items, err));
    for (size_t i = 0; i < rounds + WARM_ROUNDS; i++) {
        for (size_t k = 0; k < 2; k++) {
            const double start = cli_now_ms();
            LAM_TRY(lam_encode(p->contexts[k], items, TIMED_SEQUENCES, NULL));
            if (i >= WARM_ROUNDS) ms[k][i - WARM_ROUNDS] = cli_now_ms() - start;
        }
    }
    cli_sort(ms[0], rounds);
    cli_sort(ms[1], rounds);
    *out = (cli_times){.sequences = TIMED_SEQUENCES,
                       .tokens = TIMED_SEQUENCES * longest(p),
                       .rounds = rounds,
                       .ms = {cli_median(ms[0], rounds), cli_median(ms[1], rounds)}};
    return LAM_OK;
}
