#include "api/json_reader.h"

#include <assert.h>
#include <string.h>

#include "core/base/utf8.h"

#define FAULT_TEXT_ROW(name, text) text,
static const char *const fault_texts[] = {API_JSON_FAULT_MAP(FAULT_TEXT_ROW)};

const char *api_json_fault_text(api_json_fault f)
{
    return fault_texts[f];
}

void api_json_init(api_json *r, const char *text, size_t bytes, lam_arena *arena)
{
    r->text = r->at = text;
    r->end = text + bytes;
    r->arena = arena;
    r->fault = API_JSON_FAULT_NONE;
    r->fault_at = text;
    r->bad_utf8_at = NULL;
    r->depth = 0;
    r->first_mask = 0;
    r->key_count = 0;
}

static bool fail_at(api_json *r, api_json_fault fault, const char *at)
{
    if (r->fault == API_JSON_FAULT_NONE) {
        r->fault = fault;
        r->fault_at = at;
    }
    r->at = r->end; /* whatever is called next finds nothing */
    return false;
}

static bool fail(api_json *r, api_json_fault fault)
{
    return fail_at(r, fault, r->at);
}

/* A string that is no Unicode. Judging a whole text goes on, for what is no JSON either is told as
 * that. */
static bool fail_utf8(api_json *r, const char *at)
{
    if (r->arena) return fail_at(r, API_JSON_FAULT_UTF8, at);
    if (!r->bad_utf8_at) r->bad_utf8_at = at;
    return true;
}

static const char *after_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

static void skip_space(api_json *r)
{
    r->at = after_space(r->at, r->end);
}

static bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* Nothing in JSON starts with these bytes; at the start of a text they are the mark of UTF-16. */
static bool is_utf16_mark(const api_json *r)
{
    return r->end - r->text >= 2 &&
           (memcmp(r->text, "\xff\xfe", 2) == 0 || memcmp(r->text, "\xfe\xff", 2) == 0);
}

/* By the first byte of a value. */
static api_json_kind kind_of(char c)
{
    if (is_digit(c) || c == '-') return API_JSON_NUMBER;
    if (c == '"') return API_JSON_STRING;
    if (c == '[') return API_JSON_ARRAY;
    if (c == '{') return API_JSON_OBJECT;
    if (c == 't' || c == 'f') return API_JSON_BOOL;
    if (c == 'n') return API_JSON_NULL;
    return API_JSON_NOTHING;
}

api_json_kind api_json_peek(api_json *r)
{
    skip_space(r);
    const api_json_kind kind = r->at < r->end ? kind_of(*r->at) : API_JSON_NOTHING;
    if (kind != API_JSON_NOTHING) return kind;
    const bool wide = r->at == r->text && is_utf16_mark(r);
    fail(r, wide ? API_JSON_FAULT_UTF8 : API_JSON_FAULT_SYNTAX);
    return API_JSON_NOTHING;
}

api_json_kind api_json_peek_inside(const api_json *r)
{
    const char *p = after_space(r->at, r->end);
    if (p == r->end || *p != '[') return API_JSON_NOTHING;
    p = after_space(p + 1, r->end);
    return p < r->end ? kind_of(*p) : API_JSON_NOTHING;
}

/* ---- Containers ------------------------------------------------------------------------------ */

static bool enter(api_json *r, char bracket)
{
    skip_space(r);
    if (r->at == r->end || *r->at != bracket) return fail(r, API_JSON_FAULT_SYNTAX);
    if (r->depth == API_JSON_MAX_DEPTH) return fail(r, API_JSON_FAULT_TOO_DEEP);
    r->at++;
    r->depth++;
    r->first_mask |= 1u << r->depth;
    r->key_start[r->depth] = r->key_count;
    return true;
}

bool api_json_enter_array(api_json *r)
{
    return enter(r, '[');
}

bool api_json_enter_object(api_json *r)
{
    return enter(r, '{');
}

