/* POST /v1/embeddings: the fields of OpenAI's request. What it does not know it skips: its SDKs let
 * callers add fields of their own. */
#include "api/request.h"

static bool read_model(api_draft *d, const char *name)
{
    return api_read_string(d, api_place_field(name), &d->model);
}

static bool read_input(api_draft *d, const char *name)
{
    const api_json_kind kind = api_json_peek(&d->json);
    if (kind == API_JSON_NOTHING) return false;
    const api_json_kind inside = api_json_peek_inside(&d->json);
    if (kind == API_JSON_ARRAY && (inside == API_JSON_NUMBER || inside == API_JSON_ARRAY))
        return api_read_rows(d, name, false, &d->tokens);
    if (kind == API_JSON_ARRAY || kind == API_JSON_STRING)
        return api_read_texts(d, name, &d->texts);
    return api_refuse(
        d, API_CODE_WRONG_TYPE, api_place_field(name),
        "this must be a text, a list of texts, a list of token ids or a list of such lists");
}

static bool read_encoding_format(api_draft *d, const char *name)
{
    static const char *const formats[] = {"float", "base64"};
    size_t which;
    if (!api_read_choice(d, api_place_field(name), formats, 2, &which)) return false;
    d->base64 = which == 1;
    return true;
}

static bool read_dimensions(api_draft *d, const char *name)
{
    d->dimensions_given = true;
    return api_read_integer(d, api_place_field(name), &d->dimensions);
}

static bool read_user(api_draft *d, const char *name)
{
    api_text ignored;
    return api_read_string(d, api_place_field(name), &ignored);
}

const api_field *api_fields_openai(size_t *count)
{
    static const api_field fields[] = {
        {"input", read_input},
        {"model", read_model},
        {"encoding_format", read_encoding_format},
        {"dimensions", read_dimensions},
        {"user", read_user},
    };
    *count = sizeof fields / sizeof *fields;
    return fields;
}
