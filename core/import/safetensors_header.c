/* The header parser: one pass over the text, strings decoded in place. The grammar is fixed and
 * shallow, so there is no recursion and no skipping of unknown values. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/utf8.h"
#include "core/import/safetensors.h"

typedef struct text {
    const char *s;
    size_t n;
} text;

typedef struct reader {
    char *p; /* next byte */
    char *start, *end;
    const char *file;
    lam_safetensors *st;
    size_t room; /* of st->entries */
    uint64_t data_bytes;
    bool metadata_seen;
    lam_err *err;
} reader;

enum { FIELD_DTYPE = 1, FIELD_SHAPE = 2, FIELD_OFFSETS = 4, FIELD_ALL = 7 };

static lam_status syntax(const reader *r, const char *expected)
{
    return lam_fail(r->err, LAM_E_FORMAT, r->file, "header is not valid JSON at byte %zu: %s",
                    (size_t)(r->p - r->start), expected);
}

static lam_status bad_entry(const reader *r, text name, const char *what)
{
    lam_quoted q;
    return lam_fail_in(r->err, LAM_E_FORMAT, r->file, lam_quote(&q, name.s, name.n),
                       "header entry: %s", what);
}

static void skip_space(reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\t' || *r->p == '\r'))
        r->p++;
}

static bool take(reader *r, char c)
{
    skip_space(r);
    if (r->p >= r->end || *r->p != c) return false;
    r->p++;
    return true;
}

static bool read_hex4(reader *r, uint32_t *out)
{
    uint32_t v = 0;
    if (r->end - r->p < 4) return false;
    for (int i = 0; i < 4; i++) {
        const char c = *r->p++;
        if (c >= '0' && c <= '9')
            v = v << 4 | (uint32_t)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            v = v << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
        else
            return false;
    }
    *out = v;
    return true;
}

/* After "\u": a code point, of a surrogate pair where it takes one. */
static bool read_code_point(reader *r, uint32_t *out)
{
    uint32_t high, low;
    if (!read_hex4(r, &high)) return false;
    if (high < 0xd800 || high > 0xdfff) {
        *out = high;
        return true;
    }
    if (high > 0xdbff || r->end - r->p < 2 || r->p[0] != '\\' || r->p[1] != 'u') return false;
    r->p += 2;
    if (!read_hex4(r, &low) || low < 0xdc00 || low > 0xdfff) return false;
    *out = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

/* After a backslash; writes what it stands for to *out and moves it. An escape is never shorter
 * than its meaning. */
static bool read_escape(reader *r, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (r->p >= r->end) return false;
    const char c = *r->p++;
    if (c == 'u') {
        uint32_t code_point;
        char utf8[4];
        if (!read_code_point(r, &code_point)) return false;
        const size_t n = lam_utf8_encode(code_point, utf8);
        memcpy(*out, utf8, n);
        *out += n;
        return true;
    }
    const char *at = c == '\0' ? NULL : strchr(from, c);
    if (at == NULL) return false;
    *(*out)++ = to[at - from];
    return true;
}

/* A string, decoded in place. The text as a whole is known to be UTF-8. */
static lam_status read_string(reader *r, text *out)
{
    *out = (text){0};
    if (!take(r, '"')) return syntax(r, "a string is expected");
    char *w = r->p;
    out->s = w;
    while (r->p < r->end && *r->p != '"') {
        if ((unsigned char)*r->p < 0x20) return syntax(r, "control character in a string");
        if (*r->p == '\\') {
            r->p++;
            if (!read_escape(r, &w)) return syntax(r, "bad escape in a string");
        } else {
            *w++ = *r->p++;
        }
    }
    out->n = (size_t)(w - out->s);
    if (r->p >= r->end) return syntax(r, "string without an end");
    r->p++;
    return LAM_OK;
}

static bool text_is(text t, const char *s)
{
    return t.n == strlen(s) && memcmp(t.s, s, t.n) == 0;
}

static lam_status read_metadata(reader *r)
{
    static const char key[] = "__metadata__";
    if (r->metadata_seen)
        return lam_fail_in(r->err, LAM_E_FORMAT, r->file, key, "appears twice in the header");
    r->metadata_seen = true;
    if (!take(r, '{'))
        return lam_fail_in(r->err, LAM_E_FORMAT, r->file, key, "must be an object of strings");
    if (take(r, '}')) return LAM_OK;
    do {
        text name, value;
        LAM_TRY(read_string(r, &name));
        if (!take(r, ':')) return syntax(r, "':' is expected");
        skip_space(r);
        if (r->p < r->end && *r->p != '"')
            return lam_fail_in(r->err, LAM_E_FORMAT, r->file, key, "values must be strings");
        LAM_TRY(read_string(r, &value));
        if (value.n > LAM_ST_MAX_METADATA)
            return lam_fail_in(r->err, LAM_E_LIMIT, r->file, key, "a value has more than %d bytes",
                               (int)LAM_ST_MAX_METADATA);
    } while (take(r, ','));
    return take(r, '}') ? LAM_OK : syntax(r, "',' or '}' is expected");
}

/* A whole number >= 0 in JSON's spelling; false leaves the reader at the offending place. */
static bool read_u64(reader *r, uint64_t *out)
{
    uint64_t v = 0;
    skip_space(r);
    const char *first = r->p;
    for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++) {
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*r->p - '0'), &v))
            return false;
    }
    if (r->p == first || (*first == '0' && r->p - first > 1)) return false;
    if (r->p < r->end && (*r->p == '.' || *r->p == 'e' || *r->p == 'E')) return false;
    *out = v;
    return true;
}

