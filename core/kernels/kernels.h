/* The kernels: everything whose speed matters, behind one table of function pointers.
 *
 * Matrices are row-major float32; row i starts at base + i * stride, strides in floats. Buffers are
 * made by the plan: bases are 64-byte aligned, strides are lam_row_stride(width), and the padding
 * columns of a row may be read and written but decide nothing.
 *
 * The rule that makes results independent of batching: a kernel computes each row by a fixed order
 * of operations that depends neither on how many rows there are nor on where the row stands. Across
 * instruction sets bits may differ, within the bounds that tests/kernels states per op.
 *
 * Kernels never allocate, set errno, or touch anything but their arguments. No argument is checked
 * beyond asserts: sizes come from our own plan. Any thread may call them. */
#ifndef LAM_KERNELS_KERNELS_H
#define LAM_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/model/names.h"
#include "core/stats/moments.h"

/* Columns of a panel of packed weights. */
enum { LAM_PANEL = 32 };

/* Floats from one row of a buffer to the next. */
static inline size_t lam_row_stride(size_t width)
{
    return (width + LAM_PANEL - 1) / LAM_PANEL * LAM_PANEL;
}

/* y = act(x W^T + b) + residual_scale * residual */
typedef struct lam_linear {
    const float *weight; /* packed: [stride(n)/LAM_PANEL][k][LAM_PANEL], columns beyond n are zero;
                            64-byte aligned */
    const float *bias;   /* [stride(n)], zero beyond n; zeros where the layer has none */
    size_t k, n;         /* inputs, outputs */
    lam_activation activation;
} lam_linear;

/* Softmax attention of one sequence: out = softmax(scale * q k^T) v, head by head. */
typedef struct lam_attention {
    size_t heads, head_width; /* H heads of consecutive channels */
    float scale;
} lam_attention;

/* What is added to the scores of one sequence: scale * q k + table[head][key - query + span], the
 * difference of their positions. */
typedef struct lam_attention_bias {
    const float *table;       /* [heads, 2 * span + 1] */
    size_t span;              /* no two positions are further apart */
    const int32_t *positions; /* [tokens] */
} lam_attention_bias;

/* Of the rows of the attention matrix of one head: sums over the queries. A query whose scores are
 * not finite is left out. */
typedef struct lam_attention_sums {
    double entropy; /* -sum A ln A, nats */
    double sink;    /* A of the first key */
    uint64_t queries;
} lam_attention_sums;

/* Inner products of a row x with a row y. xx or yy is not finite if and only if that row has a
 * value that is not. */
typedef struct lam_row_products {
    double xx, yy, xy;
} lam_row_products;

typedef struct lam_tail_counts {
    uint64_t finite, below, above; /* of the finite values */
} lam_tail_counts;

/* The mean and variance norms over a row: y = gain * (x - mean) / sqrt(variance + eps) + bias */
typedef struct lam_layer_norm {
    const float *gain; /* [stride(width)] */
    const float *bias; /* [stride(width)] */
    size_t width;
    float eps;
} lam_layer_norm;

/* Norms over a row or over consecutive groups of its channels:
 *     z = (x - m) / d(v), or c (1 - k z) z of that;  y = gain z + bias
 * m and v are mean and variance of the group, or 0 and its mean square. */
typedef struct lam_row_norm {
    const float *gain; /* [stride(width)] */
    const float *bias; /* [stride(width)] */
    size_t width;
    size_t groups;         /* of width / groups channels each; at least 1 */
    size_t measured;       /* channels at the front of a group that m and v are made of */
    bool centre;           /* whether the mean is taken away */
    size_t ddof;           /* v is divided by the count less this */
    lam_eps_mode eps_mode; /* FLOOR_NORM: v is the length of the row */
    float eps;
    bool ada; /* whether c and k count */
    float c, k;
} lam_row_norm;

/* y = (x~ - mean) scale + bias + slope x, channel by channel. x~ is x, or with groups x divided
 * by sqrt(mean square of its group of the row + group_eps). */
typedef struct lam_channel_affine {
    const float *mean, *scale, *bias; /* [stride(width)] */
    size_t width;
    float slope;   /* 0 where there is none */
    size_t groups; /* 0: none */
    float group_eps;
} lam_channel_affine;

/* y = gain f(alpha x + shift) + bias, f = tanh or erf. */
typedef struct lam_squash {
    const float *gain, *bias; /* [stride(width)] */
    size_t width;
    float alpha, shift;
    bool erf; /* else tanh */
} lam_squash;

/* Sum of table rows: word[ids[i]] + position[positions[i]] + type[types[i]], added in this order.
 */
typedef struct lam_embedding {
    const float *word, *position,
        *type; /* tables of rows of stride(width); position and type may be NULL */
    size_t width;
} lam_embedding;

