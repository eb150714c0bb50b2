/* Walks the op list over the batch's packed rows. Each row's bits depend on its own sequence only:
 * linears and norms see rows, attention sees one sequence at a time. */
#include <math.h>
#include <string.h>

#include "core/pool/pool.h"
#include "core/program/context.h"
#include "core/stats/norm_inputs.h"
#include "core/stats/stats.h"

typedef struct matrix {
    float *data;
    size_t stride, width;
} matrix;

const char *lam_op_name(lam_op_kind kind)
{
    static const char *const names[] = {
#define X(name, text) text,
        LAM_OP_MAP(X)
#undef X
    };
    return names[kind];
}

static matrix matrix_of(const lam_ctx *c, lam_buf buf)
{
    const lam_buf_info *b = &c->program->bufs[buf];
    return (matrix){c->rows + b->row_offset * c->max_rows, lam_row_stride(b->width), b->width};
}

static const float *weight(const lam_ctx *c, lam_ref ref)
{
    return lam_program_weight(&c->model->program, ref);
}

/* ---- Taps ---- */

static bool tap_wanted(const lam_ctx *c, size_t slot)
{
    if (slot == LAM_SLOT_NONE) return false;
    if (c->probing || c->watch) return true;
    if (!c->any_stats) return false;
    for (size_t i = 0; i < c->sequence_count; i++) {
        const lam_stats *stats = c->sequences[i].item->stats;
        if (stats && lam__stats_collects(stats, slot)) return true;
    }
    return false;
}

static bool rows_finite(const matrix *m, size_t first, size_t rows)
{
    for (size_t r = first; r < first + rows; r++)
        for (size_t i = 0; i < m->width; i++)
            if (!isfinite(m->data[r * m->stride + i])) return false;
    return true;
}

/* An item whose fault is looked for has no fault_site yet. */
static void find_faults(const lam_ctx *c, const lam_op *op, const matrix *m)
{
    for (size_t i = 0; i < c->sequence_count; i++) {
        const lam_sequence *s = &c->sequences[i];
        if (s->item->fault_site != LAM_SITE_COUNT || rows_finite(m, s->first, s->rows)) continue;
        s->item->fault_layer = op->layer;
        s->item->fault_site = op->site;
    }
}

static void tap(lam_ctx *c, const lam_op *op, matrix m)
{
    if (c->probing) {
        find_faults(c, op, &m);
        return;
    }
    if (c->watch && c->watch->see)
        c->watch->see(c->watch->arg, op->slot, m.data, m.stride, c->row_count);
    for (size_t i = 0; i < c->sequence_count; i++) {
        const lam_sequence *s = &c->sequences[i];
        if (!s->item->stats || !lam__stats_collects(s->item->stats, op->slot)) continue;
        lam__stats_add(s->item->stats, s->item->index, op->slot, &c->model->kernels,
                       m.data + s->first * m.stride, m.stride, s->rows);
    }
}

/* ---- Ops ---- */

static void run_embed(const lam_ctx *c, const lam_op *op)
{
    const matrix out = matrix_of(c, op->out);
    const bool types = op->u.embed.has_types, positions = op->u.embed.has_positions;
    const lam_embedding e = {.word = weight(c, op->u.embed.word),
                             .position = positions ? weight(c, op->u.embed.position) : NULL,
                             .type = types ? weight(c, op->u.embed.type) : NULL,
                             .width = out.width};
    c->model->kernels.embed(&e, c->ids, c->positions, types ? c->types : NULL, c->row_count,
                            out.data, out.stride);
}

/* What the items of the batch ask for instead of the model's own source. Batches of norms that look
 * at the whole request hold one request (encode.c), so the first item speaks for all. */
static lam_norm_source source_of(const lam_ctx *c, const lam_op *op)
{
    if (c->values && lam__norm_values_at(c->values, op->u.norm.index)->running)
        return LAM_NORM_FROM_RUNNING;
    return lam_norm_source_for(&op->u.norm.spec, c->sequences[0].item->opts->statistics);
}

static void run_rows(const lam_norm_run *run, size_t first, size_t rows)
{
    lam_norm_run part = *run;
    part.rows = rows;
    part.x = run->x + first * run->x_stride;
    part.y = run->y + first * run->y_stride;
    lam_norm_run_kind(&part);
}

