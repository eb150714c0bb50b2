/* Norms inside the network, as data: one row of a list and one function a kind.
 * (The scaling of a final vector to unit length is called scaling, never norm: core/pool.) */
#ifndef LAM_NORM_NORM_H
#define LAM_NORM_NORM_H

#include <stddef.h>

#include "core/kernels/kernels.h"

/* One row a kind; its facts stand in norm.c. */
#define LAM_NORM_KIND_MAP(X)    X(LAYER)
#define LAM_ENUM_ROW_NORM(name) LAM_NORM_##name,
typedef enum lam_norm_kind {
    LAM_NORM_KIND_MAP(LAM_ENUM_ROW_NORM) LAM_NORM_KIND_COUNT
} lam_norm_kind;

/* What a configuration says about one norm site. */
typedef struct lam_norm_spec {
    lam_norm_kind kind;
    float eps;
} lam_norm_spec;

/* Parameters of a kind, each a vector over the channels, in the order in which `run` gets them. */
enum { LAM_NORM_MAX_PARAMS = 2 };

/* A norm at work on a batch: x, y [rows, width]; y may be x. */
typedef struct lam_norm_run {
    const lam_kernels *kernels;
    const lam_norm_spec *spec;
    const float *params[LAM_NORM_MAX_PARAMS]; /* [stride(width)] each */
    size_t width, rows;
    const float *x;
    size_t x_stride;
    float *y;
    size_t y_stride;
} lam_norm_run;

typedef struct lam_norm_info {
    const char *name;
    const char *verdict; /* what a row's result depends on besides the row */
    size_t param_count;
    const char *param_names[LAM_NORM_MAX_PARAMS]; /* as the checkpoints call them */
    void (*run)(const lam_norm_run *r);
} lam_norm_info;

const lam_norm_info *lam_norm_get_info(lam_norm_kind kind);

/* One function a kind; core/norm/<family>.c. */
void lam__norm_layer(const lam_norm_run *r);

#endif
