/* BERT and its relatives with learned positions: their tensors and their config.json. Sizes must be
 * stated; the other keys have the defaults of the family. */
#include <string.h>

#include "core/import/family_keys.h"

/* ---- Tensors ---- */

#define EMBEDDINGS                                                                  \
    LAM_TABLE(WORD_EMBEDDING, "embeddings.word_embeddings", VOCAB),                 \
        LAM_TABLE(POSITION_EMBEDDING, "embeddings.position_embeddings", POSITIONS), \
        LAM_TABLE(TYPE_EMBEDDING, "embeddings.token_type_embeddings", TYPES)
#define BERT_LAYER                                                                         \
    LAM_LINEAR(QUERY, "encoder.layer.%.attention.self.query", WIDTH, WIDTH),               \
        LAM_LINEAR(KEY, "encoder.layer.%.attention.self.key", WIDTH, WIDTH),               \
        LAM_LINEAR(VALUE, "encoder.layer.%.attention.self.value", WIDTH, WIDTH),           \
        LAM_LINEAR(ATTENTION_OUT, "encoder.layer.%.attention.output.dense", WIDTH, WIDTH), \
        LAM_LINEAR(FFN_IN, "encoder.layer.%.intermediate.dense", FFN, WIDTH),              \
        LAM_LINEAR(FFN_OUT, "encoder.layer.%.output.dense", WIDTH, FFN)

static const lam_tensor_row bert_rows[] = {EMBEDDINGS, BERT_LAYER};

static const lam_tensor_row electra_rows[] = {
    EMBEDDINGS,
    LAM_LINEAR(EMBEDDING_PROJECTION, "embeddings_project", WIDTH, EMBEDDING),
    BERT_LAYER,
};

static const lam_tensor_row distilbert_rows[] = {
    LAM_TABLE(WORD_EMBEDDING, "embeddings.word_embeddings", VOCAB),
    LAM_TABLE(POSITION_EMBEDDING, "embeddings.position_embeddings", POSITIONS),
    LAM_LINEAR(QUERY, "transformer.layer.%.attention.q_lin", WIDTH, WIDTH),
    LAM_LINEAR(KEY, "transformer.layer.%.attention.k_lin", WIDTH, WIDTH),
    LAM_LINEAR(VALUE, "transformer.layer.%.attention.v_lin", WIDTH, WIDTH),
    LAM_LINEAR(ATTENTION_OUT, "transformer.layer.%.attention.out_lin", WIDTH, WIDTH),
    LAM_LINEAR(FFN_IN, "transformer.layer.%.ffn.lin1", FFN, WIDTH),
    LAM_LINEAR(FFN_OUT, "transformer.layer.%.ffn.lin2", WIDTH, FFN),
};

static const lam_tensor_row mpnet_rows[] = {
    LAM_TABLE(WORD_EMBEDDING, "embeddings.word_embeddings", VOCAB),
    LAM_TABLE(POSITION_EMBEDDING, "embeddings.position_embeddings", POSITIONS),
    {LAM_MODULE_RELATIVE_BIAS, "weight", "encoder.relative_attention_bias", NULL, LAM_DIM_BIASES,
     LAM_DIM_HEADS},
    LAM_LINEAR(QUERY, "encoder.layer.%.attention.attn.q", WIDTH, WIDTH),
    LAM_LINEAR(KEY, "encoder.layer.%.attention.attn.k", WIDTH, WIDTH),
    LAM_LINEAR(VALUE, "encoder.layer.%.attention.attn.v", WIDTH, WIDTH),
    LAM_LINEAR(ATTENTION_OUT, "encoder.layer.%.attention.attn.o", WIDTH, WIDTH),
    LAM_LINEAR(FFN_IN, "encoder.layer.%.intermediate.dense", FFN, WIDTH),
    LAM_LINEAR(FFN_OUT, "encoder.layer.%.output.dense", WIDTH, FFN),
};

#define ALBERT "encoder.albert_layer_groups.%.albert_layers.0."
static const lam_tensor_row albert_rows[] = {
    EMBEDDINGS,
    LAM_LINEAR(EMBEDDING_PROJECTION, "encoder.embedding_hidden_mapping_in", WIDTH, EMBEDDING),
    LAM_LINEAR(QUERY, ALBERT "attention.query", WIDTH, WIDTH),
    LAM_LINEAR(KEY, ALBERT "attention.key", WIDTH, WIDTH),
    LAM_LINEAR(VALUE, ALBERT "attention.value", WIDTH, WIDTH),
    LAM_LINEAR(ATTENTION_OUT, ALBERT "attention.dense", WIDTH, WIDTH),
    LAM_LINEAR(FFN_IN, ALBERT "ffn", FFN, WIDTH),
    LAM_LINEAR(FFN_OUT, ALBERT "ffn_output", WIDTH, FFN),
};

