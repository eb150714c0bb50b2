#include "server/cli/calibrate_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/buffer.h"

/* A report of the deepest model there can be. */
#define MAX_JSON_BYTES ((size_t)16 << 20)

/* One norm: how far the old statistics were from what the old model met, and the new ones from what
 * the new model meets. */
typedef struct row {
    lam_norm_site_view site;
    uint64_t rows;
    bool has_old, has_new;
    lam_population_stats old, new;
} row;

static bool comparing(const cal_report *r)
{
    return r->plan->passes[r->plan->pass_count - 1].what == CAL_COMPARE;
}

static bool make_row(const cal_report *r, size_t norm, row *out)
{
    const cal_state *s = r->state;
    const lam_norm_inputs *met = comparing(r) ? s->other : s->total;
    lam_norm_inputs_view v = {0};
    *out = (row){.rows = r->state->counts.rows};
    if (!lam_model_norm_site(r->plan->texts->model, norm, &out->site)) return false;
    (void)lam_norm_inputs_read(met, norm, &v);
    if (!out->site.measured) return true;
    out->has_old = lam_norm_inputs_distance(s->total, norm, NULL, NULL, &out->old);
    out->has_new = lam_norm_inputs_distance(met, norm, s->mean[norm], s->square[norm], &out->new);
    return true;
}

static const char *order_word(const cal_report *r)
{
    return comparing(r) ? r->order : "one-pass";
}

