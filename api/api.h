/* Bytes <-> structs: request bodies to batches, results to reply bodies, errors of each dialect.
 * No sockets, no threads, no globals. Everything of one request comes from that request's arena. */
#ifndef API_API_H
#define API_API_H

#include "api/buffer.h"
#include "api/error.h"
#include "core/lamina.h"

/* A model as requests may name it. */
typedef struct api_model {
    const char *name;
    const char *const *aliases; /* [alias_count]; aliases of text-embedding-3-small and the like */
    size_t alias_count;
    const lam_model *model;
    size_t max_input_length; /* of a text, in tokens; <= info.positions */
    int64_t created;         /* unix seconds */
} api_model;

/* What a request may ask for at most; const after start. Each is a setting of the same name. */
typedef struct api_limits {
    size_t max_body_bytes;
    size_t max_items;
    size_t max_reply_bytes;
    size_t
        max_request_bytes; /* the arena of one request: decoded items, vectors, statistics, reply */
    size_t max_batch_rows; /* rows that run together: norms on batch statistics see no more */
    uint32_t max_deadline_ms;
} api_limits;

typedef struct api_env {
    const api_model *models;
    size_t model_count;
    api_limits limits;
} api_env;

#define API_ROUTE_MAP(X)      \
    X(ENCODE, "/v1/encode")   \
    X(COMPARE, "/v1/compare") \
    X(OPENAI_EMBEDDINGS, "/v1/embeddings")

#define API_ENUM_ROW_ROUTE(name, path) API_ROUTE_##name,
typedef enum api_route { API_ROUTE_MAP(API_ENUM_ROW_ROUTE) API_ROUTE_COUNT } api_route;

/* What the reply says of an input, whether it runs or not. */
typedef struct api_item_info {
    size_t tokens; /* sent, or what the text's tokens were before truncation */
    bool truncated;
    const api_error *error; /* refused by itself (on_error: "item"): it has no lam_item; or NULL */
} api_item_info;

/* A decoded inference request, ready to run. Its items point into it: it is not copied or moved. */
typedef struct api_request {
    api_route route;
    const api_model *model;
    lam_item *items;   /* [item_count]; out, stats and opts are set: run lam_encode on any split of
                          them   (all at once if batch_dependent), in order where `stats` is not NULL.
                          `index` is that of the input and ascends */
    size_t item_count; /* inputs that run: may be 0 with on_error "item" */
    api_item_info *info; /* [input_count] */
    size_t input_count;
    size_t rows; /* sum of items' rows: the cost of the request in tokens */
    lam_encode_opts opts;
    /* /v1/compare: each item stands twice, in the second half with these, and has `states`. */
    lam_encode_opts other_opts;
    double tolerance; /* of /v1/compare */
    lam_stats *stats; /* or NULL */
    lam_stats_level level;
    size_t stats_layer_count; /* which layers the reply shows, ascending; NULL: all */
    const size_t *stats_layers;
    bool stats_no_layer_sites; /* leave out the sites of no layer */
    const bool *stats_sites;   /* [LAM_SITE_COUNT] or NULL: all */
    bool per_item;
    bool base64;
    bool errors_per_item; /* on_error: "item" */
    bool any_truncated;
    bool batch_dependent;     /* its items run in one call of lam_encode, side by side */
    uint32_t deadline_ms;     /* 0: the server's default */
    size_t reply_bound_bytes; /* more than the reply will have */
} api_request;

typedef struct api_timing {
    double queue_ms, compute_ms, total_ms;
} api_timing;

/* Reads a body (not NUL-terminated, any bytes) into *out; tokenizes texts. All memory is the
 * arena's. On failure *error is filled and nothing of *out may be used. Time is linear in the body.
 */
bool api_request_read(const api_env *env, api_route route, const char *body, size_t body_bytes,
                      lam_arena *arena, api_request *out, api_error *error);

/* Names of the fields that a route knows, in order; NULL after the last. */
const char *api_field_name(api_route route, size_t i);

/* After the items have run: false and *error if the request as a whole fails (an item failed and
 * errors are not per item). */
bool api_request_check(const api_request *r, api_error *error);

/* Writes the reply body, without "timing" if t is NULL. False: out of memory or over the reply
 * limit; then the reply is an error. */
bool api_reply_write(const api_request *r, const api_timing *t, api_buffer *out);

/* Writes `,"sites":{...},"layers":[...]` of the whole request, as in the reply of /v1/encode; only
 * if r->stats. */
void api_statistics_write(const api_request *r, api_buffer *out);

/* Value of x-lamina-truncated ("0,5"), cut to fit with a trailing ",..." where there are too many;
 * only if any_truncated. */
void api_truncated_header(const api_request *r, char *out, size_t out_bytes);

/* The body of an error on a route's dialect. */
bool api_error_write(const api_error *e, api_buffer *out);

/* GET /v1/models, /v1/models/{id} (NULL from api_model_find: 404), /info, /openapi.json. */
const api_model *api_model_find(const api_env *env, const char *name, size_t name_bytes);
bool api_models_write(const api_env *env, api_buffer *out);
bool api_model_write(const api_model *m, api_buffer *out);

/* A limit by its setting's name, for /info and for errors. */
typedef struct api_named_limit {
    const char *name;
    uint64_t value;
} api_named_limit;

typedef struct api_server_info {
    const char *version;
    const api_named_limit *limits; /* [limit_count] */
    size_t limit_count;
    size_t workers;
    const char *libraries; /* "libmicrohttpd 0.9.75, ..." */
} api_server_info;

bool api_info_write(const api_env *env, const api_server_info *s, api_buffer *out);

/* The OpenAPI document; static text. */
const char *api_openapi(size_t *bytes);

#endif
