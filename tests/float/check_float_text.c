/* Decimals of floats and doubles: they read back to the same bits, and none shorter does.
 *
 * Usage: check_float_text [--full]. --full tries 10^8 random floats instead of 4 * 10^6. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/float_text.h"

static size_t passed, failed;

static void judge(bool right, const char *what, uint64_t bits, const char *text)
{
    passed += right;
    failed += !right;
    if (!right && failed < 20) printf("%s: bits %" PRIx64 " written as %s\n", what, bits, text);
}

static uint64_t random_state = 20261129;

static uint64_t next_random(void)
{
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Significant digits of a decimal, without zeros at the ends. */
static size_t digits_of(const char *text)
{
    char digits[32];
    size_t n = 0;
    for (const char *p = text; *p && *p != 'e'; p++)
        if (*p >= '0' && *p <= '9' && (n > 0 || *p != '0')) digits[n++] = *p;
    while (n > 0 && digits[n - 1] == '0')
        n--;
    return n;
}

static bool is_json_number(const char *p)
{
    p += *p == '-';
    if (*p == '0' ? (p[1] >= '0' && p[1] <= '9') : !(*p >= '1' && *p <= '9')) return false;
    p += strspn(p, "0123456789");
    if (*p == '.') {
        const size_t n = strspn(p + 1, "0123456789");
        if (n == 0) return false;
        p += 1 + n;
    }
    if (*p == 'e') {
        p++;
        p += *p == '-';
        const size_t n = strspn(p, "0123456789");
        if (n == 0) return false;
        p += n;
    }
    return *p == '\0';
}

static void check_float(uint32_t bits)
{
    float v;
    char text[API_NUMBER_ROOM];
    memcpy(&v, &bits, sizeof v);
    const size_t n = api_float_text(v, text);
    text[n <= API_FLOAT_TEXT_MAX ? n : 0] = '\0';
    if (!isfinite(v)) {
        judge(strcmp(text, "null") == 0, "not null", bits, text);
        return;
    }
    const float back = strtof(text, NULL);
    uint32_t back_bits;
    memcpy(&back_bits, &back, sizeof back_bits);
    judge(n <= API_FLOAT_TEXT_MAX && back_bits == bits, "float does not read back", bits, text);
}

static void check_double(uint64_t bits)
{
    double v;
    char text[API_NUMBER_ROOM];
    memcpy(&v, &bits, sizeof v);
    const size_t n = api_double_text(v, text);
    text[n <= API_DOUBLE_TEXT_MAX ? n : 0] = '\0';
    if (!isfinite(v)) {
        judge(strcmp(text, "null") == 0, "not null", bits, text);
        return;
    }
    const double back = strtod(text, NULL);
    uint64_t back_bits;
    memcpy(&back_bits, &back, sizeof back_bits);
    judge(n <= API_DOUBLE_TEXT_MAX && back_bits == bits, "double does not read back", bits, text);
}

/* Against a search by the C library: the fewest digits whose nearest decimal reads back. Ours may
 * be shorter only where the interval is lopsided (powers of two): there the nearest need not be
 * inside it. */
static void check_float_is_shortest(uint32_t bits)
{
    float v;
    char text[API_NUMBER_ROOM], other[64];
    memcpy(&v, &bits, sizeof v);
    if (!isfinite(v) || v == 0) return;
    text[api_float_text(v, text)] = '\0';
    int digits = 1;
    do
        snprintf(other, sizeof other, "%.*e", digits - 1, (double)v);
    while (strtof(other, NULL) != v && digits++ < 9);
    const size_t ours = digits_of(text), theirs = digits_of(other);
    const bool lopsided = (bits & 0x7fffff) == 0;
    const bool nearest = ours < theirs || strtod(text, NULL) == strtod(other, NULL);
    judge(ours == theirs || (lopsided && ours < theirs), "float is not the shortest", bits, text);
    judge(nearest || lopsided, "float is not the nearest of the shortest", bits, text);
    judge(is_json_number(text), "float is not a JSON number", bits, text);
}

static void check_double_is_shortest(uint64_t bits)
{
    double v;
    char text[API_NUMBER_ROOM], other[64];
    memcpy(&v, &bits, sizeof v);
    if (!isfinite(v) || v == 0) return;
    text[api_double_text(v, text)] = '\0';
    int digits = 1;
    do
        snprintf(other, sizeof other, "%.*e", digits - 1, v);
    while (strtod(other, NULL) != v && digits++ < 17);
    const size_t ours = digits_of(text), theirs = digits_of(other);
    const bool lopsided = (bits & 0xfffffffffffff) == 0;
    judge(ours == theirs || (lopsided && ours < theirs), "double is not the shortest", bits, text);
    judge(is_json_number(text), "double is not a JSON number", bits, text);
}

/* Every exponent with the fractions where something changes: the ends, the middle, neighbours of
 * powers of two. */
static void check_boundaries(void)
{
    static const uint32_t fractions[] = {0,        1,        2,        3,       0x3fffff,
                                         0x400000, 0x400001, 0x7ffffe, 0x7fffff};
    static const uint64_t wide[] = {0,
                                    1,
                                    2,
                                    3,
                                    0x7ffffffffffff,
                                    0x8000000000000,
                                    0x8000000000001,
                                    0xffffffffffffe,
                                    0xfffffffffffff};
    for (uint32_t e = 0; e < 256; e++)
        for (size_t f = 0; f < sizeof fractions / sizeof *fractions; f++)
            for (uint32_t sign = 0; sign < 2; sign++) {
                check_float(sign << 31 | e << 23 | fractions[f]);
                check_float_is_shortest(sign << 31 | e << 23 | fractions[f]);
            }
    for (uint64_t e = 0; e < 2048; e++)
        for (size_t f = 0; f < sizeof wide / sizeof *wide; f++) {
            check_double(e << 52 | wide[f]);
            check_double_is_shortest(e << 52 | wide[f]);
        }
    for (uint32_t small = 1; small < 5000;
         small++) { /* subnormal, integers, and what embeddings look like */
        const float integer = (float)small * 3371.0f, unit = (float)small / 5000.0f;
        uint32_t bits[2];
        memcpy(&bits[0], &integer, 4);
        memcpy(&bits[1], &unit, 4);
        check_float(small);
        check_float_is_shortest(small);
        check_float(bits[0]);
        check_float_is_shortest(bits[0]);
        check_float(bits[1]);
        check_float_is_shortest(bits[1]);
        check_double(small);
    }
}

int main(int argc, char **argv)
{
    const bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    const size_t floats = full ? 100000000 : 4000000, doubles = full ? 10000000 : 500000;
    const size_t searches = full ? 2000000 : 200000;
    check_boundaries();
    for (size_t i = 0; i < floats; i++)
        check_float((uint32_t)next_random());
    for (size_t i = 0; i < doubles; i++)
        check_double(next_random());
    for (size_t i = 0; i < searches; i++)
        check_float_is_shortest((uint32_t)next_random());
    for (size_t i = 0; i < searches / 4; i++)
        check_double_is_shortest(next_random());
    printf("%zu passed, %zu failed\n", passed, failed);
    return failed ? 1 : 0;
}
