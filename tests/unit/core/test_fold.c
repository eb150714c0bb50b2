/* Folding norms into weights: every fold against the model without it, every reason to leave it,
 * and what a request sees of it. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/core/tiny_model.h"

enum { ITEMS = 4, TOKENS = 9 };

/* ---- Models ---------------------------------------------------------------------------------- */

typedef struct fold_weights {
    lam_weights base;
    const tiny_fault *fault; /* or NULL */
} fold_weights;

static lam_status read_weight(lam_weights *w, const lam_param *p, float *dst, lam_err *err)
{
    (void)err;
    const tiny_fault *f = ((fold_weights *)w)->fault;
    const size_t count = p->rank == 2 ? p->shape[0] * p->shape[1] : p->shape[0];
    const bool square = strcmp(p->name, lam_norm_tensor_name(LAM_NORM_TENSOR_SQUARE)) == 0;
    const bool gain = lam_module_is_norm(p->module) && strcmp(p->name, "weight") == 0;
    for (size_t i = 0; i < count; i++) {
        const float v = tiny_value(p->module, p->layer, p->name, i);
        /* Close to 1, so that rounding does not grow from layer to layer. */
        dst[i] = square ? 1.0f + v : gain ? 1.0f + fmodf(v, 0.4f) : 0.6f * v;
    }
    if (f && f->module == p->module && f->layer == p->layer && strcmp(f->name, p->name) == 0)
        dst[f->index] = f->value;
    return LAM_OK;
}

static bool has_weight(const lam_weights *w, lam_module module, size_t layer, const char *name)
{
    (void)w, (void)module, (void)layer, (void)name;
    return true;
}

static lam_norm_spec spec_of(lam_norm_kind kind)
{
    lam_norm_spec s = lam_norm_spec_default(kind);
    if (s.eps <= 0.0) s.eps = 1e-5;
    if (lam_norm_has_field(lam_norm_get_info(kind), LAM_NORM_FIELD_GROUPS) &&
        kind != LAM_NORM_BATCH)
        s.groups = 4;
    if (kind == LAM_NORM_GROUP) s.source = LAM_NORM_FROM_TOKEN;
    if (kind == LAM_NORM_INSTANCE) s.source = LAM_NORM_FROM_RUNNING;
    if (kind == LAM_NORM_PRMS) s.p = 0.5;
    return s;
}

/* All norms of one kind; no embedding, inner or final one. */
static lam_hparams hparams_of(lam_placement placement, lam_norm_kind kind)
{
    return (lam_hparams){.family = "bert",
                         .width = TINY_WIDTH,
                         .layers = TINY_LAYERS,
                         .heads = TINY_HEADS,
                         .ffn_width = TINY_FFN,
                         .vocab = TINY_VOCAB,
                         .types = TINY_TYPES,
                         .position_rows = TINY_POSITIONS,
                         .activation = LAM_ACTIVATION_GELU,
                         .placement = placement,
                         .attention_norm = spec_of(kind),
                         .ffn_norm = spec_of(kind),
                         .residual_scale = 1.0f};
}

