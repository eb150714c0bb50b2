/* The facts of every kind: fields, defaults, sources, tensors. */
#include <math.h>
#include <string.h>

#include "core/norm/norm.h"

#define F(name)     (1u << LAM_NORM_FIELD_##name)
#define FROM(name)  (1u << LAM_NORM_FROM_##name)
#define AFFINE      (F(GAIN) | F(BIAS))
#define DENOMINATOR (F(EPS) | F(EPS_MODE))
#define PER_CHANNEL (FROM(RUNNING) | FROM(BATCH))

#define GAIN_AND_BIAS                            \
    {LAM_NORM_TENSOR_GAIN, {"weight", "gamma"}}, \
    {                                            \
        LAM_NORM_TENSOR_BIAS,                    \
        {                                        \
            "bias", "beta"                       \
        }                                        \
    }
#define STORED(tensor, name)      \
    {                             \
        LAM_NORM_TENSOR_##tensor, \
        {                         \
            name                  \
        }                         \
    }

static const char *const unused_affine[] = {"weight", "bias", NULL};
static const char *const batch_counter[] = {"num_batches_tracked", NULL};
static const char *const rbn_training[] = {"num_batches_tracked", "alpha", NULL};
static const char *const repbn_training[] = {"bn.num_batches_tracked",
                                             "norm2.bn.num_batches_tracked",
                                             "norm1.weight",
                                             "norm1.bias",
                                             "warm",
                                             "iter",
                                             "total_step",
                                             "num_step",
                                             NULL};
static const char *const power_training[] = {"ema_gz", "iters", NULL};
static const char *const window_training[] = {"iters",  "buffer_x2",    "buffer_gz",
                                              "ema_gz", "skip_counter", "sta_matrix",
                                              "pre_x2", "pre_gz",       NULL};

