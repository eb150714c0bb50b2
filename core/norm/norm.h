/* Norms inside the network, as data: one row of a table and one function a kind.
 * (The scaling of a final vector to unit length is called scaling, never norm: core/pool.)
 *
 * Adding a norm: one row of LAM_NORM_KIND_MAP, its facts in kinds.c, its function in the file of
 * its family. docs/CONTRIBUTING.md shows it. */
#ifndef LAM_NORM_NORM_H
#define LAM_NORM_NORM_H

#include <stdbool.h>
#include <stddef.h>

#include "core/kernels/kernels.h"

/* X(NAME, "name in config.json", function). Kinds that differ in their fields alone share one. */
#define LAM_NORM_KIND_MAP(X)                       \
    X(NONE, "none", lam__norm_none)                \
    X(LAYER, "layer", lam__norm_row)               \
    X(LAYER_SIMPLE, "layer_simple", lam__norm_row) \
    X(DETACH, "detach", lam__norm_row)             \
    X(ADA, "ada", lam__norm_row)                   \
    X(RMS, "rms", lam__norm_row)                   \
    X(PRMS, "prms", lam__norm_row)                 \
    X(SCALE, "scale", lam__norm_row)               \
    X(GROUP, "group", lam__norm_group)             \
    X(INSTANCE, "instance", lam__norm_channel)     \
    X(BATCH, "batch", lam__norm_channel)           \
    X(RBN, "rbn", lam__norm_channel)               \
    X(REPBN, "repbn", lam__norm_channel)           \
    X(POWER, "power", lam__norm_channel)           \
    X(POWER_V, "power_v", lam__norm_channel)       \
    X(MABN, "mabn", lam__norm_channel)             \
    X(UNIFIED, "unified", lam__norm_channel)       \
    X(DYT, "dyt", lam__norm_pointwise)             \
    X(DERF, "derf", lam__norm_pointwise)
#define LAM_ENUM_ROW_NORM(name, text, run) LAM_NORM_##name,

/* ABSENT: there is no such site. NONE keeps its site and changes nothing. */
typedef enum lam_norm_kind {
    LAM_NORM_ABSENT,
    LAM_NORM_KIND_MAP(LAM_ENUM_ROW_NORM) LAM_NORM_KIND_COUNT
} lam_norm_kind;

/* Fields of a NORM in config.json besides `kind`. Each kind allows some and requires some. */
#define LAM_NORM_FIELD_MAP(X)     \
    X(EPS, "eps")                 \
    X(GROUP_EPS, "group_eps")     \
    X(EPS_MODE, "eps_mode")       \
    X(DDOF, "ddof")               \
    X(GAIN, "gain")               \
    X(BIAS, "bias")               \
    X(UNIT_OFFSET, "unit_offset") \
    X(DETACH_MEAN, "detach_mean") \
    X(DETACH_STD, "detach_std")   \
    X(GROUPS, "groups")           \
    X(P, "p")                     \
    X(C, "c")                     \
    X(K, "k")                     \
    X(ALPHA, "alpha")             \
    X(SHIFT, "shift")             \
    X(STATISTICS, "statistics")
#define LAM_ENUM_ROW_FIELD(name, text) LAM_NORM_FIELD_##name,
typedef enum lam_norm_field {
    LAM_NORM_FIELD_MAP(LAM_ENUM_ROW_FIELD) LAM_NORM_FIELD_COUNT
} lam_norm_field;

/* What a configuration says about one norm site, every default filled in. Fields that the kind
 * does not have are 0. */
typedef struct lam_norm_spec {
    lam_norm_kind kind;
    lam_norm_source source;
    lam_eps_mode eps_mode;
    unsigned ddof;                 /* 0 or 1 */
    bool gain, bias;               /* whether the tensors exist */
    bool unit_offset;              /* the stored gain is an offset from 1 */
    bool detach_mean, detach_std;  /* constants of the backward pass; no matter for the forward */
    bool alpha_given, shift_given; /* as numbers here, so not as tensors */
    size_t groups;                 /* of consecutive channels; 0: none */
    double eps, group_eps;
    double p;            /* prms: share of the channels that is measured */
    double c, k;         /* ada */
    double alpha, shift; /* the numbers given */
} lam_norm_spec;

/* The tensors that a site may own, by what they are for. X(NAME, "what the compiler asks for"). */
#define LAM_NORM_TENSOR_MAP(X)                           \
    X(GAIN, "weight")                                    \
    X(BIAS, "bias")                                      \
    X(FACTOR, "scale") /* one number for all channels */ \
    X(ALPHA, "alpha")  /* one number */                  \
    X(SHIFT, "shift")  /* one number */                  \
    X(MEAN, "running_mean")                              \
    X(SQUARE, "running_var") /* a variance, or a mean square around 0 */
#define LAM_ENUM_ROW_TENSOR(name, text) LAM_NORM_TENSOR_##name,
typedef enum lam_norm_tensor {
    LAM_NORM_TENSOR_MAP(LAM_ENUM_ROW_TENSOR) LAM_NORM_TENSOR_COUNT
} lam_norm_tensor;

