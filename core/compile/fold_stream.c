/* Norms behind the residual sum. The sum y_l = a_l (y_{l-1} + f_l(y_{l-1})) + b_l keeps the form
 *     y_l = A_l s_l + k_l,   A_l = a_l A_{l-1},   k_l = a_l k_{l-1} + b_l
 * of a stream s that no norm touches: s_l = s_{l-1} + f_l(A_{l-1} s_{l-1} + k_{l-1}) / A_{l-1}.
 * So A and k go into the matrices that read the stream, 1 / A into those that write it, and the
 * last norm remains, as the map from s to y. A shortcut's own factor is one more factor of A. */
#include <math.h>

#include "core/compile/fold.h"

typedef struct stream {
    lam__folder *f;
    lam__affine *maps; /* [buf_count]: from what stands in the buffer to what it means */
} stream;

static bool asked(const stream *s, lam_fold fold)
{
    return (s->f->folds >> fold & 1u) != 0;
}

/* The addition that carries the buffer on, or NULL. */
static const lam_op *next_sum(const lam_program *p, lam_buf buf)
{
    for (size_t i = 0; i < p->op_count; i++)
        if (p->ops[i].kind == LAM_OP_ADD && p->ops[i].u.add.other == buf) return &p->ops[i];
    return NULL;
}

/* The one norm that reads the buffer and is fixed, or NULL. */
static const lam_op *fixed_reader(const lam_program *p, lam_buf buf)
{
    const lam__readers r = lam__readers_of(p, buf);
    const lam_op *op = &p->ops[r.op];
    const bool one = r.count == 1 && r.by[LAM_OP_NORM] == 1;
    return one && lam__norm_is_fixed(&op->u.norm.spec) ? op : NULL;
}

/* Why a norm that a sum carries on must stay, or NULL. `map`: from the stream to its result. */
static const char *stays(const stream *s, const lam_op *op, const lam_op *sum, lam__affine map,
                         double offset)
{
    const lam_program *p = s->f->list;
    const size_t width = p->bufs[op->out].width;
    const lam__readers r = lam__readers_of(p, op->out);
    const size_t added = lam__writer_of(p, sum->in);
    const double factor = lam__smallest_scale(map, width) * fmin(1.0, (double)sum->u.add.scale);
    if (!lam_placement_is_post(s->f->h->placement))
        return "the residual carries it past norms inside the layers";
    if (r.by[LAM_OP_NORM] + r.by[LAM_OP_ACTIVATE] + r.by[LAM_OP_ATTENTION] > 0)
        return "more than matrices and the residual read it";
    if (p->ops[added].kind != LAM_OP_LINEAR || lam__readers_of(p, sum->in).count != 1)
        return "what is added to it comes from no matrix";
    if (!fixed_reader(p, sum->out)) return "the norm behind the next sum measures its rows";
    if (!asked(s, LAM_FOLD_STREAM)) return "not asked for";
    if (!(factor > LAM__FOLD_MIN_FACTOR)) return "a factor to divide by is 0 or too small";
    if (!(offset <= LAM__FOLD_MAX_OFFSET) && !isnan(offset))
        return "the running mean is too far from 0: differences would cancel";
    if (!(lam__largest_shift(map, width) <= LAM__FOLD_MAX_OFFSET))
        return "what is added along the stream outgrows it: differences would cancel";
    return NULL;
}

/* The norm becomes the rest of the stream's map. */
static void close_stream(stream *s, size_t at, lam__affine map)
{
    if (!s->maps[s->f->list->ops[at].in].scale) return;
    s->f->edits[at].out = map;
}

static void remove_norm(stream *s, size_t at, lam__affine map)
{
    lam_op *op = &s->f->list->ops[at];
    s->maps[op->in] = map;
    lam__redirect(s->f->list, op->out, op->in);
    lam__op_retire(op);
    s->f->taken = true;
}

/* The last norm behind a sum, or the final one: something has to turn s into y. */
static void fold_last(stream *s, size_t at, lam__affine map, double offset)
{
    const lam_op *op = &s->f->list->ops[at];
    const char *reason = "the vectors read it: one affine map remains";
    if (op->u.norm.module != LAM_MODULE_FINAL_NORM && fixed_reader(s->f->list, op->out))
        reason = asked(s, LAM_FOLD_FINAL) ? NULL : "not asked for";
    lam__fold_note(s->f, at, LAM_FOLD_FINAL, reason, (double)NAN, offset);
    if (reason)
        close_stream(s, at, map);
    else
        remove_norm(s, at, map);
}

static void fold_norm(stream *s, size_t at)
{
    const lam_op *op = &s->f->list->ops[at];
    const size_t width = s->f->list->bufs[op->out].width;
    const lam_op *sum = next_sum(s->f->list, op->out);
    double offset;
    if (!lam__norm_is_fixed(&op->u.norm.spec)) return;
    const lam__affine own = lam__norm_map(s->f, op, &offset);
    const lam__affine map = lam__compose(s->f, s->maps[op->in], own, width);
    if (!map.scale || s->f->views[2 * at].kind) return; /* fold_neighbours has spoken */
    if (!sum) {
        fold_last(s, at, map, offset);
        return;
    }
    const char *reason = stays(s, op, sum, map, offset);
    lam__fold_note(s->f, at, LAM_FOLD_STREAM, reason, lam__smallest_scale(map, width), offset);
    if (reason)
        close_stream(s, at, map);
    else
        remove_norm(s, at, map);
}

/* out = in + scale * (A x + k) is scale A (x + in / (scale A)) + scale k. */
static void fold_sum(stream *s, lam_op *op)
{
    const size_t width = s->f->list->bufs[op->out].width;
    const lam__affine map = s->maps[op->u.add.other];
    const double scale = (double)op->u.add.scale;
    if (!map.scale) return;
    lam__affine carried = lam__compose(s->f, map, (lam__affine){0}, width);
    lam__affine divide = lam__compose(s->f, (lam__affine){0}, (lam__affine){0}, width);
    if (!carried.scale || !divide.scale) return;
    for (size_t c = 0; c < width; c++) {
        carried.scale[c] *= scale;
        carried.shift[c] *= scale;
        divide.scale[c] = 1.0 / carried.scale[c];
    }
    lam__edit_output(s->f, lam__writer_of(s->f->list, op->in), divide);
    op->u.add.scale = 1.0f;
    s->maps[op->out] = carried;
}

void lam__fold_stream(lam__folder *f)
{
    stream s = {.f = f, .maps = lam_arena_calloc(f->scratch, f->list->buf_count, sizeof *s.maps)};
    f->failed |= !s.maps;
    for (size_t i = 0; i < f->list->op_count && !f->failed; i++) {
        lam_op *op = &f->list->ops[i];
        switch (op->kind) {
        case LAM_OP_NORM:
            fold_norm(&s, i);
            break;
        case LAM_OP_LINEAR:
            if (s.maps[op->in].scale) lam__edit_input(f, i, s.maps[op->in]);
            break;
        case LAM_OP_ADD:
            fold_sum(&s, op);
            break;
        case LAM_OP_STATE: /* vectors of this layer come from the plain list */
            if (s.maps[op->in].scale) lam__op_retire(op);
            break;
        case LAM_OP_EMBED:
        case LAM_OP_ATTENTION:
        case LAM_OP_ACTIVATE:
        case LAM_OP_TAP:
        case LAM_OP_MEASURE:
        case LAM_OP_COUNT:
            break;
        }
    }
}
