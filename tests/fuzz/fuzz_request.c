/* Request bodies. The first byte chooses the route and tight or wide limits; the rest is the body.
 * A request that is read must be answered with JSON, a refusal with a code and a sentence. */
#include "api/json_reader.h"
#include "tests/unit/api/fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) abort();
}

static void judge_json(const api_buffer *b)
{
    api_json_fault fault;
    size_t offset;
    require(api_json_validate(b->data, b->size, &fault, &offset));
}

static void run(const api_env *env, lam_ctx *ctx, api_route route, const char *body, size_t size)
{
    static const api_timing timing = {0.5, 0.5, 1.0};
    lam_arena arena;
    api_request request;
    api_error error;
    api_buffer reply;
    lam_arena_init(&arena, env->limits.max_request_bytes);
    api_buffer_init(&reply, env->limits.max_reply_bytes);
    if (api_request_read(env, route, body, size, &arena, &request, &error)) {
        const size_t sides = route == API_ROUTE_COMPARE ? 2 : 1;
        require(request.item_count <= sides * request.input_count &&
                request.input_count <= env->limits.max_items);
        require(lam_encode(ctx, request.items, request.item_count, NULL) == LAM_OK);
        if (api_request_check(&request, &error)) {
            require(api_reply_write(&request, &timing, &reply));
            judge_json(&reply);
        }
    } else {
        require(error.message[0] != '\0');
        api_buffer_init(&reply, 4096);
        require(api_error_write(&error, &reply));
        judge_json(&reply);
    }
    api_buffer_free(&reply);
    lam_arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static lam_model *model;
    static lam_ctx *ctx;
    static api_model named;
    if (!model) {
        model = fixture_model(true);
        require(model && lam_ctx_new(&ctx, model, FIXTURE_ROWS, NULL) == LAM_OK);
    }
    if (size == 0) return 0;
    api_env env = fixture_env(model, &named);
    if (data[0] & 2) {
        env.limits.max_reply_bytes = 4096;
        env.limits.max_request_bytes = 16384;
    }
    const api_route other = data[0] & 4 ? API_ROUTE_COMPARE : API_ROUTE_ENCODE;
    run(&env, ctx, data[0] & 1 ? API_ROUTE_OPENAI_EMBEDDINGS : other, (const char *)data + 1,
        size - 1);
    return 0;
}
