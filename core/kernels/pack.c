/* Packing of weights: [n, k] as stored becomes panels of 32 outputs, [panel][k][32].
 *
 * Panel by panel, in blocks of k: of the 32 rows that are read side by side, a block stays in L1
 * while it is scattered into lines that are written whole. */
#include "core/kernels/kernels.h"

enum { K_BLOCK = 64 };

/* One row of w, inputs k0..k1, goes to column `j` of its panel. */
static void pack_row(const float *w, size_t k0, size_t k1, float *panel, size_t j)
{
    for (size_t k = k0; k < k1; k++)
        panel[k * LAM_PANEL + j] = w[k];
}

void lam__pack_weight(const float *w, size_t n, size_t k, size_t first, float *out)
{
    for (size_t row = 0; row < n;) {
        const size_t column = (first + row) % LAM_PANEL;
        const size_t room = LAM_PANEL - column;
        const size_t count = n - row < room ? n - row : room;
        float *panel = out + (first + row - column) * k;
        for (size_t k0 = 0; k0 < k; k0 += K_BLOCK) {
            const size_t k1 = k - k0 < K_BLOCK ? k : k0 + K_BLOCK;
            for (size_t i = 0; i < count; i++)
                pack_row(w + (row + i) * k, k0, k1, panel, column + i);
        }
        row += count;
    }
}
