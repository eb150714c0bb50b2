#include "tests/unit/api/exchange.h"

#include <criterion/criterion.h>
#include <stdio.h>

void exchange_init(exchange *x, bool with_tokenizer)
{
    memset(x, 0, sizeof *x);
    x->model = fixture_model(with_tokenizer);
    cr_assert_not_null(x->model, "the tiny model cannot be made");
    x->env = fixture_env(x->model, &x->named);
    cr_assert_eq(lam_ctx_new(&x->ctx, x->model, FIXTURE_ROWS, NULL), LAM_OK);
    lam_arena_init(&x->arena, x->env.limits.max_request_bytes);
}

void exchange_fini(exchange *x)
{
    lam_arena_fini(&x->arena);
    lam_ctx_free(x->ctx);
    lam_model_close(x->model);
}

json_t *exchange_run(exchange *x, api_route route, const char *body, size_t body_bytes)
{
    lam_arena_fini(&x->arena);
    lam_arena_init(&x->arena, x->env.limits.max_request_bytes);
    /* A copy of exactly that size, so that a sanitizer sees a byte read beyond it. */
    char *exact = malloc(body_bytes ? body_bytes : 1);
    memcpy(exact, body, body_bytes);
    json_t *reply = NULL;
    api_buffer out;
    api_buffer_init(&out, x->env.limits.max_reply_bytes);
    memset(&x->error, 0, sizeof x->error);
    if (api_request_read(&x->env, route, exact, body_bytes, &x->arena, &x->request, &x->error)) {
        const api_timing timing = {0.25, 1.5, 1.75};
        cr_assert_eq(lam_encode(x->ctx, x->request.items, x->request.item_count, NULL), LAM_OK);
        if (api_request_check(&x->request, &x->error)) {
            cr_assert(api_reply_write(&x->request, &timing, &out));
            json_error_t where;
            reply = json_loadb(out.data, out.size, JSON_REJECT_DUPLICATES, &where);
            cr_assert_not_null(reply, "reply is not JSON: %s: %.*s", where.text, (int)out.size,
                               out.data);
        }
    }
    api_buffer_free(&out);
    free(exact);
    return reply;
}

json_t *exchange_encode(exchange *x, const char *body)
{
    json_t *reply = exchange_run(x, API_ROUTE_ENCODE, body, strlen(body));
    cr_expect_not_null(reply, "%s is refused: %s %s: %s", body, api_code_name(x->error.code),
                       x->error.param, x->error.message);
    return reply;
}

bool exchange_refused(exchange *x, api_route route, const char *body, api_code code,
                      const char *param)
{
    json_t *reply = exchange_run(x, route, body, strlen(body));
    const bool right = !reply && x->error.code == code && strcmp(x->error.param, param) == 0;
    if (!right)
        fprintf(stderr, "%s\n    answered %s %s %s\n", body,
                reply ? "200" : api_code_name(x->error.code), x->error.param, x->error.message);
    json_decref(reply);
    return right;
}