/* Steps to the next element of the container that `bracket` closes, over the comma; false: closed,
 * or fault. */
static bool next(api_json *r, char bracket)
{
    if (r->fault != API_JSON_FAULT_NONE) return false;
    const uint32_t first = 1u << r->depth;
    skip_space(r);
    if (r->at == r->end) return fail(r, API_JSON_FAULT_SYNTAX);
    if (*r->at == bracket) {
        r->at++;
        r->key_count = r->key_start[r->depth];
        r->depth--;
        return false;
    }
    if (r->first_mask & first) {
        r->first_mask &= ~first;
        return true;
    }
    if (*r->at != ',') return fail(r, API_JSON_FAULT_SYNTAX);
    r->at++;
    skip_space(r);
    if (r->at < r->end && *r->at == bracket) return fail(r, API_JSON_FAULT_SYNTAX);
    return true;
}

bool api_json_next_element(api_json *r)
{
    return next(r, ']');
}

static uint32_t hash_text(const api_text *t)
{
    uint32_t h = 2166136261u; /* FNV-1a: only to tell most keys apart without comparing them */
    for (size_t i = 0; i < t->size; i++)
        h = (h ^ (unsigned char)t->data[i]) * 16777619u;
    return h;
}

static bool remember_key(api_json *r, const api_text *key, const char *at)
{
    const uint32_t hash = hash_text(key);
    for (size_t i = r->key_start[r->depth]; i < r->key_count; i++) {
        const api_json_key *k = &r->keys[i];
        if (k->hash == hash && k->text.size == key->size &&
            memcmp(k->text.data, key->data, key->size) == 0)
            return fail_at(r, API_JSON_FAULT_DUPLICATE_KEY, at);
    }
    if (r->key_count == API_JSON_MAX_KEYS) return fail_at(r, API_JSON_FAULT_TOO_MANY_KEYS, at);
    r->keys[r->key_count++] = (api_json_key){*key, hash};
    return true;
}

bool api_json_next_key(api_json *r, api_text *key)
{
    *key = (api_text){.data = ""};
    if (!next(r, '}')) return false;
    const char *at = r->at;
    if (!api_json_string(r, key)) return false;
    /* Without an arena the bytes of keys with escapes are not kept, so only the syntax is judged.
     */
    if (r->arena && !remember_key(r, key, at)) return false;
    skip_space(r);
    if (r->at == r->end || *r->at != ':') return fail(r, API_JSON_FAULT_SYNTAX);
    r->at++;
    return true;
}

/* ---- Strings --------------------------------------------------------------------------------- */

static bool hex4(const char *p, const char *end, uint32_t *out)
{
    if (end - p < 4) return false;
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        const char c = p[i];
        const char low = (char)(c | 0x20);
        if (is_digit(c)) {
            v = v << 4 | (uint32_t)(c - '0');
        } else if (low >= 'a' && low <= 'f') {
            v = v << 4 | (uint32_t)(low - 'a' + 10);
        } else {
            return false;
        }
    }
    *out = v;
    return true;
}

