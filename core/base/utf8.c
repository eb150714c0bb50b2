#include "core/base/utf8.h"

#include <string.h>

/* Length of the well-formed sequence at s[0..n), or 0. Table 3-7 of the Unicode Standard: only the
 * second byte has ranges of its own. */
static size_t sequence_length(const unsigned char *s, size_t n)
{
    const unsigned char lead = s[0];
    if (lead < 0x80) return 1;
    size_t length;
    unsigned char low = 0x80, high = 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf) {
        length = 2;
    } else if ((lead & 0xf0) == 0xe0) {
        length = 3;
        if (lead == 0xe0) low = 0xa0;
        if (lead == 0xed) high = 0x9f;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        length = 4;
        if (lead == 0xf0) low = 0x90;
        if (lead == 0xf4) high = 0x8f;
    } else {
        return 0;
    }
    if (n < length || s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    return length;
}

/* Number of leading ASCII bytes, eight at a time. */
static size_t ascii_run(const unsigned char *s, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t word;
        memcpy(&word, s + i, 8);
        if (word & 0x8080808080808080u) break;
    }
    while (i < n && s[i] < 0x80)
        i++;
    return i;
}

bool lam_utf8_valid(const char *s, size_t n, size_t *valid_up_to)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t i = 0;
    while (i < n) {
        i += ascii_run(u + i, n - i);
        if (i == n) break;
        const size_t length = sequence_length(u + i, n - i);
        if (length == 0) {
            if (valid_up_to) *valid_up_to = i;
            return false;
        }
        i += length;
    }
    return true;
}

size_t lam_utf8_encode(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}
