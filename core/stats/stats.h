/* Filling a request's statistics, one sequence at one site at a time. */
#ifndef LAM_STATS_STATS_H
#define LAM_STATS_STATS_H

#include "core/kernels/kernels.h"
#include "core/lamina.h"
#include "core/stats/layer.h"

/* What level full adds to the layers; NULL at level summary. */
lam_layers *lam__stats_layers(lam_stats *s);

/* Adds the rows of one item in front of a norm; nothing below level full. */
void lam__stats_add_population(lam_stats *s, size_t item, const lam_op *op, const float *x,
                               size_t stride, size_t rows);

/* Whether anything is kept for a slot (program.h). */
bool lam__stats_collects(const lam_stats *s, size_t slot);

/* Adds the rows of one item at one site. Items come in order, each slot once an item: the sums of a
 * request are then the same however its items were batched. */
void lam__stats_add(lam_stats *s, size_t item, size_t slot, const lam_kernels *k, const float *x,
                    size_t stride, size_t rows);

#endif
