/* Each norm by itself, on rows that the model gave it. In a whole model a row always depends on the
 * others of its item, by attention; here the norm is alone. */
#include <stdlib.h>
#include <string.h>

#include "server/cli/check.h"

typedef struct observer {
    check_norms *norms;
    size_t at;
    lam_arena arena; /* of one norm */
} observer;

static check_norm *next(observer *o)
{
    check_norms *n = o->norms;
    if (o->at == n->capacity) {
        const size_t wider = n->capacity ? 2 * n->capacity : 32;
        check_norm *moved = realloc(n->list, wider * sizeof *moved);
        if (!moved) return NULL;
        n->list = moved;
        n->capacity = wider;
    }
    check_norm *out = &n->list[o->at++];
    if (o->at <= n->count) return out;
    *out = (check_norm){0};
    n->count = o->at;
    return out;
}

static void larger(double *most, const lam_norm_run *a, const lam_norm_run *b, size_t rows)
{
    for (size_t r = 0; r < rows; r++) {
        const double d =
            cli_largest_difference(a->y + r * a->y_stride, b->y + r * b->y_stride, a->width);
        if (d > *most) *most = d;
    }
}

static void measure(check_norm *n, observer *o, const lam_norm_run *run, const lam_sequence *s)
{
    const size_t rows = s[0].rows + s[1].rows, half = s[0].rows / 2;
    const size_t stride = lam_row_stride(run->width);
    const lam_sequence short_one = {.rows = half};
    lam_norm_run parts[3] = {*run, *run, *run};
    for (size_t i = 0; i < 3; i++) {
        parts[i].y = lam_arena_alloc_aligned(&o->arena, rows * stride * sizeof(float), 64);
        parts[i].y_stride = stride;
        if (!parts[i].y) {
            o->norms->failed = true;
            return;
        }
    }
    lam__norm_over(&parts[0], s, 2);
    lam__norm_over(&parts[1], s, 1);
    lam__norm_over(&parts[2], &short_one, 1);
    larger(&n->batch, &parts[0], &parts[1], s[0].rows);
    larger(&n->length, &parts[1], &parts[2], half);
}

static void see_norm(void *arg, const lam_ctx *c, const lam_op *op, const lam_norm_run *run)
{
    observer *o = arg;
    check_norm *n = next(o);
    if (!n) {
        o->norms->failed = true;
        return;
    }
    n->layer = op->layer;
    n->site = lam_hparams_norm(lam_model_hparams(c->model), op->u.norm.module).site;
    n->kind = lam_norm_kind_name(op->u.norm.spec.kind);
    n->source = run->source;
    measure(n, o, run, c->sequences);
    lam_arena_reset(&o->arena);
}

lam_status check_norms_run(check_norms *norms, lam_ctx *ctx, lam_item items[2], lam_err *err)
{
    observer o = {.norms = norms};
    const lam_watch watch = {.arg = &o, .norm = see_norm};
    lam_arena_init(&o.arena, (size_t)1 << 30);
    lam__ctx_watch(ctx, &watch);
    const lam_status status = lam_encode(ctx, items, 2, NULL);
    lam__ctx_watch(ctx, NULL);
    lam_arena_fini(&o.arena);
    if (norms->failed) return lam_fail(err, LAM_E_NOMEM, "check", "no memory for the norms");
    if (status != LAM_OK) return lam_fail(err, status, "check", "%s", lam_status_text(status));
    return LAM_OK;
}

const char *check_norm_measured(const check_norm *n)
{
    if (n->batch > 0.0) return lam_norm_verdict(LAM_NORM_FROM_BATCH);
    return lam_norm_verdict(n->length > 0.0 ? LAM_NORM_FROM_SEQUENCE : LAM_NORM_FROM_TOKEN);
}
