/* Shortest decimals by the Schubfach algorithm.
 *
 * Source: Raffaello Giulietti, "The Schubfach way to render doubles" (2020). In short: a float is c
 * * 2^q. The reals that round to it form an interval; k is the largest exponent for which that
 * interval is sure to hold a multiple of 10^k. The interval's ends and the value, all times 4, are
 * scaled by 10^-k in one multiplication each with a table entry and rounded to odd, which keeps
 * every comparison exact. Then at most two multiples of 10^(k+1) and two of 10^k are left to try.
 */
#include "api/float_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "api/pow10_table.h"

__extension__ typedef unsigned __int128 u128;

static const char digit_pairs[201] = "00010203040506070809101112131415161718192021222324"
                                     "25262728293031323334353637383940414243444546474849"
                                     "50515253545556575859606162636465666768697071727374"
                                     "75767778798081828384858687888990919293949596979899";

/* floor(q * log10(2)); with `closer`, floor(q * log10(2) + log10(3/4)). */
static int32_t floor_log10_pow2(int32_t q, bool closer)
{
    return (q * 1262611 - (closer ? 524031 : 0)) >> 22;
}

/* floor(k * log2(10)) */
static int32_t floor_log2_pow10(int32_t k)
{
    return (k * 1741647) >> 19;
}

/* digits * 10^exponent */
typedef struct decimal {
    uint64_t digits;
    int32_t exponent;
} decimal;

/* Four times the value and the two ends of its interval, scaled by 10^-k; ends that belong to the
 * interval are `lower` and `upper` themselves. */
typedef struct scaled {
    uint64_t value, lower, upper;
} scaled;

static decimal choose(scaled s, int32_t k)
{
    const uint64_t floor = s.value / 4;
    if (floor >= 10) {
        const uint64_t tens = floor / 10;
        const bool down = s.lower <= 40 * tens;
        const bool up = 40 * tens + 40 <= s.upper;
        if (down != up) return (decimal){tens + up, k + 1};
    }
    const bool down = s.lower <= 4 * floor;
    const bool up = 4 * floor + 4 <= s.upper;
    if (down != up) return (decimal){floor + up, k};
    const uint64_t middle = 4 * floor + 2;
    const bool nearer_up = s.value > middle || (s.value == middle && (floor & 1) != 0);
    return (decimal){floor + nearer_up, k};
}

/* g * x / 2^64, where any lost bit sets the lowest bit. g is exact only up to 1: hence "> 1". */
static uint64_t scale_float(uint64_t g, uint32_t x)
{
    const u128 p = (u128)g * x;
    const uint32_t below = (uint32_t)((uint64_t)p >> 32);
    return (uint64_t)(p >> 64) | (below > 1);
}

static uint64_t scale_double(const uint64_t g[2], uint64_t x)
{
    const uint64_t carry = (uint64_t)(((u128)g[1] * x) >> 64);
    const u128 p = (u128)g[0] * x + carry;
    return (uint64_t)(p >> 64) | ((uint64_t)p > 1);
}

static decimal shortest_float(uint32_t bits)
{
    const uint32_t fraction = bits & 0x7fffff;
    const int32_t biased = (int32_t)((bits >> 23) & 0xff);
    const uint32_t c = biased ? fraction | 0x800000 : fraction;
    const int32_t q = (biased ? biased : 1) - 150;
    if (q <= 0 && q > -24 && (c & ((1u << -q) - 1)) == 0) return (decimal){c >> -q, 0};
    const bool closer = fraction == 0 && biased > 1;
    const uint32_t odd = c & 1; /* an odd significand does not own the ends of its interval */
    const int32_t k = floor_log10_pow2(q, closer);
    const int32_t h = q + floor_log2_pow10(-k) + 1;
    const uint64_t g = pow10_table[-k - POW10_FIRST][0] + 1;
    const scaled s = {
        .value = scale_float(g, (4 * c) << h),
        .lower = scale_float(g, (4 * c - 2 + closer) << h) + odd,
        .upper = scale_float(g, (4 * c + 2) << h) - odd,
    };
    return choose(s, k);
}

