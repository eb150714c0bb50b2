/* Kinds that measure nothing: dyt and derf. */
#include "core/norm/norm.h"

void lam__norm_pointwise(const lam_norm_run *r)
{
    const lam_squash s = {.gain = r->params.gain,
                          .bias = r->params.bias,
                          .width = r->width,
                          .alpha = r->params.alpha,
                          .shift = r->params.shift,
                          .erf = r->spec->kind == LAM_NORM_DERF};
    r->kernels->squash(&s, r->x, r->x_stride, r->rows, r->y, r->y_stride);
}
