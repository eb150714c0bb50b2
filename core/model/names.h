/* Every closed set of names, once: enum, text and parser come from the same list. */
#ifndef LAM_MODEL_NAMES_H
#define LAM_MODEL_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kernel sets, slowest first: a larger value may use all smaller ones. */
#define LAM_ISA_MAP(X) X(REF, "ref") X(AVX2, "avx2") X(AVX512, "avx512")

/* How rows become a vector. */
#define LAM_POOL_MAP(X)               \
    X(MEAN, "mean")                   \
    X(CLS, "cls")                     \
    X(MAX, "max")                     \
    X(MEAN_SQRT_LEN, "mean_sqrt_len") \
    X(WEIGHTED, "weighted")           \
    X(LAST, "last")                   \
    X(NONE, "none")

/* Activation of the feed-forward layer. GELU is the erf form, GELU_TANH the tanh form. */
#define LAM_ACTIVATION_MAP(X) \
    X(IDENTITY, "identity")   \
    X(GELU, "gelu")           \
    X(GELU_TANH, "gelu_tanh") \
    X(RELU, "relu")           \
    X(SILU, "silu")           \
    X(TANH, "tanh")

#define LAM_STATS_LEVEL_MAP(X) X(NONE, "none") X(SUMMARY, "summary") X(FULL, "full")

/* Where statistics are taken. Which of them a model has, lam_model_has_site says. */
#define LAM_SITE_MAP(X)                               \
    X(EMBEDDING, "embedding")                         \
    X(ATTENTION, "attention")                         \
    X(ATTENTION_NORM, "attention_norm")               \
    X(FFN, "ffn")                                     \
    X(FFN_NORM, "ffn_norm")                           \
    X(ATTENTION_BRANCH_NORM, "attention_branch_norm") \
    X(FFN_BRANCH_NORM, "ffn_branch_norm")             \
    X(ATTENTION_SUB_NORM, "attention_sub_norm")       \
    X(FFN_SUB_NORM, "ffn_sub_norm")                   \
    X(FFN_INNER_NORM, "ffn_inner_norm")               \
    X(OUTPUT, "output")                               \
    X(FINAL, "final")

/* Over what a norm measures. What each kind allows stands in core/norm/kinds.c. */
#define LAM_NORM_SOURCE_MAP(X)                                           \
    X(NONE, "none")         /* nothing is measured */                    \
    X(TOKEN, "token")       /* one row */                                \
    X(SEQUENCE, "sequence") /* all rows of one item */                   \
    X(RUNNING, "running")   /* tensors of the checkpoint, per channel */ \
    X(BATCH, "batch")       /* all rows of one request, per channel */

/* How eps enters the denominator of a variance or mean square v, or of a length. */
#define LAM_EPS_MODE_MAP(X)                                     \
    X(VARIANCE, "variance")             /* sqrt(v + eps) */     \
    X(STD, "std")                       /* sqrt(v) + eps */     \
    X(FLOOR_VARIANCE, "floor_variance") /* sqrt(max(v, eps)) */ \
    X(FLOOR_NORM, "floor_norm")         /* max(length, eps) */

/* What level full adds to a layer: one number, and one a head. */
#define LAM_LAYER_VALUE_MAP(X)                          \
    X(TOKEN_SIMILARITY, "token_similarity")             \
    X(LAYER_COSINE, "layer_cosine")                     \
    X(PARTICIPATION_RATIO, "participation_ratio")       \
    X(ATTENTION_BRANCH_RATIO, "attention_branch_ratio") \
    X(FFN_BRANCH_RATIO, "ffn_branch_ratio")             \
    X(GELU_NEGATIVE, "gelu_negative")                   \
    X(GELU_POSITIVE, "gelu_positive")                   \
    X(MASSIVE_ACTIVATIONS, "massive_activations")
#define LAM_HEAD_VALUE_MAP(X) X(ENTROPY, "attention_entropy") X(SINK, "attention_sink")

/* What the compiler may move out of norms and into weights; docs/NUMERICS.md. X(NAME, "name",
 * whether it is done unless something else is said, "what it does"). */
#define LAM_FOLD_MAP(X)                                                                    \
    X(READER, "reader", true, "a fixed affine norm into the matrices that read it")        \
    X(WRITER, "writer", true, "a fixed affine norm into the matrix that writes its input") \
    X(STREAM, "stream", true, "fixed affine norms behind residual sums into the layers")   \
    X(FINAL, "final", true, "the affine map that is left at the end into the final norm")  \
    X(GAIN, "gain", false, "gain and bias of other norms into the matrices that read it")  \
    X(CENTRE, "centre", false, "the mean that norms of a token take away, into the weights")
#define LAM_ENUM_ROW_FOLD(name, text, on, what) LAM_FOLD_##name,
typedef enum lam_fold { LAM_FOLD_MAP(LAM_ENUM_ROW_FOLD) LAM_FOLD_COUNT } lam_fold;

/* Sets of folds: bits 1 << lam_fold. */
#define LAM_FOLD_BIT(name, text, on, what) | ((on) ? 1u << LAM_FOLD_##name : 0u)
enum {
    LAM_FOLDS_NONE = 0,
    LAM_FOLDS_DEFAULT = 0u LAM_FOLD_MAP(LAM_FOLD_BIT),
    LAM_FOLDS_ALL = (1u << LAM_FOLD_COUNT) - 1u
};

