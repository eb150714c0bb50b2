#include "core/stats/stats.h"

#include <math.h>

#include "core/base/checked.h"
#include "core/program/program.h"
#include "core/stats/population.h"

/* Sums of one site over the items so far. */
typedef struct accumulator {
    uint64_t tokens;
    size_t width;
    lam_moments moments;
    double *channel_squares; /* [width] sums over tokens; NULL: the slot is not collected */
} accumulator;

struct lam_stats {
    const lam_program *program;
    size_t layers;
    accumulator *slots;    /* [program->slot_count] */
    double *item_squares;  /* [widest slot]: channel squares of the item at hand */
    lam_site_stats *items; /* [item_count, slot_count], or NULL */
    size_t item_count;
    lam_layers *full; /* NULL at level summary */
    lam_populations populations;
};

static bool wanted(const lam_stats_opts *o, size_t layer, size_t site)
{
    if (o->layers && layer != LAM_LAYER_NONE && !o->layers[layer]) return false;
    return !o->sites || o->sites[site];
}

/* Calls for each wanted slot once: sites that share one are collected once. */
static bool slot_wanted(const lam_model *m, const lam_stats_opts *o, size_t slot)
{
    const size_t layers = lam_model_get_info(m)->layers;
    const lam_program *p = lam_model_program(m);
    for (size_t l = 0; l <= layers; l++) {
        const size_t layer = l < layers ? l : LAM_LAYER_NONE;
        for (size_t site = 0; site < LAM_SITE_COUNT; site++)
            if (lam_program_slot(p, layers, layer, (lam_site)site) == slot &&
                wanted(o, layer, site))
                return true;
    }
    return false;
}

static size_t widest_slot(const lam_program *p)
{
    size_t widest = 1;
    for (size_t i = 0; i < p->slot_count; i++)
        if (p->slot_widths[i] > widest) widest = p->slot_widths[i];
    return widest;
}

lam_status lam_stats_bytes(const lam_model *m, const lam_stats_opts *o, size_t *bytes, lam_err *err)
{
    const lam_program *p = lam_model_program(m);
    /* Alignment of each piece included. */
    size_t total =
        sizeof(lam_stats) + sizeof(lam_layers) + 128 + (widest_slot(p) + 2) * sizeof(double);
    for (size_t i = 0; i < p->slot_count; i++)
        total += sizeof(accumulator) + (p->slot_widths[i] + 2) * sizeof(double);
    const bool full = o->level == LAM_STATS_FULL;
    size_t items;
    if (!lam_mul_size(o->per_item, p->slot_count * sizeof(lam_site_stats), &items) ||
        !lam_add_size(total, items, &total) ||
        !lam_add_size(total, full ? lam__layers_bytes(m, o) : 0, &total) ||
        !lam_add_size(total, full ? lam__populations_bytes(m, o) : 0, bytes))
        return lam_fail(err, LAM_E_LIMIT, "statistics", "too many items");
    return LAM_OK;
}

static bool allocate(lam_stats *s, lam_arena *arena, const lam_model *m, const lam_stats_opts *o)
{
    const lam_program *p = s->program;
    s->slots = lam_arena_calloc(arena, p->slot_count, sizeof *s->slots);
    s->item_squares = lam_arena_calloc(arena, widest_slot(p), sizeof(double));
    if (!s->slots || !s->item_squares) return false;
    for (size_t i = 0; i < p->slot_count; i++) {
        accumulator *a = &s->slots[i];
        a->width = p->slot_widths[i];
        a->moments = lam_moments_empty();
        if (!slot_wanted(m, o, i)) continue;
        a->channel_squares = lam_arena_calloc(arena, a->width, sizeof(double));
        if (!a->channel_squares) return false;
    }
    if (o->level == LAM_STATS_FULL) {
        s->full = lam_arena_calloc(arena, 1, sizeof *s->full);
        if (!s->full || !lam__layers_init(s->full, arena, m, o) ||
            !lam__populations_init(&s->populations, arena, m, o))
            return false;
    }
    s->item_count = o->per_item;
    if (o->per_item == 0) return true;
    size_t cells;
    if (!lam_mul_size(o->per_item, p->slot_count, &cells)) return false;
    s->items = lam_arena_calloc(arena, cells, sizeof *s->items);
    return s->items != NULL;
}

lam_status lam_stats_new(lam_stats **out, lam_arena *arena, const lam_model *m,
                         const lam_stats_opts *o, lam_err *err)
{
    *out = NULL;
    lam_stats *s = lam_arena_calloc(arena, 1, sizeof *s);
    if (!s) return lam_fail(err, LAM_E_NOMEM, "statistics", "out of memory");
    s->program = lam_model_program(m);
    s->layers = lam_model_get_info(m)->layers;
    if (!allocate(s, arena, m, o)) return lam_fail(err, LAM_E_NOMEM, "statistics", "out of memory");
    *out = s;
    return LAM_OK;
}

