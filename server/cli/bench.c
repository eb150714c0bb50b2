/* lamina bench: time of the engine alone, on seeded ids. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/cli/cli.h"
#include "server/cli/sample.h"

enum { MAX_ITEMS = 4096, MAX_ROUNDS = 1000, MIXED_SHORTEST = 8, MIXED_LONGEST = 512 };

/* Rounds that are not counted: caches, page tables and the clock settle. */
enum { WARM_ROUNDS = 3 };
static const double WARM_MS = 100.0;

#define BENCH_MAP(X)                                                                       \
    X(LIST, shape, "1x16,1x128,1x512,32x128,mixed64", 1, 4096, "SHAPE[,SHAPE...]",         \
      "BxT: B sequences of T tokens; mixedB: B sequences of 8 to 512")                     \
    X(NUMBER, threads, 1, 1, 64, "N", "threads, each with items and a context of its own") \
    X(NUMBER, rounds, 9, 1, 1000, "N", "timed rounds")                                     \
    X(NUMBER, seed, 1, 0, 4294967295, "N", "of ids and mixed lengths")                     \
    X(NUMBER, max_batch_tokens, 512, 1, 1048576, "TOKENS",                                 \
      "rows of one batch; raised to the model's longest sequence where smaller")           \
    X(CHOICE, statistics, "none", 0, 0, "none|summary|full|full_without_attention",        \
      "fill and read statistics; rounds without them take turns and show their cost")      \
    X(SWITCH, json, 0, 0, 0, NULL, "a JSON list of results")

typedef struct bench_options {
    BENCH_MAP(SRV_FIELD)
} bench_options;

#define X(type, ...) SRV_ROW_##type(bench_options, __VA_ARGS__)
static const srv_option options[] = {BENCH_MAP(X)};
#undef X
enum { OPTION_COUNT = sizeof options / sizeof *options };

typedef struct shape {
    const char *text;
    size_t text_bytes;
    size_t items, tokens; /* tokens 0: mixed */
} shape;

/* One thread's share of the items. */
typedef struct share {
    struct bench *bench;
    lam_ctx *ctx;
    lam_item *items;
    size_t count;
    lam_arena arena; /* of its statistics */
    pthread_t thread;
    bool started;
} share;

typedef struct bench {
    bench_options options;
    cli_common common;
    lam_model *model;
    lam_encode_opts encode;
    share *shares; /* [threads] */
    pthread_barrier_t barrier;
    bool has_barrier, ending;
    lam_arena arena; /* of the shape at work */
    double ms[MAX_ROUNDS], sorted[MAX_ROUNDS];
    bool with_statistics;      /* in the round at hand */
    double ratios[MAX_ROUNDS]; /* of each round's time to that of the one before without */
} bench;

/* ---- Shapes ---------------------------------------------------------------------------------- */

static lam_status read_shape(const bench *b, const char *text, size_t bytes, shape *out,
                             lam_err *err)
{
    static const char mixed[] = "mixed";
    const size_t prefix = sizeof mixed - 1, longest = lam_model_get_info(b->model)->positions;
    const char *x = memchr(text, 'x', bytes);
    uint64_t items = 0, tokens = 0;
    bool ok;
    if (bytes > prefix && memcmp(text, mixed, prefix) == 0)
        ok = srv_number_parse(text + prefix, bytes - prefix, &items);
    else
        ok = x && srv_number_parse(text, (size_t)(x - text), &items) &&
             srv_number_parse(x + 1, bytes - (size_t)(x - text) - 1, &tokens) && tokens > 0;
    if (!ok || items < 1 || items > MAX_ITEMS || tokens > longest)
        return lam_fail(
            err, LAM_E_CONFIG, "--shape",
            "\"%.*s\" is neither BxT nor mixedB with B from 1 to %d and T from 1 to %zu",
            (int)(bytes < 64 ? bytes : 64), text, MAX_ITEMS, longest);
    *out = (shape){.text = text, .text_bytes = bytes, .items = items, .tokens = tokens};
    return LAM_OK;
}

