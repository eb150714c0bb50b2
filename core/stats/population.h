/* Level full at norms with running tensors: how far what a request shows is from what is stored;
 * and at norms that squash (dyt, derf): how much of it they flatten.
 *
 * Per channel: mean and sum of squares around it (or around 0, for kinds that store a mean square),
 * in double, merged item by item by Chan's rule. Rows with values that are not finite are left
 * out. */
#ifndef LAM_STATS_POPULATION_H
#define LAM_STATS_POPULATION_H

#include "core/lamina.h"
#include "core/program/program.h"

/* Sums over rows; the vectors are [stride(width)]. Of a norm that squashes, only the tails. */
typedef struct lam_channel_sums {
    lam_tail_counts tails;
    uint64_t rows;
    double *mean, *squares;
} lam_channel_sums;

/* a = a and b together. */
void lam__channel_sums_merge(lam_channel_sums *a, const lam_channel_sums *b, size_t width);

/* Inputs below low and above high are squashed to more than 0.95 of the limit. */
typedef struct lam_squash_range {
    float low, high; /* -infinity and infinity: none can be; low > high: all are */
} lam_squash_range;

lam_squash_range lam__squash_range(lam_norm_kind kind, float alpha, float shift);

/* What is stored, and how the site divides. */
typedef struct lam_stored_statistics {
    const lam_norm_spec *spec;
    const float *mean, *square; /* [width]; mean is nothing for kinds with a mean square */
    size_t width;
} lam_stored_statistics;

/* The distances of docs/NUMERICS.md; NaN without rows. */
void lam__population_compare(const lam_stored_statistics *stored, const lam_channel_sums *sums,
                             lam_population_stats *out);

/* All sites of one request. */
typedef struct lam_populations {
    const lam_model *model;
    const lam_program *program;
    const lam_kernels *kernels;
    size_t count;           /* of the program: op->u.measure.index is below it */
    const lam_op **ops;     /* [count] the POPULATION op of each; NULL: not collected */
    lam_channel_sums *sums; /* [count] */
    /* of the item at hand */
    lam_channel_sums item, run; /* of the widest */
    float *scaled;              /* [POPULATION_ROWS, stride(widest)] group-scaled rows */
    float *ones, *zeros;        /* [stride(widest)] */
    size_t item_count;
    lam_population_stats *items; /* [item_count, count] */
} lam_populations;

/* SIZE_MAX: does not fit in memory. */
size_t lam__populations_bytes(const lam_model *m, const lam_stats_opts *o);
bool lam__populations_init(lam_populations *f, lam_arena *arena, const lam_model *m,
                           const lam_stats_opts *o);

/* Adds an item's rows. Items come in order. */
void lam__populations_add(lam_populations *f, size_t item, const lam_op *op, const float *x,
                          size_t stride, size_t rows);

bool lam__populations_read(const lam_populations *f, size_t layer, lam_site site,
                           lam_population_stats *out);
bool lam__populations_read_item(const lam_populations *f, size_t item, size_t layer, lam_site site,
                                lam_population_stats *out);

#endif
