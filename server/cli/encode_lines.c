/* A worker of lamina encode. Every line is one request and is read as the server reads it; the
 * items of many lines run together. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"
#include "server/cli/encode.h"

typedef struct line_state {
    bool failed;
    api_request request;
    api_error error;
    size_t first_item; /* in the group's items */
} line_state;

typedef struct encode_worker {
    const cli_encoder *encoder;
    lam_ctx *ctx;
    lam_arena arena;  /* of the requests of one group */
    api_buffer body;  /* made of a text */
    api_buffer reply; /* of one line */
    line_state lines[CLI_CHUNK_LINES];
} encode_worker;

/* ---- Reading --------------------------------------------------------------------------------- */

static bool read_text(encode_worker *w, const char *text, size_t bytes, line_state *l)
{
    api_buffer *b = &w->body;
    size_t valid = 0;
    if (!lam_utf8_valid(text, bytes, &valid))
        return api_fail(&l->error, API_CODE_INVALID_UTF8, NULL,
                        "the text is not valid UTF-8 from byte %zu on", valid);
    api_buffer_clear(b);
    api_buffer_puts(b, "{\"texts\":[");
    api_buffer_json_string(b, text, bytes);
    api_buffer_puts(b, w->encoder->tail);
    if (b->failed) return api_fail(&l->error, API_CODE_OUT_OF_MEMORY, NULL, "out of memory");
    bool ok = api_request_read(w->encoder->env, API_ROUTE_ENCODE, b->data, b->size, &w->arena,
                               &l->request, &l->error);
    if (ok) return true;
    /* Its place in a body that the caller never saw. */
    l->error.param[0] = '\0';
    l->error.has_index = false;
    return false;
}

