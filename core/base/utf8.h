/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef LAM_BASE_UTF8_H
#define LAM_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True if all n bytes are valid; else *valid_up_to (may be NULL) is where the first bad sequence
 * starts. */
bool lam_utf8_valid(const char *s, size_t n, size_t *valid_up_to);

/* Decodes one code point of valid text at s[0..n), n > 0; returns its length in bytes, 1..4. */
static inline size_t lam_utf8_decode(const char *s, uint32_t *code_point)
{
    const unsigned char *u = (const unsigned char *)s;
    if (u[0] < 0x80) {
        *code_point = u[0];
        return 1;
    }
    if (u[0] < 0xe0) {
        *code_point = (uint32_t)(u[0] & 0x1f) << 6 | (u[1] & 0x3f);
        return 2;
    }
    if (u[0] < 0xf0) {
        *code_point = (uint32_t)(u[0] & 0x0f) << 12 | (uint32_t)(u[1] & 0x3f) << 6 | (u[2] & 0x3f);
        return 3;
    }
    *code_point = (uint32_t)(u[0] & 0x07) << 18 | (uint32_t)(u[1] & 0x3f) << 12 |
                  (uint32_t)(u[2] & 0x3f) << 6 | (u[3] & 0x3f);
    return 4;
}

/* Writes a code point (not a surrogate, <= 0x10ffff) to out[4]; returns its length in bytes. */
size_t lam_utf8_encode(uint32_t code_point, char *out);

#endif
