/* GET /info: what text-embeddings-inference answers there, by the same names, and what there is to
 * know more. */
#include <string.h>

#include "api/reply.h"

static void put_text(api_buffer *b, const char *key, const char *value)
{
    api_put_key(b, key, false);
    if (value) {
        api_put_string(b, value);
    } else {
        api_buffer_puts(b, "null");
    }
}

static void put_number(api_buffer *b, const char *key, uint64_t value)
{
    api_put_key(b, key, false);
    api_buffer_json_u64(b, value);
}

static void put_flag(api_buffer *b, const char *key, bool value)
{
    api_put_key(b, key, false);
    api_buffer_json_bool(b, value);
}

static void put_names(api_buffer *b, const char *key, const char *const *names, size_t count)
{
    api_put_key(b, key, false);
    for (size_t i = 0; i < count; i++) {
        api_buffer_put(b, i ? "," : "[", 1);
        api_put_string(b, names[i]);
    }
    api_buffer_puts(b, count ? "]" : "[]");
}

static void put_sites(api_buffer *b, const lam_model *m, const lam_model_info *info)
{
    const char *names[LAM_SITE_COUNT];
    size_t count = 0;
    for (size_t i = 0; i < LAM_SITE_COUNT; i++) {
        const lam_site s = (lam_site)i;
        bool has = lam_model_has_site(m, LAM_LAYER_NONE, s);
        for (size_t layer = 0; !has && layer < info->layers; layer++)
            has = lam_model_has_site(m, layer, s);
        if (has) names[count++] = lam_site_name(s);
    }
    put_names(b, "sites", names, count);
}

/* Each norm: where, what, on whose statistics, and what a row of it depends on. */
static void put_norms(api_buffer *b, const lam_model *m)
{
    lam_norm_view n;
    api_put_key(b, "norms", false);
    api_buffer_put(b, "[", 1);
    for (size_t i = 0; lam_model_norm(m, i, &n); i++) {
        if (i) api_buffer_put(b, ",", 1);
        api_buffer_put(b, "{", 1);
        api_put_key(b, "site", true);
        api_put_string(b, lam_site_name(n.site));
        if (n.layer != LAM_LAYER_NONE) put_number(b, "layer", n.layer);
        put_text(b, "kind", n.kind);
        put_text(b, "source", lam_norm_source_name(n.source));
        put_text(b, "verdict", n.verdict);
        put_flag(b, "running_statistics", n.has_running);
        api_buffer_put(b, "}", 1);
    }
    api_buffer_put(b, "]", 1);
}

static void put_prompts(api_buffer *b, const lam_model_info *info)
{
    api_put_key(b, "prompts", false);
    api_buffer_put(b, "{", 1);
    for (size_t i = 0; i < info->prompt_count; i++) {
        if (i) api_buffer_put(b, ",", 1);
        api_put_string(b, info->prompts[i].name);
        api_buffer_put(b, ":", 1);
        api_put_string(b, info->prompts[i].text);
    }
    api_buffer_put(b, "}", 1);
    put_text(b, "default_prompt_name", info->default_prompt);
}

/* The members of one model, without braces; the first one has no comma in front. */
static void put_model(api_buffer *b, const api_model *m)
{
    const lam_model_info *info = lam_model_get_info(m->model);
    api_put_key(b, "model_id", true);
    api_put_string(b, m->name);
    api_buffer_puts(b, ",\"model_sha\":null,\"model_dtype\":\"float32\"");
    put_text(b, "served_model_name", m->name);
    put_names(b, "aliases", m->aliases, m->alias_count);
    api_buffer_puts(b, ",\"model_type\":{\"embedding\":{\"pooling\":");
    api_put_string(b, lam_pool_name(info->pool));
    api_buffer_puts(b, "}}");
    put_text(b, "family", info->family);
    put_text(b, "weight_dtype", info->weight_dtype);
    put_text(b, "pooling", lam_pool_name(info->pool));
    put_flag(b, "normalize", info->normalize);
    put_number(b, "width", info->width);
    put_number(b, "layers", info->layers);
    put_number(b, "heads", info->heads);
    put_number(b, "ffn_width", info->ffn_width);
    put_number(b, "vocab_size", info->vocab);
    put_number(b, "token_types", info->types);
    put_number(b, "max_positions", info->positions);
    put_number(b, "max_input_length", m->max_input_length);
    put_flag(b, "tokenizer", lam_model_tokenizer(m->model) != NULL);
    put_number(b, "parameters", info->parameters);
    put_number(b, "weight_bytes", info->weight_bytes);
    put_text(b, "isa", lam_isa_name(info->isa));
    put_sites(b, m->model, info);
    put_norms(b, m->model);
    put_prompts(b, info);
}

/* A limit under the name that text-embeddings-inference gives it. */
static void put_tei_limit(api_buffer *b, const api_server_info *s, const char *key,
                          const char *setting)
{
    for (size_t i = 0; i < s->limit_count; i++)
        if (strcmp(s->limits[i].name, setting) == 0) put_number(b, key, s->limits[i].value);
}

bool api_info_write(const api_env *env, const api_server_info *s, api_buffer *out)
{
#define NAME_ROW(id, text) text,
    static const char *const poolings[] = {LAM_POOL_MAP(NAME_ROW)};
    static const char *const levels[] = {LAM_STATS_LEVEL_MAP(NAME_ROW)};
    api_buffer_put(out, "{", 1);
    put_model(out, &env->models[0]);
    put_tei_limit(out, s, "max_concurrent_requests", "max_queue_items");
    put_tei_limit(out, s, "max_batch_tokens", "max_batch_tokens");
    put_tei_limit(out, s, "max_client_batch_size", "max_items");
    api_buffer_puts(out, ",\"max_batch_requests\":null,\"auto_truncate\":false");
    put_number(out, "tokenization_workers", s->workers);
    put_number(out, "workers", s->workers);
    put_text(out, "version", s->version);
    api_buffer_puts(out, ",\"sha\":null,\"docker_label\":null");
    put_text(out, "libraries", s->libraries);
    put_names(out, "poolings", poolings, LAM_POOL_COUNT);
    put_names(out, "statistics", levels, sizeof levels / sizeof *levels);
    api_buffer_puts(out, ",\"limits\":{");
    for (size_t i = 0; i < s->limit_count; i++) {
        api_put_key(out, s->limits[i].name, i == 0);
        api_buffer_json_u64(out, s->limits[i].value);
    }
    api_buffer_puts(out, "},\"models\":[");
    for (size_t i = 0; i < env->model_count; i++) {
        api_buffer_puts(out, i ? ",{" : "{");
        put_model(out, &env->models[i]);
        api_buffer_put(out, "}", 1);
    }
    api_buffer_puts(out, "]}");
    return !out->failed;
}