static bool read_line(encode_worker *w, const cli_chunk *c, size_t i, line_state *l)
{
    const cli_chunk_line *line = &c->lines[i];
    const char *text = c->text + line->offset;
    if (line->too_long)
        return api_fail(&l->error, API_CODE_BODY_TOO_LARGE, NULL, "the line has more than %d bytes",
                        CLI_MAX_LINE_BYTES);
    if (!w->encoder->requests) return read_text(w, line->bytes ? text : "", line->bytes, l);
    return api_request_read(w->encoder->env, API_ROUTE_ENCODE, line->bytes ? text : "", line->bytes,
                            &w->arena, &l->request, &l->error);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* Runs the items of lines [first, end) in one call. False: no memory for the list of them. */
static bool run_items(encode_worker *w, size_t first, size_t end)
{
    size_t count = 0;
    for (size_t i = first; i < end; i++)
        if (!w->lines[i].failed) count += w->lines[i].request.item_count;
    if (count == 0) return true;
    lam_item *items = malloc(count * sizeof *items);
    if (!items) return false;
    size_t at = 0;
    for (size_t i = first; i < end; i++) {
        line_state *l = &w->lines[i];
        if (l->failed) continue;
        l->first_item = at;
        memcpy(items + at, l->request.items, l->request.item_count * sizeof *items);
        at += l->request.item_count;
    }
    (void)lam_encode(w->ctx, items, count, NULL); /* nobody cancels it */
    for (size_t i = first; i < end; i++) {
        const line_state *l = &w->lines[i];
        if (!l->failed)
            memcpy(l->request.items, items + l->first_item, l->request.item_count * sizeof *items);
    }
    free(items);
    return true;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void write_text_reply(const line_state *l, uint64_t line, api_buffer *out)
{
    const api_request *r = &l->request;
    const lam_item *item = &r->items[0];
    const size_t width = r->opts.dimensions;
    api_buffer_puts(out, "{\"index\":");
    api_buffer_json_u64(out, line);
    api_buffer_puts(out, ",\"embedding\":");
    if (r->opts.pool != LAM_POOL_NONE) {
        api_buffer_json_floats(out, item->out, width);
    } else {
        for (size_t i = 0; i < item->rows; i++) {
            api_buffer_puts(out, i == 0 ? "[" : ",");
            api_buffer_json_floats(out, item->out + i * width, width);
        }
        api_buffer_puts(out, "]");
    }
    api_buffer_puts(out, ",\"tokens\":");
    api_buffer_json_u64(out, r->info[0].tokens);
    api_buffer_puts(out, r->info[0].truncated ? ",\"truncated\":true" : ",\"truncated\":false");
    if (r->stats) api_statistics_write(r, out);
    api_buffer_puts(out, "}");
}

static void write_error(const encode_worker *w, const line_state *l, uint64_t line, api_buffer *out)
{
    if (w->encoder->requests) {
        (void)api_error_write(&l->error, out);
        return;
    }
    api_buffer_puts(out, "{\"index\":");
    api_buffer_json_u64(out, line);
    api_buffer_puts(out, ",");
    size_t start = out->size;
    (void)api_error_write(&l->error, out);
    if (out->failed) return;
    /* The error's own opening brace goes. */
    memmove(out->data + start, out->data + start + 1, out->size - start - 1);
    out->size--;
}

/* Makes w->reply of a line that ran. False: l->error says why there is none. */
static bool write_reply(encode_worker *w, line_state *l, uint64_t line)
{
    api_buffer *b = &w->reply;
    api_buffer_clear(b);
    if (!api_request_check(&l->request, &l->error)) return false;
    if (w->encoder->requests)
        (void)api_reply_write(&l->request, NULL, b);
    else
        write_text_reply(l, line, b);
    if (!b->failed) return true;
    if (!b->too_large) return api_fail(&l->error, API_CODE_OUT_OF_MEMORY, NULL, "out of memory");
    return api_fail(&l->error, API_CODE_RESPONSE_TOO_LARGE, NULL,
                    "the reply has more than %zu bytes", b->max);
}

static void write_json(encode_worker *w, cli_chunk *c, size_t i)
{
    line_state *l = &w->lines[i];
    const uint64_t line = c->first_line + i;
    api_buffer *b = &w->reply;
    if (!l->failed) l->failed = !write_reply(w, l, line);
    if (l->failed) {
        api_buffer_clear(b);
        write_error(w, l, line, b);
    }
    api_buffer_put(&c->out, b->data, b->size);
    api_buffer_put(&c->out, "\n", 1);
}

static void note(cli_chunk *c, uint64_t line, const char *code, const char *message)
{
    char text[512];
    int n =
        snprintf(text, sizeof text, "lamina: line %" PRIu64 ": %s: %s\n", line + 1, code, message);
    api_buffer_put(&c->notes, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

static void put_nan_row(cli_chunk *c, size_t width)
{
    const float nan = NAN;
    for (size_t i = 0; i < width; i++)
        api_buffer_put(&c->out, (const char *)&nan, sizeof nan);
}

/* A text that failed is a row of NaN, so that row i is line i; a request that failed has no rows.
 */
static void write_rows(encode_worker *w, cli_chunk *c, size_t i)
{
    line_state *l = &w->lines[i];
    const uint64_t line = c->first_line + i;
    const size_t width = w->encoder->width;
    const api_request *r = &l->request;
    if (!l->failed && (r->opts.dimensions != width || r->opts.pool == LAM_POOL_NONE))
        l->failed = !api_fail(&l->error, API_CODE_INVALID_VALUE, NULL,
                              "the array has one row of %zu numbers for each item", width);
    if (!l->failed) l->failed = !api_request_check(r, &l->error);
    if (l->failed) {
        note(c, line, api_code_name(l->error.code), l->error.message);
        if (w->encoder->requests) return;
        put_nan_row(c, width);
        c->vectors++;
        return;
    }
    for (size_t input = 0, k = 0; input < r->input_count; input++) {
        const lam_item *item =
            k < r->item_count && r->items[k].index == input ? &r->items[k++] : NULL;
        if (item && item->status == LAM_OK)
            api_buffer_put(&c->out, (const char *)item->out, width * sizeof(float));
        else
            put_nan_row(c, width);
    }
    c->vectors += r->input_count;
}

static void count_line(const line_state *l, cli_chunk *c)
{
    if (l->failed) {
        c->failed++;
        return;
    }
    const api_request *r = &l->request;
    for (size_t i = 0; i < r->item_count; i++) {
        c->tokens += r->items[i].rows;
        c->failed += r->items[i].status != LAM_OK;
    }
    c->failed += r->input_count - r->item_count;
    for (size_t i = 0; i < r->input_count; i++)
        c->truncated += r->info[i].truncated;
}

/* Runs and writes the lines [first, end), whose memory is then given back. */
static void finish_group(encode_worker *w, cli_chunk *c, size_t first, size_t end)
{
    bool ran = run_items(w, first, end);
    for (size_t i = first; i < end; i++) {
        line_state *l = &w->lines[i];
        if (!l->failed && !ran)
            l->failed = !api_fail(&l->error, API_CODE_OUT_OF_MEMORY, NULL, "out of memory");
        if (w->encoder->npy)
            write_rows(w, c, i);
        else
            write_json(w, c, i);
        count_line(l, c);
    }
    lam_arena_reset(&w->arena);
}

static void run_chunk(void *state, cli_chunk *c)
{
    encode_worker *w = state;
    size_t first = 0;
    for (size_t i = 0; i < c->line_count; i++) {
        line_state *l = &w->lines[i];
        l->failed = !read_line(w, c, i, l);
        /* It may have failed for the memory of those before it: alone is what counts. */
        if (l->failed && i > first) {
            finish_group(w, c, first, i);
            first = i;
            l->failed = !read_line(w, c, i, l);
        }
    }
    finish_group(w, c, first, c->line_count);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void stop_worker(void *state)
{
    encode_worker *w = state;
    lam_ctx_free(w->ctx);
    lam_arena_fini(&w->arena);
    api_buffer_free(&w->body);
    api_buffer_free(&w->reply);
    free(w);
}

static void *start_worker(void *arg, lam_err *err)
{
    const cli_encoder *e = arg;
    encode_worker *w = calloc(1, sizeof *w);
    if (!w) {
        (void)lam_fail(err, LAM_E_NOMEM, "", "no memory for a worker");
        return NULL;
    }
    w->encoder = e;
    lam_arena_init(&w->arena, e->env->limits.max_request_bytes);
    api_buffer_init(&w->body, e->env->limits.max_body_bytes);
    api_buffer_init(&w->reply, e->env->limits.max_reply_bytes);
    if (lam_ctx_new(&w->ctx, e->env->models[0].model, e->max_rows, err) == LAM_OK) return w;
    stop_worker(w);
    return NULL;
}

cli_work cli_encode_work(const cli_encoder *e)
{
    return (cli_work){.chunk_lines = CLI_CHUNK_LINES,
                      .start = start_worker,
                      .run = run_chunk,
                      .stop = stop_worker,
                      .arg = (void *)e};
}

bool cli_encode_probe(const cli_encoder *e, api_error *error)
{
    api_buffer b;
    lam_arena arena;
    api_request r;
    api_buffer_init(&b, e->env->limits.max_body_bytes);
    lam_arena_init(&arena, e->env->limits.max_request_bytes);
    api_buffer_puts(&b, "{\"texts\":[\"a\"");
    api_buffer_puts(&b, e->tail);
    bool ok = b.failed
                  ? api_fail(error, API_CODE_OUT_OF_MEMORY, NULL, "out of memory")
                  : api_request_read(e->env, API_ROUTE_ENCODE, b.data, b.size, &arena, &r, error);
    lam_arena_fini(&arena);
    api_buffer_free(&b);
    return ok;
}
