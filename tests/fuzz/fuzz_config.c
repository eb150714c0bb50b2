/* config.json and a pooling's config.json. */
#include <stdlib.h>

#include "core/import/hf_config.h"
#include "core/import/sentence_transformers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the compiler and the kernels rely on. */
static void check_norms(const lam_hparams *h)
{
    if (!(h->residual_scale > 0.0f)) abort();
    for (int m = LAM_MODULE_EMBEDDING_NORM; m <= LAM_MODULE_FINAL_NORM; m++) {
        const lam_norm_site n = lam_hparams_norm(h, (lam_module)m);
        const lam_norm_info *info = lam_norm_get_info(n.spec.kind);
        if (n.spec.kind == LAM_NORM_ABSENT) continue;
        if (lam_norm_has_field(info, LAM_NORM_FIELD_EPS) && !(n.spec.eps > 0.0)) abort();
        if (!lam_norm_has_source(info, n.spec.source) || n.spec.ddof > 1) abort();
        if (n.spec.groups > 0 && n.width % n.spec.groups != 0) abort();
        if (lam_norm_measured(&n.spec, n.width) == 0) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lam_json j;
    lam_err err;
    lam_hparams h;
    const lam_family *family;
    lam_pool pool;
    bool include_prompt;
    if (lam_json_parse(&j, (const char *)data, size, "config.json", LAM_JSON_INTEGERS, &err) !=
        LAM_OK)
        return 0;
    if (json_is_object(j.root)) {
        if (lam_hf_config_take(&h, &family, &j, &err) == LAM_OK) {
            if (h.width == 0 || h.width > LAM_MAX_WIDTH || h.heads == 0 || h.head_width == 0 ||
                h.heads * h.head_width > LAM_MAX_WIDTH || h.positions == 0)
                abort();
            if (h.layers == 0 || h.layers > LAM_MAX_LAYERS || h.vocab > LAM_MAX_VOCAB) abort();
            check_norms(&h);
        }
        if (lam_sentence_pooling(&pool, &include_prompt, &j, 32, &err) == LAM_OK &&
            pool >= LAM_POOL_COUNT)
            abort();
    }
    lam_json_free(&j);
    return 0;
}