/* BERT's own are the first of each group; the others exist where the key "lamina" says so. */
static const lam_norm_path bert_norms[] = {
    {LAM_MODULE_EMBEDDING_NORM, "embeddings.LayerNorm"},
    {LAM_MODULE_ATTENTION_NORM, "encoder.layer.%.attention.output.LayerNorm"},
    {LAM_MODULE_ATTENTION_SUB_NORM, "encoder.layer.%.attention.SubNorm"},
    {LAM_MODULE_ATTENTION_BRANCH_NORM, "encoder.layer.%.attention.output.BranchNorm"},
    {LAM_MODULE_FFN_NORM, "encoder.layer.%.output.LayerNorm"},
    {LAM_MODULE_INNER_NORM, "encoder.layer.%.intermediate.InnerNorm"},
    {LAM_MODULE_FFN_SUB_NORM, "encoder.layer.%.intermediate.SubNorm"},
    {LAM_MODULE_FFN_BRANCH_NORM, "encoder.layer.%.output.BranchNorm"},
    {LAM_MODULE_FINAL_NORM, "encoder.FinalNorm"},
};

static const lam_norm_path prelayernorm_norms[] = {
    {LAM_MODULE_EMBEDDING_NORM, "embeddings.LayerNorm"},
    {LAM_MODULE_ATTENTION_NORM, "encoder.layer.%.attention.LayerNorm"},
    {LAM_MODULE_FFN_NORM, "encoder.layer.%.intermediate.LayerNorm"},
    {LAM_MODULE_FINAL_NORM, "LayerNorm"},
};

static const lam_norm_path distilbert_norms[] = {
    {LAM_MODULE_EMBEDDING_NORM, "embeddings.LayerNorm"},
    {LAM_MODULE_ATTENTION_NORM, "transformer.layer.%.sa_layer_norm"},
    {LAM_MODULE_FFN_NORM, "transformer.layer.%.output_layer_norm"},
};

static const lam_norm_path mpnet_norms[] = {
    {LAM_MODULE_EMBEDDING_NORM, "embeddings.LayerNorm"},
    {LAM_MODULE_ATTENTION_NORM, "encoder.layer.%.attention.LayerNorm"},
    {LAM_MODULE_FFN_NORM, "encoder.layer.%.output.LayerNorm"},
};

static const lam_norm_path albert_norms[] = {
    {LAM_MODULE_EMBEDDING_NORM, "embeddings.LayerNorm"},
    {LAM_MODULE_ATTENTION_NORM, ALBERT "attention.LayerNorm"},
    {LAM_MODULE_FFN_NORM, ALBERT "full_layer_layer_norm"},
};

/* ---- config.json ---- */

static lam_status refuse_decoders(const lam_json *config, lam_err *err)
{
    LAM_TRY(lam__key_refuse_true(config, "is_decoder", "a causal model is no encoder", err));
    return lam__key_refuse_true(config, "add_cross_attention", "cross attention is not supported",
                                err);
}

static lam_status read_types(lam_hparams *h, const lam_json *config, lam_err *err)
{
    static lam_key key = {"type_vocab_size"};
    h->types = 2;
    return lam__key_opt_size(config, key, 1, LAM_MAX_TYPES, &h->types, err);
}

static lam_status read_positions(lam_hparams *h, const lam_json *config, lam_err *err)
{
    LAM_TRY(lam__key_only(config, "position_embedding_type", "absolute", err));
    return lam_json_size(config, "max_position_embeddings", 1, LAM_MAX_POSITIONS, &h->position_rows,
                         err);
}

static lam_status read_layer_norm(lam_hparams *h, const lam_json *config, lam_err *err)
{
    static lam_key key = {"layer_norm_eps"};
    double eps;
    LAM_TRY(lam__key_eps(config, key, 1e-12, &eps, err));
    lam__all_norms(h, LAM_NORM_LAYER, eps);
    return LAM_OK;
}

static lam_status bert_config(lam_hparams *h, const lam_json *config, lam_err *err)
{
    static lam_key activation = {"hidden_act"};
    h->placement = LAM_PLACEMENT_POST;
    LAM_TRY(refuse_decoders(config, err));
    LAM_TRY(lam__key_sizes(h, config, &lam__bert_keys, err));
    LAM_TRY(read_types(h, config, err));
    LAM_TRY(read_positions(h, config, err));
    LAM_TRY(lam__key_activation(config, activation, "gelu", &h->activation, err));
    return read_layer_norm(h, config, err);
}

/* Rows 0 to pad_id of the position table are never a token's own. */
lam_status lam__positions_after_pad(lam_hparams *h, const lam_json *config, lam_err *err)
{
    static lam_key key = {"pad_token_id"};
    size_t pad = 1;
    LAM_TRY(lam__key_opt_size(config, key, 0, h->vocab - 1, &pad, err));
    if (pad + 1 >= h->position_rows)
        return lam_json_fail(config, "max_position_embeddings", err,
                             "positions begin at pad_token_id + 1 = %zu, but there are %zu",
                             pad + 1, h->position_rows);
    h->position_rule = LAM_POSITIONS_AFTER_PAD;
    h->pad_id = (int32_t)pad;
    h->positions = h->position_rows - pad - 1;
    return LAM_OK;
}

