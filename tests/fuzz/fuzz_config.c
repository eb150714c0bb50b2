/* config.json and a pooling's config.json. */
#include <stdlib.h>

#include "core/import/hf_config.h"
#include "core/import/sentence_transformers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
            if (h.width == 0 || h.width > LAM_MAX_WIDTH || h.heads == 0 || h.width % h.heads != 0)
                abort();
            if (h.layers == 0 || h.layers > LAM_MAX_LAYERS || h.vocab > LAM_MAX_VOCAB) abort();
            if (!(h.ffn_norm.eps > 0.0f)) abort();
        }
        if (lam_sentence_pooling(&pool, &include_prompt, &j, 32, &err) == LAM_OK &&
            pool >= LAM_POOL_COUNT)
            abort();
    }
    lam_json_free(&j);
    return 0;
}
