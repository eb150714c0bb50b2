#include "server/cli/sweep.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/compare.h"

/* Of a batch: a sum and what it is of. */
typedef struct tally {
    double sum;
    size_t count;
} tally;

typedef struct batch_result {
    tally error, cosine, tid[SWEEP_TID_COUNT];
    double error_max, cosine_least;
    uint64_t tokens;
} batch_result;

/* One pass over the inputs. */
typedef struct pass {
    const sweep_run *run;
    lam_encode_opts opts;
    size_t batch_size, batches;
    float *vectors;        /* where vectors go instead of being compared; or NULL */
    batch_result *results; /* [batches] */
    atomic_size_t next;
} pass;

typedef struct worker {
    pass *p;
    lam_ctx *ctx;
    lam_item *items; /* [batch_size] */
    float *vectors;  /* [batch_size, width] */
    lam_arena arena; /* of a batch's statistics */
    pthread_t thread;
    bool started;
    lam_status status;
    lam_err err;
} worker;

size_t sweep_largest_batch(const cli_inputs *inputs, size_t batch_size)
{
    const api_request *r = &inputs->request;
    size_t most = 0;
    for (size_t i = 0; i + batch_size <= r->item_count; i += batch_size) {
        size_t rows = 0;
        for (size_t k = 0; k < batch_size; k++)
            rows += r->items[i + k].rows;
        if (rows > most) most = rows;
    }
    return most;
}

/* ---- One batch ------------------------------------------------------------------------------- */

static void add(tally *t, double v)
{
    if (!isfinite(v)) return;
    t->sum += v;
    t->count++;
}

static void compare_vectors(const worker *w, size_t first, batch_result *out)
{
    const sweep_run *r = w->p->run;
    const size_t width = w->p->opts.dimensions;
    for (size_t i = 0; i < w->p->batch_size; i++) {
        api_departure d = {0};
        api_departure_add(&d, r->running + (first + i) * width, w->vectors + i * width, 1, width);
        if (d.distance > out->error_max) out->error_max = d.distance;
        if (isfinite(d.cosine) && (out->cosine.count == 0 || d.cosine < out->cosine_least))
            out->cosine_least = d.cosine;
        add(&out->error, d.distance);
        add(&out->cosine, d.cosine);
        out->tokens += w->items[i].rows;
    }
}

static void add_site(const lam_stats *s, size_t layer, lam_site site, batch_result *out)
{
    static const lam_population_value values[] = {
#define X(name, value) value,
        SWEEP_TID_MAP(X)
#undef X
    };
    lam_population_stats p;
    if (!lam_stats_read_population(s, layer, site, &p)) return;
    for (size_t i = 0; i < SWEEP_TID_COUNT; i++)
        add(&out->tid[i], p.values[values[i]]);
}

static void add_sites(const lam_stats *s, size_t layers, batch_result *out)
{
    for (int site = 0; site < LAM_SITE_COUNT; site++) {
        add_site(s, LAM_LAYER_NONE, (lam_site)site, out);
        for (size_t layer = 0; layer < layers; layer++)
            add_site(s, layer, (lam_site)site, out);
    }
}

static lam_status take_items(worker *w, size_t first, lam_stats **stats, lam_err *err)
{
    const pass *p = w->p;
    const api_request *in = &p->run->inputs->request;
    size_t rows = 0;
    for (size_t i = 0; i < p->batch_size; i++) {
        w->items[i] = in->items[first + i];
        w->items[i].index = i;
        w->items[i].opts = &p->opts;
        w->items[i].out = (p->vectors ? p->vectors + first * p->opts.dimensions : w->vectors) +
                          i * p->opts.dimensions;
        rows += w->items[i].rows;
    }
    LAM_TRY(lam_request_check(p->run->model, &p->opts, rows, p->run->max_rows, err));
    *stats = NULL;
    if (p->vectors) return LAM_OK;
    const lam_stats_opts o = {.level = LAM_STATS_FULL, .max_rows = rows, .skip_attention = true};
    lam_arena_reset(&w->arena);
    LAM_TRY(lam_stats_new(stats, &w->arena, p->run->model, &o, err));
    for (size_t i = 0; i < p->batch_size; i++)
        w->items[i].stats = *stats;
    return LAM_OK;
}

