#include "core/stats/layer.h"

#include <math.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/program/program.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool wanted(const lam_stats_opts *o, size_t layer)
{
    return !o->layers || o->layers[layer];
}

/* The rows that are made into one matrix at once: a request's up to the width, an item's all. */
static size_t scratch_rows(const lam_model_info *info, const lam_stats_opts *o)
{
    const size_t of_request = lesser(o->max_rows, info->width);
    const size_t of_item = o->per_item ? lesser(o->max_rows, info->positions) : 0;
    return of_request > of_item ? of_request : of_item;
}

static bool add_bytes(size_t *total, size_t count, size_t size)
{
    enum { ALIGNMENT = 16 };
    size_t bytes;
    return lam_mul_size(count, size, &bytes) && lam_add_size(*total, bytes, total) &&
           lam_add_size(*total, ALIGNMENT, total);
}

size_t lam__layers_bytes(const lam_model *m, const lam_stats_opts *o)
{
    const lam_model_info *info = lam_model_get_info(m);
    const size_t heads = info->heads * sizeof(lam_attention_sums);
    size_t total = 0, cells, layers = 0;
    for (size_t i = 0; i < info->layers; i++)
        layers += wanted(o, i);
    const size_t longest = lesser(o->max_rows, info->positions);
    if (!lam_mul_size(o->per_item, info->layers, &cells)) return SIZE_MAX;
    const bool fits =
        add_bytes(&total, info->layers,
                  sizeof(bool) + sizeof(lam_layer_sums) + sizeof(lam_spread) + heads) &&
        add_bytes(&total, info->layers * 4 + 8, sizeof(double)) && add_bytes(&total, 1, heads) &&
        add_bytes(&total, layers, lam__spread_bytes(info->width, o->max_rows)) &&
        add_bytes(&total, 1, lam__spread_scratch_bytes(info->width, scratch_rows(info, o))) &&
        add_bytes(&total, longest, sizeof(lam_row_products) + sizeof(float)) &&
        add_bytes(&total, lam_row_stride(info->width), sizeof(double)) &&
        add_bytes(&total, LAM_HEAD_VALUE_COUNT * info->heads, sizeof(double)) &&
        add_bytes(&total, cells, sizeof(lam_layer_sums)) && add_bytes(&total, cells, heads);
    return fits ? total : SIZE_MAX;
}

/* `count` cells, each with its heads. */
static lam_layer_sums *new_sums(lam_arena *arena, size_t count, size_t heads)
{
    size_t all;
    if (!lam_mul_size(count, heads, &all)) return NULL;
    lam_layer_sums *sums = lam_arena_calloc(arena, count, sizeof *sums);
    lam_attention_sums *of_heads = lam_arena_calloc(arena, all, sizeof *of_heads);
    if (!sums || !of_heads) return NULL;
    for (size_t i = 0; i < count; i++) {
        sums[i].heads = of_heads + i * heads;
        sums[i].participation_ratio = (double)NAN;
    }
    return sums;
}

static bool is_gelu(lam_activation a)
{
    return a == LAM_ACTIVATION_GELU || a == LAM_ACTIVATION_GELU_TANH;
}

static bool init_spreads(lam_layers *f, lam_arena *arena, const lam_stats_opts *o)
{
    f->spreads = lam_arena_calloc(arena, f->layers, sizeof *f->spreads);
    bool fine = f->spreads != NULL;
    for (size_t i = 0; fine && i < f->layers; i++) {
        f->wanted[i] = wanted(o, i);
        if (f->wanted[i]) fine = lam__spread_init(&f->spreads[i], arena, f->width, o->max_rows);
    }
    return fine;
}

