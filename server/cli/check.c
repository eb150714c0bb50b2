/* lamina check: does a result depend on anything but its item? */
#include "server/cli/check.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/cpu.h"
#include "server/cli/cli.h"
#include "server/cli/json.h"

#define MAX_TEXT_BYTES ((size_t)64 << 20)

#define CHECK_MAP(X)                                            \
    X(CHOICE, statistics, "model", 0, 0, "model|running|batch", \
      "what norms run on that have a choice")                   \
    X(SWITCH, json, 0, 0, 0, NULL, "one JSON object")

typedef struct check_options {
    CHECK_MAP(SRV_FIELD)
} check_options;

#define X(type, ...) SRV_ROW_##type(check_options, __VA_ARGS__)
static const srv_option options[] = {CHECK_MAP(X)};
#undef X
enum { OPTION_COUNT = sizeof options / sizeof *options };

/* What one instruction set showed. */
typedef struct isa_result {
    bool done;
    check_result results[CHECK_TEST_COUNT];
    double distance; /* of the last hidden states to those of ref, relative */
} isa_result;

typedef struct check {
    check_options options;
    cli_common common;
    lam_norm_source statistics;
    char name[256];
    size_t item_count, tokens[CHECK_MAX_ITEMS];
    check_norms norms;
    cli_sites sites;
    lam_arena arena; /* of what outlives a model: `sites` */
    isa_result isa[LAM_ISA_COUNT];
    float *reference; /* last hidden states on the first instruction set; malloc'd */
} check;

/* ---- Finding out ----------------------------------------------------------------------------- */

/* The rows of all items at the site `final`. */
static const float *last_states(const check_run *r, size_t *floats)
{
    const lam_model_info *info = lam_model_get_info(r->model);
    *floats = r->rows * info->width;
    return cli_trace_site(&r->base, lam_program_slot(lam_model_program(r->model), info->layers,
                                                     LAM_LAYER_NONE, LAM_SITE_FINAL));
}

static lam_status keep_sites(check *c, const check_run *r, lam_err *err)
{
    if (c->sites.at) return LAM_OK;
    const lam_model_info *info = lam_model_get_info(r->model);
    size_t floats;
    const float *states = last_states(r, &floats);
    (void)snprintf(c->name, sizeof c->name, "%s", info->name);
    c->item_count = r->count;
    memcpy(c->tokens, r->tokens, r->count * sizeof *r->tokens);
    c->reference = malloc(floats * sizeof *c->reference);
    if (!c->reference) return lam_fail(err, LAM_E_NOMEM, "check", "no memory for the states");
    memcpy(c->reference, states, floats * sizeof *states);
    return cli_sites_of(&c->sites, r->model, &c->arena, err);
}

static lam_status run_model(check *c, lam_isa isa, lam_model *m, lam_err *err)
{
    check_run r;
    isa_result *out = &c->isa[isa];
    lam_status s = check_run_open(&r, m, c->statistics, cli_worker_count(&c->common), err);
    if (s == LAM_OK) s = keep_sites(c, &r, err);
    if (s == LAM_OK) s = check_run_all(&r, err);
    if (s == LAM_OK) {
        lam_item two[2];
        for (size_t i = 0; i < 2; i++)
            two[i] = check_item(&r, r.count - 1 - i, r.other_vectors);
        s = check_norms_run(&c->norms, r.ctx, two, err);
    }
    if (s == LAM_OK) {
        size_t floats;
        const float *states = last_states(&r, &floats);
        memcpy(out->results, r.results, sizeof r.results);
        out->distance = cli_relative_distance(states, c->reference, floats);
        out->done = true;
    }
    check_run_close(&r);
    return s;
}

static lam_status run_isa(check *c, lam_isa isa, const char *path, lam_err *err)
{
    cli_common common = c->common;
    lam_model *m = NULL;
    common.cpu = lam_isa_name(isa);
    common.quiet = common.quiet || isa > LAM_ISA_REF; /* oddities are told once */
    LAM_TRY(cli_open_model(&m, path, &common, err));
    const lam_status s = run_model(c, isa, m, err);
    lam_model_close(m);
    return s;
}

/* ---- The answer ------------------------------------------------------------------------------ */