lam_layers *lam__stats_layers(lam_stats *s)
{
    return s->full;
}

void lam__stats_add_population(lam_stats *s, size_t item, const lam_op *op, const float *x,
                               size_t stride, size_t rows)
{
    lam__populations_add(&s->populations, item, op, x, stride, rows);
}

bool lam__stats_collects(const lam_stats *s, size_t slot)
{
    return s->slots[slot].channel_squares != NULL;
}

/* The next channel from `c` on that is larger, or width. Most are not: four at a time. */
static size_t next_larger(const double *squares, size_t c, size_t width, double than)
{
    for (; c + 4 <= width; c += 4) {
        const double *s = squares + c;
        if ((s[0] > than) | (s[1] > than) | (s[2] > than) | (s[3] > than)) break;
    }
    while (c < width && !(squares[c] > than))
        c++;
    return c;
}

/* Keeps the channels of largest mean square, largest first; of equal ones the lower index. */
static void find_channels(const double *squares, size_t width, uint64_t tokens, lam_site_stats *out)
{
    const size_t limit = width < LAM_STATS_CHANNELS ? width : LAM_STATS_CHANNELS;
    double kept[LAM_STATS_CHANNELS];
    size_t count = 0;
    for (size_t c = 0; c < width; c++) {
        if (count == limit) c = next_larger(squares, c, width, kept[count - 1]);
        if (c == width) break;
        size_t at = count < limit ? count++ : count - 1;
        for (; at > 0 && squares[c] > kept[at - 1]; at--) {
            kept[at] = kept[at - 1];
            out->channels[at].index = out->channels[at - 1].index;
        }
        kept[at] = squares[c];
        out->channels[at].index = c;
    }
    out->channel_count = count;
    for (size_t i = 0; i < count; i++)
        out->channels[i].rms = sqrt(kept[i] / (double)tokens);
}

/* Sums -> the numbers of docs/NUMERICS.md. */
static void summarize(const lam_moments *m, const double *squares, size_t width, uint64_t tokens,
                      lam_site_stats *out)
{
    *out = (lam_site_stats){.tokens = tokens, .nonfinite = m->nonfinite};
    out->mean = out->variance = out->rms = out->min = out->max = out->kurtosis = (double)NAN;
    if (m->count == 0) return;
    const double n = (double)m->count, variance = m->m2 / n;
    out->mean = m->mean;
    out->variance = variance;
    out->rms = sqrt(m->mean * m->mean + variance);
    out->min = m->min;
    out->max = m->max;
    if (m->m2 > 0.0) out->kurtosis = n * m->m4 / (m->m2 * m->m2);
    find_channels(squares, width, tokens, out);
}

void lam__stats_add(lam_stats *s, size_t item, size_t slot, const lam_kernels *k, const float *x,
                    size_t stride, size_t rows)
{
    accumulator *a = &s->slots[slot];
    lam_moments moments;
    k->moments(x, stride, rows, a->width, &moments, s->item_squares);
    lam_moments_merge(&a->moments, &moments);
    for (size_t c = 0; c < a->width; c++)
        a->channel_squares[c] += s->item_squares[c];
    a->tokens += rows;
    if (item < s->item_count)
        summarize(&moments, s->item_squares, a->width, rows,
                  &s->items[item * s->program->slot_count + slot]);
}

static bool find_slot(const lam_stats *s, size_t layer, lam_site site, size_t *slot)
{
    *slot = lam_program_slot(s->program, s->layers, layer, site);
    return *slot != LAM_SLOT_NONE && lam__stats_collects(s, *slot);
}

bool lam_stats_read(const lam_stats *s, size_t layer, lam_site site, lam_site_stats *out)
{
    size_t slot;
    if (!find_slot(s, layer, site, &slot)) return false;
    const accumulator *a = &s->slots[slot];
    summarize(&a->moments, a->channel_squares, a->width, a->tokens, out);
    return true;
}

bool lam_stats_read_item(const lam_stats *s, size_t item, size_t layer, lam_site site,
                         lam_site_stats *out)
{
    size_t slot;
    if (item >= s->item_count || !find_slot(s, layer, site, &slot)) return false;
    *out = s->items[item * s->program->slot_count + slot];
    return true;
}

bool lam_stats_read_layer(const lam_stats *s, size_t layer, lam_layer_stats *out)
{
    return s->full && lam__layers_read(s->full, layer, out);
}

bool lam_stats_read_item_layer(const lam_stats *s, size_t item, size_t layer, lam_layer_stats *out)
{
    return s->full && lam__layers_read_item(s->full, item, layer, out);
}

bool lam_stats_read_population(const lam_stats *s, size_t layer, lam_site site,
                               lam_population_stats *out)
{
    return lam__populations_read(&s->populations, layer, site, out);
}

bool lam_stats_read_item_population(const lam_stats *s, size_t item, size_t layer, lam_site site,
                                    lam_population_stats *out)
{
    return lam__populations_read_item(&s->populations, item, layer, site, out);
}