bool lam__layers_init(lam_layers *f, lam_arena *arena, const lam_model *m, const lam_stats_opts *o)
{
    const lam_model_info *info = lam_model_get_info(m);
    *f = (lam_layers){.layers = info->layers,
                      .heads = info->heads,
                      .width = info->width,
                      .longest = lesser(o->max_rows, info->positions),
                      .gelu = is_gelu(lam_model_hparams(m)->activation),
                      .attention = !o->skip_attention,
                      .kernels = lam_model_kernels(m),
                      .item_count = o->per_item};
    f->wanted = lam_arena_calloc(arena, f->layers, sizeof *f->wanted);
    f->sums = new_sums(arena, f->layers, f->heads);
    f->one.heads = lam_arena_calloc(arena, f->heads, sizeof *f->one.heads);
    f->products = lam_arena_calloc(arena, f->longest, sizeof *f->products);
    f->scale = lam_arena_calloc(arena, f->longest, sizeof *f->scale);
    f->direction = lam_arena_calloc(arena, lam_row_stride(f->width), sizeof *f->direction);
    f->head_values =
        lam_arena_calloc(arena, LAM_HEAD_VALUE_COUNT * f->heads, sizeof *f->head_values);
    if (!f->wanted || !f->sums || !f->one.heads || !f->products || !f->scale || !f->direction ||
        !f->head_values || !init_spreads(f, arena, o) ||
        !lam__spread_scratch_init(&f->scratch, arena, f->width, scratch_rows(info, o)))
        return false;
    size_t cells;
    if (f->item_count == 0) return true;
    if (!lam_mul_size(f->item_count, f->layers, &cells)) return false;
    f->items = new_sums(arena, cells, f->heads);
    return f->items != NULL;
}

