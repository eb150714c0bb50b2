#include "core/compile/compile.h"

#include <stdlib.h>
#include <string.h>

#include "core/compile/passes.h"
#include "core/model/model.h"

/* Op lists and names are small; the limit only keeps a broken caller from taking the machine. */
enum { MODEL_ARENA_BYTES = 64 << 20 };

static const char *copy(lam_model *m, const char *s)
{
    return s ? lam_arena_strndup(&m->arena, s, strlen(s)) : NULL;
}

static lam_status copy_prompts(lam_model *m, const lam_parts *parts, lam_err *err)
{
    lam_prompt *prompts = lam_arena_calloc(&m->arena, parts->prompt_count, sizeof *prompts);
    bool complete = prompts != NULL;
    for (size_t i = 0; complete && i < parts->prompt_count; i++) {
        prompts[i].name = copy(m, parts->prompts[i].name);
        prompts[i].text = copy(m, parts->prompts[i].text);
        complete = prompts[i].name && prompts[i].text;
    }
    m->info.prompts = prompts;
    m->info.prompt_count = parts->prompt_count;
    m->info.default_prompt = copy(m, parts->default_prompt);
    m->info.name = copy(m, parts->name);
    if (!complete || !m->info.name || (parts->default_prompt && !m->info.default_prompt))
        return lam_fail(err, LAM_E_NOMEM, "model", "no memory for names and prompts");
    return LAM_OK;
}

static void fill_info(lam_model *m, const lam_parts *parts)
{
    const lam_hparams *h = &m->hparams;
    lam_model_info *info = &m->info;
    const size_t longest = parts->head.max_input_length;
    info->family = h->family;
    info->weight_dtype = parts->weight_dtype;
    info->width = h->width;
    info->layers = h->layers;
    info->heads = h->heads;
    info->ffn_width = h->ffn_width;
    info->vocab = h->vocab;
    info->types = h->types;
    info->positions = h->positions;
    info->max_input_length = longest == 0 || longest > info->positions ? info->positions : longest;
    info->pool = parts->head.pool;
    info->normalize = parts->head.normalize;
    info->isa = m->kernels.isa;
    info->folded_bytes = m->program.folded_block.bytes;
    info->weight_bytes = m->program.block.bytes + info->folded_bytes;
    info->parameters = m->program.parameters;
}

static lam_status compile(lam_model *m, const lam_parts *parts, const lam_open_opts *opts,
                          lam_err *err)
{
    lam_program *p = &m->program;
    m->hparams = parts->hparams;
    lam_hparams_complete(&m->hparams);
    lam__kernels_init(&m->kernels, opts->isa);
    LAM_TRY(lam__build(p, &m->hparams, parts->weights, &m->arena, err));
    LAM_TRY(lam__number_taps(p, m->hparams.layers, &m->arena, err));
    LAM_TRY(lam__part_measured(p, &m->arena, err));
    LAM_TRY(copy_prompts(m, parts, err));
    LAM_TRY(lam__pack(p, &m->hparams, parts->weights, err));
    LAM_TRY(lam__fold(p, &m->hparams, opts->folds, &m->arena, err));
    if (opts->fuse) lam__fuse(p);
    lam__plan(p);
    lam__plan(p->measured);
    if (p->folded && opts->fuse) lam__fuse(p->folded);
    if (p->folded) lam__plan(p->folded);
    fill_info(m, parts);
    return LAM_OK;
}

lam_status lam_compile(lam_model **out, const lam_parts *parts, const lam_open_opts *opts,
                       lam_err *err)
{
    *out = NULL;
    lam_model *m = calloc(1, sizeof *m);
    if (!m) return lam_fail(err, LAM_E_NOMEM, "model", "out of memory");
    lam_arena_init(&m->arena, MODEL_ARENA_BYTES);
    const lam_status status = compile(m, parts, opts, err);
    if (status != LAM_OK) {
        lam_model_close(m);
        return status;
    }
    m->tokenizer = parts->tokenizer;
    *out = m;
    return LAM_OK;
}
