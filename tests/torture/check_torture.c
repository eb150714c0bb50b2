/* Allocation torture: the n-th allocation fails, for every n, in start-up and in each kind of
 * request; once alone, once with all after it. Each time: the right status, nothing crashes,
 * nothing leaks (both are for the build with ASan to see), and whatever succeeds has the bytes of
 * an undisturbed run. At the end: no allocation at all inside lam_encode.
 *
 * Linked with -Wl,--wrap, which catches the calls of our own code. The allocations of jansson
 * itself are left alone: version 2.14 writes out of bounds after one that failed (a growing object
 * keeps the order it did not get memory for); it reads files at start and never a request. MODEL
 * (argument, or LAMINA_TORTURE_MODEL) is a directory with a tokenizer. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "core/import/import.h"

/* ---- The door ----------------------------------------------------------------------------------
 */

// NOLINTBEGIN(bugprone-reserved-identifier): the names are those that the linker asks for
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t bytes);

static struct {
    bool armed;
    bool from_then_on;
    size_t fail_at; /* 1 is the next allocation */
    size_t count;   /* since it was armed */
    size_t failed;
} door;

static bool passes(void)
{
    if (!door.armed) return true;
    door.count++;
    if (door.count < door.fail_at) return true;
    if (door.count > door.fail_at && !door.from_then_on) return true;
    door.failed++;
    return false;
}

void *__wrap_malloc(size_t bytes)
{
    return passes() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return passes() ? __real_calloc(count, size) : NULL;
}

void *__wrap_realloc(void *p, size_t bytes)
{
    return passes() ? __real_realloc(p, bytes) : NULL;
}

// NOLINTEND(bugprone-reserved-identifier)

static void arm(size_t fail_at, bool from_then_on)
{
    door.armed = true;
    door.from_then_on = from_then_on;
    door.fail_at = fail_at;
    door.count = door.failed = 0;
}

static void disarm(void)
{
    door.armed = false;
}

/* ---- Counting ----------------------------------------------------------------------------------
 */

static size_t passed, failed;

static bool check(bool ok, const char *what, size_t n, bool from_then_on, const char *why)
{
    if (ok) {
        passed++;
    } else {
        failed++;
        printf("FAILED %s, allocation %zu%s: %s\n", what, n,
               from_then_on ? " and all after it" : "", why);
    }
    return ok;
}

/* ---- Start-up ----------------------------------------------------------------------------------
 */

static void torture_open(const char *path, bool from_then_on)
{
    size_t n = 1;
    for (;; n++) {
        lam_open_opts opts = lam_open_opts_default();
        lam_model *model = NULL;
        lam_err err = {0};
        arm(n, from_then_on);
        lam_status status = lam_import_model(&model, path, &opts, &err);
        disarm();
        if (door.failed == 0) {
            check(status == LAM_OK, "start-up", n, from_then_on, err.message);
            lam_model_close(model);
            break;
        }
        if (status == LAM_OK) {
            /* Memory that only makes things faster may be done without. */
            check(lam_model_get_info(model)->width > 0, "start-up", n, from_then_on, "no model");
            lam_model_close(model);
        } else {
            check(status == LAM_E_NOMEM, "start-up", n, from_then_on, lam_status_text(status));
            check(model == NULL, "start-up", n, from_then_on, "a model beside an error");
        }
    }
    printf("start-up%s: %zu allocations\n", from_then_on ? ", from then on" : "", n - 1);
}

static void torture_context(const lam_model *model)
{
    size_t n = 1;
    for (;; n++) {
        lam_ctx *ctx = NULL;
        lam_err err = {0};
        arm(n, false);
        lam_status status = lam_ctx_new(&ctx, model, 512, &err);
        disarm();
        lam_ctx_free(ctx);
        if (door.failed == 0) break;
        check(status == LAM_E_NOMEM && ctx == NULL, "context", n, false, lam_status_text(status));
    }
    printf("context: %zu allocations\n", n - 1);
}

/* ---- Requests ----------------------------------------------------------------------------------
 */

typedef struct trial {
    const char *name;
    api_route route;
    const char *body;
} trial;

static const trial trials[] = {
    {"tokens", API_ROUTE_ENCODE, "{\"tokens\":[[1,2,3],[4],[5,6,7,8,9,1,2,3,4]]}"},
    {"texts", API_ROUTE_ENCODE,
     "{\"texts\":[\"a text of some words\",\"\xc3\xa4h\",\"b\"],\"truncate\":true}"},
    {"base64", API_ROUTE_ENCODE,
     "{\"tokens\":[[1,2,3]],\"encoding_format\":\"base64\",\"dimensions\":8}"},
    {"rows", API_ROUTE_ENCODE, "{\"tokens\":[[1,2,3],[4,5]],\"pooling\":\"none\"}"},
    {"mask", API_ROUTE_ENCODE,
     "{\"tokens\":[[1,2,3]],\"attention_mask\":[[1,0,1]],\"token_type_ids\":[[0,0,1]],\"user\":"
     "\"me\"}"},
    {"statistics", API_ROUTE_ENCODE,
     "{\"tokens\":[[1,2,3],[4,5]],\"statistics\":\"summary\",\"per_item\":true,\"layers\":[0],"
     "\"sites\":[\"final\",\"ffn_norm\"]}"},
    {"item errors", API_ROUTE_ENCODE,
     "{\"tokens\":[[1,2,3],[99999999],[4]],\"on_error\":\"item\"}"},
    {"refused", API_ROUTE_ENCODE, "{\"tokens\":[[1,2,3],[99999999]]}"},
    {"no JSON", API_ROUTE_ENCODE, "{\"tokens\":[[1,2,3],[4"},
    {"OpenAI tokens", API_ROUTE_OPENAI_EMBEDDINGS,
     "{\"input\":[[1,2,3],[4,5]],\"x\":{\"a\":[1,\"\\u00e4\"]}}"},
    {"OpenAI texts", API_ROUTE_OPENAI_EMBEDDINGS,
     "{\"input\":[\"a text\",\"b\"],\"encoding_format\":\"base64\"}"},
};

