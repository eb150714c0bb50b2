/* WordPiece: the longest piece from the left, again and again; one gap makes the whole word
 * unknown. */
#ifndef LAM_TOKENIZER_WORDPIECE_H
#define LAM_TOKENIZER_WORDPIECE_H

#include "core/tokenizer/text.h"
#include "core/tokenizer/vocab.h"

typedef struct lam__wordpiece {
    int32_t unk;
    size_t max_chars;
    uint32_t inner; /* state after the prefix of continuation pieces, or LAM__TRIE_NONE */
} lam__wordpiece;

lam_status lam__wordpiece_build(lam__wordpiece *out, const lam__tokenizer_spec *spec,
                                const lam__vocab *vocab, lam_err *err);

/* Adds the tokens of the word start..end, start < end, of the text. */
lam_status lam__wordpiece_encode(const lam__wordpiece *w, const lam__trie *trie,
                                 const lam__text *text, size_t start, size_t end, lam__tokens *out);

#endif
