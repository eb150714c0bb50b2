/* A body from its first byte to a request that is ready to run. */
#include "api/request.h"

#include <stdio.h>
#include <string.h>

/* ---- What went wrong ------------------------------------------------------------------------- */

static bool refuse_fault(api_draft *d, api_json_fault fault, size_t offset)
{
    static const api_code codes[] = {
        [API_JSON_FAULT_NONE] = API_CODE_INTERNAL,
        [API_JSON_FAULT_SYNTAX] = API_CODE_INVALID_JSON,
        [API_JSON_FAULT_UTF8] = API_CODE_INVALID_UTF8,
        [API_JSON_FAULT_TOO_DEEP] = API_CODE_TOO_DEEP,
        [API_JSON_FAULT_DUPLICATE_KEY] = API_CODE_DUPLICATE_KEY,
        [API_JSON_FAULT_TOO_MANY_KEYS] = API_CODE_INVALID_VALUE,
        [API_JSON_FAULT_MEMORY] = API_CODE_OUT_OF_MEMORY,
    };
    if (fault == API_JSON_FAULT_MEMORY)
        return api_refuse_memory(d, (size_t)(d->json.end - d->json.text), API_CODE_TOO_MANY_ITEMS);
    size_t line = 1, column = 1;
    for (size_t i = 0; i < offset; i++) {
        column++;
        if (d->json.text[i] != '\n') continue;
        line++;
        column = 1;
    }
    return api_fail(d->error, codes[fault], NULL, "%s: line %zu, column %zu (byte %zu)",
                    api_json_fault_text(fault), line, column, offset);
}

/* The reader stops at the first thing that is wrong with the request. What is wrong with the text
 * is told first, wherever it stands: only then is the rest of the text looked at. */