bool lam__layers_collects(const lam_layers *f, size_t layer, lam_measure what)
{
    if (what == LAM_MEASURE_ATTENTION && !f->attention) return false;
    if (what == LAM_MEASURE_ACTIVATION && !f->gelu) return false;
    return f->wanted[layer];
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static void add(lam_average *a, double value)
{
    a->sum += value;
    a->count++;
}

static void merge_average(lam_average *a, const lam_average *b)
{
    a->sum += b->sum;
    a->count += b->count;
}

static void merge(lam_layer_sums *a, const lam_layer_sums *b, size_t heads)
{
    merge_average(&a->similarity, &b->similarity);
    merge_average(&a->cosine, &b->cosine);
    merge_average(&a->attention_branch, &b->attention_branch);
    merge_average(&a->ffn_branch, &b->ffn_branch);
    a->tails.finite += b->tails.finite;
    a->tails.below += b->tails.below;
    a->tails.above += b->tails.above;
    a->massive += b->massive;
    a->values += b->values;
    for (size_t h = 0; h < heads; h++) {
        a->heads[h].entropy += b->heads[h].entropy;
        a->heads[h].sink += b->heads[h].sink;
        a->heads[h].queries += b->heads[h].queries;
    }
}

/* ---- Median ------------------------------------------------------------------------------------
 */

/* Sizes of floats order as their bits do: the value of a rank is found digit by digit, a byte in
 * each of four passes, without memory. */
float lam__median_size(const float *x, size_t stride, size_t rows, size_t width, uint64_t finite)
{
    enum { DIGITS = 256, DIGIT_BITS = 8, FLOAT_BITS = 32 };
    const uint32_t infinity = 0x7f800000u, size_bits = 0x7fffffffu;
    uint64_t rank = finite > 0 ? (finite - 1) / 2 : 0;
    uint32_t found = 0, mask = 0;
    for (unsigned shift = FLOAT_BITS; shift > 0;) {
        uint64_t counts[DIGITS] = {0};
        shift -= DIGIT_BITS;
        for (size_t i = 0; i < rows * width; i++) {
            uint32_t bits;
            memcpy(&bits, &x[i / width * stride + i % width], sizeof bits);
            bits &= size_bits;
            if (bits < infinity && (bits & mask) == found) counts[bits >> shift & (DIGITS - 1)]++;
        }
        uint32_t digit = 0;
        while (digit + 1 < DIGITS && rank >= counts[digit])
            rank -= counts[digit++];
        found |= digit << shift;
        mask |= (uint32_t)(DIGITS - 1) << shift;
    }
    float median;
    memcpy(&median, &found, sizeof median);
    return median;
}

/* ---- Measures ----------------------------------------------------------------------------------
 */

static void add_branch(lam_layers *f, const lam_measured *m, lam_average *to)
{
    f->kernels->products(m->x, m->x_stride, m->y, m->y_stride, m->rows, m->width, f->products);
    for (size_t r = 0; r < m->rows; r++) {
        const lam_row_products *p = &f->products[r];
        const double length = fabs((double)m->scale) * sqrt(p->yy);
        if (isfinite(p->xx) && isfinite(length) && length > 0.0) add(to, sqrt(p->xx) / length);
    }
}

/* f->direction += x / length, in double where float32 has no such factor. Returns the factor, which
 * is 0 where the row was added here. */
static float unit_scale(lam_layers *f, const float *x, double length)
{
    const float scale = (float)(1.0 / length);
    if (scale > 1e-30f && scale < 1e30f) return scale;
    for (size_t c = 0; c < f->width; c++)
        f->direction[c] += (double)x[c] / length;
    return 0.0f;
}

/* Sum of the cosines of all ordered pairs: the square of the sum of unit vectors, less those of a
 * row with itself. */
static void add_similarity(lam_layers *f, const lam_measured *m, lam_average *to)
{
    size_t finite = 0, nonzero = 0;
    memset(f->direction, 0, f->width * sizeof *f->direction);
    for (size_t r = 0; r < m->rows; r++) {
        const double squares = f->products[r].yy;
        f->scale[r] = 0.0f;
        finite += isfinite(squares) != 0;
        if (!isfinite(squares) || squares <= 0.0) continue;
        nonzero++;
        f->scale[r] = unit_scale(f, m->y + r * m->y_stride, sqrt(squares));
    }
    f->kernels->add_scaled(m->y, m->y_stride, m->rows, m->width, f->scale, f->direction);
    double squares = 0.0;
    for (size_t c = 0; c < f->width; c++)
        squares += f->direction[c] * f->direction[c];
    to->sum += squares - (double)nonzero;
    to->count += finite > 0 ? (uint64_t)finite * (finite - 1) : 0;
}

static void add_spread(lam_layers *f, size_t item, size_t layer, const lam_measured *m)
{
    for (size_t r = 0; r < m->rows; r++)
        f->scale[r] = isfinite(f->products[r].yy) ? 1.0f : 0.0f;
    lam__spread_add(&f->spreads[layer], &f->scratch, f->kernels, m->y, m->y_stride, m->rows,
                    f->scale);
    if (item < f->item_count)
        f->items[item * f->layers + layer].participation_ratio =
            lam__spread_of(&f->scratch, f->kernels, m->y, m->y_stride, m->rows, f->scale);
}

/* A massive activation (Sun, Chen, Kolter and Liu 2024, arXiv 2402.17762) is beyond both. */
#define MASSIVE_SIZE    100.0f
#define MASSIVE_MEDIANS 1000.0f

static void add_massive(lam_layers *f, const lam_measured *m, lam_layer_sums *to)
{
    lam_tail_counts c;
    f->kernels->tail_counts(m->y, m->y_stride, m->rows, m->width, -MASSIVE_SIZE, MASSIVE_SIZE, &c);
    to->values += c.finite;
    if (c.below + c.above == 0) return; /* nearly always: spares the median */
    const float median = lam__median_size(m->y, m->y_stride, m->rows, m->width, c.finite);
    const float limit = fmaxf(MASSIVE_SIZE, MASSIVE_MEDIANS * median);
    f->kernels->tail_counts(m->y, m->y_stride, m->rows, m->width, -limit, limit, &c);
    to->massive += c.below + c.above;
}

static void add_layer(lam_layers *f, size_t item, size_t layer, const lam_measured *m)
{
    f->kernels->products(m->x, m->x_stride, m->y, m->y_stride, m->rows, m->width, f->products);
    for (size_t r = 0; r < m->rows; r++) {
        const lam_row_products *p = &f->products[r];
        if (!isfinite(p->xx) || !isfinite(p->yy)) continue;
        const double lengths = sqrt(p->xx) * sqrt(p->yy);
        add(&f->one.cosine, lengths > 0.0 ? p->xy / lengths : 0.0);
    }
    add_massive(f, m, &f->one);
    add_similarity(f, m, &f->one.similarity);
    add_spread(f, item, layer, m);
}

/* Beyond it a GELU is off (below) or a straight line (above). */
#define GELU_TAIL 3.0f

void lam__layers_add(lam_layers *f, size_t item, size_t layer, const lam_measured *m)
{
    lam_layer_sums *one = &f->one;
    *one = (lam_layer_sums){.heads = one->heads};
    memset(one->heads, 0, f->heads * sizeof *one->heads);
    switch (m->what) {
    case LAM_MEASURE_ATTENTION:
        f->kernels->attention_sums(m->attention, m->bias, m->x,
                                   m->x + m->attention->heads * m->attention->head_width,
                                   m->x_stride, m->rows, one->heads, m->scratch);
        break;
    case LAM_MEASURE_ATTENTION_BRANCH:
        add_branch(f, m, &one->attention_branch);
        break;
    case LAM_MEASURE_FFN_BRANCH:
        add_branch(f, m, &one->ffn_branch);
        break;
    case LAM_MEASURE_ACTIVATION:
        f->kernels->tail_counts(m->x, m->x_stride, m->rows, m->width, -GELU_TAIL, GELU_TAIL,
                                &one->tails);
        break;
    case LAM_MEASURE_LAYER:
        add_layer(f, item, layer, m);
        break;
    case LAM_MEASURE_POPULATION: /* population.c */
    case LAM_MEASURE_COUNT:
        break;
    }
    merge(&f->sums[layer], one, f->heads);
    if (item < f->item_count) merge(&f->items[item * f->layers + layer], one, f->heads);
}

/* ---- Numbers -----------------------------------------------------------------------------------
 */

static double mean(const lam_average *a)
{
    return a->count > 0 ? a->sum / (double)a->count : (double)NAN;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : (double)NAN;
}

static void summarize(lam_layers *f, const lam_layer_sums *s, double participation_ratio,
                      lam_layer_stats *out)
{
    *out = (lam_layer_stats){.heads = f->heads};
    double *v = out->values;
    v[LAM_LAYER_TOKEN_SIMILARITY] = mean(&s->similarity);
    v[LAM_LAYER_LAYER_COSINE] = mean(&s->cosine);
    v[LAM_LAYER_PARTICIPATION_RATIO] = participation_ratio;
    v[LAM_LAYER_ATTENTION_BRANCH_RATIO] = mean(&s->attention_branch);
    v[LAM_LAYER_FFN_BRANCH_RATIO] = mean(&s->ffn_branch);
    v[LAM_LAYER_GELU_NEGATIVE] = share(s->tails.below, s->tails.finite);
    v[LAM_LAYER_GELU_POSITIVE] = share(s->tails.above, s->tails.finite);
    v[LAM_LAYER_MASSIVE_ACTIVATIONS] = s->values > 0 ? (double)s->massive : (double)NAN;
    double *entropy = f->head_values, *sink = f->head_values + f->heads;
    for (size_t h = 0; h < f->heads; h++) {
        const lam_attention_sums *a = &s->heads[h];
        entropy[h] = mean(&(lam_average){a->entropy, a->queries});
        sink[h] = mean(&(lam_average){a->sink, a->queries});
    }
    out->head_values[LAM_HEAD_ENTROPY] = entropy;
    out->head_values[LAM_HEAD_SINK] = sink;
}

bool lam__layers_read(lam_layers *f, size_t layer, lam_layer_stats *out)
{
    if (layer >= f->layers || !f->wanted[layer]) return false;
    const double ratio = lam__spread_read(&f->spreads[layer], &f->scratch, f->kernels);
    summarize(f, &f->sums[layer], ratio, out);
    return true;
}

bool lam__layers_read_item(lam_layers *f, size_t item, size_t layer, lam_layer_stats *out)
{
    if (layer >= f->layers || !f->wanted[layer] || item >= f->item_count) return false;
    const lam_layer_sums *s = &f->items[item * f->layers + layer];
    summarize(f, s, s->participation_ratio, out);
    return true;
}