/* The escape at *p, which stands on '\'; steps over it. Half a surrogate pair is no character. */
static bool read_escape(api_json *r, const char **p, uint32_t *code_point)
{
    static const char letters[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    const char *at = *p;
    if (r->end - at < 2) return fail_at(r, API_JSON_FAULT_SYNTAX, at);
    const char *letter = at[1] ? strchr(letters, at[1]) : NULL;
    if (letter) {
        *code_point = (unsigned char)bytes[letter - letters];
        *p = at + 2;
        return true;
    }
    uint32_t high, low;
    if (at[1] != 'u' || !hex4(at + 2, r->end, &high)) return fail_at(r, API_JSON_FAULT_SYNTAX, at);
    *p = at + 6;
    *code_point = high;
    if (high < 0xd800 || high > 0xdfff) return true;
    const bool paired = high < 0xdc00 && r->end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u' &&
                        hex4(*p + 2, r->end, &low) && low >= 0xdc00 && low <= 0xdfff;
    if (!paired) {
        *code_point = 0xfffd; /* only written where no text is kept */
        return fail_utf8(r, at);
    }
    *p += 6;
    *code_point = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

/* Bytes that end a run of plain characters. */
static bool is_special(unsigned char c)
{
    return c < 0x20 || c == '"' || c == '\\';
}

/* The end of the run of plain characters at p, judged as UTF-8 where it is not ASCII; NULL: fault.
 */
static const char *plain_run(api_json *r, const char *p)
{
    const char *start = p;
    unsigned char all = 0;
    uint64_t word;
    while (r->end - p >= 8) {
        memcpy(&word, p, 8);
        const uint64_t ones = 0x0101010101010101u, tops = ones * 0x80;
        const uint64_t quote = word ^ (ones * '"'), slash = word ^ (ones * '\\');
        const uint64_t hit =
            ((word - ones * 0x20) & ~word) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash);
        if (hit & tops) break;
        all |= (word & tops) != 0 ? 0x80 : 0;
        p += 8;
    }
    while (p < r->end && !is_special((unsigned char)*p))
        all |= (unsigned char)*p++;
    size_t valid;
    const bool unicode = all < 0x80 || lam_utf8_valid(start, (size_t)(p - start), &valid);
    if (!unicode && !fail_utf8(r, start + valid)) return NULL;
    if (p == r->end || (unsigned char)*p < 0x20) {
        fail_at(r, API_JSON_FAULT_SYNTAX, p);
        return NULL;
    }
    return p;
}

/* Bytes from p to the closing quote, escapes counted as they stand: never less than the string
 * needs. */
static size_t raw_size(const api_json *r, const char *p)
{
    const char *start = p;
    while (p < r->end && *p != '"')
        p += *p == '\\' && r->end - p > 1 ? 2 : 1;
    return (size_t)(p - start);
}

/* The rest of a string whose plain beginning [start, p) is followed by an escape. */
static bool string_with_escapes(api_json *r, const char *start, const char *p, api_text *out)
{
    char *to = NULL;
    size_t size = (size_t)(p - start);
    if (r->arena) {
        to = lam_arena_alloc_aligned(r->arena, size + raw_size(r, p), 1);
        if (!to) return fail_at(r, API_JSON_FAULT_MEMORY, start);
        memcpy(to, start, size);
    }
    bool has_nul = false;
    while (*p == '\\') {
        uint32_t code_point;
        if (!read_escape(r, &p, &code_point)) return false;
        has_nul |= code_point == 0;
        char unit[4];
        const size_t n = lam_utf8_encode(code_point, unit);
        if (to) memcpy(to + size, unit, n);
        size += n;
        const char *run = p;
        p = plain_run(r, p);
        if (!p) return false;
        if (to) memcpy(to + size, run, (size_t)(p - run));
        size += (size_t)(p - run);
    }
    *out = (api_text){to ? to : "", to ? size : 0, has_nul};
    r->at = p + 1;
    return true;
}

bool api_json_string(api_json *r, api_text *out)
{
    skip_space(r);
    if (r->at == r->end || *r->at != '"') return fail(r, API_JSON_FAULT_SYNTAX);
    const char *start = r->at + 1;
    const char *p = plain_run(r, start);
    if (!p) return false;
    if (*p == '\\') return string_with_escapes(r, start, p, out);
    *out = (api_text){.data = start, .size = (size_t)(p - start)};
    r->at = p + 1;
    return true;
}

/* ---- Other scalars --------------------------------------------------------------------------- */

static bool word(api_json *r, const char *text)
{
    const size_t n = strlen(text);
    skip_space(r);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, text, n) != 0)
        return fail(r, API_JSON_FAULT_SYNTAX);
    r->at += n;
    return true;
}

bool api_json_bool(api_json *r, bool *out)
{
    skip_space(r);
    *out = r->at < r->end && *r->at == 't';
    return word(r, *out ? "true" : "false");
}

