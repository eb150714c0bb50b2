/* The reference kernels: plain C that any compiler for any machine turns into something usable.
 * They are the floor on which faster tables stand, and in the tests the second opinion beside the
 * double oracle. Sums run in float32 in the order the code shows, a multiply and then an add. */
#ifndef LAM_KERNELS_REF_H
#define LAM_KERNELS_REF_H

#include "core/kernels/kernels.h"

/* One value; libm's erf, exp and tanh. */
float lam__activate_one_ref(lam_activation act, float x);

void lam__linear_ref(const lam_linear *l, const float *x, size_t x_stride, size_t rows,
                     const float *residual, size_t residual_stride, float residual_scale, float *y,
                     size_t y_stride);
size_t lam__attention_scratch_ref(const lam_attention *a, size_t max_tokens);
void lam__attention_ref(const lam_attention *a, const float *q, const float *k, const float *v,
                        size_t stride, size_t tokens, float *out, size_t out_stride,
                        float *scratch);
void lam__layer_norm_ref(const lam_layer_norm *n, const float *x, size_t x_stride, size_t rows,
                         float *y, size_t y_stride);
void lam__embed_ref(const lam_embedding *e, const int32_t *ids, const int32_t *positions,
                    const int32_t *types, size_t rows, float *y, size_t y_stride);
void lam__add_ref(const float *x, size_t x_stride, const float *z, size_t z_stride, float scale,
                  size_t rows, size_t width, float *y, size_t y_stride);
void lam__activate_ref(lam_activation act, const float *x, size_t x_stride, size_t rows,
                       size_t width, float *y, size_t y_stride);
void lam__moments_ref(const float *x, size_t stride, size_t rows, size_t width, lam_moments *out,
                      double *channel_squares);

/* What all moments kernels do with a row that has non-finite values, or whose numbers leave the
 * range in which float32 powers are exact enough: two passes in double. */
lam_moments lam__moments_row_exact(const float *x, size_t width);

#endif