/* A list of at most `room` whole numbers; `what` is said if it is anything else. */
static lam_status read_numbers(reader *r, text name, const char *what, uint64_t *out, size_t room,
                               size_t *count)
{
    *count = 0;
    if (!take(r, '[')) return bad_entry(r, name, what);
    if (take(r, ']')) return LAM_OK;
    do {
        if (*count == room || !read_u64(r, &out[*count])) return bad_entry(r, name, what);
        ++*count;
    } while (take(r, ','));
    return take(r, ']') ? LAM_OK : bad_entry(r, name, what);
}

static lam_status read_dtype(reader *r, text name, lam_dtype *out)
{
    text t;
    char what[sizeof r->err->message];
    lam_quoted q;
    skip_space(r);
    if (r->p < r->end && *r->p != '"') return bad_entry(r, name, "dtype must be a string");
    LAM_TRY(read_string(r, &t));
    for (int i = 0; i < LAM_DTYPE_COUNT; i++) {
        if (text_is(t, lam_dtype_name((lam_dtype)i))) {
            *out = (lam_dtype)i;
            return LAM_OK;
        }
    }
    snprintf(what, sizeof what, "dtype \"%s\" is unknown", lam_quote(&q, t.s, t.n));
    return bad_entry(r, name, what);
}

static lam_status read_shape(reader *r, text name, lam_st_entry *e)
{
    uint64_t dims[LAM_ST_MAX_RANK];
    LAM_TRY(read_numbers(r, name, "shape must be a list of at most 8 whole numbers", dims,
                         LAM_ST_MAX_RANK, &e->rank));
    for (size_t i = 0; i < e->rank; i++) {
        if (dims[i] > SIZE_MAX) return bad_entry(r, name, "shape is too large");
        e->shape[i] = (size_t)dims[i];
    }
    return LAM_OK;
}

static lam_status read_offsets(reader *r, text name, lam_st_entry *e)
{
    static const char what[] = "data_offsets must be two whole numbers";
    uint64_t v[2];
    size_t count;
    LAM_TRY(read_numbers(r, name, what, v, 2, &count));
    if (count != 2) return bad_entry(r, name, what);
    e->begin = v[0];
    e->end = v[1];
    return LAM_OK;
}