bool api_json_null(api_json *r)
{
    return word(r, "null");
}

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && is_digit(*p))
        p++;
    return p;
}

/* Fraction and exponent at p, either may be missing; NULL if one is malformed. */
static const char *skip_fraction(const char *p, const char *end)
{
    if (p < end && *p == '.') {
        const char *digits = ++p;
        p = skip_digits(p, end);
        if (p == digits) return NULL;
    }
    if (p < end && (*p | 0x20) == 'e') {
        p++;
        if (p < end && (*p == '+' || *p == '-')) p++;
        const char *digits = p;
        p = skip_digits(p, end);
        if (p == digits) return NULL;
    }
    return p;
}

bool api_json_number_read(api_json *r, api_json_number *out)
{
    skip_space(r);
    const char *p = r->at;
    const bool negative = p < r->end && *p == '-';
    p += negative;
    const char *digits = p;
    uint64_t value = 0;
    bool wraps = false;
    for (; p < r->end && is_digit(*p); p++) {
        wraps |= __builtin_mul_overflow(value, 10u, &value);
        wraps |= __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value);
    }
    const char *integer_end = p;
    const bool leading_zero = integer_end - digits > 1 && *digits == '0';
    p = skip_fraction(p, r->end);
    if (integer_end == digits || leading_zero || !p) return fail(r, API_JSON_FAULT_SYNTAX);
    r->at = p;
    const uint64_t most = (uint64_t)INT64_MAX + negative;
    if (p != integer_end) {
        *out = (api_json_number){API_JSON_FRACTION, 0};
    } else if (!wraps && value <= most) {
        *out = (api_json_number){API_JSON_INTEGER, (int64_t)(negative ? 0 - value : value)};
    } else if (negative) {
        *out = (api_json_number){API_JSON_INTEGER_TOO_LOW, INT64_MIN};
    } else {
        *out = (api_json_number){API_JSON_INTEGER_TOO_HIGH, INT64_MAX};
    }
    return true;
}

/* ---- Skipping and judging -------------------------------------------------------------------- */

static bool skip_scalar(api_json *r, api_json_kind kind)
{
    api_text text;
    api_json_number number;
    bool flag;
    switch (kind) {
    case API_JSON_NULL:
        return api_json_null(r);
    case API_JSON_BOOL:
        return api_json_bool(r, &flag);
    case API_JSON_NUMBER:
        return api_json_number_read(r, &number);
    case API_JSON_STRING:
        return api_json_string(r, &text);
    case API_JSON_NOTHING:
    case API_JSON_ARRAY:
    case API_JSON_OBJECT:
        break;
    }
    return false;
}

bool api_json_skip(api_json *r)
{
    const size_t outside = r->depth;
    uint32_t objects = 0; /* bit d: the container at depth d is an object */
    api_text key;
    for (;;) {
        const api_json_kind kind = api_json_peek(r);
        if (kind == API_JSON_ARRAY || kind == API_JSON_OBJECT) {
            if (!enter(r, kind == API_JSON_ARRAY ? '[' : '{')) return false;
            objects &= ~(1u << r->depth);
            objects |= (uint32_t)(kind == API_JSON_OBJECT) << r->depth;
        } else if (!skip_scalar(r, kind)) {
            return false;
        }
        while (r->depth > outside) {
            const bool is_object = objects >> r->depth & 1;
            if (is_object ? api_json_next_key(r, &key) : api_json_next_element(r)) break;
            if (r->fault != API_JSON_FAULT_NONE) return false;
        }
        if (r->depth == outside) return true;
    }
}

bool api_json_finish(api_json *r)
{
    skip_space(r);
    if (r->fault != API_JSON_FAULT_NONE) return false;
    return r->at == r->end || fail(r, API_JSON_FAULT_SYNTAX);
}