static lam_model *compile(const lam_hparams *h, unsigned folds, const tiny_fault *fault)
{
    fold_weights weights = {.base = {read_weight, has_weight}, .fault = fault};
    const lam_parts parts = {.name = "fold",
                             .weight_dtype = "float32",
                             .hparams = *h,
                             .weights = &weights.base,
                             .head = {.pool = LAM_POOL_MEAN}};
    lam_open_opts opts = lam_open_opts_default();
    lam_model *m;
    opts.folds = folds;
    cr_assert_eq(lam_compile(&m, &parts, &opts, NULL), LAM_OK);
    return m;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

typedef struct batch {
    int32_t ids[ITEMS][TOKENS];
    float out[ITEMS][TOKENS * TINY_WIDTH];
    lam_encode_opts opts;
    lam_item items[ITEMS];
} batch;

static void prepare(batch *b, const lam_model *m)
{
    *b = (batch){.opts = lam_encode_opts_default(m)};
    b->opts.pool = LAM_POOL_NONE;
    for (size_t i = 0; i < ITEMS; i++) {
        for (size_t t = 0; t < TOKENS; t++)
            b->ids[i][t] = (int32_t)((i * 31 + t * 7 + t * t) % TINY_VOCAB);
        b->items[i] = (lam_item){
            .ids = b->ids[i], .tokens = TOKENS - i, .opts = &b->opts, .index = i, .out = b->out[i]};
    }
}

static void run(batch *b, const lam_model *m)
{
    lam_ctx *ctx;
    cr_assert_eq(lam_ctx_new(&ctx, m, 64, NULL), LAM_OK);
    cr_assert_eq(lam_encode_opts_check(m, &b->opts, NULL), LAM_OK);
    for (size_t i = 0; i < ITEMS; i++)
        cr_assert_eq(lam_item_check(m, &b->items[i], NULL, NULL), LAM_OK);
    cr_assert_eq(lam_encode(ctx, b->items, ITEMS, NULL), LAM_OK);
    for (size_t i = 0; i < ITEMS; i++)
        cr_assert_eq(b->items[i].status, LAM_OK);
    lam_ctx_free(ctx);
}

/* Largest difference, of the largest value of `want`. */
static double distance(const batch *want, const batch *got)
{
    double worst = 0.0, scale = 0.0;
    for (size_t i = 0; i < ITEMS; i++) {
        for (size_t k = 0; k < (TOKENS - i) * TINY_WIDTH; k++) {
            worst = fmax(worst, fabs((double)want->out[i][k] - (double)got->out[i][k]));
            scale = fmax(scale, fabs((double)want->out[i][k]));
        }
    }
    return worst / scale;
}

static bool same_bits(const batch *a, const batch *b)
{
    return memcmp(a->out, b->out, sizeof a->out) == 0;
}

/* ---- Folds ----------------------------------------------------------------------------------- */

static size_t count_taken(const lam_model *m, lam_fold fold)
{
    size_t n = 0;
    lam_fold_view v;
    for (size_t i = 0; lam_model_fold(m, i, &v); i++)
        n += v.taken && v.fold == fold;
    return n;
}

static size_t count_norms(const lam_model *m)
{
    const lam_program *p = lam_model_program(m)->folded;
    size_t n = 0;
    for (size_t i = 0; i < p->op_count; i++)
        n += p->ops[i].kind == LAM_OP_NORM;
    return n;
}

/* `taken` times the fold, `norms` left, and the rows of the model without it. */
static void check_fold(const lam_hparams *h, lam_fold fold, size_t taken, size_t norms)
{
    lam_model *plain = compile(h, LAM_FOLDS_NONE, NULL);
    lam_model *folded = compile(h, 1u << fold, NULL);
    batch want, got;
    cr_assert_null(lam_model_program(plain)->folded);
    cr_assert_eq(count_taken(folded, fold), taken, "%s: %zu taken, not %zu", lam_fold_name(fold),
                 count_taken(folded, fold), taken);
    cr_assert_not_null(lam_model_program(folded)->folded);
    cr_assert_eq(count_norms(folded), norms, "%zu norms are left", count_norms(folded));
    prepare(&want, plain);
    prepare(&got, folded);
    run(&want, plain);
    run(&got, folded);
    const double off = distance(&want, &got);
    cr_assert_leq(off, 1e-5, "%s of %s: off by %g", lam_fold_name(fold),
                  lam_norm_kind_name(h->attention_norm.kind), off);
    cr_assert_not(same_bits(&want, &got), "nothing was computed otherwise");
    lam_model_close(plain);
    lam_model_close(folded);
}

static const lam_norm_kind fixed[] = {LAM_NORM_BATCH,    LAM_NORM_RBN,  LAM_NORM_REPBN,
                                      LAM_NORM_INSTANCE, LAM_NORM_MABN, LAM_NORM_UNIFIED,
                                      LAM_NORM_POWER_V};
enum { FIXED = sizeof fixed / sizeof *fixed };

Test(fold, reader)
{
    for (size_t i = 0; i < FIXED; i++) {
        lam_hparams h = hparams_of(LAM_PLACEMENT_PRE, fixed[i]);
        check_fold(&h, LAM_FOLD_READER, (size_t)2 * TINY_LAYERS, 0);
        h.placement = LAM_PLACEMENT_SUB;
        h.inner_norm = spec_of(fixed[i]);
        h.inner_position = LAM_INNER_AFTER; /* two norms in a row before the last matrix */
        check_fold(&h, LAM_FOLD_READER, (size_t)5 * TINY_LAYERS, 0);
    }
}

Test(fold, writer)
{
    for (size_t i = 0; i < FIXED; i++) {
        lam_hparams h = hparams_of(LAM_PLACEMENT_SANDWICH, fixed[i]);
        h.inner_norm = spec_of(fixed[i]);
        h.inner_position = LAM_INNER_BEFORE;
        check_fold(&h, LAM_FOLD_WRITER, (size_t)3 * TINY_LAYERS, (size_t)2 * TINY_LAYERS);
    }
}

Test(fold, stream)
{
    for (size_t i = 0; i < FIXED; i++) {
        lam_hparams h = hparams_of(LAM_PLACEMENT_POST, fixed[i]);
        check_fold(&h, LAM_FOLD_STREAM, (size_t)2 * TINY_LAYERS - 1, 1);
        h.placement = LAM_PLACEMENT_DEEPNORM;
        h.residual_scale = 1.6f;
        h.embedding_norm = spec_of(fixed[i]);
        check_fold(&h, LAM_FOLD_STREAM, (size_t)2 * TINY_LAYERS, 1);
    }
}

Test(fold, final_takes_what_is_left)
{
    lam_hparams h = hparams_of(LAM_PLACEMENT_POST, LAM_NORM_BATCH);
    h.final_norm = spec_of(LAM_NORM_REPBN);
    check_fold(&h, LAM_FOLD_FINAL, 1, (size_t)2 * TINY_LAYERS);
}

Test(fold, gain)
{
    static const lam_norm_kind kinds[] = {LAM_NORM_LAYER, LAM_NORM_RMS,   LAM_NORM_PRMS,
                                          LAM_NORM_SCALE, LAM_NORM_GROUP, LAM_NORM_POWER,
                                          LAM_NORM_DYT,   LAM_NORM_DERF};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const lam_hparams h = hparams_of(LAM_PLACEMENT_PRE, kinds[i]);
        check_fold(&h, LAM_FOLD_GAIN, (size_t)2 * TINY_LAYERS, (size_t)2 * TINY_LAYERS);
    }
}

