/* The encoder of T5: norms of the root mean square before the sub-layers, no biases, scores that
 * are not scaled and have a bias by distance, which block 0 holds for all. */
#include <string.h>

#include "core/import/family_keys.h"

#define MATRIX(module, name, rows, columns)                                          \
    {                                                                                \
        LAM_MODULE_##module, "weight", name, NULL, LAM_DIM_##rows, LAM_DIM_##columns \
    }
#define ATTENTION "encoder.block.%.layer.0.SelfAttention."

static const lam_tensor_row t5_rows[] = {
    MATRIX(WORD_EMBEDDING, "shared", VOCAB, EMBEDDING),
    MATRIX(RELATIVE_BIAS, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias", BIASES,
           HEADS),
    MATRIX(QUERY, ATTENTION "q", QUERIES, WIDTH),
    MATRIX(KEY, ATTENTION "k", QUERIES, WIDTH),
    MATRIX(VALUE, ATTENTION "v", QUERIES, WIDTH),
    MATRIX(ATTENTION_OUT, ATTENTION "o", WIDTH, QUERIES),
    MATRIX(FFN_IN, "encoder.block.%.layer.1.DenseReluDense.wi", FFN, WIDTH),
    MATRIX(FFN_OUT, "encoder.block.%.layer.1.DenseReluDense.wo", WIDTH, FFN),
};

static const lam_norm_path t5_norms[] = {
    {LAM_MODULE_ATTENTION_NORM, "encoder.block.%.layer.0.layer_norm"},
    {LAM_MODULE_FFN_NORM, "encoder.block.%.layer.1.layer_norm"},
    {LAM_MODULE_FINAL_NORM, "encoder.final_layer_norm"},
};

/* Any length would do; what the family was trained on is the limit unless the file has another. */
enum { USUAL_POSITIONS = 512 };

static lam_status read_bias(lam_hparams *h, const lam_json *config, lam_err *err)
{
    static lam_key buckets = {"relative_attention_num_buckets"};
    static lam_key distance = {"relative_attention_max_distance"};
    h->bias_buckets = 32;
    h->bias_distance = 128;
    LAM_TRY(lam__key_opt_size(config, buckets, 4, 1 << 16, &h->bias_buckets, err));
    LAM_TRY(lam__key_opt_size(config, distance, h->bias_buckets / 4 + 1, LAM_MAX_POSITIONS,
                              &h->bias_distance, err));
    h->bias_rows = h->bias_buckets;
    if (h->bias_buckets % 4 == 0) return LAM_OK;
    return lam_json_fail(config, buckets[0], err, "must be a multiple of 4, is %zu",
                         h->bias_buckets);
}

static lam_status read_activation(lam_hparams *h, const lam_json *config, lam_err *err)
{
    const char *name = "relu";
    lam_quoted q;
    LAM_TRY(lam_json_opt_string(config, "feed_forward_proj", &name, err));
    if (strncmp(name, "gated-", 6) == 0)
        return lam_json_fail(config, "feed_forward_proj", err,
                             "\"%s\": a gated feed-forward part is not supported",
                             lam_quote(&q, name, strlen(name)));
    return lam__activation_parse(config, "feed_forward_proj", name, &h->activation, err);
}

static lam_status t5_config(lam_hparams *h, const lam_json *config, lam_err *err)
{
    static const lam_size_keys keys = {.width = {"d_model"},
                                       .layers = {"num_layers"},
                                       .heads = {"num_heads"},
                                       .ffn = {"d_ff"},
                                       .vocab = {"vocab_size"},
                                       .head_width = {"d_kv"}};
    static lam_key eps_key = {"layer_norm_epsilon"}, positions = {"n_positions"};
    double eps;
    LAM_TRY(lam__key_refuse_true(config, "is_decoder", "a causal model is no encoder", err));
    LAM_TRY(lam__key_sizes(h, config, &keys, err));
    LAM_TRY(read_activation(h, config, err));
    LAM_TRY(read_bias(h, config, err));
    h->positions = USUAL_POSITIONS;
    LAM_TRY(lam__key_opt_size(config, positions, 1, LAM_MAX_POSITIONS, &h->positions, err));
    LAM_TRY(lam__key_eps(config, eps_key, 1e-6, &eps, err));
    lam__all_norms(h, LAM_NORM_RMS, eps);
    h->embedding_norm = (lam_norm_spec){.kind = LAM_NORM_ABSENT};
    h->final_norm = h->attention_norm;
    h->placement = LAM_PLACEMENT_PRE;
    h->attention_scale = 1.0f;
    h->without_biases = true;
    return LAM_OK;
}

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const lam_family families[] = {{.model_type = "t5",
                                       .rows = t5_rows,
                                       .row_count = COUNT(t5_rows),
                                       .norms = t5_norms,
                                       .norm_count = COUNT(t5_norms),
                                       .prefix = "",
                                       .read_config = t5_config}};

const lam_family_group lam__t5_families = {families, COUNT(families)};
