#include "server/cli/calibrate_texts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/utf8.h"
#include "core/tokenizer/tokenizer.h"

/* Ids and two vectors a line, and the tokenizer's scratch. */
#define CHUNK_ARENA_BYTES ((size_t)2 << 30)

static bool is_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] != ' ' && s[i] != '\t') return false;
    return true;
}

/* ---- Lists of ids ---------------------------------------------------------------------------- */

typedef struct list_reader {
    const char *s, *end;
} list_reader;

static void skip_space(list_reader *r)
{
    while (r->s < r->end && (*r->s == ' ' || *r->s == '\t'))
        r->s++;
}

static bool take(list_reader *r, char c)
{
    skip_space(r);
    if (r->s == r->end || *r->s != c) return false;
    r->s++;
    return true;
}

/* A JSON integer that an int32 holds. */
static bool take_id(list_reader *r, int32_t *out)
{
    skip_space(r);
    const bool negative = r->s < r->end && *r->s == '-';
    if (negative) r->s++;
    const char *first = r->s;
    int64_t v = 0;
    for (; r->s < r->end && *r->s >= '0' && *r->s <= '9' && v <= INT32_MAX; r->s++)
        v = v * 10 + (*r->s - '0');
    if (r->s == first || v > INT32_MAX || (*first == '0' && r->s - first > 1)) return false;
    *out = (int32_t)(negative ? -v : v);
    return true;
}

/* [1, 2, 3]; `ids` has room for every number there can be, or is NULL. */
static bool read_list(const char *s, size_t n, int32_t *ids, size_t *count)
{
    list_reader r = {s, s + n};
    int32_t id;
    *count = 0;
    if (!take(&r, '[')) return false;
    for (bool more = !take(&r, ']'); more; (*count)++) {
        if (!take_id(&r, &id)) return false;
        if (ids) ids[*count] = id;
        more = take(&r, ',');
        if (!more && !take(&r, ']')) return false;
    }
    skip_space(&r);
    return r.s == r.end;
}

/* ---- What the lines are ---------------------------------------------------------------------- */

static lam_status look_at_first_line(cal_texts *t, lam_err *err)
{
    cli_input in;
    const char *line = "";
    size_t bytes = 0, count;
    LAM_TRY(cli_input_open(&in, t->path, err));
    do {
        if (cli_input_next(&in, true, &line, &bytes) != CLI_LINE_OK) bytes = 0, line = NULL;
    } while (line && is_blank(line, bytes));
    t->tokens = line && read_list(line, bytes, NULL, &count);
    cli_input_close(&in);
    return LAM_OK;
}

