/* Models against float64 references: rows, poolings, hidden states and statistics, on each
 * instruction set.
 *
 * check_models [DATA] [MODEL]: DATA is tests/data/models; MODEL, else $LAMINA_MODEL, else
 * models/all-MiniLM-L6-v2 is the real model, which is left out where there is none. Tolerances are
 * those that the references state. */
#include <unistd.h>

#include "core/compile/passes.h"
#include "tests/golden/golden.h"

typedef struct run {
    tally tally;
    const char *name; /* of the directory, for messages */
    lam_isa isa;
    lam_model *model;
    lam_ctx *ctx;
    const json_t *request;
    const char *request_name;
    const expected *want;
    lam_item *items; /* [count] */
    size_t count;
    double rows_tolerance;
    double worst_rows, worst_unit, worst_gap; /* of the directory */
} run;

static const char *const families[] = {"bert",
                                       "bert-gelu-new",
                                       "bert-relu",
                                       "bert-silu",
                                       "bert-gelu-tanh",
                                       "bert-f16",
                                       "bert-bf16",
                                       "bert-sharded",
                                       "bert-v4",
                                       "roberta",
                                       "xlm-roberta",
                                       "camembert",
                                       "roberta-prelayernorm",
                                       "distilbert",
                                       "electra",
                                       "albert",
                                       "albert-groups",
                                       "mpnet",
                                       "t5-encoder"};
static const char *const sentences[] = {"st-mean-prompts-new", "st-mean-prompts-old",
                                        "st-lasttoken-new", "st-lasttoken-old"};
static const char *const refused[] = {"st-cls-dense-new", "st-noprompt-pool-old"};

/* Below this part of a tensor's largest value, rows are not judged: about eight roundings of
 * float32. States between the layers can be far larger than the result that tolerances are stated
 * for. */
static const double ROUNDING = 1e-6;

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- Items of a request -----------------------------------------------------------------------
 */

static void *number_list(const json_t *list, size_t i, bool bytes)
{
    const json_t *row = json_array_get(list, i);
    const size_t n = json_array_size(row);
    if (row == NULL) return NULL;
    int32_t *ids = must(calloc(n + 1, sizeof *ids));
    uint8_t *mask = must(calloc(n + 1, 1));
    for (size_t k = 0; k < n; k++) {
        ids[k] = (int32_t)json_integer_value(json_array_get(row, k));
        mask[k] = (uint8_t)ids[k];
    }
    free(bytes ? (void *)ids : (void *)mask);
    return bytes ? (void *)mask : (void *)ids;
}

static bool make_items(run *r)
{
    const json_t *tokens = json_object_get(r->request, "tokens");
    bool ok = true;
    r->count = json_array_size(tokens);
    r->items = must(calloc(r->count, sizeof *r->items));
    for (size_t i = 0; i < r->count; i++) {
        lam_err err;
        lam_item *it = &r->items[i];
        it->index = i;
        it->tokens = json_array_size(json_array_get(tokens, i));
        it->ids = number_list(tokens, i, false);
        it->types = number_list(json_object_get(r->request, "token_type_ids"), i, false);
        it->mask = number_list(json_object_get(r->request, "attention_mask"), i, true);
        const lam_status s = lam_item_check(r->model, it, NULL, &err);
        ok &= check(&r->tally, s == LAM_OK, "%s/%s: item %zu: %s", r->name, r->request_name, i,
                    err.message);
    }
    return ok;
}

static void free_items(run *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free((void *)r->items[i].ids);
        free((void *)r->items[i].types);
        free((void *)r->items[i].mask);
    }
    free(r->items);
}

/* All items' results one after another [rows, opts->dimensions], to be freed; NULL if an item
 * failed. */
