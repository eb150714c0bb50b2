/* lamina encode */
#include "server/cli/encode.h"

#include <errno.h>
#include <string.h>

#include "server/cli/cli.h"
#include "server/cli/npy.h"

/* A body is a line, and a text grows up to sixfold when it is escaped. */
enum { MAX_BODY_BYTES = 6 * CLI_MAX_LINE_BYTES + 4096 };

#define POOL_WORD(name, text) "|" text

#define ENCODE_MAP(X)                                                                           \
    X(CHOICE, format, "text", 0, 0, "text|requests",                                            \
      "a line is a text, or a body of POST /v1/encode")                                         \
    X(TEXT, input, "-", 1, 4095, "FILE", "lines to read; - is standard input")                  \
    X(TEXT, output, "-", 1, 4095, "FILE", "where results go; - is standard output")             \
    X(CHOICE, output_format, "jsonl", 0, 0, "jsonl|npy",                                        \
      "a JSON object a line, or one float32 array")                                             \
    X(SWITCH, resume, 0, 0, 0, NULL,                                                            \
      "go on where the output file ends: skip as many lines as it has")                         \
    X(CHOICE, statistics, "none", 0, 0, "none|summary|full", "text: statistics of each line")   \
    X(CHOICE, pooling, "model", 0, 0, "model" LAM_POOL_MAP(POOL_WORD),                          \
      "text: how rows become a vector")                                                         \
    X(CHOICE, normalize, "model", 0, 0, "model|true|false", "text: scale to unit length")       \
    X(NUMBER, dimensions, 0, 0, 65536, "N", "text: keep the first N numbers; 0: all")           \
    X(CHOICE, truncate, "false", 0, 0, "false|right|left",                                      \
      "text: cut what is too long at this end; false: it fails")                                \
    X(TEXT, prompt_name, NULL, 1, 255, "NAME",                                                  \
      "text: put the model's prompt of that name in front")                                     \
    X(NUMBER, max_batch_tokens, 512, 1, 1048576, "TOKENS",                                      \
      "rows of one batch; raised to the model's longest sequence where smaller")                \
    X(NUMBER, max_items, 2048, 1, 65536, "N", "requests: most items of one")                    \
    X(NUMBER, max_reply_bytes, 67108864, 4096, 1073741824, "BYTES", "largest result of a line") \
    X(NUMBER, max_request_bytes, 134217728, 1048576, 4294967296, "BYTES",                       \
      "most memory of a worker for lines in work")

typedef struct encode_options {
    ENCODE_MAP(SRV_FIELD)
} encode_options;

#define X(type, ...) SRV_ROW_##type(encode_options, __VA_ARGS__)
static const srv_option options[] = {ENCODE_MAP(X)};
#undef X
enum { OPTION_COUNT = sizeof options / sizeof *options };

typedef struct encode_run {
    encode_options options;
    cli_common common;
    lam_model *model;
    api_model api_model;
    api_env env;
    api_buffer tail;
    cli_encoder encoder;
    cli_input in;
    cli_output out;
    cli_npy npy;
} encode_run;

/* The rest of the body that each text is put into. */
static bool make_tail(const encode_options *o, api_buffer *b)
{
    api_buffer_puts(b, "]");
    if (strcmp(o->pooling, "model") != 0) {
        api_buffer_puts(b, ",\"pooling\":\"");
        api_buffer_puts(b, o->pooling);
        api_buffer_puts(b, "\"");
    }
    if (strcmp(o->normalize, "model") != 0) {
        api_buffer_puts(b, ",\"normalize\":");
        api_buffer_puts(b, o->normalize);
    }
    if (o->dimensions > 0) {
        api_buffer_puts(b, ",\"dimensions\":");
        api_buffer_json_u64(b, o->dimensions);
    }
    if (strcmp(o->truncate, "false") != 0) {
        api_buffer_puts(b, ",\"truncate\":\"");
        api_buffer_puts(b, o->truncate);
        api_buffer_puts(b, "\"");
    }
    if (strcmp(o->statistics, "none") != 0) {
        api_buffer_puts(b, ",\"statistics\":\"");
        api_buffer_puts(b, o->statistics);
        api_buffer_puts(b, "\"");
    }
    if (o->prompt_name) {
        api_buffer_puts(b, ",\"prompt_name\":");
        api_buffer_json_string(b, o->prompt_name, strlen(o->prompt_name));
    }
    api_buffer_put(b, "}", 2); /* with its NUL */
    return !b->failed;
}