static lam_status check_shapes(const bench *b, lam_err *err)
{
    size_t at = 0, bytes = 0;
    const char *word = NULL;
    shape s = {0};
    while (srv_list_next(b->options.shape, &at, &word, &bytes))
        LAM_TRY(read_shape(b, word, bytes, &s, err));
    return LAM_OK;
}

static size_t item_tokens(const bench *b, const shape *s, uint64_t *random)
{
    if (s->tokens > 0) return s->tokens;
    const size_t longest = lam_model_get_info(b->model)->positions;
    size_t n = MIXED_SHORTEST + cli_random(random) % (MIXED_LONGEST - MIXED_SHORTEST + 1);
    return n < longest ? n : longest;
}

static lam_status make_item(bench *b, lam_item *item, size_t tokens, uint64_t *random, lam_err *err)
{
    const lam_model_info *info = lam_model_get_info(b->model);
    int32_t *ids = lam_arena_calloc(&b->arena, tokens, sizeof *ids);
    float *out = lam_arena_calloc(&b->arena, info->width, sizeof *out);
    if (!ids || !out) return lam_fail(err, LAM_E_NOMEM, "--shape", "no memory for the items");
    cli_random_ids(b->model, ids, tokens, random);
    *item = (lam_item){.ids = ids, .tokens = tokens, .opts = &b->encode, .out = out};
    return lam_item_check(b->model, item, NULL, err);
}

/* Gives each thread a run of items with about as many rows as the others'. */
static void divide(bench *b, lam_item *items, size_t count, size_t rows)
{
    const size_t threads = b->options.threads;
    size_t at = 0, done = 0;
    for (size_t i = 0; i < threads; i++) {
        share *s = &b->shares[i];
        const size_t goal = rows / threads * (i + 1) + rows % threads * (i + 1) / threads;
        s->items = items + at;
        s->count = 0;
        while (at < count && done + items[at].rows / 2 < goal) {
            done += items[at++].rows;
            s->count++;
        }
    }
}

static lam_status make_items(bench *b, const shape *s, size_t *rows, lam_err *err)
{
    uint64_t random = b->options.seed;
    lam_arena_reset(&b->arena);
    lam_item *items = lam_arena_calloc(&b->arena, s->items, sizeof *items);
    if (!items) return lam_fail(err, LAM_E_NOMEM, "--shape", "no memory for the items");
    *rows = 0;
    for (size_t i = 0; i < s->items; i++) {
        LAM_TRY(make_item(b, &items[i], item_tokens(b, s, &random), &random, err));
        *rows += items[i].rows;
    }
    divide(b, items, s->items, *rows);
    return LAM_OK;
}

/* ---- Statistics ------------------------------------------------------------------------------ */

static bool wants_statistics(const bench *b)
{
    return strcmp(b->options.statistics, "none") != 0;
}

/* What a reply reads. */
static void read_statistics(const lam_model_info *info, const lam_stats *stats)
{
    for (size_t l = 0; l <= info->layers; l++) {
        const size_t layer = l < info->layers ? l : LAM_LAYER_NONE;
        lam_site_stats site;
        lam_layer_stats values;
        for (int s = 0; s < LAM_SITE_COUNT; s++)
            (void)lam_stats_read(stats, layer, (lam_site)s, &site);
        (void)lam_stats_read_layer(stats, layer, &values);
    }
}

/* The items of a share as one request. */
static void encode_with_statistics(share *s)
{
    const bench *b = s->bench;
    lam_stats_opts o = {.level = LAM_STATS_SUMMARY};
    lam_stats *stats = NULL;
    lam_err err;
    if (strcmp(b->options.statistics, "summary") != 0) o.level = LAM_STATS_FULL;
    o.skip_attention = strcmp(b->options.statistics, "full_without_attention") == 0;
    for (size_t i = 0; i < s->count; i++)
        o.max_rows += s->items[i].rows;
    lam_arena_reset(&s->arena);
    if (lam_stats_new(&stats, &s->arena, b->model, &o, &err) != LAM_OK) exit(cli_fail(&err));
    for (size_t i = 0; i < s->count; i++)
        s->items[i].stats = stats;
    (void)lam_encode(s->ctx, s->items, s->count, NULL);
    read_statistics(lam_model_get_info(b->model), stats);
    for (size_t i = 0; i < s->count; i++)
        s->items[i].stats = NULL;
}

