/* POST /v1/encode and /v1/compare: one function a field, and the lists of them. */
#include <stdio.h>

#include "api/request.h"

static bool read_model(api_draft *d, const char *name)
{
    return api_read_string(d, api_place_field(name), &d->model);
}

static bool read_tokens(api_draft *d, const char *name)
{
    return api_read_rows(d, name, false, &d->tokens);
}

static bool read_texts(api_draft *d, const char *name)
{
    return api_read_texts(d, name, &d->texts);
}

static bool read_attention_mask(api_draft *d, const char *name)
{
    return api_read_rows(d, name, true, &d->mask);
}

static bool read_token_type_ids(api_draft *d, const char *name)
{
    return api_read_rows(d, name, false, &d->types);
}

static bool read_pooling(api_draft *d, const char *name)
{
#define NAME_ROW(id, text) text,
    static const char *const names[] = {LAM_POOL_MAP(NAME_ROW)};
    const api_place at = api_place_field(name);
    api_text text;
    if (!api_read_string(d, at, &text)) return false;
    d->pool_given = true;
    if (lam_pool_parse(text.data, text.size, &d->pool)) return true;
    char list[128];
    api_list_names(names, LAM_POOL_COUNT, list, sizeof list);
    return api_refuse(d, API_CODE_INVALID_VALUE, at, "this must be one of: %s", list);
}

static bool read_normalize(api_draft *d, const char *name)
{
    d->normalize_given = true;
    return api_read_bool(d, api_place_field(name), &d->normalize);
}

static bool read_dimensions(api_draft *d, const char *name)
{
    d->dimensions_given = true;
    return api_read_integer(d, api_place_field(name), &d->dimensions);
}

static bool read_output_layer(api_draft *d, const char *name)
{
    d->output_layer_given = true;
    return api_read_integer(d, api_place_field(name), &d->output_layer);
}

static bool read_encoding_format(api_draft *d, const char *name)
{
    static const char *const formats[] = {"float", "base64"};
    size_t which;
    if (!api_read_choice(d, api_place_field(name), formats, 2, &which)) return false;
    d->base64 = which == 1;
    return true;
}

static bool read_statistics(api_draft *d, const char *name)
{
    static const char *const levels[] = {LAM_STATS_LEVEL_MAP(NAME_ROW)};
    size_t which;
    if (!api_read_choice(d, api_place_field(name), levels, LAM_STATS_LEVEL_COUNT, &which))
        return false;
    d->level = (lam_stats_level)which;
    return true;
}

static bool read_layers(api_draft *d, const char *name)
{
    const api_place whole = api_place_field(name);
    if (!api_expect(d, API_JSON_ARRAY, whole, "a list of layer numbers")) return false;
    d->layers = api_alloc(d, API_MAX_LAYERS, sizeof *d->layers);
    if (!d->layers || !api_json_enter_array(&d->json)) return false;
    d->layers_given = true;
    while (api_json_next_element(&d->json)) {
        const api_place at = api_place_at(name, d->layer_count);
        api_json_number n;
        if (!api_read_integer(d, at, &n)) return false;
        if (n.integer < 0 || n.integer >= API_MAX_LAYERS)
            return api_refuse(d, API_CODE_OUT_OF_RANGE, at,
                              "layers are counted from 0, and the model has fewer than this");
        for (size_t i = 0; i < d->layer_count; i++)
            if (d->layers[i] == (size_t)n.integer)
                return api_refuse(d, API_CODE_INVALID_VALUE, at, "this layer is named twice");
        d->layers[d->layer_count++] = (size_t)n.integer;
    }
    if (d->json.fault != API_JSON_FAULT_NONE) return false;
    if (d->layer_count > 0) return true;
    return api_refuse(d, API_CODE_INVALID_VALUE, whole,
                      "an empty list selects nothing; without it, all");
}

static bool read_sites(api_draft *d, const char *name)
{
    static const char *const names[] = {LAM_SITE_MAP(NAME_ROW)};
    const api_place whole = api_place_field(name);
    if (!api_expect(d, API_JSON_ARRAY, whole, "a list of sites")) return false;
    if (!api_json_enter_array(&d->json)) return false;
    d->sites_given = true;
    size_t count = 0;
    for (; api_json_next_element(&d->json); count++) {
        const api_place at = api_place_at(name, count);
        size_t site;
        if (!api_read_choice(d, at, names, LAM_SITE_COUNT, &site)) return false;
        if (d->sites[site])
            return api_refuse(d, API_CODE_INVALID_VALUE, at, "this site is named twice");
        d->sites[site] = true;
    }
    if (d->json.fault != API_JSON_FAULT_NONE) return false;
    if (count > 0) return true;
    return api_refuse(d, API_CODE_INVALID_VALUE, whole,
                      "an empty list selects nothing; without it, all");
}

