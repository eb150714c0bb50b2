/* Draft to request: the model is known now, so that options, items, sizes and memory can be
 * settled. */
#include <stdio.h>
#include <string.h>

#include "api/request.h"
#include "core/tokenizer/tokenizer.h"

static bool refuse_limit(api_draft *d, uint64_t limit, uint64_t actual)
{
    d->error->has_limit = true;
    d->error->limit = limit;
    d->error->actual = actual;
    return false;
}

static bool blame_item(api_draft *d, size_t index)
{
    d->error->has_index = true;
    d->error->index = index;
    return false;
}

/* ---- Model and options ----------------------------------------------------------------------- */

static bool plan_model(api_draft *d, api_request *out)
{
    const api_env *env = d->env;
    out->model = NULL;
    if (d->model.data) {
        out->model = api_model_find(env, d->model.data, d->model.size);
        if (out->model) return true;
        api_refuse(d, API_CODE_MODEL_NOT_FOUND, api_place_field("model"),
                   "there is no model of this name; GET /v1/models lists them");
        return false;
    }
    if (env->model_count == 1) {
        out->model = &env->models[0];
        return true;
    }
    api_refuse(d, API_CODE_MISSING_FIELD, api_place_field("model"),
               "this server has several models, so the request must name one");
    return false;
}

static bool plan_dimensions(api_draft *d, const lam_model_info *info, lam_encode_opts *opts)
{
    if (!d->dimensions_given) return true;
    const int64_t n = d->dimensions.integer;
    if (n >= 1 && (uint64_t)n <= info->width) {
        opts->dimensions = (size_t)n;
        return true;
    }
    api_refuse(d, API_CODE_OUT_OF_RANGE, api_place_field("dimensions"),
               "this must be from 1 to %zu", info->width);
    return refuse_limit(d, info->width, n > 0 ? (uint64_t)n : 0);
}

static bool plan_output_layer(api_draft *d, const lam_model_info *info, lam_encode_opts *opts)
{
    if (!d->output_layer_given) return true;
    const int64_t last = (int64_t)info->layers, n = d->output_layer.integer;
    if (n >= -last - 1 && n <= last) {
        opts->output_layer = (size_t)(n < 0 ? last + 1 + n : n);
        return true;
    }
    api_refuse(d, API_CODE_OUT_OF_RANGE, api_place_field("output_layer"),
               "this must be from %lld to %lld: 0 is the embeddings, -1 the last layer",
               (long long)(-last - 1), (long long)last);
    return refuse_limit(d, info->layers, n > 0 ? (uint64_t)n : 0);
}

static bool plan_norms(api_draft *d, api_request *out)
{
    lam_err err;
    const lam_model *m = out->model->model;
    out->batch_dependent = lam_opts_batch_dependent(m, &out->opts);
    if (lam_encode_opts_check(m, &out->opts, &err) == LAM_OK) return true;
    return api_refuse(d, API_CODE_UNSUPPORTED, api_place_field("norm/statistics"), "%s",
                      err.message);
}

static bool plan_options(api_draft *d, api_request *out)
{
    const lam_model_info *info = lam_model_get_info(out->model->model);
    out->opts = lam_encode_opts_default(out->model->model);
    if (d->pool_given) out->opts.pool = d->pool;
    if (d->normalize_given) out->opts.normalize = d->normalize;
    out->opts.statistics = d->norm_source;
    out->base64 = d->base64;
    out->errors_per_item = d->errors_per_item;
    out->deadline_ms = d->deadline_ms;
    return plan_dimensions(d, info, &out->opts) && plan_output_layer(d, info, &out->opts) &&
           plan_norms(d, out) && (d->route != API_ROUTE_COMPARE || api_plan_other(d, out));
}

/* ---- Statistics ------------------------------------------------------------------------------ */

static bool has_no_layer(lam_site s)
{
    return s == LAM_SITE_EMBEDDING || s == LAM_SITE_FINAL;
}

