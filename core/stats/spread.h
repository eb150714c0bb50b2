/* The participation ratio of rows, (tr C)^2 / ||C||_F^2 for their population covariance C, without
 * a matrix [width, width] where there are fewer rows than channels: with X the centred rows, X X^T
 * has the trace and the Frobenius norm of X^T X. */
#ifndef LAM_STATS_SPREAD_H
#define LAM_STATS_SPREAD_H

#include "core/base/arena.h"
#include "core/kernels/kernels.h"

/* Memory for one matrix of rows at work. May serve any number of spreads, one after another. */
typedef struct lam_spread_scratch {
    size_t width, max_rows;
    double *sums;      /* [stride(width)] */
    float *high, *low; /* [stride(width)] the mean in two floats */
    float *ones;       /* [max_rows] */
    float *zeros;      /* [stride(side)] a linear's bias; side: the lesser of max_rows and width */
    float *centred;    /* [max_rows, width] */
    float *turned;     /* [width, max_rows], or NULL where max_rows < width */
    float *packed;     /* [stride(side), the greater of max_rows and width] */
    float *products;   /* [LAM_PANEL, stride(side)] */
} lam_spread_scratch;

/* Bytes that lam__spread_scratch_init takes, or more. Does not fit in memory: SIZE_MAX. */
size_t lam__spread_scratch_bytes(size_t width, size_t max_rows);
bool lam__spread_scratch_init(lam_spread_scratch *s, lam_arena *arena, size_t width,
                              size_t max_rows);

/* Of the rows whose keep is not 0, which are finite; rows <= max_rows. NaN for fewer than two or
 * where all are equal. */
double lam__spread_of(const lam_spread_scratch *s, const lam_kernels *k, const float *x,
                      size_t stride, size_t rows, const float *keep);

/* Rows that come bit by bit. As many as channels are kept; with one more, those that are there
 * become sums of products around their mean, and so on: merged by Chan's rule. What comes together
 * makes no difference to the bits. */
typedef struct lam_spread {
    size_t width;
    float *rows; /* [capacity, width] */
    size_t count, capacity;
    uint64_t folded;  /* rows in what follows */
    double *mean;     /* [width] */
    double *products; /* lower triangle by rows of LAM_PANEL: see spread.c; NULL: never needed */
} lam_spread;

/* max_rows: of all that will come. The scratch must hold the lesser of max_rows and width. */
size_t lam__spread_bytes(size_t width, size_t max_rows);
bool lam__spread_init(lam_spread *p, lam_arena *arena, size_t width, size_t max_rows);

/* Adds the rows whose keep is not 0; they are finite. */
void lam__spread_add(lam_spread *p, const lam_spread_scratch *s, const lam_kernels *k,
                     const float *x, size_t stride, size_t rows, const float *keep);

/* Once all rows are in. */
double lam__spread_read(lam_spread *p, const lam_spread_scratch *s, const lam_kernels *k);

#endif
