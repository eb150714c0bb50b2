/* lamina compare: the same inputs under two configurations. */
#include "api/compare.h"

#include <math.h>
#include <string.h>

#include "core/import/import.h"
#include "server/cli/cli.h"
#include "server/cli/inputs.h"
#include "server/cli/json.h"
#include "server/cli/swap.h"

#define MAX_TEXT_BYTES  ((size_t)64 << 20)
#define MAX_STATE_BYTES ((size_t)4 << 30)

#define COMPARE_MAP(X)                                                                      \
    X(TEXT, with, NULL, 2, 65536, "JSON",                                                   \
      "keys that stand for those of \"lamina\" in config.json: {\"norm\":{\"eps\":1e-12}}") \
    X(TEXT, text, NULL, 1, 1048576, "TEXT", "one text to compare on")                       \
    X(TEXT, input, "-", 1, 4095, "FILE",                                                    \
      "else lines of it: texts, or lists of token ids; - is standard input")                \
    X(NUMBER, digits, 5, 1, 15, "N", "tell where the relative distance exceeds 10^-N")      \
    X(SWITCH, json, 0, 0, 0, NULL, "one JSON object, as of POST /v1/compare")

typedef struct compare_options {
    COMPARE_MAP(SRV_FIELD)
} compare_options;

#define X(type, ...) SRV_ROW_##type(compare_options, __VA_ARGS__)
static const srv_option options[] = {COMPARE_MAP(X)};
#undef X
enum { OPTION_COUNT = sizeof options / sizeof *options };

/* One side: a model and what it made of the inputs. */
typedef struct side {
    lam_model *model; /* NULL: the other side's, with other options */
    lam_encode_opts opts;
    lam_item *items;
} side;

typedef struct compare {
    compare_options options;
    cli_common common;
    double tolerance;
    const char *path;
    side a, b;
    cli_inputs inputs;
    lam_arena arena;
    api_comparison result;
    api_departure *list; /* [layers + 1] */
} compare;

/* ---- Options --------------------------------------------------------------------------------- */

/* {"norm":{"statistics":"batch"}}, with any space: another source for the request alone. */
static lam_norm_source source_of(const char *with)
{
    static const lam_norm_source sources[] = {LAM_NORM_FROM_RUNNING, LAM_NORM_FROM_BATCH};
    char plain[64], form[64];
    size_t n = 0;
    for (; *with; with++) {
        if (strchr(" \t\r\n", *with)) continue;
        if (n + 1 == sizeof plain) return LAM_NORM_FROM_NONE;
        plain[n++] = *with;
    }
    plain[n] = '\0';
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(form, sizeof form, "{\"norm\":{\"statistics\":\"%s\"}}",
                       lam_norm_source_name(sources[i]));
        if (strcmp(plain, form) == 0) return sources[i];
    }
    return LAM_NORM_FROM_NONE;
}

static lam_status load(compare *c, const cli_args *args, lam_err *err)
{
    LAM_TRY(cli_options_load(args, options, OPTION_COUNT, &c->options, err));
    LAM_TRY(cli_common_load(args, &c->common, err));
    c->path = args->words[0];
    if (!c->options.with) return lam_fail(err, LAM_E_CONFIG, "--with", "is missing");
    c->tolerance = pow(10.0, -(double)c->options.digits);
    return LAM_OK;
}

/* ---- Running --------------------------------------------------------------------------------- */

static lam_status make_side(compare *c, side *s, const lam_model *m, lam_norm_source statistics,
                            lam_err *err)
{
    const lam_model_info *info = lam_model_get_info(m);
    const api_request *r = &c->inputs.request;
    s->opts = lam_encode_opts_default(m);
    s->opts.normalize = false;
    s->opts.statistics = statistics;
    LAM_TRY(lam_encode_opts_check(m, &s->opts, err));
    LAM_TRY(lam_request_check(m, &s->opts, r->rows, SIZE_MAX, err));
    s->items = lam_arena_calloc(&c->arena, r->item_count, sizeof *s->items);
    for (size_t i = 0; s->items && i < r->item_count; i++) {
        lam_item *item = &s->items[i];
        const size_t rows = r->items[i].rows;
        *item = r->items[i];
        item->opts = &s->opts;
        item->stats = NULL;
        item->states =
            lam_arena_calloc(&c->arena, (info->layers + 1) * rows * info->width, sizeof(float));
        item->out = lam_arena_calloc(
            &c->arena, (s->opts.pool == LAM_POOL_NONE ? rows : 1) * info->width, sizeof(float));
        if (!item->states || !item->out)
            return lam_fail(err, LAM_E_NOMEM, "--input",
                            "the hidden states of %zu tokens are more than fit; give fewer lines",
                            r->rows);
        LAM_TRY(lam_item_check(m, item, NULL, err));
    }
    return s->items ? LAM_OK : lam_fail(err, LAM_E_NOMEM, "--input", "out of memory");
}