void lam__norm_over(const lam_norm_run *run, const lam_sequence *sequences, size_t count)
{
    if (run->source != LAM_NORM_FROM_SEQUENCE) {
        const lam_sequence *last = &sequences[count - 1];
        run_rows(run, sequences[0].first, last->first + last->rows - sequences[0].first);
        return;
    }
    for (size_t i = 0; i < count; i++)
        run_rows(run, sequences[i].first, sequences[i].rows);
}

/* What population statistics are of, before the norm may overwrite it. */
static void measure_norm(const lam_ctx *c, const lam_op *op, matrix in)
{
    if (!lam__norm_inputs_wants(c->inputs, op->u.norm.index)) return;
    for (size_t i = 0; i < c->sequence_count; i++) {
        const lam_sequence *s = &c->sequences[i];
        lam__norm_inputs_add(c->inputs, op->u.norm.index, &c->model->kernels, &op->u.norm.spec,
                             in.data + s->first * in.stride, in.stride, s->rows);
    }
}

static void replace_values(const lam_ctx *c, const lam_op *op, lam_norm_params *params)
{
    const lam_norm_tensors *t = lam__norm_values_at(c->values, op->u.norm.index);
    if (!t->scale) return;
    params->mean = t->mean;
    params->square = t->square;
    params->scale = t->scale;
}

static void run_norm(const lam_ctx *c, const lam_op *op)
{
    const matrix in = matrix_of(c, op->in), out = matrix_of(c, op->out);
    const lam_ref *t = op->u.norm.tensors;
    lam_norm_run run = {.kernels = &c->model->kernels,
                        .spec = &op->u.norm.spec,
                        .source = source_of(c, op),
                        .params = {.gain = weight(c, t[LAM_NORM_TENSOR_GAIN]),
                                   .bias = weight(c, t[LAM_NORM_TENSOR_BIAS]),
                                   .mean = weight(c, t[LAM_NORM_TENSOR_MEAN]),
                                   .square = weight(c, t[LAM_NORM_TENSOR_SQUARE]),
                                   .scale = weight(c, op->u.norm.scale),
                                   .factor = *weight(c, t[LAM_NORM_TENSOR_FACTOR]),
                                   .alpha = *weight(c, t[LAM_NORM_TENSOR_ALPHA]),
                                   .shift = *weight(c, t[LAM_NORM_TENSOR_SHIFT])},
                        .width = in.width,
                        .rows = c->row_count,
                        .x = in.data,
                        .x_stride = in.stride,
                        .y = out.data,
                        .y_stride = out.stride,
                        .sums = c->norm_sums,
                        .affine = c->norm_affine};
    const bool folded = c->program == c->model->program.folded;
    if (c->inputs && !c->probing && !folded) measure_norm(c, op, in);
    if (c->values) replace_values(c, op, &run.params);
    if (c->watch && c->watch->norm && !c->probing && !folded)
        c->watch->norm(c->watch->arg, c, op, &run);
    lam__norm_over(&run, c->sequences, c->sequence_count);
}

static void add(const lam_ctx *c, matrix x, matrix z, float scale, matrix y)
{
    c->model->kernels.add(x.data, x.stride, z.data, z.stride, scale, c->row_count, y.width, y.data,
                          y.stride);
}

static void run_linear(lam_ctx *c, const lam_op *op)
{
    const matrix in = matrix_of(c, op->in), out = matrix_of(c, op->out);
    const lam_linear l = {.weight = weight(c, op->u.linear.weight),
                          .bias = weight(c, op->u.linear.bias),
                          .k = op->u.linear.inputs,
                          .n = out.width,
                          .activation = op->u.linear.activation};
    const lam_kernels *k = &c->model->kernels;
    const float scale = op->u.linear.residual_scale;
    const lam_buf residual = op->u.linear.residual;
    if (residual == LAM_BUF_NONE) {
        k->linear(&l, in.data, in.stride, c->row_count, NULL, 0, scale, out.data, out.stride);
    } else if (!tap_wanted(c, op->slot)) {
        const matrix z = matrix_of(c, residual);
        k->linear(&l, in.data, in.stride, c->row_count, z.data, z.stride, scale, out.data,
                  out.stride);
    } else {
        /* The site is the sum without the residual, which the fused form never holds. */
        const matrix alone = {c->tap, out.stride, out.width};
        k->linear(&l, in.data, in.stride, c->row_count, NULL, 0, scale, alone.data, alone.stride);
        tap(c, op, alone);
        add(c, alone, matrix_of(c, residual), scale, out);
        return;
    }
    if (tap_wanted(c, op->slot)) tap(c, op, out);
}

