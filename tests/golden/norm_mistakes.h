/* Plausible mistakes of a loader, compiler or kernel, by the names that the references give them.
 */
#ifndef TESTS_GOLDEN_NORM_MISTAKES_H
#define TESTS_GOLDEN_NORM_MISTAKES_H

#include "core/model/model.h"
#include "tests/golden/norm_case.h"

typedef struct mistake mistake;
struct mistake {
    const char *name;
    /* Any of them may be NULL; in the order in which they are called. */
    void (*hparams)(lam_hparams *h);
    /* A tensor as it was read; `source` gives others. */
    void (*tensor)(const lam_hparams *h, lam_weights *source, const lam_param *p, float *dst);
    void (*model)(lam_model *m, const norm_case *c);
    void (*request)(norm_request *q);
};

/* NULL if there is none of that name. */
const mistake *mistake_find(const char *name);
size_t mistake_count(void);

/* ---- Wrong kernels (norm_mistake_kernels.c) ---- */

/* What they know besides their arguments: the right table, the norm of the attention sub-layer, and
 * the request that runs. */
typedef struct mistaken {
    lam_kernels right;
    lam_norm_spec spec;
    const norm_request *request;
} mistaken;
extern mistaken mistaken_now;

void wrong_one_pass(lam_model *m, const norm_case *c);
void wrong_centred_rms(lam_model *m, const norm_case *c);
void wrong_ada(lam_model *m, const norm_case *c);
void wrong_last_channels(lam_model *m, const norm_case *c);
void wrong_first_scaled(lam_model *m, const norm_case *c);
void wrong_length_plus_eps(lam_model *m, const norm_case *c);
void wrong_stride(lam_model *m, const norm_case *c);
void wrong_padding(lam_model *m, const norm_case *c);
void wrong_per_position(lam_model *m, const norm_case *c);
void wrong_mean_of_variances(lam_model *m, const norm_case *c);
void wrong_mean_subtracted(lam_model *m, const norm_case *c);
void wrong_clip(lam_model *m, const norm_case *c);
void wrong_tanh(lam_model *m, const norm_case *c);
void wrong_attention(lam_model *m, const norm_case *c);

#endif