static bool read_per_item(api_draft *d, const char *name)
{
    return api_read_bool(d, api_place_field(name), &d->per_item);
}

/* Fields of a norm and of "lamina" in config.json, which a request cannot change. */
static bool refuse_structure(api_draft *d, const char *name, api_text key)
{
    static const char *const known[] = {
        "kind",        "eps",        "group_eps",      "eps_mode",
        "ddof",        "gain",       "bias",           "unit_offset",
        "detach_mean", "detach_std", "groups",         "p",
        "c",           "k",          "alpha",          "shift",
        "position",    "placement",  "attention_norm", "ffn_norm",
        "final_norm",  "inner_norm", "embedding_norm", "residual_scale"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char inside[64];
        if (!api_text_is(key, known[i])) continue;
        snprintf(inside, sizeof inside, "%s/%s", name, known[i]);
        return api_refuse(d, API_CODE_UNSUPPORTED, api_place_field(inside),
                          "this makes another model of the weights, which a request cannot: "
                          "`lamina compare MODEL --with` on the command line does");
    }
    return api_refuse(d, API_CODE_UNKNOWN_FIELD, api_place_field(name),
                      "what can be compared here is {\"norm\":{\"statistics\":...}}");
}

static bool read_source(api_draft *d, const char *inside, lam_norm_source *out)
{
    static const lam_norm_source sources[] = {LAM_NORM_FROM_RUNNING, LAM_NORM_FROM_BATCH};
    const char *const names[] = {lam_norm_source_name(sources[0]),
                                 lam_norm_source_name(sources[1])};
    size_t which;
    if (!api_read_choice(d, api_place_field(inside), names, 2, &which)) return false;
    *out = sources[which];
    return true;
}

/* {"statistics": ...} at the place `name`. What else a norm may say in config.json would be another
 * model; that is told where it is asked of /v1/compare. */
static bool read_override(api_draft *d, const char *name, lam_norm_source *out)
{
    char inside[64];
    snprintf(inside, sizeof inside, "%s/statistics", name);
    if (!api_expect(d, API_JSON_OBJECT, api_place_field(name), "an object")) return false;
    if (!api_json_enter_object(&d->json)) return false;
    api_text key;
    while (api_json_next_key(&d->json, &key)) {
        if (!api_text_is(key, "statistics"))
            return d->route == API_ROUTE_COMPARE
                       ? refuse_structure(d, name, key)
                       : api_refuse(d, API_CODE_UNKNOWN_FIELD, api_place_field(name),
                                    "the only field of norm is `statistics`");
        if (!read_source(d, inside, out)) return false;
    }
    if (d->json.fault != API_JSON_FAULT_NONE) return false;
    if (*out != LAM_NORM_FROM_NONE) return true;
    return api_refuse(d, API_CODE_MISSING_FIELD, api_place_field(inside), "this field is missing");
}

/* An override of the source of statistics; null asks for none. */
static bool read_norm(api_draft *d, const char *name)
{
    if (api_json_peek(&d->json) == API_JSON_NULL) return api_json_null(&d->json);
    return read_override(d, name, &d->norm_source);
}

/* The other side of a comparison. */
static bool read_with(api_draft *d, const char *name)
{
    char inside[32];
    snprintf(inside, sizeof inside, "%s/norm", name);
    if (!api_expect(d, API_JSON_OBJECT, api_place_field(name), "an object")) return false;
    if (!api_json_enter_object(&d->json)) return false;
    api_text key;
    while (api_json_next_key(&d->json, &key)) {
        if (!api_text_is(key, "norm")) return refuse_structure(d, name, key);
        if (!read_override(d, inside, &d->with_source)) return false;
    }
    if (d->json.fault != API_JSON_FAULT_NONE) return false;
    if (d->with_source != LAM_NORM_FROM_NONE) return true;
    return api_refuse(d, API_CODE_MISSING_FIELD, api_place_field(inside), "this field is missing");
}

static bool read_digits(api_draft *d, const char *name)
{
    const api_place at = api_place_field(name);
    d->digits_given = true;
    if (!api_read_integer(d, at, &d->digits)) return false;
    if (d->digits.integer >= 1 && d->digits.integer <= 15) return true;
    return api_refuse(d, API_CODE_OUT_OF_RANGE, at, "this must be from 1 to 15");
}