static bool model_has_site(const lam_model *m, const lam_model_info *info, lam_site s)
{
    if (has_no_layer(s)) return lam_model_has_site(m, LAM_LAYER_NONE, s);
    for (size_t layer = 0; layer < info->layers; layer++)
        if (lam_model_has_site(m, layer, s)) return true;
    return false;
}

static bool plan_layers(api_draft *d, const lam_model_info *info, api_request *out)
{
    if (!d->layers_given) return true;
    for (size_t i = 0; i < d->layer_count; i++) {
        if (d->layers[i] < info->layers) continue;
        api_refuse(d, API_CODE_OUT_OF_RANGE, api_place_at("layers", i),
                   "the model has layers 0 to %zu", info->layers - 1);
        return refuse_limit(d, info->layers - 1, d->layers[i]);
    }
    for (size_t i = 1; i < d->layer_count; i++) { /* they are few: insertion */
        const size_t layer = d->layers[i];
        size_t j = i;
        for (; j > 0 && d->layers[j - 1] > layer; j--)
            d->layers[j] = d->layers[j - 1];
        d->layers[j] = layer;
    }
    out->stats_layers = d->layers;
    out->stats_layer_count = d->layer_count;
    return true;
}

/* The sites to collect and show, or NULL for all. */
static bool plan_sites(api_draft *d, const lam_model *m, const lam_model_info *info,
                       api_request *out)
{
    const bool named_none = !d->sites_given;
    out->stats_no_layer_sites =
        d->layers_given &&
        (named_none || (!d->sites[LAM_SITE_EMBEDDING] && !d->sites[LAM_SITE_FINAL]));
    if (named_none && !d->layers_given) return true;
    bool *sites = api_alloc(d, LAM_SITE_COUNT, sizeof *sites);
    if (!sites) return false;
    for (size_t i = 0; i < LAM_SITE_COUNT; i++) {
        const lam_site s = (lam_site)i;
        sites[i] = named_none ? !has_no_layer(s) : d->sites[i];
        if (named_none || !d->sites[i] || model_has_site(m, info, s)) continue;
        return api_refuse(d, API_CODE_INVALID_VALUE, api_place_field("sites"),
                          "this model has no site %s", lam_site_name(s));
    }
    out->stats_sites = sites;
    return true;
}

/* Which statistics the reply shows. */
static bool plan_selection(api_draft *d, api_request *out)
{
    const lam_model *m = out->model->model;
    const lam_model_info *info = lam_model_get_info(m);
    out->level = d->level;
    out->per_item = d->per_item && d->level != LAM_STATS_NONE;
    return plan_layers(d, info, out) && plan_sites(d, m, info, out);
}