typedef struct lam_kernels {
    lam_isa isa;

    /* x [rows, k], y [rows, n]; residual [rows, n] or NULL. y may be residual, never x. One chain
     * of multiply-adds over k in ascending order for each output, then + bias, then the activation,
     * then
     * + residual_scale * residual (a multiply, then an add; exact for scale 1): the same bits as
     * `linear` without a residual followed by `add`. */
    void (*linear)(const lam_linear *l, const float *x, size_t x_stride, size_t rows,
                   const float *residual, size_t residual_stride, float residual_scale, float *y,
                   size_t y_stride);

    /* Scratch floats for sequences of up to max_tokens; grows linearly in max_tokens. */
    size_t (*attention_scratch)(const lam_attention *a, size_t max_tokens);

    /* q, k, v, out [tokens, heads * head_width]; q, k and v share a stride. out is none of them.
     * `scratch` is 64-byte aligned. Two passes over the scores (maximum first) or an online
     * softmax; the order of sums over keys depends on `tokens` alone. */
    void (*attention)(const lam_attention *a, const float *q, const float *k, const float *v,
                      size_t stride, size_t tokens, float *out, size_t out_stride, float *scratch);

    /* The same with a bias. */
    void (*attention_biased)(const lam_attention *a, const lam_attention_bias *bias, const float *q,
                             const float *k, const float *v, size_t stride, size_t tokens,
                             float *out, size_t out_stride, float *scratch);

    /* y may be x. Two passes: mean first, then centred squares. */
    void (*layer_norm)(const lam_layer_norm *n, const float *x, size_t x_stride, size_t rows,
                       float *y, size_t y_stride);

    /* y may be x. What layer_norm does not cover; two passes as there. */
    void (*row_norm)(const lam_row_norm *n, const float *x, size_t x_stride, size_t rows, float *y,
                     size_t y_stride);

    /* y may be x. */
    void (*channel_affine)(const lam_channel_affine *a, const float *x, size_t x_stride,
                           size_t rows, float *y, size_t y_stride);

    /* y may be x. */
    void (*squash)(const lam_squash *s, const float *x, size_t x_stride, size_t rows, float *y,
                   size_t y_stride);

    /* Per channel over rows >= 1: mean[c] = sum x / rows, squares[c] = sum (x - mean[c])^2, both in
     * double; [stride(width)] each, the padding is overwritten with anything. `around_zero`: mean
     * is 0 and squares[c] = sum x^2. One pass, around the first row: relative error of the squares
     * below 3 (rows + 4)^2 2^-53 whatever the offset. The order of the sums depends on `rows`
     * alone.
     */
    void (*column_moments)(const float *x, size_t stride, size_t rows, size_t width,
                           bool around_zero, double *mean, double *squares);

    /* ids, positions, types [rows]; types NULL: the type table is not added. */
    void (*embed)(const lam_embedding *e, const int32_t *ids, const int32_t *positions,
                  const int32_t *types, size_t rows, float *y, size_t y_stride);

    /* y = x + scale * z (a multiply, then an add). y may be x or z. */
    void (*add)(const float *x, size_t x_stride, const float *z, size_t z_stride, float scale,
                size_t rows, size_t width, float *y, size_t y_stride);

    /* y = act(x); y may be x. The same bits as the epilogue of `linear`. */
    void (*activate)(lam_activation act, const float *x, size_t x_stride, size_t rows, size_t width,
                     float *y, size_t y_stride);

    /* Moments of all values of the rows, and per channel the sum of squares over the rows. Both
     * outputs are overwritten; channel_squares [width] may be NULL. Values that are not finite are
     * counted and left out of everything else. Row moments in float32 around the row's own mean,
     * merged row after row in double. */
    void (*moments)(const float *x, size_t stride, size_t rows, size_t width, lam_moments *out,
                    double *channel_squares);

    /* What `attention` computes on its way and does not keep: sums [heads], overwritten. The same
     * scratch. `bias` may be NULL. */
    void (*attention_sums)(const lam_attention *a, const lam_attention_bias *bias, const float *q,
                           const float *k, size_t stride, size_t tokens, lam_attention_sums *sums,
                           float *scratch);

    /* Row by row: out [rows]. In float32, in double where that leaves its range. */
    void (*products)(const float *x, size_t x_stride, const float *y, size_t y_stride, size_t rows,
                     size_t width, lam_row_products *out);

    /* sums += scale[r] * x[r], a product in float32 and a sum in double. Rows of scale 0 are left
     * out, whatever they hold. sums [stride(width)]: the padding may be written; that of x is not
     * read. */
    void (*add_scaled)(const float *x, size_t stride, size_t rows, size_t width, const float *scale,
                       double *sums);

    /* y = (x - high) - low for each row; high + low [stride(width)] is a mean in two floats. No
     * padding of x or y is touched: rows may stand side by side. */
    void (*centre)(const float *x, size_t x_stride, size_t rows, size_t width, const float *high,
                   const float *low, float *y, size_t y_stride);

    /* Counts values < low and > high, low < high. */
    void (*tail_counts)(const float *x, size_t stride, size_t rows, size_t width, float low,
                        float high, lam_tail_counts *out);
} lam_kernels;

/* Fills the table: the reference first, then each instruction set up to `highest` overwrites what
 * it does better. The caller has asked lam_cpu_supports(highest). */
void lam__kernels_init(lam_kernels *k, lam_isa highest);

/* One per instruction set, in <op>_<isa>.c files; each overwrites its own entries. */
void lam__kernels_init_ref(lam_kernels *k);
#if defined(__x86_64__)
void lam__kernels_init_avx2(lam_kernels *k);
void lam__kernels_init_avx512(lam_kernels *k);
#endif

/* Packs w [n, k] row-major (as stored: one row per output) into panels; `out` holds stride(n) * k
 * floats. Rows first..first+n of a wider packed matrix are written, so that several matrices can
 * stand side by side; the padding columns of the last panel must be zero beforehand. */
void lam__pack_weight(const float *w, size_t n, size_t k, size_t first, float *out);

#endif
