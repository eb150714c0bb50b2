/* Norms, reference: over rows, channel by channel, over columns, and point by point. */
#include <math.h>

#include "core/kernels/ref.h"

/* Mean and the sum of squares around it, in the corrected two-pass form of layer_norm: mean is
 * *mean + *off. */
static float centred_squares(const float *x, size_t count, float *mean, float *off)
{
    float sum = 0.0f, rest = 0.0f, squares = 0.0f;
    for (size_t c = 0; c < count; c++)
        sum += x[c];
    *mean = sum / (float)count;
    for (size_t c = 0; c < count; c++) {
        const float d = x[c] - *mean;
        rest += d;
        squares += d * d;
    }
    *off = rest / (float)count;
    const float corrected = squares - rest * *off;
    return corrected < 0.0f ? 0.0f : corrected;
}

static float plain_squares(const float *x, size_t count)
{
    float squares = 0.0f;
    for (size_t c = 0; c < count; c++)
        squares += x[c] * x[c];
    return squares;
}

static void norm_group(const lam_row_norm *n, const float *x, float *y, size_t first, size_t width)
{
    const size_t count = n->measured;
    float mean = 0.0f, off = 0.0f;
    const float squares =
        n->centre ? centred_squares(x, count, &mean, &off) : plain_squares(x, count);
    const float inverse = lam__row_scale(n, squares);
    for (size_t c = 0; c < width; c++) {
        float z = (x[c] - mean - off) * inverse;
        if (n->ada) z = n->c * (1.0f - n->k * z) * z;
        y[c] = z * n->gain[first + c] + n->bias[first + c];
    }
}

void lam__row_norm_ref(const lam_row_norm *n, const float *x, size_t x_stride, size_t rows,
                       float *y, size_t y_stride)
{
    const size_t width = n->width / n->groups;
    for (size_t r = 0; r < rows; r++, x += x_stride, y += y_stride)
        for (size_t first = 0; first < n->width; first += width)
            norm_group(n, x + first, y + first, first, width);
}

static void affine(const lam_channel_affine *a, const float *x, float by, size_t first,
                   size_t count, float *y)
{
    for (size_t c = first; c < first + count; c++)
        y[c] = ((x[c] * by - a->mean[c]) * a->scale[c] + a->bias[c]) + a->slope * x[c];
}

void lam__channel_affine_ref(const lam_channel_affine *a, const float *x, size_t x_stride,
                             size_t rows, float *y, size_t y_stride)
{
    const size_t width = a->groups ? a->width / a->groups : a->width;
    for (size_t r = 0; r < rows; r++, x += x_stride, y += y_stride) {
        for (size_t first = 0; first < a->width; first += width) {
            float by = 1.0f;
            if (a->groups)
                by = 1.0f / sqrtf(plain_squares(x + first, width) / (float)width + a->group_eps);
            affine(a, x, by, first, width, y);
        }
    }
}

void lam__squash_ref(const lam_squash *s, const float *x, size_t x_stride, size_t rows, float *y,
                     size_t y_stride)
{
    for (size_t r = 0; r < rows; r++, x += x_stride, y += y_stride) {
        for (size_t c = 0; c < s->width; c++) {
            const float u = s->alpha * x[c] + s->shift;
            y[c] = (s->erf ? erff(u) : tanhf(u)) * s->gain[c] + s->bias[c];
        }
    }
}

/* Around the first row, row after row, so that memory is read in order. */
void lam__column_moments_ref(const float *x, size_t stride, size_t rows, size_t width,
                             bool around_zero, double *mean, double *squares)
{
    for (size_t c = 0; c < width; c++)
        mean[c] = squares[c] = 0.0;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < width; c++) {
            const double d = (double)x[r * stride + c] - (around_zero ? 0.0 : (double)x[c]);
            mean[c] += d;
            squares[c] += d * d;
        }
    }
    for (size_t c = 0; c < width; c++)
        lam__close_moments(rows, around_zero, (double)x[c], mean[c], &mean[c], &squares[c]);
}