static double rate(const cal_counts *n)
{
    return n->seconds > 0.0 ? (double)n->rows_run / n->seconds : 0.0;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void print_number(bool has, double v)
{
    if (has && isfinite(v))
        (void)printf(" %10.3e", v);
    else
        (void)printf(" %10s", "-");
}

/* A mean square stands in the columns of variances. */
static void print_row(const row *w)
{
    static const lam_population_value columns[2][4] = {
        {LAM_POPULATION_MEAN_DISTANCE, LAM_POPULATION_VARIANCE_DISTANCE, LAM_POPULATION_MEAN_TID,
         LAM_POPULATION_VARIANCE_TID},
        {LAM_POPULATION_MEAN_DISTANCE, LAM_POPULATION_SECOND_MOMENT_DISTANCE,
         LAM_POPULATION_MEAN_TID, LAM_POPULATION_SECOND_MOMENT_TID}};
    char place[64];
    if (w->site.layer == LAM_LAYER_NONE)
        (void)snprintf(place, sizeof place, "%s", lam_site_name(w->site.site));
    else
        (void)snprintf(place, sizeof place, "%zu %s", w->site.layer, lam_site_name(w->site.site));
    (void)printf("%-26s %-9s", place, w->site.kind);
    for (size_t i = 0; i < 4; i++) {
        const lam_population_value v = columns[w->site.second_moment][i];
        print_number(w->has_old, w->old.values[v]);
        print_number(w->has_new, w->new.values[v]);
    }
    (void)putchar('\n');
}

static void print_shift(const cal_shift *s)
{
    if (s->texts == 0 && s->failed == 0) return;
    if (s->texts > 0)
        (void)printf("embeddings of %" PRIu64
                     " texts, old against new: mean cosine %.6f, least %.6f, largest "
                     "difference %.3e\n",
                     s->texts, s->cosines / (double)s->texts, s->least_cosine,
                     s->largest_difference);
    if (s->failed > 0)
        (void)printf("%" PRIu64 " texts have no embedding in the old or the new model\n",
                     s->failed);
}

void cal_report_text(const cal_report *r)
{
    const cal_counts *n = &r->state->counts;
    row w;
    (void)printf("%-26s %-9s %21s %21s %21s %21s\n", "", "", "distance of means", "of variances",
                 "TID of means", "of deviations");
    (void)printf("%-26s %-9s", "norm", "kind");
    for (int i = 0; i < 4; i++)
        (void)printf(" %10s %10s", "old", "new");
    (void)putchar('\n');
    for (size_t i = 0; make_row(r, i, &w); i++)
        if (w.site.measured) print_row(&w);
    print_shift(&n->shift);
    (void)printf("%" PRIu64 " texts, %" PRIu64 " tokens, %s, %s", n->texts, n->rows, order_word(r),
                 r->estimator);
    if (strcmp(r->estimator, "batches") == 0) (void)printf(" of %" PRIu64 " texts", r->batch_size);
    if (n->truncated > 0) (void)printf(", %" PRIu64 " truncated", n->truncated);
    if (n->skipped > 0) (void)printf(", %" PRIu64 " empty lines left out", n->skipped);
    (void)printf("; %zu %s in %.3g s, %.0f tokens/s\nwritten to %s\n", r->plan->pass_count,
                 r->plan->pass_count == 1 ? "pass" : "passes", n->seconds, rate(n), r->out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void key(api_buffer *b, const char *name, bool first)
{
    if (!first) api_buffer_puts(b, ",");
    api_buffer_json_string(b, name, strlen(name));
    api_buffer_puts(b, ":");
}

static void put_text(api_buffer *b, const char *name, const char *value, bool first)
{
    key(b, name, first);
    api_buffer_json_string(b, value, strlen(value));
}

static void put_count(api_buffer *b, const char *name, uint64_t value)
{
    key(b, name, false);
    api_buffer_json_u64(b, value);
}

static void put_double(api_buffer *b, const char *name, double value, bool first)
{
    key(b, name, first);
    api_buffer_json_double(b, value);
}

static void put_distance(api_buffer *b, const char *name, bool has, const lam_population_stats *d)
{
    key(b, name, false);
    if (!has) {
        api_buffer_puts(b, "null");
        return;
    }
    api_buffer_puts(b, "{");
    bool first = true;
    for (int i = 0; i < LAM_POPULATION_VALUE_COUNT; i++) {
        const lam_population_value v = (lam_population_value)i;
        if (!isfinite(d->values[v])) continue; /* of the other form */
        put_double(b, lam_population_value_name(v), d->values[v], first);
        first = false;
    }
    api_buffer_puts(b, "}");
}

static void put_row(api_buffer *b, const row *w, bool first)
{
    api_buffer_puts(b, first ? "{" : ",{");
    key(b, "layer", true);
    if (w->site.layer == LAM_LAYER_NONE)
        api_buffer_puts(b, "null");
    else
        api_buffer_json_u64(b, w->site.layer);
    put_text(b, "site", lam_site_name(w->site.site), false);
    put_text(b, "kind", w->site.kind, false);
    put_text(b, "statistics", w->site.running ? "running" : "profile", false);
    put_count(b, "width", w->site.width);
    put_distance(b, "old", w->has_old, &w->old);
    put_distance(b, "new", w->has_new, &w->new);
    api_buffer_puts(b, "}");
}

static void put_shift(api_buffer *b, const cal_shift *s)
{
    key(b, "embedding", false);
    if (s->texts == 0 && s->failed == 0) {
        api_buffer_puts(b, "null");
        return;
    }
    const bool any = s->texts > 0;
    api_buffer_puts(b, "{");
    put_double(b, "mean_cosine", any ? s->cosines / (double)s->texts : (double)NAN, true);
    put_double(b, "least_cosine", any ? s->least_cosine : (double)NAN, false);
    put_double(b, "largest_difference", any ? s->largest_difference : (double)NAN, false);
    put_count(b, "texts", s->texts);
    put_count(b, "failed", s->failed);
    api_buffer_puts(b, "}");
}

static void put_report(api_buffer *b, const cal_report *r)
{
    const cal_counts *n = &r->state->counts;
    const bool batches = strcmp(r->estimator, "batches") == 0;
    row w;
    api_buffer_puts(b, "{");
    put_text(b, "model", lam_model_get_info(r->plan->texts->model)->name, true);
    put_text(b, "out", r->out, false);
    put_text(b, "order", order_word(r), false);
    put_text(b, "estimator", r->estimator, false);
    key(b, "batch_size", false);
    if (batches)
        api_buffer_json_u64(b, r->batch_size);
    else
        api_buffer_puts(b, "null");
    put_text(b, "input", r->plan->texts->tokens ? "tokens" : "text", false);
    put_count(b, "texts", n->texts);
    put_count(b, "tokens", n->rows);
    put_count(b, "truncated", n->truncated);
    put_count(b, "empty_lines", n->skipped);
    put_count(b, "passes", r->plan->pass_count);
    put_count(b, "tokens_run", n->rows_run);
    put_double(b, "seconds", n->seconds, false);
    put_double(b, "tokens_per_second", rate(n), false);
    key(b, "norms", false);
    api_buffer_puts(b, "[");
    bool first = true;
    for (size_t i = 0; make_row(r, i, &w); i++) {
        if (!w.site.measured) continue;
        put_row(b, &w, first);
        first = false;
    }
    api_buffer_puts(b, "]");
    put_shift(b, &n->shift);
    api_buffer_puts(b, "}\n");
}

lam_status cal_report_json(const cal_report *r, lam_err *err)
{
    api_buffer b;
    api_buffer_init(&b, MAX_JSON_BYTES);
    put_report(&b, r);
    const bool ok = !b.failed;
    if (ok) (void)fwrite(b.data, 1, b.size, stdout);
    api_buffer_free(&b);
    return ok ? LAM_OK : lam_fail(err, LAM_E_NOMEM, "", "no memory for the report");
}
