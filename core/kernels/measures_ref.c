/* Sums for the statistics of level full, reference: everything in double. */
#include <math.h>

#include "core/kernels/ref.h"

lam_row_products lam__products_row_exact(const float *x, const float *y, size_t width)
{
    lam_row_products p = {0};
    for (size_t c = 0; c < width; c++) {
        const double a = (double)x[c], b = (double)y[c];
        p.xx += a * a;
        p.yy += b * b;
        p.xy += a * b;
    }
    return p;
}

void lam__products_ref(const float *x, size_t x_stride, const float *y, size_t y_stride,
                       size_t rows, size_t width, lam_row_products *out)
{
    for (size_t r = 0; r < rows; r++)
        out[r] = lam__products_row_exact(x + r * x_stride, y + r * y_stride, width);
}

void lam__add_scaled_ref(const float *x, size_t stride, size_t rows, size_t width,
                         const float *scale, double *sums)
{
    for (size_t r = 0; r < rows; r++, x += stride) {
        if (scale[r] == 0.0f) continue;
        for (size_t c = 0; c < width; c++)
            sums[c] += (double)(scale[r] * x[c]);
    }
}

void lam__centre_ref(const float *x, size_t x_stride, size_t rows, size_t width, const float *high,
                     const float *low, float *y, size_t y_stride)
{
    for (size_t r = 0; r < rows; r++, x += x_stride, y += y_stride)
        for (size_t c = 0; c < width; c++)
            y[c] = x[c] - high[c] - low[c];
}

void lam__tail_counts_row_exact(const float *x, size_t width, float low, float high,
                                lam_tail_counts *out)
{
    for (size_t c = 0; c < width; c++) {
        if (!isfinite(x[c])) continue;
        out->finite++;
        out->below += x[c] < low;
        out->above += x[c] > high;
    }
}

void lam__tail_counts_ref(const float *x, size_t stride, size_t rows, size_t width, float low,
                          float high, lam_tail_counts *out)
{
    *out = (lam_tail_counts){0};
    for (size_t r = 0; r < rows; r++)
        lam__tail_counts_row_exact(x + r * stride, width, low, high, out);
}
