/* lamina calibrate: population statistics of a model's norms from a file of texts. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/import/import.h"
#include "core/program/program.h"
#include "server/cli/calibrate_report.h"
#include "server/cli/cli.h"

/* Texts that are merged first, where the estimator is no mean of batches. */
enum { CHUNK_TEXTS = 64 };

#define CALIBRATE_MAP(X)                                                                       \
    X(TEXT, texts, NULL, 1, 4095, "FILE", "a text, or a list of token ids, a line")            \
    X(TEXT, output, NULL, 1, 4000, "DIR", "the new model, or where the profile goes; also -o") \
    X(CHOICE, format, "auto", 0, 0, "auto|text|tokens",                                        \
      "what a line is; auto: token ids if the first looks like [101,7592,102]")                \
    X(CHOICE, order, "site", 0, 0, "site|one-pass",                                            \
      "site: each norm behind those that have their new statistics, a pass each; "             \
      "one-pass: all on the stored ones")                                                      \
    X(CHOICE, estimator, "pooled", 0, 0, "pooled|batches",                                     \
      "pooled: over all tokens; batches: mean of the means and variances of batches")          \
    X(NUMBER, batch_size, 32, 1, 65536, "N", "texts of a batch, for --estimator batches")      \
    X(NUMBER, max_batch_tokens, 512, 1, 1048576, "TOKENS",                                     \
      "rows that run together; raised to the model's longest sequence where smaller")          \
    X(NUMBER, checkpoint_seconds, 5, 0, 86400, "SECONDS",                                      \
      "how often DIR.calibrating is written, from which a repeated command goes on")           \
    X(SWITCH, json, 0, 0, 0, NULL, "the report as a JSON object")

typedef struct calibrate_options {
    CALIBRATE_MAP(SRV_FIELD)
} calibrate_options;

#define X(type, ...) SRV_ROW_##type(calibrate_options, __VA_ARGS__)
static const srv_option options[] = {CALIBRATE_MAP(X)};
#undef X
enum { OPTION_COUNT = sizeof options / sizeof *options };

typedef struct calibrate_run {
    calibrate_options options;
    cli_common common;
    const char *model_path;
    lam_model *model;
    cal_texts texts;
    cal_plan plan;
    cal_state state;
    char state_path[4096];
} calibrate_run;

/* ---- The plan -------------------------------------------------------------------------------- */

static void add_pass(cal_plan *p, cal_what what, size_t norm)
{
    p->passes[p->pass_count++] = (cal_pass){.what = what, .norm = norm};
}

static void print_place(char *out, size_t bytes, const lam_norm_site_view *v)
{
    if (v->layer == LAM_LAYER_NONE)
        (void)snprintf(out, bytes, "%s", lam_site_name(v->site));
    else
        (void)snprintf(out, bytes, "layer %zu, %s", v->layer, lam_site_name(v->site));
}

/* One pass over the stored tensors needs them all. */
static lam_status check_stored(const calibrate_run *r, lam_err *err)
{
    lam_norm_site_view v = {0};
    for (size_t i = 0; lam_model_norm_site(r->model, i, &v); i++) {
        char place[64];
        if (!v.running || v.has_running) continue;
        print_place(place, sizeof place, &v);
        return lam_fail(err, LAM_E_CONFIG, "--order",
                        "one-pass runs on stored statistics, which %s has none of; --order site "
                        "needs none",
                        place);
    }
    return LAM_OK;
}

static lam_status plan_passes(calibrate_run *r, lam_err *err)
{
    cal_plan *p = &r->plan;
    const bool by_site = strcmp(r->options.order, "site") == 0;
    bool running = false, profile = false;
    lam_norm_site_view v = {0};
    p->old_runs = true;
    while (lam_model_norm_site(r->model, p->norm_count, &v))
        p->norm_count++;
    p->passes = calloc(p->norm_count + 3, sizeof *p->passes);
    if (!p->passes) return lam_fail(err, LAM_E_NOMEM, "", "no memory for the passes");
    for (size_t i = 0; lam_model_norm_site(r->model, i, &v); i++) {
        running |= v.running;
        profile |= v.measured && !v.running;
        p->old_runs &= !v.running || v.has_running;
        if (v.running && by_site) add_pass(p, CAL_ONE_NORM, i);
    }
    if (!running && !profile)
        return lam_fail(err, LAM_E_CONFIG, r->model_path, "has no norm to calibrate");
    if (running && !by_site) {
        LAM_TRY(check_stored(r, err));
        add_pass(p, CAL_RUNNING, 0);
    }
    if (profile) add_pass(p, CAL_PROFILE, 0);
    if (running) add_pass(p, CAL_COMPARE, 0);
    return LAM_OK;
}

