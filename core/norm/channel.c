/* Kinds with a mean and a spread for each channel: batch, rbn, repbn, instance; power, power_v,
 * mabn, unified around 0. Running statistics were made an affine map when the model was opened;
 * those of a sequence or request are measured here, in double. */
#include "core/norm/norm.h"

static lam_channel_affine affine_of(const lam_norm_run *r)
{
    return (lam_channel_affine){.mean = r->params.mean,
                                .scale = r->params.scale,
                                .bias = r->params.bias,
                                .width = r->width,
                                .slope = r->params.alpha,
                                .groups = r->spec->groups,
                                .group_eps = (float)r->spec->group_eps};
}

void lam__norm_by_channels(const lam_norm_run *r, const double *mean, const double *square)
{
    float *scale = r->affine, *bias = r->affine + lam_row_stride(r->width);
    float *middle = bias + lam_row_stride(r->width);
    for (size_t c = 0; c < r->width; c++) {
        const double factor = (double)r->params.gain[c] / lam_norm_denominator(r->spec, square[c]);
        scale[c] = (float)factor;
        middle[c] = (float)mean[c];
        /* What rounding the mean took away; at an offset of 1e4 it is not little. */
        bias[c] = (float)((double)r->params.bias[c] - (mean[c] - (double)middle[c]) * factor);
    }
    lam_channel_affine a = affine_of(r);
    a.mean = middle, a.scale = scale, a.bias = bias;
    a.groups = 0;
    r->kernels->channel_affine(&a, r->x, r->x_stride, r->rows, r->y, r->y_stride);
}

/* x / sqrt(mean square of its group + group_eps), which is then what the statistics are of. */
static void scale_groups(const lam_norm_run *r)
{
    float *ones = r->affine, *zeros = r->affine + lam_row_stride(r->width);
    for (size_t c = 0; c < r->width; c++)
        ones[c] = 1.0f, zeros[c] = 0.0f;
    lam_channel_affine a = affine_of(r);
    a.mean = a.bias = zeros;
    a.scale = ones;
    r->kernels->channel_affine(&a, r->x, r->x_stride, r->rows, r->y, r->y_stride);
}

static void measured(const lam_norm_run *r)
{
    double *mean = r->sums, *square = r->sums + lam_row_stride(r->width);
    r->kernels->column_moments(r->x, r->x_stride, r->rows, r->width,
                               lam_norm_is_second_moment(r->spec->kind), mean, square);
    for (size_t c = 0; c < r->width; c++)
        square[c] /= (double)(r->rows - r->spec->ddof);
    lam__norm_by_channels(r, mean, square);
}

void lam__norm_channel(const lam_norm_run *r)
{
    if (r->source == LAM_NORM_FROM_RUNNING) {
        const lam_channel_affine a = affine_of(r);
        r->kernels->channel_affine(&a, r->x, r->x_stride, r->rows, r->y, r->y_stride);
        return;
    }
    if (r->spec->groups == 0) {
        measured(r);
        return;
    }
    scale_groups(r);
    lam_norm_run scaled = *r;
    scaled.x = r->y;
    scaled.x_stride = r->y_stride;
    measured(&scaled);
}
