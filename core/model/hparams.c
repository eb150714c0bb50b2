#include "core/model/hparams.h"

#include <math.h>

const char *lam_placement_name(lam_placement v)
{
    static const char *const names[] = {
#define X(name, text) text,
        LAM_PLACEMENT_MAP(X)
#undef X
    };
    return names[v];
}

void lam_hparams_complete(lam_hparams *h)
{
    if (h->embedding_width == 0) h->embedding_width = h->width;
    if (h->weight_sets == 0) h->weight_sets = h->layers;
    if (h->positions == 0) h->positions = h->position_rows;
    if (h->head_width == 0) h->head_width = h->width / h->heads;
    if (h->attention_scale == 0.0f) h->attention_scale = (float)(1.0 / sqrt((double)h->head_width));
}

static lam_norm_site site_of(lam_norm_spec spec, bool there, size_t width, lam_site site)
{
    if (!there) spec = (lam_norm_spec){.kind = LAM_NORM_ABSENT};
    return (lam_norm_site){.spec = spec, .width = width, .site = site, .per_layer = true};
}

static lam_norm_site outside(lam_norm_spec spec, size_t width, lam_site site)
{
    return (lam_norm_site){.spec = spec, .width = width, .site = site};
}

lam_norm_site lam_hparams_norm(const lam_hparams *h, lam_module module)
{
    const lam_norm_spec absent = {.kind = LAM_NORM_ABSENT};
    const bool any = h->placement != LAM_PLACEMENT_NONE;
    const bool branch = lam_placement_has_branch(h->placement);
    const bool sub = h->placement == LAM_PLACEMENT_SUB;
    switch ((int)module) {
    case LAM_MODULE_EMBEDDING_NORM:
        return outside(h->embedding_norm, h->embedding_width, LAM_SITE_EMBEDDING);
    case LAM_MODULE_FINAL_NORM:
        return outside(h->final_norm, h->width, LAM_SITE_FINAL);
    case LAM_MODULE_ATTENTION_NORM:
        return site_of(h->attention_norm, any, h->width, LAM_SITE_ATTENTION_NORM);
    case LAM_MODULE_ATTENTION_SUB_NORM:
        return site_of(h->attention_norm, sub, h->heads * h->head_width,
                       LAM_SITE_ATTENTION_SUB_NORM);
    case LAM_MODULE_ATTENTION_BRANCH_NORM:
        return site_of(h->attention_norm, branch, h->width, LAM_SITE_ATTENTION_BRANCH_NORM);
    case LAM_MODULE_FFN_NORM:
        return site_of(h->ffn_norm, any, h->width, LAM_SITE_FFN_NORM);
    case LAM_MODULE_INNER_NORM:
        return site_of(h->inner_norm, true, h->ffn_width, LAM_SITE_FFN_INNER_NORM);
    case LAM_MODULE_FFN_SUB_NORM:
        return site_of(h->ffn_norm, sub, h->ffn_width, LAM_SITE_FFN_SUB_NORM);
    case LAM_MODULE_FFN_BRANCH_NORM:
        return site_of(h->ffn_norm, branch, h->width, LAM_SITE_FFN_BRANCH_NORM);
    default:
        return outside(absent, 0, LAM_SITE_COUNT);
    }
}
