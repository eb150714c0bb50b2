#include "api/compare.h"

#include <math.h>
#include <string.h>

#include "api/reply.h"

typedef struct sums {
    double aa, bb, ab, off, largest;
} sums;

static sums sums_of(const float *a, const float *b, size_t n)
{
    sums s = {0};
    for (size_t i = 0; i < n; i++) {
        const double x = (double)a[i], y = (double)b[i], d = fabs(y - x);
        s.aa += x * x;
        s.bb += y * y;
        s.ab += x * y;
        s.off += d * d;
        if (!(d <= s.largest)) s.largest = d; /* a NaN stays */
    }
    return s;
}

static void add_cosine(api_departure *d, const sums *s)
{
    if (!(s->aa > 0.0 && s->bb > 0.0)) return;
    const double cosine = s->ab / (sqrt(s->aa) * sqrt(s->bb));
    if (d->cosine_count++ == 0 || cosine < d->least_cosine) d->least_cosine = cosine;
    d->cosine_sum += cosine;
}

void api_departure_add(api_departure *d, const float *a, const float *b, size_t rows, size_t width)
{
    const bool same = memcmp(a, b, rows * width * sizeof *a) == 0;
    d->identical = same && (d->rows == 0 || d->identical);
    d->rows += rows;
    for (size_t r = 0; r < rows; r++) {
        const sums s = sums_of(a + r * width, b + r * width, width);
        add_cosine(d, &s);
        d->squares += s.aa;
        d->squares_off += s.off;
        if (!(s.largest <= d->difference)) d->difference = s.largest;
    }
    d->distance = d->squares_off == 0.0 ? 0.0 : sqrt(d->squares_off / d->squares);
    d->cosine = d->cosine_count > 0 ? d->cosine_sum / (double)d->cosine_count : (double)NAN;
    if (d->cosine_count == 0) d->least_cosine = (double)NAN;
}

void api_compare_layers(const api_comparison *c, api_departures *out)
{
    out->first = out->beyond = SIZE_MAX;
    for (size_t layer = 0; layer <= c->layers; layer++) {
        api_departure *d = &out->list[layer];
        *d = (api_departure){0};
        for (size_t i = 0; i < c->count; i++) {
            const size_t at = layer * c->a[i].rows * c->width;
            api_departure_add(d, c->a[i].states + at, c->b[i].states + at, c->a[i].rows, c->width);
        }
        if (!d->identical && out->first == SIZE_MAX) out->first = layer;
        if (!(d->distance <= c->tolerance) && out->beyond == SIZE_MAX) out->beyond = layer;
    }
}

void api_compare_item(const api_comparison *c, size_t i, api_departure *out)
{
    const lam_item *a = &c->a[i], *b = &c->b[i];
    const size_t rows = a->opts->pool == LAM_POOL_NONE ? a->rows : 1;
    *out = (api_departure){0};
    api_departure_add(out, a->out, b->out, rows, c->vector);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Behind a first member. */
static void put_departure(api_buffer *b, const api_departure *d, bool many)
{
    api_put_double(b, "cosine", d->cosine);
    if (many) api_put_double(b, "least_cosine", d->least_cosine);
    api_put_double(b, "distance", d->distance);
    api_put_double(b, "difference", d->difference);
    api_put_key(b, "identical", false);
    api_buffer_json_bool(b, d->identical);
    api_buffer_put(b, "}", 1);
}

static void put_layer_number(api_buffer *b, const char *key, size_t v, bool first)
{
    api_put_key(b, key, first);
    if (v == SIZE_MAX)
        api_buffer_puts(b, "null");
    else
        api_buffer_json_u64(b, v);
}

static void put_flags(api_buffer *b, const bool flags[2])
{
    api_put_key(b, "batch_dependent", false);
    api_buffer_put(b, "[", 1);
    api_buffer_json_bool(b, flags[0]);
    api_buffer_put(b, ",", 1);
    api_buffer_json_bool(b, flags[1]);
    api_buffer_put(b, "]", 1);
}

void api_comparison_write(const api_comparison *c, api_departure *list, api_buffer *b)
{
    api_departures all = {.list = list};
    api_compare_layers(c, &all);
    api_buffer_puts(b, "{\"model\":");
    api_put_string(b, c->model);
    api_buffer_puts(b, ",\"layers\":[");
    for (size_t i = 0; i <= c->layers; i++) {
        api_buffer_puts(b, i ? ",{\"output_layer\":" : "{\"output_layer\":");
        api_buffer_json_u64(b, i);
        put_departure(b, &all.list[i], true);
    }
    api_buffer_puts(b, "],\"departs\":{");
    put_layer_number(b, "first", all.first, true);
    put_layer_number(b, "beyond_tolerance", all.beyond, false);
    api_put_double(b, "tolerance", c->tolerance);
    api_buffer_puts(b, "},\"items\":[");
    for (size_t i = 0; i < c->count; i++) {
        api_departure d;
        api_compare_item(c, i, &d);
        api_buffer_puts(b, i ? ",{\"index\":" : "{\"index\":");
        api_buffer_json_u64(b, c->a[i].index);
        api_put_key(b, "tokens", false);
        api_buffer_json_u64(b, c->a[i].rows);
        put_departure(b, &d, false);
    }
    api_buffer_put(b, "]", 1);
    put_flags(b, c->batch_dependent);
}
