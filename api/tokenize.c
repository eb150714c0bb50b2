#include "api/tokenize.h"

#include <string.h>

#include "api/json_reader.h"

static bool fail_json(const api_json *r, api_error *e)
{
    switch (r->fault) {
    case API_JSON_FAULT_UTF8:
        return api_fail(e, API_CODE_INVALID_UTF8, NULL, "%s", api_json_fault_text(r->fault));
    case API_JSON_FAULT_TOO_DEEP:
        return api_fail(e, API_CODE_TOO_DEEP, NULL, "%s", api_json_fault_text(r->fault));
    case API_JSON_FAULT_DUPLICATE_KEY:
        return api_fail(e, API_CODE_DUPLICATE_KEY, NULL, "%s", api_json_fault_text(r->fault));
    case API_JSON_FAULT_MEMORY:
        return api_fail(e, API_CODE_OUT_OF_MEMORY, NULL, "%s", api_json_fault_text(r->fault));
    case API_JSON_FAULT_NONE:
    case API_JSON_FAULT_SYNTAX:
    case API_JSON_FAULT_TOO_MANY_KEYS:
    case API_JSON_FAULT_COUNT:
        break;
    }
    return api_fail(e, API_CODE_INVALID_JSON, NULL, "%s",
                    api_json_fault_text(r->fault ? r->fault : API_JSON_FAULT_SYNTAX));
}

/* The kind that is next, or a fault, or wrong_type. */
static bool expect(api_json *r, api_json_kind kind, const char *param, const char *what,
                   api_error *e)
{
    const api_json_kind next = api_json_peek(r);
    if (next == kind) return true;
    if (next == API_JSON_NOTHING) return fail_json(r, e);
    return api_fail(e, API_CODE_WRONG_TYPE, param, "this must be %s", what);
}

static bool is(api_text t, const char *name)
{
    return t.size == strlen(name) && memcmp(t.data, name, t.size) == 0;
}

static bool read_text(api_json *r, const char *param, const char **text, size_t *bytes,
                      api_error *e)
{
    api_text t;
    if (!expect(r, API_JSON_STRING, param, "a string", e)) return false;
    if (!api_json_string(r, &t)) return fail_json(r, e);
    *text = t.data ? t.data : "";
    *bytes = t.size;
    return true;
}

static bool read_max_length(api_json *r, lam_tokenize_opts *o, api_error *e)
{
    static const char param[] = "/truncate/max_length";
    api_json_number n;
    if (!expect(r, API_JSON_NUMBER, param, "an integer", e)) return false;
    if (!api_json_number_read(r, &n)) return fail_json(r, e);
    if (n.kind != API_JSON_INTEGER || n.integer < 1 || n.integer > INT32_MAX)
        return api_fail(e, API_CODE_OUT_OF_RANGE, param, "this must be an integer from 1 to %d",
                        INT32_MAX);
    o->max_tokens = (size_t)n.integer;
    return true;
}

static bool read_strategy(api_json *r, lam_tokenize_opts *o, api_error *e)
{
#define NAME_ROW(name, text) text,
    static const char *const names[] = {LAM_TRUNCATE_STRATEGY_MAP(NAME_ROW)};
    static const char param[] = "/truncate/strategy";
    api_text t;
    if (!expect(r, API_JSON_STRING, param, "a string", e)) return false;
    if (!api_json_string(r, &t)) return fail_json(r, e);
    for (int i = 0; i < LAM_TRUNCATE_STRATEGY_COUNT; i++) {
        if (!is(t, names[i])) continue;
        o->strategy = (lam_truncate_strategy)i;
        return true;
    }
    return api_fail(e, API_CODE_INVALID_VALUE, param,
                    "this must be one of: longest_first, only_first, only_second");
}

static bool read_direction(api_json *r, lam_tokenize_opts *o, api_error *e)
{
    static const char param[] = "/truncate/direction";
    api_text t;
    if (!expect(r, API_JSON_STRING, param, "a string", e)) return false;
    if (!api_json_string(r, &t)) return fail_json(r, e);
    if (!is(t, "right") && !is(t, "left"))
        return api_fail(e, API_CODE_INVALID_VALUE, param, "this must be one of: right, left");
    o->side = is(t, "right") ? LAM_TRUNCATE_RIGHT : LAM_TRUNCATE_LEFT;
    return true;
}

static bool read_truncate(api_json *r, lam_tokenize_opts *o, api_error *e)
{
    static const char param[] = "/truncate";
    api_text key;
    if (!expect(r, API_JSON_OBJECT, param, "null or an object", e)) return false;
    if (!api_json_enter_object(r)) return fail_json(r, e);
    while (api_json_next_key(r, &key)) {
        bool ok;
        if (is(key, "max_length"))
            ok = read_max_length(r, o, e);
        else if (is(key, "strategy"))
            ok = read_strategy(r, o, e);
        else if (is(key, "direction"))
            ok = read_direction(r, o, e);
        else
            return api_fail(e, API_CODE_UNKNOWN_FIELD, param,
                            "the fields are max_length, strategy and direction");
        if (!ok) return false;
    }
    if (r->fault != API_JSON_FAULT_NONE) return fail_json(r, e);
    if (o->max_tokens > 0) return true;
    return api_fail(e, API_CODE_MISSING_FIELD, "/truncate/max_length", "this field is missing");
}

