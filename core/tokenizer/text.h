/* A text on its way through the pipeline, and the tokens that come out. */
#ifndef LAM_TOKENIZER_TEXT_H
#define LAM_TOKENIZER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/status.h"

/* Texts are shorter than this, so that 32 bits hold every place and sizes times eight never wrap.
 */
#define LAM__TEXT_MAX_BYTES ((size_t)1 << 30)

/* Bytes of the input that a byte of a normalized text stands for: whole characters. */
typedef struct lam__origin {
    uint32_t start, end;
} lam__origin;

typedef struct lam__text {
    const char *bytes;          /* valid UTF-8 */
    size_t n;                   /* bytes */
    const lam__origin *origins; /* [n]; NULL: nothing has moved, or nobody wants to know */
    size_t base;                /* with origins NULL: byte i is byte base + i of the input */
} lam__text;

/* Where the character of `bytes` bytes at `at` came from. */
static inline lam__origin lam__text_origin(const lam__text *t, size_t at, size_t bytes)
{
    if (t->origins) return t->origins[at];
    return (lam__origin){(uint32_t)(t->base + at), (uint32_t)(t->base + at + bytes)};
}

/* Where the bytes start..end, start < end, came from: from the first one's origin to the last
 * one's. */
static inline lam__origin lam__text_span(const lam__text *t, size_t start, size_t end)
{
    if (t->origins) return (lam__origin){t->origins[start].start, t->origins[end - 1].end};
    return (lam__origin){(uint32_t)(t->base + start), (uint32_t)(t->base + end)};
}

/* A part of a text: start..end. */
static inline lam__text lam__text_part(const lam__text *t, size_t start, size_t end)
{
    return (lam__text){.bytes = t->bytes + start,
                       .n = end - start,
                       .origins = t->origins ? t->origins + start : NULL,
                       .base = t->base + start};
}

/* Where the character before `at` > 0 starts. */
static inline size_t lam__text_previous(const char *bytes, size_t at)
{
    do
        at--;
    while (((unsigned char)bytes[at] & 0xc0) == 0x80);
    return at;
}

/* Tokens in order. Grows in its arena; what it outgrew stays there. */
typedef struct lam__tokens {
    lam_arena *arena;
    int32_t *ids;       /* [capacity] */
    lam__origin *spans; /* [capacity], or NULL if not wanted */
    size_t count, capacity;
    bool want_spans;
} lam__tokens;

lam_status lam__tokens_init(lam__tokens *t, lam_arena *arena, size_t capacity, bool want_spans);

/* Makes room for one more. */
lam_status lam__tokens_grow(lam__tokens *t);

/* Adds the token that stands for the bytes start..end of the text. */
static inline lam_status lam__tokens_push(lam__tokens *t, int32_t id, const lam__text *text,
                                          size_t start, size_t end)
{
    if (t->count == t->capacity) LAM_TRY(lam__tokens_grow(t));
    t->ids[t->count] = id;
    if (t->spans) t->spans[t->count] = lam__text_span(text, start, end);
    t->count++;
    return LAM_OK;
}

/* A larger copy of old[old_bytes], or NULL. The old block stays in the arena. */
void *lam__grow(lam_arena *arena, const void *old, size_t old_bytes, size_t new_bytes);

#endif
