/* Linear layer, reference. One row by one panel: 32 sums that the compiler keeps in vector
 * registers. */
#include "core/kernels/ref.h"

/* sums[j] = sum over i of x[i] * panel[i][j], i ascending; a multiply, then an add. */
static void row_times_panel(const float *x, const float *panel, size_t k, float *sums)
{
    float acc[LAM_PANEL] = {0};
    for (size_t i = 0; i < k; i++) {
        const float xi = x[i];
        for (size_t j = 0; j < LAM_PANEL; j++)
            acc[j] += xi * panel[i * LAM_PANEL + j];
    }
    for (size_t j = 0; j < LAM_PANEL; j++)
        sums[j] = acc[j];
}

void lam__linear_ref(const lam_linear *l, const float *x, size_t x_stride, size_t rows,
                     const float *residual, size_t residual_stride, float residual_scale, float *y,
                     size_t y_stride)
{
    for (size_t n = 0; n < l->n; n += LAM_PANEL) {
        for (size_t r = 0; r < rows; r++) {
            float sums[LAM_PANEL];
            row_times_panel(x + r * x_stride, l->weight + n * l->k, l->k, sums);
            for (size_t j = 0; j < LAM_PANEL; j++)
                sums[j] = lam__activate_one_ref(l->activation, sums[j] + l->bias[n + j]);
            if (residual) {
                const float *add = residual + r * residual_stride + n;
                for (size_t j = 0; j < LAM_PANEL; j++)
                    sums[j] += residual_scale * add[j];
            }
            for (size_t j = 0; j < LAM_PANEL; j++)
                y[r * y_stride + n + j] = sums[j];
        }
    }
}
