/* The reply of POST /v1/encode. */
#include "api/reply.h"
#include "api/request.h"

/* ---- Embeddings ------------------------------------------------------------------------------ */

static void put_embedding(api_buffer *b, const api_request *r, const lam_item *item)
{
    if (r->opts.pool != LAM_POOL_NONE) {
        api_put_vector(b, r, item->out);
        return;
    }
    api_buffer_put(b, "[", 1);
    for (size_t row = 0; row < item->rows; row++) {
        if (row) api_buffer_put(b, ",", 1);
        api_put_vector(b, r, item->out + row * r->opts.dimensions);
    }
    api_buffer_put(b, "]", 1);
}

/* The item of an input, or NULL if it did not run. Called for 0, 1, 2, ... with *at starting at 0.
 */
static const lam_item *item_of(const api_request *r, size_t input, size_t *at)
{
    if (*at == r->item_count || r->items[*at].index != input) return NULL;
    return &r->items[(*at)++];
}

static void put_embeddings(api_buffer *b, const api_request *r)
{
    size_t at = 0;
    api_buffer_put(b, "[", 1);
    for (size_t i = 0; i < r->input_count; i++) {
        const lam_item *item = item_of(r, i, &at);
        if (i) api_buffer_put(b, ",", 1);
        if (item && item->status == LAM_OK) {
            put_embedding(b, r, item);
        } else {
            api_buffer_puts(b, "null");
        }
    }
    api_buffer_put(b, "]", 1);
}

/* ---- Statistics ------------------------------------------------------------------------------ */

/* The request's numbers, or those of one item. */
#define WHOLE_REQUEST SIZE_MAX

static bool read_site(const api_request *r, size_t item, size_t layer, lam_site site,
                      lam_site_stats *out)
{
    if (r->stats_sites && !r->stats_sites[site]) return false;
    return item == WHOLE_REQUEST ? lam_stats_read(r->stats, layer, site, out)
                                 : lam_stats_read_item(r->stats, item, layer, site, out);
}

static bool read_population(const api_request *r, size_t item, size_t layer, lam_site site,
                            lam_population_stats *out)
{
    return item == WHOLE_REQUEST ? lam_stats_read_population(r->stats, layer, site, out)
                                 : lam_stats_read_item_population(r->stats, item, layer, site, out);
}

/* The values from `first` to before `end`, in an object of their own. */
static void put_distances(api_buffer *b, const lam_population_stats *p, size_t first, size_t end)
{
    api_put_key(b, "population", false);
    api_buffer_put(b, "{", 1);
    for (size_t i = first; i < end; i++) {
        api_put_key(b, lam_population_value_name((lam_population_value)i), i == first);
        api_buffer_json_double(b, p->values[i]);
    }
    api_buffer_put(b, "}", 1);
}

static void put_population(api_buffer *b, const lam_population_stats *p)
{
    switch (p->form) {
    case LAM_POPULATION_OF_MEAN_AND_VARIANCE:
        put_distances(b, p, LAM_POPULATION_MEAN_DISTANCE, LAM_POPULATION_SECOND_MOMENT_DISTANCE);
        break;
    case LAM_POPULATION_OF_MEAN_SQUARE:
        put_distances(b, p, LAM_POPULATION_SECOND_MOMENT_DISTANCE, LAM_POPULATION_SATURATION);
        break;
    case LAM_POPULATION_OF_SQUASHED:
        api_put_double(b, lam_population_value_name(LAM_POPULATION_SATURATION),
                       p->values[LAM_POPULATION_SATURATION]);
        break;
    }
}

/* Without its closing brace. */
static void put_site(api_buffer *b, const lam_site_stats *s)
{
    api_buffer_puts(b, "{\"tokens\":");
    api_buffer_json_u64(b, s->tokens);
    api_put_double(b, "mean", s->mean);
    api_put_double(b, "variance", s->variance);
    api_put_double(b, "rms", s->rms);
    api_put_double(b, "min", s->min);
    api_put_double(b, "max", s->max);
    api_put_double(b, "kurtosis", s->kurtosis);
    api_put_key(b, "nonfinite", false);
    api_buffer_json_u64(b, s->nonfinite);
    api_buffer_puts(b, ",\"channels\":[");
    for (size_t i = 0; i < s->channel_count; i++) {
        if (i) api_buffer_put(b, ",", 1);
        api_buffer_puts(b, "{\"index\":");
        api_buffer_json_u64(b, s->channels[i].index);
        api_put_double(b, "rms", s->channels[i].rms);
        api_buffer_put(b, "}", 1);
    }
    api_buffer_put(b, "]", 1);
}

