/* Text -> token ids, equal to the reference (Hugging Face tokenizers 0.23.3) in ids and byte
 * offsets.
 *
 * A tokenizer is immutable once built and shared by all threads. Order of things: added tokens ->
 * normalizer -> pre-tokenizer -> model -> truncation -> template (docs: tokenizers.md 1). */
#ifndef LAM_TOKENIZER_TOKENIZER_H
#define LAM_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/status.h"

typedef struct lam_tokenizer lam_tokenizer;

#define LAM_TRUNCATE_STRATEGY_MAP(X) \
    X(LONGEST_FIRST, "longest_first") X(ONLY_FIRST, "only_first") X(ONLY_SECOND, "only_second")
#define LAM_ENUM_ROW_TRUNCATE(name, text) LAM_TRUNCATE_##name,
typedef enum lam_truncate_strategy {
    LAM_TRUNCATE_STRATEGY_MAP(LAM_ENUM_ROW_TRUNCATE) LAM_TRUNCATE_STRATEGY_COUNT
} lam_truncate_strategy;

typedef enum lam_truncate_side { LAM_TRUNCATE_RIGHT, LAM_TRUNCATE_LEFT } lam_truncate_side;

typedef struct lam_tokenize_opts {
    bool add_special_tokens; /* what the template adds: [CLS], [SEP] */
    bool match_added_tokens; /* added tokens spelled in the text are those tokens; false: plain text
                              */
    size_t max_tokens;       /* truncate to this many, special tokens included; 0: never */
    lam_truncate_side side;  /* which end is lost */
    lam_truncate_strategy strategy;
} lam_tokenize_opts;

/* Special tokens added, added tokens matched, no truncation. */
lam_tokenize_opts lam_tokenize_opts_default(void);

typedef struct lam_span {
    size_t start,
        end; /* bytes of the input text, on character boundaries; [0, 0] for added specials */
} lam_span;

typedef struct lam_encoding {
    size_t count;
    int32_t *ids;      /* [count] */
    int32_t *type_ids; /* [count] */
    lam_span
        *offsets; /* [count]; those of a second text count from its own start. NULL if not asked */
    size_t full_count; /* tokens before truncation, special tokens included; > count: something was
                          cut */
} lam_encoding;

/* Text and, if `pair` is not NULL, a second text. Everything in *out comes from the arena. Errors:
 * LAM_E_UTF8, LAM_E_NOMEM (arena or its limit), LAM_E_INPUT (the truncation cannot reach
 * max_tokens). An empty text is no error here. Time is linear in the text. */
lam_status lam_tokenize(const lam_tokenizer *t, const char *text, size_t text_bytes,
                        const char *pair, size_t pair_bytes, const lam_tokenize_opts *opts,
                        bool want_offsets, lam_arena *arena, lam_encoding *out, lam_err *err);

/* The token's string as the vocabulary has it; NULL for an id that does not exist. *bytes may be
 * NULL. */
const char *lam_tokenizer_token(const lam_tokenizer *t, int32_t id, size_t *bytes);

/* Largest id + 1. */
size_t lam_tokenizer_vocab(const lam_tokenizer *t);

/* Bytes that a loaded tokenizer holds. */
size_t lam_tokenizer_bytes(const lam_tokenizer *t);

void lam_tokenizer_free(lam_tokenizer *t);

#endif