const char *lam_norm_tensor_name(lam_norm_tensor t);

static inline bool lam_norm_tensor_is_scalar(lam_norm_tensor t)
{
    return t == LAM_NORM_TENSOR_FACTOR || t == LAM_NORM_TENSOR_ALPHA || t == LAM_NORM_TENSOR_SHIFT;
}

/* What checkpoints call a tensor under the site's path. */
typedef struct lam_norm_stored {
    lam_norm_tensor tensor;
    const char *names[4]; /* the usual one, other names of the same, then NULL */
} lam_norm_stored;

enum { LAM_NORM_MAX_STORED = 6 };

/* The numbers of one site, as the functions want them. Vectors are [stride(width)]. */
typedef struct lam_norm_params {
    const float *gain, *bias; /* unit offset applied; ones and zeros where there is no tensor */
    const float *mean;        /* running mean; zeros for kinds without one */
    const float *square;      /* running variance or mean square */
    const float *scale;       /* gain / d(square), made in double */
    float factor, alpha, shift;
} lam_norm_params;

/* A norm at work: x, y [rows, width]; y may be x. The rows are those that are measured together:
 * one item's for source sequence, one request's for batch, any others. */
typedef struct lam_norm_run {
    const lam_kernels *kernels;
    const lam_norm_spec *spec;
    lam_norm_source source; /* the spec's, or what the request asked for instead */
    lam_norm_params params;
    size_t width, rows;
    const float *x;
    size_t x_stride;
    float *y;
    size_t y_stride;
    double *sums;  /* [2, stride(width)]: scratch of sources sequence and batch */
    float *affine; /* [3, stride(width)], 64-byte aligned: the same */
} lam_norm_run;

typedef struct lam_norm_info {
    unsigned fields, required; /* bits 1 << lam_norm_field */
    unsigned sources;          /* bits 1 << lam_norm_source */
    lam_norm_spec defaults;
    lam_norm_stored stored[LAM_NORM_MAX_STORED]; /* ends with names[0] NULL */
    const char *nested;         /* a second path where all of `stored` may stand, or NULL */
    const char *const *ignored; /* names in published files that inference does not need; ends with
                                   NULL; or NULL */
} lam_norm_info;

const lam_norm_info *lam_norm_get_info(lam_norm_kind kind);
const char *lam_norm_kind_name(lam_norm_kind kind);

/* Calls the kind's function. */
void lam_norm_run_kind(const lam_norm_run *r);

bool lam_norm_kind_parse(const char *s, size_t n, lam_norm_kind *out);
const char *lam_norm_field_name(lam_norm_field f);

static inline bool lam_norm_has_field(const lam_norm_info *info, lam_norm_field f)
{
    return (info->fields >> f & 1u) != 0;
}

static inline bool lam_norm_has_source(const lam_norm_info *info, lam_norm_source s)
{
    return (info->sources >> s & 1u) != 0;
}

/* The kind with its defaults; what is required besides is 0. */
lam_norm_spec lam_norm_spec_default(lam_norm_kind kind);

/* Whether a site of this spec owns the tensor: gain and bias as the spec says, alpha and shift
 * unless given as numbers, statistics for every source that may need them. */
bool lam_norm_uses(const lam_norm_spec *spec, lam_norm_tensor t);

/* Whether `source` reads the tensors of the checkpoint; and whether the kind has any such. */
bool lam_norm_has_statistics(lam_norm_kind kind);
/* Whether those hold a mean square around 0 instead of mean and variance. */
bool lam_norm_is_second_moment(lam_norm_kind kind);

/* What a row's result depends on besides the row: "independent", "length" (its item's other rows)
 * or "batch" (the request's other items). */
const char *lam_norm_verdict(lam_norm_source source);

/* The source that a site runs on if a request asks for `asked` (NONE: for nothing): a site whose
 * kind does not list that source keeps its own. */
lam_norm_source lam_norm_source_for(const lam_norm_spec *spec, lam_norm_source asked);

/* Values behind each variance over rows of `width` channels, `rows` of them measured together. 0:
 * there is none. A variance divided by N - 1 of one value is no number. */
size_t lam_norm_count(const lam_norm_spec *spec, lam_norm_source source, size_t width, size_t rows);

/* K of prms: channels that are measured. */
size_t lam_norm_measured(const lam_norm_spec *spec, size_t width);

/* d(v), the denominator, in double. */
double lam_norm_denominator(const lam_norm_spec *spec, double v);

/* One function a family; core/norm/<family>.c. */
void lam__norm_none(const lam_norm_run *r);
void lam__norm_row(const lam_norm_run *r);
void lam__norm_group(const lam_norm_run *r);
void lam__norm_channel(const lam_norm_run *r);
void lam__norm_pointwise(const lam_norm_run *r);

/* Per-channel normalization by mean [width] and square [width], y = (x - mean) gain / d + bias,
 * where both were measured in double over the run's own rows; shared by channel.c and group.c. */
void lam__norm_by_channels(const lam_norm_run *r, const double *mean, const double *square);

#endif
