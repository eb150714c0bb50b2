/* Workers take chunks of the texts in turn and merge what they measured in the order of the chunks:
 * the sums are the same for any number of workers. */
#include "server/cli/calibrate_run.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/cli/calibrate_progress.h"

typedef struct pass_run {
    const cal_plan *plan;
    const cal_pass *pass;
    cal_state *state;
    lam_norm_values *first, *second; /* second: comparing, and NULL else */
    cli_input in;
    pthread_mutex_t lock; /* everything below, the input and the state */
    pthread_cond_t merged;
    uint64_t next, line;   /* to be read */
    uint64_t last_skipped; /* empty lines behind the last chunk */
    bool at_end, failed;
    lam_err *err;
    double last_save, start, before; /* seconds: of the clock, of the clock, of earlier runs */
    cal_progress progress;
} pass_run;

typedef struct worker {
    pass_run *run;
    pthread_t thread;
    lam_ctx *ctx;
    lam_norm_inputs *first, *second;
    cal_chunk chunk;
    float *vectors; /* [chunk_lines, dimensions] of the first run */
    cal_shift shift;
} worker;

/* ---- One chunk ------------------------------------------------------------------------------- */

static lam_status encode(worker *w, lam_norm_inputs *p, const lam_norm_values *values, lam_err *err)
{
    cal_chunk *c = &w->chunk;
    lam_norm_inputs_clear(p);
    lam_ctx_measure(w->ctx, p, values);
    for (size_t i = 0; i < c->line_count; i++)
        c->items[i].status = LAM_OK;
    const lam_status s = lam_encode(w->ctx, c->items, c->line_count, NULL);
    return s == LAM_OK ? s : lam_fail(err, s, "", "encoding failed");
}

static void compare_vectors(cal_shift *s, const float *a, const float *b, size_t n)
{
    double xx = 0.0, yy = 0.0, xy = 0.0, largest = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double x = (double)a[i], y = (double)b[i], d = fabs(x - y);
        xx += x * x, yy += y * y, xy += x * y;
        if (d > largest) largest = d;
    }
    if (!(xx > 0.0 && yy > 0.0) || !isfinite(xx + yy)) {
        s->failed++;
        return;
    }
    const double cosine = xy / (sqrt(xx) * sqrt(yy));
    if (s->texts == 0 || cosine < s->least_cosine) s->least_cosine = cosine;
    if (largest > s->largest_difference) s->largest_difference = largest;
    s->cosines += cosine;
    s->texts++;
}

static lam_status compare(worker *w, lam_err *err)
{
    const size_t n = w->run->plan->texts->opts.dimensions;
    const bool old = w->run->plan->old_runs;
    cal_chunk *c = &w->chunk;
    w->shift = (cal_shift){0};
    if (old) LAM_TRY(encode(w, w->first, w->run->first, err));
    for (size_t i = 0; i < c->line_count && old; i++) {
        memcpy(w->vectors + i * n, c->items[i].out, n * sizeof *w->vectors);
        if (c->items[i].status != LAM_OK) w->vectors[i * n] = NAN;
    }
    LAM_TRY(encode(w, w->second, w->run->second, err));
    for (size_t i = 0; i < c->line_count && old; i++) {
        if (c->items[i].status != LAM_OK) c->items[i].out[0] = NAN;
        compare_vectors(&w->shift, w->vectors + i * n, c->items[i].out, n);
    }
    return LAM_OK;
}

static lam_status run_chunk(worker *w, lam_err *err)
{
    LAM_TRY(cal_chunk_make(&w->chunk, w->run->plan->texts, err));
    if (w->run->pass->what == CAL_COMPARE) return compare(w, err);
    return encode(w, w->first, w->run->first, err);
}

/* ---- Merging --------------------------------------------------------------------------------- */

static void merge_shift(cal_shift *a, const cal_shift *b)
{
    if (b->texts > 0 && (a->texts == 0 || b->least_cosine < a->least_cosine))
        a->least_cosine = b->least_cosine;
    if (b->largest_difference > a->largest_difference)
        a->largest_difference = b->largest_difference;
    a->cosines += b->cosines;
    a->texts += b->texts;
    a->failed += b->failed;
}

/* The new model's distance is from what it meets itself, all texts together. */
static void merge(const pass_run *r, const worker *w)
{
    cal_state *s = r->state;
    const bool comparing = r->pass->what == CAL_COMPARE;
    if (r->plan->batches && !comparing)
        lam_norm_inputs_merge_batch(s->total, w->first);
    else
        lam_norm_inputs_merge(s->total, w->first);
    cal_counts *n = &s->counts;
    if (comparing) {
        lam_norm_inputs_merge(s->other, w->second);
        merge_shift(&n->shift, &w->shift);
    }
    const cal_chunk *c = &w->chunk;
    n->chunks++;
    n->offset = c->end_offset;
    n->line = c->end_line;
    n->texts += c->line_count;
    n->rows += c->rows;
    n->rows_run += c->rows * (comparing && r->plan->old_runs ? 2 : 1);
    n->truncated += c->truncated;
    n->skipped += c->skipped;
}

