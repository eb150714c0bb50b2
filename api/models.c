/* GET /v1/models and /v1/models/{id}. */
#include <string.h>

#include "api/reply.h"

static bool same(const char *name, const char *s, size_t n)
{
    return strlen(name) == n && memcmp(name, s, n) == 0;
}

const api_model *api_model_find(const api_env *env, const char *name, size_t name_bytes)
{
    for (size_t i = 0; i < env->model_count; i++) {
        const api_model *m = &env->models[i];
        if (same(m->name, name, name_bytes)) return m;
        for (size_t a = 0; a < m->alias_count; a++)
            if (same(m->aliases[a], name, name_bytes)) return m;
    }
    return NULL;
}

bool api_model_write(const api_model *m, api_buffer *out)
{
    api_buffer_puts(out, "{\"id\":");
    api_put_string(out, m->name);
    api_buffer_puts(out, ",\"object\":\"model\",\"created\":");
    api_buffer_json_i64(out, m->created);
    api_buffer_puts(out, ",\"owned_by\":\"lamina\",\"aliases\":[");
    for (size_t i = 0; i < m->alias_count; i++) {
        if (i) api_buffer_put(out, ",", 1);
        api_put_string(out, m->aliases[i]);
    }
    api_buffer_puts(out, "]}");
    return !out->failed;
}

bool api_models_write(const api_env *env, api_buffer *out)
{
    api_buffer_puts(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < env->model_count; i++) {
        if (i) api_buffer_put(out, ",", 1);
        api_model_write(&env->models[i], out);
    }
    api_buffer_puts(out, "]}");
    return !out->failed;
}
