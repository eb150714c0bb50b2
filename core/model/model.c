#include "core/model/model.h"

#include <stdlib.h>

#include "core/base/cpu.h"
#include "core/tokenizer/tokenizer.h"

lam_open_opts lam_open_opts_default(void)
{
    return (lam_open_opts){.isa = lam_cpu_best(), .fuse = true, .folds = LAM_FOLDS_DEFAULT};
}

const lam_model_info *lam_model_get_info(const lam_model *m)
{
    return &m->info;
}

bool lam_model_has_site(const lam_model *m, size_t layer, lam_site site)
{
    return lam_program_slot(&m->program, m->hparams.layers, layer, site) != LAM_SLOT_NONE;
}

const struct lam_tokenizer *lam_model_tokenizer(const lam_model *m)
{
    return m->tokenizer;
}

const lam_program *lam_model_program(const lam_model *m)
{
    return &m->program;
}

const lam_kernels *lam_model_kernels(const lam_model *m)
{
    return &m->kernels;
}

const lam_hparams *lam_model_hparams(const lam_model *m)
{
    return &m->hparams;
}

void lam_model_close(lam_model *m)
{
    if (!m) return;
    lam_block_unmap(&m->program.block);
    lam_block_unmap(&m->program.folded_block);
    lam_tokenizer_free(m->tokenizer);
    lam_arena_fini(&m->arena);
    free(m);
}

bool lam_model_fold(const lam_model *m, size_t index, lam_fold_view *out)
{
    if (index >= m->program.fold_count) return false;
    *out = m->program.folds[index];
    return true;
}

lam_encode_opts lam_encode_opts_default(const lam_model *m)
{
    return (lam_encode_opts){.pool = m->info.pool,
                             .normalize = m->info.normalize,
                             .dimensions = m->info.width,
                             .output_layer = m->info.layers};
}