static bool differs(const check_result *r)
{
    return r->parting.differs || r->vector > 0.0;
}

static int rank_of(const char *verdict)
{
    if (strcmp(verdict, lam_norm_verdict(LAM_NORM_FROM_BATCH)) == 0) return 2;
    return strcmp(verdict, lam_norm_verdict(LAM_NORM_FROM_SEQUENCE)) == 0;
}

/* The worst of what the norms are by their definition and of what was seen. */
static const char *verdict_of(const check *c)
{
    const char *worst = lam_norm_verdict(LAM_NORM_FROM_NONE);
    for (size_t i = 0; i < c->norms.count; i++) {
        const check_norm *n = &c->norms.list[i];
        const char *both[] = {lam_norm_verdict(n->source), check_norm_measured(n)};
        for (size_t k = 0; k < 2; k++)
            if (rank_of(both[k]) > rank_of(worst)) worst = both[k];
    }
    return worst;
}

static bool all_identical(const check *c)
{
    for (size_t i = 0; i < LAM_ISA_COUNT; i++)
        for (size_t t = 0; t < CHECK_TEST_COUNT; t++)
            if (differs(&c->isa[i].results[t])) return false;
    return true;
}

/* Whether each norm was seen to be what it is by definition, and the items too. */
static bool agrees(const check *c)
{
    bool batch = false;
    for (size_t i = 0; i < c->norms.count; i++) {
        const check_norm *n = &c->norms.list[i];
        if (strcmp(lam_norm_verdict(n->source), check_norm_measured(n)) != 0) return false;
        batch = batch || n->source == LAM_NORM_FROM_BATCH;
    }
    for (size_t i = 0; i < LAM_ISA_COUNT; i++)
        for (size_t t = 0; t < CHECK_TEST_COUNT; t++)
            if (differs(&c->isa[i].results[t]) && !(batch && t == CHECK_BATCH)) return false;
    return true;
}

static bool padding_matters(const check *c)
{
    static const check_test tests[] = {CHECK_PADDING_BEHIND, CHECK_PADDING_FRONT,
                                       CHECK_PADDING_INSIDE};
    for (size_t i = 0; i < LAM_ISA_COUNT; i++)
        for (size_t t = 0; t < sizeof tests / sizeof *tests; t++)
            if (differs(&c->isa[i].results[tests[t]])) return true;
    return false;
}

static bool is_independent(const check *c)
{
    return rank_of(verdict_of(c)) == 0 && all_identical(c);
}

