#include "core/tokenizer/unicode.h"

#include <string.h>

/* Hangul syllables are composed by formula (Unicode, 3.12). */
enum {
    HANGUL_FIRST = 0xac00,
    HANGUL_COUNT = 11172,
    LEAD_FIRST = 0x1100,
    VOWEL_FIRST = 0x1161,
    TAIL_BEFORE = 0x11a7,
    TAIL_COUNT = 28,
    VOWEL_TAIL_COUNT = 588
};

size_t lam__unicode_decompose(uint32_t cp, uint32_t out[LAM__UNICODE_CANONICAL_MAX])
{
    if (cp >= HANGUL_FIRST && cp < HANGUL_FIRST + HANGUL_COUNT) {
        const uint32_t i = cp - HANGUL_FIRST;
        out[0] = LEAD_FIRST + i / VOWEL_TAIL_COUNT;
        out[1] = VOWEL_FIRST + i % VOWEL_TAIL_COUNT / TAIL_COUNT;
        if (i % TAIL_COUNT == 0) return 2;
        out[2] = TAIL_BEFORE + i % TAIL_COUNT;
        return 3;
    }
    const size_t low = cp & ((1u << LAM__UNICODE_CANONICAL_SHIFT) - 1);
    const size_t block = lam__unicode_canonical_index[cp >> LAM__UNICODE_CANONICAL_SHIFT];
    const size_t at = lam__unicode_canonical_blocks[block << LAM__UNICODE_CANONICAL_SHIFT | low];
    const uint32_t *const entry = lam__unicode_canonical_pool + at;
    memcpy(out, entry + 1, entry[0] * sizeof *out);
    return entry[0];
}
