/* What norms normalize, over many requests: moments of every channel, and how far the statistics
 * that a model holds are from them. */
#include "core/stats/norm_inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/model.h"

struct lam_norm_inputs {
    const lam_model *model;
    size_t norm_count, only; /* the one site that is wanted, or LAM_NORM_ALL */
    size_t *widths;
    lam_channel_sums *sites;
    lam_channel_sums item; /* [widest] of the rows at hand */
    float *scaled;         /* [positions, widest] group-scaled rows; NULL where no norm has any */
    float *ones;           /* [widest], then as many zeros */
};

/* ---- The norms of a model -------------------------------------------------------------------- */

const lam_op *lam__norm_op(const lam_model *m, size_t norm)
{
    const lam_program *p = m->program.measured;
    for (size_t i = 0; i < p->op_count; i++)
        if (p->ops[i].kind == LAM_OP_NORM && p->ops[i].u.norm.index == norm) return &p->ops[i];
    return NULL;
}

static size_t op_width(const lam_model *m, const lam_op *op)
{
    return m->program.measured->bufs[op->out].width;
}

static size_t widest_stride(const lam_model *m, bool *groups)
{
    size_t widest = 0;
    *groups = false;
    for (size_t i = 0; i < m->program.norm_count; i++) {
        const lam_op *op = lam__norm_op(m, i);
        const size_t stride = lam_row_stride(op_width(m, op));
        if (stride > widest) widest = stride;
        *groups |= lam_norm_has_statistics(op->u.norm.spec.kind) && op->u.norm.spec.groups > 0;
    }
    return widest;
}

bool lam_model_norm_site(const lam_model *m, size_t norm, lam_norm_site_view *out)
{
    const lam_op *op = norm < m->program.norm_count ? lam__norm_op(m, norm) : NULL;
    if (!op) return false;
    const lam_norm_spec *spec = &op->u.norm.spec;
    const lam_norm_site site = lam_hparams_norm(&m->hparams, op->u.norm.module);
    const bool statistics = lam_norm_has_statistics(spec->kind);
    *out = (lam_norm_site_view){
        .layer = op->layer,
        .site = site.site,
        .kind = lam_norm_kind_name(spec->kind),
        .width = op_width(m, op),
        .measured = spec->kind != LAM_NORM_NONE,
        .running = statistics && (op->u.norm.has_running || spec->source != LAM_NORM_FROM_SEQUENCE),
        .has_running = op->u.norm.has_running,
        .has_profile = m->profile && m->profile[norm].mean,
        .second_moment = statistics && lam_norm_is_second_moment(spec->kind)};
    return true;
}

/* ---- Accumulators ---------------------------------------------------------------------------- */

static bool new_moments(lam_channel_sums *m, size_t width)
{
    m->mean = calloc(width, sizeof *m->mean);
    m->squares = calloc(width, sizeof *m->squares);
    return m->mean && m->squares;
}

static void free_moments(lam_channel_sums *m)
{
    free(m->mean);
    free(m->squares);
}

static bool new_sites(lam_norm_inputs *p)
{
    bool groups;
    const size_t widest = widest_stride(p->model, &groups);
    p->sites = calloc(p->norm_count + 1, sizeof *p->sites);
    p->widths = calloc(p->norm_count + 1, sizeof *p->widths);
    if (!p->sites || !p->widths || !new_moments(&p->item, widest + 1)) return false;
    for (size_t i = 0; i < p->norm_count; i++) {
        p->widths[i] = op_width(p->model, lam__norm_op(p->model, i));
        if (!new_moments(&p->sites[i], p->widths[i] + 1)) return false;
    }
    if (!groups) return true;
    p->ones = calloc(2 * widest + 1, sizeof *p->ones);
    p->scaled = calloc(p->model->info.positions * widest + 1, sizeof *p->scaled);
    for (size_t c = 0; p->ones && c < widest; c++)
        p->ones[c] = 1.0f;
    return p->ones && p->scaled;
}

lam_status lam_norm_inputs_new(lam_norm_inputs **out, const lam_model *m, lam_err *err)
{
    *out = NULL;
    lam_norm_inputs *p = calloc(1, sizeof *p);
    if (p) {
        p->model = m;
        p->norm_count = m->program.norm_count;
        p->only = LAM_NORM_ALL;
    }
    if (!p || !new_sites(p)) {
        lam_norm_inputs_free(p);
        return lam_fail(err, LAM_E_NOMEM, "population", "no memory for the statistics of norms");
    }
    *out = p;
    return LAM_OK;
}