static void encode_share(share *s)
{
    if (s->bench->with_statistics)
        encode_with_statistics(s);
    else
        (void)lam_encode(s->ctx, s->items, s->count, NULL);
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static void *share_main(void *arg)
{
    share *s = arg;
    for (;;) {
        pthread_barrier_wait(&s->bench->barrier);
        if (s->bench->ending) return NULL;
        encode_share(s);
        pthread_barrier_wait(&s->bench->barrier);
    }
}

/* One call of lam_encode on each thread; its time in ms. */
static double run_round(bench *b)
{
    const bool many = b->options.threads > 1;
    if (many) pthread_barrier_wait(&b->barrier);
    double start = cli_now_ms();
    encode_share(&b->shares[0]);
    if (many) pthread_barrier_wait(&b->barrier);
    return cli_now_ms() - start;
}

static void run_rounds(bench *b)
{
    double start = cli_now_ms();
    const size_t n = b->options.rounds;
    b->with_statistics = wants_statistics(b);
    for (size_t i = 0; i < WARM_ROUNDS || cli_now_ms() - start < WARM_MS; i++)
        (void)run_round(b);
    for (size_t i = 0; i < n; i++) {
        double plain_ms = 1.0;
        if (wants_statistics(b)) {
            b->with_statistics = false;
            plain_ms = run_round(b);
            b->with_statistics = true;
        }
        b->ms[i] = run_round(b);
        b->ratios[i] = b->ms[i] / plain_ms;
    }
    cli_sort(b->ratios, n);
    memcpy(b->sorted, b->ms, n * sizeof *b->ms);
    cli_sort(b->sorted, n);
}

/* ---- Results --------------------------------------------------------------------------------- */

static void print_json(const bench *b, const shape *s, size_t rows, bool first)
{
    const size_t n = b->options.rounds;
    const double middle = cli_median(b->sorted, n);
    (void)printf("%s\n{\"shape\":\"%.*s\",\"threads\":%" PRIu64
                 ",\"precision\":\"%s\",\"isa\":\"%s\",\"rounds\":%zu,"
                 "\"ms\":{\"median\":%.6g,\"min\":%.6g,\"max\":%.6g,\"all\":[",
                 first ? "[" : ",", (int)s->text_bytes, s->text, b->options.threads,
                 b->common.precision, lam_isa_name(lam_model_get_info(b->model)->isa), n, middle,
                 b->sorted[0], b->sorted[n - 1]);
    for (size_t i = 0; i < n; i++)
        (void)printf("%s%.6g", i ? "," : "", b->ms[i]);
    (void)printf("]}");
    if (wants_statistics(b))
        (void)printf(",\"statistics\":\"%s\",\"statistics_cost\":%.4g", b->options.statistics,
                     cli_median(b->ratios, n) - 1.0);
    (void)printf(",\"tokens_per_second\":%.6g}", (double)rows / middle * 1e3);
}

static void print_row(const bench *b, const shape *s, size_t rows, bool first)
{
    const size_t n = b->options.rounds;
    const double middle = cli_median(b->sorted, n);
    if (first)
        (void)printf("%-10s %7s %9s %6s %6s %10s %10s %10s %10s%s\n", "shape", "threads",
                     "precision", "isa", "rounds", "median ms", "min ms", "max ms", "tokens/s",
                     wants_statistics(b) ? "       cost" : "");
    (void)printf("%-10.*s %7" PRIu64 " %9s %6s %6zu %10.3f %10.3f %10.3f %10.0f",
                 (int)s->text_bytes, s->text, b->options.threads, b->common.precision,
                 lam_isa_name(lam_model_get_info(b->model)->isa), n, middle, b->sorted[0],
                 b->sorted[n - 1], (double)rows / middle * 1e3);
    if (wants_statistics(b)) (void)printf(" %9.1f%%", 100.0 * (cli_median(b->ratios, n) - 1.0));
    (void)puts("");
}

static lam_status run_shapes(bench *b, lam_err *err)
{
    size_t at = 0, bytes = 0;
    const char *word = NULL;
    bool first = true;
    while (srv_list_next(b->options.shape, &at, &word, &bytes)) {
        shape s = {0};
        size_t rows = 0;
        LAM_TRY(read_shape(b, word, bytes, &s, err));
        LAM_TRY(make_items(b, &s, &rows, err));
        run_rounds(b);
        if (b->options.json)
            print_json(b, &s, rows, first);
        else
            print_row(b, &s, rows, first);
        (void)fflush(stdout);
        first = false;
    }
    if (b->options.json) (void)puts("\n]");
    return LAM_OK;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static lam_status start(bench *b, lam_err *err)
{
    const size_t threads = b->options.threads, longest = lam_model_get_info(b->model)->positions;
    const size_t rows = b->options.max_batch_tokens;
    b->shares = calloc(threads, sizeof *b->shares);
    if (!b->shares) return lam_fail(err, LAM_E_NOMEM, "--threads", "no memory for the threads");
    for (size_t i = 0; i < threads; i++) {
        b->shares[i].bench = b;
        lam_arena_init(&b->shares[i].arena, (size_t)4 << 30);
        LAM_TRY(lam_ctx_new(&b->shares[i].ctx, b->model, rows > longest ? rows : longest, err));
    }
    b->has_barrier = pthread_barrier_init(&b->barrier, NULL, (unsigned)threads) == 0;
    if (!b->has_barrier) return lam_fail(err, LAM_E_SYSTEM, "--threads", "no barrier");
    for (size_t i = 1; i < threads; i++) {
        int failed = pthread_create(&b->shares[i].thread, NULL, share_main, &b->shares[i]);
        if (failed) return lam_fail(err, LAM_E_SYSTEM, "--threads", "%s", strerror(failed));
        b->shares[i].started = true;
    }
    return LAM_OK;
}

static void stop(bench *b)
{
    size_t started = 1;
    for (size_t i = 1; b->shares && i < b->options.threads; i++)
        started += b->shares[i].started;
    /* Threads that wait at a barrier that will never fill end with the process. */
    if (started == b->options.threads && b->has_barrier) {
        b->ending = true;
        if (started > 1) pthread_barrier_wait(&b->barrier);
        for (size_t i = 1; i < started; i++)
            pthread_join(b->shares[i].thread, NULL);
        pthread_barrier_destroy(&b->barrier);
    } else if (started > 1) {
        return;
    }
    for (size_t i = 0; b->shares && i < b->options.threads; i++) {
        lam_ctx_free(b->shares[i].ctx);
        lam_arena_fini(&b->shares[i].arena);
    }
    free(b->shares);
    lam_model_close(b->model);
    lam_arena_fini(&b->arena);
}

static int run(const cli_args *args)
{
    static bench b;
    lam_err err;
    if (cli_options_load(args, options, OPTION_COUNT, &b.options, &err) != LAM_OK ||
        cli_common_load(args, &b.common, &err) != LAM_OK ||
        cli_open_model(&b.model, args->words[0], &b.common, &err) != LAM_OK)
        return cli_fail(&err);
    lam_arena_init(&b.arena, (size_t)4 << 30);
    b.encode = lam_encode_opts_default(b.model);
    b.encode.pool = b.encode.pool == LAM_POOL_NONE ? LAM_POOL_MEAN : b.encode.pool;
    lam_status s = check_shapes(&b, &err);
    if (s == LAM_OK) s = start(&b, &err);
    if (s == LAM_OK) s = run_shapes(&b, &err);
    stop(&b);
    return s == LAM_OK ? cli_finish(CLI_DONE) : cli_fail(&err);
}

const cli_command cli_bench = {
    .name = "bench",
    .words = "MODEL",
    .min_words = 1,
    .max_words = 1,
    .summary = "time the engine",
    .about =
        "Times the engine without tokenizer and server, on seeded random ids: after a warm-up\n"
        "each round is one call for all sequences of the shape. tokens/s is of the median.\n"
        "Nothing is pinned: taskset does that.\n",
    .examples = "  lamina bench MODEL\n"
                "  taskset -c 0 lamina bench MODEL --shape 1x16,mixed64 --rounds 25 --json\n",
    .groups = {{"Options", options, OPTION_COUNT},
               {"Common options", cli_common_options, CLI_COMMON_COUNT}},
    .run = run,
};
