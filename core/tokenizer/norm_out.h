/* What a normalizer writes into: bytes, their origins, and marks waiting for their canonical order.
 */
#ifndef LAM_TOKENIZER_NORM_OUT_H
#define LAM_TOKENIZER_NORM_OUT_H

#include "core/tokenizer/normalizer.h"
#include "core/tokenizer/unicode.h"

/* A character with a combining class, waiting for the run of such characters to end. */
typedef struct lam__waiting_mark {
    uint32_t code_point;
    uint32_t flags;
    bool inserted; /* a later part of a decomposition */
} lam__waiting_mark;

typedef struct lam__norm_out {
    lam_arena *arena;
    const lam__text *in;
    char *bytes; /* [capacity] */
    lam__origin
        *origins; /* [capacity], or NULL while the text so far is where it was, or unwanted */
    size_t n, capacity;
    bool want_origins;
    bool lowercase;
    uint32_t dropped;  /* flags that make an emitted character vanish */
    lam_status status; /* first failure; later calls do nothing */
    /* Canonical ordering. The reference counts characters, so an origin is that of the k-th source
     * character of the run, whatever the order. */
    lam__waiting_mark *marks;  /* [mark_capacity] */
    lam__origin *mark_origins; /* [mark_capacity] of the source characters among them */
    size_t mark_count, mark_origin_count, mark_capacity;
    lam__origin last; /* origin of the last source character that was consumed */
} lam__norm_out;

/* Room for a whole input of single bytes and some more. */
lam_status lam__norm_out_init(lam__norm_out *o, const lam__text *in, bool want_origins,
                              lam_arena *arena);

/* Room for `bytes` more. */
bool lam__norm_out_reserve(lam__norm_out *o, size_t bytes);

/* Writes a character as it is. */
void lam__norm_out_put(lam__norm_out *o, uint32_t code_point, lam__origin from);

/* Writes n bytes that came, one for one, from the input at `at`, through the table `plain`, up to
 * the first that the table stops at or `end`; returns how many. The room must be there. */
size_t lam__norm_out_plain(lam__norm_out *o, const uint8_t *plain, size_t at, size_t end);

/* Decomposes a character canonically and puts marks in order: NFD. */
void lam__norm_out_decompose(lam__norm_out *o, uint32_t code_point, uint32_t flags,
                             lam__origin from);

/* Writes a character unless its flags are in `dropped`, in lower case if wanted. */
void lam__norm_out_emit(lam__norm_out *o, uint32_t code_point, uint32_t flags, lam__origin from);

/* Ends a run of marks. */
void lam__norm_out_flush(lam__norm_out *o);

/* Flushes; *out is the text. */
lam_status lam__norm_out_finish(lam__norm_out *o, lam__text *out);

#endif
