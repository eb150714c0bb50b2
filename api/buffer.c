#include "api/buffer.h"

#include <stdlib.h>
#include <string.h>

#include "api/base64.h"
#include "api/float_text.h"

enum { FIRST_CAPACITY = 1024 };

void api_buffer_init(api_buffer *b, size_t max_bytes)
{
    *b = (api_buffer){.max = max_bytes};
}

void api_buffer_free(api_buffer *b)
{
    if (!b) return;
    free(b->data);
    *b = (api_buffer){.max = b->max};
}

void api_buffer_clear(api_buffer *b)
{
    b->size = 0;
    b->failed = false;
    b->too_large = false;
}

static bool grow(api_buffer *b, size_t wanted)
{
    size_t capacity = b->capacity < FIRST_CAPACITY ? FIRST_CAPACITY : b->capacity;
    while (capacity < wanted)
        capacity = capacity > SIZE_MAX / 2 ? wanted : capacity * 2;
    if (capacity > b->max) capacity = b->max;
    char *data = realloc(b->data, capacity);
    if (!data) return false;
    b->data = data;
    b->capacity = capacity;
    return true;
}

char *api_buffer_room(api_buffer *b, size_t n)
{
    if (b->failed) return NULL;
    if (n > b->max || b->size > b->max - n) {
        b->failed = b->too_large = true;
        return NULL;
    }
    if (b->capacity - b->size < n && !grow(b, b->size + n)) {
        b->failed = true;
        return NULL;
    }
    return b->data + b->size;
}

void api_buffer_put(api_buffer *b, const char *s, size_t n)
{
    char *p = api_buffer_room(b, n);
    if (!p || n == 0) return;
    memcpy(p, s, n);
    b->size += n;
}

void api_buffer_puts(api_buffer *b, const char *s)
{
    api_buffer_put(b, s, strlen(s));
}

/* The escape of one byte that JSON does not take as it is; its length. */
static size_t escape(unsigned char c, char out[6])
{
    static const char hex[] = "0123456789abcdef";
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    const char *at = c ? memchr(plain, c, sizeof plain - 1) : NULL;
    out[0] = '\\';
    if (at) {
        out[1] = letter[at - plain];
        return 2;
    }
    memcpy(out + 1, "u00", 3);
    out[4] = hex[c >> 4];
    out[5] = hex[c & 15];
    return 6;
}

void api_buffer_json_string(api_buffer *b, const char *s, size_t n)
{
    api_buffer_put(b, "\"", 1);
    size_t done = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)s[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) continue;
        char text[6];
        api_buffer_put(b, s + done, i - done);
        api_buffer_put(b, text, escape(c, text));
        done = i + 1;
    }
    api_buffer_put(b, s + done, n - done);
    api_buffer_put(b, "\"", 1);
}

void api_buffer_json_u64(api_buffer *b, uint64_t v)
{
    char *p = api_buffer_room(b, 20);
    if (p) b->size += api_u64_text(v, p);
}

void api_buffer_json_i64(api_buffer *b, int64_t v)
{
    if (v < 0) api_buffer_put(b, "-", 1);
    api_buffer_json_u64(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void api_buffer_json_float(api_buffer *b, float v)
{
    char text[API_NUMBER_ROOM];
    api_buffer_put(b, text, api_float_text(v, text));
}

void api_buffer_json_double(api_buffer *b, double v)
{
    char text[API_NUMBER_ROOM];
    api_buffer_put(b, text, api_double_text(v, text));
}

void api_buffer_json_bool(api_buffer *b, bool v)
{
    api_buffer_puts(b, v ? "true" : "false");
}

void api_buffer_json_floats(api_buffer *b, const float *v, size_t n)
{
    /* Room is asked for a run of numbers at a time: the worst case of a whole vector may be above
     * the maximum where the vector itself is not. */
    enum { RUN = 64 };
    api_buffer_put(b, "[", 1);
    for (size_t start = 0; start < n; start += RUN) {
        const size_t count = n - start < RUN ? n - start : RUN;
        char text[RUN * (API_FLOAT_TEXT_MAX + 1) + API_NUMBER_ROOM];
        char *p = text;
        for (size_t i = 0; i < count; i++) {
            if (start + i) *p++ = ',';
            p += api_float_text(v[start + i], p);
        }
        api_buffer_put(b, text, (size_t)(p - text));
    }
    api_buffer_put(b, "]", 1);
}

void api_buffer_json_base64_floats(api_buffer *b, const float *v, size_t n)
{
    if (n > (SIZE_MAX - 8) / 8) {
        b->failed = b->too_large = true;
        return;
    }
    char *p = api_buffer_room(b, api_base64_size(n * sizeof *v) + 2);
    if (!p) return;
    *p = '"';
    const size_t size = api_base64_floats(v, n, p + 1);
    p[size + 1] = '"';
    b->size += size + 2;
}
