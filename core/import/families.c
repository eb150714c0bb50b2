#include "core/import/families.h"

#include <stdio.h>
#include <string.h>

#define LINEAR(module, name, rows, columns)                                         \
    {LAM_MODULE_##module, "weight", name, NULL, LAM_DIM_##rows, LAM_DIM_##columns}, \
    {                                                                               \
        LAM_MODULE_##module, "bias", name, NULL, LAM_DIM_##rows, LAM_DIM_NONE       \
    }
#define TABLE(module, name, rows)                                                \
    {                                                                            \
        LAM_MODULE_##module, "weight", name, NULL, LAM_DIM_##rows, LAM_DIM_WIDTH \
    }

static const lam_tensor_row bert_rows[] = {
    TABLE(WORD_EMBEDDING, "embeddings.word_embeddings", VOCAB),
    TABLE(POSITION_EMBEDDING, "embeddings.position_embeddings", POSITIONS),
    TABLE(TYPE_EMBEDDING, "embeddings.token_type_embeddings", TYPES),
    LINEAR(QUERY, "encoder.layer.%.attention.self.query", WIDTH, WIDTH),
    LINEAR(KEY, "encoder.layer.%.attention.self.key", WIDTH, WIDTH),
    LINEAR(VALUE, "encoder.layer.%.attention.self.value", WIDTH, WIDTH),
    LINEAR(ATTENTION_OUT, "encoder.layer.%.attention.output.dense", WIDTH, WIDTH),
    LINEAR(FFN_IN, "encoder.layer.%.intermediate.dense", FFN, WIDTH),
    LINEAR(FFN_OUT, "encoder.layer.%.output.dense", WIDTH, FFN),
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

static const char *const bert_ignored[] = {
    "pooler.",     "embeddings.position_ids", "embeddings.token_type_ids", "cls.", "classifier.",
    "qa_outputs.",
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const lam_family families[] = {
    {"bert", bert_rows, COUNT(bert_rows), bert_norms, COUNT(bert_norms), "bert.", bert_ignored,
     COUNT(bert_ignored), lam_bert_config},
};

const lam_family *lam_family_find(const char *model_type)
{
    for (size_t i = 0; i < COUNT(families); i++)
        if (strcmp(families[i].model_type, model_type) == 0) return &families[i];
    return NULL;
}

void lam_family_list(char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < COUNT(families); i++) {
        const int n =
            snprintf(out + used, bytes - used, "%s%s", i ? ", " : "", families[i].model_type);
        if (n < 0 || (size_t)n >= bytes - used) return;
        used += (size_t)n;
    }
}

size_t lam_dim_size(const lam_hparams *h, lam_dim dim)
{
    switch (dim) {
    case LAM_DIM_NONE:
        return 1;
    case LAM_DIM_WIDTH:
        return h->width;
    case LAM_DIM_FFN:
        return h->ffn_width;
    case LAM_DIM_VOCAB:
        return h->vocab;
    case LAM_DIM_POSITIONS:
        return h->position_rows;
    case LAM_DIM_TYPES:
        return h->types;
    }
    return 0;
}

bool lam_tensor_row_is_per_layer(const lam_tensor_row *row)
{
    return strchr(row->name, '%') != NULL;
}

void lam_tensor_row_name(char out[LAM_TENSOR_NAME_MAX], const lam_tensor_row *row,
                         const char *prefix, size_t layer, bool old)
{
    const char *param = old ? row->old_param : row->param;
    const char *at = strchr(row->name, '%');
    if (at == NULL)
        snprintf(out, LAM_TENSOR_NAME_MAX, "%s%s.%s", prefix, row->name, param);
    else
        snprintf(out, LAM_TENSOR_NAME_MAX, "%s%.*s%zu%s.%s", prefix, (int)(at - row->name),
                 row->name, layer, at + 1, param);
}