static float *encode(run *r, const lam_encode_opts *opts, lam_stats *stats, size_t *rows)
{
    *rows = 0;
    for (size_t i = 0; i < r->count; i++)
        *rows += opts->pool == LAM_POOL_NONE ? r->items[i].rows : 1;
    float *out = must(malloc((*rows * opts->dimensions + 1) * sizeof *out));
    size_t at = 0;
    for (size_t i = 0; i < r->count; i++) {
        r->items[i].opts = opts;
        r->items[i].stats = stats;
        r->items[i].out = out + at * opts->dimensions;
        at += opts->pool == LAM_POOL_NONE ? r->items[i].rows : 1;
    }
    bool ok = lam_encode(r->ctx, r->items, r->count, NULL) == LAM_OK;
    for (size_t i = 0; i < r->count; i++)
        ok &= r->items[i].status == LAM_OK;
    if (ok) return out;
    free(out);
    return NULL;
}

/* ---- Tensors ----------------------------------------------------------------------------------
 */

static double largest_difference(const float *got, const double *want, size_t n)
{
    double worst = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs((double)got[i] - want[i]);
        if (!(d <= worst)) worst = d; /* NaN is the worst */
    }
    return worst;
}

static double largest(const double *v, size_t n)
{
    double m = 0.0;
    for (size_t i = 0; i < n; i++)
        m = fmax(m, fabs(v[i]));
    return m;
}

static double cosine_gap(const float *a, const double *b, size_t n)
{
    double aa = 0.0, bb = 0.0, ab = 0.0;
    for (size_t i = 0; i < n; i++) {
        aa += (double)a[i] * (double)a[i];
        bb += b[i] * b[i];
        ab += (double)a[i] * b[i];
    }
    return 1.0 - ab / sqrt(aa * bb);
}

/* One tensor of the expectations, if it is there. `unit` vectors are judged by their angle too. */
static void check_tensor(run *r, const char *what, const lam_encode_opts *opts, double tolerance,
                         bool unit)
{
    size_t rows, columns, got_rows;
    double *want = expected_read(r->want, r->request_name, what, &rows, &columns);
    if (want == NULL) return;
    const char *isa = lam_isa_name(r->isa);
    float *got = encode(r, opts, NULL, &got_rows);
    if (check(&r->tally, got != NULL && rows == got_rows && columns == opts->dimensions,
              "%s/%s/%s %s: failed or wrong shape", r->name, r->request_name, what, isa)) {
        const double worst = largest_difference(got, want, rows * columns);
        if (!unit) tolerance = fmax(tolerance, ROUNDING * largest(want, rows * columns));
        check(&r->tally, worst <= tolerance, "%s/%s/%s %s: differs by %.3g, tolerance %.3g",
              r->name, r->request_name, what, isa, worst, tolerance);
        double *kept = unit ? &r->worst_unit : &r->worst_rows;
        if (!(worst <= *kept)) *kept = worst;
        for (size_t i = 0; unit && i < rows; i++) {
            const double gap = cosine_gap(got + i * columns, want + i * columns, columns);
            check(&r->tally, gap <= 1e-10, "%s/%s/%s %s: item %zu: cosine gap %.3g", r->name,
                  r->request_name, what, isa, i, gap);
            if (!(gap <= r->worst_gap)) r->worst_gap = gap;
        }
    }
    free(got);
    free(want);
}

static double error_of(const json_t *request, const char *key)
{
    return json_number_value(json_object_get(json_object_get(request, "float32_error"), key));
}

static void check_poolings(run *r)
{
    static const struct {
        const char *what;
        lam_pool pool;
    } poolings[] = {{"mean", LAM_POOL_MEAN},
                    {"cls", LAM_POOL_CLS},
                    {"max", LAM_POOL_MAX},
                    {"lasttoken", LAM_POOL_LAST},
                    {"mean_sqrt_len", LAM_POOL_MEAN_SQRT_LEN},
                    {"weightedmean", LAM_POOL_WEIGHTED},
                    {"last", LAM_POOL_NONE}};
    lam_encode_opts opts = lam_encode_opts_default(r->model);
    size_t longest = 1;
    for (size_t i = 0; i < r->count; i++)
        if (r->items[i].rows > longest) longest = r->items[i].rows;
    opts.normalize = false;
    for (size_t i = 0; i < COUNT(poolings); i++) {
        opts.pool = poolings[i].pool;
        /* this one grows with the root of the length */
        const double scale = opts.pool == LAM_POOL_MEAN_SQRT_LEN ? sqrt((double)longest) : 1.0;
        check_tensor(r, poolings[i].what, &opts, r->rows_tolerance * scale, false);
    }
    opts = lam_encode_opts_default(r->model);
    opts.normalize = true;
    check_tensor(r, "normalized", &opts, 1e-6, true);
}