Test(fold, centre)
{
    static const lam_norm_kind kinds[] = {LAM_NORM_LAYER, LAM_NORM_LAYER_SIMPLE, LAM_NORM_DETACH};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        lam_hparams h = hparams_of(LAM_PLACEMENT_PRE, kinds[i]);
        h.final_norm = spec_of(kinds[i]);
        check_fold(&h, LAM_FOLD_CENTRE, (size_t)2 * TINY_LAYERS + 1, (size_t)2 * TINY_LAYERS + 1);
    }
}

/* ---- Reasons --------------------------------------------------------------------------------- */

/* Every fold of that kind at that site of layer 0 is left, for that reason. */
static void check_left(const lam_hparams *h, unsigned folds, const tiny_fault *fault, lam_fold fold,
                       lam_site site, const char *reason)
{
    lam_model *m = compile(h, folds, fault);
    bool found = false;
    lam_fold_view v;
    for (size_t i = 0; lam_model_fold(m, i, &v); i++) {
        const bool first = v.layer == 0 || v.layer == LAM_LAYER_NONE;
        if (v.fold != fold || v.site != site || !first) continue;
        found = true;
        cr_assert(!v.taken && strstr(v.reason, reason), "%s at %s: \"%s\", not \"%s\"",
                  lam_fold_name(fold), lam_site_name(site), v.reason, reason);
    }
    cr_assert(found, "no word of %s at %s", lam_fold_name(fold), lam_site_name(site));
    lam_model_close(m);
}

Test(fold, reasons_of_fixed_norms)
{
    const tiny_fault zero = {LAM_MODULE_ATTENTION_NORM, 0, "weight", 3, 0.0f};
    const tiny_fault small = {LAM_MODULE_ATTENTION_NORM, 0, "weight", 3, 1e-7f};
    const tiny_fault far = {LAM_MODULE_ATTENTION_NORM, 0, "running_mean", 3, 1e4f};
    lam_hparams h = hparams_of(LAM_PLACEMENT_POST, LAM_NORM_BATCH);
    const lam_site site = LAM_SITE_ATTENTION_NORM;
    check_left(&h, LAM_FOLDS_NONE, NULL, LAM_FOLD_STREAM, site, "not asked for");
    check_left(&h, LAM_FOLDS_ALL, &zero, LAM_FOLD_STREAM, site, "0 or too small");
    check_left(&h, LAM_FOLDS_ALL, &small, LAM_FOLD_STREAM, site, "0 or too small");
    check_left(&h, LAM_FOLDS_ALL, &far, LAM_FOLD_STREAM, site, "too far from 0");
    h.ffn_norm = spec_of(LAM_NORM_LAYER);
    check_left(&h, LAM_FOLDS_ALL, NULL, LAM_FOLD_STREAM, site, "measures its rows");
    h = hparams_of(LAM_PLACEMENT_PRE, LAM_NORM_BATCH);
    check_left(&h, LAM_FOLDS_ALL, &far, LAM_FOLD_READER, site, "too far from 0");
    check_left(&h, LAM_FOLDS_NONE, NULL, LAM_FOLD_READER, site, "not asked for");
    h.final_norm = h.embedding_norm = spec_of(LAM_NORM_BATCH);
    check_left(&h, LAM_FOLDS_ALL, NULL, LAM_FOLD_FINAL, LAM_SITE_FINAL, "one affine map remains");
    check_left(&h, LAM_FOLDS_ALL, NULL, LAM_FOLD_STREAM, LAM_SITE_EMBEDDING, "past norms inside");
}