static decimal shortest_double(uint64_t bits)
{
    const uint64_t fraction = bits & 0xfffffffffffff;
    const int32_t biased = (int32_t)((bits >> 52) & 0x7ff);
    const uint64_t c = biased ? fraction | 0x10000000000000 : fraction;
    const int32_t q = (biased ? biased : 1) - 1075;
    if (q <= 0 && q > -53 && (c & ((1ull << -q) - 1)) == 0) return (decimal){c >> -q, 0};
    const bool closer = fraction == 0 && biased > 1;
    const uint64_t odd = c & 1;
    const int32_t k = floor_log10_pow2(q, closer);
    const int32_t h = q + floor_log2_pow10(-k) + 1;
    const uint64_t *g = pow10_table[-k - POW10_FIRST];
    const scaled s = {
        .value = scale_double(g, (4 * c) << h),
        .lower = scale_double(g, (4 * c - 2 + closer) << h) + odd,
        .upper = scale_double(g, (4 * c + 2) << h) - odd,
    };
    return choose(s, k);
}

enum { MAX_DIGITS = 20 };

/* Writes v so that it ends before `end`; returns where it starts. */
static char *write_digits(uint64_t v, char *end)
{
    char *p = end;
    while (v > UINT32_MAX) {
        p -= 2;
        memcpy(p, digit_pairs + 2 * (v % 100), 2);
        v /= 100;
    }
    uint32_t w = (uint32_t)v;
    while (w >= 100) {
        p -= 2;
        memcpy(p, digit_pairs + (size_t)2 * (w % 100), 2);
        w /= 100;
    }
    if (w >= 10) {
        p -= 2;
        memcpy(p, digit_pairs + (size_t)2 * w, 2);
    } else {
        *--p = (char)('0' + w);
    }
    return p;
}

size_t api_u64_text(unsigned long long v, char *out)
{
    char text[MAX_DIGITS];
    const char *start = write_digits(v, text + MAX_DIGITS);
    const size_t n = (size_t)(text + MAX_DIGITS - start);
    memcpy(out, start, n);
    return n;
}

/* d.ddde-dd. `digits` may be read MAX_DIGITS far. */
static size_t write_scientific(const char *digits, size_t n, int32_t exponent, char *out)
{
    out[0] = digits[0];
    out[1] = '.';
    memcpy(out + 2, digits + 1, MAX_DIGITS - 1);
    char *p = out + (n > 1 ? n + 1 : 1);
    *p++ = 'e';
    if (exponent < 0) *p++ = '-';
    p += api_u64_text((unsigned long long)(exponent < 0 ? -exponent : exponent), p);
    return (size_t)(p - out);
}

static size_t write_decimal(decimal d, char *out)
{
    while (d.digits % 10 == 0) {
        d.digits /= 10;
        d.exponent++;
    }
    char text[2 * MAX_DIGITS] = {0};
    const char *digits = write_digits(d.digits, text + MAX_DIGITS);
    const size_t n = (size_t)(text + MAX_DIGITS - digits);
    const int32_t point = (int32_t)n + d.exponent; /* digits before the decimal point */
    if (point > 15 || point < -5) return write_scientific(digits, n, point - 1, out);
    if (point <= 0) {
        const size_t zeros = (size_t)-point;
        memcpy(out, "0.00000", 8);
        memcpy(out + 2 + zeros, digits, MAX_DIGITS);
        return 2 + zeros + n;
    }
    const size_t before = (size_t)point;
    memcpy(out, digits, MAX_DIGITS);
    if (before >= n) {
        memset(out + n, '0', before - n);
        return before;
    }
    out[before] = '.';
    memcpy(out + before + 1, digits + before, n - before);
    return n + 1;
}

static size_t write_special(bool is_zero, bool negative, char *out)
{
    const char *text = !is_zero ? "null" : negative ? "-0.0" : "0";
    const size_t n = strlen(text);
    memcpy(out, text, n);
    return n;
}

size_t api_float_text(float v, char *out)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    const bool negative = bits >> 31;
    bits &= 0x7fffffff;
    if (bits == 0 || bits >= 0x7f800000) return write_special(bits == 0, negative, out);
    *out = '-';
    return negative + write_decimal(shortest_float(bits), out + negative);
}

size_t api_double_text(double v, char *out)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    const bool negative = bits >> 63;
    bits &= 0x7fffffffffffffff;
    if (bits == 0 || bits >= 0x7ff0000000000000) return write_special(bits == 0, negative, out);
    *out = '-';
    return negative + write_decimal(shortest_double(bits), out + negative);
}
