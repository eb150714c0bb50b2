/* lamina tokenize */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/tokenize.h"
#include "server/cli/cli.h"
#include "server/cli/pipeline.h"

/* Of a worker, for one line and its result. */
#define MAX_ARENA_BYTES ((size_t)1 << 30)
#define MAX_REPLY_BYTES ((size_t)200 << 20)

#define TOKENIZE_MAP(X)                                                        \
    X(SWITCH, text, 0, 0, 0, NULL, "a line is a text, not a JSON object")      \
    X(TEXT, input, "-", 1, 4095, "FILE", "lines to read; - is standard input") \
    X(TEXT, output, "-", 1, 4095, "FILE", "where results go; - is standard output")

typedef struct tokenize_options {
    TOKENIZE_MAP(SRV_FIELD)
} tokenize_options;

#define X(type, ...) SRV_ROW_##type(tokenize_options, __VA_ARGS__)
static const srv_option options[] = {TOKENIZE_MAP(X)};
#undef X
enum { OPTION_COUNT = sizeof options / sizeof *options };

typedef struct tokenize_run {
    tokenize_options options;
    cli_common common;
    lam_tokenizer *tokenizer;
    cli_input in;
    cli_output out;
} tokenize_run;

typedef struct tokenize_worker {
    const tokenize_run *run;
    lam_arena arena;
    api_buffer reply;
} tokenize_worker;

static bool run_line(tokenize_worker *w, cli_chunk *c, const cli_chunk_line *line, api_error *e)
{
    const char *text = line->bytes ? c->text + line->offset : "";
    api_tokenize q = {.text = text, .text_bytes = line->bytes, .opts = lam_tokenize_opts_default()};
    size_t count = 0;
    bool truncated = false;
    if (line->too_long)
        return api_fail(e, API_CODE_BODY_TOO_LARGE, NULL, "the line has more than %d bytes",
                        CLI_MAX_LINE_BYTES);
    if (!w->run->options.text && !api_tokenize_read(text, line->bytes, &w->arena, &q, e))
        return false;
    if (!api_tokenize_write(w->run->tokenizer, &q, &w->arena, &w->reply, &count, &truncated, e))
        return false;
    c->tokens += count;
    c->truncated += truncated;
    return true;
}

static void run_chunk(void *state, cli_chunk *c)
{
    tokenize_worker *w = state;
    for (size_t i = 0; i < c->line_count; i++) {
        api_error e;
        api_buffer_clear(&w->reply);
        if (!run_line(w, c, &c->lines[i], &e)) {
            c->failed++;
            api_buffer_clear(&w->reply);
            (void)api_error_write(&e, &w->reply);
        }
        api_buffer_put(&c->out, w->reply.data, w->reply.size);
        api_buffer_put(&c->out, "\n", 1);
        lam_arena_reset(&w->arena);
    }
}

static void *start_worker(void *arg, lam_err *err)
{
    tokenize_worker *w = calloc(1, sizeof *w);
    if (!w) {
        (void)lam_fail(err, LAM_E_NOMEM, "", "no memory for a worker");
        return NULL;
    }
    w->run = arg;
    lam_arena_init(&w->arena, MAX_ARENA_BYTES);
    api_buffer_init(&w->reply, MAX_REPLY_BYTES);
    return w;
}

static void stop_worker(void *state)
{
    tokenize_worker *w = state;
    lam_arena_fini(&w->arena);
    api_buffer_free(&w->reply);
    free(w);
}

static lam_status open_streams(tokenize_run *r, lam_err *err)
{
    LAM_TRY(cli_input_open(&r->in, r->options.input, err));
    LAM_TRY(cli_output_open(&r->out, r->options.output, err));
    if (cli_same_file(&r->in, &r->out))
        return lam_fail(err, LAM_E_CONFIG, "--output", "it is the input as well");
    return cli_output_empty(&r->out, err);
}

static int run_streams(tokenize_run *r)
{
    const cli_work work = {.chunk_lines = CLI_CHUNK_LINES,
                           .start = start_worker,
                           .run = run_chunk,
                           .stop = stop_worker,
                           .arg = r};
    lam_err err;
    cli_totals totals;
    r->in.fd = r->out.fd = -1;
    lam_status s = open_streams(r, &err);
    if (s == LAM_OK)
        s = cli_pipeline_run(&work, cli_worker_count(&r->common), &r->in, &r->out, 0,
                             !r->common.quiet, &totals, &err);
    bool gone = r->out.error == EPIPE;
    lam_status closed = cli_output_close(&r->out, s == LAM_OK ? &err : NULL);
    cli_input_close(&r->in);
    if (gone) return CLI_FAILED;
    if (s != LAM_OK || closed != LAM_OK) return cli_fail(&err);
    if (!r->common.quiet) cli_print_totals("tokenized", &totals);
    return totals.failed ? CLI_NO : CLI_DONE;
}

static int run(const cli_args *args)
{
    static tokenize_run r;
    lam_err err;
    if (cli_options_load(args, options, OPTION_COUNT, &r.options, &err) != LAM_OK ||
        cli_common_load(args, &r.common, &err) != LAM_OK ||
        cli_open_tokenizer(&r.tokenizer, args->words[0], &err) != LAM_OK)
        return cli_fail(&err);
    int status = run_streams(&r);
    lam_tokenizer_free(r.tokenizer);
    return status;
}

const cli_command cli_tokenize = {
    .name = "tokenize",
    .words = "MODEL",
    .min_words = 1,
    .max_words = 1,
    .summary = "turn the lines of a file into token ids",
    .about =
        "MODEL is a model, a tokenizer.json, or a directory that holds one. A line is a JSON\n"
        "object: text; and if wanted pair, add_special_tokens (true) and truncate: null or\n"
        "{\"max_length\":128,\"strategy\":\"longest_first\",\"direction\":\"right\"}. It becomes\n"
        "  {\"ids\":[...],\"type_ids\":[...],\"offsets\":[[start,end],...],\"tokens\":[...]}\n"
        "with offsets in bytes of the text. A line that fails becomes {\"error\":{...}}, the run\n"
        "goes on and ends with status 1.\n",
    .examples = "  echo 'some text' | lamina tokenize MODEL --text\n"
                "  lamina tokenize tokenizer.json --input lines.jsonl --output ids.jsonl\n",
    .groups = {{"Options", options, OPTION_COUNT},
               {"Common options", cli_common_options, CLI_COMMON_COUNT}},
    .run = run,
};