/* And to a norm with running tensors; the last one to a norm that squashes. */
#define LAM_POPULATION_VALUE_MAP(X)                     \
    X(MEAN_DISTANCE, "mean_distance")                   \
    X(VARIANCE_DISTANCE, "variance_distance")           \
    X(MEAN_TID, "mean_tid")                             \
    X(VARIANCE_TID, "variance_tid")                     \
    X(SECOND_MOMENT_DISTANCE, "second_moment_distance") \
    X(SECOND_MOMENT_TID, "second_moment_tid")           \
    X(SATURATION, "saturation")

#define LAM_ENUM_ROW_POPULATION_VALUE(name, text) LAM_POPULATION_##name,
#define LAM_ENUM_ROW_LAYER_VALUE(name, text)      LAM_LAYER_##name,
#define LAM_ENUM_ROW_HEAD_VALUE(name, text)       LAM_HEAD_##name,
#define LAM_ENUM_ROW_ISA(name, text)              LAM_ISA_##name,
#define LAM_ENUM_ROW_POOL(name, text)             LAM_POOL_##name,
#define LAM_ENUM_ROW_ACTIVATION(name, text)       LAM_ACTIVATION_##name,
#define LAM_ENUM_ROW_STATS(name, text)            LAM_STATS_##name,
#define LAM_ENUM_ROW_SITE(name, text)             LAM_SITE_##name,
#define LAM_ENUM_ROW_SOURCE(name, text)           LAM_NORM_FROM_##name,
#define LAM_ENUM_ROW_EPS_MODE(name, text)         LAM_EPS_##name,

typedef enum lam_isa { LAM_ISA_MAP(LAM_ENUM_ROW_ISA) LAM_ISA_COUNT } lam_isa;
typedef enum lam_pool { LAM_POOL_MAP(LAM_ENUM_ROW_POOL) LAM_POOL_COUNT } lam_pool;
typedef enum lam_activation {
    LAM_ACTIVATION_MAP(LAM_ENUM_ROW_ACTIVATION) LAM_ACTIVATION_COUNT
} lam_activation;
typedef enum lam_stats_level {
    LAM_STATS_LEVEL_MAP(LAM_ENUM_ROW_STATS) LAM_STATS_LEVEL_COUNT
} lam_stats_level;
typedef enum lam_site { LAM_SITE_MAP(LAM_ENUM_ROW_SITE) LAM_SITE_COUNT } lam_site;
typedef enum lam_layer_value {
    LAM_LAYER_VALUE_MAP(LAM_ENUM_ROW_LAYER_VALUE) LAM_LAYER_VALUE_COUNT
} lam_layer_value;
typedef enum lam_head_value {
    LAM_HEAD_VALUE_MAP(LAM_ENUM_ROW_HEAD_VALUE) LAM_HEAD_VALUE_COUNT
} lam_head_value;
typedef enum lam_population_value {
    LAM_POPULATION_VALUE_MAP(LAM_ENUM_ROW_POPULATION_VALUE) LAM_POPULATION_VALUE_COUNT
} lam_population_value;
typedef enum lam_norm_source {
    LAM_NORM_SOURCE_MAP(LAM_ENUM_ROW_SOURCE) LAM_NORM_FROM_COUNT
} lam_norm_source;
typedef enum lam_eps_mode {
    LAM_EPS_MODE_MAP(LAM_ENUM_ROW_EPS_MODE) LAM_EPS_MODE_COUNT
} lam_eps_mode;

/* The layer of sites that belong to none: embedding and final. */
#define LAM_LAYER_NONE SIZE_MAX

const char *lam_isa_name(lam_isa v);
const char *lam_pool_name(lam_pool v);
const char *lam_activation_name(lam_activation v);
const char *lam_stats_level_name(lam_stats_level v);
const char *lam_site_name(lam_site v);
const char *lam_layer_value_name(lam_layer_value v);
const char *lam_head_value_name(lam_head_value v);
const char *lam_population_value_name(lam_population_value v);
const char *lam_norm_source_name(lam_norm_source v);
const char *lam_eps_mode_name(lam_eps_mode v);
const char *lam_fold_name(lam_fold v);

/* Exact, case-sensitive; false leaves *out alone. lam_pool_parse also takes the spellings of other
 * programs: last_token, lasttoken, weightedmean, mean_sqrt_len_tokens, mean_tokens, max_tokens,
 * cls_token. */
bool lam_isa_parse(const char *s, size_t n, lam_isa *out);
bool lam_pool_parse(const char *s, size_t n, lam_pool *out);
bool lam_stats_level_parse(const char *s, size_t n, lam_stats_level *out);
bool lam_site_parse(const char *s, size_t n, lam_site *out);
bool lam_norm_source_parse(const char *s, size_t n, lam_norm_source *out);
bool lam_eps_mode_parse(const char *s, size_t n, lam_eps_mode *out);

/* Adds to *folds what the word names: a fold, "affine" (the default), "all" or "none". */
bool lam_folds_parse(const char *s, size_t n, unsigned *folds);

#endif
