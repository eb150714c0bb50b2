#include "core/norm/norm.h"

static const lam_norm_info infos[LAM_NORM_KIND_COUNT] = {
    [LAM_NORM_LAYER] = {.name = "layer",
                        .verdict = "independent",
                        .param_count = 2,
                        .param_names = {"weight", "bias"},
                        .run = lam__norm_layer},
};

const lam_norm_info *lam_norm_get_info(lam_norm_kind kind)
{
    return &infos[kind];
}