/* Of one sequence; nothing where the op has none. */
static lam_attention_bias bias_of(const lam_ctx *c, const lam_attention_op *a,
                                  const lam_sequence *s)
{
    if (!a->biased) return (lam_attention_bias){0};
    return (lam_attention_bias){weight(c, a->bias), a->bias_span, c->indices + s->first};
}

static void run_attention(const lam_ctx *c, const lam_op *op)
{
    const matrix in = matrix_of(c, op->in), out = matrix_of(c, op->out);
    const size_t width = out.width;
    const lam_attention_op *a = &op->u.attention;
    const lam_kernels *k = &c->model->kernels;
    for (size_t i = 0; i < c->sequence_count; i++) {
        const lam_sequence *s = &c->sequences[i];
        const float *q = in.data + s->first * in.stride;
        float *to = out.data + s->first * out.stride;
        const lam_attention_bias bias = bias_of(c, a, s);
        if (a->biased)
            k->attention_biased(&a->shape, &bias, q, q + width, q + 2 * width, in.stride, s->rows,
                                to, out.stride, c->attention);
        else
            k->attention(&a->shape, q, q + width, q + 2 * width, in.stride, s->rows, to, out.stride,
                         c->attention);
    }
}

static void run_activate(const lam_ctx *c, const lam_op *op)
{
    const matrix in = matrix_of(c, op->in), out = matrix_of(c, op->out);
    c->model->kernels.activate(op->u.activation, in.data, in.stride, c->row_count, in.width,
                               out.data, out.stride);
}

static void copy_state(const lam_sequence *s, matrix m, size_t index)
{
    float *to = s->item->states + index * s->rows * m.width;
    for (size_t r = 0; r < s->rows; r++)
        memcpy(to + r * m.width, m.data + (s->first + r) * m.stride, m.width * sizeof *to);
}

/* Takes the vectors of the items that want this state. */
static void run_state(const lam_ctx *c, const lam_op *op)
{
    const matrix m = matrix_of(c, op->in);
    const bool defined = c->program != c->model->program.folded;
    for (size_t i = 0; i < c->sequence_count; i++) {
        const lam_sequence *s = &c->sequences[i];
        if (s->item->states && defined) copy_state(s, m, op->u.state_index);
        if (!c->takes_vectors || s->item->opts->output_layer != op->u.state_index) continue;
        s->item->status =
            lam__pool(s->item->opts, m.data + s->first * m.stride, m.stride, s->rows, s->item->out);
    }
}

static void run_measure(lam_ctx *c, const lam_op *op)
{
    const bool pair = op->u.measure.other != LAM_BUF_NONE;
    const matrix x = matrix_of(c, op->in), y = pair ? matrix_of(c, op->u.measure.other) : x;
    lam_measured m = {.what = op->u.measure.what,
                      .x_stride = x.stride,
                      .width = x.width,
                      .y_stride = y.stride,
                      .scale = op->u.measure.scale,
                      .attention = &op->u.measure.attention.shape,
                      .scratch = c->attention};
    for (size_t i = 0; i < c->sequence_count && m.what == LAM_MEASURE_POPULATION; i++) {
        const lam_sequence *s = &c->sequences[i];
        if (s->item->stats)
            lam__stats_add_population(s->item->stats, s->item->index, op,
                                      x.data + s->first * x.stride, x.stride, s->rows);
    }
    for (size_t i = 0; i < c->sequence_count && m.what != LAM_MEASURE_POPULATION; i++) {
        const lam_sequence *s = &c->sequences[i];
        lam_layers *full = s->item->stats ? lam__stats_layers(s->item->stats) : NULL;
        if (!full || !lam__layers_collects(full, op->layer, m.what)) continue;
        m.rows = s->rows;
        const lam_attention_bias bias = bias_of(c, &op->u.measure.attention, s);
        m.bias = op->u.measure.attention.biased ? &bias : NULL;
        m.x = x.data + s->first * x.stride;
        m.y = y.data + s->first * y.stride;
        lam__layers_add(full, s->item->index, op->layer, &m);
    }
}

