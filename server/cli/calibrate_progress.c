#include "server/cli/calibrate_progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const double INTERVAL_S = 0.25;

double cal_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void describe(char *out, size_t bytes, const cal_plan *p, const cal_pass *pass)
{
    lam_norm_site_view v = {0};
    switch (pass->what) {
    case CAL_ONE_NORM:
        (void)lam_model_norm_site(p->texts->model, pass->norm, &v);
        if (v.layer == LAM_LAYER_NONE)
            (void)snprintf(out, bytes, "%s", lam_site_name(v.site));
        else
            (void)snprintf(out, bytes, "layer %zu, %s", v.layer, lam_site_name(v.site));
        break;
    case CAL_RUNNING:
        (void)snprintf(out, bytes, "all norms");
        break;
    case CAL_PROFILE:
        (void)snprintf(out, bytes, "profile");
        break;
    case CAL_COMPARE:
        (void)snprintf(out, bytes, "old against new");
        break;
    }
}

void cal_progress_start(cal_progress *g, const cal_plan *p, const cal_pass *pass)
{
    char what[64];
    *g = (cal_progress){.on = p->progress && isatty(STDERR_FILENO) == 1, .start = cal_now()};
    describe(what, sizeof what, p, pass);
    (void)snprintf(g->what, sizeof g->what, "pass %zu of %zu (%s)", (size_t)(pass - p->passes) + 1,
                   p->pass_count, what);
}

void cal_progress_show(cal_progress *g, const cal_counts *n, uint64_t size_bytes)
{
    const double now = cal_now();
    if (!g->on) return;
    if (g->first_offset == 0) g->first_offset = n->offset, g->first_rows = n->rows_run;
    if (now - g->last < INTERVAL_S) return;
    g->last = now;
    g->shown = true;
    const double passed = now - g->start;
    (void)fprintf(stderr, "\r%s: %" PRIu64 " texts, %.0f tokens/s", g->what, n->texts,
                  (double)(n->rows_run - g->first_rows) / passed);
    if (size_bytes > n->offset && n->offset > g->first_offset)
        (void)fprintf(stderr, ", %.0f s left in this pass",
                      passed * (double)(size_bytes - n->offset) /
                          (double)(n->offset - g->first_offset));
    (void)fputs("\x1b[K", stderr);
}

void cal_progress_stop(cal_progress *g)
{
    if (g->shown) (void)fputs("\r\x1b[K", stderr);
    g->shown = false;
}
