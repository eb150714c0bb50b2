/* The list without the norms that weights can take over: what the passes share, and their order. */
#include "core/compile/fold.h"

#include <math.h>
#include <string.h>

/* Maps of every norm and matrix at once, a few numbers a channel. */
static const size_t SCRATCH_BYTES = (size_t)1 << 30;

lam__readers lam__readers_of(const lam_program *p, lam_buf buf)
{
    lam__readers r = {0};
    for (size_t i = 0; i < p->op_count; i++) {
        const lam_op *op = &p->ops[i];
        const bool carries = op->kind == LAM_OP_ADD && op->u.add.other == buf;
        if (op->kind == LAM_OP_TAP || (op->in != buf && !carries)) continue;
        r.count++;
        r.by[op->kind]++;
        r.shortcuts += carries;
        r.op = i;
    }
    return r;
}

size_t lam__writer_of(const lam_program *p, lam_buf buf)
{
    size_t i = 0;
    while (p->ops[i].out != buf)
        i++;
    return i;
}

void lam__redirect(lam_program *p, lam_buf from, lam_buf to)
{
    for (size_t i = 0; i < p->op_count; i++) {
        lam_op *op = &p->ops[i];
        if (op->in == from) op->in = to;
        if (op->kind == LAM_OP_ADD && op->u.add.other == from) op->u.add.other = to;
    }
}

bool lam__norm_is_fixed(const lam_norm_spec *spec)
{
    return spec->kind == LAM_NORM_NONE ||
           (spec->source == LAM_NORM_FROM_RUNNING && spec->groups == 0);
}

/* The identity, to be changed; {NULL, NULL} without memory. */
static lam__affine new_map(lam__folder *f, size_t width)
{
    lam__affine map = {lam_arena_calloc(f->scratch, width, sizeof(double)),
                       lam_arena_calloc(f->scratch, width, sizeof(double))};
    if (!map.scale || !map.shift) {
        f->failed = true;
        return (lam__affine){0};
    }
    for (size_t c = 0; c < width; c++)
        map.scale[c] = 1.0;
    return map;
}

lam__affine lam__norm_map(lam__folder *f, const lam_op *op, double *offset)
{
    const lam_norm_spec *spec = &op->u.norm.spec;
    const size_t width = f->list->bufs[op->out].width;
    const lam_ref *t = op->u.norm.tensors;
    const float *gain = lam_program_weight(f->base, t[LAM_NORM_TENSOR_GAIN]);
    const float *bias = lam_program_weight(f->base, t[LAM_NORM_TENSOR_BIAS]);
    const bool running = spec->source == LAM_NORM_FROM_RUNNING;
    const double slope = (double)*lam_program_weight(f->base, t[LAM_NORM_TENSOR_ALPHA]);
    lam__affine map = new_map(f, width);
    *offset = (double)NAN;
    if (!map.scale || spec->kind == LAM_NORM_NONE) return map;
    if (running) *offset = 0.0;
    for (size_t c = 0; c < width; c++) {
        map.scale[c] = (double)gain[c];
        map.shift[c] = (double)bias[c];
        if (!running) continue;
        const float *mean = lam_program_weight(f->base, t[LAM_NORM_TENSOR_MEAN]);
        const float *square = lam_program_weight(f->base, t[LAM_NORM_TENSOR_SQUARE]);
        const double d = lam_norm_denominator(spec, (double)square[c]);
        map.scale[c] /= d;
        map.shift[c] -= (double)mean[c] * map.scale[c];
        map.scale[c] += slope; /* repbn alone has one that is not 0 */
        *offset = fmax(*offset, fabs((double)mean[c]) / d);
    }
    return map;
}

lam__affine lam__compose(lam__folder *f, lam__affine first, lam__affine second, size_t width)
{
    lam__affine map = new_map(f, width);
    for (size_t c = 0; map.scale && c < width; c++) {
        const double scale = first.scale ? first.scale[c] : 1.0;
        const double shift = first.scale ? first.shift[c] : 0.0;
        map.scale[c] = second.scale ? second.scale[c] * scale : scale;
        map.shift[c] = second.scale ? second.scale[c] * shift + second.shift[c] : shift;
    }
    return map;
}

void lam__edit_input(lam__folder *f, size_t at, lam__affine map)
{
    lam__fold_edit *e = &f->edits[at];
    e->in = lam__compose(f, map, e->in, f->list->ops[at].u.linear.inputs);
    f->taken = true;
}

void lam__edit_output(lam__folder *f, size_t at, lam__affine map)
{
    lam__fold_edit *e = &f->edits[at];
    e->out = lam__compose(f, e->out, map, f->list->bufs[f->list->ops[at].out].width);
    f->taken = true;
}

