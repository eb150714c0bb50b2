/* Pieces of replies that several files write; not for server/. */
#ifndef API_REPLY_H
#define API_REPLY_H

#include "api/api.h"

/* "key": with the comma that separates it from what stands before, if anything does. */
static inline void api_put_key(api_buffer *b, const char *key, bool first)
{
    if (!first) api_buffer_put(b, ",", 1);
    api_buffer_put(b, "\"", 1);
    api_buffer_puts(b, key);
    api_buffer_put(b, "\":", 2);
}

void api_put_string(api_buffer *b, const char *s);

/* A member behind another one; null for what is no number. */
void api_put_double(api_buffer *b, const char *key, double v);

/* The object inside "error". */
void api_put_error(api_buffer *b, const api_error *e);

/* Numbers of one vector, in the encoding that the request asked for. */
void api_put_vector(api_buffer *b, const api_request *r, const float *v);

/* {"queue_ms":...,"compute_ms":...,"total_ms":...} */
void api_put_timing(api_buffer *b, const api_timing *t);

/* {"prompt_tokens":...,"total_tokens":...} */
void api_put_usage(api_buffer *b, const api_request *r);

void api_encode_reply(const api_request *r, const api_timing *t, api_buffer *b);
void api_compare_reply(const api_request *r, const api_timing *t, api_buffer *b);
void api_openai_reply(const api_request *r, api_buffer *b);

#endif