static const char *test_name(size_t t)
{
    static const char *const names[] = {
#define X(name, text, about) text,
        CHECK_TEST_MAP(X)
#undef X
    };
    return names[t];
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_place(api_buffer *b, size_t layer, lam_site site)
{
    if (layer != LAM_LAYER_NONE) cli_json_count(b, "layer", layer);
    cli_json_string(b, "site", lam_site_name(site));
}

static void put_norm(api_buffer *b, const check_norm *n)
{
    api_buffer_puts(b, "\n{");
    put_place(b, n->layer, n->site);
    cli_json_string(b, "kind", n->kind);
    cli_json_string(b, "source", lam_norm_source_name(n->source));
    cli_json_string(b, "verdict", lam_norm_verdict(n->source));
    cli_json_string(b, "measured", check_norm_measured(n));
    cli_json_number(b, "batch_difference", n->batch);
    cli_json_number(b, "length_difference", n->length);
    api_buffer_put(b, "}", 1);
}

static void put_site(api_buffer *b, const char *name, const cli_site *s, double difference)
{
    cli_json_key(b, name);
    api_buffer_put(b, "{", 1);
    put_place(b, s->layer, s->site);
    cli_json_number(b, "difference", difference);
    api_buffer_put(b, "}", 1);
}

static void put_result(api_buffer *b, const check *c, size_t isa, size_t test)
{
    const check_result *r = &c->isa[isa].results[test];
    const cli_parting *p = &r->parting;
    api_buffer_puts(b, "\n{");
    cli_json_string(b, "isa", lam_isa_name((lam_isa)isa));
    cli_json_string(b, "test", test_name(test));
    cli_json_count(b, "runs", r->runs);
    cli_json_count(b, "rows", p->compared);
    cli_json_bool(b, "identical", !differs(r));
    if (differs(r)) cli_json_count(b, "item", r->item);
    if (p->differs) {
        put_site(b, "first", &c->sites.at[p->first_site], p->first_largest);
        put_site(b, "largest", &c->sites.at[p->largest_site], p->largest);
    }
    if (differs(r)) cli_json_number(b, "vector_distance", r->vector);
    api_buffer_put(b, "}", 1);
}

static void put_all(api_buffer *b, const check *c)
{
    api_buffer_put(b, "{", 1);
    cli_json_string(b, "model", c->name);
    cli_json_string(b, "statistics", c->options.statistics);
    cli_json_bool(b, "independent", is_independent(c));
    cli_json_string(b, "verdict", verdict_of(c));
    cli_json_bool(b, "as_defined", agrees(c));
    cli_json_bool(b, "padding_matters", padding_matters(c));
    cli_json_key(b, "items");
    api_buffer_put(b, "[", 1);
    for (size_t i = 0; i < c->item_count; i++) {
        cli_json_next(b);
        api_buffer_json_u64(b, c->tokens[i]);
    }
    api_buffer_put(b, "]", 1);
    cli_json_count(b, "workers", cli_worker_count(&c->common));
    cli_json_key(b, "norms");
    api_buffer_put(b, "[", 1);
    for (size_t i = 0; i < c->norms.count; i++) {
        cli_json_next(b);
        put_norm(b, &c->norms.list[i]);
    }
    api_buffer_puts(b, "],\n\"measured\":[");
    for (size_t i = 0; i < LAM_ISA_COUNT; i++)
        for (size_t t = 0; c->isa[i].done && t < CHECK_TEST_COUNT; t++) {
            cli_json_next(b);
            put_result(b, c, i, t);
        }
    api_buffer_puts(b, "],\n\"distance_to_ref\":{");
    for (size_t i = 0; i < LAM_ISA_COUNT; i++)
        if (c->isa[i].done) cli_json_number(b, lam_isa_name((lam_isa)i), c->isa[i].distance);
    api_buffer_puts(b, "}}\n");
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* "layer 3 ffn_norm" */
static void print_place(const cli_site *s)
{
    if (s->layer == LAM_LAYER_NONE)
        (void)printf("%s", lam_site_name(s->site));
    else
        (void)printf("layer %zu %s", s->layer, lam_site_name(s->site));
}

static void print_norm(const check_norm *n)
{
    char layer[24] = "-";
    if (n->layer != LAM_LAYER_NONE) (void)snprintf(layer, sizeof layer, "%zu", n->layer);
    (void)printf("%5s %-22s %-12s %-9s %-12s %-12s %9.3g %9.3g\n", layer, lam_site_name(n->site),
                 n->kind, lam_norm_source_name(n->source), lam_norm_verdict(n->source),
                 check_norm_measured(n), n->batch, n->length);
}

static void print_result(const check *c, size_t isa, size_t test)
{
    const check_result *r = &c->isa[isa].results[test];
    const cli_parting *p = &r->parting;
    (void)printf("%-7s %-15s %5zu %7zu  ", lam_isa_name((lam_isa)isa), test_name(test), r->runs,
                 p->compared);
    if (!differs(r)) {
        (void)puts("bit-identical");
        return;
    }
    if (p->differs) {
        (void)printf("differs: first at ");
        print_place(&c->sites.at[p->first_site]);
        (void)printf(" by %.3g, most at ", p->first_largest);
        print_place(&c->sites.at[p->largest_site]);
        (void)printf(" by %.3g; ", p->largest);
    }
    (void)printf("vectors by %.3g of their length\n", r->vector);
}

static void print_items(const check *c)
{
    (void)printf("items       %zu of seeded ids:", c->item_count);
    for (size_t i = 0; i < c->item_count; i++)
        (void)printf("%s %zu", i ? "," : "", c->tokens[i]);
    (void)printf(" tokens; up to %zu workers\n", cli_worker_count(&c->common));
}

static void print_text(const check *c)
{
    const bool yes = is_independent(c);
    (void)printf("model       %s\n", c->name);
    (void)printf("statistics  %s\n", c->options.statistics);
    (void)printf("answer      %s: %s%s\n", yes ? "yes" : "no", verdict_of(c),
                 agrees(c) ? ", measured as defined" : ", measured otherwise than defined");
    (void)printf("padding     %s\n", padding_matters(c) ? "matters: see below"
                                                        : "never matters: masked tokens are not "
                                                          "computed");
    print_items(c);
    (void)puts(
        "\nEach norm by itself: what it is by definition, and the largest change of an item's\n"
        "rows when the other item of the batch, or half of the item, goes away");
    (void)printf("%5s %-22s %-12s %-9s %-12s %-12s %9s %9s\n", "layer", "site", "kind", "source",
                 "verdict", "measured", "by batch", "by length");
    for (size_t i = 0; i < c->norms.count; i++)
        print_norm(&c->norms.list[i]);
    (void)puts("\nWhole items, at every site and in their vectors, against the item alone");
    (void)printf("%-7s %-15s %5s %7s\n", "isa", "test", "runs", "rows");
    for (size_t i = 0; i < LAM_ISA_COUNT; i++)
        for (size_t t = 0; c->isa[i].done && t < CHECK_TEST_COUNT; t++)
            print_result(c, i, t);
    for (size_t i = LAM_ISA_REF + 1; i < LAM_ISA_COUNT; i++)
        if (c->isa[i].done)
            (void)printf("%s%s against ref: last hidden states by %.3g of their length\n",
                         i == LAM_ISA_REF + 1 ? "\n" : "", lam_isa_name((lam_isa)i),
                         c->isa[i].distance);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int print(const check *c)
{
    const int status = is_independent(c) ? CLI_DONE : CLI_NO;
    api_buffer b;
    if (!c->options.json) {
        print_text(c);
        return cli_finish(status);
    }
    api_buffer_init(&b, MAX_TEXT_BYTES);
    put_all(&b, c);
    return cli_json_print(&b, "check", status);
}

static lam_status load(check *c, const cli_args *args, lam_err *err)
{
    LAM_TRY(cli_options_load(args, options, OPTION_COUNT, &c->options, err));
    LAM_TRY(cli_common_load(args, &c->common, err));
    c->statistics = LAM_NORM_FROM_NONE; /* "model" is no source */
    (void)lam_norm_source_parse(c->options.statistics, strlen(c->options.statistics),
                                &c->statistics);
    return LAM_OK;
}

static int run(const cli_args *args)
{
    check c = {0};
    lam_err err;
    lam_status s = load(&c, args, &err);
    lam_arena_init(&c.arena, (size_t)1 << 30);
    const lam_isa best = s == LAM_OK ? cli_isa(c.common.cpu) : LAM_ISA_REF;
    for (int isa = LAM_ISA_REF; s == LAM_OK && isa <= (int)best; isa++)
        if (lam_cpu_supports((lam_isa)isa)) s = run_isa(&c, (lam_isa)isa, args->words[0], &err);
    const int status = s == LAM_OK ? print(&c) : cli_fail(&err);
    free(c.norms.list);
    free(c.reference);
    lam_arena_fini(&c.arena);
    return status;
}

const cli_command cli_check = {
    .name = "check",
    .words = "MODEL",
    .min_words = 1,
    .max_words = 1,
    .summary = "prove that a result depends on its item alone, or show what breaks it",
    .about =
        "Says of each norm what a row depends on by its definition (independent, length, batch)\n"
        "and measures it: the norm alone, and whole items alone, in batches, with masked tokens\n"
        "and by several workers, on each instruction set up to --cpu. Whole items are compared\n"
        "bit by bit at every site; the first that differs is named, and the largest difference.\n"
        "Masked tokens behind an item must change nothing; in front and in between they move\n"
        "the positions of the others, so there two paddings with other ids are compared.\n"
        "Status 0: independent and identical; 1: not; 2: it could not be found out.\n",
    .examples = "  lamina check MODEL\n"
                "  lamina check MODEL --statistics batch --json\n",
    .groups = {{"Options", options, OPTION_COUNT},
               {"Common options", cli_common_options, CLI_COMMON_COUNT}},
    .run = run,
};