double lam__smallest_scale(lam__affine map, size_t width)
{
    double smallest = (double)INFINITY;
    for (size_t c = 0; c < width; c++)
        smallest = fmin(smallest, fabs(map.scale[c]));
    return smallest;
}

double lam__largest_shift(lam__affine map, size_t width)
{
    double largest = 0.0;
    for (size_t c = 0; c < width; c++)
        largest = fmax(largest, fabs(map.shift[c]));
    return largest;
}

void lam__fold_note(lam__folder *f, size_t at, lam_fold fold, const char *reason, double factor,
                    double offset)
{
    const lam_op *op = &f->list->ops[at];
    const lam_norm_site site = lam_hparams_norm(f->h, op->u.norm.module);
    f->views[2 * at + (fold == LAM_FOLD_CENTRE)] = (lam_fold_view){
        .fold = fold,
        .layer = op->layer,
        .site = site.site,
        .kind = lam_norm_kind_name(site.spec.kind),
        .taken = reason == NULL,
        .reason = reason ? reason : "taken",
        .min_factor = factor,
        .max_offset = offset,
    };
}

/* ---- The pass -------------------------------------------------------------------------------- */

static lam_status no_memory(lam_err *err)
{
    return lam_fail(err, LAM_E_NOMEM, "program", "no memory to fold norms");
}

/* Sites and taps are the plain list's. */
static lam_status copy_list(lam__folder *f, const lam_program *p, lam_arena *arena, lam_err *err)
{
    lam_program *l = lam_arena_calloc(arena, 1, sizeof *l);
    if (!l) return no_memory(err);
    l->ops = lam_arena_calloc(arena, p->op_count, sizeof *l->ops);
    l->bufs = lam_arena_calloc(arena, p->buf_count, sizeof *l->bufs);
    l->states = lam_arena_calloc(arena, f->h->layers + 1, sizeof *l->states);
    if (!l->ops || !l->bufs || !l->states) return no_memory(err);
    memcpy(l->ops, p->ops, p->op_count * sizeof *l->ops);
    memcpy(l->bufs, p->bufs, p->buf_count * sizeof *l->bufs);
    l->op_count = p->op_count;
    l->buf_count = p->buf_count;
    for (size_t i = 0; i < l->op_count; i++) {
        lam_op *op = &l->ops[i];
        op->site = LAM_SITE_COUNT;
        op->slot = LAM_SLOT_NONE;
        if (op->kind == LAM_OP_TAP) lam__op_retire(op);
    }
    f->list = l;
    return LAM_OK;
}

static lam_status keep_views(const lam__folder *f, lam_program *p, lam_arena *arena, lam_err *err)
{
    const size_t places = 2 * f->list->op_count;
    p->folds = lam_arena_calloc(arena, places, sizeof *p->folds);
    if (!p->folds) return no_memory(err);
    for (size_t i = 0; i < places; i++)
        if (f->views[i].kind) p->folds[p->fold_count++] = f->views[i];
    return LAM_OK;
}

static void finish(lam_program *list)
{
    lam__drop(list);
    for (size_t i = 0; i < list->op_count; i++)
        if (list->ops[i].kind == LAM_OP_STATE) list->states[list->ops[i].u.state_index] = true;
}

static lam_status fold(lam__folder *f, lam_program *p, lam_arena *arena, lam_err *err)
{
    LAM_TRY(copy_list(f, p, arena, err));
    f->edits = lam_arena_calloc(f->scratch, p->op_count, sizeof *f->edits);
    f->views = lam_arena_calloc(f->scratch, 2 * p->op_count, sizeof *f->views);
    if (!f->edits || !f->views) return no_memory(err);
    lam__fold_neighbours(f);
    lam__fold_stream(f);
    lam__fold_centre(f);
    if (f->failed) return no_memory(err);
    LAM_TRY(keep_views(f, p, arena, err));
    if (!f->taken) return LAM_OK;
    LAM_TRY(lam__fold_weights(f, p, err));
    finish(f->list);
    p->folded = f->list;
    return LAM_OK;
}

lam_status lam__fold(lam_program *p, const lam_hparams *h, unsigned folds, lam_arena *arena,
                     lam_err *err)
{
    lam_arena scratch;
    lam_arena_init(&scratch, SCRATCH_BYTES);
    lam__folder f = {.base = p, .h = h, .folds = folds, .scratch = &scratch};
    const lam_status status = fold(&f, p, arena, err);
    lam_arena_fini(&scratch);
    return status;
}