/* In the order of LAM_NORM_KIND_MAP. Defaults: config.json may leave out what is not required. */
static const lam_norm_info infos[LAM_NORM_KIND_COUNT] = {
    [LAM_NORM_NONE] = {.sources = FROM(NONE)},
    /* Ba, Kiros and Hinton (2016), arXiv 1607.06450. */
    [LAM_NORM_LAYER] = {.fields = DENOMINATOR | F(DDOF) | AFFINE | F(UNIT_OFFSET) | F(STATISTICS),
                        .required = F(EPS),
                        .sources = FROM(TOKEN),
                        .defaults = {.source = LAM_NORM_FROM_TOKEN, .gain = true, .bias = true},
                        .stored = {GAIN_AND_BIAS}},
    /* LN-simple and DetachNorm: Xu, Sun, Zhang, Zhao and Lin (2019), arXiv 1911.07013. Published
     * files hold gain and bias that the forward pass does not read. */
    [LAM_NORM_LAYER_SIMPLE] = {.fields = DENOMINATOR | F(DDOF) | AFFINE | F(STATISTICS),
                               .required = DENOMINATOR | F(DDOF),
                               .sources = FROM(TOKEN),
                               .defaults = {.source = LAM_NORM_FROM_TOKEN},
                               .ignored = unused_affine},
    [LAM_NORM_DETACH] =
        {.fields = DENOMINATOR | F(DDOF) | AFFINE | F(DETACH_MEAN) | F(DETACH_STD) | F(STATISTICS),
         .required = DENOMINATOR | F(DDOF),
         .sources = FROM(TOKEN),
         .defaults = {.source = LAM_NORM_FROM_TOKEN, .detach_mean = true, .detach_std = true},
         .ignored = unused_affine},
    /* AdaNorm, the same paper; C is a setting of each published run. */
    [LAM_NORM_ADA] = {.fields = DENOMINATOR | F(DDOF) | AFFINE | F(C) | F(K) | F(STATISTICS),
                      .required = F(C),
                      .sources = FROM(TOKEN),
                      .defaults = {.source = LAM_NORM_FROM_TOKEN,
                                   .eps = 1e-5,
                                   .eps_mode = LAM_EPS_STD,
                                   .ddof = 1,
                                   .k = 0.1},
                      .ignored = unused_affine},
    /* Zhang and Sennrich (2019), arXiv 1910.07467: both. */
    [LAM_NORM_RMS] = {.fields = DENOMINATOR | AFFINE | F(UNIT_OFFSET) | F(STATISTICS),
                      .required = DENOMINATOR,
                      .sources = FROM(TOKEN),
                      .defaults = {.source = LAM_NORM_FROM_TOKEN, .gain = true},
                      .stored = {{LAM_NORM_TENSOR_GAIN, {"weight", "gamma", "scale"}},
                                 {LAM_NORM_TENSOR_BIAS, {"bias", "beta", "offset"}}}},
    [LAM_NORM_PRMS] = {.fields = DENOMINATOR | AFFINE | F(UNIT_OFFSET) | F(P) | F(STATISTICS),
                       .required = DENOMINATOR | F(P),
                       .sources = FROM(TOKEN),
                       .defaults = {.source = LAM_NORM_FROM_TOKEN, .gain = true},
                       .stored = {{LAM_NORM_TENSOR_GAIN, {"weight", "gamma", "scale"}},
                                  {LAM_NORM_TENSOR_BIAS, {"bias", "beta", "offset"}}}},
    /* ScaleNorm: Nguyen and Salazar (2019), arXiv 1910.05895. */
    [LAM_NORM_SCALE] = {.fields = DENOMINATOR | F(STATISTICS),
                        .sources = FROM(TOKEN),
                        .defaults = {.source = LAM_NORM_FROM_TOKEN,
                                     .eps = 1e-5,
                                     .eps_mode = LAM_EPS_FLOOR_NORM},
                        .stored = {STORED(FACTOR, "scale")}},
    /* Wu and He (2018), arXiv 1803.08494. */
    [LAM_NORM_GROUP] = {.fields = F(GROUPS) | DENOMINATOR | F(DDOF) | AFFINE | F(STATISTICS),
                        .required = F(GROUPS) | F(EPS) | F(STATISTICS),
                        .sources = FROM(TOKEN) | FROM(SEQUENCE),
                        .defaults = {.gain = true, .bias = true},
                        .stored = {GAIN_AND_BIAS}},
    /* Ulyanov, Vedaldi and Lempitsky (2016), arXiv 1607.08022. */
    [LAM_NORM_INSTANCE] = {.fields = DENOMINATOR | F(DDOF) | AFFINE | F(STATISTICS),
                           .required = F(EPS),
                           .sources = FROM(SEQUENCE) | FROM(RUNNING),
                           .defaults = {.source = LAM_NORM_FROM_SEQUENCE},
                           .stored = {GAIN_AND_BIAS, STORED(MEAN, "running_mean"),
                                      STORED(SQUARE, "running_var")},
                           .ignored = batch_counter},
    /* Ioffe and Szegedy (2015), arXiv 1502.03167. */
    [LAM_NORM_BATCH] = {.fields = DENOMINATOR | F(DDOF) | AFFINE | F(GROUPS) | F(GROUP_EPS) |
                                  F(STATISTICS),
                        .required = F(EPS),
                        .sources = PER_CHANNEL,
                        .defaults = {.source = LAM_NORM_FROM_RUNNING,
                                     .gain = true,
                                     .bias = true,
                                     .group_eps = 1e-5},
                        .stored = {GAIN_AND_BIAS, STORED(MEAN, "running_mean"),
                                   STORED(SQUARE, "running_var")},
                        .ignored = batch_counter},
    /* Regularized BatchNorm: Wang et al. (2022), arXiv 2210.05153; differs in training. */
    [LAM_NORM_RBN] = {.fields = DENOMINATOR | F(DDOF) | AFFINE | F(STATISTICS),
                      .sources = PER_CHANNEL,
                      .defaults = {.source = LAM_NORM_FROM_RUNNING,
                                   .eps = 1e-5,
                                   .eps_mode = LAM_EPS_FLOOR_VARIANCE,
                                   .gain = true,
                                   .bias = true},
                      .stored = {GAIN_AND_BIAS, STORED(MEAN, "running_mean"),
                                 STORED(SQUARE, "running_var")},
                      .ignored = rbn_training},
    /* SLAB: Guo et al. (2024), arXiv 2405.11582. */
    [LAM_NORM_REPBN] = {.fields = DENOMINATOR | F(DDOF) | AFFINE | F(ALPHA) | F(STATISTICS),
                        .required = F(EPS),
                        .sources = PER_CHANNEL,
                        .defaults = {.source = LAM_NORM_FROM_RUNNING, .gain = true, .bias = true},
                        .stored = {STORED(ALPHA, "alpha"),
                                   {LAM_NORM_TENSOR_GAIN, {"bn.weight", "bn.gamma"}},
                                   {LAM_NORM_TENSOR_BIAS, {"bn.bias", "bn.beta"}},
                                   STORED(MEAN, "bn.running_mean"),
                                   STORED(SQUARE, "bn.running_var")},
                        .nested = "norm2.",
                        .ignored = repbn_training},
    /* Shen, Yao, Gholami, Mahoney and Keutzer (2020), arXiv 2003.07845; with the token-wise group
     * scaling that the authors' code has, and without. */
    [LAM_NORM_POWER] = {.fields = F(GROUPS) | DENOMINATOR | F(GROUP_EPS) | AFFINE | F(STATISTICS),
                        .required = F(GROUPS),
                        .sources = PER_CHANNEL,
                        .defaults = {.source = LAM_NORM_FROM_RUNNING,
                                     .eps = 1e-5,
                                     .group_eps = 1e-5,
                                     .gain = true,
                                     .bias = true},
                        .stored = {GAIN_AND_BIAS, STORED(SQUARE, "running_phi")},
                        .ignored = power_training},
    [LAM_NORM_POWER_V] =
        {.fields = DENOMINATOR | AFFINE | F(STATISTICS),
         .sources = PER_CHANNEL,
         .defaults = {.source = LAM_NORM_FROM_RUNNING, .eps = 1e-5, .gain = true, .bias = true},
         .stored = {GAIN_AND_BIAS, STORED(SQUARE, "running_phi")},
         .ignored = power_training},
    /* Moving averages: Yan et al. (2020), arXiv 2001.06838; Yang et al. (2022), arXiv 2208.01313.
     * Their moving averages are of training alone. */
    [LAM_NORM_MABN] =
        {.fields = DENOMINATOR | AFFINE | F(STATISTICS),
         .sources = PER_CHANNEL,
         .defaults = {.source = LAM_NORM_FROM_RUNNING, .eps = 1e-5, .gain = true, .bias = true},
         .stored = {GAIN_AND_BIAS, STORED(SQUARE, "running_var")},
         .ignored = window_training},
    [LAM_NORM_UNIFIED] =
        {.fields = DENOMINATOR | AFFINE | F(STATISTICS),
         .sources = PER_CHANNEL,
         .defaults = {.source = LAM_NORM_FROM_RUNNING, .eps = 1e-5, .gain = true, .bias = true},
         .stored = {GAIN_AND_BIAS, STORED(SQUARE, "running_var")},
         .ignored = window_training},
    /* Zhu, Chen, He, LeCun and Liu (2025), arXiv 2503.10622. */
    [LAM_NORM_DYT] = {.fields = AFFINE | F(ALPHA),
                      .sources = FROM(NONE),
                      .defaults = {.gain = true, .bias = true},
                      .stored = {STORED(ALPHA, "alpha"), GAIN_AND_BIAS}},
    /* Chen, Lu, Zhu, Sun and Liu (2025), arXiv 2512.10938. */
    [LAM_NORM_DERF] = {.fields = AFFINE | F(ALPHA) | F(SHIFT),
                       .sources = FROM(NONE),
                       .defaults = {.gain = true, .bias = true},
                       .stored = {STORED(ALPHA, "alpha"), STORED(SHIFT, "shift"), GAIN_AND_BIAS}},
};