size_t lam_norm_inputs_bytes(const lam_model *m)
{
    bool groups;
    const size_t widest = widest_stride(m, &groups);
    size_t bytes = sizeof(lam_norm_inputs) + (2 * widest + 2) * sizeof(double);
    for (size_t i = 0; i < m->program.norm_count; i++)
        bytes += 2 * op_width(m, lam__norm_op(m, i)) * sizeof(double) + 128;
    return groups ? bytes + (m->info.positions + 2) * widest * sizeof(float) : bytes;
}

void lam_norm_inputs_free(lam_norm_inputs *p)
{
    if (!p) return;
    for (size_t i = 0; p->sites && i < p->norm_count; i++)
        free_moments(&p->sites[i]);
    free_moments(&p->item);
    free(p->sites);
    free(p->widths);
    free(p->scaled);
    free(p->ones);
    free(p);
}

void lam_norm_inputs_clear(lam_norm_inputs *p)
{
    for (size_t i = 0; i < p->norm_count; i++) {
        const size_t width = p->widths[i];
        p->sites[i].rows = 0;
        memset(p->sites[i].mean, 0, width * sizeof(double));
        memset(p->sites[i].squares, 0, width * sizeof(double));
    }
}

void lam_norm_inputs_only(lam_norm_inputs *p, size_t norm)
{
    p->only = norm;
}

bool lam__norm_inputs_wants(const lam_norm_inputs *p, size_t norm)
{
    return p->only == LAM_NORM_ALL || p->only == norm;
}

bool lam__norm_inputs_ends_at(const lam_norm_inputs *p, size_t norm)
{
    return p->only == norm;
}

bool lam_norm_inputs_finite(const lam_norm_inputs *p)
{
    for (size_t i = 0; i < p->norm_count; i++)
        for (size_t c = 0; c < p->widths[i]; c++)
            if (!isfinite(p->sites[i].mean[c] + p->sites[i].squares[c])) return false;
    return true;
}

void lam_norm_inputs_merge(lam_norm_inputs *p, const lam_norm_inputs *from)
{
    for (size_t i = 0; i < p->norm_count; i++)
        lam__channel_sums_merge(&p->sites[i], &from->sites[i], p->widths[i]);
}

void lam_norm_inputs_merge_batch(lam_norm_inputs *p, const lam_norm_inputs *from)
{
    for (size_t i = 0; i < p->norm_count; i++) {
        const lam_channel_sums *b = &from->sites[i];
        lam_channel_sums *a = &p->sites[i];
        if (b->rows == 0) continue;
        a->rows++;
        for (size_t c = 0; c < p->widths[i]; c++) {
            a->mean[c] += (b->mean[c] - a->mean[c]) / (double)a->rows;
            a->squares[c] += b->squares[c] / (double)b->rows;
        }
    }
}

/* The rows as power norms see them: each group divided by the root of its mean square. */
static void scale_groups(lam_norm_inputs *p, const lam_kernels *k, const lam_norm_spec *spec,
                         size_t width, const float *x, size_t stride, size_t rows)
{
    const float *zeros = p->ones + lam_row_stride(width);
    const lam_channel_affine a = {.mean = zeros,
                                  .scale = p->ones,
                                  .bias = zeros,
                                  .width = width,
                                  .groups = spec->groups,
                                  .group_eps = (float)spec->group_eps};
    k->channel_affine(&a, x, stride, rows, p->scaled, lam_row_stride(width));
}

void lam__norm_inputs_add(lam_norm_inputs *p, size_t norm, const lam_kernels *k,
                          const lam_norm_spec *spec, const float *x, size_t stride, size_t rows)
{
    const size_t width = p->widths[norm];
    const bool statistics = lam_norm_has_statistics(spec->kind);
    if (statistics && spec->groups > 0) {
        scale_groups(p, k, spec, width, x, stride, rows);
        x = p->scaled;
        stride = lam_row_stride(width);
    }
    p->item.rows = rows;
    k->column_moments(x, stride, rows, width, statistics && lam_norm_is_second_moment(spec->kind),
                      p->item.mean, p->item.squares);
    lam__channel_sums_merge(&p->sites[norm], &p->item, width);
}

bool lam_norm_inputs_read(const lam_norm_inputs *p, size_t norm, lam_norm_inputs_view *out)
{
    if (norm >= p->norm_count) return false;
    const lam_channel_sums *m = &p->sites[norm];
    *out = (lam_norm_inputs_view){.rows = m->rows, .mean = m->mean, .squares = m->squares};
    return true;
}

