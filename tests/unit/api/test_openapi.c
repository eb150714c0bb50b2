/* The document must say what the code does: its closed sets are compared with the lists of the
 * code. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"

static json_t *document(void)
{
    size_t bytes;
    const char *text = api_openapi(&bytes);
    json_error_t error;
    json_t *doc = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    cr_assert_not_null(doc, "line %d: %s", error.line, error.text);
    return doc;
}

/* The value at a path of keys that NULL ends. */
static json_t *at(json_t *v, ...)
{
    va_list keys;
    va_start(keys, v);
    for (const char *key; v && (key = va_arg(keys, const char *));)
        v = json_object_get(v, key);
    va_end(keys);
    return v;
}

static void expect_names(json_t *list, const char *const *names, size_t count, const char *what)
{
    cr_expect_geq(json_array_size(list), count, "%s: %zu of %zu", what, json_array_size(list),
                  count);
    for (size_t i = 0; i < count; i++) {
        const char *found = json_string_value(json_array_get(list, i));
        cr_expect(found && strcmp(found, names[i]) == 0, "%s: %s, not %s", what, found, names[i]);
    }
}

#define NAME_ROW(id, text) text,
#define SCHEMA(doc, name)  at(doc, "components", "schemas", name, NULL)

Test(openapi, has_the_sets_of_the_code)
{
    static const char *const codes[] = {
#define CODE_ROW(id, code, status, type) code,
        API_CODE_MAP(CODE_ROW)};
    static const char *const poolings[] = {LAM_POOL_MAP(NAME_ROW)};
    static const char *const sites[] = {LAM_SITE_MAP(NAME_ROW)};
    json_t *doc = document();
    json_t *encode = at(SCHEMA(doc, "EncodeRequest"), "properties", NULL);
    json_t *error = SCHEMA(doc, "ErrorCode");
    expect_names(at(error, "enum", NULL), codes, API_CODE_COUNT, "codes");
    cr_expect_eq(json_array_size(at(error, "enum", NULL)), API_CODE_COUNT);
    expect_names(at(SCHEMA(doc, "Site"), "enum", NULL), sites, LAM_SITE_COUNT, "sites");
    cr_expect_eq(json_array_size(at(SCHEMA(doc, "Site"), "enum", NULL)), LAM_SITE_COUNT);
    json_t *pooling = at(encode, "pooling", "enum", NULL);
    expect_names(pooling, poolings, LAM_POOL_COUNT, "poolings");
    for (size_t i = 0; i < json_array_size(pooling); i++) {
        json_t *name = json_array_get(pooling, i);
        lam_pool p;
        cr_expect(lam_pool_parse(json_string_value(name), json_string_length(name), &p), "%s",
                  json_string_value(name));
    }
    static const char *const levels[] = {"none", "summary", "full"};
    expect_names(at(encode, "statistics", "enum", NULL), levels, LAM_STATS_LEVEL_COUNT,
                 "statistics");
    cr_expect_eq(json_array_size(at(encode, "statistics", "enum", NULL)), LAM_STATS_LEVEL_COUNT);
    json_decref(doc);
}

Test(openapi, has_the_statuses_and_types_of_the_codes)
{
    json_t *doc = document();
    json_t *answers = at(doc, "paths", "/v1/encode", "post", "responses", NULL);
    json_t *types = at(SCHEMA(doc, "Error"), "properties", "type", "enum", NULL);
    for (int i = 0; i < API_CODE_COUNT; i++) {
        char status[8];
        snprintf(status, sizeof status, "%d", api_code_http_status((api_code)i));
        cr_expect_not_null(json_object_get(answers, status), "%s", status);
        bool known = false;
        for (size_t t = 0; t < json_array_size(types); t++)
            known |= strcmp(json_string_value(json_array_get(types, t)),
                            api_code_type((api_code)i)) == 0;
        cr_expect(known, "%s", api_code_type((api_code)i));
    }
    json_decref(doc);
}

static void expect_fields(json_t *properties, api_route route)
{
    size_t count = 0;
    for (const char *name; (name = api_field_name(route, count)); count++)
        cr_expect_not_null(json_object_get(properties, name), "%s is not in the document", name);
    cr_expect_gt(count, 0);
    cr_expect_eq(json_object_size(properties), count, "the document has other fields");
}

Test(openapi, has_the_fields_and_routes_of_the_code)
{
    static const char *const routes[] = {
        "/v1/encode", "/v1/compare", "/v1/embeddings", "/v1/models", "/v1/models/{id}", "/livez",
        "/readyz",    "/health",     "/metrics",       "/info",      "/openapi.json"};
    json_t *doc = document();
    expect_fields(at(SCHEMA(doc, "EncodeRequest"), "properties", NULL), API_ROUTE_ENCODE);
    expect_fields(at(SCHEMA(doc, "CompareRequest"), "properties", NULL), API_ROUTE_COMPARE);
    expect_fields(at(SCHEMA(doc, "EmbeddingsRequest"), "properties", NULL),
                  API_ROUTE_OPENAI_EMBEDDINGS);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        cr_expect_not_null(at(doc, "paths", routes[i], NULL), "%s", routes[i]);
    cr_expect_eq(json_object_size(at(doc, "paths", NULL)), sizeof routes / sizeof *routes);
    json_decref(doc);
}

/* Every reference leads somewhere. */
static void expect_references(json_t *doc, json_t *v)
{
    const char *key;
    json_t *child;
    size_t i;
    json_object_foreach(v, key, child)
    {
        if (strcmp(key, "$ref") != 0) {
            expect_references(doc, child);
            continue;
        }
        char kind[32] = "", name[64] = "";
        cr_expect_eq(sscanf(json_string_value(child), "#/components/%31[^/]/%63s", kind, name), 2);
        cr_expect_not_null(at(doc, "components", kind, name, NULL), "%s", json_string_value(child));
    }
    json_array_foreach(v, i, child) expect_references(doc, child);
}

Test(openapi, is_whole)
{
    json_t *doc = document();
    expect_references(doc, doc);
    json_t *file = json_load_file("api/openapi.json", 0, NULL);
    cr_expect(!file || json_equal(file, doc), "run tools/embed-openapi");
    json_decref(file);
    json_decref(doc);
}