bool api_json_validate(const char *text, size_t bytes, api_json_fault *fault, size_t *offset)
{
    api_json r;
    api_json_init(&r, text, bytes, NULL);
    bool valid = api_json_skip(&r) && api_json_finish(&r);
    if (valid && r.bad_utf8_at) valid = fail_at(&r, API_JSON_FAULT_UTF8, r.bad_utf8_at);
    *fault = r.fault;
    *offset = (size_t)(r.fault_at - text);
    return valid;
}

/* ---- Lists of integers ----------------------------------------------------------------------- */

size_t api_json_list_bound(const api_json *r)
{
    const char *close = memchr(r->at, ']', (size_t)(r->end - r->at));
    const size_t n = (size_t)((close ? close : r->end) - r->at);
    size_t commas = 0;
    for (size_t i = 0; i < n; i++)
        commas += r->at[i] == ',';
    return commas + 1;
}

/* An integer of at most 9 digits that ',' or ']' follows, the usual case by far; false leaves it to
 * the slow way. */
static inline bool fast_integer(api_json *r, int64_t *out)
{
    const char *p = r->at;
    if (r->end - p < 12 || !is_digit(*p)) return false;
    const bool zero = *p == '0';
    uint32_t v = (uint32_t)(*p++ - '0');
    const char *last = r->at + 9;
    while (p < last && is_digit(*p))
        v = v * 10 + (uint32_t)(*p++ - '0');
    if ((*p != ',' && *p != ']') || (zero && p - r->at > 1)) return false;
    *out = v;
    r->at = p;
    return true;
}

static api_json_list_problem slow_integer(api_json *r, int64_t *out)
{
    api_json_number number;
    const api_json_kind kind = api_json_peek(r);
    if (kind == API_JSON_NOTHING) return API_JSON_LIST_FAULT;
    if (kind != API_JSON_NUMBER) return API_JSON_LIST_NOT_NUMBER;
    if (!api_json_number_read(r, &number)) return API_JSON_LIST_FAULT;
    if (number.kind == API_JSON_FRACTION) return API_JSON_LIST_NOT_INTEGER;
    *out = number.integer;
    return API_JSON_LIST_OK;
}

/* Steps to the next element with as little as possible where a comma and a digit follow each other.
 */
static inline bool next_integer(api_json *r)
{
    if (r->end - r->at > 1 && *r->at == ',' && is_digit(r->at[1])) {
        r->at++;
        return true;
    }
    return api_json_next_element(r);
}

/* Exactly one of `wide` and `narrow` takes the numbers. Inlined for each. */
static inline __attribute__((always_inline)) api_json_list_problem
read_integers(api_json *r, int32_t *wide, uint8_t *narrow, size_t *count)
{
    const int64_t min = wide ? INT32_MIN : 0, max = wide ? INT32_MAX : 1;
    *count = 0;
    if (!api_json_next_element(r))
        return r->fault == API_JSON_FAULT_NONE ? API_JSON_LIST_OK : API_JSON_LIST_FAULT;
    size_t n = 0;
    do {
        int64_t v;
        if (!fast_integer(r, &v)) {
            const api_json_list_problem problem = slow_integer(r, &v);
            *count = n;
            if (problem != API_JSON_LIST_OK) return problem;
        }
        if (v < min || v > max) {
            *count = n;
            return API_JSON_LIST_RANGE;
        }
        if (wide) wide[n] = (int32_t)v;
        if (narrow) narrow[n] = (uint8_t)v;
        n++;
    } while (next_integer(r));
    *count = n;
    return r->fault == API_JSON_FAULT_NONE ? API_JSON_LIST_OK : API_JSON_LIST_FAULT;
}

api_json_list_problem api_json_int32s(api_json *r, int32_t *out, size_t *count)
{
    assert(out);
    return read_integers(r, out, NULL, count);
}

api_json_list_problem api_json_flags(api_json *r, uint8_t *out, size_t *count)
{
    assert(out);
    return read_integers(r, NULL, out, count);
}
