#include "server/drift.h"

#include <math.h>
#include <string.h>

#include "server/job.h"

static bool holds(const lam_model *m, size_t norm)
{
    lam_norm_site_view v = {0};
    return lam_model_norm_site(m, norm, &v) && (v.has_running || v.has_profile);
}

bool srv_drift_has(const lam_model *m)
{
    lam_norm_site_view v = {0};
    for (size_t i = 0; lam_model_norm_site(m, i, &v); i++)
        if (holds(m, i)) return true;
    return false;
}

lam_status srv_drift_init(srv_drift *d, const lam_model *m, uint64_t sample, uint64_t window_ns,
                          lam_err *err)
{
    *d = (srv_drift){.sample = sample, .window_ns = window_ns, .since_ns = srv_now_ns()};
    if (sample == 0 || !srv_drift_has(m)) return LAM_OK;
    lam_status s = lam_norm_inputs_new(&d->batch, m, err);
    if (s == LAM_OK) s = lam_norm_inputs_new(&d->now, m, err);
    if (s == LAM_OK) s = lam_norm_inputs_new(&d->before, m, err);
    if (s != LAM_OK) {
        srv_drift_fini(d);
        return s;
    }
    pthread_mutex_init(&d->lock, NULL);
    d->model = m;
    return LAM_OK;
}

void srv_drift_fini(srv_drift *d)
{
    lam_norm_inputs_free(d->batch);
    lam_norm_inputs_free(d->now);
    lam_norm_inputs_free(d->before);
    if (d->model) pthread_mutex_destroy(&d->lock);
    *d = (srv_drift){0};
}

/* ---- By the worker --------------------------------------------------------------------------- */

static bool plain(const lam_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (items[i].opts->statistics != LAM_NORM_FROM_NONE) return false;
    return true;
}

void srv_drift_begin(srv_drift *d, lam_ctx *ctx, const lam_item *items, size_t count)
{
    if (!d->model) return;
    const bool wanted = d->batches++ % d->sample == 0 && plain(items, count);
    lam_ctx_measure(ctx, wanted ? d->batch : NULL, NULL);
    if (wanted) lam_norm_inputs_clear(d->batch);
}

/* The lock is held. */
static void turn(srv_drift *d, uint64_t now_ns)
{
    if (now_ns - d->since_ns < d->window_ns) return;
    const bool stale = now_ns - d->since_ns >= 2 * d->window_ns;
    lam_norm_inputs *old = d->before;
    d->before = d->now;
    d->now = old;
    lam_norm_inputs_clear(d->now);
    if (stale) lam_norm_inputs_clear(d->before);
    d->since_ns = now_ns;
}

void srv_drift_end(srv_drift *d, lam_ctx *ctx, const lam_item *items, size_t count, bool ran)
{
    if (!d->model || !lam_ctx_measures(ctx)) return;
    lam_ctx_measure(ctx, NULL, NULL);
    for (size_t i = 0; i < count; i++)
        if (items[i].status != LAM_OK) ran = false;
    if (!ran || !lam_norm_inputs_finite(d->batch)) return;
    pthread_mutex_lock(&d->lock);
    turn(d, srv_now_ns());
    lam_norm_inputs_merge(d->now, d->batch);
    pthread_mutex_unlock(&d->lock);
}

/* ---- By the loop ----------------------------------------------------------------------------- */

void srv_drift_merge(srv_drift *d, lam_norm_inputs *total)
{
    if (!d->model) return;
    pthread_mutex_lock(&d->lock);
    turn(d, srv_now_ns());
    lam_norm_inputs_merge(total, d->before);
    lam_norm_inputs_merge(total, d->now);
    pthread_mutex_unlock(&d->lock);
}

/* Which of the values are a distance and which a TID, and of what. */
static const struct {
    lam_population_value distance, tid;
    const char *of;
} statistics[] = {
    {LAM_POPULATION_MEAN_DISTANCE, LAM_POPULATION_MEAN_TID, "mean"},
    {LAM_POPULATION_VARIANCE_DISTANCE, LAM_POPULATION_VARIANCE_TID, "variance"},
    {LAM_POPULATION_SECOND_MOMENT_DISTANCE, LAM_POPULATION_SECOND_MOMENT_TID, "second_moment"},
};

static void put_labels(api_buffer *b, const srv_drift_view *v, const lam_norm_site_view *site)
{
    api_buffer_puts(b, "{model=");
    api_buffer_json_string(b, v->name, strlen(v->name));
    if (!site) return;
    if (site->layer != LAM_LAYER_NONE) {
        api_buffer_puts(b, ",layer=\"");
        api_buffer_json_u64(b, site->layer);
        api_buffer_puts(b, "\"");
    }
    api_buffer_puts(b, ",site=\"");
    api_buffer_puts(b, lam_site_name(site->site));
    api_buffer_puts(b, "\"");
}

static void put_norm(api_buffer *b, const char *name, const srv_drift_view *v, size_t norm,
                     bool tid)
{
    lam_norm_site_view site = {0};
    lam_population_stats s;
    if (!lam_model_norm_site(v->model, norm, &site) || !holds(v->model, norm) ||
        !lam_norm_inputs_distance(v->total, norm, NULL, NULL, &s))
        return;
    for (size_t i = 0; i < sizeof statistics / sizeof *statistics; i++) {
        const double x = s.values[tid ? statistics[i].tid : statistics[i].distance];
        if (!isfinite(x)) continue; /* of the other form */
        api_buffer_puts(b, name);
        put_labels(b, v, &site);
        api_buffer_puts(b, ",statistic=\"");
        api_buffer_puts(b, statistics[i].of);
        api_buffer_puts(b, "\"} ");
        api_buffer_json_double(b, x);
        api_buffer_puts(b, "\n");
    }
}

static void put_family(api_buffer *b, const char *name, const char *help,
                       const srv_drift_view *views, size_t count, bool tid)
{
    api_buffer_puts(b, "# HELP ");
    api_buffer_puts(b, name);
    api_buffer_puts(b, help);
    api_buffer_puts(b, "\n# TYPE ");
    api_buffer_puts(b, name);
    api_buffer_puts(b, " gauge\n");
    for (size_t i = 0; i < count; i++) {
        lam_norm_site_view site = {0};
        for (size_t n = 0; lam_model_norm_site(views[i].model, n, &site); n++)
            put_norm(b, name, &views[i], n, tid);
    }
}

void srv_drift_write(const srv_drift_view *views, size_t count, api_buffer *out)
{
    if (count == 0) return;
    put_family(out, "lamina_norm_tid",
               " Live traffic against stored statistics of a norm, in deviations.", views, count,
               true);
    put_family(out, "lamina_norm_distance",
               " The same as a Euclidean distance over the number of channels.", views, count,
               false);
    api_buffer_puts(out, "# HELP lamina_norm_tokens Tokens in the window that these are of.\n"
                         "# TYPE lamina_norm_tokens gauge\n");
    for (size_t i = 0; i < count; i++) {
        lam_norm_inputs_view v = {0};
        (void)lam_norm_inputs_read(views[i].total, 0, &v);
        api_buffer_puts(out, "lamina_norm_tokens");
        put_labels(out, &views[i], NULL);
        api_buffer_puts(out, "} ");
        api_buffer_json_u64(out, v.rows);
        api_buffer_puts(out, "\n");
    }
}
