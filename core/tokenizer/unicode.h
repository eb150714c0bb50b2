/* What the reference knows about a code point (tools/unicode makes the tables). */
#ifndef LAM_TOKENIZER_UNICODE_H
#define LAM_TOKENIZER_UNICODE_H

#include <stddef.h>
#include <stdint.h>

#include "core/tokenizer/unicode_tables.h"

/* LAM__UNICODE_* flags, and the combining class in the top byte. cp <= 0x10ffff. */
static inline uint32_t lam__unicode_flags(uint32_t cp)
{
    if (cp < 1u << LAM__UNICODE_CLASS_SHIFT) {
        return lam__unicode_class_flags[lam__unicode_class_blocks[cp]]; /* block 0 is the first */
    }
    const size_t low = cp & ((1u << LAM__UNICODE_CLASS_SHIFT) - 1);
    const size_t block = lam__unicode_class_index[cp >> LAM__UNICODE_CLASS_SHIFT];
    return lam__unicode_class_flags[lam__unicode_class_blocks[block << LAM__UNICODE_CLASS_SHIFT |
                                                              low]];
}

static inline uint32_t lam__unicode_combining_class(uint32_t flags)
{
    return flags >> 24;
}

/* The lower case of a code point that has the flag LOWER: [0] is the length, the code points
 * follow. */
static inline const uint32_t *lam__unicode_lower(uint32_t cp)
{
    const size_t low = cp & ((1u << LAM__UNICODE_LOWER_SHIFT) - 1);
    const size_t block = lam__unicode_lower_index[cp >> LAM__UNICODE_LOWER_SHIFT];
    return lam__unicode_lower_pool +
           lam__unicode_lower_blocks[block << LAM__UNICODE_LOWER_SHIFT | low];
}

/* Longest canonical decomposition, in code points. */
enum { LAM__UNICODE_CANONICAL_MAX = 4 };

/* The full canonical decomposition of a code point that has the flag CANONICAL; returns its length.
 */
size_t lam__unicode_decompose(uint32_t cp, uint32_t out[LAM__UNICODE_CANONICAL_MAX]);

#endif
