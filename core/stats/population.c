#include "core/stats/population.h"

#include <math.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/model/model.h"

/* Rows at a time: what is group-scaled stays in cache, and memory is bounded. */
enum { POPULATION_ROWS = 64 };

/* Of kinds whose denominator is no function of a variance. */
static const double PLAIN_EPS = 1e-5;

/* ---- Sums ------------------------------------------------------------------------------------ */

void lam__channel_sums_merge(lam_channel_sums *a, const lam_channel_sums *b, size_t width)
{
    a->tails.finite += b->tails.finite;
    a->tails.below += b->tails.below;
    a->tails.above += b->tails.above;
    if (b->rows == 0) return;
    const double na = (double)a->rows, nb = (double)b->rows, n = na + nb;
    for (size_t c = 0; c < width; c++) {
        const double d = b->mean[c] - a->mean[c];
        a->squares[c] += b->squares[c] + d * d * na * nb / n;
        a->mean[c] += d * nb / n;
    }
    a->rows += b->rows;
}

static void clear(lam_channel_sums *s, size_t width)
{
    s->rows = 0;
    s->tails = (lam_tail_counts){0};
    memset(s->mean, 0, width * sizeof *s->mean);
    memset(s->squares, 0, width * sizeof *s->squares);
}

/* ---- Distances ------------------------------------------------------------------------------- */

static bool squashes(lam_norm_kind kind)
{
    return kind == LAM_NORM_DYT || kind == LAM_NORM_DERF;
}

static lam_population_form form_of(lam_norm_kind kind)
{
    if (squashes(kind)) return LAM_POPULATION_OF_SQUASHED;
    return lam_norm_is_second_moment(kind) ? LAM_POPULATION_OF_MEAN_SQUARE
                                           : LAM_POPULATION_OF_MEAN_AND_VARIANCE;
}

lam_squash_range lam__squash_range(lam_norm_kind kind, float alpha, float shift)
{
    /* |tanh(u)| and |erf(u)| are above 0.95 beyond these */
    static const double tanh_edge = 1.8317808230648232, erf_edge = 1.3859038243496777;
    const bool derf = kind == LAM_NORM_DERF;
    const double edge = derf ? erf_edge : tanh_edge, s = derf ? (double)shift : 0.0;
    if (alpha == 0.0f) {
        const bool all = fabs(s) > edge;
        return all ? (lam_squash_range){INFINITY, -INFINITY}
                   : (lam_squash_range){-INFINITY, INFINITY};
    }
    const double a = (-edge - s) / (double)alpha, b = (edge - s) / (double)alpha;
    return (lam_squash_range){(float)fmin(a, b), (float)fmax(a, b)};
}

/* The site's own denominator; kinds that have none as a function of a variance get a plain one. */
static lam_norm_spec dividing(const lam_norm_spec *spec)
{
    lam_norm_spec s = *spec;
    const bool eps = lam_norm_has_field(lam_norm_get_info(s.kind), LAM_NORM_FIELD_EPS);
    if (eps && s.eps_mode != LAM_EPS_FLOOR_NORM) return s;
    s.eps = PLAIN_EPS;
    s.eps_mode = LAM_EPS_VARIANCE;
    return s;
}

