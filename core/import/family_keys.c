#include "core/import/family_keys.h"

#include <math.h>
#include <string.h>

const lam_size_keys lam__bert_keys = {.width = {"hidden_size"},
                                      .layers = {"num_hidden_layers"},
                                      .heads = {"num_attention_heads"},
                                      .ffn = {"intermediate_size"},
                                      .vocab = {"vocab_size"}};

/* The name under which the key is there, or NULL. */
static lam_status find(const lam_json *config, lam_key key, const char **name, lam_err *err)
{
    *name = NULL;
    for (size_t i = 0; key[i]; i++) {
        json_t *v = lam_json_get(config, key[i]);
        if (v == NULL) continue;
        if (*name != NULL && !json_equal(v, lam_json_get(config, *name)))
            return lam_json_fail(config, key[i], err,
                                 "contradicts %s, another name of the same: one of the two must go",
                                 *name);
        if (*name == NULL) *name = key[i];
    }
    return LAM_OK;
}

lam_status lam__key_opt_size(const lam_json *config, lam_key key, size_t min, size_t max,
                             size_t *out, lam_err *err)
{
    const char *name;
    LAM_TRY(find(config, key, &name, err));
    return name ? lam_json_size(config, name, min, max, out, err) : LAM_OK;
}

lam_status lam__key_size(const lam_json *config, lam_key key, size_t min, size_t max, size_t *out,
                         lam_err *err)
{
    const char *name;
    LAM_TRY(find(config, key, &name, err));
    return lam_json_size(config, name ? name : key[0], min, max, out, err);
}

lam_status lam__key_sizes(lam_hparams *h, const lam_json *config, const lam_size_keys *keys,
                          lam_err *err)
{
    LAM_TRY(lam__key_size(config, keys->width, 1, LAM_MAX_WIDTH, &h->width, err));
    LAM_TRY(lam__key_size(config, keys->layers, 1, LAM_MAX_LAYERS, &h->layers, err));
    LAM_TRY(lam__key_size(config, keys->heads, 1, LAM_MAX_WIDTH, &h->heads, err));
    if (keys->head_width[0])
        LAM_TRY(lam__key_size(config, keys->head_width, 1, LAM_MAX_WIDTH, &h->head_width, err));
    if (h->heads * h->head_width > LAM_MAX_WIDTH)
        return lam_json_fail(config, keys->head_width[0], err, "%zu heads of %zu are too wide",
                             h->heads, h->head_width);
    if (!keys->head_width[0] && h->width % h->heads != 0)
        return lam_json_fail(config, keys->heads[0], err, "%zu does not divide %s %zu", h->heads,
                             keys->width[0], h->width);
    LAM_TRY(lam__key_size(config, keys->ffn, 1, LAM_MAX_FFN_WIDTH, &h->ffn_width, err));
    return lam__key_size(config, keys->vocab, 1, LAM_MAX_VOCAB, &h->vocab, err);
}

lam_status lam__activation_parse(const lam_json *config, const char *key, const char *name,
                                 lam_activation *out, lam_err *err)
{
    static const struct {
        const char *name;
        lam_activation activation;
    } table[] = {
        {"gelu", LAM_ACTIVATION_GELU},
        {"gelu_new", LAM_ACTIVATION_GELU_TANH},
        {"gelu_pytorch_tanh", LAM_ACTIVATION_GELU_TANH},
        {"relu", LAM_ACTIVATION_RELU},
        {"silu", LAM_ACTIVATION_SILU},
        {"swish", LAM_ACTIVATION_SILU},
    };
    lam_quoted q;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(name, table[i].name) == 0) {
            *out = table[i].activation;
            return LAM_OK;
        }
    }
    return lam_json_fail(
        config, key, err,
        "activation \"%s\" is not supported; gelu, gelu_new, gelu_pytorch_tanh, relu, silu and "
        "swish are",
        lam_quote(&q, name, strlen(name)));
}

lam_status lam__key_activation(const lam_json *config, lam_key key, const char *fallback,
                               lam_activation *out, lam_err *err)
{
    const char *name, *value = fallback;
    LAM_TRY(find(config, key, &name, err));
    if (name) LAM_TRY(lam_json_opt_string(config, name, &value, err));
    return lam__activation_parse(config, name ? name : key[0], value, out, err);
}

lam_status lam__key_eps(const lam_json *config, lam_key key, double fallback, double *out,
                        lam_err *err)
{
    const char *name;
    *out = fallback;
    LAM_TRY(find(config, key, &name, err));
    if (!name) return LAM_OK;
    LAM_TRY(lam_json_opt_real(config, name, out, err));
    const float f = (float)*out;
    if (f > 0.0f && isfinite(f)) return LAM_OK;
    return lam_json_fail(config, name, err, "must be above 0 and finite in float32, is %g", *out);
}

lam_status lam__key_bool(const lam_json *config, lam_key key, bool fallback, bool *out,
                         lam_err *err)
{
    const char *name;
    *out = fallback;
    LAM_TRY(find(config, key, &name, err));
    return name ? lam_json_opt_bool(config, name, out, err) : LAM_OK;
}

lam_status lam__key_refuse_true(const lam_json *config, const char *key, const char *why,
                                lam_err *err)
{
    bool v = false;
    LAM_TRY(lam_json_opt_bool(config, key, &v, err));
    return v ? lam_json_fail(config, key, err, "is true: %s", why) : LAM_OK;
}

lam_status lam__key_only(const lam_json *config, const char *key, const char *only, lam_err *err)
{
    const char *v = only;
    lam_quoted q;
    LAM_TRY(lam_json_opt_string(config, key, &v, err));
    if (strcmp(v, only) == 0) return LAM_OK;
    return lam_json_fail(config, key, err, "\"%s\" is not supported; %s is",
                         lam_quote(&q, v, strlen(v)), only);
}

void lam__all_norms(lam_hparams *h, lam_norm_kind kind, double eps)
{
    lam_norm_spec spec = lam_norm_spec_default(kind);
    spec.eps = eps;
    h->residual_scale = 1.0f;
    h->embedding_norm = h->attention_norm = h->ffn_norm = spec;
}
