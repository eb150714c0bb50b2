/* The entries of each instruction set's table, across the files that make them. */
#ifndef LAM_KERNELS_ISA_H
#define LAM_KERNELS_ISA_H

#include "core/kernels/kernels.h"

#define LAM__DECLARE_KERNELS(isa)                                                                 \
    void lam__linear_##isa(const lam_linear *l, const float *x, size_t x_stride, size_t rows,     \
                           const float *residual, size_t residual_stride, float residual_scale,   \
                           float *y, size_t y_stride);                                            \
    size_t lam__attention_scratch_##isa(const lam_attention *a, size_t max_tokens);               \
    void lam__attention_##isa(const lam_attention *a, const float *q, const float *k,             \
                              const float *v, size_t stride, size_t tokens, float *out,           \
                              size_t out_stride, float *scratch);                                 \
    void lam__attention_biased_##isa(const lam_attention *a, const lam_attention_bias *bias,      \
                                     const float *q, const float *k, const float *v,              \
                                     size_t stride, size_t tokens, float *out, size_t out_stride, \
                                     float *scratch);                                             \
    void lam__layer_norm_##isa(const lam_layer_norm *n, const float *x, size_t x_stride,          \
                               size_t rows, float *y, size_t y_stride);                           \
    void lam__row_norm_##isa(const lam_row_norm *n, const float *x, size_t x_stride, size_t rows, \
                             float *y, size_t y_stride);                                          \
    void lam__channel_affine_##isa(const lam_channel_affine *a, const float *x, size_t x_stride,  \
                                   size_t rows, float *y, size_t y_stride);                       \
    void lam__squash_##isa(const lam_squash *s, const float *x, size_t x_stride, size_t rows,     \
                           float *y, size_t y_stride);                                            \
    void lam__column_moments_##isa(const float *x, size_t stride, size_t rows, size_t width,      \
                                   bool around_zero, double *mean, double *squares);              \
    void lam__embed_##isa(const lam_embedding *e, const int32_t *ids, const int32_t *positions,   \
                          const int32_t *types, size_t rows, float *y, size_t y_stride);          \
    void lam__add_##isa(const float *x, size_t x_stride, const float *z, size_t z_stride,         \
                        float scale, size_t rows, size_t width, float *y, size_t y_stride);       \
    void lam__activate_##isa(lam_activation act, const float *x, size_t x_stride, size_t rows,    \
                             size_t width, float *y, size_t y_stride);                            \
    void lam__moments_##isa(const float *x, size_t stride, size_t rows, size_t width,             \
                            lam_moments *out, double *channel_squares);                           \
    void lam__attention_sums_##isa(const lam_attention *a, const lam_attention_bias *bias,        \
                                   const float *q, const float *k, size_t stride, size_t tokens,  \
                                   lam_attention_sums *sums, float *scratch);                     \
    void lam__products_##isa(const float *x, size_t x_stride, const float *y, size_t y_stride,    \
                             size_t rows, size_t width, lam_row_products *out);                   \
    void lam__add_scaled_##isa(const float *x, size_t stride, size_t rows, size_t width,          \
                               const float *scale, double *sums);                                 \
    void lam__centre_##isa(const float *x, size_t x_stride, size_t rows, size_t width,            \
                           const float *high, const float *low, float *y, size_t y_stride);       \
    void lam__tail_counts_##isa(const float *x, size_t stride, size_t rows, size_t width,         \
                                float low, float high, lam_tail_counts *out);

LAM__DECLARE_KERNELS(ref)
#if defined(__x86_64__)
LAM__DECLARE_KERNELS(avx2)
LAM__DECLARE_KERNELS(avx512)
#endif

/* All entries of a table at once. */
#define LAM__TABLE(ISA, suffix)                               \
    ((lam_kernels){                                           \
        .isa = LAM_ISA_##ISA,                                 \
        .linear = lam__linear_##suffix,                       \
        .attention_scratch = lam__attention_scratch_##suffix, \
        .attention = lam__attention_##suffix,                 \
        .attention_biased = lam__attention_biased_##suffix,   \
        .layer_norm = lam__layer_norm_##suffix,               \
        .row_norm = lam__row_norm_##suffix,                   \
        .channel_affine = lam__channel_affine_##suffix,       \
        .squash = lam__squash_##suffix,                       \
        .column_moments = lam__column_moments_##suffix,       \
        .embed = lam__embed_##suffix,                         \
        .add = lam__add_##suffix,                             \
        .activate = lam__activate_##suffix,                   \
        .moments = lam__moments_##suffix,                     \
        .attention_sums = lam__attention_sums_##suffix,       \
        .products = lam__products_##suffix,                   \
        .add_scaled = lam__add_scaled_##suffix,               \
        .centre = lam__centre_##suffix,                       \
        .tail_counts = lam__tail_counts_##suffix,             \
    })

#endif