lam_status cal_texts_open(cal_texts *t, const lam_model *m, const char *path, const char *format,
                          lam_err *err)
{
    struct stat st;
    const lam_model_info *info = lam_model_get_info(m);
    *t = (cal_texts){.model = m, .path = path, .prompt = "", .opts = lam_encode_opts_default(m)};
    if (t->opts.pool == LAM_POOL_NONE) t->opts.pool = LAM_POOL_MEAN;
    if (stat(path, &st) != 0) return lam_fail(err, LAM_E_FILE, path, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return lam_fail(err, LAM_E_FILE, path, "is not a regular file; it is read more than once");
    t->tokens = strcmp(format, "tokens") == 0;
    if (strcmp(format, "auto") == 0) LAM_TRY(look_at_first_line(t, err));
    if (!t->tokens && !lam_model_tokenizer(m))
        return lam_fail(err, LAM_E_CONFIG, path,
                        "holds text, and the model has no tokenizer; lines of token ids "
                        "look like [101,7592,102]");
    for (size_t i = 0; info->default_prompt && i < info->prompt_count; i++)
        if (strcmp(info->prompts[i].name, info->default_prompt) == 0)
            t->prompt = info->prompts[i].text;
    return LAM_OK;
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

lam_status cal_chunk_init(cal_chunk *c, size_t lines, lam_err *err)
{
    *c = (cal_chunk){.line_capacity = lines};
    lam_arena_init(&c->arena, CHUNK_ARENA_BYTES);
    c->lines = calloc(lines, sizeof *c->lines);
    c->items = calloc(lines, sizeof *c->items);
    if (c->lines && c->items) return LAM_OK;
    return lam_fail(err, LAM_E_NOMEM, "--batch-size", "no memory for %zu lines", lines);
}

void cal_chunk_free(cal_chunk *c)
{
    lam_arena_fini(&c->arena);
    free(c->lines);
    free(c->items);
    free(c->text);
    *c = (cal_chunk){0};
}

static bool append(cal_chunk *c, const char *line, size_t bytes)
{
    if (c->text_capacity - c->text_bytes < bytes) {
        const size_t capacity = 2 * c->text_capacity + bytes + 4096;
        char *text = realloc(c->text, capacity);
        if (!text) return false;
        c->text = text;
        c->text_capacity = capacity;
    }
    if (bytes > 0) memcpy(c->text + c->text_bytes, line, bytes);
    c->text_bytes += bytes;
    return true;
}

lam_status cal_chunk_read(cal_chunk *c, cli_input *in, uint64_t line, lam_err *err)
{
    c->text_bytes = 0;
    c->line_count = 0;
    c->skipped = 0;
    while (c->line_count < c->line_capacity) {
        const char *text = NULL;
        size_t bytes = 0;
        const cli_line kind = cli_input_next(in, true, &text, &bytes);
        if (kind == CLI_LINE_END) break;
        line++;
        if (kind == CLI_LINE_OK && is_blank(text, bytes)) {
            c->skipped++;
            continue;
        }
        const size_t at = c->line_count++;
        c->lines[at].offset = c->text_bytes;
        c->lines[at].bytes = bytes;
        c->lines[at].line = line;
        c->lines[at].too_long = kind == CLI_LINE_TOO_LONG;
        if (!append(c, text, bytes)) return lam_fail(err, LAM_E_NOMEM, in->name, "out of memory");
    }
    c->end_line = line;
    c->end_offset = in->used_bytes;
    if (in->error) return lam_fail(err, LAM_E_FILE, in->name, "%s", strerror(in->error));
    return LAM_OK;
}

static lam_status tokenize(cal_chunk *c, const cal_texts *t, const char *text, size_t bytes,
                           lam_item *item, lam_err *err)
{
    lam_encoding e;
    lam_tokenize_opts opts = lam_tokenize_opts_default();
    const size_t prompt = strlen(t->prompt);
    opts.max_tokens = lam_model_get_info(t->model)->max_input_length;
    if (prompt > 0) {
        char *both = lam_arena_alloc(&c->arena, prompt + bytes);
        if (!both) return lam_fail(err, LAM_E_NOMEM, "", "out of memory");
        memcpy(both, t->prompt, prompt);
        memcpy(both + prompt, text, bytes);
        text = both;
        bytes += prompt;
    }
    LAM_TRY(lam_tokenize(lam_model_tokenizer(t->model), text, bytes, NULL, 0, &opts, false,
                         &c->arena, &e, err));
    c->truncated += e.full_count > e.count;
    item->ids = e.ids;
    item->tokens = e.count;
    return LAM_OK;
}

static lam_status parse(cal_chunk *c, const char *text, size_t bytes, lam_item *item, lam_err *err)
{
    size_t count;
    int32_t *ids = lam_arena_calloc(&c->arena, bytes / 2 + 1, sizeof *ids);
    if (!ids) return lam_fail(err, LAM_E_NOMEM, "", "out of memory");
    if (!read_list(text, bytes, ids, &count))
        return lam_fail(err, LAM_E_INPUT, "", "is no list of token ids like [101,7592,102]");
    item->ids = ids;
    item->tokens = count;
    return LAM_OK;
}

static lam_status make_item(cal_chunk *c, const cal_texts *t, size_t i, lam_err *err)
{
    lam_item *item = &c->items[i];
    const char *text = c->text + c->lines[i].offset;
    const size_t bytes = c->lines[i].bytes;
    size_t valid;
    *item = (lam_item){.opts = &t->opts, .index = i};
    if (c->lines[i].too_long)
        return lam_fail(err, LAM_E_LIMIT, "", "has more than %d bytes", CLI_MAX_LINE_BYTES);
    if (!t->tokens && !lam_utf8_valid(text, bytes, &valid))
        return lam_fail(err, LAM_E_UTF8, "", "is not valid UTF-8 from byte %zu on", valid);
    LAM_TRY(t->tokens ? parse(c, text, bytes, item, err) : tokenize(c, t, text, bytes, item, err));
    item->out = lam_arena_alloc_aligned(&c->arena, t->opts.dimensions * sizeof *item->out, 64);
    if (!item->out) return lam_fail(err, LAM_E_NOMEM, "", "out of memory");
    return lam_item_check(t->model, item, NULL, err);
}

lam_status cal_chunk_make(cal_chunk *c, const cal_texts *t, lam_err *err)
{
    lam_err inner;
    lam_arena_reset(&c->arena);
    c->rows = c->truncated = 0;
    for (size_t i = 0; i < c->line_count; i++) {
        const lam_status s = make_item(c, t, i, &inner);
        if (s != LAM_OK) {
            char where[sizeof err->where + 32];
            (void)snprintf(where, sizeof where, "%s: line %" PRIu64, t->path, c->lines[i].line);
            return lam_fail(err, s, where, "%s", inner.message);
        }
        c->rows += c->items[i].rows;
    }
    return LAM_OK;
}