/* The name of the option that stands for a field of the body: "/dimensions" is "--dimensions". */
static int refuse_option(const api_error *e)
{
    char where[sizeof e->param + 2];
    (void)snprintf(where, sizeof where, "--%s", e->param[0] == '/' ? e->param + 1 : e->param);
    for (char *s = where; *s; s++)
        if (*s == '_') *s = '-';
    return cli_complain(e->param[0] == '/' ? where : "encode", "%s", e->message);
}

/* What a request says itself. */
static lam_status check_requests(const encode_options *o, lam_err *err)
{
    static const char *const of_text[] = {"statistics", "pooling", "normalize", "truncate",
                                          "prompt_name"};
    for (size_t i = 0; i < sizeof of_text / sizeof *of_text; i++) {
        const srv_option *p =
            srv_option_find(options, OPTION_COUNT, of_text[i], strlen(of_text[i]), '_');
        char buf[32], flag[SRV_OPTION_NAME_BYTES];
        const char *value = srv_option_get(p, o, buf);
        if (!value || (p->text && strcmp(value, p->text) == 0)) continue;
        srv_option_flag(p, flag);
        return lam_fail(err, LAM_E_CONFIG, flag,
                        "goes with --format text: a request says it itself");
    }
    return LAM_OK;
}

static lam_status check_options(const encode_run *r, lam_err *err)
{
    const encode_options *o = &r->options;
    const bool npy = strcmp(o->output_format, "npy") == 0;
    if (npy && o->resume)
        return lam_fail(err, LAM_E_CONFIG, "--resume", "only jsonl can be resumed");
    if (o->resume && strcmp(o->output, "-") == 0)
        return lam_fail(err, LAM_E_CONFIG, "--resume", "--output names no file");
    if (npy && strcmp(o->pooling, "none") == 0)
        return lam_fail(err, LAM_E_CONFIG, "--output-format",
                        "npy has one row for each line, which pooling none has not");
    if (npy && strcmp(o->statistics, "none") != 0)
        return lam_fail(err, LAM_E_CONFIG, "--output-format", "npy has no place for statistics");
    if (strcmp(o->format, "text") == 0) return LAM_OK;
    return check_requests(o, err);
}

static void describe(encode_run *r)
{
    const encode_options *o = &r->options;
    const lam_model_info *info = lam_model_get_info(r->model);
    r->api_model = (api_model){
        .name = info->name, .model = r->model, .max_input_length = info->max_input_length};
    r->env = (api_env){.models = &r->api_model,
                       .model_count = 1,
                       .limits = {.max_body_bytes = MAX_BODY_BYTES,
                                  .max_items = o->max_items,
                                  .max_reply_bytes = o->max_reply_bytes,
                                  .max_request_bytes = o->max_request_bytes,
                                  .max_deadline_ms = 3600000}};
    const size_t asked = o->max_batch_tokens;
    const size_t rows = asked > info->positions ? asked : info->positions;
    r->env.limits.max_batch_rows = rows;
    r->encoder = (cli_encoder){.env = &r->env,
                               .max_rows = rows,
                               .requests = strcmp(o->format, "requests") == 0,
                               .tail = r->tail.data,
                               .npy = strcmp(o->output_format, "npy") == 0,
                               .width = o->dimensions ? o->dimensions : info->width};
}

/* ---- Streams --------------------------------------------------------------------------------- */

static lam_status open_output(encode_run *r, uint64_t *skip, lam_err *err)
{
    const encode_options *o = &r->options;
    *skip = 0;
    /* Kept until it is known not to be the input. */
    LAM_TRY(cli_output_open(&r->out, o->output, err));
    if (cli_same_file(&r->in, &r->out))
        return lam_fail(err, LAM_E_CONFIG, "--output", "it is the input as well");
    if (o->resume) return cli_output_resume(&r->out, skip, err);
    return cli_output_empty(&r->out, err);
}

