/* Kinds that measure each row by itself: layer, layer_simple, detach, ada, rms, prms, scale, and
 * group in its token form. */
#include <string.h>

#include "core/norm/norm.h"

void lam__norm_none(const lam_norm_run *r)
{
    if (r->x == r->y) return;
    for (size_t i = 0; i < r->rows; i++)
        memcpy(r->y + i * r->y_stride, r->x + i * r->x_stride, r->width * sizeof *r->y);
}

/* LayerNorm as most models have it: the kernel with nothing to decide. */
static void plain_layer(const lam_norm_run *r)
{
    const lam_layer_norm n = {.gain = r->params.gain,
                              .bias = r->params.bias,
                              .width = r->width,
                              .eps = (float)r->spec->eps};
    r->kernels->layer_norm(&n, r->x, r->x_stride, r->rows, r->y, r->y_stride);
}

void lam__norm_row(const lam_norm_run *r)
{
    const lam_norm_spec *s = r->spec;
    const bool centre =
        s->kind != LAM_NORM_RMS && s->kind != LAM_NORM_PRMS && s->kind != LAM_NORM_SCALE;
    const size_t groups = s->kind == LAM_NORM_GROUP ? s->groups : 1;
    const bool ada = s->kind == LAM_NORM_ADA;
    if (centre && groups == 1 && !ada && s->eps_mode == LAM_EPS_VARIANCE && s->ddof == 0) {
        plain_layer(r);
        return;
    }
    const lam_row_norm n = {.gain = r->params.gain,
                            .bias = r->params.bias,
                            .width = r->width,
                            .groups = groups,
                            .measured = lam_norm_measured(s, r->width / groups),
                            .centre = centre,
                            .ddof = s->ddof,
                            .eps_mode = s->eps_mode,
                            .eps = (float)s->eps,
                            .ada = ada,
                            .c = (float)s->c,
                            .k = (float)s->k};
    r->kernels->row_norm(&n, r->x, r->x_stride, r->rows, r->y, r->y_stride);
}
