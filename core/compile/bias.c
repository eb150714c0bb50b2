/* Biases of attention scores by distance, as T5 and MPNet count it: half of the buckets for keys
 * behind the query, half for those up to it; of each half the first half is one distance a bucket,
 * the rest grows with the logarithm up to `farthest`. (Raffel et al. 2020, arXiv 1910.10683, 2.1)
 */
#include <math.h>

#include "core/compile/passes.h"

size_t lam__bias_bucket(ptrdiff_t distance, size_t buckets, size_t farthest)
{
    const size_t half = buckets / 2, exact = half / 2;
    const size_t first = distance > 0 ? half : 0;
    const size_t far = (size_t)(distance < 0 ? -distance : distance);
    if (far < exact) return first + far;
    /* In float32, as the published codes: at exact powers the double rounds to the other side. */
    const float part =
        logf((float)far / (float)exact) / (float)log((double)farthest / (double)exact);
    const size_t bucket = exact + (size_t)(part * (float)(half - exact));
    return first + (bucket < half ? bucket : half - 1);
}

void lam__spread_bias(const float *table, size_t heads, size_t buckets, size_t farthest,
                      size_t span, float *out)
{
    for (size_t i = 0; i <= 2 * span; i++) {
        const ptrdiff_t distance = (ptrdiff_t)i - (ptrdiff_t)span;
        const float *row = table + lam__bias_bucket(distance, buckets, farthest) * heads;
        for (size_t h = 0; h < heads; h++)
            out[h * (2 * span + 1) + i] = row[h];
    }
}
