#include "tests/unit/core/tiny_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Parameters ---- */

static uint32_t mix(uint32_t h, uint32_t v)
{
    h ^= v + 0x9e3779b9u + (h << 6) + (h >> 2);
    h *= 0x85ebca6bu;
    return h ^ h >> 15;
}

float tiny_value(lam_module module, size_t layer, const char *name, size_t index)
{
    uint32_t h = mix(mix(17u, (uint32_t)module), (uint32_t)layer);
    for (const char *p = name; *p; p++)
        h = mix(h, (uint32_t)*p);
    h = mix(mix(h, (uint32_t)index), 99u);
    const float unit = (float)(h >> 8) / 8388608.0f - 1.0f; /* -1..1 */
    const bool norm = module == LAM_MODULE_EMBEDDING_NORM || module == LAM_MODULE_ATTENTION_NORM ||
                      module == LAM_MODULE_FFN_NORM;
    if (norm && strcmp(name, "weight") == 0) return 1.0f + 0.5f * unit;
    return 0.4f * unit;
}

typedef struct tiny_weights {
    lam_weights base;
    const tiny_fault *fault;
} tiny_weights;

static lam_status tiny_read(lam_weights *w, const lam_param *p, float *dst, lam_err *err)
{
    (void)err;
    const tiny_fault *f = ((tiny_weights *)w)->fault;
    const size_t count = p->rank == 2 ? p->shape[0] * p->shape[1] : p->shape[0];
    for (size_t i = 0; i < count; i++)
        dst[i] = tiny_value(p->module, p->layer, p->name, i);
    if (f && f->module == p->module && f->layer == p->layer && strcmp(f->name, p->name) == 0)
        dst[f->index] = f->value;
    return LAM_OK;
}

static bool tiny_has(const lam_weights *w, lam_module module, size_t layer, const char *name)
{
    (void)w, (void)module, (void)layer, (void)name;
    return true;
}

static const lam_norm_spec tiny_norm = {
    .kind = LAM_NORM_LAYER, .source = LAM_NORM_FROM_TOKEN, .eps = 1e-5, .gain = true, .bias = true};

lam_model *tiny_model_new(const lam_open_opts *opts, const tiny_fault *fault)
{
    tiny_weights weights = {.base = {tiny_read, tiny_has}, .fault = fault};
    const lam_parts parts = {
        .name = "tiny",
        .weight_dtype = "float32",
        .hparams = {.family = "bert",
                    .width = TINY_WIDTH,
                    .layers = TINY_LAYERS,
                    .heads = TINY_HEADS,
                    .ffn_width = TINY_FFN,
                    .vocab = TINY_VOCAB,
                    .types = TINY_TYPES,
                    .position_rows = TINY_POSITIONS,
                    .activation = LAM_ACTIVATION_GELU,
                    .embedding_norm = tiny_norm,
                    .attention_norm = tiny_norm,
                    .ffn_norm = tiny_norm,
                    .residual_scale = 1.0f},
        .weights = &weights.base,
        .head = {.pool = LAM_POOL_MEAN, .normalize = true},
    };
    lam_model *m;
    return lam_compile(&m, &parts, opts, NULL) == LAM_OK ? m : NULL;
}

lam_model *tiny_model_default(void)
{
    const lam_open_opts opts = lam_open_opts_default();
    return tiny_model_new(&opts, NULL);
}

/* ---- The forward pass, as the formulas are written ---- */

static double value(lam_module module, size_t layer, const char *name, size_t index)
{
    return (double)tiny_value(module, layer, name, index);
}

static void linear(lam_module module, size_t layer, const double *x, size_t k, size_t n, double *y)
{
    for (size_t o = 0; o < n; o++) {
        double sum = value(module, layer, "bias", o);
        for (size_t i = 0; i < k; i++)
            sum += value(module, layer, "weight", o * k + i) * x[i];
        y[o] = sum;
    }
}

static void norm(lam_module module, size_t layer, double *x)
{
    double mean = 0, variance = 0;
    for (size_t i = 0; i < TINY_WIDTH; i++)
        mean += x[i] / TINY_WIDTH;
    for (size_t i = 0; i < TINY_WIDTH; i++)
        variance += (x[i] - mean) * (x[i] - mean) / TINY_WIDTH;
    for (size_t i = 0; i < TINY_WIDTH; i++)
        x[i] = value(module, layer, "weight", i) * (x[i] - mean) / sqrt(variance + 1e-5) +
               value(module, layer, "bias", i);
}

