/* What each family calls its tensors and its configuration keys. Internal to core/import.
 *
 * Adding a family: a list of tensor rows, a reader of its config.json and one row in families.c. */
#ifndef LAM_IMPORT_FAMILIES_H
#define LAM_IMPORT_FAMILIES_H

#include "core/import/json.h"
#include "core/model/hparams.h"
#include "core/model/weights.h"

/* Sizes that shapes are made of. */
typedef enum lam_dim {
    LAM_DIM_NONE, /* as columns: the tensor has one dimension */
    LAM_DIM_WIDTH,
    LAM_DIM_FFN,
    LAM_DIM_VOCAB,
    LAM_DIM_POSITIONS,
    LAM_DIM_TYPES,
} lam_dim;

size_t lam_dim_size(const lam_hparams *h, lam_dim dim);

typedef struct lam_tensor_row {
    lam_module module;
    const char *param; /* "weight", "bias" */
    const char *name; /* "encoder.layer.%.output.dense"; % stands for the layer; ".param" follows */
    const char *old_param; /* what old files call the parameter ("gamma"), or NULL */
    lam_dim rows, columns;
} lam_tensor_row;

/* Where a norm's tensors are; which they are depends on its kind (core/norm/kinds.c). */
typedef struct lam_norm_path {
    lam_module module;
    const char *path; /* as lam_tensor_row has it */
} lam_norm_path;

typedef struct lam_family {
    const char *model_type;
    const lam_tensor_row *rows;
    size_t row_count;
    const lam_norm_path *norms;
    size_t norm_count;
    const char *prefix; /* all names of a file have it or none, "bert." */
    /* Beginnings of names, without the prefix, of tensors that files hold and an encoder does not
     * need. */
    const char *const *ignored; /* [ignored_count] */
    size_t ignored_count;
    lam_status (*read_config)(lam_hparams *h, const lam_json *config, lam_err *err);
} lam_family;

/* NULL if there is none of that model_type. */
const lam_family *lam_family_find(const char *model_type);

/* All model_types, "bert, ..." */
void lam_family_list(char *out, size_t bytes);

bool lam_tensor_row_is_per_layer(const lam_tensor_row *row);

enum { LAM_TENSOR_NAME_MAX = 160 };

/* The name in a file: prefix, row and layer put together; old_param instead of param if `old`. */
void lam_tensor_row_name(char out[LAM_TENSOR_NAME_MAX], const lam_tensor_row *row,
                         const char *prefix, size_t layer, bool old);

lam_status lam_bert_config(lam_hparams *h, const lam_json *config, lam_err *err);

#endif
