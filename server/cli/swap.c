#include "server/cli/swap.h"

#include <math.h>
#include <stdio.h>

typedef struct observer {
    const lam_hparams *now, *other;
    bool any;
    lam_norm_kind from, to;
    double k; /* of ada */
    double largest;
    size_t layer;
    lam_site site;
} observer;

static bool needs_training(lam_norm_kind kind)
{
    return kind == LAM_NORM_DYT || kind == LAM_NORM_DERF || kind == LAM_NORM_ADA;
}

/* Largest |x - mean| / deviation of a row: what a norm of the row hands on, before its gain. */
static double largest_of(const float *x, size_t n)
{
    double mean = 0.0, variance = 0.0, largest = 0.0;
    for (size_t i = 0; i < n; i++)
        mean += (double)x[i];
    mean /= (double)n;
    for (size_t i = 0; i < n; i++) {
        const double off = fabs((double)x[i] - mean);
        variance += off * off;
        if (off > largest) largest = off;
    }
    variance /= (double)n;
    return variance > 0.0 ? largest / sqrt(variance) : 0.0;
}

static void see_norm(void *arg, const lam_ctx *c, const lam_op *op, const lam_norm_run *run)
{
    (void)c;
    observer *o = arg;
    const lam_norm_site site = lam_hparams_norm(o->now, op->u.norm.module);
    const lam_norm_spec next = lam_hparams_norm(o->other, op->u.norm.module).spec;
    if (next.kind == run->spec->kind || !needs_training(next.kind)) return;
    for (size_t r = 0; r < run->rows; r++) {
        const double largest = largest_of(run->x + r * run->x_stride, run->width);
        if (o->any && largest <= o->largest) continue;
        *o = (observer){.now = o->now,
                        .other = o->other,
                        .any = true,
                        .from = run->spec->kind,
                        .to = next.kind,
                        .k = next.k,
                        .largest = largest,
                        .layer = op->layer,
                        .site = site.site};
    }
}

static lam_status refuse(const observer *o, lam_err *err)
{
    char place[64];
    const char *from = lam_norm_kind_name(o->from), *to = lam_norm_kind_name(o->to);
    if (o->layer == LAM_LAYER_NONE)
        (void)snprintf(place, sizeof place, "%s", lam_site_name(o->site));
    else
        (void)snprintf(place, sizeof place, "layer %zu, %s", o->layer, lam_site_name(o->site));
    if (o->to != LAM_NORM_ADA)
        return lam_fail(err, LAM_E_UNSUPPORTED, "--with",
                        "a model trained with %s needs training for %s: max |y| of the norm is "
                        "%.4g here (%s), and %s ends at 1",
                        from, to, o->largest, place, o->to == LAM_NORM_DYT ? "tanh" : "erf");
    return lam_fail(err, LAM_E_UNSUPPORTED, "--with",
                    "a model trained with %s needs training for ada: max |y| of the norm is %.4g "
                    "here (%s), and c (1 - k y) y falls again from 1/(2k) = %.4g on",
                    from, o->largest, place, 0.5 / o->k);
}

lam_status cli_swap_check(lam_ctx *ctx, const lam_hparams *other, lam_item *items, size_t count,
                          lam_err *err)
{
    observer o = {.now = lam_model_hparams(ctx->model), .other = other};
    const lam_watch watch = {.arg = &o, .norm = see_norm};
    lam__ctx_watch(ctx, &watch);
    const lam_status status = lam_encode(ctx, items, count, NULL);
    lam__ctx_watch(ctx, NULL);
    if (status != LAM_OK) return lam_fail(err, status, "encode", "%s", lam_status_text(status));
    if (!o.any) return LAM_OK;
    const bool safe = o.to == LAM_NORM_ADA && !(fabs(o.k) * o.largest > 0.5);
    return safe ? LAM_OK : refuse(&o, err);
}
