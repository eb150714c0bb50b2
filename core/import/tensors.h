/* A family's tensors found in a bundle: what the compiler reads its weights from. Internal to
 * core/import. */
#ifndef LAM_IMPORT_TENSORS_H
#define LAM_IMPORT_TENSORS_H

#include "core/import/bundle.h"
#include "core/import/families.h"

typedef struct lam_tensors {
    lam_weights base; /* for the compiler */
    const lam_family *family;
    const lam_bundle *bundle;
    const char *prefix;  /* of the file's names: the family's, or "" */
    size_t layers, sets; /* layers may share sets of weights (hparams.h) */
    lam_tensor *slots;   /* [row_count, sets], owned; rows outside the layers use their first */
    lam_tensor *norms;   /* [norm_count, sets, LAM_NORM_TENSOR_COUNT], owned; the same */
} lam_tensors;

/* The set of weights of a layer; 0 outside the layers. */
size_t lam__tensors_set(const lam_tensors *t, size_t layer);

/* F32, F16, BF16 or F64; `what` is the tensor's name, quoted. */
lam_status lam_tensor_check_dtype(const lam_tensor *t, const char *what, lam_err *err);

/* "32, 8" */
void lam__print_shape(char *out, size_t bytes, const size_t *shape, size_t rank);

/* ---- Norms (norm_tensors.c) ---- */

/* Finds the tensors of every norm of the model; refuses missing, doubled and misshapen ones, and
 * whatever else stands under a norm's path, used or not: a bias that is silently dropped is a wrong
 * answer. `prefix` is what the file's other names have. */
lam_status lam__bind_norms(lam_tensors *t, const lam_hparams *h, const char *prefix, lam_err *err);

/* NULL if the family has no such norm; its entry is NULL if the file does not hold the tensor. */
lam_tensor *lam__norm_slot(const lam_tensors *t, lam_module module, size_t layer, const char *name);

/* The name that a norm's tensor has in the file, or would have: the kind's usual one. */
lam_status lam__norm_tensor_path(const lam_tensors *t, const lam_hparams *h, lam_module module,
                                 size_t layer, lam_norm_tensor tensor,
                                 char out[LAM_TENSOR_NAME_MAX], lam_err *err);

/* Reads `count` values; a variance or mean square must not be negative. */
lam_status lam__read_norm(const lam_tensors *t, const lam_param *p, float *dst, lam_err *err);

/* Finds each tensor of the family, checks its shape against h and its dtype, so that nothing is
 * allocated for a model that its files do not hold. Refuses one tensor under two names and a prefix
 * on some names only; tells `w` once of tensors that nobody asked for. Borrows `b`. On failure
 * nothing is left to free. */
lam_status lam_tensors_bind(lam_tensors *t, const lam_family *family, const lam_hparams *h,
                            lam_bundle *b, const lam_warner *w, lam_err *err);
void lam_tensors_free(lam_tensors *t);

/* "float32", "float16", "bfloat16" or "float64": of the word embeddings. */
const char *lam_tensors_dtype(const lam_tensors *t);

#endif