static lam_status save_if_due(pass_run *r, lam_err *err)
{
    const double now = cal_now();
    r->state->counts.seconds = r->before + (now - r->start);
    if (now - r->last_save < r->plan->checkpoint_seconds) return LAM_OK;
    r->last_save = now;
    return cal_state_save(r->state, r->plan, err);
}

/* ---- Workers --------------------------------------------------------------------------------- */

static void fail(pass_run *r, const lam_err *why)
{
    if (!r->failed) *r->err = *why;
    r->failed = true;
    pthread_cond_broadcast(&r->merged);
}

/* The lock is held. False: nothing is left. */
static bool read_chunk(pass_run *r, worker *w, lam_err *err, lam_status *status)
{
    if (r->at_end || r->failed) return false;
    w->chunk.index = r->next;
    *status = cal_chunk_read(&w->chunk, &r->in, r->line, err);
    if (*status == LAM_OK && w->chunk.line_count == 0) {
        r->last_skipped = w->chunk.skipped;
        r->at_end = true;
        return false;
    }
    r->next++;
    r->line = w->chunk.end_line;
    return true;
}

/* One chunk; the lock is held before and after. False: the worker is done. */
static bool work(pass_run *r, worker *w)
{
    lam_err err = {0};
    lam_status status = LAM_OK;
    if (!read_chunk(r, w, &err, &status)) return false;
    pthread_mutex_unlock(&r->lock);
    if (status == LAM_OK) status = run_chunk(w, &err);
    pthread_mutex_lock(&r->lock);
    /* In turn, so that the first of several errors is the one that is told. */
    while (r->state->counts.chunks != w->chunk.index && !r->failed)
        pthread_cond_wait(&r->merged, &r->lock);
    if (r->failed) return false;
    if (status == LAM_OK) {
        merge(r, w);
        status = save_if_due(r, &err);
        cal_progress_show(&r->progress, &r->state->counts, r->in.size_bytes);
    }
    if (status != LAM_OK) fail(r, &err);
    pthread_cond_broadcast(&r->merged);
    return status == LAM_OK;
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    pthread_mutex_lock(&w->run->lock);
    while (work(w->run, w)) {
    }
    pthread_mutex_unlock(&w->run->lock);
    return NULL;
}

static lam_status start_worker(worker *w, pass_run *r, lam_err *err)
{
    const cal_plan *p = r->plan;
    const size_t n = p->texts->opts.dimensions;
    w->run = r;
    LAM_TRY(lam_ctx_new(&w->ctx, p->texts->model, p->max_rows, err));
    LAM_TRY(lam_norm_inputs_new(&w->first, p->texts->model, err));
    if (r->pass->what == CAL_ONE_NORM) lam_norm_inputs_only(w->first, r->pass->norm);
    LAM_TRY(cal_chunk_init(&w->chunk, p->chunk_lines, err));
    if (r->pass->what != CAL_COMPARE) return LAM_OK;
    w->vectors = calloc(p->chunk_lines, n * sizeof *w->vectors);
    if (!w->vectors) return lam_fail(err, LAM_E_NOMEM, "", "no memory for vectors");
    return lam_norm_inputs_new(&w->second, p->texts->model, err);
}

static void free_worker(worker *w)
{
    lam_ctx_free(w->ctx);
    lam_norm_inputs_free(w->first);
    lam_norm_inputs_free(w->second);
    cal_chunk_free(&w->chunk);
    free(w->vectors);
}