static bool take_null(api_json *r)
{
    return api_json_peek(r) == API_JSON_NULL && api_json_null(r);
}

static bool read_special(api_json *r, lam_tokenize_opts *o, api_error *e)
{
    if (!expect(r, API_JSON_BOOL, "/add_special_tokens", "true or false", e)) return false;
    return api_json_bool(r, &o->add_special_tokens) || fail_json(r, e);
}

static bool read_field(api_json *r, api_text key, api_tokenize *out, api_error *e)
{
    if (is(key, "text")) return read_text(r, "/text", &out->text, &out->text_bytes, e);
    if (is(key, "pair"))
        return take_null(r) || read_text(r, "/pair", &out->pair, &out->pair_bytes, e);
    if (is(key, "add_special_tokens")) return read_special(r, &out->opts, e);
    if (is(key, "truncate")) return take_null(r) || read_truncate(r, &out->opts, e);
    return api_fail(e, API_CODE_UNKNOWN_FIELD, NULL,
                    "the fields are text, pair, add_special_tokens and truncate");
}

bool api_tokenize_read(const char *line, size_t bytes, lam_arena *arena, api_tokenize *out,
                       api_error *error)
{
    api_json r;
    api_text key;
    *out = (api_tokenize){.opts = lam_tokenize_opts_default()};
    api_json_init(&r, line, bytes, arena);
    if (api_json_peek(&r) == API_JSON_NOTHING) return fail_json(&r, error);
    if (api_json_peek(&r) != API_JSON_OBJECT)
        return api_fail(error, API_CODE_NOT_OBJECT, NULL, "the line must be a JSON object");
    if (!api_json_enter_object(&r)) return fail_json(&r, error);
    while (api_json_next_key(&r, &key)) {
        if (read_field(&r, key, out, error)) continue;
        return r.fault == API_JSON_FAULT_NONE ? false : fail_json(&r, error);
    }
    if (r.fault != API_JSON_FAULT_NONE || !api_json_finish(&r)) return fail_json(&r, error);
    if (out->text) return true;
    return api_fail(error, API_CODE_MISSING_FIELD, "/text", "this field is missing");
}

static void put_numbers(api_buffer *out, const char *key, const int32_t *v, size_t n)
{
    api_buffer_puts(out, key);
    for (size_t i = 0; i < n; i++) {
        if (i) api_buffer_put(out, ",", 1);
        api_buffer_json_i64(out, v[i]);
    }
}

static void put_encoding(const lam_tokenizer *t, const lam_encoding *e, api_buffer *out)
{
    put_numbers(out, "{\"ids\":[", e->ids, e->count);
    put_numbers(out, "],\"type_ids\":[", e->type_ids, e->count);
    api_buffer_puts(out, "],\"offsets\":[");
    for (size_t i = 0; i < e->count; i++) {
        api_buffer_puts(out, i ? ",[" : "[");
        api_buffer_json_u64(out, e->offsets[i].start);
        api_buffer_put(out, ",", 1);
        api_buffer_json_u64(out, e->offsets[i].end);
        api_buffer_put(out, "]", 1);
    }
    api_buffer_puts(out, "],\"tokens\":[");
    for (size_t i = 0; i < e->count; i++) {
        size_t bytes = 0;
        const char *token = lam_tokenizer_token(t, e->ids[i], &bytes);
        if (i) api_buffer_put(out, ",", 1);
        if (token)
            api_buffer_json_string(out, token, bytes);
        else
            api_buffer_puts(out, "null");
    }
    api_buffer_puts(out, "]}");
}

bool api_tokenize_write(const lam_tokenizer *t, const api_tokenize *q, lam_arena *arena,
                        api_buffer *out, size_t *count, bool *truncated, api_error *error)
{
    lam_encoding e;
    lam_err err;
    lam_status s = lam_tokenize(t, q->text, q->text_bytes, q->pair, q->pair_bytes, &q->opts, true,
                                arena, &e, &err);
    if (s != LAM_OK)
        return api_fail(error, api_code_of_status(s), s == LAM_E_INPUT ? "/truncate" : NULL, "%s",
                        err.message);
    put_encoding(t, &e, out);
    *count = e.count;
    *truncated = e.full_count > e.count;
    if (!out->failed) return true;
    if (!out->too_large) return api_fail(error, API_CODE_OUT_OF_MEMORY, NULL, "out of memory");
    return api_fail(error, API_CODE_RESPONSE_TOO_LARGE, NULL, "the result has more than %zu bytes",
                    out->max);
}
