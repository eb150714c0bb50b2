/* Readers of one value each, shared by the dialects. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/request.h"
#include "core/base/checked.h"

void api_place_write(api_route route, api_place at, char *out, size_t out_bytes)
{
    if (route == API_ROUTE_OPENAI_EMBEDDINGS) {
        snprintf(out, out_bytes, "%s", at.field);
    } else if (at.index[0] == API_NO_INDEX) {
        snprintf(out, out_bytes, "/%s", at.field);
    } else if (at.index[1] == API_NO_INDEX) {
        snprintf(out, out_bytes, "/%s/%zu", at.field, at.index[0]);
    } else {
        snprintf(out, out_bytes, "/%s/%zu/%zu", at.field, at.index[0], at.index[1]);
    }
}

/* OpenAI's param names the field only, so there the message starts with the indices: "input[3][17]:
 * ". */
static size_t write_prefix(const api_draft *d, api_place at, char *out, size_t out_bytes)
{
    if (d->route != API_ROUTE_OPENAI_EMBEDDINGS || at.index[0] == API_NO_INDEX) return 0;
    const int n =
        at.index[1] == API_NO_INDEX
            ? snprintf(out, out_bytes, "%s[%zu]: ", at.field, at.index[0])
            : snprintf(out, out_bytes, "%s[%zu][%zu]: ", at.field, at.index[0], at.index[1]);
    return n > 0 && (size_t)n < out_bytes ? (size_t)n : 0;
}

bool api_refuse(api_draft *d, api_code code, api_place at, const char *format, ...)
{
    char message[sizeof d->error->message];
    char param[sizeof d->error->param];
    const size_t prefix = write_prefix(d, at, message, sizeof message);
    va_list args;
    va_start(args, format);
    vsnprintf(message + prefix, sizeof message - prefix, format, args);
    va_end(args);
    api_place_write(d->route, at, param, sizeof param);
    return api_fail(d->error, code, param, "%s", message);
}

bool api_refuse_memory(api_draft *d, size_t bytes, api_code code)
{
    enum { CHUNK_HEAD = 128 }; /* what the arena adds to a request, at most */
    const lam_arena *a = d->arena;
    const size_t left = a->max_bytes - a->held_bytes;
    if (left >= CHUNK_HEAD && left - CHUNK_HEAD >= bytes)
        return api_fail(d->error, API_CODE_OUT_OF_MEMORY, NULL, "the server is out of memory");
    api_fail(d->error, code, NULL, "the request needs more memory than max_request_bytes allows");
    d->error->has_limit = true;
    d->error->limit = a->max_bytes;
    d->error->actual = bytes > SIZE_MAX - a->held_bytes ? SIZE_MAX : a->held_bytes + bytes;
    return false;
}

void *api_alloc(api_draft *d, size_t count, size_t size)
{
    size_t bytes;
    if (!lam_mul_size(count, size, &bytes)) bytes = SIZE_MAX;
    void *p = bytes == SIZE_MAX ? NULL : lam_arena_alloc(d->arena, bytes);
    if (!p) api_refuse_memory(d, bytes, API_CODE_TOO_MANY_ITEMS);
    return p;
}

void api_list_names(const char *const *names, size_t count, char *out, size_t out_bytes)
{
    size_t at = 0;
    if (out_bytes) *out = '\0';
    for (size_t i = 0; i < count && at < out_bytes; i++) {
        const int n = snprintf(out + at, out_bytes - at, "%s%s", i ? ", " : "", names[i]);
        at += n > 0 ? (size_t)n : 0;
    }
}

bool api_text_is(api_text t, const char *name)
{
    return t.size == strlen(name) && memcmp(t.data, name, t.size) == 0;
}

bool api_expect(api_draft *d, api_json_kind kind, api_place at, const char *what)
{
    const api_json_kind found = api_json_peek(&d->json);
    if (found == kind) return true;
    if (found == API_JSON_NOTHING) return false;
    return api_refuse(d, API_CODE_WRONG_TYPE, at, "this must be %s", what);
}

bool api_read_string(api_draft *d, api_place at, api_text *out)
{
    return api_expect(d, API_JSON_STRING, at, "a string") && api_json_string(&d->json, out);
}

