/* Where the compiler gets tensors from. core/import implements it over files; tests over memory.
 *
 * The compiler asks by role, not by file name: which module of the encoder, in which layer, which
 * parameter. Only the importer knows what a family calls them. */
#ifndef LAM_MODEL_WEIGHTS_H
#define LAM_MODEL_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/status.h"

/* Modules that are norms, in the order of computation within their layer for most placements. */
#define LAM_NORM_MODULE_MAP(X) \
    X(EMBEDDING_NORM)          \
    X(ATTENTION_NORM)          \
    X(ATTENTION_SUB_NORM)      \
    X(ATTENTION_BRANCH_NORM)   \
    X(FFN_NORM)                \
    X(INNER_NORM)              \
    X(FFN_SUB_NORM)            \
    X(FFN_BRANCH_NORM)         \
    X(FINAL_NORM)

/* Modules of an encoder that own parameters. */
#define LAM_MODULE_MAP(X)   \
    X(WORD_EMBEDDING)       \
    X(POSITION_EMBEDDING)   \
    X(TYPE_EMBEDDING)       \
    X(EMBEDDING_PROJECTION) \
    X(RELATIVE_BIAS)        \
    X(QUERY)                \
    X(KEY)                  \
    X(VALUE)                \
    X(ATTENTION_OUT)        \
    X(FFN_IN)               \
    X(FFN_OUT)              \
    LAM_NORM_MODULE_MAP(X)

#define LAM_ENUM_ROW_MODULE(name) LAM_MODULE_##name,
typedef enum lam_module { LAM_MODULE_MAP(LAM_ENUM_ROW_MODULE) LAM_MODULE_COUNT } lam_module;

static inline bool lam_module_is_norm(lam_module m)
{
    return m >= LAM_MODULE_EMBEDDING_NORM && m <= LAM_MODULE_FINAL_NORM;
}

typedef struct lam_param {
    lam_module module;
    size_t layer;     /* LAM_LAYER_NONE outside the layers */
    const char *name; /* "weight", "bias"; of norms those of LAM_NORM_TENSOR_MAP */
    size_t rank;      /* 1 or 2 */
    size_t shape[2];  /* expected */
} lam_param;

typedef struct lam_weights lam_weights;
struct lam_weights {
    /* Reads the tensor as float32 into dst [product of shape]. Refuses a missing tensor, another
     * shape or rank, a dtype that is no float, and values that are not finite, naming the tensor
     * and file.
     * A scalar is asked for as one of rank 1 and 1 value; a norm's tensors may have more dimensions
     * of size 1, and a variance or mean square must not be negative. */
    lam_status (*read)(lam_weights *w, const lam_param *p, float *dst, lam_err *err);
    /* Whether it exists, whatever its shape. */
    bool (*has)(const lam_weights *w, lam_module module, size_t layer, const char *name);
};

#endif