void lam__population_compare(const lam_stored_statistics *stored, const lam_channel_sums *sums,
                             lam_population_stats *out)
{
    const size_t width = stored->width;
    const lam_norm_spec spec = dividing(stored->spec);
    const double n = (double)sums->rows, channels = (double)width;
    double mean_squares = 0.0, square_squares = 0.0, mean_tid = 0.0, square_tid = 0.0;
    for (size_t i = 0; i < LAM_POPULATION_VALUE_COUNT; i++)
        out->values[i] = (double)NAN;
    out->form = form_of(stored->spec->kind);
    const bool second_moment = out->form == LAM_POPULATION_OF_MEAN_SQUARE;
    const lam_tail_counts *t = &sums->tails;
    if (t->finite > 0)
        out->values[LAM_POPULATION_SATURATION] = (double)(t->below + t->above) / (double)t->finite;
    if (sums->rows == 0) return;
    for (size_t c = 0; c < width; c++) {
        const double square = sums->squares[c] / n, kept = (double)stored->square[c];
        const double divisor = lam_norm_denominator(&spec, square);
        square_squares += (kept - square) * (kept - square);
        square_tid += fabs(lam_norm_denominator(&spec, kept) / divisor - 1.0);
        if (second_moment) continue;
        const double off = (double)stored->mean[c] - sums->mean[c];
        mean_squares += off * off;
        mean_tid += fabs(off) / divisor;
    }
    double *v = out->values;
    if (second_moment) {
        v[LAM_POPULATION_SECOND_MOMENT_DISTANCE] = sqrt(square_squares) / channels;
        v[LAM_POPULATION_SECOND_MOMENT_TID] = square_tid / channels;
        return;
    }
    v[LAM_POPULATION_MEAN_DISTANCE] = sqrt(mean_squares) / channels;
    v[LAM_POPULATION_VARIANCE_DISTANCE] = sqrt(square_squares) / channels;
    v[LAM_POPULATION_MEAN_TID] = mean_tid / channels;
    v[LAM_POPULATION_VARIANCE_TID] = square_tid / channels;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* NULL: the model came with none for that norm. */
static const lam_norm_profile *profile_of(const lam_model *m, const lam_op *op)
{
    const lam_norm_profile *p = m->profile ? &m->profile[op->u.measure.norm_index] : NULL;
    return p && p->mean ? p : NULL;
}

static bool wanted(const lam_stats_opts *o, size_t layer, lam_site site)
{
    if (o->layers && layer != LAM_LAYER_NONE && !o->layers[layer]) return false;
    return !o->sites || o->sites[site];
}

/* The op, if it is a POPULATION that the request wants; else NULL. */
static const lam_op *population_at(const lam_model *m, size_t at, const lam_stats_opts *o)
{
    const lam_op *op = &m->program.measured->ops[at];
    if (op->kind != LAM_OP_MEASURE || op->u.measure.what != LAM_MEASURE_POPULATION) return NULL;
    if (!op->u.measure.has_running && !squashes(op->u.measure.norm.kind) && !profile_of(m, op))
        return NULL;
    return wanted(o, op->layer, op->u.measure.site) ? op : NULL;
}

static size_t width_of(const lam_program *p, const lam_op *op)
{
    return p->measured->bufs[op->in].width;
}

typedef struct needs {
    size_t sites, doubles, widest; /* doubles: of the requests' sums */
} needs;

static needs find_needs(const lam_model *m, const lam_stats_opts *o)
{
    const lam_program *p = lam_model_program(m);
    needs n = {0};
    for (size_t i = 0; i < p->measured->op_count; i++) {
        const lam_op *op = population_at(m, i, o);
        if (!op) continue;
        const size_t width = lam_row_stride(width_of(p, op));
        n.sites++;
        n.doubles += 2 * width;
        if (width > n.widest) n.widest = width;
    }
    return n;
}

size_t lam__populations_bytes(const lam_model *m, const lam_stats_opts *o)
{
    enum { SLACK = 1024 }; /* alignment of the pieces */
    const lam_program *p = lam_model_program(m);
    const needs n = find_needs(m, o);
    const size_t each = sizeof(lam_op *) + sizeof(lam_channel_sums) + 32;
    const size_t fixed = p->population_count * each + (n.doubles + 4 * n.widest) * sizeof(double) +
                         (POPULATION_ROWS + 2) * n.widest * sizeof(float) + SLACK;
    size_t items;
    if (n.sites == 0) return 0;
    if (!lam_mul_size(o->per_item, p->population_count * sizeof(lam_population_stats), &items) ||
        !lam_add_size(fixed, items, &items))
        return SIZE_MAX;
    return items;
}

static bool new_sums(lam_channel_sums *s, lam_arena *arena, size_t width)
{
    s->mean = lam_arena_calloc(arena, width, sizeof *s->mean);
    s->squares = lam_arena_calloc(arena, width, sizeof *s->squares);
    return s->mean && s->squares;
}

static bool new_scratch(lam_populations *f, lam_arena *arena, size_t widest)
{
    enum { ALIGN = 64 };
    const size_t bytes = widest * sizeof(float);
    f->scaled = lam_arena_alloc_aligned(arena, POPULATION_ROWS * bytes, ALIGN);
    f->ones = lam_arena_alloc_aligned(arena, bytes, ALIGN);
    f->zeros = lam_arena_alloc_aligned(arena, bytes, ALIGN);
    if (!f->scaled || !f->ones || !f->zeros) return false;
    for (size_t c = 0; c < widest; c++)
        f->ones[c] = 1.0f, f->zeros[c] = 0.0f;
    return new_sums(&f->item, arena, widest) && new_sums(&f->run, arena, widest);
}

bool lam__populations_init(lam_populations *f, lam_arena *arena, const lam_model *m,
                           const lam_stats_opts *o)
{
    const lam_program *p = lam_model_program(m);
    const needs n = find_needs(m, o);
    *f = (lam_populations){.model = m, .program = p, .kernels = lam_model_kernels(m)};
    if (n.sites == 0) return true;
    f->count = p->population_count;
    f->ops = lam_arena_calloc(arena, f->count, sizeof *f->ops);
    f->sums = lam_arena_calloc(arena, f->count, sizeof *f->sums);
    if (!f->ops || !f->sums || !new_scratch(f, arena, n.widest)) return false;
    for (size_t i = 0; i < p->measured->op_count; i++) {
        const lam_op *op = population_at(m, i, o);
        if (!op) continue;
        const size_t at = op->u.measure.index;
        f->ops[at] = op;
        if (!new_sums(&f->sums[at], arena, lam_row_stride(width_of(p, op)))) return false;
    }
    f->item_count = o->per_item;
    size_t cells;
    if (f->item_count == 0) return true;
    if (!lam_mul_size(f->item_count, f->count, &cells)) return false;
    f->items = lam_arena_calloc(arena, cells, sizeof *f->items);
    return f->items != NULL;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static bool row_finite(const lam_populations *f, const float *x, size_t width)
{
    lam_row_products p;
    f->kernels->products(x, 0, x, 0, 1, width, &p);
    return isfinite(p.xx);
}

/* Finite rows, at most POPULATION_ROWS, into f->item. */
static void add_rows(lam_populations *f, const lam_norm_spec *spec, const float *x, size_t stride,
                     size_t rows, size_t width)
{
    if (lam_norm_has_statistics(spec->kind) && spec->groups > 0) {
        const lam_channel_affine a = {.mean = f->zeros,
                                      .scale = f->ones,
                                      .bias = f->zeros,
                                      .width = width,
                                      .groups = spec->groups,
                                      .group_eps = (float)spec->group_eps};
        const size_t scaled_stride = lam_row_stride(width);
        f->kernels->channel_affine(&a, x, stride, rows, f->scaled, scaled_stride);
        x = f->scaled;
        stride = scaled_stride;
    }
    f->run.rows = rows;
    f->kernels->column_moments(x, stride, rows, width, lam_norm_is_second_moment(spec->kind),
                               f->run.mean, f->run.squares);
    lam__channel_sums_merge(&f->item, &f->run, width);
}

static void add_tails(lam_populations *f, const lam_op *op, const float *x, size_t stride,
                      size_t rows)
{
    const lam_squash_range range = lam__squash_range(
        op->u.measure.norm.kind, *lam_program_weight(f->program, op->u.measure.alpha),
        *lam_program_weight(f->program, op->u.measure.shift));
    f->kernels->tail_counts(x, stride, rows, width_of(f->program, op), range.low, range.high,
                            &f->item.tails);
    if (range.low > range.high) { /* every value is below the one and above the other */
        f->item.tails.below = f->item.tails.finite;
        f->item.tails.above = 0;
    }
}

static lam_stored_statistics stored_of(const lam_populations *f, const lam_op *op)
{
    const lam_norm_profile *profile = op->u.measure.has_running ? NULL : profile_of(f->model, op);
    if (profile)
        return (lam_stored_statistics){.spec = &op->u.measure.norm,
                                       .mean = profile->mean,
                                       .square = profile->variance,
                                       .width = width_of(f->program, op)};
    return (lam_stored_statistics){
        .spec = &op->u.measure.norm,
        .mean = lam_program_weight(f->program, op->u.measure.mean),
        .square = lam_program_weight(f->program, op->u.measure.square),
        .width = width_of(f->program, op),
    };
}

void lam__populations_add(lam_populations *f, size_t item, const lam_op *op, const float *x,
                          size_t stride, size_t rows)
{
    const size_t at = op->u.measure.index;
    /* A request of another level rides in the same batch. */
    if (f->count == 0 || !f->ops[at]) return;
    const size_t width = width_of(f->program, op);
    clear(&f->item, width);
    const bool squashed = squashes(op->u.measure.norm.kind);
    if (squashed) add_tails(f, op, x, stride, rows);
    for (size_t first = 0, r = 0; first < rows && !squashed; first = r + (r == first)) {
        for (r = first; r < rows && r < first + POPULATION_ROWS; r++)
            if (!row_finite(f, x + r * stride, width)) break;
        if (r > first)
            add_rows(f, &op->u.measure.norm, x + first * stride, stride, r - first, width);
    }
    lam__channel_sums_merge(&f->sums[at], &f->item, width);
    if (item >= f->item_count) return;
    const lam_stored_statistics stored = stored_of(f, op);
    lam__population_compare(&stored, &f->item, &f->items[item * f->count + at]);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static const lam_op *find(const lam_populations *f, size_t layer, lam_site site)
{
    for (size_t i = 0; i < f->count; i++) {
        const lam_op *op = f->ops[i];
        if (op && op->layer == layer && op->u.measure.site == site) return op;
    }
    return NULL;
}

bool lam__populations_read(const lam_populations *f, size_t layer, lam_site site,
                           lam_population_stats *out)
{
    const lam_op *op = find(f, layer, site);
    if (!op) return false;
    const lam_stored_statistics stored = stored_of(f, op);
    lam__population_compare(&stored, &f->sums[op->u.measure.index], out);
    return true;
}

bool lam__populations_read_item(const lam_populations *f, size_t item, size_t layer, lam_site site,
                                lam_population_stats *out)
{
    const lam_op *op = find(f, layer, site);
    if (!op || item >= f->item_count) return false;
    *out = f->items[item * f->count + op->u.measure.index];
    return true;
}