static lam_status read_field(reader *r, text name, lam_st_entry *e, unsigned *seen)
{
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    text field;
    char what[sizeof r->err->message];
    lam_quoted q;
    LAM_TRY(read_string(r, &field));
    unsigned i = 0;
    while (i < 3 && !text_is(field, names[i]))
        i++;
    if (i == 3 || (*seen & 1u << i)) {
        snprintf(what, sizeof what, i == 3 ? "unknown field \"%s\"" : "field \"%s\" appears twice",
                 lam_quote(&q, field.s, field.n));
        return bad_entry(r, name, what);
    }
    *seen |= 1u << i;
    if (!take(r, ':')) return syntax(r, "':' is expected");
    if (i == 0) return read_dtype(r, name, &e->dtype);
    return i == 1 ? read_shape(r, name, e) : read_offsets(r, name, e);
}

/* dtype, shape and data_offsets against each other and the file. */
static lam_status check_entry(const reader *r, text name, const lam_st_entry *e)
{
    static const unsigned char bits[] = {
#define X(name, bits) bits,
        LAM_DTYPE_MAP(X)
#undef X
    };
    size_t n = bits[e->dtype];
    for (size_t i = 0; i < e->rank; i++)
        if (!lam_mul_size(n, e->shape[i], &n)) return bad_entry(r, name, "shape is too large");
    if (n % 8 != 0) return bad_entry(r, name, "shape does not fill whole bytes");
    if (e->end < e->begin) return bad_entry(r, name, "data_offsets end before they begin");
    if (e->end > r->data_bytes)
        return bad_entry(r, name, "data_offsets are beyond the end of the file");
    if (e->end - e->begin != n / 8)
        return bad_entry(r, name,
                         "shape and dtype need another number of bytes than data_offsets give");
    return LAM_OK;
}

static lam_status grow(reader *r)
{
    lam_safetensors *st = r->st;
    size_t room, bytes;
    if (st->count == LAM_ST_MAX_TENSORS)
        return lam_fail(r->err, LAM_E_LIMIT, r->file, "header has more than %d tensors",
                        (int)LAM_ST_MAX_TENSORS);
    if (st->count < r->room) return LAM_OK;
    if (r->room == 0)
        room = 256;
    else if (!lam_mul_size(r->room, 2, &room))
        return lam_fail(r->err, LAM_E_NOMEM, r->file, "out of memory");
    if (!lam_mul_size(room, sizeof *st->entries, &bytes))
        return lam_fail(r->err, LAM_E_NOMEM, r->file, "out of memory");
    lam_st_entry *entries = realloc(st->entries, bytes);
    if (entries == NULL) return lam_fail(r->err, LAM_E_NOMEM, r->file, "out of memory");
    st->entries = entries;
    r->room = room;
    return LAM_OK;
}

static lam_status read_tensor(reader *r, text name)
{
    unsigned seen = 0;
    lam_st_entry e = {.name = name.s, .name_bytes = name.n};
    if (name.n > LAM_ST_MAX_NAME) return bad_entry(r, name, "name is too long");
    LAM_TRY(grow(r));
    if (!take(r, '{'))
        return bad_entry(r, name, "must be an object of dtype, shape and data_offsets");
    if (!take(r, '}')) {
        do {
            LAM_TRY(read_field(r, name, &e, &seen));
        } while (take(r, ','));
        if (!take(r, '}')) return syntax(r, "',' or '}' is expected");
    }
    if (!(seen & FIELD_DTYPE)) return bad_entry(r, name, "dtype is missing");
    if (!(seen & FIELD_SHAPE)) return bad_entry(r, name, "shape is missing");
    if (!(seen & FIELD_OFFSETS)) return bad_entry(r, name, "data_offsets is missing");
    LAM_TRY(check_entry(r, name, &e));
    r->st->entries[r->st->count++] = e;
    return LAM_OK;
}

