#include "core/import/families.h"

#include <stdio.h>
#include <string.h>

static const lam_family_group *const groups[] = {&lam__bert_families, &lam__t5_families};

#define COUNT(a) (sizeof(a) / sizeof *(a))

const lam_family *lam_family_find(const char *model_type)
{
    for (size_t g = 0; g < COUNT(groups); g++)
        for (size_t i = 0; i < groups[g]->count; i++)
            if (strcmp(groups[g]->families[i].model_type, model_type) == 0)
                return &groups[g]->families[i];
    return NULL;
}

void lam_family_list(char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t g = 0; g < COUNT(groups); g++) {
        for (size_t i = 0; i < groups[g]->count; i++) {
            const int n = snprintf(out + used, bytes - used, "%s%s", used ? ", " : "",
                                   groups[g]->families[i].model_type);
            if (n < 0 || (size_t)n >= bytes - used) return;
            used += (size_t)n;
        }
    }
}

bool lam_family_ignores(const char *name, size_t bytes)
{
    static const char *const ignored[] = {
        "pooler.",
        "embeddings.position_ids",
        "embeddings.token_type_ids",
        "cls.",
        "classifier.",
        "qa_outputs.",
        "lm_head.",
        "decoder.",
        "encoder.embed_tokens.",
        "predictions.",
        "sop_classifier.",
        "discriminator_predictions.",
        "generator_predictions.",
        "generator_lm_head.",
        "pre_classifier.",
        "vocab_transform.",
        "vocab_layer_norm.",
        "vocab_projector.",
    };
    for (size_t i = 0; i < COUNT(ignored); i++) {
        const size_t n = strlen(ignored[i]);
        if (bytes >= n && memcmp(name, ignored[i], n) == 0) return true;
    }
    return false;
}

const char *lam__norm_path(const lam_family *family, lam_module module)
{
    for (size_t n = 0; n < family->norm_count; n++)
        if (family->norms[n].module == module) return family->norms[n].path;
    return NULL;
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
    case LAM_DIM_EMBEDDING:
        return h->embedding_width;
    case LAM_DIM_BIASES:
        return h->bias_rows;
    case LAM_DIM_HEADS:
        return h->heads;
    case LAM_DIM_QUERIES:
        return h->heads * h->head_width;
    }
    return 0;
}

bool lam_tensor_row_exists(const lam_tensor_row *row, const lam_hparams *h)
{
    if (row->module == LAM_MODULE_EMBEDDING_PROJECTION && !h->embedding_projected) return false;
    return lam_dim_size(h, row->rows) > 0;
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
