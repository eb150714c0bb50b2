/* lamina sweep: what batch statistics do at each size of a batch. */
#include "server/cli/sweep.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/cli/cli.h"
#include "server/cli/plot.h"
#include "server/cli/stream.h"

enum { MAX_SIZES = 64 };
#define MAX_TEXT_BYTES ((size_t)1 << 20)

#define SWEEP_MAP(X)                                                                 \
    X(TEXT, texts, NULL, 1, 4095, "FILE", "lines: texts, or lists of token ids")     \
    X(LIST, batch_sizes, "1,2,4,8,16,32,64,128", 1, 4096, "N[,N...]",                \
      "items of a batch; sizes that the file does not fill are left out")            \
    X(TEXT, csv, "-", 1, 4095, "FILE", "where the table goes; - is standard output") \
    X(TEXT, plot, NULL, 1, 4000, "FILE.svg", "draw the table, with gnuplot")

typedef struct sweep_options {
    SWEEP_MAP(SRV_FIELD)
} sweep_options;

#define X(type, ...) SRV_ROW_##type(sweep_options, __VA_ARGS__)
static const srv_option options[] = {SWEEP_MAP(X)};
#undef X
enum { OPTION_COUNT = sizeof options / sizeof *options };

typedef struct sweep {
    sweep_options options;
    cli_common common;
    lam_model *model;
    cli_inputs inputs;
    size_t sizes[MAX_SIZES], size_count;
    sweep_run run;
    sweep_row rows[2 * MAX_SIZES]; /* of each size, on batch and on running statistics */
    size_t row_count;
} sweep;

/* ---- Options --------------------------------------------------------------------------------- */

static lam_status read_sizes(sweep *s, lam_err *err)
{
    size_t at = 0, bytes = 0;
    const char *word = NULL;
    while (srv_list_next(s->options.batch_sizes, &at, &word, &bytes)) {
        uint64_t n;
        if (!srv_number_parse(word, bytes, &n) || n < 1 || n > 1000000)
            return lam_fail(err, LAM_E_CONFIG, "--batch-sizes", "\"%.*s\" is not from 1 to 1000000",
                            (int)bytes, word);
        if (s->size_count == MAX_SIZES)
            return lam_fail(err, LAM_E_CONFIG, "--batch-sizes", "more than %d sizes", MAX_SIZES);
        s->sizes[s->size_count++] = (size_t)n;
    }
    return LAM_OK;
}