static void run_op(lam_ctx *c, const lam_op *op)
{
    switch (op->kind) {
    case LAM_OP_EMBED:
        run_embed(c, op);
        break;
    case LAM_OP_NORM:
        run_norm(c, op);
        break;
    case LAM_OP_LINEAR:
        run_linear(c, op);
        return; /* taps its result itself */
    case LAM_OP_ATTENTION:
        run_attention(c, op);
        break;
    case LAM_OP_ADD:
        add(c, matrix_of(c, op->in), matrix_of(c, op->u.add.other), op->u.add.scale,
            matrix_of(c, op->out));
        break;
    case LAM_OP_ACTIVATE:
        run_activate(c, op);
        break;
    case LAM_OP_STATE:
        run_state(c, op);
        break;
    case LAM_OP_MEASURE:
        run_measure(c, op);
        return;
    case LAM_OP_TAP:
    case LAM_OP_COUNT:
        break;
    }
    if (tap_wanted(c, op->slot))
        tap(c, op, matrix_of(c, op->kind == LAM_OP_TAP ? op->in : op->out));
}

/* The last state that any item waits for: nothing behind it need run unless statistics want it. */
static size_t last_state(const lam_ctx *c)
{
    size_t last = 0;
    for (size_t i = 0; i < c->sequence_count; i++) {
        const lam_item *item = c->sequences[i].item;
        const size_t wanted = item->states ? c->model->info.layers : item->opts->output_layer;
        if (wanted > last) last = wanted;
    }
    return last;
}

bool lam__runs_folded(const lam_model *m, const lam_encode_opts *opts)
{
    const lam_program *f = m->program.folded;
    return f && opts->statistics == LAM_NORM_FROM_NONE && f->states[opts->output_layer];
}

/* Runs a list up to the state `last`. `ends`: nothing else is to run in this call. */
static lam_status run_list(lam_ctx *c, const lam_program *p, size_t last, bool ends,
                           const lam_stop *stop)
{
    c->program = p;
    for (size_t i = 0; i < p->op_count; i++) {
        const lam_op *op = &p->ops[i];
        if (stop && stop->asked(stop->arg)) return LAM_E_CANCELLED;
        if (ends && i == p->last_linear && stop && stop->ending) stop->ending(stop->arg);
        run_op(c, op);
        if (op->kind == LAM_OP_NORM && c->inputs &&
            lam__norm_inputs_ends_at(c->inputs, op->u.norm.index))
            break;
        if (op->kind == LAM_OP_STATE && op->u.state_index == last) break;
    }
    return LAM_OK;
}

static bool any_states(const lam_ctx *c)
{
    for (size_t i = 0; i < c->sequence_count; i++)
        if (c->sequences[i].item->states) return true;
    return false;
}

lam_status lam__execute(lam_ctx *c, bool is_last, const lam_stop *stop)
{
    const lam_program *plain = &c->model->program;
    const lam_program *defined = c->any_full ? plain->measured : plain;
    const bool measures = c->any_stats || c->watch || c->inputs, looks = measures || any_states(c);
    c->takes_vectors = !c->probing;
    /* Folded weights hold the model's own values. */
    const bool own = !c->probing && !c->values;
    if (own && lam__runs_folded(c->model, c->sequences[0].item->opts)) {
        LAM_TRY(run_list(c, plain->folded, last_state(c), is_last && !looks, stop));
        if (!looks) return LAM_OK;
        /* What is measured is defined on the list that has every norm; the vectors stay. */
        c->takes_vectors = false;
    }
    const size_t last = measures || c->probing ? SIZE_MAX : last_state(c);
    return run_list(c, defined, last, is_last, stop);
}
