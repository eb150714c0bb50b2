/* Every kind of norm, placement and source of statistics against float64 references: embeddings,
 * the tensor of every site and its statistics, on each instruction set, fused and not, with and
 * without each set of folds. Items alone
 * must give the bits they have in company, unless their norm is defined by that company.
 *
 * check_norms [DATA]: DATA is tests/data/norms. Tolerances are those that the references state.
 * Prints the largest error of each case, in tolerances. */
#include <dirent.h>

#include "core/stats/stats.h"
#include "tests/golden/norm_case.h"

typedef struct run {
    tally tally;
    norm_case c;
    lam_isa isa;
    lam_model *model;
    lam_ctx *ctx;
    double statistics_tolerance;
    double worst_embedding, worst_site, worst_statistic; /* of the case, in tolerances */
    double worst_folded;                                 /* the embeddings of folded models */
    size_t taken, refused;                               /* folds, all being allowed */
    float **seen;                                        /* [slots]: the rows of each site */
    size_t *seen_rows;
} run;

static void keep_worst(double *worst, double now)
{
    if (!(now <= *worst)) *worst = now;
}

/* ---- Sites ---- */

static void see(void *arg, size_t slot, const float *x, size_t stride, size_t rows)
{
    run *r = arg;
    const size_t width = r->model->program.slot_widths[slot];
    free(r->seen[slot]);
    r->seen[slot] = must(malloc(rows * width * sizeof(float) + 1));
    r->seen_rows[slot] = rows;
    for (size_t i = 0; i < rows; i++)
        memcpy(r->seen[slot] + i * width, x + i * stride, width * sizeof(float));
}

static void check_site(run *r, const char *request, size_t layer, const char *site_name,
                       const char *tensor)
{
    const size_t layers = lam_model_get_info(r->model)->layers;
    lam_site site = LAM_SITE_COUNT;
    size_t rows = 0, columns = 0;
    double *want = case_expected(&r->c, tensor, &rows, &columns);
    const bool known = lam_site_parse(site_name, strlen(site_name), &site);
    const size_t slot =
        known ? lam_program_slot(&r->model->program, layers, layer, site) : LAM_SLOT_NONE;
    const bool fits = want && slot != LAM_SLOT_NONE && r->seen_rows[slot] == rows &&
                      r->model->program.slot_widths[slot] == columns;
    if (check(&r->tally, fits, "%s/%s: no tensor of %s, layer %zd", r->c.name, request, site_name,
              (ssize_t)layer)) {
        const double off =
            relative_error(r->seen[slot], columns, want, rows, columns) / r->c.relative;
        keep_worst(&r->worst_site, off);
        check(&r->tally, off <= 1.0, "%s/%s %s: %s, layer %zd is off by %.3g tolerances", r->c.name,
              request, lam_isa_name(r->isa), site_name, (ssize_t)layer, off);
    }
    free(want);
}

static void check_sites(run *r, const norm_request *q)
{
    const json_t *sites = json_object_get(q->expect, "sites");
    const char *name;
    json_t *tensor, *layer;
    size_t i;
    if (!json_is_object(sites)) return;
    json_object_foreach((json_t *)sites, name, tensor)
    {
        if (json_is_string(tensor))
            check_site(r, q->name, LAM_LAYER_NONE, name, json_string_value(tensor));
    }
    json_array_foreach(json_object_get(sites, "layers"), i, layer)
    {
        json_object_foreach(layer, name, tensor)
        {
            check_site(r, q->name, i, name, json_string_value(tensor));
        }
    }
}

/* ---- Statistics ---- */

static void check_number(run *r, const char *request, const char *site, const char *what,
                         const json_t *want, double got)
{
    if (json_is_null(want)) {
        check(&r->tally, isnan(got), "%s/%s: %s of %s is %g, not null", r->c.name, request, what,
              site, got);
        return;
    }
    const double w = json_number_value(want);
    const double off = fabs(got - w) / fmax(1.0, fabs(w)) / r->statistics_tolerance;
    keep_worst(&r->worst_statistic, off);
    check(&r->tally, off <= 1.0, "%s/%s %s: %s of %s is %.12g, not %.12g: %.3g tolerances",
          r->c.name, request, lam_isa_name(r->isa), what, site, got, w, off);
}