static bool plan_statistics(api_draft *d, api_request *out)
{
    const lam_model *m = out->model->model;
    const lam_model_info *info = lam_model_get_info(m);
    if (d->level == LAM_STATS_NONE) return true;
    bool *layers = NULL;
    if (d->layers_given) {
        layers = lam_arena_calloc(d->arena, info->layers, sizeof *layers);
        if (!layers) return api_refuse_memory(d, info->layers, API_CODE_RESPONSE_TOO_LARGE);
        for (size_t i = 0; i < d->layer_count; i++)
            layers[d->layers[i]] = true;
    }
    const lam_stats_opts opts = {
        .level = d->level,
        .layers = layers,
        .sites = out->stats_sites,
        .per_item = d->per_item ? out->input_count : 0,
        .max_rows = out->rows,
    };
    size_t bytes;
    lam_err err;
    if (lam_stats_bytes(m, &opts, &bytes, &err) != LAM_OK) bytes = SIZE_MAX;
    if (bytes < SIZE_MAX && lam_stats_new(&out->stats, d->arena, m, &opts, &err) == LAM_OK)
        return true;
    return api_refuse_memory(d, bytes, API_CODE_RESPONSE_TOO_LARGE);
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

/* What the fields say about the inputs, before any of them is looked at. */
static bool plan_inputs(api_draft *d, api_request *out)
{
    const bool openai = d->route == API_ROUTE_OPENAI_EMBEDDINGS;
    const bool tokens = d->tokens.field, texts = d->texts.field;
    if (!tokens && !texts)
        return openai ? api_refuse(d, API_CODE_MISSING_FIELD, api_place_field("input"),
                                   "this field is missing")
                      : api_refuse(d, API_CODE_MISSING_FIELD, api_place_field("tokens"),
                                   "the request needs one of the fields tokens and texts");
    if (tokens && texts)
        return api_refuse(d, API_CODE_CONFLICTING_FIELDS, api_place_field("texts"),
                          "the request has both tokens and texts");
    if (texts && (d->mask.field || d->types.field))
        return api_refuse(d, API_CODE_CONFLICTING_FIELDS,
                          api_place_field(d->mask.field ? d->mask.field : d->types.field),
                          "this field goes with tokens, not with texts");
    if (tokens && (d->prompt.data || d->prompt_name.data))
        return api_refuse(d, API_CODE_CONFLICTING_FIELDS,
                          api_place_field(d->prompt.data ? "prompt" : "prompt_name"),
                          "this field goes with texts, not with tokens");
    if (d->prompt.data && d->prompt_name.data)
        return api_refuse(d, API_CODE_CONFLICTING_FIELDS, api_place_field("prompt"),
                          "the request has both prompt and prompt_name");
    out->input_count = tokens ? d->tokens.count : d->texts.count;
    if (out->input_count == 0)
        return api_refuse(d, API_CODE_EMPTY_INPUT,
                          api_place_field(tokens ? d->tokens.field : d->texts.field),
                          "this list is empty");
    return true;
}

/* Mask or types must have the shape of tokens. */
static bool check_shape(api_draft *d, const api_rows *rows, api_code code)
{
    if (!rows->field || (rows->flat == d->tokens.flat && rows->count == d->tokens.count))
        return true;
    api_refuse(d, code, api_place_field(rows->field), "this must have the shape of tokens: %s",
               d->tokens.flat ? "one flat list" : "a list for each item");
    return rows->flat == d->tokens.flat ? refuse_limit(d, d->tokens.count, rows->count) : false;
}

static api_place place_of(const api_rows *rows, size_t item, size_t token)
{
    if (rows->flat) return api_place_at(rows->field, token);
    return (api_place){rows->field, {item, token}};
}

static api_place row_place(const api_rows *rows, size_t item)
{
    return rows->flat ? api_place_field(rows->field) : api_place_at(rows->field, item);
}

static bool check_row_length(api_draft *d, const api_rows *rows, size_t i, api_code code)
{
    if (!rows->field || rows->rows[i].count == d->tokens.rows[i].count) return true;
    api_refuse(d, code, row_place(rows, i), "this list must be as long as that of the tokens");
    return refuse_limit(d, d->tokens.rows[i].count, rows->rows[i].count);
}

/* Tells a refusal of the engine in words of the request. `at` counts from the first token that
 * runs. */
static bool refuse_item(api_draft *d, lam_status status, const lam_item *item, size_t at,
                        size_t limit)
{
    const size_t i = item->index;
    const bool texts = d->texts.field;
    const api_place whole = texts ? (d->texts.single ? api_place_field(d->texts.field)
                                                     : api_place_at(d->texts.field, i))
                                  : row_place(&d->tokens, i);
    if (status == LAM_E_EMPTY)
        return api_refuse(d, API_CODE_EMPTY_INPUT, whole, "this input is empty");
    if (status == LAM_E_TOO_LONG) {
        api_refuse(
            d, API_CODE_CONTEXT_LENGTH, whole, "this input has %zu tokens, %s takes at most %zu%s",
            item->tokens, texts ? "a text" : "the model", limit,
            d->route != API_ROUTE_OPENAI_EMBEDDINGS ? "; \"truncate\": true would cut it" : "");
        return refuse_limit(d, limit, item->tokens);
    }
    if (!texts && status == LAM_E_ID_RANGE) return api_refuse_range(d, place_of(&d->tokens, i, at));
    if (!texts && status == LAM_E_TYPE_RANGE && d->types.field)
        return api_refuse_range(d, place_of(&d->types, i, at));
    if (!texts && status == LAM_E_MASK && d->mask.field)
        return api_refuse(d, API_CODE_INVALID_MASK, row_place(&d->mask, i),
                          "every token is masked");
    return api_refuse(d, api_code_of_status(status), whole, "this input is refused: %s",
                      lam_status_text(status));
}

static bool plan_token_item(api_draft *d, api_request *out, size_t i, lam_item *item)
{
    const lam_model *m = out->model->model;
    const size_t longest = lam_model_get_info(m)->positions;
    const api_row *row = &d->tokens.rows[i];
    out->info[i].tokens = row->count;
    if (!check_row_length(d, &d->mask, i, API_CODE_INVALID_MASK) ||
        !check_row_length(d, &d->types, i, API_CODE_INVALID_VALUE))
        return false;
    const bool cut = row->count > longest && d->truncate != API_TRUNCATE_NO;
    const size_t start = cut && d->truncate == API_TRUNCATE_LEFT ? row->count - longest : 0;
    out->info[i].truncated = cut;
    item->tokens = cut ? longest : row->count;
    item->ids = row->numbers + start;
    item->types = d->types.field ? d->types.rows[i].numbers + start : NULL;
    item->mask = d->mask.field ? d->mask.rows[i].flags + start : NULL;
    size_t at = 0;
    const lam_status status = lam_item_check(m, item, &at, NULL);
    return status == LAM_OK || refuse_item(d, status, item, start + at, longest);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* What stands in front of every text of the request. */
typedef struct text_plan {
    const struct lam_tokenizer *tokenizer;
    lam_tokenize_opts opts;
    api_text prompt;
    char *scratch; /* prompt and the longest text, if there is a prompt */
} text_plan;

static bool find_prompt(api_draft *d, const lam_model_info *info, api_text *out)
{
    if (d->prompt.data) {
        *out = d->prompt;
        return true;
    }
    if (!d->prompt_name.data && !info->default_prompt) return true;
    const char *names[16];
    size_t shown = 0;
    for (size_t i = 0; i < info->prompt_count; i++) {
        const lam_prompt *p = &info->prompts[i];
        const bool match = d->prompt_name.data ? api_text_is(d->prompt_name, p->name)
                                               : strcmp(info->default_prompt, p->name) == 0;
        if (match) {
            *out = (api_text){.data = p->text, .size = strlen(p->text)};
            return true;
        }
        if (shown < sizeof names / sizeof *names) names[shown++] = p->name;
    }
    if (!d->prompt_name.data) return true;
    char list[160];
    api_list_names(names, shown, list, sizeof list);
    return api_refuse(d, API_CODE_INVALID_VALUE, api_place_field("prompt_name"), "%s%s",
                      shown ? "this must be one of: " : "this model has no prompts", list);
}

static bool plan_texts(api_draft *d, const api_request *out, text_plan *plan)
{
    const lam_model_info *info = lam_model_get_info(out->model->model);
    *plan = (text_plan){.tokenizer = lam_model_tokenizer(out->model->model),
                        .opts = lam_tokenize_opts_default()};
    if (!plan->tokenizer)
        return api_refuse(d, API_CODE_NO_TOKENIZER, api_place_field(d->texts.field),
                          "this model came without a tokenizer: send token ids");
    if (!find_prompt(d, info, &plan->prompt)) return false;
    plan->opts.match_added_tokens = !d->plain_text;
    /* Cutting is asked for in any case, which bounds memory; whether it is allowed is judged
     * afterwards. */
    plan->opts.max_tokens = out->model->max_input_length;
    plan->opts.side = d->truncate == API_TRUNCATE_LEFT ? LAM_TRUNCATE_LEFT : LAM_TRUNCATE_RIGHT;
    if (plan->prompt.size == 0) return true;
    size_t longest = 0;
    for (size_t i = 0; i < d->texts.count; i++)
        if (d->texts.texts[i].size > longest) longest = d->texts.texts[i].size;
    plan->scratch = api_alloc(d, plan->prompt.size + longest, 1);
    if (!plan->scratch) return false;
    memcpy(plan->scratch, plan->prompt.data, plan->prompt.size);
    return true;
}

static bool plan_text_item(api_draft *d, const text_plan *plan, api_request *out, size_t i,
                           lam_item *item)
{
    enum { TOKENIZER_BYTES_PER_BYTE = 16 }; /* a guess that only chooses between two refusals */
    const lam_model *m = out->model->model;
    api_text text = d->texts.texts[i];
    if (text.size == 0) return refuse_item(d, LAM_E_EMPTY, item, 0, 0);
    if (plan->scratch) {
        memcpy(plan->scratch + plan->prompt.size, text.data, text.size);
        text = (api_text){.data = plan->scratch, .size = plan->prompt.size + text.size};
    }
    lam_encoding e;
    lam_status status = lam_tokenize(plan->tokenizer, text.data, text.size, NULL, 0, &plan->opts,
                                     false, d->arena, &e, NULL);
    if (status == LAM_E_NOMEM)
        return api_refuse_memory(d, text.size * TOKENIZER_BYTES_PER_BYTE, API_CODE_TOO_MANY_ITEMS);
    if (status != LAM_OK) return refuse_item(d, status, item, 0, 0);
    out->info[i].tokens = item->tokens = e.full_count;
    if (e.full_count > e.count && d->truncate == API_TRUNCATE_NO)
        return refuse_item(d, LAM_E_TOO_LONG, item, 0, plan->opts.max_tokens);
    out->info[i].truncated = e.full_count > e.count;
    item->tokens = e.count;
    item->ids = e.ids;
    item->types = lam_model_get_info(m)->types ? e.type_ids : NULL;
    size_t at = 0;
    status = lam_item_check(m, item, &at, NULL);
    return status == LAM_OK || refuse_item(d, status, item, at, plan->opts.max_tokens);
}

/* ---- Items ----------------------------------------------------------------------------------- */

/* Whether the request goes on without the input that was just refused. Memory is nobody's own
 * fault. */
static bool keep_item_error(api_draft *d, api_request *out, size_t i)
{
    const api_code code = d->error->code;
    if (code == API_CODE_OUT_OF_MEMORY || code == API_CODE_TOO_MANY_ITEMS) return false;
    blame_item(d, i);
    if (!d->errors_per_item) return false;
    api_error *kept = api_alloc(d, 1, sizeof *kept);
    if (!kept) return false;
    *kept = *d->error;
    out->info[i].error = kept;
    return true;
}

static bool plan_items(api_draft *d, api_request *out)
{
    const bool texts = d->texts.field;
    text_plan plan = {0};
    if (texts && !plan_texts(d, out, &plan)) return false;
    if (!texts && (!check_shape(d, &d->mask, API_CODE_INVALID_MASK) ||
                   !check_shape(d, &d->types, API_CODE_INVALID_VALUE)))
        return false;
    const size_t sides = d->route == API_ROUTE_COMPARE ? 2 : 1;
    out->items = api_alloc(d, out->input_count * sides, sizeof *out->items);
    out->info = out->items ? api_alloc(d, out->input_count, sizeof *out->info) : NULL;
    if (!out->info) return false;
    memset(out->info, 0, out->input_count * sizeof *out->info);
    for (size_t i = 0; i < out->input_count; i++) {
        lam_item *item = &out->items[out->item_count];
        *item = (lam_item){.index = i, .opts = &out->opts};
        const bool fine =
            texts ? plan_text_item(d, &plan, out, i, item) : plan_token_item(d, out, i, item);
        if (!fine && !keep_item_error(d, out, i)) return false;
        if (!fine) continue;
        out->any_truncated |= out->info[i].truncated;
        out->rows += item->rows;
        out->item_count++;
    }
    return true;
}

/* Norms that measure all rows of the request must be able to. */
static bool plan_batch(api_draft *d, const api_request *out)
{
    lam_err err;
    const size_t max = d->env->limits.max_batch_rows;
    const char *field = d->texts.field ? d->texts.field : d->tokens.field;
    const lam_status status =
        lam_request_check(out->model->model, &out->opts, out->rows, max, &err);
    if (status == LAM_OK || out->item_count == 0) return true;
    api_refuse(d, api_code_of_status(status), api_place_field(field), "%s", err.message);
    return status == LAM_E_LIMIT ? refuse_limit(d, max, out->rows) : false;
}

/* ---- Sizes and memory ------------------------------------------------------------------------ */

/* More bytes than the reply will have. */
static uint64_t reply_bound(const api_request *r, const lam_model_info *info)
{
    enum {
        REPLY = 1024,
        ITEM = 256,
        ITEM_ERROR = 1024,
        LAYER = 64,
        SITE = 1024,
        VALUE = 64, /* of level full, name included */
        FLOAT = 18,
        VECTOR = 8,
    };
    const uint64_t vectors = r->opts.pool == LAM_POOL_NONE ? r->rows : r->item_count;
    const uint64_t width = r->opts.dimensions;
    const uint64_t vector = VECTOR + (r->base64 ? (width * 4 + 2) / 3 * 4 : width * FLOAT);
    const uint64_t failed = r->errors_per_item ? r->input_count : 0;
    if (r->route == API_ROUTE_COMPARE) return REPLY + (info->layers + 1 + r->input_count) * ITEM;
    uint64_t total = REPLY + vectors * vector + r->input_count * ITEM + failed * ITEM_ERROR;
    if (r->level == LAM_STATS_NONE) return total;
    uint64_t sites = 0;
    for (size_t s = 0; s < LAM_SITE_COUNT; s++)
        sites += (!r->stats_sites || r->stats_sites[s]) &&
                 model_has_site(r->model->model, info, (lam_site)s);
    const uint64_t layers = r->stats_layers ? r->stats_layer_count : info->layers;
    const uint64_t values = LAM_LAYER_VALUE_COUNT + LAM_HEAD_VALUE_COUNT * (info->heads + 1);
    const uint64_t full = r->level == LAM_STATS_FULL ? values * VALUE : 0;
    const uint64_t whole = (layers + 1) * (LAYER + sites * SITE + full);
    return total + whole * (1 + (r->per_item ? r->input_count : 0));
}

static bool plan_reply(api_draft *d, api_request *out)
{
    const uint64_t bound = reply_bound(out, lam_model_get_info(out->model->model));
    const uint64_t max = d->env->limits.max_reply_bytes;
    out->reply_bound_bytes = (size_t)bound;
    if (bound <= max) return true;
    api_fail(d->error, API_CODE_RESPONSE_TOO_LARGE, NULL,
             "the reply could have %llu bytes, more than max_reply_bytes allows",
             (unsigned long long)bound);
    return refuse_limit(d, max, bound);
}

static bool plan_outputs(api_draft *d, api_request *out)
{
    enum { ALIGN = 64 };
    const bool none = out->opts.pool == LAM_POOL_NONE;
    for (size_t i = 0; i < out->item_count; i++) {
        lam_item *item = &out->items[i];
        /* Below 2^32 rows of 2^15 channels: the reply was bounded before. */
        const size_t bytes = (none ? item->rows : 1) * out->opts.dimensions * sizeof *item->out;
        item->out = lam_arena_alloc_aligned(d->arena, bytes, ALIGN);
        if (!item->out) return api_refuse_memory(d, bytes, API_CODE_RESPONSE_TOO_LARGE);
        item->stats = out->stats;
    }
    return true;
}

bool api_plan_request(api_draft *d, api_request *out)
{
    *out = (api_request){.route = d->route};
    return plan_model(d, out) && plan_inputs(d, out) && plan_options(d, out) &&
           plan_selection(d, out) && plan_items(d, out) &&
           (d->route != API_ROUTE_COMPARE || api_plan_pairs(d, out)) && plan_batch(d, out) &&
           plan_reply(d, out) && plan_statistics(d, out) && plan_outputs(d, out);
}