bool api_read_bool(api_draft *d, api_place at, bool *out)
{
    return api_expect(d, API_JSON_BOOL, at, "true or false") && api_json_bool(&d->json, out);
}

bool api_read_integer(api_draft *d, api_place at, api_json_number *out)
{
    if (!api_expect(d, API_JSON_NUMBER, at, "an integer")) return false;
    if (!api_json_number_read(&d->json, out)) return false;
    if (out->kind != API_JSON_FRACTION) return true;
    return api_refuse(d, API_CODE_WRONG_TYPE, at,
                      "this must be an integer without fraction or exponent");
}

bool api_read_choice(api_draft *d, api_place at, const char *const *names, size_t count,
                     size_t *out)
{
    api_text text;
    if (!api_read_string(d, at, &text)) return false;
    for (size_t i = 0; i < count; i++) {
        if (api_text_is(text, names[i])) {
            *out = i;
            return true;
        }
    }
    char list[sizeof d->error->message];
    api_list_names(names, count, list, sizeof list);
    return api_refuse(d, API_CODE_INVALID_VALUE, at, "this must be one of: %s", list);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* Room for one more element of `size` bytes in a list of up to max_items; NULL: refused. */
static void *push(api_draft *d, api_place at, void **list, size_t *count, size_t *capacity,
                  size_t size)
{
    const size_t max = d->env->limits.max_items;
    if (*count == max) {
        api_refuse(d, API_CODE_TOO_MANY_ITEMS, at, "a request may hold at most %zu items", max);
        d->error->has_limit = true;
        d->error->limit = max;
        d->error->actual = max + 1;
        return NULL;
    }
    if (*count == *capacity) {
        size_t wanted = *capacity ? *capacity * 4 : 16;
        if (wanted > max) wanted = max;
        void *grown = api_alloc(d, wanted, size);
        if (!grown) return NULL;
        if (*count) memcpy(grown, *list, *count * size);
        *list = grown;
        *capacity = wanted;
    }
    return (char *)*list + size * (*count)++;
}

/* A list whose elements are of the wrong kind is judged by its length first: a body of a million of
 * them is a body of too many items. Reads on to count them. */
static bool refuse_element(api_draft *d, api_place at, size_t seen, const char *what)
{
    const size_t max = d->env->limits.max_items;
    size_t total = seen;
    while (total <= max && api_json_skip(&d->json)) {
        total++;
        if (!api_json_next_element(&d->json)) break;
    }
    if (d->json.fault != API_JSON_FAULT_NONE) return false;
    if (total > max) {
        api_refuse(d, API_CODE_TOO_MANY_ITEMS, api_place_field(at.field),
                   "a request may hold at most %zu items", max);
        d->error->has_limit = true;
        d->error->limit = max;
        d->error->actual = total;
        return false;
    }
    api_refuse(d, API_CODE_WRONG_TYPE, at, "this must be %s", what);
    d->error->has_index = true;
    d->error->index = seen;
    return false;
}

static bool read_text(api_draft *d, api_place at, api_text *out)
{
    if (!api_json_string(&d->json, out)) return false;
    if (!out->has_nul) return true;
    return api_refuse(d, API_CODE_INVALID_VALUE, at, "a text may not hold the character U+0000");
}

bool api_read_texts(api_draft *d, const char *field, api_texts *out)
{
    const api_place whole = api_place_field(field);
    void *list = NULL;
    size_t count = 0, capacity = 0;
    const api_json_kind kind = api_json_peek(&d->json);
    if (kind == API_JSON_STRING) {
        api_text *t = push(d, whole, &list, &count, &capacity, sizeof *t);
        if (!t || !read_text(d, whole, t)) return false;
        *out = (api_texts){field, true, 1, t};
        return true;
    }
    if (!api_expect(d, API_JSON_ARRAY, whole, "a list of texts, or one text")) return false;
    if (!api_json_enter_array(&d->json)) return false;
    while (api_json_next_element(&d->json)) {
        const api_place at = api_place_at(field, count);
        const api_json_kind element = api_json_peek(&d->json);
        if (element == API_JSON_NOTHING) return false;
        if (element != API_JSON_STRING) return refuse_element(d, at, count, "a text");
        api_text *t = push(d, whole, &list, &count, &capacity, sizeof *t);
        if (!t || !read_text(d, at, t)) return false;
    }
    *out = (api_texts){field, false, count, list};
    return d->json.fault == API_JSON_FAULT_NONE;
}

bool api_refuse_range(api_draft *d, api_place at)
{
    if (strcmp(at.field, "attention_mask") == 0)
        return api_refuse(d, API_CODE_INVALID_MASK, at, "this must be 0 or 1");
    if (strcmp(at.field, "token_type_ids") == 0)
        return api_refuse(d, API_CODE_TYPE_OUT_OF_RANGE, at,
                          "this is outside the model's range of token types");
    /* LangChain tokenizes with OpenAI's vocabulary unless told not to. */
    const bool openai = d->route == API_ROUTE_OPENAI_EMBEDDINGS;
    return api_refuse(
        d, API_CODE_TOKEN_OUT_OF_RANGE, at, "this token id is outside the model's vocabulary%s",
        openai ? "; if a client library tokenized for another model, let it send texts "
                 "(LangChain: check_embedding_ctx_length=False)"
               : "");
}

static bool refuse_number(api_draft *d, api_json_list_problem problem, api_place at)
{
    switch (problem) {
    case API_JSON_LIST_FAULT:
        return false;
    case API_JSON_LIST_RANGE:
        return api_refuse_range(d, at);
    case API_JSON_LIST_NOT_INTEGER:
        return api_refuse(d, API_CODE_WRONG_TYPE, at,
                          "this must be an integer without fraction or exponent");
    case API_JSON_LIST_OK:
    case API_JSON_LIST_NOT_NUMBER:
        break;
    }
    return api_refuse(d, API_CODE_WRONG_TYPE, at, "this must be an integer");
}

/* One list of numbers whose '[' was entered. `row` is its index, or API_NO_INDEX for a flat list.
 */
static bool read_row(api_draft *d, const char *field, size_t row, bool flags, api_row *out)
{
    const size_t bound = api_json_list_bound(&d->json);
    void *memory = api_alloc(d, bound, flags ? sizeof(uint8_t) : sizeof(int32_t));
    if (!memory) return false;
    api_json_list_problem problem;
    if (flags) {
        out->flags = memory;
        problem = api_json_flags(&d->json, out->flags, &out->count);
    } else {
        out->numbers = memory;
        problem = api_json_int32s(&d->json, out->numbers, &out->count);
    }
    if (problem == API_JSON_LIST_OK) return true;
    const bool flat = row == API_NO_INDEX;
    refuse_number(d, problem,
                  flat ? api_place_at(field, out->count) : (api_place){field, {row, out->count}});
    d->error->has_index = true;
    d->error->index = flat ? 0 : row;
    return false;
}

bool api_read_rows(api_draft *d, const char *field, bool flags, api_rows *out)
{
    const api_place whole = api_place_field(field);
    void *list = NULL;
    size_t count = 0, capacity = 0;
    if (!api_expect(d, API_JSON_ARRAY, whole, "a list of lists of integers, or one list"))
        return false;
    const bool flat = api_json_peek_inside(&d->json) == API_JSON_NUMBER;
    if (!api_json_enter_array(&d->json)) return false;
    if (flat) {
        api_row *row = push(d, whole, &list, &count, &capacity, sizeof *row);
        if (!row || !read_row(d, field, API_NO_INDEX, flags, row)) return false;
        *out = (api_rows){field, true, 1, row};
        return true;
    }
    while (api_json_next_element(&d->json)) {
        const api_json_kind kind = api_json_peek(&d->json);
        if (kind == API_JSON_NOTHING) return false;
        const api_place at = api_place_at(field, count);
        if (kind != API_JSON_ARRAY) return refuse_element(d, at, count, "a list of integers");
        api_row *row = push(d, whole, &list, &count, &capacity, sizeof *row);
        if (!row || !api_json_enter_array(&d->json)) return false;
        if (!read_row(d, field, count - 1, flags, row)) return false;
    }
    *out = (api_rows){field, false, count, list};
    return d->json.fault == API_JSON_FAULT_NONE;
}
