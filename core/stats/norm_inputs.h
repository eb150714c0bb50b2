/* Population statistics of norms, filled while a context encodes (lamina.h has the rest). */
#ifndef LAM_STATS_NORM_INPUTS_H
#define LAM_STATS_NORM_INPUTS_H

#include "core/lamina.h"
#include "core/norm/norm.h"
#include "core/stats/population.h"

/* Whether the site is wanted; whether nothing behind it is. */
bool lam__norm_inputs_wants(const lam_norm_inputs *p, size_t norm);
bool lam__norm_inputs_ends_at(const lam_norm_inputs *p, size_t norm);

/* Adds the rows of one item, x [rows, width] in front of the norm. */
void lam__norm_inputs_add(lam_norm_inputs *p, size_t norm, const lam_kernels *k,
                          const lam_norm_spec *spec, const float *x, size_t stride, size_t rows);

/* What a site runs on in place of the model's own tensors. */
typedef struct lam_norm_tensors {
    bool running;                       /* run on stored statistics, whatever else says */
    const float *mean, *square, *scale; /* [stride(width)]; NULL: the model's */
} lam_norm_tensors;

/* The op of a norm, in the list where none is folded away; NULL from norm == their number on. */
struct lam_op;
const struct lam_op *lam__norm_op(const lam_model *m, size_t norm);

const lam_norm_tensors *lam__norm_values_at(const lam_norm_values *v, size_t norm);

#endif
