/* All lines of a file as items of the engine: texts, or lists of token ids where the first line is
 * one. */
#ifndef SERVER_CLI_INPUTS_H
#define SERVER_CLI_INPUTS_H

#include "api/api.h"

typedef struct cli_inputs {
    lam_arena arena;
    api_model model;
    api_env env;
    api_request request; /* its items have the model's own options */
    size_t *lines;       /* [capacity] the number of each item's line, from 1; malloc'd */
    size_t line_count, line_capacity;
} cli_inputs;

/* Reads a file, "-" for standard input; blank lines are skipped and texts that are too long cut at
 * the end. Errors name the file and line. The model is borrowed. */
lam_status cli_inputs_read(cli_inputs *in, const lam_model *m, const char *path, lam_err *err);

/* The same of one text. `where` is for messages. */
lam_status cli_inputs_text(cli_inputs *in, const lam_model *m, const char *text, const char *where,
                           lam_err *err);

/* NULL-safe where it was zeroed. */
void cli_inputs_free(cli_inputs *in);

#endif