static lam_status run_side(const compare *c, const side *s, lam_ctx *ctx, lam_err *err)
{
    const size_t count = c->inputs.request.item_count;
    const lam_status status = lam_encode(ctx, s->items, count, NULL);
    if (status != LAM_OK) return lam_fail(err, status, "encode", "%s", lam_status_text(status));
    for (size_t i = 0; i < count; i++) {
        const lam_item *item = &s->items[i];
        if (item->status == LAM_OK) continue;
        return lam_fail(err, item->status, "encode", "input %zu: %s, first at site %s", i,
                        lam_status_text(item->status), lam_site_name(item->fault_site));
    }
    return LAM_OK;
}

static lam_status new_ctx(const compare *c, lam_ctx **out, const lam_model *m, lam_err *err)
{
    const size_t rows = c->inputs.request.rows, longest = lam_model_get_info(m)->positions;
    return lam_ctx_new(out, m, rows > longest ? rows : longest, err);
}

/* The other model on the same weights, unless the swap is refused. */
static lam_status open_other(compare *c, lam_ctx *ctx, lam_err *err)
{
    lam_hparams other;
    lam_open_opts opts = lam_open_opts_default();
    opts.isa = cli_isa(c->common.cpu);
    opts.with = c->options.with;
    LAM_TRY(lam_import_hparams(&other, c->path, &opts, err));
    LAM_TRY(cli_swap_check(ctx, &other, c->a.items, c->inputs.request.item_count, err));
    return lam_import_model(&c->b.model, c->path, &opts, err);
}

static lam_status run_both(compare *c, lam_ctx *ctx, lam_err *err)
{
    const lam_norm_source source = source_of(c->options.with);
    lam_ctx *own = NULL;
    LAM_TRY(make_side(c, &c->a, c->a.model, LAM_NORM_FROM_NONE, err));
    LAM_TRY(run_side(c, &c->a, ctx, err));
    if (source != LAM_NORM_FROM_NONE) {
        LAM_TRY(make_side(c, &c->b, c->a.model, source, err));
        return run_side(c, &c->b, ctx, err);
    }
    LAM_TRY(open_other(c, ctx, err));
    LAM_TRY(make_side(c, &c->b, c->b.model, LAM_NORM_FROM_NONE, err));
    LAM_TRY(new_ctx(c, &own, c->b.model, err));
    const lam_status s = run_side(c, &c->b, own, err);
    lam_ctx_free(own);
    return s;
}

static lam_status read_inputs(compare *c, lam_err *err)
{
    LAM_TRY(cli_open_model(&c->a.model, c->path, &c->common, err));
    if (c->options.text)
        return cli_inputs_text(&c->inputs, c->a.model, c->options.text, "--text", err);
    return cli_inputs_read(&c->inputs, c->a.model, c->options.input, err);
}

static lam_status run_all(compare *c, lam_err *err)
{
    lam_ctx *ctx = NULL;
    LAM_TRY(read_inputs(c, err));
    LAM_TRY(new_ctx(c, &ctx, c->a.model, err));
    const lam_status s = run_both(c, ctx, err);
    lam_ctx_free(ctx);
    if (s != LAM_OK) return s;
    const lam_model_info *info = lam_model_get_info(c->a.model);
    const lam_model *other = c->b.model ? c->b.model : c->a.model;
    c->list = lam_arena_calloc(&c->arena, info->layers + 1, sizeof *c->list);
    if (!c->list) return lam_fail(err, LAM_E_NOMEM, "compare", "out of memory");
    c->result =
        (api_comparison){.model = info->name,
                         .a = c->a.items,
                         .b = c->b.items,
                         .count = c->inputs.request.item_count,
                         .layers = info->layers,
                         .width = info->width,
                         .vector = info->width,
                         .tolerance = c->tolerance,
                         .batch_dependent = {lam_opts_batch_dependent(c->a.model, &c->a.opts),
                                             lam_opts_batch_dependent(other, &c->b.opts)}};
    return LAM_OK;
}