static void attend(const double *qkv, size_t tokens, size_t t, double *context)
{
    enum { D = TINY_WIDTH / TINY_HEADS, ROW = 3 * TINY_WIDTH };
    double a[TINY_POSITIONS];
    for (size_t h = 0; h < TINY_HEADS; h++) {
        double sum = 0;
        for (size_t j = 0; j < tokens; j++) {
            double score = 0;
            for (size_t c = 0; c < D; c++)
                score += qkv[t * ROW + h * D + c] * qkv[j * ROW + TINY_WIDTH + h * D + c];
            a[j] = exp(score / sqrt((double)D));
            sum += a[j];
        }
        for (size_t c = 0; c < D; c++) {
            double out = 0;
            for (size_t j = 0; j < tokens; j++)
                out += a[j] / sum * qkv[j * ROW + (size_t)2 * TINY_WIDTH + h * D + c];
            context[h * D + c] = out;
        }
    }
}

static void layer(size_t i, size_t tokens, const double *in, double *out)
{
    enum { ROW = 3 * TINY_WIDTH };
    double *qkv = malloc(tokens * ROW * sizeof *qkv);
    for (size_t t = 0; t < tokens; t++) {
        const double *x = in + t * TINY_WIDTH;
        linear(LAM_MODULE_QUERY, i, x, TINY_WIDTH, TINY_WIDTH, qkv + t * ROW);
        linear(LAM_MODULE_KEY, i, x, TINY_WIDTH, TINY_WIDTH, qkv + t * ROW + TINY_WIDTH);
        linear(LAM_MODULE_VALUE, i, x, TINY_WIDTH, TINY_WIDTH,
               qkv + t * ROW + (size_t)2 * TINY_WIDTH);
    }
    for (size_t t = 0; t < tokens; t++) {
        double context[TINY_WIDTH], u[TINY_WIDTH], wide[TINY_FFN];
        double *y = out + t * TINY_WIDTH;
        attend(qkv, tokens, t, context);
        linear(LAM_MODULE_ATTENTION_OUT, i, context, TINY_WIDTH, TINY_WIDTH, u);
        for (size_t c = 0; c < TINY_WIDTH; c++)
            u[c] += in[t * TINY_WIDTH + c];
        norm(LAM_MODULE_ATTENTION_NORM, i, u);
        linear(LAM_MODULE_FFN_IN, i, u, TINY_WIDTH, TINY_FFN, wide);
        for (size_t c = 0; c < TINY_FFN; c++)
            wide[c] *= 0.5 * (1 + erf(wide[c] / sqrt(2.0)));
        linear(LAM_MODULE_FFN_OUT, i, wide, TINY_FFN, TINY_WIDTH, y);
        for (size_t c = 0; c < TINY_WIDTH; c++)
            y[c] += u[c];
        norm(LAM_MODULE_FFN_NORM, i, y);
    }
    free(qkv);
}

void tiny_forward(const int32_t *ids, const int32_t *types, const int32_t *positions, size_t tokens,
                  double *states)
{
    for (size_t t = 0; t < tokens; t++) {
        double *x = states + t * TINY_WIDTH;
        for (size_t c = 0; c < TINY_WIDTH; c++)
            x[c] = value(LAM_MODULE_WORD_EMBEDDING, LAM_LAYER_NONE, "weight",
                         (size_t)ids[t] * TINY_WIDTH + c) +
                   value(LAM_MODULE_POSITION_EMBEDDING, LAM_LAYER_NONE, "weight",
                         (size_t)positions[t] * TINY_WIDTH + c) +
                   value(LAM_MODULE_TYPE_EMBEDDING, LAM_LAYER_NONE, "weight",
                         (size_t)types[t] * TINY_WIDTH + c);
        norm(LAM_MODULE_EMBEDDING_NORM, LAM_LAYER_NONE, x);
    }
    const size_t state = tokens * TINY_WIDTH;
    for (size_t i = 0; i < TINY_LAYERS; i++)
        layer(i, tokens, states + i * state, states + (i + 1) * state);
}
