#include "api/base64.h"

#include <stdint.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Three bytes, the first one highest, to four characters. */
static void put_triple(uint32_t triple, char *out)
{
    out[0] = alphabet[triple >> 18 & 63];
    out[1] = alphabet[triple >> 12 & 63];
    out[2] = alphabet[triple >> 6 & 63];
    out[3] = alphabet[triple & 63];
}

/* Bytes of the little-endian float, first byte highest: what base64 reads from left to right. */
static uint32_t big_end_first(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return __builtin_bswap32(bits);
}

size_t api_base64_floats(const float *v, size_t n, char *out)
{
    char *p = out;
    size_t i = 0;
    for (; i + 3 <= n; i += 3) { /* 12 bytes, 16 characters */
        const uint32_t a = big_end_first(v[i]), b = big_end_first(v[i + 1]),
                       c = big_end_first(v[i + 2]);
        put_triple(a >> 8, p);
        put_triple((a & 0xff) << 16 | b >> 16, p + 4);
        put_triple((b & 0xffff) << 8 | c >> 24, p + 8);
        put_triple(c & 0xffffff, p + 12);
        p += 16;
    }
    if (n - i == 1) {
        const uint32_t a = big_end_first(v[i]);
        put_triple(a >> 8, p);
        put_triple((a & 0xff) << 16, p + 4);
        memset(p + 6, '=', 2);
        p += 8;
    } else if (n - i == 2) {
        const uint32_t a = big_end_first(v[i]), b = big_end_first(v[i + 1]);
        put_triple(a >> 8, p);
        put_triple((a & 0xff) << 16 | b >> 16, p + 4);
        put_triple((b & 0xffff) << 8, p + 8);
        p[11] = '=';
        p += 12;
    }
    return (size_t)(p - out);
}
