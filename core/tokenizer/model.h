/* The last step from words to tokens. */
#ifndef LAM_TOKENIZER_MODEL_H
#define LAM_TOKENIZER_MODEL_H

#include "core/tokenizer/added_tokens.h"
#include "core/tokenizer/normalizer.h"
#include "core/tokenizer/postprocessor.h"
#include "core/tokenizer/pretokenizer.h"
#include "core/tokenizer/vocab.h"
#include "core/tokenizer/wordpiece.h"

typedef struct lam__token_model {
    lam__model_kind kind;
    union {
        lam__wordpiece wordpiece;
    } as;
} lam__token_model;

/* Immutable once built. */
struct lam_tokenizer {
    lam_arena arena; /* everything below */
    lam__vocab vocab;
    lam__added raw;        /* looked for in the text */
    lam__added normalized; /* looked for in the normalized text */
    lam__normalizers norms;
    lam__pretoks pretoks;
    lam__token_model model;
    lam__postprocessor post;
};

#endif
