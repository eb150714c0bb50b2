/* Row-wise kernels, reference: embedding, layer norm, addition, activation. */
#include <assert.h>
#include <math.h>

#include "core/kernels/ref.h"

void lam__embed_ref(const lam_embedding *e, const int32_t *ids, const int32_t *positions,
                    const int32_t *types, size_t rows, float *y, size_t y_stride)
{
    const size_t stride = lam_row_stride(e->width);
    for (size_t r = 0; r < rows; r++, y += y_stride) {
        const float *word = e->word + (size_t)ids[r] * stride;
        for (size_t c = 0; c < stride; c++)
            y[c] = word[c];
        if (e->position) {
            const float *position = e->position + (size_t)positions[r] * stride;
            for (size_t c = 0; c < stride; c++)
                y[c] += position[c];
        }
        if (e->type && types) {
            const float *type = e->type + (size_t)types[r] * stride;
            for (size_t c = 0; c < stride; c++)
                y[c] += type[c];
        }
    }
}

/* The corrected two-pass form: the rounded mean is off by up to half its last place, which at an
 * offset of 1e4 is more than a small spread; the sum of the centred values says by how much. */
static void norm_row(const lam_layer_norm *n, const float *x, float *y)
{
    const size_t width = n->width;
    float sum = 0.0f, rest = 0.0f, squares = 0.0f;
    for (size_t c = 0; c < width; c++)
        sum += x[c];
    const float mean = sum / (float)width;
    for (size_t c = 0; c < width; c++) {
        const float d = x[c] - mean;
        rest += d;
        squares += d * d;
    }
    const float off = rest / (float)width;
    float variance = squares / (float)width - off * off;
    if (variance < 0.0f) variance = 0.0f;
    const float inverse = 1.0f / sqrtf(variance + n->eps);
    for (size_t c = 0; c < width; c++)
        y[c] = (x[c] - mean - off) * inverse * n->gain[c] + n->bias[c];
}

void lam__layer_norm_ref(const lam_layer_norm *n, const float *x, size_t x_stride, size_t rows,
                         float *y, size_t y_stride)
{
    for (size_t r = 0; r < rows; r++)
        norm_row(n, x + r * x_stride, y + r * y_stride);
}

void lam__add_ref(const float *x, size_t x_stride, const float *z, size_t z_stride, float scale,
                  size_t rows, size_t width, float *y, size_t y_stride)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < width; c++)
            y[r * y_stride + c] = x[r * x_stride + c] + scale * z[r * z_stride + c];
}

float lam__activate_one_ref(lam_activation act, float x)
{
    switch (act) {
    case LAM_ACTIVATION_IDENTITY:
        return x;
    case LAM_ACTIVATION_GELU:
        return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case LAM_ACTIVATION_GELU_TANH: /* 1 + tanh(u) = 2 / (1 + exp(-2u)) */
        return x / (1.0f + expf(-1.5957691f * (x + 0.044715f * x * x * x)));
    case LAM_ACTIVATION_RELU: /* a NaN stays */
        return x < 0.0f ? 0.0f : x;
    case LAM_ACTIVATION_SILU:
        return x / (1.0f + expf(-x));
    case LAM_ACTIVATION_TANH:
        return tanhf(x);
    case LAM_ACTIVATION_COUNT:
        break;
    }
    assert(false && "activation");
    return x;
}

void lam__activate_ref(lam_activation act, const float *x, size_t x_stride, size_t rows,
                       size_t width, float *y, size_t y_stride)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < width; c++)
            y[r * y_stride + c] = lam__activate_one_ref(act, x[r * x_stride + c]);
}