#define NAME_ROW(name, text, run) [LAM_NORM_##name] = (text),
static const char *const kind_names[LAM_NORM_KIND_COUNT] = {LAM_NORM_KIND_MAP(NAME_ROW)};

#define TEXT_ROW(name, text) text,
static const char *const field_names[] = {LAM_NORM_FIELD_MAP(TEXT_ROW)};
static const char *const tensor_names[] = {LAM_NORM_TENSOR_MAP(TEXT_ROW)};

const lam_norm_info *lam_norm_get_info(lam_norm_kind kind)
{
    return &infos[kind];
}

const char *lam_norm_kind_name(lam_norm_kind kind)
{
    return kind_names[kind];
}

void lam_norm_run_kind(const lam_norm_run *r)
{
#define RUN_ROW(name, text, run) [LAM_NORM_##name] = (run),
    static void (*const functions[LAM_NORM_KIND_COUNT])(const lam_norm_run *) = {
        LAM_NORM_KIND_MAP(RUN_ROW)};
    functions[r->spec->kind](r);
}

bool lam_norm_kind_parse(const char *s, size_t n, lam_norm_kind *out)
{
    for (int kind = LAM_NORM_ABSENT + 1; kind < LAM_NORM_KIND_COUNT; kind++) {
        if (strlen(kind_names[kind]) != n || memcmp(kind_names[kind], s, n) != 0) continue;
        *out = (lam_norm_kind)kind;
        return true;
    }
    return false;
}