static lam_status read_header(reader *r)
{
    if (r->p >= r->end || *r->p != '{') return syntax(r, "it must start with '{'");
    r->p++;
    if (!take(r, '}')) {
        do {
            text name = {0};
            LAM_TRY(read_string(r, &name));
            if (!take(r, ':')) return syntax(r, "':' is expected");
            LAM_TRY(text_is(name, "__metadata__") ? read_metadata(r) : read_tensor(r, name));
        } while (take(r, ','));
        if (!take(r, '}')) return syntax(r, "',' or '}' is expected");
    }
    skip_space(r);
    return r->p == r->end ? LAM_OK : syntax(r, "nothing but white space may follow the object");
}

static int compare_bytes(const char *a, size_t an, const char *b, size_t bn)
{
    const size_t n = an < bn ? an : bn;
    const int c = n == 0 ? 0 : memcmp(a, b, n);
    return c != 0 ? c : (an > bn) - (an < bn);
}

static int by_name(const void *a, const void *b)
{
    const lam_st_entry *x = a, *y = b;
    return compare_bytes(x->name, x->name_bytes, y->name, y->name_bytes);
}

static int by_offset(const void *a, const void *b)
{
    const lam_st_entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static lam_status check_unique(const reader *r)
{
    const lam_st_entry *e = r->st->entries;
    for (size_t i = 1; i < r->st->count; i++)
        if (by_name(&e[i - 1], &e[i]) == 0)
            return bad_entry(r, (text){e[i].name, e[i].name_bytes}, "tensor appears twice");
    return LAM_OK;
}

/* Entries sorted by offset: no hole, no overlap, up to the end of the file. */
static lam_status check_tiling(const reader *r)
{
    const lam_safetensors *st = r->st;
    uint64_t at = 0;
    for (size_t i = 0; i < st->count; i++) {
        const lam_st_entry *e = &st->entries[i];
        if (e->begin != at) {
            char what[sizeof r->err->message];
            lam_quoted q;
            const lam_st_entry *before = i > 0 ? &st->entries[i - 1] : NULL;
            snprintf(what, sizeof what, "data_offsets %s%s",
                     e->begin > at ? "leave a hole after " : "overlap those of ",
                     before ? lam_quote(&q, before->name, before->name_bytes) : "the header");
            return bad_entry(r, (text){e->name, e->name_bytes}, what);
        }
        at = e->end;
    }
    if (at == r->data_bytes) return LAM_OK;
    return lam_fail(r->err, LAM_E_FORMAT, r->file,
                    "header accounts for %llu bytes of data, the file has %llu",
                    (unsigned long long)at, (unsigned long long)r->data_bytes);
}

lam_status lam_safetensors_parse(lam_safetensors *st, char *header, size_t bytes,
                                 uint64_t data_bytes, lam_err *err)
{
    size_t bad;
    reader r = {.p = header,
                .start = header,
                .end = header + bytes,
                .file = st->file.name,
                .st = st,
                .data_bytes = data_bytes,
                .err = err};
    st->header = header;
    st->entries = NULL;
    st->count = 0;
    if (!lam_utf8_valid(header, bytes, &bad))
        return lam_fail(err, LAM_E_FORMAT, r.file, "header is not valid UTF-8 at byte %zu", bad);
    LAM_TRY(read_header(&r));
    if (st->count == 0) return check_tiling(&r);
    qsort(st->entries, st->count, sizeof *st->entries, by_name);
    LAM_TRY(check_unique(&r));
    qsort(st->entries, st->count, sizeof *st->entries, by_offset);
    LAM_TRY(check_tiling(&r));
    qsort(st->entries, st->count, sizeof *st->entries, by_name);
    return LAM_OK;
}

lam_st_entry *lam_safetensors_find(const lam_safetensors *st, const char *name, size_t name_bytes)
{
    size_t low = 0, high = st->count;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        lam_st_entry *e = &st->entries[mid];
        const int c = compare_bytes(name, name_bytes, e->name, e->name_bytes);
        if (c == 0) return e;
        if (c < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}