/* The calling thread is the first worker. */
static lam_status run_workers(pass_run *r, worker *workers, size_t count, lam_err *err)
{
    size_t started = 1;
    int refused = 0;
    for (size_t i = 0; i < count; i++)
        LAM_TRY(start_worker(&workers[i], r, err));
    while (started < count && !refused) {
        refused = pthread_create(&workers[started].thread, NULL, worker_main, &workers[started]);
        if (!refused) started++;
    }
    if (refused) {
        lam_err why;
        (void)lam_fail(&why, LAM_E_SYSTEM, "--workers", "%s", strerror(refused));
        pthread_mutex_lock(&r->lock);
        fail(r, &why);
        pthread_mutex_unlock(&r->lock);
    }
    (void)worker_main(&workers[0]);
    for (size_t i = 1; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    return r->failed ? err->status : LAM_OK;
}

/* ---- Passes ---------------------------------------------------------------------------------- */

static lam_status seek(pass_run *r, lam_err *err)
{
    const cal_counts *n = &r->state->counts;
    LAM_TRY(cli_input_open(&r->in, r->plan->texts->path, err));
    if (n->offset > 0 && lseek(r->in.fd, (off_t)n->offset, SEEK_SET) < 0)
        return lam_fail(err, LAM_E_FILE, r->in.name, "%s", strerror(errno));
    r->in.used_bytes = n->offset;
    r->next = n->chunks;
    r->line = n->line;
    return LAM_OK;
}

/* The old model runs on its stored tensors; the new one on those found so far. */
static lam_status make_values(pass_run *r, lam_err *err)
{
    const lam_model *m = r->plan->texts->model;
    const cal_what what = r->pass->what;
    lam_norm_values **made = what == CAL_COMPARE ? &r->second : &r->first;
    if (what == CAL_COMPARE) LAM_TRY(lam_norm_values_new(&r->first, m, err));
    LAM_TRY(lam_norm_values_new(made, m, err));
    for (size_t i = 0; i < r->plan->norm_count && what != CAL_RUNNING; i++) {
        lam_norm_site_view v = {0};
        (void)lam_model_norm_site(m, i, &v);
        if (v.running && r->state->square[i])
            LAM_TRY(lam_norm_values_set(*made, i, r->state->mean[i], r->state->square[i], err));
    }
    return LAM_OK;
}

static lam_status run_pass(pass_run *r, lam_err *err)
{
    const size_t count = r->plan->workers;
    LAM_TRY(seek(r, err));
    LAM_TRY(make_values(r, err));
    worker *workers = calloc(count, sizeof *workers);
    if (!workers) return lam_fail(err, LAM_E_NOMEM, "--workers", "no memory for the workers");
    r->start = r->last_save = cal_now();
    r->before = r->state->counts.seconds;
    cal_progress_start(&r->progress, r->plan, r->pass);
    const lam_status s = run_workers(r, workers, count, err);
    cal_progress_stop(&r->progress);
    r->state->counts.seconds = r->before + (cal_now() - r->start);
    r->state->counts.skipped += r->last_skipped;
    for (size_t i = 0; i < count; i++)
        free_worker(&workers[i]);
    free(workers);
    return s;
}

lam_status cal_take(cal_state *s, const cal_plan *p, size_t norm, lam_err *err)
{
    lam_norm_site_view site = {0};
    lam_norm_inputs_view v = {0};
    (void)lam_model_norm_site(p->texts->model, norm, &site);
    (void)lam_norm_inputs_read(s->total, norm, &v);
    float *mean = calloc(site.width, sizeof *mean), *square = calloc(site.width, sizeof *square);
    s->mean[norm] = mean;
    s->square[norm] = square;
    if (!mean || !square) return lam_fail(err, LAM_E_NOMEM, "", "no memory for statistics");
    for (size_t c = 0; c < site.width; c++) {
        mean[c] = (float)v.mean[c];
        square[c] = (float)(v.squares[c] / (double)v.rows);
        if (!isfinite(mean[c]) || !isfinite(square[c])) {
            char where[128];
            if (site.layer == LAM_LAYER_NONE)
                (void)snprintf(where, sizeof where, "%s", lam_site_name(site.site));
            else
                (void)snprintf(where, sizeof where, "layer %zu, %s", site.layer,
                               lam_site_name(site.site));
            return lam_fail(err, LAM_E_NON_FINITE, where,
                            "what channel %zu of this norm meets is not finite", c);
        }
    }
    return LAM_OK;
}

static bool is_measured(const cal_pass *pass, size_t norm, const lam_norm_site_view *v)
{
    switch (pass->what) {
    case CAL_ONE_NORM:
        return norm == pass->norm;
    case CAL_RUNNING:
        return v->running;
    case CAL_PROFILE:
        return v->measured && !v->running;
    case CAL_COMPARE:
        break;
    }
    return false;
}

static lam_status finish_pass(cal_state *s, const cal_plan *p, const cal_pass *pass, lam_err *err)
{
    if (s->counts.rows == 0)
        return lam_fail(err, LAM_E_EMPTY, p->texts->path, "holds nothing to measure");
    for (size_t i = 0; i < p->norm_count; i++) {
        lam_norm_site_view v = {0};
        (void)lam_model_norm_site(p->texts->model, i, &v);
        if (is_measured(pass, i, &v)) LAM_TRY(cal_take(s, p, i, err));
    }
    s->counts.pass++;
    if (s->counts.pass == p->pass_count) return LAM_OK;
    const cal_counts kept = s->counts;
    s->counts = (cal_counts){.pass = kept.pass, .rows_run = kept.rows_run, .seconds = kept.seconds};
    lam_norm_inputs_clear(s->total);
    lam_norm_inputs_clear(s->other);
    return LAM_OK;
}

lam_status cal_run(cal_state *s, const cal_plan *p, lam_err *err)
{
    while (s->counts.pass < p->pass_count) {
        const cal_pass *pass = &p->passes[s->counts.pass];
        pass_run r = {.plan = p, .pass = pass, .state = s, .in = {.fd = -1}, .err = err};
        pthread_mutex_init(&r.lock, NULL);
        pthread_cond_init(&r.merged, NULL);
        lam_status status = run_pass(&r, err);
        cli_input_close(&r.in);
        lam_norm_values_free(r.first);
        lam_norm_values_free(r.second);
        pthread_cond_destroy(&r.merged);
        pthread_mutex_destroy(&r.lock);
        if (status == LAM_OK) status = finish_pass(s, p, pass, err);
        if (status == LAM_OK) status = cal_state_save(s, p, err);
        if (status != LAM_OK) return status;
    }
    return LAM_OK;
}
