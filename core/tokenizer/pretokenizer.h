/* Pre-tokenizers cut a text into words. Each step is a cursor over one stretch of text; a chain of
 * them is a stack of cursors, so no list of words is ever held. */
#ifndef LAM_TOKENIZER_PRETOKENIZER_H
#define LAM_TOKENIZER_PRETOKENIZER_H

#include "core/tokenizer/spec.h"
#include "core/tokenizer/text.h"

typedef struct lam__cursor {
    const lam__pretok_spec *step;
    const lam__text *text;
    size_t at, end; /* what is left of the stretch */
} lam__cursor;

enum { LAM__PRETOK_MAX_STEPS = 16 };

typedef struct lam__pretoks {
    lam__pretok_spec steps[LAM__PRETOK_MAX_STEPS];
    size_t count;
} lam__pretoks;

typedef struct lam__words {
    lam__cursor cursors[LAM__PRETOK_MAX_STEPS];
    size_t count; /* of cursors; 0: the whole text is one word */
    size_t depth; /* cursors[0..depth) are in the middle of something */
    bool whole;   /* with count 0: not yet given */
    lam_span rest;
} lam__words;

/* Starts over the whole text, which must outlive `w`. */
void lam__words_init(lam__words *w, const lam__pretoks *p, const lam__text *text);

/* The next word, never empty; false at the end. */
bool lam__words_next(lam__words *w, lam_span *word);

#endif