void lam_norm_inputs_write(lam_norm_inputs *p, size_t norm, const lam_norm_inputs_view *v)
{
    const size_t width = p->widths[norm];
    lam_channel_sums *m = &p->sites[norm];
    m->rows = v->rows;
    memcpy(m->mean, v->mean, width * sizeof *m->mean);
    memcpy(m->squares, v->squares, width * sizeof *m->squares);
}

/* ---- Stored values --------------------------------------------------------------------------- */

struct lam_norm_values {
    const lam_model *model;
    lam_norm_tensors *sites; /* [norm_count] */
    float **own;             /* [norm_count] mean, square, scale side by side; NULL: the model's */
};

lam_status lam_norm_values_new(lam_norm_values **out, const lam_model *m, lam_err *err)
{
    *out = NULL;
    lam_norm_values *v = calloc(1, sizeof *v);
    if (v) {
        v->model = m;
        v->sites = calloc(m->program.norm_count + 1, sizeof *v->sites);
        v->own = calloc(m->program.norm_count + 1, sizeof *v->own);
    }
    if (!v || !v->sites || !v->own) {
        lam_norm_values_free(v);
        return lam_fail(err, LAM_E_NOMEM, "norms", "no memory for the statistics of norms");
    }
    for (size_t i = 0; i < m->program.norm_count; i++) {
        lam_norm_site_view site = {0};
        (void)lam_model_norm_site(m, i, &site);
        v->sites[i].running = site.running && site.has_running;
    }
    *out = v;
    return LAM_OK;
}

void lam_norm_values_free(lam_norm_values *v)
{
    if (!v) return;
    for (size_t i = 0; v->own && i < v->model->program.norm_count; i++)
        free(v->own[i]);
    free(v->own);
    free(v->sites);
    free(v);
}

lam_status lam_norm_values_set(lam_norm_values *v, size_t norm, const float *mean,
                               const float *square, lam_err *err)
{
    const lam_op *op = lam__norm_op(v->model, norm);
    const size_t width = op_width(v->model, op), stride = lam_row_stride(width);
    const float *gain =
        lam_program_weight(&v->model->program, op->u.norm.tensors[LAM_NORM_TENSOR_GAIN]);
    float *own = v->own[norm] ? v->own[norm] : aligned_alloc(64, 3 * stride * sizeof *own);
    if (!own) return lam_fail(err, LAM_E_NOMEM, "norms", "no memory for a norm's statistics");
    memset(own, 0, 3 * stride * sizeof *own);
    v->own[norm] = own;
    for (size_t c = 0; c < width; c++) {
        own[c] = mean ? mean[c] : 0.0f;
        own[stride + c] = square[c];
        own[2 * stride + c] =
            (float)((double)gain[c] / lam_norm_denominator(&op->u.norm.spec, (double)square[c]));
    }
    v->sites[norm] = (lam_norm_tensors){
        .running = true, .mean = own, .square = own + stride, .scale = own + 2 * stride};
    return LAM_OK;
}

const lam_norm_tensors *lam__norm_values_at(const lam_norm_values *v, size_t norm)
{
    return &v->sites[norm];
}

/* ---- Distances ------------------------------------------------------------------------------- */

/* What the model holds for a site: its running tensors, or its profile's. */
static bool stored(const lam_model *m, const lam_op *op, const float **mean, const float **square)
{
    if (op->u.norm.has_running) {
        *mean = lam_program_weight(&m->program, op->u.norm.tensors[LAM_NORM_TENSOR_MEAN]);
        *square = lam_program_weight(&m->program, op->u.norm.tensors[LAM_NORM_TENSOR_SQUARE]);
        return true;
    }
    const lam_norm_profile *profile = m->profile ? &m->profile[op->u.norm.index] : NULL;
    if (!profile || !profile->mean) return false;
    *mean = profile->mean;
    *square = profile->variance;
    return true;
}

bool lam_norm_inputs_distance(const lam_norm_inputs *p, size_t norm, const float *mean,
                              const float *square, lam_population_stats *out)
{
    const lam_op *op = lam__norm_op(p->model, norm);
    if (!op || p->sites[norm].rows == 0) return false;
    if (!square && !stored(p->model, op, &mean, &square)) return false;
    const lam_stored_statistics s = {
        .spec = &op->u.norm.spec, .mean = mean, .square = square, .width = p->widths[norm]};
    lam__population_compare(&s, &p->sites[norm], out);
    return true;
}
