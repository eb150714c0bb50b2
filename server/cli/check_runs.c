/* Whole items: the same item under other circumstances, compared at every site and in its vector.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "server/cli/check.h"
#include "server/cli/sample.h"

static const size_t lengths[] = {1, 2, 5, 16, 33, 64};

/* Masked tokens that an item gets. */
static const size_t paddings[] = {1, 7, 40};
enum { PADDINGS = sizeof paddings / sizeof *paddings };

lam_item check_item(const check_run *r, size_t i, float *out)
{
    return (lam_item){.ids = r->ids[i],
                      .tokens = r->tokens[i],
                      .rows = r->tokens[i],
                      .opts = &r->opts,
                      .index = i,
                      .out = out};
}

static size_t width_of(const check_run *r)
{
    return lam_model_get_info(r->model)->width;
}

/* Some norms refuse a single row: then there is no such item. */
static bool is_refused(const check_run *r, lam_item *item)
{
    return lam_item_check(r->model, item, NULL, NULL) != LAM_OK ||
           lam_request_check(r->model, &r->opts, item->rows, SIZE_MAX, NULL) != LAM_OK;
}

static lam_status make_items(check_run *r, lam_err *err)
{
    const lam_model_info *info = lam_model_get_info(r->model);
    uint64_t random = 1;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t tokens = lengths[i] < info->positions ? lengths[i] : info->positions;
        int32_t *ids = lam_arena_calloc(&r->arena, tokens, sizeof *ids);
        if (!ids) return lam_fail(err, LAM_E_NOMEM, "check", "no memory for the items");
        cli_random_ids(r->model, ids, tokens, &random);
        r->ids[r->count] = ids;
        r->tokens[r->count] = tokens;
        lam_item item = check_item(r, r->count, NULL);
        if (is_refused(r, &item)) continue;
        r->first_row[r->count++] = r->rows;
        r->rows += tokens;
        if (tokens > r->longest) r->longest = tokens;
        if (tokens == info->positions) break;
    }
    if (r->count >= 2 && r->tokens[r->count - 2] >= 4) return LAM_OK;
    return lam_fail(err, LAM_E_INPUT, "check", "the model takes too few tokens: %zu",
                    info->positions);
}

static lam_status make_memory(check_run *r, lam_err *err)
{
    const lam_model_info *info = lam_model_get_info(r->model);
    const size_t rows = 2 * r->rows;
    LAM_TRY(cli_sites_of(&r->sites, r->model, &r->arena, err));
    LAM_TRY(cli_trace_new(&r->base, &r->sites, r->rows, &r->arena, err));
    LAM_TRY(cli_trace_new(&r->other, &r->sites, rows, &r->arena, err));
    r->vectors = lam_arena_calloc(&r->arena, r->count * info->width, sizeof(float));
    r->other_vectors = lam_arena_calloc(&r->arena, 2 * r->count * info->width, sizeof(float));
    if (!r->vectors || !r->other_vectors)
        return lam_fail(err, LAM_E_NOMEM, "check", "no memory for the vectors");
    return lam_ctx_new(&r->ctx, r->model, rows > info->positions ? rows : info->positions, err);
}

lam_status check_run_open(check_run *r, lam_model *model, lam_norm_source statistics,
                          size_t workers, lam_err *err)
{
    *r = (check_run){.model = model, .workers = workers};
    lam_arena_init(&r->arena, (size_t)8 << 30);
    r->opts = lam_encode_opts_default(model);
    if (r->opts.pool == LAM_POOL_NONE) r->opts.pool = LAM_POOL_MEAN;
    r->opts.normalize = false; /* of a vector that is zero by construction there is no length */
    r->opts.statistics = statistics;
    LAM_TRY(lam_encode_opts_check(model, &r->opts, err));
    LAM_TRY(make_items(r, err));
    LAM_TRY(make_memory(r, err));
    for (size_t i = 0; i < r->count; i++) {
        lam_item item = check_item(r, i, r->vectors + i * width_of(r));
        LAM_TRY(cli_trace_run(&r->base, r->ctx, &item, 1, err));
    }
    return LAM_OK;
}

