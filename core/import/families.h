/* What each family calls its tensors and its configuration keys. Internal to core/import.
 *
 * Adding a family: tensor rows, norm paths, a reader of its config.json and one row in a
 * family_*.c; docs/CONTRIBUTING.md shows it. */
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
    LAM_DIM_EMBEDDING,
    LAM_DIM_BIASES,
    LAM_DIM_HEADS,
    LAM_DIM_QUERIES, /* heads * head_width */
} lam_dim;

size_t lam_dim_size(const lam_hparams *h, lam_dim dim);

typedef struct lam_tensor_row {
    lam_module module;
    const char *param; /* "weight", "bias" */
    const char *name; /* "encoder.layer.%.output.dense"; % stands for the layer; ".param" follows */
    const char *old_param; /* what old files call the parameter ("gamma"), or NULL */
    lam_dim rows, columns;
} lam_tensor_row;

#define LAM_LINEAR(module, name, rows, columns)                                     \
    {LAM_MODULE_##module, "weight", name, NULL, LAM_DIM_##rows, LAM_DIM_##columns}, \
    {                                                                               \
        LAM_MODULE_##module, "bias", name, NULL, LAM_DIM_##rows, LAM_DIM_NONE       \
    }
#define LAM_TABLE(module, name, rows)                                                \
    {                                                                                \
        LAM_MODULE_##module, "weight", name, NULL, LAM_DIM_##rows, LAM_DIM_EMBEDDING \
    }

/* Whether such a model has the tensor at all. */
bool lam_tensor_row_exists(const lam_tensor_row *row, const lam_hparams *h);

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
    lam_status (*read_config)(lam_hparams *h, const lam_json *config, lam_err *err);
} lam_family;

typedef struct lam_family_group {
    const lam_family *families;
    size_t count;
} lam_family_group;

/* One a file family_*.c. */
extern const lam_family_group lam__bert_families, lam__t5_families;

/* NULL if there is none of that model_type. */
const lam_family *lam_family_find(const char *model_type);

/* Whether a tensor, by its name without the prefix, belongs to what stands behind an encoder: files
 * hold it, and vectors do not need it. */
bool lam_family_ignores(const char *name, size_t bytes);

/* The module path of a norm, "encoder.layer.%.output.LayerNorm"; NULL if the family has no such. */
const char *lam__norm_path(const lam_family *family, lam_module module);

/* All model_types, "bert, ..." */
void lam_family_list(char *out, size_t bytes);

bool lam_tensor_row_is_per_layer(const lam_tensor_row *row);

enum { LAM_TENSOR_NAME_MAX = 160 };

/* The name in a file: prefix, row and layer put together; old_param instead of param if `old`. */
void lam_tensor_row_name(char out[LAM_TENSOR_NAME_MAX], const lam_tensor_row *row,
                         const char *prefix, size_t layer, bool old);

/* The position rule of RoBERTa, whose table h->position_rows has been read. */
lam_status lam__positions_after_pad(lam_hparams *h, const lam_json *config, lam_err *err);

#endif
