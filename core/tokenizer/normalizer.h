/* Normalizers: each step makes a new text out of the one before, keeping track of where each byte
 * came from as the reference does (docs: tokenizers.md 3, 9). */
#ifndef LAM_TOKENIZER_NORMALIZER_H
#define LAM_TOKENIZER_NORMALIZER_H

#include "core/tokenizer/spec.h"
#include "core/tokenizer/text.h"

typedef struct lam__normalizer {
    lam__norm_spec spec; /* its strings belong to the tokenizer */
    /* What becomes of a byte that is a character: another one, or LAM__NORM_STOP if it needs a
     * look. */
    uint8_t plain[256];
} lam__normalizer;

enum { LAM__NORM_STOP = 0xff };

typedef struct lam__normalizers {
    const lam__normalizer *steps;
    size_t count;
} lam__normalizers;

/* Copies strings into the arena. */
lam_status lam__normalizers_build(lam__normalizers *out, const lam__norm_spec *specs, size_t count,
                                  lam_arena *arena);

/* Runs all steps. *out lies in the arena or is *in itself. want_origins false: origins stay
 * unknown. */
lam_status lam__normalize(const lam__normalizers *n, const lam__text *in, bool want_origins,
                          lam_arena *arena, lam__text *out);

#endif
