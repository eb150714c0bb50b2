/* What comes after the model: truncation, special tokens and type ids. */
#ifndef LAM_TOKENIZER_POSTPROCESSOR_H
#define LAM_TOKENIZER_POSTPROCESSOR_H

#include "core/tokenizer/spec.h"
#include "core/tokenizer/text.h"

typedef struct lam__template {
    const lam__template_item *items;
    size_t count;
    size_t specials; /* how many of them are special tokens */
} lam__template;

typedef struct lam__postprocessor {
    lam__template single[2], pair[2]; /* [0] with special tokens, [1] without */
} lam__postprocessor;

lam_status lam__postprocessor_build(lam__postprocessor *out, const lam__tokenizer_spec *spec,
                                    lam_arena *arena, lam_err *err);

/* The tokens first..first + count of one text that stay. */
typedef struct lam__kept {
    size_t first, count;
} lam__kept;

/* Cuts to `max` tokens, specials not counted. lengths[1] is 0 without a second text. False: the
 * strategy cannot reach `max`. */
bool lam__truncate(const size_t lengths[2], bool pair, size_t max, lam_truncate_strategy strategy,
                   lam_truncate_side side, lam__kept kept[2]);

/* Writes the template with the kept tokens. The arrays come from the arena; only count, ids,
 * type_ids and offsets of *out are set. */
lam_status lam__template_apply(const lam__template *t, const lam__tokens texts[2],
                               const lam__kept kept[2], bool want_offsets, lam_arena *arena,
                               lam_encoding *out);

#endif
