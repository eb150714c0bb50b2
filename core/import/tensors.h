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
    size_t layers;
    lam_tensor *slots; /* [row_count, layers], owned; rows outside the layers use their first */
} lam_tensors;

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