static void check_summary(run *r, const char *request, const char *name, const json_t *want,
                          const lam_site_stats *got)
{
    const struct {
        const char *name;
        double value;
    } rows[] = {{"tokens", (double)got->tokens},
                {"mean", got->mean},
                {"variance", got->variance},
                {"rms", got->rms},
                {"min", got->min},
                {"max", got->max},
                {"kurtosis", got->kurtosis},
                {"nonfinite", (double)got->nonfinite}};
    const json_t *channels = json_object_get(want, "channels");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_number(r, request, name, rows[i].name, json_object_get(want, rows[i].name),
                     rows[i].value);
    for (size_t i = 0; i < json_array_size(channels); i++) {
        const json_t *channel = json_array_get(channels, i);
        check_number(r, request, name, "channel", json_object_get(channel, "index"),
                     (double)got->channels[i].index);
        check_number(r, request, name, "channel's rms", json_object_get(channel, "rms"),
                     got->channels[i].rms);
    }
}

static const lam_op *norm_at(const run *r, size_t layer, lam_site site)
{
    const lam_program *p = &r->model->program;
    const size_t slot = lam_program_slot(p, lam_model_get_info(r->model)->layers, layer, site);
    for (size_t i = 0; i < p->op_count; i++)
        if (p->ops[i].kind == LAM_OP_NORM && p->ops[i].slot == slot) return &p->ops[i];
    return NULL;
}

/* From the other end: outputs (y - bias) / gain beyond 0.95. Rounding may move two of them. */
static void check_saturation(run *r, const norm_request *q, size_t layer, lam_site site, double got)
{
    const lam_op *op = norm_at(r, layer, site);
    if (!op) return; /* embedding and final have their slots on taps */
    const size_t width = r->model->program.slot_widths[op->slot], rows = r->seen_rows[op->slot];
    const float *gain =
        lam_program_weight(&r->model->program, op->u.norm.tensors[LAM_NORM_TENSOR_GAIN]);
    const float *bias =
        lam_program_weight(&r->model->program, op->u.norm.tensors[LAM_NORM_TENSOR_BIAS]);
    double beyond = 0.0;
    for (size_t i = 0; i < rows * width; i++) {
        const size_t c = i % width;
        beyond += fabs(((double)r->seen[op->slot][i] - (double)bias[c]) / (double)gain[c]) > 0.95;
    }
    const double n = (double)(rows * width);
    check(&r->tally, fabs(got * n - beyond) <= 2.0,
          "%s/%s %s: saturation of %s, layer %zd is %.6g, not %.6g", r->c.name, q->name,
          lam_isa_name(r->isa), lam_site_name(site), (ssize_t)layer, got, beyond / n);
}

static void check_population(run *r, const norm_request *q, const lam_stats *stats, size_t layer,
                             lam_site site, const json_t *want)
{
    lam_population_stats got = {0};
    const bool there = lam_stats_read_population(stats, layer, site, &got);
    if (there && got.form == LAM_POPULATION_OF_SQUASHED) {
        check_saturation(r, q, layer, site, got.values[LAM_POPULATION_SATURATION]);
        return;
    }
    if (!check(&r->tally, there == (want != NULL), "%s/%s: population of %s, layer %zd is %s",
               r->c.name, q->name, lam_site_name(site), (ssize_t)layer, there ? "there" : "not"))
        return;
    for (int i = 0; there && i < LAM_POPULATION_VALUE_COUNT; i++) {
        const char *name = lam_population_value_name((lam_population_value)i);
        const json_t *value = json_object_get(want, name);
        if (value) check_number(r, q->name, "a population", name, value, got.values[i]);
        check(&r->tally, (value != NULL) == !isnan(got.values[i]), "%s/%s: %s", r->c.name, q->name,
              name);
    }
}

static void check_statistics_of(run *r, const norm_request *q, const lam_stats *stats, size_t layer,
                                json_t *sites)
{
    const char *name;
    json_t *want;
    const bool full = strcmp(q->name, "taps") == 0; /* the request that has its level full */
    json_object_foreach(sites, name, want)
    {
        lam_site site = LAM_SITE_COUNT;
        lam_site_stats got = {0};
        const bool there =
            lam_site_parse(name, strlen(name), &site) && lam_stats_read(stats, layer, site, &got);
        if (!check(&r->tally, there, "%s/%s: no statistics of %s", r->c.name, q->name, name))
            continue;
        check_summary(r, q->name, name, want, &got);
        if (full) check_population(r, q, stats, layer, site, json_object_get(want, "population"));
    }
}