/* ---- Results --------------------------------------------------------------------------------- */

static void print_first(const char *what, size_t layer)
{
    if (layer == SIZE_MAX)
        (void)printf("%s at none\n", what);
    else
        (void)printf("%s at %zu\n", what, layer);
}

static void print_text(const compare *c)
{
    const api_comparison *r = &c->result;
    api_departures all = {.list = c->list};
    char beyond[64];
    api_compare_layers(r, &all);
    (void)printf("model   %s\nwith    %s\ninputs  %zu, %zu tokens\n", r->model, c->options.with,
                 r->count, c->inputs.request.rows);
    for (size_t i = 0; i < 2; i++)
        if (r->batch_dependent[i])
            (void)printf("        the inputs are one batch %s\n", i ? "with it" : "without it");
    (void)printf(
        "\nHidden states by output_layer: 0 the embeddings, i after layer i\n%12s %12s %12s "
        "%12s %12s\n",
        "output_layer", "cosine", "least", "distance", "difference");
    for (size_t i = 0; i <= r->layers; i++) {
        const api_departure *d = &all.list[i];
        (void)printf("%12zu %12.9f %12.9f %12.4g %12.4g%s\n", i, d->cosine, d->least_cosine,
                     d->distance, d->difference, d->identical ? "  bit-identical" : "");
    }
    (void)puts("");
    print_first("departs", all.first);
    (void)snprintf(beyond, sizeof beyond, "departs by more than %g", r->tolerance);
    print_first(beyond, all.beyond);
    (void)printf("\nVectors\n%6s %7s %12s %12s\n", "input", "tokens", "cosine", "distance");
    for (size_t i = 0; i < r->count; i++) {
        api_departure d;
        api_compare_item(r, i, &d);
        (void)printf("%6zu %7zu %12.9f %12.4g%s\n", i, r->a[i].rows, d.cosine, d.distance,
                     d.identical ? "  bit-identical" : "");
    }
}

static int print(const compare *c)
{
    api_buffer b;
    if (!c->options.json) {
        print_text(c);
        return cli_finish(CLI_DONE);
    }
    api_buffer_init(&b, MAX_TEXT_BYTES);
    api_comparison_write(&c->result, c->list, &b);
    api_buffer_puts(&b, "}\n");
    return cli_json_print(&b, "compare", CLI_DONE);
}

static int run(const cli_args *args)
{
    compare c = {0};
    lam_err err;
    lam_arena_init(&c.arena, MAX_STATE_BYTES);
    lam_status s = load(&c, args, &err);
    if (s == LAM_OK) s = run_all(&c, &err);
    const int status = s == LAM_OK ? print(&c) : cli_fail(&err);
    cli_inputs_free(&c.inputs);
    lam_arena_fini(&c.arena);
    lam_model_close(c.b.model);
    lam_model_close(c.a.model);
    return status;
}

const cli_command cli_compare = {
    .name = "compare",
    .words = "MODEL",
    .min_words = 1,
    .max_words = 1,
    .summary = "one input under two configurations, layer by layer",
    .about =
        "Runs the same inputs on the model as it is and with other keys of \"lamina\" on the same\n"
        "weights, and says for each hidden state how far they part: cosine of the tokens (mean\n"
        "and least), distance ||b - a|| / ||a||, largest difference; where they depart first, at\n"
        "all and beyond a tolerance; and the cosine of the vectors.\n"
        "A norm in --with that names no kind changes fields of the one that is there, one with a\n"
        "kind replaces it; its tensors must fit. {\"norm\":{\"statistics\":\"batch\"}} alone is "
        "what\n"
        "a request may ask: other statistics of every norm that has that choice. dyt and derf in\n"
        "place of another kind, and ada beyond the range in which it rises, need training and\n"
        "are refused, with the largest value that these inputs give the norm.\n",
    .examples =
        "  lamina compare MODEL --text \"A person walks.\" --with '{\"norm\":{\"eps\":1e-5}}'\n"
        "  lamina compare MODEL --input texts.txt --json \\\n"
        "    --with '{\"norm\":{\"statistics\":\"batch\"}}'\n",
    .groups = {{"Options", options, OPTION_COUNT},
               {"Common options", cli_common_options, CLI_COMMON_COUNT}},
    .run = run,
};