Test(fold, reasons_of_norms_that_measure)
{
    const lam_site site = LAM_SITE_ATTENTION_NORM;
    lam_hparams h = hparams_of(LAM_PLACEMENT_POST, LAM_NORM_LAYER);
    check_left(&h, LAM_FOLDS_ALL, NULL, LAM_FOLD_GAIN, site, "residual carries");
    check_left(&h, LAM_FOLDS_ALL, NULL, LAM_FOLD_CENTRE, site, "residual carries");
    h = hparams_of(LAM_PLACEMENT_PRE, LAM_NORM_LAYER);
    check_left(&h, LAM_FOLDS_DEFAULT, NULL, LAM_FOLD_GAIN, site, "not asked for");
    check_left(&h, LAM_FOLDS_ALL, NULL, LAM_FOLD_CENTRE, site, "vectors read the residual");
    h.final_norm = h.embedding_norm = spec_of(LAM_NORM_LAYER);
    check_left(&h, LAM_FOLDS_ALL, NULL, LAM_FOLD_CENTRE, site, "a norm writes the residual");
    h.embedding_norm.kind = LAM_NORM_ABSENT;
    h.ffn_norm = spec_of(LAM_NORM_RMS);
    check_left(&h, LAM_FOLDS_ALL, NULL, LAM_FOLD_CENTRE, site, "not every norm");
    h.attention_norm = spec_of(LAM_NORM_BATCH);
    h.attention_norm.source = LAM_NORM_FROM_BATCH;
    check_left(&h, LAM_FOLDS_ALL, NULL, LAM_FOLD_GAIN, site, "measures the request");
    h.attention_norm = spec_of(LAM_NORM_GROUP);
    h.attention_norm.source = LAM_NORM_FROM_SEQUENCE;
    check_left(&h, LAM_FOLDS_ALL, NULL, LAM_FOLD_GAIN, site, "measures the sequence");
    h.attention_norm = spec_of(LAM_NORM_LAYER_SIMPLE);
    check_left(&h, LAM_FOLDS_ALL, NULL, LAM_FOLD_GAIN, site, "neither gain nor bias");
    h = hparams_of(LAM_PLACEMENT_SANDWICH, LAM_NORM_LAYER);
    check_left(&h, LAM_FOLDS_ALL, NULL, LAM_FOLD_GAIN, LAM_SITE_ATTENTION_BRANCH_NORM,
               "a residual sum reads it");
}

/* A norm that must stay in the middle takes the stream's map over; those around it are folded. */
Test(fold, stream_goes_on_behind_a_norm_that_stays)
{
    const tiny_fault zero = {LAM_MODULE_ATTENTION_NORM, 1, "weight", 3, 0.0f};
    const lam_hparams h = hparams_of(LAM_PLACEMENT_POST, LAM_NORM_BATCH);
    lam_model *plain = compile(&h, LAM_FOLDS_NONE, &zero);
    lam_model *folded = compile(&h, LAM_FOLDS_ALL, &zero);
    batch want, got;
    cr_assert_eq(count_taken(folded, LAM_FOLD_STREAM), 2 * TINY_LAYERS - 2);
    cr_assert_eq(count_norms(folded), 2);
    prepare(&want, plain);
    prepare(&got, folded);
    run(&want, plain);
    run(&got, folded);
    cr_assert_leq(distance(&want, &got), 1e-5);
    lam_model_close(plain);
    lam_model_close(folded);
}

/* ---- What a request sees --------------------------------------------------------------------- */

typedef struct pair {
    lam_model *plain, *folded;
    batch want, got;
} pair;

static pair *pair_new(void)
{
    const lam_hparams h = hparams_of(LAM_PLACEMENT_POST, LAM_NORM_BATCH);
    pair *p = calloc(1, sizeof *p);
    cr_assert_not_null(p);
    p->plain = compile(&h, LAM_FOLDS_NONE, NULL);
    p->folded = compile(&h, LAM_FOLDS_DEFAULT, NULL);
    prepare(&p->want, p->plain);
    prepare(&p->got, p->folded);
    return p;
}