/* Level full of a layer; `item` SIZE_MAX: of the whole request. */
static void check_layer(run *r, const norm_request *q, const lam_stats *stats, size_t item,
                        const json_t *want)
{
    const size_t layer = (size_t)json_integer_value(json_object_get(want, "layer"));
    lam_layer_stats got = {0};
    if (!json_object_get(want, "layer_cosine")) return;
    const bool there = item == SIZE_MAX ? lam_stats_read_layer(stats, layer, &got)
                                        : lam_stats_read_item_layer(stats, item, layer, &got);
    if (!check(&r->tally, there, "%s/%s: no level full of layer %zu", r->c.name, q->name, layer))
        return;
    for (int i = 0; i < LAM_LAYER_VALUE_COUNT; i++) {
        const char *name = lam_layer_value_name((lam_layer_value)i);
        const json_t *value = json_object_get(want, name);
        if (value) check_number(r, q->name, "a layer", name, value, got.values[i]);
    }
    for (int i = 0; i < LAM_HEAD_VALUE_COUNT; i++) {
        const char *name = lam_head_value_name((lam_head_value)i);
        const json_t *list = json_object_get(want, name);
        for (size_t h = 0; h < got.heads; h++)
            check_number(r, q->name, "a head", name, json_array_get(list, h),
                         got.head_values[i][h]);
    }
}

static void check_items(run *r, const norm_request *q, const lam_stats *stats)
{
    size_t i, k;
    json_t *item, *layer;
    json_array_foreach(json_object_get(q->expect, "items"), i, item)
    {
        json_array_foreach(json_object_get(item, "layers"), k, layer)
        {
            check_layer(r, q, stats, i, layer);
        }
    }
}

/* All items of the request share them; NULL: they could not be made. */
static lam_stats *ask_statistics(const run *r, norm_request *q, lam_stats_level level,
                                 lam_arena *arena)
{
    lam_stats_opts o = {.level = level, .per_item = q->count};
    lam_stats *stats = NULL;
    for (size_t i = 0; i < q->count; i++)
        o.max_rows += q->items[i].rows;
    if (lam_stats_new(&stats, arena, r->model, &o, NULL) != LAM_OK) return NULL;
    for (size_t i = 0; i < q->count; i++)
        q->items[i].stats = stats;
    return stats;
}

static void check_statistics(run *r, norm_request *q)
{
    const json_t *want = json_object_get(q->expect, "statistics");
    lam_arena arena;
    json_t *layer;
    size_t i;
    if (!want) return;
    lam_arena_init(&arena, 16 << 20);
    const lam_stats *stats = ask_statistics(r, q, LAM_STATS_FULL, &arena);
    const bool ok = stats && request_run(q, r->ctx);
    if (check(&r->tally, ok, "%s/%s: no statistics", r->c.name, q->name)) {
        check_statistics_of(r, q, stats, LAM_LAYER_NONE, json_object_get(want, "sites"));
        json_array_foreach(json_object_get(want, "layers"), i, layer)
        {
            check_statistics_of(r, q, stats,
                                (size_t)json_integer_value(json_object_get(layer, "layer")),
                                json_object_get(layer, "sites"));
            check_layer(r, q, stats, SIZE_MAX, layer);
        }
        check_items(r, q, stats);
    }
    for (i = 0; i < q->count; i++)
        q->items[i].stats = NULL;
    lam_arena_fini(&arena);
}

/* ---- Requests ---- */

/* Some norm looks beyond the item. */
static bool sees_others(const run *r, const norm_request *q)
{
    return lam_opts_batch_dependent(r->model, &q->opts);
}

