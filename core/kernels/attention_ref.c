/* Attention, reference: query by query, two passes over the scores. Scratch: the scores of one
 * query. */
#include <math.h>

#include "core/kernels/ref.h"

size_t lam__attention_scratch_ref(const lam_attention *a, size_t max_tokens)
{
    (void)a;
    return lam_row_stride(max_tokens);
}

static float dot(const float *a, const float *b, size_t n)
{
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* scores become exp(scale * (score - largest)); returns their sum. A NaN among the scores makes the
 * sum NaN, whatever it did to the maximum. */
static float exponentials(float *scores, size_t n, float scale)
{
    float max = scores[0], sum = 0.0f;
    for (size_t i = 1; i < n; i++)
        max = scores[i] > max ? scores[i] : max;
    for (size_t i = 0; i < n; i++) {
        scores[i] = expf(scale * (scores[i] - max));
        sum += scores[i];
    }
    return sum;
}

/* scores become scale * score + bias. */
static void add_bias(const lam_attention_bias *bias, float scale, size_t head, size_t query,
                     float *scores, size_t n)
{
    const float *table = bias->table + head * (2 * bias->span + 1) + bias->span;
    const int32_t from = bias->positions[query];
    for (size_t i = 0; i < n; i++)
        scores[i] = scale * scores[i] + table[bias->positions[i] - from];
}

static void attend(const lam_attention *a, const lam_attention_bias *bias, const float *q,
                   const float *k, const float *v, size_t stride, size_t tokens, float *out,
                   size_t out_stride, float *scratch)
{
    const size_t d = a->head_width;
    for (size_t h = 0; h < a->heads; h++) {
        for (size_t t = 0; t < tokens; t++) {
            float *o = out + t * out_stride + h * d;
            for (size_t s = 0; s < tokens; s++)
                scratch[s] = dot(q + t * stride + h * d, k + s * stride + h * d, d);
            if (bias) add_bias(bias, a->scale, h, t, scratch, tokens);
            const float inverse = 1.0f / exponentials(scratch, tokens, bias ? 1.0f : a->scale);
            for (size_t c = 0; c < d; c++)
                o[c] = 0.0f;
            for (size_t s = 0; s < tokens; s++)
                for (size_t c = 0; c < d; c++)
                    o[c] += scratch[s] * v[s * stride + h * d + c];
            for (size_t c = 0; c < d; c++)
                o[c] *= inverse;
        }
    }
}

void lam__attention_ref(const lam_attention *a, const float *q, const float *k, const float *v,
                        size_t stride, size_t tokens, float *out, size_t out_stride, float *scratch)
{
    attend(a, NULL, q, k, v, stride, tokens, out, out_stride, scratch);
}

void lam__attention_biased_ref(const lam_attention *a, const lam_attention_bias *bias,
                               const float *q, const float *k, const float *v, size_t stride,
                               size_t tokens, float *out, size_t out_stride, float *scratch)
{
    attend(a, bias, q, k, v, stride, tokens, out, out_stride, scratch);
}

/* Adds one query to the sums. With s = scale (score - largest): entropy = ln sum e^s - sum s e^s /
 * sum e^s. */
static void add_query(const float *scores, size_t n, float scale, lam_attention_sums *out)
{
    double max = (double)scores[0], sum = 0.0, weighted = 0.0;
    for (size_t i = 1; i < n; i++)
        max = (double)scores[i] > max ? (double)scores[i] : max;
    for (size_t i = 0; i < n; i++) {
        const double s = (double)scale * ((double)scores[i] - max), e = exp(s);
        sum += e;
        if (e != 0.0) weighted += s * e;
    }
    if (!isfinite(sum)) return;
    out->entropy += log(sum) - weighted / sum;
    out->sink += exp((double)scale * ((double)scores[0] - max)) / sum;
    out->queries++;
}

void lam__attention_sums_ref(const lam_attention *a, const lam_attention_bias *bias, const float *q,
                             const float *k, size_t stride, size_t tokens, lam_attention_sums *sums,
                             float *scratch)
{
    const size_t d = a->head_width;
    for (size_t h = 0; h < a->heads; h++) {
        sums[h] = (lam_attention_sums){0};
        for (size_t t = 0; t < tokens; t++) {
            for (size_t s = 0; s < tokens; s++)
                scratch[s] = dot(q + t * stride + h * d, k + s * stride + h * d, d);
            if (bias) add_bias(bias, a->scale, h, t, scratch, tokens);
            add_query(scratch, tokens, bias ? 1.0f : a->scale, &sums[h]);
        }
    }
}
