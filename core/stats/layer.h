/* Level full: what a request keeps of each layer. Sums of items, in double, that can be merged. */
#ifndef LAM_STATS_LAYER_H
#define LAM_STATS_LAYER_H

#include "core/lamina.h"
#include "core/program/program.h"
#include "core/stats/spread.h"

/* The rows of one item. */
typedef struct lam_measured {
    lam_measure what;
    size_t rows;
    const float *x;
    size_t x_stride, width; /* of x and y */
    const float *y;         /* or NULL */
    size_t y_stride;
    float scale;
    const lam_attention *attention;
    const lam_attention_bias *bias; /* or NULL */
    float *scratch;                 /* of the attention kernel */
} lam_measured;

/* A mean in the making. */
typedef struct lam_average {
    double sum;
    uint64_t count;
} lam_average;

typedef struct lam_layer_sums {
    lam_average similarity; /* of pairs of tokens */
    lam_average cosine;
    lam_average attention_branch, ffn_branch;
    lam_tail_counts tails;
    uint64_t massive, values;   /* massive activations; finite values of the layer's output */
    double participation_ratio; /* of an item; a request's is in its spread */
    lam_attention_sums *heads;  /* [H] */
} lam_layer_sums;

/* Everything of level full of one request. */
typedef struct lam_layers {
    size_t layers, heads, width, longest; /* longest: rows of an item, at most */
    bool gelu, attention;
    const lam_kernels *kernels;
    bool *wanted;         /* [layers] */
    lam_layer_sums *sums; /* [layers] */
    lam_layer_sums one;   /* of the measure at hand */
    lam_spread *spreads;  /* [layers] */
    lam_spread_scratch scratch;
    lam_row_products *products; /* [longest] */
    float *scale;               /* [longest] */
    double *direction;          /* [stride(width)] sum of unit vectors */
    double *head_values;        /* [LAM_HEAD_VALUE_COUNT, heads]: of the last read */
    size_t item_count;
    lam_layer_sums *items; /* [item_count, layers] */
} lam_layers;

/* SIZE_MAX: does not fit in memory. */
size_t lam__layers_bytes(const lam_model *m, const lam_stats_opts *o);
bool lam__layers_init(lam_layers *f, lam_arena *arena, const lam_model *m, const lam_stats_opts *o);

/* Median of |x| of the `finite` values that are; of an even number the lower one in the middle. */
float lam__median_size(const float *x, size_t stride, size_t rows, size_t width, uint64_t finite);

bool lam__layers_collects(const lam_layers *f, size_t layer, lam_measure what);

/* Adds what an item's rows say. Items come in order. */
void lam__layers_add(lam_layers *f, size_t item, size_t layer, const lam_measured *m);

bool lam__layers_read(lam_layers *f, size_t layer, lam_layer_stats *out);
bool lam__layers_read_item(lam_layers *f, size_t item, size_t layer, lam_layer_stats *out);

#endif
