/* config.json of BERT. Sizes must be stated; the other keys have the defaults of the family. */
#include <math.h>
#include <string.h>

#include "core/import/families.h"

static lam_status read_activation(lam_hparams *h, const lam_json *config, lam_err *err)
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
    const char *name = "gelu";
    lam_quoted q;
    LAM_TRY(lam_json_opt_string(config, "hidden_act", &name, err));
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(name, table[i].name) == 0) {
            h->activation = table[i].activation;
            return LAM_OK;
        }
    }
    return lam_json_fail(
        config, "hidden_act", err,
        "activation \"%s\" is not supported; gelu, gelu_new, gelu_pytorch_tanh, relu, silu and "
        "swish are",
        lam_quote(&q, name, strlen(name)));
}

static lam_status read_eps(lam_hparams *h, const lam_json *config, lam_err *err)
{
    double eps = 1e-12;
    LAM_TRY(lam_json_opt_real(config, "layer_norm_eps", &eps, err));
    const float f = (float)eps;
    if (!(f > 0.0f) || !isfinite(f))
        return lam_json_fail(config, "layer_norm_eps", err,
                             "must be above 0 and finite in float32, is %g", eps);
    lam_norm_spec spec = lam_norm_spec_default(LAM_NORM_LAYER);
    spec.eps = eps;
    h->residual_scale = 1.0f;
    h->embedding_norm = h->attention_norm = h->ffn_norm = spec;
    return LAM_OK;
}

static lam_status refuse_if_true(const lam_json *config, const char *key, const char *why,
                                 lam_err *err)
{
    bool v = false;
    LAM_TRY(lam_json_opt_bool(config, key, &v, err));
    return v ? lam_json_fail(config, key, err, "is true: %s", why) : LAM_OK;
}

static lam_status read_positions(lam_hparams *h, const lam_json *config, lam_err *err)
{
    const char *type = "absolute";
    lam_quoted q;
    LAM_TRY(lam_json_opt_string(config, "position_embedding_type", &type, err));
    if (strcmp(type, "absolute") != 0)
        return lam_json_fail(config, "position_embedding_type", err,
                             "\"%s\" is not supported; absolute is",
                             lam_quote(&q, type, strlen(type)));
    h->position_rule = LAM_POSITIONS_INDEX;
    return lam_json_size(config, "max_position_embeddings", 1, LAM_MAX_POSITIONS, &h->position_rows,
                         err);
}

lam_status lam_bert_config(lam_hparams *h, const lam_json *config, lam_err *err)
{
    h->placement = LAM_PLACEMENT_POST;
    h->types = 2;
    LAM_TRY(refuse_if_true(config, "is_decoder", "a causal model is no encoder", err));
    LAM_TRY(refuse_if_true(config, "add_cross_attention", "cross attention is not supported", err));
    LAM_TRY(lam_json_size(config, "hidden_size", 1, LAM_MAX_WIDTH, &h->width, err));
    LAM_TRY(lam_json_size(config, "num_hidden_layers", 1, LAM_MAX_LAYERS, &h->layers, err));
    LAM_TRY(lam_json_size(config, "num_attention_heads", 1, LAM_MAX_WIDTH, &h->heads, err));
    if (h->width % h->heads != 0)
        return lam_json_fail(config, "num_attention_heads", err,
                             "%zu does not divide hidden_size %zu", h->heads, h->width);
    LAM_TRY(lam_json_size(config, "intermediate_size", 1, LAM_MAX_FFN_WIDTH, &h->ffn_width, err));
    LAM_TRY(lam_json_size(config, "vocab_size", 1, LAM_MAX_VOCAB, &h->vocab, err));
    if (lam_json_get(config, "type_vocab_size") != NULL)
        LAM_TRY(lam_json_size(config, "type_vocab_size", 1, LAM_MAX_TYPES, &h->types, err));
    LAM_TRY(read_positions(h, config, err));
    LAM_TRY(read_activation(h, config, err));
    return read_eps(h, config, err);
}
