#include "server/cli/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"
#include "server/cli/stream.h"

enum { MAX_INPUTS = 1 << 20 };
#define MAX_BODY_BYTES    ((size_t)1 << 30)
#define MAX_REQUEST_BYTES ((size_t)16 << 30)

static void prepare(cli_inputs *in, const lam_model *m)
{
    const lam_model_info *info = lam_model_get_info(m);
    *in = (cli_inputs){
        .model = {.name = info->name, .model = m, .max_input_length = info->max_input_length},
        .env = {.model_count = 1,
                .limits = {.max_body_bytes = MAX_BODY_BYTES,
                           .max_items = MAX_INPUTS,
                           .max_reply_bytes = SIZE_MAX / 2,
                           .max_request_bytes = MAX_REQUEST_BYTES,
                           .max_batch_rows = SIZE_MAX,
                           .max_deadline_ms = 1}}};
    in->env.models = &in->model;
    lam_arena_init(&in->arena, MAX_REQUEST_BYTES);
}

void cli_inputs_free(cli_inputs *in)
{
    lam_arena_fini(&in->arena);
    free(in->lines);
    *in = (cli_inputs){0};
}

/* The first character that is no space; NUL if there is none. */
static char first_mark(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] != ' ' && s[i] != '\t') return s[i];
    return '\0';
}

static lam_status note_line(cli_inputs *in, const char *where, size_t line, lam_err *err)
{
    if (in->line_count == in->line_capacity) {
        const size_t wider = 2 * in->line_capacity + 64;
        size_t *moved = realloc(in->lines, wider * sizeof *moved);
        if (!moved) return lam_fail(err, LAM_E_NOMEM, where, "out of memory");
        in->lines = moved;
        in->line_capacity = wider;
    }
    in->lines[in->line_count++] = line;
    return LAM_OK;
}

/* One element of the list in the body. */
static lam_status put_line(cli_inputs *in, api_buffer *b, const char *where, size_t line,
                           const char *s, size_t n, bool tokens, lam_err *err)
{
    size_t valid;
    char at[300];
    (void)snprintf(at, sizeof at, "%s: line %zu", where, line);
    if (!lam_utf8_valid(s, n, &valid))
        return lam_fail(err, LAM_E_UTF8, at, "is not valid UTF-8 from byte %zu on", valid);
    if (tokens && first_mark(s, n) != '[')
        return lam_fail(err, LAM_E_INPUT, at, "is no list of token ids, as the first line is");
    if (in->line_count > 0) api_buffer_put(b, ",", 1);
    LAM_TRY(note_line(in, where, line, err));
    if (tokens)
        api_buffer_put(b, s, n);
    else
        api_buffer_json_string(b, s, n);
    return LAM_OK;
}

static lam_status read_body(cli_inputs *in, const api_buffer *b, const char *where, lam_err *err)
{
    api_error e;
    if (b->failed) return lam_fail(err, LAM_E_NOMEM, where, "is too large to be read at once");
    if (in->line_count == 0) return lam_fail(err, LAM_E_INPUT, where, "holds no line to read");
    if (api_request_read(&in->env, API_ROUTE_ENCODE, b->data, b->size, &in->arena, &in->request,
                         &e))
        return LAM_OK;
    char at[300];
    if (e.has_index && e.index < in->line_count)
        (void)snprintf(at, sizeof at, "%s: line %zu", where, in->lines[e.index]);
    else
        (void)snprintf(at, sizeof at, "%s", where);
    return lam_fail(err, LAM_E_INPUT, at, "%s", e.message);
}

static lam_status put_lines(cli_inputs *in, cli_input *file, api_buffer *b, lam_err *err)
{
    bool tokens = false;
    for (size_t line = 1;; line++) {
        const char *s = "";
        size_t n = 0;
        const cli_line kind = cli_input_next(file, true, &s, &n);
        if (kind == CLI_LINE_END) break;
        if (kind != CLI_LINE_OK)
            return lam_fail(err, LAM_E_LIMIT, file->name, "line %zu has more than %d bytes", line,
                            CLI_MAX_LINE_BYTES);
        if (first_mark(s, n) == '\0') continue;
        if (in->line_count == 0) {
            tokens = first_mark(s, n) == '[';
            api_buffer_puts(b, tokens ? "{\"tokens\":[" : "{\"truncate\":\"right\",\"texts\":[");
        }
        LAM_TRY(put_line(in, b, file->name, line, s, n, tokens, err));
    }
    api_buffer_puts(b, "]}");
    if (file->error) return lam_fail(err, LAM_E_FILE, file->name, "%s", strerror(file->error));
    return LAM_OK;
}

lam_status cli_inputs_read(cli_inputs *in, const lam_model *m, const char *path, lam_err *err)
{
    cli_input file;
    api_buffer b;
    prepare(in, m);
    LAM_TRY(cli_input_open(&file, path, err));
    api_buffer_init(&b, MAX_BODY_BYTES);
    lam_status s = put_lines(in, &file, &b, err);
    if (s == LAM_OK) s = read_body(in, &b, file.name, err);
    api_buffer_free(&b);
    cli_input_close(&file);
    return s;
}

lam_status cli_inputs_text(cli_inputs *in, const lam_model *m, const char *text, const char *where,
                           lam_err *err)
{
    api_buffer b;
    prepare(in, m);
    api_buffer_init(&b, MAX_BODY_BYTES);
    api_buffer_puts(&b, "{\"truncate\":\"right\",\"texts\":[");
    lam_status s = put_line(in, &b, where, 1, text, strlen(text), false, err);
    api_buffer_puts(&b, "]}");
    if (s == LAM_OK) s = read_body(in, &b, where, err);
    api_buffer_free(&b);
    return s;
}