/* Each item once more, by itself. */
static void check_alone(run *r, norm_request *q)
{
    const size_t floats = q->out_rows * q->width;
    float *together = must(malloc(floats * sizeof *together + 1));
    memcpy(together, q->out, floats * sizeof *together);
    bool ok = true;
    for (size_t i = q->count; i-- > 0;)
        ok &= lam_encode(r->ctx, &q->items[i], 1, NULL) == LAM_OK;
    const bool same = memcmp(together, q->out, floats * sizeof *together) == 0;
    if (sees_others(r, q))
        check(&r->tally, ok && (!same || q->count == 1), "%s/%s %s: company does not matter",
              r->c.name, q->name, lam_isa_name(r->isa));
    else
        check(&r->tally, ok && same, "%s/%s %s: items alone have other bits", r->c.name, q->name,
              lam_isa_name(r->isa));
    free(together);
}

/* Another request in the same call, before and behind, on each source that the model has and with
 * statistics of another level: the bits stay. */
static void check_neighbours(run *r, norm_request *q, const json_t *json)
{
    const size_t floats = q->out_rows * q->width;
    float *apart = must(malloc(floats * sizeof *apart + 1));
    bool ok = request_run(q, r->ctx);
    memcpy(apart, q->out, floats * sizeof *apart);
    for (int source = 0; source < LAM_NORM_FROM_COUNT; source++) {
        norm_request other;
        bool open = request_open(&other, r->model, json);
        other.opts.statistics = (lam_norm_source)source;
        open = open && lam_encode_opts_check(r->model, &other.opts, NULL) == LAM_OK;
        for (int order = 0; open && order < 2; order++) {
            const size_t mine = order ? 0 : other.count, theirs = order ? q->count : 0;
            lam_arena arena;
            lam_arena_init(&arena, 16 << 20);
            ok &= ask_statistics(r, q, order ? LAM_STATS_FULL : LAM_STATS_SUMMARY, &arena) != NULL;
            ok &= ask_statistics(r, &other, order ? LAM_STATS_SUMMARY : LAM_STATS_FULL, &arena) !=
                  NULL;
            lam_item *items = must(calloc(q->count + other.count, sizeof *items));
            memcpy(items + theirs, other.items, other.count * sizeof *items);
            memcpy(items + mine, q->items, q->count * sizeof *items);
            memset(q->out, 0, floats * sizeof *q->out);
            ok &= lam_encode(r->ctx, items, q->count + other.count, NULL) == LAM_OK;
            ok &= memcmp(apart, q->out, floats * sizeof *apart) == 0;
            free(items);
            lam_arena_fini(&arena);
        }
        request_close(&other);
    }
    for (size_t i = 0; i < q->count; i++)
        q->items[i].stats = NULL;
    check(&r->tally, ok, "%s/%s %s: another request changes bits", r->c.name, q->name,
          lam_isa_name(r->isa));
    free(apart);
}

static void check_embeddings(run *r, const norm_request *q)
{
    const char *name = json_string_value(json_object_get(q->expect, "embeddings"));
    size_t rows = 0, columns = 0;
    double *want = case_expected(&r->c, name, &rows, &columns);
    if (check(&r->tally, want && rows == q->out_rows && columns == q->width,
              "%s/%s: embeddings have another shape", r->c.name, q->name)) {
        const double off = relative_error(q->out, columns, want, rows, columns) / r->c.relative;
        keep_worst(r->model->program.folded ? &r->worst_folded : &r->worst_embedding, off);
        check(&r->tally, off <= 1.0, "%s/%s %s: embeddings are off by %.3g tolerances", r->c.name,
              q->name, lam_isa_name(r->isa), off);
    }
    free(want);
}

/* Whoever asks for statistics gets the same vectors. */
static void check_undisturbed(run *r, norm_request *q)
{
    const size_t floats = q->out_rows * q->width;
    float *before = must(malloc(floats * sizeof *before + 1));
    memcpy(before, q->out, floats * sizeof *before);
    check_statistics(r, q);
    check(&r->tally, memcmp(before, q->out, floats * sizeof *before) == 0,
          "%s/%s %s: statistics change the vectors", r->c.name, q->name, lam_isa_name(r->isa));
    free(before);
}

