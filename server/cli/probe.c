#include "server/cli/probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/tokenizer/tokenizer.h"
#include "server/cli/stream.h"

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

/* splitmix64 (Steele, Lea and Flood 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t longest(const cli_probe *p)
{
    const size_t positions = lam_model_get_info(p->models[0])->positions;
    return positions < LONGEST ? positions : LONGEST;
}

static void random_ids(const cli_probe *p, int32_t *ids, size_t tokens, uint64_t *random)
{
    for (size_t i = 0; i < tokens; i++)
        ids[i] = (int32_t)(next_random(random) % lam_model_get_info(p->models[0])->vocab);
}

lam_status cli_probe_random(cli_probe *p, uint64_t seed, cli_difference *out, lam_err *err)
{
    uint64_t random = seed;
    *out = (cli_difference){.cosine = 1.0};
    for (size_t i = 0; i < RANDOM_SEQUENCES; i++) {
        /* From 2: some norms cannot measure a single row. */
        size_t tokens = 2 + next_random(&random) % LONGEST;
        if (tokens > longest(p)) tokens = longest(p);
        random_ids(p, p->ids, tokens, &random);
        LAM_TRY(compare(p, p->ids, tokens, out, err));
    }
    return LAM_OK;
}

static lam_status compare_text(cli_probe *p, const char *text, size_t bytes, cli_difference *d,
                               lam_err *err)
{
    lam_tokenize_opts o = lam_tokenize_opts_default();
    lam_encoding e = {0};
    o.max_tokens = lam_model_get_info(p->models[0])->max_input_length;
    lam_arena_reset(&p->arena);
    LAM_TRY(lam_tokenize(lam_model_tokenizer(p->models[0]), text, bytes, NULL, 0, &o, false,
                         &p->arena, &e, err));
    return compare(p, e.ids, e.count, d, err);
}

static lam_status compare_lines(cli_probe *p, cli_input *in, cli_difference *d, lam_err *err)
{
    const char *line = NULL;
    size_t bytes = 0;
    char where[96];
    lam_err inner = {0};
    for (uint64_t number = 1;; number++) {
        const cli_line what = cli_input_next(in, true, &line, &bytes);
        (void)snprintf(where, sizeof where, "--texts: line %llu", (unsigned long long)number);
        if (what == CLI_LINE_END) break;
        if (what == CLI_LINE_TOO_LONG)
            return lam_fail(err, LAM_E_INPUT, where, "more than %d bytes", CLI_MAX_LINE_BYTES);
        if (bytes > 0 && compare_text(p, line, bytes, d, &inner) != LAM_OK)
            return lam_fail(err, inner.status, where, "%s", inner.message);
    }
    if (in->error) return lam_fail(err, LAM_E_FILE, in->name, "it cannot be read");
    if (d->sequences == 0) return lam_fail(err, LAM_E_INPUT, "--texts", "%s is empty", in->name);
    return LAM_OK;
}

lam_status cli_probe_texts(cli_probe *p, const char *path, cli_difference *out, lam_err *err)
{
    cli_input in;
    *out = (cli_difference){.cosine = 1.0};
    if (!lam_model_tokenizer(p->models[0]))
        return lam_fail(err, LAM_E_CONFIG, "--texts", "the model has no tokenizer");
    LAM_TRY(cli_input_open(&in, path, err));
    const lam_status s = compare_lines(p, &in, out, err);
    cli_input_close(&in);
    return s;
}

/* ---- Times ----------------------------------------------------------------------------------- */

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int compare_ms(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *ms, size_t n)
{
    qsort(ms, n, sizeof *ms, compare_ms);
    return n % 2 ? ms[n / 2] : 0.5 * (ms[n / 2 - 1] + ms[n / 2]);
}

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
        random_ids(p, ids, tokens, &random);
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
            const double start = now_ms();
            LAM_TRY(lam_encode(p->contexts[k], items, TIMED_SEQUENCES, NULL));
            if (i >= WARM_ROUNDS) ms[k][i - WARM_ROUNDS] = now_ms() - start;
        }
    }
    *out = (cli_times){.sequences = TIMED_SEQUENCES,
                       .tokens = TIMED_SEQUENCES * longest(p),
                       .rounds = rounds,
                       .ms = {median(ms[0], rounds), median(ms[1], rounds)}};
    return LAM_OK;
}