/* The sites of one layer, or those of none. */
static void put_sites(api_buffer *b, const api_request *r, size_t item, size_t layer)
{
    bool first = true;
    api_buffer_put(b, "{", 1);
    for (size_t i = 0; i < LAM_SITE_COUNT; i++) {
        lam_site_stats s;
        lam_population_stats p;
        if (!read_site(r, item, layer, (lam_site)i, &s)) continue;
        api_put_key(b, lam_site_name((lam_site)i), first);
        put_site(b, &s);
        if (read_population(r, item, layer, (lam_site)i, &p)) put_population(b, &p);
        api_buffer_put(b, "}", 1);
        first = false;
    }
    api_buffer_put(b, "}", 1);
}

static void put_head_values(api_buffer *b, const lam_layer_stats *s, lam_head_value which)
{
    api_put_key(b, lam_head_value_name(which), false);
    api_buffer_put(b, "[", 1);
    for (size_t h = 0; h < s->heads; h++) {
        if (h) api_buffer_put(b, ",", 1);
        api_buffer_json_double(b, s->head_values[which][h]);
    }
    api_buffer_put(b, "]", 1);
}

/* What level full says of a layer. */
static void put_layer_values(api_buffer *b, const api_request *r, size_t item, size_t layer)
{
    lam_layer_stats s;
    if (!(item == WHOLE_REQUEST ? lam_stats_read_layer(r->stats, layer, &s)
                                : lam_stats_read_item_layer(r->stats, item, layer, &s)))
        return;
    for (size_t i = 0; i < LAM_HEAD_VALUE_COUNT; i++)
        put_head_values(b, &s, (lam_head_value)i);
    for (size_t i = 0; i < LAM_LAYER_VALUE_COUNT; i++)
        api_put_double(b, lam_layer_value_name((lam_layer_value)i), s.values[i]);
}

static void put_statistics(api_buffer *b, const api_request *r, size_t item)
{
    if (!r->stats_no_layer_sites) {
        api_put_key(b, "sites", false);
        put_sites(b, r, item, LAM_LAYER_NONE);
    }
    const size_t layers = lam_model_get_info(r->model->model)->layers;
    const size_t count = r->stats_layers ? r->stats_layer_count : layers;
    api_buffer_puts(b, ",\"layers\":[");
    for (size_t i = 0; i < count; i++) {
        const size_t layer = r->stats_layers ? r->stats_layers[i] : i;
        api_buffer_puts(b, i ? ",{\"layer\":" : "{\"layer\":");
        api_buffer_json_u64(b, layer);
        api_put_key(b, "sites", false);
        put_sites(b, r, item, layer);
        put_layer_values(b, r, item, layer);
        api_buffer_put(b, "}", 1);
    }
    api_buffer_put(b, "]", 1);
}

void api_statistics_write(const api_request *r, api_buffer *out)
{
    put_statistics(out, r, WHOLE_REQUEST);
}

/* ---- The whole ------------------------------------------------------------------------------- */

static void put_item(api_buffer *b, const api_request *r, size_t input, const lam_item *item)
{
    const api_item_info *info = &r->info[input];
    api_buffer_puts(b, "{\"index\":");
    api_buffer_json_u64(b, input);
    api_put_key(b, "tokens", false);
    api_buffer_json_u64(b, info->tokens);
    api_put_key(b, "tokens_used", false);
    api_buffer_json_u64(b, item ? item->rows : 0);
    api_put_key(b, "truncated", false);
    api_buffer_json_bool(b, info->truncated);
    api_error failed;
    const api_error *error = info->error;
    if (item && item->status != LAM_OK) {
        api_item_error(r, item, &failed);
        error = &failed;
    }
    if (error) {
        api_put_key(b, "error", false);
        api_put_error(b, error);
    }
    if (item && r->per_item) put_statistics(b, r, input);
    api_buffer_put(b, "}", 1);
}

void api_encode_reply(const api_request *r, const api_timing *t, api_buffer *b)
{
    api_buffer_puts(b, "{\"model\":");
    api_put_string(b, r->model->name);
    api_put_key(b, "embeddings", false);
    put_embeddings(b, r);
    api_buffer_puts(b, ",\"items\":[");
    size_t at = 0;
    for (size_t i = 0; i < r->input_count; i++) {
        if (i) api_buffer_put(b, ",", 1);
        put_item(b, r, i, item_of(r, i, &at));
    }
    api_buffer_put(b, "]", 1);
    if (r->stats) put_statistics(b, r, WHOLE_REQUEST);
    api_put_key(b, "batch_dependent", false);
    api_buffer_json_bool(b, r->batch_dependent);
    api_put_key(b, "usage", false);
    api_put_usage(b, r);
    if (!t) {
        api_buffer_put(b, "}", 1);
        return;
    }
    api_put_key(b, "timing", false);
    api_put_timing(b, t);
    api_buffer_put(b, "}", 1);
}