static bool read_truncate(api_draft *d, const char *name)
{
    static const char *const sides[] = {"right", "left"};
    const api_place at = api_place_field(name);
    const api_json_kind kind = api_json_peek(&d->json);
    if (kind == API_JSON_BOOL) {
        bool on;
        if (!api_json_bool(&d->json, &on)) return false;
        d->truncate = on ? API_TRUNCATE_RIGHT : API_TRUNCATE_NO;
        return true;
    }
    size_t side;
    if (kind == API_JSON_NOTHING) return false;
    if (kind != API_JSON_STRING)
        return api_refuse(d, API_CODE_WRONG_TYPE, at,
                          "this must be true, false, \"right\" or \"left\"");
    if (!api_read_choice(d, at, sides, 2, &side)) return false;
    d->truncate = side == 0 ? API_TRUNCATE_RIGHT : API_TRUNCATE_LEFT;
    return true;
}

static bool read_special_tokens(api_draft *d, const char *name)
{
    bool special;
    if (!api_read_bool(d, api_place_field(name), &special)) return false;
    d->plain_text = !special;
    return true;
}

static bool read_prompt_name(api_draft *d, const char *name)
{
    return api_read_string(d, api_place_field(name), &d->prompt_name);
}

static bool read_prompt(api_draft *d, const char *name)
{
    const api_place at = api_place_field(name);
    if (!api_read_string(d, at, &d->prompt)) return false;
    if (!d->prompt.has_nul) return true;
    return api_refuse(d, API_CODE_INVALID_VALUE, at, "a text may not hold the character U+0000");
}

static bool read_on_error(api_draft *d, const char *name)
{
    static const char *const choices[] = {"request", "item"};
    size_t which;
    if (!api_read_choice(d, api_place_field(name), choices, 2, &which)) return false;
    d->errors_per_item = which == 1;
    return true;
}

static bool read_deadline_ms(api_draft *d, const char *name)
{
    const api_place at = api_place_field(name);
    const int64_t max = d->env->limits.max_deadline_ms;
    api_json_number n;
    if (!api_read_integer(d, at, &n)) return false;
    if (n.integer >= 1 && n.integer <= max) {
        d->deadline_ms = (uint32_t)n.integer;
        return true;
    }
    api_refuse(d, API_CODE_OUT_OF_RANGE, at, "this must be from 1 to %lld", (long long)max);
    d->error->has_limit = true;
    d->error->limit = (uint64_t)max;
    d->error->actual = n.integer > 0 ? (uint64_t)n.integer : 0;
    return false;
}

static bool read_user(api_draft *d, const char *name)
{
    api_text ignored;
    return api_read_string(d, api_place_field(name), &ignored);
}

const api_field *api_fields_encode(size_t *count)
{
    static const api_field fields[] = {
        {"model", read_model},
        {"tokens", read_tokens},
        {"texts", read_texts},
        {"attention_mask", read_attention_mask},
        {"token_type_ids", read_token_type_ids},
        {"pooling", read_pooling},
        {"normalize", read_normalize},
        {"dimensions", read_dimensions},
        {"output_layer", read_output_layer},
        {"encoding_format", read_encoding_format},
        {"statistics", read_statistics},
        {"layers", read_layers},
        {"sites", read_sites},
        {"per_item", read_per_item},
        {"norm", read_norm},
        {"truncate", read_truncate},
        {"special_tokens", read_special_tokens},
        {"prompt_name", read_prompt_name},
        {"prompt", read_prompt},
        {"on_error", read_on_error},
        {"deadline_ms", read_deadline_ms},
        {"user", read_user},
    };
    *count = sizeof fields / sizeof *fields;
    return fields;
}

const api_field *api_fields_compare(size_t *count)
{
    static const api_field fields[] = {
        {"model", read_model},
        {"tokens", read_tokens},
        {"texts", read_texts},
        {"attention_mask", read_attention_mask},
        {"token_type_ids", read_token_type_ids},
        {"pooling", read_pooling},
        {"norm", read_norm},
        {"with", read_with},
        {"digits", read_digits},
        {"truncate", read_truncate},
        {"special_tokens", read_special_tokens},
        {"prompt_name", read_prompt_name},
        {"prompt", read_prompt},
        {"deadline_ms", read_deadline_ms},
        {"user", read_user},
    };
    *count = sizeof fields / sizeof *fields;
    return fields;
}