static lam_status load(sweep *s, const cli_args *args, lam_err *err)
{
    LAM_TRY(cli_options_load(args, options, OPTION_COUNT, &s->options, err));
    LAM_TRY(cli_common_load(args, &s->common, err));
    if (!s->options.texts) return lam_fail(err, LAM_E_CONFIG, "--texts", "is missing");
    return read_sizes(s, err);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* The model must have both: norms that take batch statistics, and running tensors. */
static lam_status check_model(const lam_model *m, lam_err *err)
{
    static const lam_norm_source both[] = {LAM_NORM_FROM_BATCH, LAM_NORM_FROM_RUNNING};
    lam_encode_opts o = lam_encode_opts_default(m);
    for (size_t i = 0; i < 2; i++) {
        o.statistics = both[i];
        LAM_TRY(lam_encode_opts_check(m, &o, err));
    }
    return LAM_OK;
}

static void drop_sizes(sweep *s)
{
    const size_t items = s->inputs.request.item_count;
    size_t kept = 0;
    for (size_t i = 0; i < s->size_count; i++) {
        if (s->sizes[i] <= items)
            s->sizes[kept++] = s->sizes[i];
        else if (!s->common.quiet)
            (void)fprintf(stderr, "lamina: no batch of %zu items: there are %zu\n", s->sizes[i],
                          items);
    }
    s->size_count = kept;
}

static lam_status prepare(sweep *s, const char *path, lam_err *err)
{
    LAM_TRY(cli_open_model(&s->model, path, &s->common, err));
    LAM_TRY(check_model(s->model, err));
    LAM_TRY(cli_inputs_read(&s->inputs, s->model, s->options.texts, err));
    drop_sizes(s);
    const lam_model_info *info = lam_model_get_info(s->model);
    s->run = (sweep_run){.model = s->model,
                         .inputs = &s->inputs,
                         .workers = cli_worker_count(&s->common),
                         .max_rows = info->positions};
    for (size_t i = 0; i < s->size_count; i++) {
        const size_t rows = sweep_largest_batch(&s->inputs, s->sizes[i]);
        if (rows > s->run.max_rows) s->run.max_rows = rows;
    }
    if (s->size_count == 0)
        return lam_fail(err, LAM_E_INPUT, s->options.texts, "fills no batch of --batch-sizes");
    s->run.running = calloc(s->inputs.request.item_count * info->width, sizeof(float));
    if (s->run.running) return LAM_OK;
    return lam_fail(err, LAM_E_NOMEM, s->options.texts, "no memory for the vectors");
}

static lam_status run_sizes(sweep *s, lam_err *err)
{
    static const lam_norm_source both[] = {LAM_NORM_FROM_BATCH, LAM_NORM_FROM_RUNNING};
    LAM_TRY(sweep_reference(&s->run, err));
    for (size_t i = 0; i < s->size_count; i++)
        for (size_t k = 0; k < 2; k++)
            LAM_TRY(sweep_batches(&s->run, both[k], s->sizes[i], &s->rows[s->row_count++], err));
    return LAM_OK;
}

/* ---- Results --------------------------------------------------------------------------------- */

/* What does not exist is an empty field, in figures too. */
static void put_number(api_buffer *b, double v)
{
    api_buffer_put(b, ",", 1);
    if (isfinite(v)) api_buffer_json_double(b, v);
}

static void put_count(api_buffer *b, uint64_t v)
{
    api_buffer_put(b, ",", 1);
    api_buffer_json_u64(b, v);
}

static void put_row(api_buffer *b, const sweep_row *r)
{
    api_buffer_puts(b, lam_norm_source_name(r->source));
    put_count(b, r->batch_size);
    put_count(b, r->batches);
    put_count(b, r->items);
    put_count(b, r->tokens);
    put_number(b, r->error_mean);
    put_number(b, r->error_max);
    put_number(b, r->cosine_mean);
    put_number(b, r->cosine_least);
    for (size_t i = 0; i < SWEEP_TID_COUNT; i++)
        put_number(b, r->tid[i]);
    api_buffer_put(b, "\n", 1);
}

static void put_table(api_buffer *b, const sweep *s)
{
    api_buffer_puts(b, "statistics,batch_size,batches,items,tokens,error_mean,error_max,"
                       "cosine_mean,cosine_min,mean_tid,variance_tid,second_moment_tid\n");
    for (size_t i = 0; i < s->row_count; i++)
        put_row(b, &s->rows[i]);
}

static lam_status write_csv(const sweep *s, const api_buffer *b, lam_err *err)
{
    cli_output out;
    LAM_TRY(cli_output_open(&out, s->options.csv, err));
    lam_status status = cli_output_empty(&out, err);
    if (status == LAM_OK) (void)cli_output_write(&out, b->data, b->size);
    const lam_status closed = cli_output_close(&out, status == LAM_OK ? err : NULL);
    return status == LAM_OK ? closed : status;
}

/* The rows of one source, for gnuplot to name. */
static void put_data(api_buffer *b, const sweep *s, lam_norm_source source)
{
    api_buffer_put(b, "$", 1);
    api_buffer_puts(b, lam_norm_source_name(source));
    api_buffer_puts(b, " << EOD\n");
    for (size_t i = 0; i < s->row_count; i++)
        if (s->rows[i].source == source) put_row(b, &s->rows[i]);
    api_buffer_puts(b, "EOD\n");
}

/* One panel: a column of both sources against the batch size. */
static void put_panel(api_buffer *b, const char *title, int column)
{
    char text[320];
    (void)snprintf(text, sizeof text,
                   "set title '%s'\nplot $batch using 2:%d with linespoints pt 7 title 'batch "
                   "statistics', $running using 2:%d with linespoints pt 6 title 'running "
                   "statistics'\n",
                   title, column, column);
    api_buffer_puts(b, text);
}

static bool has(const sweep *s, sweep_tid tid)
{
    for (size_t i = 0; i < s->row_count; i++)
        if (isfinite(s->rows[i].tid[tid])) return true;
    return false;
}

static void put_figure(api_buffer *b, const sweep *s)
{
    api_buffer_puts(b, "set terminal svg size 1200,440 dynamic background rgb 'white'\n"
                       "set datafile separator comma\n");
    put_data(b, s, LAM_NORM_FROM_BATCH);
    put_data(b, s, LAM_NORM_FROM_RUNNING);
    api_buffer_puts(b, "set multiplot layout 1,3\nset logscale x 2\nset grid\n"
                       "set xlabel 'items of a batch'\n"
                       "set key outside bottom center horizontal\nset yrange [0:*]\n");
    put_panel(b, "relative distance of the vectors", 6);
    api_buffer_puts(b, "set yrange [*:1]\n");
    put_panel(b, "cosine of the vectors", 8);
    api_buffer_puts(b, "set autoscale y\nset logscale y\n");
    if (has(s, SWEEP_TID_VARIANCE)) put_panel(b, "TID of the variance", 11);
    if (has(s, SWEEP_TID_SECOND_MOMENT)) put_panel(b, "TID of the second moment", 12);
    api_buffer_puts(b, "unset multiplot\n");
    api_buffer_put(b, "", 1); /* its NUL */
}

static lam_status write_all(const sweep *s, lam_err *err)
{
    api_buffer table, figure;
    api_buffer_init(&table, MAX_TEXT_BYTES);
    api_buffer_init(&figure, MAX_TEXT_BYTES);
    put_table(&table, s);
    put_figure(&figure, s);
    lam_status status = LAM_OK;
    if (table.failed || figure.failed)
        status = lam_fail(err, LAM_E_NOMEM, "sweep", "no memory for the table");
    if (status == LAM_OK) status = write_csv(s, &table, err);
    if (status == LAM_OK && s->options.plot) status = cli_plot(s->options.plot, figure.data, err);
    api_buffer_free(&table);
    api_buffer_free(&figure);
    return status;
}

static int run(const cli_args *args)
{
    static sweep s;
    lam_err err;
    lam_status status = load(&s, args, &err);
    if (status == LAM_OK) status = prepare(&s, args->words[0], &err);
    if (status == LAM_OK) status = run_sizes(&s, &err);
    if (status == LAM_OK) status = write_all(&s, &err);
    free(s.run.running);
    cli_inputs_free(&s.inputs);
    lam_model_close(s.model);
    return status == LAM_OK ? cli_finish(CLI_DONE) : cli_fail(&err);
}

const cli_command cli_sweep = {
    .name = "sweep",
    .words = "MODEL",
    .min_words = 1,
    .max_words = 1,
    .summary = "what batch statistics do at each size of a batch",
    .about =
        "Encodes the lines of a file in batches of 1, 2, 4, ... items, once on the statistics of\n"
        "the batch and once on running statistics, and writes a line of CSV for each: relative\n"
        "distance and cosine of the vectors to those on running statistics (not scaled), and the\n"
        "discrepancy (TID) of each norm's running tensors and its batch, the mean over batches\n"
        "and norms. Batches follow the order of the file: shuf makes it random. Items that fill\n"
        "no batch at the end are left out.\n",
    .examples = "  lamina sweep MODEL --texts texts.txt > sweep.csv\n"
                "  shuf texts.txt > mixed.txt\n"
                "  lamina sweep MODEL --texts mixed.txt --batch-sizes 1,4,16,64,256 \\\n"
                "    --csv sweep.csv --plot sweep.svg\n",
    .groups = {{"Options", options, OPTION_COUNT},
               {"Common options", cli_common_options, CLI_COMMON_COUNT}},
    .run = run,
};