/* The rows of each item have the same bits alone as in the request's batch. */
static void check_alone(run *r)
{
    lam_encode_opts opts = lam_encode_opts_default(r->model);
    lam_item *items = r->items;
    const size_t count = r->count;
    size_t rows, alone;
    opts.pool = LAM_POOL_NONE;
    opts.normalize = false;
    float *together = encode(r, &opts, NULL, &rows);
    for (size_t i = 0, at = 0; together && i < count; i++) {
        r->items = &items[i];
        r->count = 1;
        float *one = encode(r, &opts, NULL, &alone);
        check(&r->tally,
              one && memcmp(one, together + at, alone * opts.dimensions * sizeof *one) == 0,
              "%s/%s %s: item %zu has other bits alone", r->name, r->request_name,
              lam_isa_name(r->isa), i);
        at += alone * opts.dimensions;
        free(one);
    }
    r->items = items;
    r->count = count;
    check(&r->tally, together != NULL, "%s/%s: failed", r->name, r->request_name);
    free(together);
}

static void check_hidden(run *r)
{
    const size_t layers = lam_model_get_info(r->model)->layers;
    lam_encode_opts opts = lam_encode_opts_default(r->model);
    opts.pool = LAM_POOL_NONE;
    opts.normalize = false;
    for (size_t i = 0; i <= layers; i++) {
        char what[32];
        snprintf(what, sizeof what, "hidden.%zu", i);
        opts.output_layer = i;
        check_tensor(r, what, &opts, r->rows_tolerance, false);
    }
}

/* ---- Statistics -------------------------------------------------------------------------------
 */

