/* A checked description -> a tokenizer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tokenizer/model.h"

/* Templates may only name ids that exist. */
static lam_status check_template(const lam__tokenizer_spec *spec, const lam__template_spec *form,
                                 const char *name, const lam__vocab *vocab, lam_err *err)
{
    for (size_t i = 0; i < form->count; i++) {
        if (form->items[i].kind != LAM__TEMPLATE_SPECIAL) continue;
        if (lam__vocab_piece(vocab, form->items[i].id, NULL)) continue;
        char where[200];
        snprintf(where, sizeof where, "%s: post_processor", spec->file);
        return lam_fail(err, LAM_E_FORMAT, where, "%s names id %d, which is not in the vocabulary",
                        name, form->items[i].id);
    }
    return LAM_OK;
}

static lam_status check_spec(const lam__tokenizer_spec *spec, lam_err *err)
{
    char where[200];
    if (spec->piece_count == 0) {
        snprintf(where, sizeof where, "%s: model.vocab", spec->file);
        return lam_fail(err, LAM_E_FORMAT, where, "is empty");
    }
    if (spec->pretok_count > LAM__PRETOK_MAX_STEPS) {
        snprintf(where, sizeof where, "%s: pre_tokenizer", spec->file);
        return lam_fail(err, LAM_E_LIMIT, where, "%zu steps are more than %d", spec->pretok_count,
                        LAM__PRETOK_MAX_STEPS);
    }
    return LAM_OK;
}

static lam_status build_parts(lam_tokenizer *t, const lam__tokenizer_spec *spec, lam_arena *scratch,
                              lam_err *err)
{
    LAM_TRY(lam__vocab_build(&t->vocab, spec, &t->arena, scratch, err));
    LAM_TRY(lam__normalizers_build(&t->norms, spec->norms, spec->norm_count, &t->arena));
    LAM_TRY(lam__added_build(&t->raw, spec, false, &t->norms, &t->arena, scratch, err));
    LAM_TRY(lam__added_build(&t->normalized, spec, true, &t->norms, &t->arena, scratch, err));
    t->pretoks.count = spec->pretok_count;
    if (spec->pretok_count > 0) {
        memcpy(t->pretoks.steps, spec->pretoks, spec->pretok_count * sizeof *spec->pretoks);
    }
    t->model.kind = spec->model;
    switch (spec->model) {
    case LAM__MODEL_WORDPIECE:
        LAM_TRY(lam__wordpiece_build(&t->model.as.wordpiece, spec, &t->vocab, err));
        break;
    case LAM__MODEL_COUNT:
        break;
    }
    LAM_TRY(check_template(spec, &spec->single[0], "single", &t->vocab, err));
    LAM_TRY(check_template(spec, &spec->pair[0], "pair", &t->vocab, err));
    return lam__postprocessor_build(&t->post, spec, &t->arena, err);
}

/* One chunk for about all that follows: less is lost at the ends of chunks. */
static void reserve(lam_arena *arena, const lam__tokenizer_spec *spec)
{
    size_t bytes = 4096;
    for (size_t i = 0; i < spec->piece_count; i++)
        bytes += spec->pieces[i].text.n;
    bytes += spec->piece_count * 5;
    if (lam_arena_alloc(arena, bytes)) lam_arena_reset(arena);
}

lam_status lam__tokenizer_build(lam_tokenizer **out, const lam__tokenizer_spec *spec, lam_err *err)
{
    *out = NULL;
    LAM_TRY(check_spec(spec, err));
    lam_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return lam_fail(err, LAM_E_NOMEM, spec->file, "no memory for the tokenizer");
    lam_arena scratch;
    lam_arena_init(&scratch, SIZE_MAX);
    lam_arena_init(&t->arena, SIZE_MAX);
    reserve(&t->arena, spec);
    if (err) err->status = LAM_OK;
    lam_status status = build_parts(t, spec, &scratch, err);
    lam_arena_fini(&scratch);
    if (status == LAM_OK) {
        *out = t;
        return LAM_OK;
    }
    lam_tokenizer_free(t);
    if (status != LAM_E_NOMEM) return status;
    return lam_fail(err, status, spec->file, "no memory for the tokenizer");
}
