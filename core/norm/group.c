/* GroupNorm: over the groups of one row, or over those of all rows of a sequence. */
#include "core/norm/norm.h"

/* The moments of a group's channels, put together by Chan's rule for equal counts; every channel
 * gets its group's. */
static void merge_group(double *mean, double *squares, size_t channels, size_t rows, size_t ddof)
{
    double middle = 0.0, sum = 0.0;
    for (size_t c = 0; c < channels; c++)
        middle += mean[c];
    middle /= (double)channels;
    for (size_t c = 0; c < channels; c++) {
        const double d = mean[c] - middle;
        sum += squares[c] + (double)rows * d * d;
    }
    for (size_t c = 0; c < channels; c++) {
        mean[c] = middle;
        squares[c] = sum / (double)(rows * channels - ddof);
    }
}

void lam__norm_group(const lam_norm_run *r)
{
    if (r->source == LAM_NORM_FROM_TOKEN) {
        lam__norm_row(r);
        return;
    }
    double *mean = r->sums, *squares = r->sums + lam_row_stride(r->width);
    const size_t channels = r->width / r->spec->groups;
    r->kernels->column_moments(r->x, r->x_stride, r->rows, r->width, false, mean, squares);
    for (size_t c = 0; c < r->width; c += channels)
        merge_group(mean + c, squares + c, channels, r->rows, r->spec->ddof);
    lam__norm_by_channels(r, mean, squares);
}