static void check_request(run *r, const json_t *json)
{
    norm_request q = {0};
    const lam_watch watch = {.see = see, .arg = r};
    const bool open = request_open(&q, r->model, json);
    if (!check(&r->tally, open, "%s/%s: refused", r->c.name, q.name)) {
        request_close(&q);
        return;
    }
    lam__ctx_watch(r->ctx, &watch);
    bool ok = request_run(&q, r->ctx);
    lam__ctx_watch(r->ctx, NULL);
    check_sites(r, &q);
    ok = request_run(&q, r->ctx) && ok;
    if (check(&r->tally, ok, "%s/%s %s: an item failed", r->c.name, q.name, lam_isa_name(r->isa)))
        check_embeddings(r, &q);
    check(&r->tally,
          sees_others(r, &q) == json_is_true(json_object_get(q.expect, "batch_dependent")),
          "%s/%s: wrong batch_dependent", r->c.name, q.name);
    check_undisturbed(r, &q);
    check_neighbours(r, &q, json_array_get(json_object_get(r->c.cases, "requests"), 0));
    check_alone(r, &q);
    request_close(&q);
}

static void check_model(run *r)
{
    size_t i;
    json_t *request;
    const size_t slots = r->model->program.slot_count;
    r->seen = must(calloc(slots, sizeof *r->seen));
    r->seen_rows = must(calloc(slots, sizeof *r->seen_rows));
    json_array_foreach(json_object_get(r->c.cases, "requests"), i, request)
    {
        check_request(r, request);
    }
    for (i = 0; i < slots; i++)
        free(r->seen[i]);
    free(r->seen);
    free(r->seen_rows);
}

static void count_folds(run *r)
{
    lam_fold_view v;
    r->taken = r->refused = 0;
    for (size_t i = 0; lam_model_fold(r->model, i, &v); i++)
        *(v.taken ? &r->taken : &r->refused) += 1;
    check(&r->tally, (r->taken > 0) == (r->model->program.folded != NULL),
          "%s: %zu folds taken, and the list says otherwise", r->c.name, r->taken);
}

static void check_isa(run *r, lam_isa isa, bool fuse, unsigned folds)
{
    lam_err err = {0};
    r->isa = isa;
    r->c.folds = folds;
    if (!check(&r->tally, case_compile(&r->c, NULL, NULL, isa, fuse, &r->model, &err) == LAM_OK,
               "%s: %s: %s", r->c.name, err.where, err.message))
        return;
    if (check(&r->tally, lam_ctx_new(&r->ctx, r->model, 256, &err) == LAM_OK, "%s: %s", r->c.name,
              err.message)) {
        count_folds(r);
        check_model(r);
        lam_ctx_free(r->ctx);
    }
    lam_model_close(r->model);
}

static void check_case(run *r, const char *data, const char *name)
{
    lam_err err = {0};
    if (!check(&r->tally, case_open(&r->c, data, name, &err), "%s: %s: %s", name, err.where,
               err.message))
        return;
    const json_t *tolerance = json_object_get(r->c.cases, "tolerance");
    r->statistics_tolerance = json_number_value(json_object_get(tolerance, "statistics"));
    r->worst_embedding = r->worst_site = r->worst_statistic = r->worst_folded = 0.0;
    for (int isa = 0; isa < LAM_ISA_COUNT; isa++) {
        if (!lam_cpu_supports((lam_isa)isa)) continue;
        check_isa(r, (lam_isa)isa, true, LAM_FOLDS_NONE);
        check_isa(r, (lam_isa)isa, false, LAM_FOLDS_DEFAULT);
        check_isa(r, (lam_isa)isa, true, LAM_FOLDS_ALL);
    }
    printf("%-26s %8.1e %8.2f %8.2f %8.2f %8.2f %5zu %7zu\n", name, r->c.relative,
           r->worst_embedding, r->worst_folded, r->worst_site, r->worst_statistic, r->taken,
           r->refused);
    case_close(&r->c);
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    const char *data = argc > 1 ? argv[1] : "tests/data/norms";
    run r = {0};
    struct dirent **names;
    const int count = scandir(data, &names, visible, alphasort);
    check(&r.tally, count >= 77, "%s holds only %d cases", data, count);
    printf("%-26s %8s %8s %8s %8s %8s %5s %7s   largest error in tolerances\n", "case", "relative",
           "vectors", "folded", "sites", "summary", "taken", "refused");
    for (int i = 0; i < count; i++) {
        check_case(&r, data, names[i]->d_name);
        free(names[i]);
    }
    if (count >= 0) free(names);
    return report(&r.tally);
}
