/* Lines of `lamina tokenize`: a JSON object in, a JSON object out. */
#ifndef API_TOKENIZE_H
#define API_TOKENIZE_H

#include "api/buffer.h"
#include "api/error.h"
#include "core/tokenizer/tokenizer.h"

typedef struct api_tokenize {
    const char *text;
    size_t text_bytes;
    const char *pair; /* or NULL */
    size_t pair_bytes;
    lam_tokenize_opts opts;
} api_tokenize;

/* Reads {"text":..., "pair":null, "add_special_tokens":true, "truncate":null}; `truncate` is an
 * object of max_length, strategy (longest_first) and direction (right). Texts stand in the line or
 * in the arena. */
bool api_tokenize_read(const char *line, size_t bytes, lam_arena *arena, api_tokenize *out,
                       api_error *error);

/* Runs it and writes {"ids":[],"type_ids":[],"offsets":[[start,end]],"tokens":[]}. */
bool api_tokenize_write(const lam_tokenizer *t, const api_tokenize *q, lam_arena *arena,
                        api_buffer *out, size_t *count, bool *truncated, api_error *error);

#endif