static bool settle_error(api_draft *d)
{
    api_json *r = &d->json;
    if (r->fault == API_JSON_FAULT_SYNTAX || r->fault == API_JSON_FAULT_TOO_DEEP ||
        r->fault == API_JSON_FAULT_MEMORY)
        return refuse_fault(d, r->fault, (size_t)(r->fault_at - r->text));
    api_json_fault fault;
    size_t offset;
    if (!api_json_validate(r->text, (size_t)(r->end - r->text), &fault, &offset))
        return refuse_fault(d, fault, offset);
    if (r->fault != API_JSON_FAULT_NONE)
        return refuse_fault(d, r->fault, (size_t)(r->fault_at - r->text));
    return false;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

static const api_field *fields_of(api_route route, size_t *count)
{
    switch (route) {
    case API_ROUTE_ENCODE:
        return api_fields_encode(count);
    case API_ROUTE_COMPARE:
        return api_fields_compare(count);
    case API_ROUTE_OPENAI_EMBEDDINGS:
        return api_fields_openai(count);
    case API_ROUTE_COUNT:
        break;
    }
    *count = 0;
    return NULL;
}

const char *api_field_name(api_route route, size_t i)
{
    size_t count;
    const api_field *fields = fields_of(route, &count);
    return i < count ? fields[i].name : NULL;
}

/* Names of fields are told back only where they are made of these: nothing of a request is echoed
 * that a terminal or a page could take for more than a name. */
static bool is_plain_name(api_text name)
{
    if (name.size == 0 || name.size > 64) return false;
    for (size_t i = 0; i < name.size; i++) {
        const char c = name.data[i], low = (char)(c | 0x20);
        const bool plain =
            (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
        if (!plain) return false;
    }
    return true;
}

enum { MAX_NAME = 32 };

/* Edit distance (insert, drop, replace) of two short names. */
static size_t distance(const char *a, size_t a_size, const char *b, size_t b_size)
{
    size_t row[MAX_NAME + 1];
    for (size_t j = 0; j <= b_size; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            const size_t replace = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            const size_t shorter = row[j] < row[j - 1] ? row[j] : row[j - 1];
            row[j] = replace < shorter + 1 ? replace : shorter + 1;
        }
    }
    return row[b_size];
}

/* The field that was perhaps meant, or NULL. */
static const char *nearest_field(const api_field *fields, size_t count, api_text name)
{
    const char *best = NULL;
    size_t best_distance = 3;
    if (name.size > MAX_NAME) return NULL;
    for (size_t i = 0; i < count; i++) {
        const size_t n = strlen(fields[i].name);
        const size_t far = n <= MAX_NAME ? distance(name.data, name.size, fields[i].name, n) : 3;
        if (far < best_distance && far < n) {
            best_distance = far;
            best = fields[i].name;
        }
    }
    return best;
}

static bool refuse_unknown(api_draft *d, const api_field *fields, size_t count, api_text name)
{
    if (!is_plain_name(name))
        return api_fail(d->error, API_CODE_UNKNOWN_FIELD, NULL,
                        "the request has a field that is not known");
    char plain[65];
    memcpy(plain, name.data, name.size);
    plain[name.size] = '\0';
    const char *meant = nearest_field(fields, count, name);
    return api_refuse(d, API_CODE_UNKNOWN_FIELD, api_place_field(plain),
                      "this field is not known%s%s%s", meant ? "; did you mean \"" : "",
                      meant ? meant : "", meant ? "\"?" : "");
}

static bool read_field(api_draft *d, const api_field *fields, size_t count, api_text name)
{
    for (size_t i = 0; i < count; i++) {
        if (!api_text_is(name, fields[i].name)) continue;
        /* Typed clients of OpenAI's route send null for what they do not set. */
        if (d->route == API_ROUTE_OPENAI_EMBEDDINGS && i > 0 &&
            api_json_peek(&d->json) == API_JSON_NULL)
            return api_json_null(&d->json);
        return fields[i].read(d, fields[i].name);
    }
    if (d->route == API_ROUTE_OPENAI_EMBEDDINGS) return api_json_skip(&d->json);
    return refuse_unknown(d, fields, count, name);
}

static bool read_fields(api_draft *d)
{
    size_t count;
    const api_field *fields = fields_of(d->route, &count);
    const api_json_kind kind = api_json_peek(&d->json);
    if (kind == API_JSON_NOTHING) return false;
    if (kind != API_JSON_OBJECT)
        return api_fail(d->error, API_CODE_NOT_OBJECT, NULL, "the body must be a JSON object");
    if (!api_json_enter_object(&d->json)) return false;
    api_text name;
    while (api_json_next_key(&d->json, &name))
        if (!read_field(d, fields, count, name)) return false;
    return d->json.fault == API_JSON_FAULT_NONE && api_json_finish(&d->json);
}

static bool is_blank(const char *body, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (body[i] != ' ' && body[i] != '\t' && body[i] != '\n' && body[i] != '\r') return false;
    return true;
}

bool api_request_read(const api_env *env, api_route route, const char *body, size_t body_bytes,
                      lam_arena *arena, api_request *out, api_error *error)
{
    api_draft d = {.env = env, .route = route, .arena = arena, .error = error};
    if (is_blank(body, body_bytes))
        return api_fail(error, API_CODE_EMPTY_BODY, NULL, "the request has no body");
    api_json_init(&d.json, body, body_bytes, arena);
    if (!read_fields(&d)) return settle_error(&d);
    return api_plan_request(&d, out);
}

/* ---- After the items ran --------------------------------------------------------------------- */

void api_item_error(const api_request *r, const lam_item *item, api_error *error)
{
    const bool scaled = item->status == LAM_E_ZERO_NORM;
    const char *site = lam_site_name(item->fault_site);
    char param[64];
    const char *field = r->route == API_ROUTE_OPENAI_EMBEDDINGS ? "input" : "";
    snprintf(param, sizeof param, "%s", field);
    if (scaled) {
        api_fail(error, API_CODE_ZERO_NORM, param,
                 "item %zu: the vector has length zero and cannot be scaled", item->index);
    } else if (item->status != LAM_E_NON_FINITE) {
        api_fail(error, API_CODE_INTERNAL, param, "item %zu: %s", item->index,
                 lam_status_text(item->status));
    } else if (item->fault_layer == LAM_LAYER_NONE) {
        api_fail(error, API_CODE_NON_FINITE, param,
                 "item %zu: values stopped being finite at site %s", item->index, site);
    } else {
        api_fail(error, API_CODE_NON_FINITE, param,
                 "item %zu: values stopped being finite at layer %zu, site %s", item->index,
                 item->fault_layer, site);
    }
    error->has_index = true;
    error->index = item->index;
}

bool api_request_check(const api_request *r, api_error *error)
{
    if (r->errors_per_item) return true;
    for (size_t i = 0; i < r->item_count; i++) {
        if (r->items[i].status == LAM_OK) continue;
        api_item_error(r, &r->items[i], error);
        return false;
    }
    return true;
}

void api_truncated_header(const api_request *r, char *out, size_t out_bytes)
{
    enum { TAIL = 5 }; /* ",..." and NUL */
    size_t at = 0;
    if (out_bytes) *out = '\0';
    for (size_t i = 0; i < r->input_count; i++) {
        if (!r->info[i].truncated) continue;
        char text[24];
        const int n = snprintf(text, sizeof text, "%s%zu", at ? "," : "", i);
        if (n < 0 || at + (size_t)n + TAIL > out_bytes) {
            if (at && at + TAIL <= out_bytes) memcpy(out + at, ",...", TAIL);
            return;
        }
        memcpy(out + at, text, (size_t)n + 1);
        at += (size_t)n;
    }
}
