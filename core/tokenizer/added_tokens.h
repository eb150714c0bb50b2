/* Added tokens: strings that are found in the text before anything else looks at it. One set is
 * looked for in the raw text, another in the normalized text. */
#ifndef LAM_TOKENIZER_ADDED_TOKENS_H
#define LAM_TOKENIZER_ADDED_TOKENS_H

#include "core/tokenizer/normalizer.h"
#include "core/tokenizer/trie.h"

/* A search takes at most this many steps from each byte of a text. */
enum { LAM__ADDED_MAX_BYTES = 1024 };

typedef struct lam__added_token {
    int32_t id;
    bool single_word, lstrip, rstrip;
} lam__added_token;

typedef struct lam__added {
    lam__trie trie; /* string -> index into tokens */
    const lam__added_token *tokens;
    size_t count;
    bool starts[256]; /* bytes that some token starts with */
    int only_start;   /* the one such byte, or -1 */
} lam__added;

/* Takes those of spec->added whose `normalized` is as given, normalized if so. Of two that come to
 * the same string the one with the lower id is found. */
lam_status lam__added_build(lam__added *out, const lam__tokenizer_spec *spec, bool normalized,
                            const lam__normalizers *norms, lam_arena *arena, lam_arena *scratch,
                            lam_err *err);

typedef struct lam__added_search {
    const lam__added *added;
    const lam__text *text;
    size_t at;                    /* where the search goes on */
    size_t done;                  /* end of the last token with the white space that it took */
    size_t space_from, space_end; /* a run of white space seen last */
    bool ended;
} lam__added_search;

/* The text gap_start..gap_end, if not empty, then a token that stands for start..end. */
typedef struct lam__added_match {
    size_t gap_start, gap_end;
    int32_t id; /* -1: the gap was the rest of the text */
    size_t start, end;
} lam__added_match;

/* added NULL: nothing is found. */
void lam__added_search_init(lam__added_search *s, const lam__added *added, const lam__text *text);

/* False when all has been given. A token may start before the one before it ends, as in the
 * reference: white space taken by `rstrip` may be the beginning of the next. */
bool lam__added_next(lam__added_search *s, lam__added_match *m);

#endif