typedef struct answer {
    api_buffer body;
    int status; /* HTTP */
    size_t allocations_inside_encode;
} answer;

static void write_error(const api_error *error, answer *a)
{
    a->status = api_code_http_status(error->code);
    api_buffer_clear(&a->body);
    api_error_write(error, &a->body);
}

/* A request as a worker runs it. */
static void run(const api_env *env, lam_ctx *ctx, const trial *t, answer *a)
{
    static const api_timing no_time = {0};
    lam_arena arena;
    api_request request;
    api_error error = {0};
    lam_arena_init(&arena, env->limits.max_request_bytes);
    api_buffer_init(&a->body, env->limits.max_reply_bytes);
    if (!api_request_read(env, t->route, t->body, strlen(t->body), &arena, &request, &error)) {
        write_error(&error, a);
        lam_arena_fini(&arena);
        return;
    }
    size_t before = door.count;
    lam_encode(ctx, request.items, request.item_count, NULL);
    a->allocations_inside_encode = door.count - before;
    if (!api_request_check(&request, &error)) {
        write_error(&error, a);
    } else if (api_reply_write(&request, &no_time, &a->body)) {
        a->status = 200;
    } else {
        api_fail(&error, a->body.too_large ? API_CODE_RESPONSE_TOO_LARGE : API_CODE_OUT_OF_MEMORY,
                 NULL, "no memory for the reply");
        a->body.failed = false;
        write_error(&error, a);
    }
    lam_arena_fini(&arena);
}

static bool same_answer(const answer *a, const answer *b)
{
    return a->status == b->status && a->body.size == b->body.size &&
           (a->body.size == 0 || memcmp(a->body.data, b->body.data, a->body.size) == 0);
}

static void torture_request(const api_env *env, lam_ctx *ctx, const trial *t, bool from_then_on)
{
    answer undisturbed = {0};
    run(env, ctx, t, &undisturbed); /* warms up what the C library keeps */
    api_buffer_free(&undisturbed.body);
    run(env, ctx, t, &undisturbed);
    size_t n = 1;
    for (;; n++) {
        answer a = {0};
        arm(n, from_then_on);
        run(env, ctx, t, &a);
        disarm();
        bool done = door.failed == 0;
        if (done) {
            check(same_answer(&a, &undisturbed), t->name, n, from_then_on,
                  "another answer than without torture");
        } else {
            /* An error whose body found no memory keeps its status. */
            const bool bare = a.status == undisturbed.status && a.status >= 400 && a.body.size == 0;
            check(a.status == 503 || bare || same_answer(&a, &undisturbed), t->name, n,
                  from_then_on, "neither 503 nor the right answer");
        }
        check(a.allocations_inside_encode == 0, t->name, n, from_then_on,
              "allocates inside lam_encode");
        api_buffer_free(&a.body);
        if (done) break;
    }
    printf("%s%s: %zu allocations, answer %d\n", t->name, from_then_on ? ", from then on" : "",
           n - 1, undisturbed.status);
    api_buffer_free(&undisturbed.body);
}

static void torture_requests(const char *path)
{
    lam_open_opts opts = lam_open_opts_default();
    lam_model *model = NULL;
    lam_ctx *ctx = NULL;
    lam_err err = {0};
    if (lam_import_model(&model, path, &opts, &err) != LAM_OK ||
        lam_ctx_new(&ctx, model, 512, &err) != LAM_OK) {
        check(false, path, 0, false, err.message);
        lam_model_close(model);
        return;
    }
    const lam_model_info *info = lam_model_get_info(model);
    api_model named = {
        .name = info->name, .model = model, .max_input_length = info->max_input_length};
    api_env env = {.models = &named,
                   .model_count = 1,
                   .limits = {.max_body_bytes = 1 << 20,
                              .max_items = 2048,
                              .max_reply_bytes = 1 << 24,
                              .max_request_bytes = 1 << 26,
                              .max_deadline_ms = 3600000}};
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        torture_request(&env, ctx, &trials[i], false);
        torture_request(&env, ctx, &trials[i], true);
    }
    torture_context(model);
    lam_ctx_free(ctx);
    lam_model_close(model);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : getenv("LAMINA_TORTURE_MODEL");
    if (path == NULL) path = "tests/data/models/families/st-mean-prompts-new";
    torture_requests(path);
    torture_open(path, false);
    torture_open(path, true);
    printf("%zu passed, %zu failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
