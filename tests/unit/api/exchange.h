/* Drives one request through api/ and the engine, as a worker of the server does. */
#ifndef TESTS_UNIT_API_EXCHANGE_H
#define TESTS_UNIT_API_EXCHANGE_H

#include <jansson.h>

#include "tests/unit/api/fixture.h"

typedef struct exchange {
    lam_model *model;
    api_model named;
    api_env env;
    lam_ctx *ctx;
    lam_arena arena;
    api_request request;
    api_error error;
} exchange;

void exchange_init(exchange *x, bool with_tokenizer);
void exchange_fini(exchange *x);

/* Reads, runs and answers; the parsed reply, or NULL with x->error. The caller decrefs it. */
json_t *exchange_run(exchange *x, api_route route, const char *body, size_t body_bytes);

/* The same for a string, on POST /v1/encode. */
json_t *exchange_encode(exchange *x, const char *body);

/* Whether the body is refused so; says on stderr what happened instead. */
bool exchange_refused(exchange *x, api_route route, const char *body, api_code code,
                      const char *param);

#endif