static lam_status run_batch(worker *w, size_t batch, lam_err *err)
{
    const pass *p = w->p;
    const size_t first = batch * p->batch_size;
    lam_stats *stats;
    LAM_TRY(take_items(w, first, &stats, err));
    const lam_status s = lam_encode(w->ctx, w->items, p->batch_size, NULL);
    if (s != LAM_OK) return lam_fail(err, s, "encode", "%s", lam_status_text(s));
    for (size_t i = 0; i < p->batch_size; i++) {
        const lam_item *item = &w->items[i];
        if (item->status == LAM_OK) continue;
        return lam_fail(err, item->status, "--texts", "line %zu: %s, first at site %s",
                        p->run->inputs->lines[first + i], lam_status_text(item->status),
                        lam_site_name(item->fault_site));
    }
    if (p->vectors) return LAM_OK;
    compare_vectors(w, first, &p->results[batch]);
    add_sites(stats, lam_model_get_info(p->run->model)->layers, &p->results[batch]);
    return LAM_OK;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static void *work(void *arg)
{
    worker *w = arg;
    while (w->status == LAM_OK) {
        const size_t batch = atomic_fetch_add(&w->p->next, 1);
        if (batch >= w->p->batches) break;
        w->status = run_batch(w, batch, &w->err);
    }
    return NULL;
}

static lam_status open_worker(worker *w, pass *p, lam_err *err)
{
    *w = (worker){.p = p};
    lam_arena_init(&w->arena, (size_t)8 << 30);
    w->items = calloc(p->batch_size, sizeof *w->items);
    w->vectors = calloc(p->batch_size * p->opts.dimensions, sizeof *w->vectors);
    if (!w->items || !w->vectors)
        return lam_fail(err, LAM_E_NOMEM, "--batch-sizes", "no memory for %zu items",
                        p->batch_size);
    return lam_ctx_new(&w->ctx, p->run->model, p->run->max_rows, err);
}

static void close_worker(worker *w)
{
    lam_ctx_free(w->ctx);
    lam_arena_fini(&w->arena);
    free(w->items);
    free(w->vectors);
}

static lam_status run_workers(pass *p, worker *w, size_t count, lam_err *err)
{
    lam_status s = LAM_OK;
    for (size_t i = 0; i < count && s == LAM_OK; i++)
        s = open_worker(&w[i], p, err);
    for (size_t i = 1; i < count && s == LAM_OK; i++)
        w[i].started = pthread_create(&w[i].thread, NULL, work, &w[i]) == 0;
    if (s == LAM_OK) (void)work(&w[0]); /* threads that did not start leave more to it */
    for (size_t i = 0; i < count; i++) {
        if (w[i].started) (void)pthread_join(w[i].thread, NULL);
        if (s == LAM_OK && w[i].status != LAM_OK) {
            s = w[i].status;
            *err = w[i].err;
        }
    }
    return s;
}

static lam_status run_pass(pass *p, lam_err *err)
{
    const size_t wanted = p->run->workers;
    const size_t count = wanted < p->batches ? wanted : p->batches;
    worker *w = calloc(count, sizeof *w);
    if (!w) return lam_fail(err, LAM_E_NOMEM, "--workers", "no memory for %zu workers", count);
    const lam_status s = run_workers(p, w, count, err);
    for (size_t i = 0; i < count; i++)
        close_worker(&w[i]);
    free(w);
    return s;
}

static lam_encode_opts opts_of(const sweep_run *r, lam_norm_source source)
{
    lam_encode_opts o = lam_encode_opts_default(r->model);
    if (o.pool == LAM_POOL_NONE) o.pool = LAM_POOL_MEAN;
    o.normalize = false; /* distances are relative, and a vector may be zero */
    o.statistics = source;
    return o;
}

lam_status sweep_reference(const sweep_run *r, lam_err *err)
{
    pass p = {.run = r,
              .opts = opts_of(r, LAM_NORM_FROM_RUNNING),
              .batch_size = 1,
              .batches = r->inputs->request.item_count,
              .vectors = r->running};
    return run_pass(&p, err);
}

static double mean_of(tally t)
{
    return t.count > 0 ? t.sum / (double)t.count : (double)NAN;
}

static void join(tally *into, tally from)
{
    into->sum += from.sum;
    into->count += from.count;
}

/* In the order of the batches, whoever ran them. */
static void summarize(const pass *p, sweep_row *out)
{
    batch_result all = {0};
    for (size_t i = 0; i < p->batches; i++) {
        const batch_result *b = &p->results[i];
        if (b->error_max > all.error_max) all.error_max = b->error_max;
        if (b->cosine.count > 0 && (all.cosine.count == 0 || b->cosine_least < all.cosine_least))
            all.cosine_least = b->cosine_least;
        join(&all.error, b->error);
        join(&all.cosine, b->cosine);
        for (size_t k = 0; k < SWEEP_TID_COUNT; k++)
            join(&all.tid[k], b->tid[k]);
        all.tokens += b->tokens;
    }
    *out = (sweep_row){.source = p->opts.statistics,
                       .batch_size = p->batch_size,
                       .batches = p->batches,
                       .items = p->batches * p->batch_size,
                       .tokens = all.tokens,
                       .error_mean = mean_of(all.error),
                       .error_max = all.error_max,
                       .cosine_mean = mean_of(all.cosine),
                       .cosine_least = all.cosine.count > 0 ? all.cosine_least : (double)NAN};
    for (size_t k = 0; k < SWEEP_TID_COUNT; k++)
        out->tid[k] = mean_of(all.tid[k]);
}

lam_status sweep_batches(const sweep_run *r, lam_norm_source source, size_t batch_size,
                         sweep_row *out, lam_err *err)
{
    pass p = {.run = r,
              .opts = opts_of(r, source),
              .batch_size = batch_size,
              .batches = r->inputs->request.item_count / batch_size};
    p.results = calloc(p.batches, sizeof *p.results);
    if (!p.results) return lam_fail(err, LAM_E_NOMEM, "--batch-sizes", "out of memory");
    const lam_status s = run_pass(&p, err);
    if (s == LAM_OK) summarize(&p, out);
    free(p.results);
    return s;
}
