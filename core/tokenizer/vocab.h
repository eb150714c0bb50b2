/* Pieces: id -> string, string -> id. */
#ifndef LAM_TOKENIZER_VOCAB_H
#define LAM_TOKENIZER_VOCAB_H

#include "core/tokenizer/spec.h"
#include "core/tokenizer/trie.h"

typedef struct lam__vocab {
    const char *blob;       /* the strings in the order of ids, each with a NUL behind it */
    const uint32_t *starts; /* [size + 1] into blob; a piece that does not exist takes no byte */
    size_t size;            /* largest id + 1 */
    lam__trie trie;         /* of the model's pieces, without the added tokens */
} lam__vocab;

/* NULL if there is no such id. */
const char *lam__vocab_piece(const lam__vocab *v, int32_t id, size_t *bytes);

/* Strings and trie of the model's pieces and the added tokens. Errors name spec->file and the key.
 */
lam_status lam__vocab_build(lam__vocab *out, const lam__tokenizer_spec *spec, lam_arena *arena,
                            lam_arena *scratch, lam_err *err);

#endif
