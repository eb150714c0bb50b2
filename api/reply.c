#include "api/reply.h"

#include <math.h>
#include <string.h>

void api_put_string(api_buffer *b, const char *s)
{
    api_buffer_json_string(b, s, strlen(s));
}

void api_put_double(api_buffer *b, const char *key, double v)
{
    api_put_key(b, key, false);
    api_buffer_json_double(b, v);
}

static void put_optional(api_buffer *b, const char *key, uint64_t v)
{
    api_put_key(b, key, false);
    api_buffer_json_u64(b, v);
}

void api_put_error(api_buffer *b, const api_error *e)
{
    api_buffer_puts(b, "{\"message\":");
    api_put_string(b, e->message);
    api_put_key(b, "type", false);
    api_put_string(b, api_code_type(e->code));
    api_put_key(b, "param", false);
    if (e->param[0]) {
        api_put_string(b, e->param);
    } else {
        api_buffer_puts(b, "null");
    }
    api_put_key(b, "code", false);
    api_put_string(b, api_code_name(e->code));
    if (e->has_index) put_optional(b, "index", e->index);
    if (e->has_limit) {
        put_optional(b, "limit", e->limit);
        put_optional(b, "actual", e->actual);
    }
    api_buffer_puts(b, "}");
}

bool api_error_write(const api_error *e, api_buffer *out)
{
    api_buffer_puts(out, "{\"error\":");
    api_put_error(out, e);
    api_buffer_puts(out, "}");
    return !out->failed;
}

void api_put_vector(api_buffer *b, const api_request *r, const float *v)
{
    if (r->base64) {
        api_buffer_json_base64_floats(b, v, r->opts.dimensions);
    } else {
        api_buffer_json_floats(b, v, r->opts.dimensions);
    }
}

static void put_ms(api_buffer *b, const char *key, double ms, bool first)
{
    api_put_key(b, key, first);
    api_buffer_json_double(b, round(ms * 1000.0) / 1000.0);
}

void api_put_timing(api_buffer *b, const api_timing *t)
{
    api_buffer_put(b, "{", 1);
    put_ms(b, "queue_ms", t->queue_ms, true);
    put_ms(b, "compute_ms", t->compute_ms, false);
    put_ms(b, "total_ms", t->total_ms, false);
    api_buffer_put(b, "}", 1);
}

void api_put_usage(api_buffer *b, const api_request *r)
{
    api_buffer_puts(b, "{\"prompt_tokens\":");
    api_buffer_json_u64(b, r->rows);
    api_buffer_puts(b, ",\"total_tokens\":");
    api_buffer_json_u64(b, r->rows);
    api_buffer_puts(b, "}");
}

bool api_reply_write(const api_request *r, const api_timing *t, api_buffer *out)
{
    switch (r->route) {
    case API_ROUTE_ENCODE:
        api_encode_reply(r, t, out);
        break;
    case API_ROUTE_COMPARE:
        api_compare_reply(r, t, out);
        break;
    case API_ROUTE_OPENAI_EMBEDDINGS:
        api_openai_reply(r, out);
        break;
    case API_ROUTE_COUNT:
        out->failed = true;
        break;
    }
    return !out->failed;
}