/* ---- What decides the numbers ---------------------------------------------------------------- */

/* FNV-1a (Fowler, Noll, Vo), eight bytes at a step. */
static uint64_t mix(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *s = data;
    for (; bytes >= 8; s += 8, bytes -= 8) {
        uint64_t v;
        memcpy(&v, s, sizeof v);
        h = (h ^ v) * 0x100000001b3u;
        h ^= h >> 32;
    }
    for (; bytes > 0; s++, bytes--)
        h = (h ^ *s) * 0x100000001b3u;
    return h;
}

static lam_status mix_file(uint64_t *h, const char *path, lam_err *err)
{
    static char block[1 << 16];
    FILE *f = fopen(path, "rbe");
    if (!f) return lam_fail(err, LAM_E_FILE, path, "%s", strerror(errno));
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
        *h = mix(*h, block, n);
    const bool broken = ferror(f) != 0;
    (void)fclose(f);
    return broken ? lam_fail(err, LAM_E_FILE, path, "cannot be read") : LAM_OK;
}

/* The vector of a fixed input: what the configuration makes of the weights. */
static lam_status mix_vector(uint64_t *h, const calibrate_run *r, lam_err *err)
{
    enum { TOKENS = 8 };
    const lam_model_info *info = lam_model_get_info(r->model);
    int32_t ids[TOKENS];
    lam_ctx *ctx;
    LAM_TRY(lam_ctx_new(&ctx, r->model, info->positions, err));
    lam_item item = {.ids = ids, .opts = &r->texts.opts};
    item.tokens = info->positions < TOKENS ? info->positions : TOKENS;
    for (size_t i = 0; i < TOKENS; i++)
        ids[i] = (int32_t)(i * 7 % info->vocab);
    item.out = calloc(r->texts.opts.dimensions, sizeof *item.out);
    lam_status s = item.out ? lam_item_check(r->model, &item, NULL, err)
                            : lam_fail(err, LAM_E_NOMEM, "", "no memory for a vector");
    if (s == LAM_OK) s = lam_encode(ctx, &item, 1, NULL);
    if (s == LAM_OK) *h = mix(*h, item.out, r->texts.opts.dimensions * sizeof *item.out);
    free(item.out);
    lam_ctx_free(ctx);
    return s;
}

static lam_status fingerprint(calibrate_run *r, lam_err *err)
{
    const calibrate_options *o = &r->options;
    const lam_program *p = lam_model_program(r->model);
    const lam_model_info *info = lam_model_get_info(r->model);
    const uint64_t numbers[] = {r->plan.chunk_lines, r->plan.batches, r->texts.tokens,
                                info->max_input_length, (uint64_t)info->isa};
    uint64_t h = 0xcbf29ce484222325u;
    h = mix(h, o->order, strlen(o->order));
    h = mix(h, numbers, sizeof numbers);
    LAM_TRY(mix_vector(&h, r, err));
    h = mix(h, p->block.data, p->block.bytes);
    LAM_TRY(mix_file(&h, r->texts.path, err));
    r->plan.fingerprint = h;
    return LAM_OK;
}

/* ---- Output ---------------------------------------------------------------------------------- */

static bool is_empty_folder(const char *path)
{
    DIR *d = opendir(path);
    size_t entries = 0;
    if (!d) return false;
    while (readdir(d))
        entries++;
    (void)closedir(d);
    return entries == 2; /* . and .. */
}

/* Before hours of work, not after. */
static lam_status check_output(const calibrate_run *r, lam_err *err)
{
    const char *out = r->options.output;
    const bool new_model = r->plan.passes[r->plan.pass_count - 1].what == CAL_COMPARE;
    char profile[4200];
    struct stat st;
    if (stat(out, &st) != 0) {
        if (errno == ENOENT) return LAM_OK;
        return lam_fail(err, LAM_E_FILE, out, "%s", strerror(errno));
    }
    if (!S_ISDIR(st.st_mode)) return lam_fail(err, LAM_E_FILE, out, "is not a directory");
    if (new_model && !is_empty_folder(out))
        return lam_fail(err, LAM_E_FILE, out, "exists already; a new model needs a new directory");
    (void)snprintf(profile, sizeof profile, "%s/%s", out, lam_profile_name);
    if (!new_model && stat(profile, &st) == 0)
        return lam_fail(err, LAM_E_FILE, profile, "exists already");
    return LAM_OK;
}

static lam_status write_output(const calibrate_run *r, lam_err *err)
{
    const lam_new_statistics n = {.mean = (const float *const *)r->state.mean,
                                  .square = (const float *const *)r->state.square};
    LAM_TRY(lam_import_write_calibrated(r->model_path, r->options.output, r->model, &n, err));
    if (unlink(r->state_path) != 0 && errno != ENOENT)
        return lam_fail(err, LAM_E_FILE, r->state_path, "cannot be removed: %s", strerror(errno));
    return LAM_OK;
}