static double field(const json_t *site, const char *key)
{
    const json_t *v = json_object_get(site, key);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static bool near(double got, double want, double tolerance)
{
    return isnan(want) ? isnan(got) : fabs(got - want) <= tolerance;
}

/* The order of two channels is only settled where float32 can tell them apart. */
static bool channels_agree(const json_t *site, const lam_site_stats *s)
{
    const json_t *want = json_object_get(site, "channels");
    if (want == NULL) return true;
    if (json_array_size(want) != s->channel_count) return false;
    for (size_t i = 0; i < s->channel_count; i++) {
        const double rms = field(json_array_get(want, i), "rms");
        if (!near(s->channels[i].rms, rms, 2e-5 * rms)) return false;
        const double after = field(json_array_get(want, i + 1), "rms");
        const double before = i > 0 ? field(json_array_get(want, i - 1), "rms") : (double)INFINITY;
        const bool settled =
            i + 1 < s->channel_count && before - rms > 1e-4 * rms && rms - after > 1e-4 * rms;
        if (settled && (double)s->channels[i].index != field(json_array_get(want, i), "index"))
            return false;
    }
    return true;
}

static bool site_agrees(const json_t *site, const lam_site_stats *s)
{
    const double extreme = 2e-5 * fmax(fabs(field(site, "min")), fabs(field(site, "max")));
    bool ok = (double)s->tokens == field(site, "tokens") &&
              (double)s->nonfinite == field(site, "nonfinite");
    ok &= near(s->mean, field(site, "mean"), 2e-6 * field(site, "rms"));
    ok &= near(s->min, field(site, "min"), extreme) && near(s->max, field(site, "max"), extreme);
    ok &= near(s->variance, field(site, "variance"), 2e-5 * field(site, "variance"));
    ok &= near(s->rms, field(site, "rms"), 2e-5 * field(site, "rms"));
    ok &= near(s->kurtosis, field(site, "kurtosis"), 2e-5 * fabs(field(site, "kurtosis")));
    return ok && channels_agree(site, s);
}

/* `item` SIZE_MAX: the whole request. */
static void check_sites(run *r, const lam_stats *stats, size_t item, size_t layer, json_t *sites)
{
    const char *name;
    json_t *want;
    json_object_foreach(sites, name, want)
    {
        lam_site site = LAM_SITE_COUNT;
        lam_site_stats got = {0};
        bool there = lam_site_parse(name, strlen(name), &site);
        if (there && item == SIZE_MAX)
            there = lam_stats_read(stats, layer, site, &got);
        else if (there)
            there = lam_stats_read_item(stats, item, layer, site, &got);
        check(&r->tally, there && site_agrees(want, &got),
              "%s/%s %s: statistics of %s, layer %zd, item %zd: mean %.9g var %.9g kurtosis %.9g",
              r->name, r->request_name, lam_isa_name(r->isa), name, (ssize_t)layer, (ssize_t)item,
              got.mean, got.variance, got.kurtosis);
    }
}

/* Shares of values may be off by two of them that rounding moves over the edge. */
static bool value_agrees(const run *r, lam_layer_value which, double got, double want, size_t rows)
{
    const bool is_share = which == LAM_LAYER_GELU_NEGATIVE || which == LAM_LAYER_GELU_POSITIVE;
    const double values = (double)(rows * lam_model_get_info(r->model)->ffn_width);
    return near(got, want, 2e-5 * fabs(want) + (is_share ? 2.0 / values : 0.0));
}

static size_t rows_of(const run *r, size_t item)
{
    size_t rows = 0;
    for (size_t i = 0; i < r->count; i++)
        if (item == SIZE_MAX || item == i) rows += r->items[i].rows;
    return rows;
}

/* What level full says of a layer, where the references have it. */
static void check_layer(run *r, const lam_stats *stats, size_t item, size_t layer,
                        const json_t *want)
{
    lam_layer_stats got = {0};
    if (!json_object_get(want, "layer_cosine")) return;
    const bool there = item == SIZE_MAX ? lam_stats_read_layer(stats, layer, &got)
                                        : lam_stats_read_item_layer(stats, item, layer, &got);
    if (!check(&r->tally, there, "%s/%s: level full, layer %zu", r->name, r->request_name, layer))
        return;
    for (int i = 0; i < LAM_LAYER_VALUE_COUNT; i++) {
        const char *name = lam_layer_value_name((lam_layer_value)i);
        const double value = field(want, name);
        if (!json_object_get(want, name)) continue; /* our own: tests/unit/core */
        check(&r->tally,
              value_agrees(r, (lam_layer_value)i, got.values[i], value, rows_of(r, item)),
              "%s/%s %s: layer %zu, item %zd: %s is %.9g, not %.9g", r->name, r->request_name,
              lam_isa_name(r->isa), layer, (ssize_t)item, name, got.values[i], value);
    }
    for (int i = 0; i < LAM_HEAD_VALUE_COUNT; i++) {
        const char *name = lam_head_value_name((lam_head_value)i);
        const json_t *list = json_object_get(want, name);
        bool ok = json_array_size(list) == got.heads;
        for (size_t h = 0; ok && h < got.heads; h++) {
            const double value = json_number_value(json_array_get(list, h));
            ok = near(got.head_values[i][h], value, 2e-5 * fabs(value));
        }
        check(&r->tally, ok, "%s/%s %s: layer %zu, item %zd: %s", r->name, r->request_name,
              lam_isa_name(r->isa), layer, (ssize_t)item, name);
    }
}

static void check_all_sites(run *r, const lam_stats *stats, size_t item, const json_t *want)
{
    size_t i;
    json_t *layer;
    check_sites(r, stats, item, LAM_LAYER_NONE, json_object_get(want, "sites"));
    json_array_foreach(json_object_get(want, "layers"), i, layer)
    {
        const size_t number = (size_t)json_integer_value(json_object_get(layer, "layer"));
        check_sites(r, stats, item, number, json_object_get(layer, "sites"));
        check_layer(r, stats, item, number, layer);
    }
}

static void check_statistics(run *r)
{
    const json_t *want = json_object_get(r->request, "statistics");
    const json_t *per_item = json_object_get(r->request, "statistics_per_item");
    const lam_stats_opts o = {.level = LAM_STATS_FULL,
                              .per_item = json_array_size(per_item),
                              .max_rows = rows_of(r, SIZE_MAX)};
    lam_encode_opts opts = lam_encode_opts_default(r->model);
    lam_arena arena;
    lam_stats *stats = NULL;
    size_t rows, i;
    json_t *one;
    if (want == NULL) return;
    lam_arena_init(&arena, 64 << 20);
    float *out = NULL;
    if (lam_stats_new(&stats, &arena, r->model, &o, NULL) == LAM_OK)
        out = encode(r, &opts, stats, &rows);
    if (check(&r->tally, out != NULL, "%s/%s: statistics: failed", r->name, r->request_name)) {
        check_all_sites(r, stats, SIZE_MAX, want);
        json_array_foreach(per_item, i, one)
        {
            check_all_sites(r, stats, i, one);
        }
    }
    free(out);
    lam_arena_fini(&arena);
}

/* ---- Directories ------------------------------------------------------------------------------
 */

static void check_family_request(run *r)
{
    r->rows_tolerance = fmax(2e-6, 4.0 * error_of(r->request, "last_max_abs"));
    check_poolings(r);
    check_alone(r);
    check_hidden(r);
    check_statistics(r);
}

/* What a user of the directory gets: its own pooling and scaling; cut vectors are scaled again. */
static void check_sentence_request(run *r)
{
    lam_encode_opts opts = lam_encode_opts_default(r->model);
    check_tensor(r, "embedding", &opts, opts.normalize ? 1e-6 : 4e-6, opts.normalize);
    opts.normalize = false;
    check_tensor(r, "pooled", &opts, 4e-6, false);
    opts.normalize = true;
    opts.dimensions = 8;
    check_tensor(r, "embedding.8", &opts, 1e-6, true);
    opts.dimensions = 16;
    check_tensor(r, "embedding.16", &opts, 1e-6, true);
}

static void check_requests(run *r, const char *data, void (*check_request)(run *))
{
    char path[1024];
    size_t i;
    json_t *request;
    expected want;
    lam_err err;
    snprintf(path, sizeof path, "%s/cases.json", data);
    json_t *cases = load_json(path);
    if (!check(&r->tally, expected_open(&want, data, &err), "%s: %s: %s", data, err.where,
               err.message)) {
        json_decref(cases);
        return;
    }
    r->want = &want;
    json_array_foreach(json_object_get(cases, "requests"), i, request)
    {
        r->request = request;
        r->request_name = json_string_value(json_object_get(request, "name"));
        if (make_items(r)) check_request(r);
        free_items(r);
    }
    expected_close(&want);
    json_decref(cases);
}

static void check_directory(run *r, const char *name, const char *model, const char *data,
                            void (*check_request)(run *))
{
    r->name = name;
    for (int isa = 0; isa < LAM_ISA_COUNT; isa++) {
        lam_open_opts opts = lam_open_opts_default();
        lam_err err = {0};
        if (!lam_cpu_supports((lam_isa)isa)) continue;
        opts.isa = r->isa = (lam_isa)isa;
        r->worst_rows = r->worst_unit = r->worst_gap = 0.0;
        lam_status s = lam_import_model(&r->model, model, &opts, &err);
        if (!check(&r->tally, s == LAM_OK, "%s: %s: %s", model, err.where, err.message)) continue;
        s = lam_ctx_new(&r->ctx, r->model, lam_model_get_info(r->model)->positions * 2, &err);
        if (check(&r->tally, s == LAM_OK, "%s: %s", model, err.message)) {
            check_requests(r, data, check_request);
            lam_ctx_free(r->ctx);
        }
        lam_model_close(r->model);
        printf("%-20s %-6s rows %.2e, unit vectors %.2e, cosine gap %.2e\n", name,
               lam_isa_name(r->isa), r->worst_rows, r->worst_unit, r->worst_gap);
    }
}

static void check_real_request(run *r)
{
    lam_encode_opts opts = lam_encode_opts_default(r->model);
    r->rows_tolerance = fmax(2e-6, 4.0 * error_of(r->request, "last_max_abs"));
    check_tensor(r, "normalized", &opts, 1e-6, true);
    check_hidden(r);
    check_statistics(r);
}

static void check_real(run *r, const char *data, const char *model)
{
    char path[1024], cases_path[1100];
    snprintf(path, sizeof path, "%s/all-MiniLM-L6-v2", data);
    snprintf(cases_path, sizeof cases_path, "%s/cases.json", path);
    if (access(model, R_OK) != 0) {
        printf("%s is not there: the real model is left out\n", model);
        return;
    }
    check_directory(r, "all-MiniLM-L6-v2", model, path, check_real_request);
    json_t *cases = load_json(cases_path);
    const json_t *torch = json_object_get(cases, "float32_error_worst");
    const double unit = field(torch, "normalized_max_abs");
    printf("%-20s torch  rows %.2e, unit vectors %.2e, cosine gap %.2e\n", "",
           field(torch, "last_max_abs"), unit, field(torch, "cosine_gap"));
    check(&r->tally, r->worst_unit <= 2.0 * unit,
          "%s: unit vectors differ by %.3g, twice torch's %.3g", model, r->worst_unit, unit);
    json_decref(cases);
}

/* Buckets of distances as the families' own code counts them. */
static void check_buckets(run *r, const char *data)
{
    static const struct {
        const char *name;
        size_t buckets, farthest;
    } tables[] = {{"mpnet", 32, 128}, {"t5_32_128", 32, 128}, {"t5_8_20", 8, 20}};
    char path[1024];
    snprintf(path, sizeof path, "%s/buckets.json", data);
    json_t *j = load_json(path);
    const json_int_t first = json_integer_value(json_object_get(j, "first_distance"));
    for (size_t i = 0; i < COUNT(tables); i++) {
        const json_t *list = json_object_get(j, tables[i].name);
        bool ok = json_array_size(list) > 1000;
        for (size_t k = 0; k < json_array_size(list); k++)
            ok &= lam__bias_bucket((ptrdiff_t)first + (ptrdiff_t)k, tables[i].buckets,
                                   tables[i].farthest) ==
                  (size_t)json_integer_value(json_array_get(list, k));
        check(&r->tally, ok, "buckets of %s", tables[i].name);
    }
    json_decref(j);
}

int main(int argc, char **argv)
{
    const char *data = argc > 1 ? argv[1] : "tests/data/models";
    const char *real = argc > 2 ? argv[2] : getenv("LAMINA_MODEL");
    char path[1024];
    run r = {0};
    for (size_t i = 0; i < COUNT(families); i++) {
        snprintf(path, sizeof path, "%s/families/%s", data, families[i]);
        check_directory(&r, families[i], path, path, check_family_request);
    }
    for (size_t i = 0; i < COUNT(sentences); i++) {
        snprintf(path, sizeof path, "%s/families/%s", data, sentences[i]);
        check_directory(&r, sentences[i], path, path, check_sentence_request);
    }
    for (size_t i = 0; i < COUNT(refused); i++) {
        const lam_open_opts opts = lam_open_opts_default();
        lam_err err = {0};
        lam_model *m;
        snprintf(path, sizeof path, "%s/families/%s", data, refused[i]);
        const lam_status s = lam_import_model(&m, path, &opts, &err);
        check(&r.tally, s == LAM_E_UNSUPPORTED && strstr(err.message, "Dense"), "%s: %s", path,
              err.message);
        if (s == LAM_OK) lam_model_close(m);
    }
    check_buckets(&r, data);
    check_real(&r, data, real != NULL ? real : "models/all-MiniLM-L6-v2");
    return report(&r.tally);
}
