/* Shared by the files that read requests; not for server/.
 *
 * Two steps: the fields of a body are read into a draft, in whatever order they stand (a dialect
 * has one list of fields and one function a field); then api_plan_request turns the draft, which by
 * now knows its model, into an api_request. */
#ifndef API_REQUEST_H
#define API_REQUEST_H

#include "api/api.h"
#include "api/json_reader.h"

/* Lists of integers as they were sent: ids, types (int32) or mask (bytes). One flat list is one
 * row. */
typedef struct api_row {
    union {
        int32_t *numbers;
        uint8_t *flags;
    };
    size_t count;
} api_row;

typedef struct api_rows {
    const char *field; /* its name in the request; NULL: not sent */
    bool flat;
    size_t count;
    api_row *rows; /* [count] */
} api_rows;

typedef struct api_texts {
    const char *field; /* NULL: not sent */
    bool single;       /* one string, not a list */
    size_t count;
    api_text *texts; /* [count] */
} api_texts;

typedef enum api_truncate { API_TRUNCATE_NO, API_TRUNCATE_RIGHT, API_TRUNCATE_LEFT } api_truncate;

typedef struct api_draft {
    const api_env *env;
    api_route route;
    lam_arena *arena;
    api_error *error;
    api_json json;
    api_rows tokens, mask, types;
    api_texts texts;
    api_text model, prompt_name, prompt; /* data NULL: not sent */
    bool pool_given, normalize_given, dimensions_given, output_layer_given;
    lam_pool pool;
    bool normalize;
    api_json_number dimensions, output_layer;
    bool base64, per_item, plain_text, errors_per_item;
    lam_stats_level level;
    lam_norm_source norm_source; /* NONE: not sent */
    lam_norm_source with_source; /* /v1/compare: of the other side; the same */
    api_json_number digits;
    bool digits_given;
    bool layers_given;
    size_t layer_count;
    size_t *layers; /* [layer_count], as sent */
    bool sites_given;
    bool sites[LAM_SITE_COUNT];
    api_truncate truncate;
    uint32_t deadline_ms;
} api_draft;

/* A field of a dialect: reads exactly one value. False: d->error or d->json.fault says why. */
typedef struct api_field {
    const char *name;
    bool (*read)(api_draft *d, const char *name);
} api_field;

/* The fields of a route, in the order of the documentation. */
const api_field *api_fields_encode(size_t *count);
const api_field *api_fields_compare(size_t *count);
const api_field *api_fields_openai(size_t *count);

/* What an item that failed in the engine is told. */
void api_item_error(const api_request *r, const lam_item *item, api_error *error);

/* /v1/compare: the options of the other side; each item once more with them, and room for the
 * hidden states of both (api/compare_request.c). */
bool api_plan_other(api_draft *d, api_request *out);
bool api_plan_pairs(api_draft *d, api_request *out);

/* Draft to request. False: d->error is set. */
bool api_plan_request(api_draft *d, api_request *out);

/* ---- Places ---------------------------------------------------------------------------------- */

/* Layers that a request may name, at most: those of the deepest model there can be. */
enum { API_MAX_LAYERS = 256 };

/* A place in the request: a field, and indices inside it or API_NO_INDEX. */
enum { API_MAX_INDICES = 2 };
#define API_NO_INDEX SIZE_MAX

typedef struct api_place {
    const char *field;
    size_t index[API_MAX_INDICES];
} api_place;

static inline api_place api_place_field(const char *field)
{
    return (api_place){field, {API_NO_INDEX, API_NO_INDEX}};
}

static inline api_place api_place_at(const char *field, size_t i)
{
    return (api_place){field, {i, API_NO_INDEX}};
}

/* The place as this route writes it: "/tokens/3/17", or "input" on OpenAI's. */
void api_place_write(api_route route, api_place at, char *out, size_t out_bytes);

/* Fills d->error and returns false. */
bool api_refuse(api_draft *d, api_code code, api_place at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Refuses a number that no id, type or flag of this field can be. */
bool api_refuse_range(api_draft *d, api_place at);

/* ---- Readers of one value, shared by the dialects ---------------------------------------------
 */

/* What `kind` must be next; else wrong_type, naming the place. */
bool api_expect(api_draft *d, api_json_kind kind, api_place at, const char *what);

bool api_read_string(api_draft *d, api_place at, api_text *out);
bool api_read_bool(api_draft *d, api_place at, bool *out);
bool api_read_integer(api_draft *d, api_place at, api_json_number *out);

/* Strings without U+0000: one, or a list of them. */
bool api_read_texts(api_draft *d, const char *field, api_texts *out);

/* Lists of integers, or one flat list. `flags`: only 0 and 1. */
bool api_read_rows(api_draft *d, const char *field, bool flags, api_rows *out);

/* Index of a string in a list of names; false: invalid_value, and the message lists the names. */
bool api_read_choice(api_draft *d, api_place at, const char *const *names, size_t count,
                     size_t *out);

bool api_text_is(api_text t, const char *name);

/* Refuses for memory: the request's own limit is the client's fault (`code`), the machine's is
 * ours. */
bool api_refuse_memory(api_draft *d, size_t bytes, api_code code);

/* NULL after api_refuse_memory(API_CODE_TOO_MANY_ITEMS). */
void *api_alloc(api_draft *d, size_t count, size_t size);

/* Writes "a, b, c" for messages. */
void api_list_names(const char *const *names, size_t count, char *out, size_t out_bytes);

#endif
