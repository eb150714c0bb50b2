/* Base64 of RFC 4648 section 4: standard alphabet, padded, no line ends. */
#ifndef API_BASE64_H
#define API_BASE64_H

#include <stddef.h>

/* Characters that `bytes` bytes become. */
static inline size_t api_base64_size(size_t bytes)
{
    return (bytes + 2) / 3 * 4;
}

/* n floats as little-endian float32, to out[api_base64_size(4 * n)]; returns the characters
 * written. */
size_t api_base64_floats(const float *v, size_t n, char *out);

#endif