static lam_status roberta_config(lam_hparams *h, const lam_json *config, lam_err *err)
{
    LAM_TRY(bert_config(h, config, err));
    return lam__positions_after_pad(h, config, err);
}

static lam_status prelayernorm_config(lam_hparams *h, const lam_json *config, lam_err *err)
{
    LAM_TRY(roberta_config(h, config, err));
    h->placement = LAM_PLACEMENT_PRE;
    h->final_norm = h->attention_norm;
    return LAM_OK;
}

static lam_status electra_config(lam_hparams *h, const lam_json *config, lam_err *err)
{
    static lam_key key = {"embedding_size"};
    h->embedding_width = 128;
    LAM_TRY(bert_config(h, config, err));
    LAM_TRY(lam__key_opt_size(config, key, 1, LAM_MAX_WIDTH, &h->embedding_width, err));
    h->embedding_projected = h->embedding_width != h->width;
    return LAM_OK;
}

static lam_status albert_config(lam_hparams *h, const lam_json *config, lam_err *err)
{
    static lam_key embedding = {"embedding_size"}, sets = {"num_hidden_groups"};
    static lam_key inner = {"inner_group_num"}, activation = {"hidden_act"};
    size_t inner_layers = 1;
    LAM_TRY(bert_config(h, config, err));
    h->embedding_width = 128;
    h->weight_sets = 1;
    h->embedding_projected = true;
    LAM_TRY(lam__key_activation(config, activation, "gelu_new", &h->activation, err));
    LAM_TRY(lam__key_opt_size(config, embedding, 1, LAM_MAX_WIDTH, &h->embedding_width, err));
    LAM_TRY(lam__key_opt_size(config, sets, 1, h->layers, &h->weight_sets, err));
    LAM_TRY(lam__key_opt_size(config, inner, 1, SIZE_MAX, &inner_layers, err));
    if (inner_layers == 1) return LAM_OK;
    return lam_json_fail(config, inner[0], err, "%zu is not supported; 1 is", inner_layers);
}

static lam_status distilbert_config(lam_hparams *h, const lam_json *config, lam_err *err)
{
    static const lam_size_keys keys = {.width = {"dim", "hidden_size"},
                                       .layers = {"n_layers", "num_hidden_layers"},
                                       .heads = {"n_heads", "num_attention_heads"},
                                       .ffn = {"hidden_dim", "intermediate_size"},
                                       .vocab = {"vocab_size"}};
    static lam_key activation = {"activation", "hidden_act"};
    h->placement = LAM_PLACEMENT_POST;
    LAM_TRY(lam__key_sizes(h, config, &keys, err));
    LAM_TRY(read_positions(h, config, err));
    LAM_TRY(lam__key_activation(config, activation, "gelu", &h->activation, err));
    lam__all_norms(h, LAM_NORM_LAYER, 1e-12); /* fixed in the family's code */
    return LAM_OK;
}

/* 32 buckets and distance 128 are fixed in the family's code; the key only sizes the table. */
static lam_status mpnet_config(lam_hparams *h, const lam_json *config, lam_err *err)
{
    static lam_key rows = {"relative_attention_num_buckets"};
    LAM_TRY(roberta_config(h, config, err));
    h->types = 0;
    h->bias_buckets = h->bias_rows = 32;
    h->bias_distance = 128;
    return lam__key_opt_size(config, rows, h->bias_buckets, 1 << 16, &h->bias_rows, err);
}

/* ---- The families ---- */

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define FAMILY(type, its_rows, its_norms, its_prefix, config)                         \
    {                                                                                 \
        .model_type = (type), .rows = (its_rows), .row_count = COUNT(its_rows),       \
        .norms = (its_norms), .norm_count = COUNT(its_norms), .prefix = (its_prefix), \
        .read_config = (config)                                                       \
    }

static const lam_family families[] = {
    FAMILY("bert", bert_rows, bert_norms, "bert.", bert_config),
    FAMILY("roberta", bert_rows, bert_norms, "roberta.", roberta_config),
    FAMILY("xlm-roberta", bert_rows, bert_norms, "roberta.", roberta_config),
    FAMILY("camembert", bert_rows, bert_norms, "roberta.", roberta_config),
    FAMILY("roberta-prelayernorm", bert_rows, prelayernorm_norms, "roberta_prelayernorm.",
           prelayernorm_config),
    FAMILY("distilbert", distilbert_rows, distilbert_norms, "distilbert.", distilbert_config),
    FAMILY("electra", electra_rows, bert_norms, "electra.", electra_config),
    FAMILY("mpnet", mpnet_rows, mpnet_norms, "mpnet.", mpnet_config),
    FAMILY("albert", albert_rows, albert_norms, "albert.", albert_config),
};

const lam_family_group lam__bert_families = {families, COUNT(families)};
