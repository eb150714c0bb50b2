/* The edits of the fold passes -> weights. In double from the packed float32; stored as float32. */
#include <string.h>

#include "core/base/checked.h"
#include "core/compile/fold.h"

typedef struct writer {
    lam__folder *f;
    lam_program *p; /* owns the block */
    size_t floats;  /* placed so far */
    bool overflow;
    lam_ref ones, zeros; /* as wide as the widest norm */
    double *sums;        /* [widest stride] */
} writer;

static lam_ref place(writer *w, size_t rows, size_t columns)
{
    const lam_ref ref = w->floats | LAM_REF_FOLDED;
    size_t floats;
    if (!lam_mul_size(rows, columns, &floats) || !lam_add_size(w->floats, floats, &floats) ||
        !lam_round_up_size(floats, 16, &floats) || floats >= LAM_REF_FOLDED)
        w->overflow = true;
    else
        w->floats = floats;
    return ref;
}

static float *at(const writer *w, lam_ref ref)
{
    return (float *)w->p->folded_block.data + (ref & ~LAM_REF_FOLDED);
}

static bool is_identity(lam__affine map, size_t width)
{
    for (size_t c = 0; map.scale && c < width; c++)
        if (map.scale[c] != 1.0 || map.shift[c] != 0.0) return false;
    return true;
}

/* ---- Matrices ---- */

typedef struct matrix {
    size_t inputs, outputs, stride;
    const float *weight, *bias; /* packed, as they were */
} matrix;

static matrix matrix_of(const writer *w, const lam_op *op)
{
    const size_t outputs = op->u.linear.part_count * op->u.linear.part_width;
    return (matrix){.inputs = op->u.linear.inputs,
                    .outputs = outputs,
                    .stride = lam_row_stride(outputs),
                    .weight = lam_program_weight(w->p, op->u.linear.weight),
                    .bias = lam_program_weight(w->p, op->u.linear.bias)};
}

/* Of the weight of output o from input i, in panels (kernels.h). */
static size_t packed(const matrix *m, size_t o, size_t i)
{
    return (o / LAM_PANEL * m->inputs + i) * LAM_PANEL + o % LAM_PANEL;
}

static double scale_of(lam__affine map, size_t c)
{
    return map.scale ? map.scale[c] : 1.0;
}

static double shift_of(lam__affine map, size_t c)
{
    return map.scale ? map.shift[c] : 0.0;
}

/* The weights from input i to every output, less their mean if asked: sums[o]. */
static void fold_column(const writer *w, const lam__fold_edit *e, const matrix *m, size_t i)
{
    double mean = 0.0;
    for (size_t o = 0; o < m->outputs; o++) {
        w->sums[o] = scale_of(e->out, o) * (double)m->weight[packed(m, o, i)] * scale_of(e->in, i);
        mean += w->sums[o] / (double)m->outputs;
    }
    for (size_t o = 0; e->centre && o < m->outputs; o++)
        w->sums[o] -= mean;
}

static void fold_bias(const writer *w, const lam__fold_edit *e, const matrix *m, float *bias)
{
    double mean = 0.0;
    for (size_t o = 0; o < m->outputs; o++) {
        double sum = (double)m->bias[o];
        for (size_t i = 0; e->in.scale && i < m->inputs; i++)
            sum += (double)m->weight[packed(m, o, i)] * shift_of(e->in, i);
        w->sums[o] = scale_of(e->out, o) * sum + shift_of(e->out, o);
        mean += w->sums[o] / (double)m->outputs;
    }
    for (size_t o = 0; o < m->outputs; o++)
        bias[o] = (float)(e->centre ? w->sums[o] - mean : w->sums[o]);
}

static bool is_edited(const lam__fold_edit *e, const matrix *m)
{
    return e->centre || !is_identity(e->in, m->inputs) || !is_identity(e->out, m->outputs);
}

static void fold_linear(writer *w, lam_op *op, const lam__fold_edit *e, bool fill)
{
    const matrix m = matrix_of(w, op);
    if (!is_edited(e, &m)) return;
    const lam_ref weight = place(w, m.stride, m.inputs), bias = place(w, 1, m.stride);
    if (!fill) return;
    for (size_t i = 0; i < m.inputs; i++) {
        fold_column(w, e, &m, i);
        for (size_t o = 0; o < m.outputs; o++)
            at(w, weight)[packed(&m, o, i)] = (float)w->sums[o];
    }
    fold_bias(w, e, &m, at(w, bias));
    op->u.linear.weight = weight;
    op->u.linear.bias = bias;
}