static lam_status report(const calibrate_run *r, lam_err *err)
{
    const cal_report what = {.plan = &r->plan,
                             .state = &r->state,
                             .out = r->options.output,
                             .order = r->options.order,
                             .estimator = r->options.estimator,
                             .batch_size = r->options.batch_size};
    if (r->options.json) return cal_report_json(&what, err);
    cal_report_text(&what);
    return LAM_OK;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static lam_status check_options(const calibrate_options *o, lam_err *err)
{
    if (!o->texts) return lam_fail(err, LAM_E_CONFIG, "--texts", "names no file");
    if (!o->output) return lam_fail(err, LAM_E_CONFIG, "--output", "names no directory");
    return LAM_OK;
}

static lam_status prepare(calibrate_run *r, lam_err *err)
{
    const calibrate_options *o = &r->options;
    cal_plan *p = &r->plan;
    size_t length = strlen(o->output);
    LAM_TRY(cal_texts_open(&r->texts, r->model, o->texts, o->format, err));
    const size_t rows = o->max_batch_tokens, longest = lam_model_get_info(r->model)->positions;
    while (length > 1 && o->output[length - 1] == '/')
        length--;
    (void)snprintf(r->state_path, sizeof r->state_path, "%.*s.calibrating", (int)length, o->output);
    *p = (cal_plan){.texts = &r->texts,
                    .batches = strcmp(o->estimator, "batches") == 0,
                    .workers = cli_worker_count(&r->common),
                    .max_rows = rows > longest ? rows : longest,
                    .state_path = r->state_path,
                    .checkpoint_seconds = (double)o->checkpoint_seconds,
                    .progress = !r->common.quiet};
    p->chunk_lines = p->batches ? o->batch_size : CHUNK_TEXTS;
    LAM_TRY(plan_passes(r, err));
    LAM_TRY(check_output(r, err));
    return fingerprint(r, err);
}

static lam_status calibrate(calibrate_run *r, const cli_args *args, lam_err *err)
{
    bool resumed = false;
    LAM_TRY(cli_options_load(args, options, OPTION_COUNT, &r->options, err));
    LAM_TRY(cli_common_load(args, &r->common, err));
    LAM_TRY(check_options(&r->options, err));
    LAM_TRY(cli_open_model(&r->model, r->model_path, &r->common, err));
    LAM_TRY(prepare(r, err));
    LAM_TRY(cal_state_new(&r->state, &r->plan, err));
    LAM_TRY(cal_state_load(&r->state, &r->plan, &resumed, err));
    if (resumed && !r->common.quiet)
        (void)fprintf(stderr, "lamina: going on from %s\n", r->state_path);
    LAM_TRY(cal_run(&r->state, &r->plan, err));
    LAM_TRY(write_output(r, err));
    return report(r, err);
}

static int run(const cli_args *args)
{
    static calibrate_run r;
    lam_err err;
    r.model_path = args->words[0];
    const lam_status s = calibrate(&r, args, &err);
    if (r.state.mean) cal_state_free(&r.state, &r.plan);
    free(r.plan.passes);
    lam_model_close(r.model);
    return s == LAM_OK ? cli_finish(CLI_DONE) : cli_fail(&err);
}

const cli_command cli_calibrate = {
    .name = "calibrate",
    .words = "MODEL",
    .min_words = 1,
    .max_words = 1,
    .summary = "measure the population statistics of the norms",
    .about =
        "Runs a file of texts and measures, channel by channel, what each norm normalizes. A\n"
        "model with norms on running statistics is copied to DIR with new ones: safetensors\n"
        "with these tensors replaced or added, and all other files. Of norms without, such as\n"
        "LayerNorm, mean and variance go into DIR/lamina_profile.safetensors; the server reads\n"
        "that file in a model's directory to tell drift. Prints how far old and new statistics\n"
        "are from what the model meets, and how far the embeddings moved.\n"
        "Texts that are too long are cut at their end, empty lines left out; any other line\n"
        "that the model refuses ends the run. The same bytes come out for any number of\n"
        "workers, and when an interrupted command is repeated.\n",
    .examples = "  lamina calibrate MODEL --texts corpus.txt -o NEW_MODEL\n"
                "  lamina calibrate MODEL --texts ids.jsonl -o NEW_MODEL --order one-pass \\\n"
                "    --estimator batches --batch-size 16 --json\n",
    .groups = {{"Options", options, OPTION_COUNT},
               {"Common options", cli_common_options, CLI_COMMON_COUNT}},
    .run = run,
};
