/* Moments, reference: everything in double, two passes a row. */
#include <math.h>

#include "core/kernels/ref.h"

lam_moments lam__moments_row_exact(const float *x, size_t width)
{
    lam_moments m = lam_moments_empty();
    double sum = 0.0;
    for (size_t c = 0; c < width; c++) {
        if (!isfinite(x[c])) {
            m.nonfinite++;
            continue;
        }
        const double v = (double)x[c];
        m.count++;
        sum += v;
        if (v < m.min) m.min = v;
        if (v > m.max) m.max = v;
    }
    if (m.count == 0) return m;
    m.mean = sum / (double)m.count;
    for (size_t c = 0; c < width; c++) {
        if (!isfinite(x[c])) continue;
        const double d = (double)x[c] - m.mean, d2 = d * d;
        m.m2 += d2;
        m.m3 += d2 * d;
        m.m4 += d2 * d2;
    }
    return m;
}

static void add_squares(const float *x, size_t width, double *squares)
{
    for (size_t c = 0; c < width; c++)
        if (isfinite(x[c])) squares[c] += (double)x[c] * (double)x[c];
}

void lam__moments_ref(const float *x, size_t stride, size_t rows, size_t width, lam_moments *out,
                      double *channel_squares)
{
    *out = lam_moments_empty();
    for (size_t c = 0; channel_squares && c < width; c++)
        channel_squares[c] = 0.0;
    for (size_t r = 0; r < rows; r++) {
        const lam_moments row = lam__moments_row_exact(x + r * stride, width);
        lam_moments_merge(out, &row);
        if (channel_squares) add_squares(x + r * stride, width, channel_squares);
    }
}