static lam_status run_lines(encode_run *r, uint64_t skip, cli_totals *totals, lam_err *err)
{
    const cli_work work = cli_encode_work(&r->encoder);
    cli_output *rows = &r->out;
    if (r->encoder.npy) LAM_TRY(cli_npy_begin(&r->npy, &r->out, r->encoder.width, &rows, err));
    lam_status s = cli_pipeline_run(&work, cli_worker_count(&r->common), &r->in, rows, skip,
                                    !r->common.quiet, totals, err);
    if (!r->encoder.npy) return s;
    if (s == LAM_OK) return cli_npy_end(&r->npy, totals->vectors, err);
    cli_npy_abandon(&r->npy);
    return s;
}

static int run_streams(encode_run *r)
{
    lam_err err;
    uint64_t skip;
    cli_totals totals;
    lam_status s = open_output(r, &skip, &err);
    if (s == LAM_OK) s = run_lines(r, skip, &totals, &err);
    bool gone = r->out.error == EPIPE;
    lam_status closed = cli_output_close(&r->out, s == LAM_OK ? &err : NULL);
    if (gone) return CLI_FAILED;
    if (s != LAM_OK || closed != LAM_OK) return cli_fail(&err);
    if (!r->common.quiet) cli_print_totals("encoded", &totals);
    return totals.failed ? CLI_NO : CLI_DONE;
}

static int run_model(encode_run *r, const cli_args *args)
{
    lam_err err;
    api_error refused;
    if (cli_open_model(&r->model, args->words[0], &r->common, &err) != LAM_OK)
        return cli_fail(&err);
    describe(r);
    if (!r->encoder.requests && !cli_encode_probe(&r->encoder, &refused))
        return refuse_option(&refused);
    return run_streams(r);
}

static int run(const cli_args *args)
{
    static encode_run r;
    lam_err err;
    if (cli_options_load(args, options, OPTION_COUNT, &r.options, &err) != LAM_OK ||
        cli_common_load(args, &r.common, &err) != LAM_OK || check_options(&r, &err) != LAM_OK)
        return cli_fail(&err);
    api_buffer_init(&r.tail, 4096);
    if (!make_tail(&r.options, &r.tail)) return cli_complain("encode", "the options are too long");
    int status = CLI_FAILED;
    if (cli_input_open(&r.in, r.options.input, &err) != LAM_OK)
        status = cli_fail(&err);
    else
        status = run_model(&r, args);
    cli_input_close(&r.in);
    lam_model_close(r.model);
    api_buffer_free(&r.tail);
    return status;
}

const cli_command cli_encode = {
    .name = "encode",
    .words = "MODEL",
    .min_words = 1,
    .max_words = 1,
    .summary = "turn the lines of a file into vectors",
    .about =
        "Reads a text or a request a line and writes its result in the same order: the same\n"
        "bytes for any number of workers. A text becomes\n"
        "  {\"index\":0,\"embedding\":[...],\"tokens\":7,\"truncated\":false}\n"
        "and a request its answer of POST /v1/encode without \"timing\". A line that fails "
        "becomes\n"
        "{\"index\":0,\"error\":{...}} or {\"error\":{...}}, the run goes on and ends with status "
        "1.\n"
        "In an npy array a text that fails is a row of NaN and a request that fails has no rows;\n"
        "standard error then says why.\n"
        "A line ends with a line feed, or a carriage return and a line feed, and has at most\n"
        "8388608 bytes. An interrupted run is continued by repeating it with --resume.\n",
    .examples =
        "  lamina encode MODEL --input texts.txt --output vectors.jsonl\n"
        "  lamina encode MODEL --input texts.txt --output vectors.jsonl --resume\n"
        "  lamina encode MODEL --truncate right --output-format npy < texts.txt > vectors.npy\n"
        "  echo '{\"texts\":[\"a\",\"b\"],\"pooling\":\"cls\"}' |\n"
        "    lamina encode MODEL --format requests\n",
    .groups = {{"Options", options, OPTION_COUNT},
               {"Common options", cli_common_options, CLI_COMMON_COUNT}},
    .run = run,
};
