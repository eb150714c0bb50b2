/* Members of a JSON object, for the commands that print one. */
#ifndef SERVER_CLI_JSON_H
#define SERVER_CLI_JSON_H

#include "api/buffer.h"

/* `"name":`, with a comma in front where one belongs. */
void cli_json_key(api_buffer *b, const char *name);

void cli_json_string(api_buffer *b, const char *name, const char *v); /* NULL: null */
void cli_json_count(api_buffer *b, const char *name, uint64_t v);
void cli_json_number(api_buffer *b, const char *name, double v);
void cli_json_bool(api_buffer *b, const char *name, bool v);

/* The next element of a list or member of an object starts: a comma unless it is the first. */
void cli_json_next(api_buffer *b);

/* Writes it to standard output: the status, or CLI_FAILED with a sentence. Frees the buffer. */
int cli_json_print(api_buffer *b, const char *command, int status);

#endif
