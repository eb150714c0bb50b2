/* What an encoder is, apart from its weights: read from configuration files by core/import, turned
 * into a program by core/compile. */
#ifndef LAM_MODEL_HPARAMS_H
#define LAM_MODEL_HPARAMS_H

#include "core/base/status.h"
#include "core/model/names.h"
#include "core/model/weights.h"
#include "core/norm/norm.h"

/* Where norms stand; docs/NORMS.md. a = residual_scale, A and F the sub-layers without residual:
 *   post      u = N1(a x + A(x))        x' = N2(a u + F(u))
 *   deepnorm  as post, a must be said
 *   pre       u = a x + A(N1(x))        x' = a u + F(N2(u))
 *   sandwich  u = a x + B1(A(N1(x)))    x' = a u + B2(F(N2(u)))
 *   peri      as sandwich, embedding and final norm must exist
 *   sub       as pre, with a norm S before the last linear of A and of F
 *   none      u = a x + A(x)            x' = a u + F(u) */
#define LAM_PLACEMENT_MAP(X) \
    X(POST, "post")          \
    X(DEEPNORM, "deepnorm")  \
    X(PRE, "pre")            \
    X(SANDWICH, "sandwich")  \
    X(PERI, "peri")          \
    X(SUB, "sub")            \
    X(NONE, "none")
#define LAM_ENUM_ROW_PLACEMENT(name, text) LAM_PLACEMENT_##name,
typedef enum lam_placement {
    LAM_PLACEMENT_MAP(LAM_ENUM_ROW_PLACEMENT) LAM_PLACEMENT_COUNT
} lam_placement;

/* The norm of a sub-layer stands behind its residual sum. */
static inline bool lam_placement_is_post(lam_placement p)
{
    return p == LAM_PLACEMENT_POST || p == LAM_PLACEMENT_DEEPNORM;
}

static inline bool lam_placement_has_branch(lam_placement p)
{
    return p == LAM_PLACEMENT_SANDWICH || p == LAM_PLACEMENT_PERI;
}

/* Of the norm between the two linears of the feed-forward part. */
#define LAM_INNER_MAP(X)           \
    X(BEFORE, "before_activation") \
    X(AFTER, "after_activation")
#define LAM_ENUM_ROW_INNER(name, text) LAM_INNER_##name,
typedef enum lam_inner { LAM_INNER_MAP(LAM_ENUM_ROW_INNER) LAM_INNER_COUNT } lam_inner;

const char *lam_placement_name(lam_placement v);

/* How a token's position id follows from the sequence as sent. */
typedef enum lam_position_rule {
    LAM_POSITIONS_INDEX, /* 0, 1, 2, ... in the row as sent, masked tokens included */
    /* pad_id + the number of ids up to it, itself included, that are not pad_id; of pad_id itself:
     * pad_id. A mask has no say. */
    LAM_POSITIONS_AFTER_PAD,
} lam_position_rule;

/* Compiled-in maxima: a configuration beyond them is refused before anything is allocated. */
enum {
    LAM_MAX_LAYERS = 256,
    LAM_MAX_WIDTH = 1 << 15,
    LAM_MAX_FFN_WIDTH = 1 << 17,
    LAM_MAX_VOCAB = 1 << 22,
    LAM_MAX_POSITIONS = 1 << 17,
    LAM_MAX_TYPES = 1 << 10,
};

/* Fields that say "0: ..." are filled by lam_hparams_complete, and stand for themselves from there
 * on. */
typedef struct lam_hparams {
    const char *family; /* static string: "bert" */
    size_t width, layers, heads, ffn_width, vocab;
    size_t types;             /* rows of the token type table; may be 0: there is none */
    size_t embedding_width;   /* of the embedding tables and their norm. 0: width */
    bool embedding_projected; /* a matrix leads from there to width */
    size_t weight_sets; /* layers may share their weights: layer i has set i * weight_sets / layers.
                           0: as many as layers */
    size_t positions;   /* longest sequence, in tokens. 0: as many as position_rows */
    size_t position_rows; /* rows of the position table; may be 0: there is none */
    lam_position_rule position_rule;
    int32_t pad_id;        /* LAM_POSITIONS_AFTER_PAD */
    size_t head_width;     /* of attention. 0: width / heads */
    float attention_scale; /* of its scores. 0: 1 / sqrt(head_width) */
    bool without_biases;   /* of matrices */
    size_t bias_buckets;   /* rows of the table of biases by distance; 0: the scores have none */
    size_t bias_distance;  /* from where on all are alike (core/compile/bias.c) */
    size_t bias_rows;      /* of the table, at least bias_buckets */
    lam_activation activation;
    lam_placement placement;
    /* ABSENT where there is none. Attention's and the feed-forward part's stand for all norms of
     * that sub-layer: before or after it, of its branch, inside it. */
    lam_norm_spec embedding_norm, attention_norm, ffn_norm, inner_norm, final_norm;
    lam_inner inner_position;
    float residual_scale; /* above 0 */
} lam_hparams;

/* Gives every field that was left 0 its value. */
void lam_hparams_complete(lam_hparams *h);

/* Which set of weights a layer has. */
static inline size_t lam_hparams_weight_set(const lam_hparams *h, size_t layer)
{
    return layer * h->weight_sets / h->layers;
}

/* Whether a layer is the first of those that share its set; also outside the layers. */
static inline bool lam_hparams_owns_weights(const lam_hparams *h, size_t layer)
{
    return layer == LAM_LAYER_NONE || layer == 0 ||
           lam_hparams_weight_set(h, layer) != lam_hparams_weight_set(h, layer - 1);
}

/* The norm that a module is, in any layer of this model. */
typedef struct lam_norm_site {
    lam_norm_spec spec; /* kind ABSENT: the model has no such site */
    size_t width;
    lam_site site; /* of its result */
    bool per_layer;
} lam_norm_site;

/* For the modules of LAM_NORM_MODULE_MAP (weights.h). */
lam_norm_site lam_hparams_norm(const lam_hparams *h, lam_module module);

#endif
