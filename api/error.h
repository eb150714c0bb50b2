/* The closed list of error codes: code, HTTP status, and the OpenAI type that goes with it. */
#ifndef API_ERROR_H
#define API_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

/* X(name, code, HTTP status, type) */
#define API_CODE_MAP(X)                                                           \
    X(INVALID_HTTP, "invalid_http", 400, "invalid_request_error")                 \
    X(EMPTY_BODY, "empty_body", 400, "invalid_request_error")                     \
    X(INVALID_JSON, "invalid_json", 400, "invalid_request_error")                 \
    X(INVALID_UTF8, "invalid_utf8", 400, "invalid_request_error")                 \
    X(NOT_OBJECT, "not_object", 400, "invalid_request_error")                     \
    X(TOO_DEEP, "too_deep", 400, "invalid_request_error")                         \
    X(DUPLICATE_KEY, "duplicate_key", 400, "invalid_request_error")               \
    X(UNKNOWN_FIELD, "unknown_field", 400, "invalid_request_error")               \
    X(MISSING_FIELD, "missing_field", 400, "invalid_request_error")               \
    X(CONFLICTING_FIELDS, "conflicting_fields", 400, "invalid_request_error")     \
    X(WRONG_TYPE, "wrong_type", 400, "invalid_request_error")                     \
    X(INVALID_VALUE, "invalid_value", 400, "invalid_request_error")               \
    X(OUT_OF_RANGE, "out_of_range", 400, "invalid_request_error")                 \
    X(EMPTY_INPUT, "empty_input", 400, "invalid_request_error")                   \
    X(TOKEN_OUT_OF_RANGE, "token_out_of_range", 400, "invalid_request_error")     \
    X(TYPE_OUT_OF_RANGE, "token_type_out_of_range", 400, "invalid_request_error") \
    X(INVALID_MASK, "invalid_mask", 400, "invalid_request_error")                 \
    X(CONTEXT_LENGTH, "context_length_exceeded", 400, "invalid_request_error")    \
    X(TOO_MANY_ITEMS, "too_many_items", 400, "invalid_request_error")             \
    X(RESPONSE_TOO_LARGE, "response_too_large", 400, "invalid_request_error")     \
    X(NO_TOKENIZER, "no_tokenizer", 400, "invalid_request_error")                 \
    X(UNSUPPORTED, "unsupported", 400, "invalid_request_error")                   \
    X(INVALID_API_KEY, "invalid_api_key", 401, "authentication_error")            \
    X(HOST_NOT_ALLOWED, "host_not_allowed", 403, "permission_error")              \
    X(ROUTE_NOT_FOUND, "route_not_found", 404, "invalid_request_error")           \
    X(MODEL_NOT_FOUND, "model_not_found", 404, "invalid_request_error")           \
    X(METHOD_NOT_ALLOWED, "method_not_allowed", 405, "invalid_request_error")     \
    X(REQUEST_TIMEOUT, "request_timeout", 408, "invalid_request_error")           \
    X(BODY_TOO_LARGE, "body_too_large", 413, "invalid_request_error")             \
    X(MEDIA_TYPE, "unsupported_media_type", 415, "invalid_request_error")         \
    X(EXPECTATION, "expectation_failed", 417, "invalid_request_error")            \
    X(HEADERS_TOO_LARGE, "headers_too_large", 431, "invalid_request_error")       \
    X(OVERLOADED, "overloaded", 429, "rate_limit_error")                          \
    X(NON_FINITE, "non_finite", 500, "server_error")                              \
    X(ZERO_NORM, "zero_norm", 500, "server_error")                                \
    X(OUT_OF_MEMORY, "out_of_memory", 503, "server_error")                        \
    X(INTERNAL, "internal", 500, "server_error")                                  \
    X(METHOD_UNKNOWN, "method_unknown", 501, "invalid_request_error")             \
    X(SHUTTING_DOWN, "shutting_down", 503, "server_error")                        \
    X(DEADLINE, "deadline_exceeded", 504, "server_error")                         \
    X(HTTP_VERSION, "http_version", 505, "invalid_request_error")

#define API_ENUM_ROW_CODE(name, code, status, type) API_CODE_##name,
typedef enum api_code { API_CODE_MAP(API_ENUM_ROW_CODE) API_CODE_COUNT } api_code;

const char *api_code_name(api_code c);
int api_code_http_status(api_code c);
const char *api_code_type(api_code c);

/* Messages never hold bytes of the input. */
typedef struct api_error {
    api_code code;
    char message[256];
    char param[128]; /* JSON pointer on our route, field name on OpenAI's; "" for none */
    bool has_index, has_limit;
    uint64_t index; /* item to blame */
    uint64_t limit, actual;
} api_error;

/* Fills *e and returns false, so that a reader can `return api_fail(...)`. param may be NULL. */
bool api_fail(api_error *e, api_code code, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The code for a core status; one switch without default. */
api_code api_code_of_status(lam_status s);

#endif
