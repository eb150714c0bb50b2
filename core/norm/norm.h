/* Norms inside the network, as data: one row of a list and one function a kind.
 * (The scaling of a final vector to unit length is called scaling, never norm: core/pool.) */
#ifndef LAM_NORM_NORM_H
#define LAM_NORM_NORM_H

#include <stddef.h>

#include "core/model/names.h"

/* X(name, text) */
#define LAM_NORM_KIND_MAP(X) X(LAYER, "layer")
#define LAM_ENUM_ROW_NORM(name, text) LAM_NORM_##name,
typedef enum lam_norm_kind { LAM_NORM_KIND_MAP(LAM_ENUM_ROW_NORM) LAM_NORM_KIND_COUNT } lam_norm_kind;

const char *lam_norm_kind_name(lam_norm_kind v);

/* What a configuration says about one norm site. */
typedef struct lam_norm_spec {
    lam_norm_kind kind;
    float eps;
} lam_norm_spec;

#endif
