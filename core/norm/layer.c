/* LayerNorm: Ba, Kiros and Hinton (2016), arXiv 1607.06450. Population variance, eps inside the
 * root. */
#include "core/norm/norm.h"

void lam__norm_layer(const lam_norm_run *r)
{
    const lam_layer_norm n = {
        .gain = r->params[0], .bias = r->params[1], .width = r->width, .eps = r->spec->eps};
    r->kernels->layer_norm(&n, r->x, r->x_stride, r->rows, r->y, r->y_stride);
}