static void pair_free(pair *p)
{
    lam_model_close(p->plain);
    lam_model_close(p->folded);
    free(p);
}

static void run_pair(pair *p)
{
    run(&p->want, p->plain);
    run(&p->got, p->folded);
}

/* Statistics are of the norms as the model has them, to the bit, and cost no bit of a vector. */
Test(fold, statistics)
{
    static const lam_stats_level levels[] = {LAM_STATS_SUMMARY, LAM_STATS_FULL};
    pair *p = pair_new();
    batch without;
    prepare(&without, p->folded);
    run(&without, p->folded);
    for (size_t k = 0; k < 2; k++) {
        const lam_stats_opts o = {.level = levels[k], .max_rows = (size_t)ITEMS * TOKENS};
        lam_arena arena;
        lam_stats *plain, *folded;
        lam_arena_init(&arena, 16 << 20);
        cr_assert_eq(lam_stats_new(&plain, &arena, p->plain, &o, NULL), LAM_OK);
        cr_assert_eq(lam_stats_new(&folded, &arena, p->folded, &o, NULL), LAM_OK);
        for (size_t i = 0; i < ITEMS; i++)
            p->want.items[i].stats = plain, p->got.items[i].stats = folded;
        run_pair(p);
        for (size_t layer = 0; layer < TINY_LAYERS; layer++) {
            lam_site_stats a = {0}, b = {0};
            const lam_site site = LAM_SITE_ATTENTION_NORM;
            cr_assert(lam_stats_read(plain, layer, site, &a));
            cr_assert(lam_stats_read(folded, layer, site, &b));
            cr_assert_eq(memcmp(&a, &b, sizeof a), 0, "layer %zu has other statistics", layer);
            cr_assert_gt(a.tokens, 0);
        }
        cr_assert(same_bits(&without, &p->got), "statistics change the vectors");
        lam_arena_fini(&arena);
    }
    pair_free(p);
}

Test(fold, other_sources_and_layers_come_from_the_norms)
{
    pair *p = pair_new();
    run_pair(p);
    cr_assert_not(same_bits(&p->want, &p->got));
    for (size_t layer = 0; layer < TINY_LAYERS; layer++) {
        p->want.opts.output_layer = p->got.opts.output_layer = layer;
        run_pair(p);
        cr_assert(same_bits(&p->want, &p->got), "output_layer %zu", layer);
    }
    p->want.opts.output_layer = p->got.opts.output_layer = TINY_LAYERS;
    p->want.opts.statistics = p->got.opts.statistics = LAM_NORM_FROM_BATCH;
    run_pair(p);
    cr_assert(same_bits(&p->want, &p->got), "statistics of the batch");
    pair_free(p);
}

/* Items of both lists in one call: each as if alone. */
Test(fold, company)
{
    pair *p = pair_new();
    lam_encode_opts early = p->got.opts;
    batch alone;
    early.output_layer = 1;
    for (size_t i = 1; i < ITEMS; i += 2)
        p->got.items[i].opts = &early;
    run(&p->got, p->folded);
    prepare(&alone, p->folded);
    lam_ctx *ctx;
    cr_assert_eq(lam_ctx_new(&ctx, p->folded, 64, NULL), LAM_OK);
    for (size_t i = ITEMS; i-- > 0;) {
        if (i % 2) alone.items[i].opts = &early;
        cr_assert_eq(lam_item_check(p->folded, &alone.items[i], NULL, NULL), LAM_OK);
        cr_assert_eq(lam_encode(ctx, &alone.items[i], 1, NULL), LAM_OK);
    }
    lam_ctx_free(ctx);
    cr_assert(same_bits(&alone, &p->got));
    pair_free(p);
}

Test(fold, names)
{
    unsigned folds = 0;
    cr_assert(lam_folds_parse("none", 4, &folds) && folds == LAM_FOLDS_NONE);
    cr_assert(lam_folds_parse("affine", 6, &folds) && folds == LAM_FOLDS_DEFAULT);
    cr_assert(lam_folds_parse("all", 3, &folds) && folds == LAM_FOLDS_ALL);
    folds = 0;
    cr_assert(lam_folds_parse("centre", 6, &folds) && folds == 1u << LAM_FOLD_CENTRE);
    cr_assert_not(lam_folds_parse("center", 6, &folds));
}