const char *lam_norm_field_name(lam_norm_field f)
{
    return field_names[f];
}

const char *lam_norm_tensor_name(lam_norm_tensor t)
{
    return tensor_names[t];
}

lam_norm_spec lam_norm_spec_default(lam_norm_kind kind)
{
    lam_norm_spec spec = infos[kind].defaults;
    spec.kind = kind;
    return spec;
}

static bool owns(lam_norm_kind kind, lam_norm_tensor t)
{
    const lam_norm_stored *s = infos[kind].stored;
    for (size_t i = 0; i < LAM_NORM_MAX_STORED && s[i].names[0]; i++)
        if (s[i].tensor == t) return true;
    return false;
}

bool lam_norm_uses(const lam_norm_spec *spec, lam_norm_tensor t)
{
    if (!owns(spec->kind, t)) return false;
    switch (t) {
    case LAM_NORM_TENSOR_GAIN:
        return spec->gain;
    case LAM_NORM_TENSOR_BIAS:
        return spec->bias;
    case LAM_NORM_TENSOR_ALPHA:
        return !spec->alpha_given;
    case LAM_NORM_TENSOR_SHIFT:
        return !spec->shift_given;
    case LAM_NORM_TENSOR_FACTOR:
    case LAM_NORM_TENSOR_MEAN:
    case LAM_NORM_TENSOR_SQUARE:
    case LAM_NORM_TENSOR_COUNT:
        break;
    }
    return true;
}

bool lam_norm_has_statistics(lam_norm_kind kind)
{
    return owns(kind, LAM_NORM_TENSOR_SQUARE);
}

bool lam_norm_is_second_moment(lam_norm_kind kind)
{
    return owns(kind, LAM_NORM_TENSOR_SQUARE) && !owns(kind, LAM_NORM_TENSOR_MEAN);
}

const char *lam_norm_verdict(lam_norm_source source)
{
    switch (source) {
    case LAM_NORM_FROM_BATCH:
        return "batch";
    case LAM_NORM_FROM_SEQUENCE:
        return "length";
    case LAM_NORM_FROM_NONE:
    case LAM_NORM_FROM_TOKEN:
    case LAM_NORM_FROM_RUNNING:
    case LAM_NORM_FROM_COUNT:
        break;
    }
    return "independent";
}

lam_norm_source lam_norm_source_for(const lam_norm_spec *spec, lam_norm_source asked)
{
    if (asked == LAM_NORM_FROM_NONE || !lam_norm_has_source(&infos[spec->kind], asked))
        return spec->source;
    return asked;
}

size_t lam_norm_count(const lam_norm_spec *spec, lam_norm_source source, size_t width, size_t rows)
{
    const bool grouped = spec->kind == LAM_NORM_GROUP;
    const size_t channels = grouped ? width / spec->groups : width;
    switch (source) {
    case LAM_NORM_FROM_TOKEN:
        return channels;
    case LAM_NORM_FROM_SEQUENCE:
        return grouped ? channels * rows : rows;
    case LAM_NORM_FROM_BATCH:
        return rows;
    case LAM_NORM_FROM_NONE:
    case LAM_NORM_FROM_RUNNING:
    case LAM_NORM_FROM_COUNT:
        break;
    }
    return 0;
}

size_t lam_norm_measured(const lam_norm_spec *spec, size_t width)
{
    return spec->kind == LAM_NORM_PRMS ? (size_t)(spec->p * (double)width) : width;
}

double lam_norm_denominator(const lam_norm_spec *spec, double v)
{
    switch (spec->eps_mode) {
    case LAM_EPS_VARIANCE:
        return sqrt(v + spec->eps);
    case LAM_EPS_STD:
        return sqrt(v) + spec->eps;
    case LAM_EPS_FLOOR_VARIANCE:
        return sqrt(v > spec->eps ? v : spec->eps);
    case LAM_EPS_FLOOR_NORM:
        return v > spec->eps ? v : spec->eps;
    case LAM_EPS_MODE_COUNT:
        break;
    }
    return (double)NAN;
}