/* ---- Embedding tables ---- */

static void centre_table(writer *w, lam_ref *ref, size_t rows, size_t width, bool fill)
{
    const size_t stride = lam_row_stride(width);
    const lam_ref to = place(w, rows, stride);
    if (!fill) return;
    for (size_t r = 0; r < rows; r++) {
        const float *row = lam_program_weight(w->p, *ref) + r * stride;
        double mean = 0.0;
        for (size_t c = 0; c < width; c++)
            mean += (double)row[c] / (double)width;
        for (size_t c = 0; c < width; c++)
            at(w, to)[r * stride + c] = (float)((double)row[c] - mean);
    }
    *ref = to;
}

static void fold_embed(writer *w, lam_op *op, const lam__fold_edit *e, bool fill)
{
    const lam_hparams *h = w->f->h;
    if (!e->centre) return;
    const size_t width = h->embedding_width;
    centre_table(w, &op->u.embed.word, h->vocab, width, fill);
    if (op->u.embed.has_positions)
        centre_table(w, &op->u.embed.position, h->position_rows, width, fill);
    if (op->u.embed.has_types) centre_table(w, &op->u.embed.type, h->types, width, fill);
}

/* ---- Norms ---- */

/* The op is `e->out` and nothing else: as the kind whose mean and deviation are fixed. */
static void make_affine(const writer *w, lam_op *op, const lam__fold_edit *e, lam_ref scale,
                        lam_ref shift, size_t width)
{
    op->u.norm.spec = lam_norm_spec_default(LAM_NORM_BATCH);
    for (size_t t = 0; t < LAM_NORM_TENSOR_COUNT; t++)
        op->u.norm.tensors[t] = w->zeros;
    op->u.norm.tensors[LAM_NORM_TENSOR_BIAS] = shift;
    op->u.norm.scale = scale;
    for (size_t c = 0; c < width; c++) {
        at(w, scale)[c] = (float)e->out.scale[c];
        at(w, shift)[c] = (float)e->out.shift[c];
    }
}

static void make_bare(const writer *w, lam_op *op)
{
    op->u.norm.tensors[LAM_NORM_TENSOR_GAIN] = op->u.norm.scale = w->ones;
    op->u.norm.tensors[LAM_NORM_TENSOR_BIAS] = op->u.norm.tensors[LAM_NORM_TENSOR_MEAN] = w->zeros;
}

static void fold_norm(writer *w, lam_op *op, const lam__fold_edit *e, bool fill)
{
    const size_t width = w->f->list->bufs[op->out].width;
    if (e->out.scale) {
        const lam_ref scale = place(w, 1, lam_row_stride(width));
        const lam_ref shift = place(w, 1, lam_row_stride(width));
        if (fill) make_affine(w, op, e, scale, shift, width);
    } else if (e->bare && fill) {
        make_bare(w, op);
    }
}

/* ---- All of them ---- */

static size_t widest(const lam_program *p)
{
    size_t most = 0;
    for (size_t i = 0; i < p->buf_count; i++)
        if (p->bufs[i].width > most) most = p->bufs[i].width;
    return lam_row_stride(most);
}

/* Once to see how much room it takes, once to fill it. */
static void walk(writer *w, bool fill)
{
    const size_t constants = widest(w->f->list);
    w->floats = 0;
    w->ones = place(w, 1, constants);
    w->zeros = place(w, 1, constants);
    for (size_t c = 0; fill && c < constants; c++)
        at(w, w->ones)[c] = 1.0f;
    for (size_t i = 0; i < w->f->list->op_count && !w->overflow; i++) {
        lam_op *op = &w->f->list->ops[i];
        const lam__fold_edit *e = &w->f->edits[i];
        if (op->kind == LAM_OP_LINEAR) fold_linear(w, op, e, fill);
        if (op->kind == LAM_OP_EMBED) fold_embed(w, op, e, fill);
        if (op->kind == LAM_OP_NORM) fold_norm(w, op, e, fill);
    }
}

lam_status lam__fold_weights(lam__folder *f, lam_program *p, lam_err *err)
{
    size_t bytes;
    writer w = {
        .f = f, .p = p, .sums = lam_arena_calloc(f->scratch, widest(f->list), sizeof *w.sums)};
    walk(&w, false);
    if (!w.sums || w.overflow || !lam_mul_size(w.floats, sizeof(float), &bytes) ||
        !lam_block_map(&p->folded_block, bytes))
        return lam_fail(err, LAM_E_NOMEM, "weights", "no memory for folded weights");
    walk(&w, true);
    return LAM_OK;
}
