/* lamina compile: what folding did to a model, and what it costs and gains. */
#include <math.h>
#include <string.h>

#include "server/cli/certificate.h"
#include "server/cli/cli.h"
#include "server/cli/stream.h"

#define COMPILE_MAP(X)                                                                             \
    X(TEXT, report, NULL, 1, 4095, "FILE", "write the certificate, as JSON; - is standard output") \
    X(TEXT, texts, NULL, 1, 4095, "FILE", "texts or lists of ids to probe with, beside random")    \
    X(NUMBER, seed, 1, 0, 4294967295, "N", "of the random ids")                                    \
    X(NUMBER, rounds, 15, 1, CLI_PROBE_ROUNDS, "N", "timed rounds of each, in turns")              \
    X(TEXT, output, NULL, 1, 4095, "FILE", "not possible yet: a compiled file has no format")

typedef struct compile_options {
    COMPILE_MAP(SRV_FIELD)
} compile_options;

#define X(type, ...) SRV_ROW_##type(compile_options, __VA_ARGS__)
static const srv_option options[] = {COMPILE_MAP(X)};
#undef X
enum { OPTION_COUNT = sizeof options / sizeof *options };

#define MAX_REPORT_BYTES ((size_t)64 << 20)

static lam_status measure(certificate *c, const compile_options *o, lam_err *err)
{
    cli_probe probe = {0};
    lam_status s = cli_probe_open(&probe, c->plain, c->folded, err);
    if (s == LAM_OK) s = cli_probe_random(&probe, o->seed, &c->random, err);
    if (s == LAM_OK && o->texts) s = cli_probe_texts(&probe, o->texts, &c->texts, err);
    if (s == LAM_OK) s = cli_probe_time(&probe, o->seed, o->rounds, &c->times, err);
    c->has_texts = o->texts != NULL;
    cli_probe_close(&probe);
    return s;
}

static lam_status write_report(const certificate *c, const char *path, lam_err *err)
{
    cli_output out;
    api_buffer b;
    LAM_TRY(cli_output_open(&out, path, err));
    api_buffer_init(&b, MAX_REPORT_BYTES);
    certificate_write(c, &b);
    lam_status s = b.failed ? lam_fail(err, LAM_E_NOMEM, "--report", "no memory for it")
                            : cli_output_empty(&out, err);
    if (s == LAM_OK) (void)cli_output_write(&out, b.data, b.size);
    api_buffer_free(&b);
    const lam_status closed = cli_output_close(&out, s == LAM_OK ? err : NULL);
    return s == LAM_OK ? closed : s;
}

static lam_status compile(certificate *c, const cli_args *args, lam_err *err)
{
    compile_options o;
    cli_common common;
    LAM_TRY(cli_options_load(args, options, OPTION_COUNT, &o, err));
    LAM_TRY(cli_common_load(args, &common, err));
    if (o.output)
        return lam_fail(err, LAM_E_CONFIG, "--output",
                        "compiled files are not written yet; serve and encode compile a model "
                        "when they open it");
    LAM_TRY(cli_open_model(&c->folded, args->words[0], &common, err));
    c->asked = srv_folds(common.fold);
    common.fold = "none";
    common.quiet = true;
    LAM_TRY(cli_open_model(&c->plain, args->words[0], &common, err));
    LAM_TRY(measure(c, &o, err));
    if (o.report) LAM_TRY(write_report(c, o.report, err));
    if (!o.report || strcmp(o.report, "-") != 0) certificate_print(c);
    return LAM_OK;
}

static int run(const cli_args *args)
{
    certificate c = {0};
    lam_err err;
    const lam_status s = compile(&c, args, &err);
    const bool holds = s == LAM_OK && certificate_holds(&c);
    lam_model_close(c.folded);
    lam_model_close(c.plain);
    return s == LAM_OK ? cli_finish(holds ? CLI_DONE : CLI_NO) : cli_fail(&err);
}

const cli_command cli_compile = {
    .name = "compile",
    .words = "MODEL",
    .min_words = 1,
    .max_words = 1,
    .summary = "say what is folded into the weights, and how exactly",
    .about =
        "Compiles a model twice, with and without moving its norms into neighbouring weights, and\n"
        "writes a certificate: each norm, whether it was folded or why not, the largest\n"
        "difference between both on random ids and on texts, bytes, and the time of both. Exit\n"
        "status 1 if the difference is beyond 1e-4 of the largest value.\n"
        "Statistics and a request's own source of statistics always come from the norms as the\n"
        "model has them.\n",
    .examples = "  lamina compile MODEL\n"
                "  lamina compile MODEL --fold all --texts lines.txt --report certificate.json\n",
    .groups = {{"Options", options, OPTION_COUNT},
               {"Common options", cli_common_options, CLI_COMMON_COUNT}},
    .run = run,
};
