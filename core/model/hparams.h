/* What an encoder is, apart from its weights: read from configuration files by core/import, turned
 * into a program by core/compile. */
#ifndef LAM_MODEL_HPARAMS_H
#define LAM_MODEL_HPARAMS_H

#include "core/base/status.h"
#include "core/model/names.h"
#include "core/norm/norm.h"

/* Where norms stand. docs: design.md section 6. Post: u = N1(x + A(x)), x' = N2(u + F(u)). */
#define LAM_PLACEMENT_MAP(X)               X(POST, "post")
#define LAM_ENUM_ROW_PLACEMENT(name, text) LAM_PLACEMENT_##name,
typedef enum lam_placement {
    LAM_PLACEMENT_MAP(LAM_ENUM_ROW_PLACEMENT) LAM_PLACEMENT_COUNT
} lam_placement;

/* How a token's position id follows from the sequence as sent. */
typedef enum lam_position_rule {
    LAM_POSITIONS_INDEX, /* 0, 1, 2, ... in the row as sent, masked tokens included */
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

typedef struct lam_hparams {
    const char *family; /* static string: "bert" */
    size_t width, layers, heads, ffn_width, vocab, types;
    size_t position_rows; /* rows of the position table */
    lam_position_rule position_rule;
    lam_activation activation;
    lam_placement placement;
    lam_norm_spec embedding_norm, attention_norm, ffn_norm;
} lam_hparams;

#endif
