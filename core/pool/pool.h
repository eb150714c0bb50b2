/* Rows of one sequence -> its vector, and the scaling of that vector to unit length. */
#ifndef LAM_POOL_POOL_H
#define LAM_POOL_POOL_H

#include "core/lamina.h"

/* Rows x [rows, >= dimensions] at a stride, rows > 0, to out [dimensions], or [rows, dimensions]
 * for LAM_POOL_NONE. Sums in double. LAM_E_NON_FINITE if a value of the result is not finite. With
 * normalize each vector is divided by its length; LAM_E_ZERO_NORM if that is 0. After a failure out
 * is unspecified. */
lam_status lam__pool(const lam_encode_opts *opts, const float *x, size_t stride, size_t rows,
                     float *out);

#endif
