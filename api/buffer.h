/* A growing run of bytes with a maximum from its first line. */
#ifndef API_BUFFER_H
#define API_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct api_buffer {
    char *data; /* malloc'd; NULL while empty */
    size_t size, capacity, max;
    bool failed;    /* out of memory or over max: sticky, later writes do nothing */
    bool too_large; /* failed because of max */
} api_buffer;

void api_buffer_init(api_buffer *b, size_t max_bytes);
void api_buffer_free(api_buffer *b);
void api_buffer_clear(api_buffer *b);

/* Room for n more bytes at data + size; NULL if failed. The caller adds what it wrote to size. */
char *api_buffer_room(api_buffer *b, size_t n);

void api_buffer_put(api_buffer *b, const char *s, size_t n);
void api_buffer_puts(api_buffer *b, const char *s);

/* JSON pieces. A string is escaped, valid UTF-8 assumed. Floats and doubles are the shortest
 * decimals that read back to the same float32 or to the same double; NaN and infinities become
 * null. */
void api_buffer_json_string(api_buffer *b, const char *s, size_t n);
void api_buffer_json_u64(api_buffer *b, uint64_t v);
void api_buffer_json_i64(api_buffer *b, int64_t v);
void api_buffer_json_bool(api_buffer *b, bool v);
void api_buffer_json_float(api_buffer *b, float v);
void api_buffer_json_double(api_buffer *b, double v);
void api_buffer_json_floats(api_buffer *b, const float *v, size_t n); /* [a,b,...] */
void api_buffer_json_base64_floats(api_buffer *b, const float *v,
                                   size_t n); /* "...", little-endian */

#endif