void check_run_close(check_run *r)
{
    lam_ctx_free(r->ctx);
    lam_arena_fini(&r->arena);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* A run of an item: where its rows and its vector are. */
typedef struct seen {
    const cli_trace *trace;
    size_t row;
    const float *vector;
} seen;

static void judge(const check_run *r, check_result *out, size_t item, seen a, seen reference)
{
    const size_t width = width_of(r);
    const bool before = out->parting.differs || out->vector > 0.0;
    const double off = cli_relative_distance(a.vector, reference.vector, width);
    cli_trace_compare(a.trace, a.row, reference.trace, reference.row, r->tokens[item],
                      &out->parting);
    if (off > out->vector) out->vector = off;
    if (!before && (out->parting.differs || out->vector > 0.0)) out->item = item;
    out->runs++;
}

static seen alone(const check_run *r, size_t item)
{
    return (seen){&r->base, r->first_row[item], r->vectors + item * width_of(r)};
}

/* ---- Alone and in batches -------------------------------------------------------------------- */

static lam_status run_alone(check_run *r, lam_err *err)
{
    for (size_t i = r->count; i-- > 0;) {
        lam_item item = check_item(r, i, r->other_vectors);
        r->other.rows = 0;
        LAM_TRY(cli_trace_run(&r->other, r->ctx, &item, 1, err));
        judge(r, &r->results[CHECK_ALONE], i, (seen){&r->other, 0, r->other_vectors}, alone(r, i));
    }
    return LAM_OK;
}

/* As given, backwards, and from the middle on. */
static size_t at_order(size_t order, size_t i, size_t count)
{
    if (order == 0) return i;
    return order == 1 ? count - 1 - i : (i + count / 2) % count;
}

static lam_status run_batch(check_run *r, size_t order, lam_err *err)
{
    lam_item items[CHECK_MAX_ITEMS];
    for (size_t i = 0; i < r->count; i++)
        items[i] = check_item(r, at_order(order, i, r->count), r->other_vectors + i * width_of(r));
    r->other.rows = 0;
    LAM_TRY(cli_trace_run(&r->other, r->ctx, items, r->count, err));
    size_t row = 0;
    for (size_t i = 0; i < r->count; i++) {
        const size_t item = items[i].index;
        judge(r, &r->results[CHECK_BATCH], item, (seen){&r->other, row, items[i].out},
              alone(r, item));
        row += items[i].rows;
    }
    return LAM_OK;
}

/* ---- Padding --------------------------------------------------------------------------------- */

typedef struct padded {
    int32_t *ids;
    uint8_t *mask;
    size_t tokens;
} padded;

/* `count` masked tokens of id `filler` before the item's token number `at`. */
static bool pad(check_run *r, size_t item, size_t at, size_t count, int32_t filler, padded *out)
{
    const size_t tokens = r->tokens[item] + count;
    *out = (padded){.tokens = tokens};
    out->ids = lam_arena_calloc(&r->arena, tokens, sizeof *out->ids);
    out->mask = lam_arena_calloc(&r->arena, tokens, sizeof *out->mask);
    if (!out->ids || !out->mask) return false;
    for (size_t t = 0; t < tokens; t++) {
        const bool masked = t >= at && t < at + count;
        out->ids[t] = masked ? filler : r->ids[item][t < at ? t : t - count];
        out->mask[t] = !masked;
    }
    return true;
}

/* Runs the padded item; its rows follow those in `other`. */
static lam_status run_one_padded(check_run *r, size_t item, size_t at, size_t count, int32_t filler,
                                 float *vector, lam_err *err)
{
    const lam_arena_mark mark = lam_arena_get_mark(&r->arena);
    padded p;
    if (!pad(r, item, at, count, filler, &p))
        return lam_fail(err, LAM_E_NOMEM, "check", "no memory for padding");
    lam_item it = check_item(r, item, vector);
    it.ids = p.ids, it.mask = p.mask, it.tokens = p.tokens;
    lam_status s = lam_item_check(r->model, &it, NULL, err);
    if (s == LAM_OK) s = cli_trace_run(&r->other, r->ctx, &it, 1, err);
    lam_arena_rewind(&r->arena, mark);
    return s;
}

/* Behind, positions stay and so must every bit. In front and in between, masked tokens move the
 * positions of the others, as in the sequence that was sent; so two paddings are compared that
 * differ in their ids alone. */
static lam_status run_padded(check_run *r, check_test test, size_t item, size_t count, lam_err *err)
{
    const size_t tokens = r->tokens[item];
    const size_t at = test == CHECK_PADDING_BEHIND  ? tokens
                      : test == CHECK_PADDING_FRONT ? 0
                                                    : tokens / 2;
    const int32_t last = (int32_t)lam_model_get_info(r->model)->vocab - 1;
    float *a = r->other_vectors, *b = a + width_of(r);
    r->other.rows = 0;
    LAM_TRY(run_one_padded(r, item, at, count, 0, a, err));
    LAM_TRY(run_one_padded(r, item, at, count, last, b, err));
    const seen first = {&r->other, 0, a}, second = {&r->other, tokens, b};
    if (test == CHECK_PADDING_BEHIND) judge(r, &r->results[test], item, first, alone(r, item));
    judge(r, &r->results[test], item, second,
          test == CHECK_PADDING_BEHIND ? alone(r, item) : first);
    return LAM_OK;
}

static lam_status run_paddings(check_run *r, check_test test, lam_err *err)
{
    const size_t positions = lam_model_get_info(r->model)->positions;
    for (size_t i = 0; i < r->count; i++) {
        if (test == CHECK_PADDING_INSIDE && r->tokens[i] < 2) continue;
        for (size_t p = 0; p < PADDINGS; p++)
            if (r->tokens[i] + paddings[p] <= positions)
                LAM_TRY(run_padded(r, test, i, paddings[p], err));
    }
    return LAM_OK;
}

/* ---- Workers --------------------------------------------------------------------------------- */

typedef struct worker {
    const check_run *run;
    size_t number;
    pthread_t thread;
    bool started;
    lam_ctx *ctx;
    lam_arena arena;
    cli_trace trace;
    float *vector;
    check_result result;
    lam_status status;
    lam_err err;
} worker;

static lam_status worker_open(worker *w, const check_run *r, size_t number, lam_err *err)
{
    *w = (worker){.run = r, .number = number};
    lam_arena_init(&w->arena, (size_t)2 << 30);
    LAM_TRY(cli_trace_new(&w->trace, &r->sites, r->longest, &w->arena, err));
    w->vector = lam_arena_calloc(&w->arena, width_of(r), sizeof(float));
    if (!w->vector) return lam_fail(err, LAM_E_NOMEM, "check", "no memory for a vector");
    return lam_ctx_new(&w->ctx, r->model, lam_model_get_info(r->model)->positions, err);
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    const check_run *r = w->run;
    for (size_t k = 0; k < r->count && w->status == LAM_OK; k++) {
        const size_t i = (k + w->number) % r->count;
        lam_item item = check_item(r, i, w->vector);
        w->trace.rows = 0;
        w->status = cli_trace_run(&w->trace, w->ctx, &item, 1, &w->err);
        if (w->status == LAM_OK)
            judge(r, &w->result, i, (seen){&w->trace, 0, w->vector}, alone(r, i));
    }
    return NULL;
}

static void merge(check_result *into, const check_result *from)
{
    const bool before = into->parting.differs || into->vector > 0.0;
    if (!before) into->item = from->item;
    into->runs += from->runs;
    if (from->vector > into->vector) into->vector = from->vector;
    cli_parting_merge(&into->parting, &from->parting);
}

static lam_status run_threads(worker *w, size_t count, lam_err *err)
{
    lam_status s = LAM_OK;
    for (size_t i = 0; i < count && s == LAM_OK; i++) {
        const int failed = pthread_create(&w[i].thread, NULL, worker_main, &w[i]);
        w[i].started = failed == 0;
        if (failed) s = lam_fail(err, LAM_E_SYSTEM, "--workers", "%s", strerror(failed));
    }
    for (size_t i = 0; i < count; i++) {
        if (w[i].started) (void)pthread_join(w[i].thread, NULL);
        if (s == LAM_OK && w[i].status != LAM_OK) {
            s = w[i].status;
            if (err) *err = w[i].err;
        }
    }
    return s;
}

static lam_status run_workers(check_run *r, size_t count, lam_err *err)
{
    worker *w = calloc(count, sizeof *w);
    if (!w) return lam_fail(err, LAM_E_NOMEM, "--workers", "no memory for %zu", count);
    lam_status s = LAM_OK;
    for (size_t i = 0; i < count && s == LAM_OK; i++)
        s = worker_open(&w[i], r, i, err);
    if (s == LAM_OK) s = run_threads(w, count, err);
    for (size_t i = 0; i < count; i++) {
        if (s == LAM_OK) merge(&r->results[CHECK_WORKERS], &w[i].result);
        lam_ctx_free(w[i].ctx);
        lam_arena_fini(&w[i].arena);
    }
    free(w);
    return s;
}

lam_status check_run_all(check_run *r, lam_err *err)
{
    LAM_TRY(run_alone(r, err));
    for (size_t order = 0; order < 3; order++)
        LAM_TRY(run_batch(r, order, err));
    LAM_TRY(run_paddings(r, CHECK_PADDING_BEHIND, err));
    LAM_TRY(run_paddings(r, CHECK_PADDING_FRONT, err));
    LAM_TRY(run_paddings(r, CHECK_PADDING_INSIDE, err));
    for (size_t n = 1;; n = 2 * n < r->workers ? 2 * n : r->workers) {
        LAM_TRY(run_workers(r, n, err));
        if (n >= r->workers) return LAM_OK;
    }
}
