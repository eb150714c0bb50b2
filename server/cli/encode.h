/* What lines become vectors with. */
#ifndef SERVER_CLI_ENCODE_H
#define SERVER_CLI_ENCODE_H

#include "api/api.h"
#include "server/cli/pipeline.h"

typedef struct cli_encoder {
    const api_env *env;
    size_t max_rows;  /* of a batch */
    bool requests;    /* a line is a body of /v1/encode; else a text */
    const char *tail; /* text: what follows the text in the body made of it: "],...}" */
    bool npy;
    size_t width; /* npy: of every row */
} cli_encoder;

/* The work of the pipeline; borrows the encoder. */
cli_work cli_encode_work(const cli_encoder *e);

/* Reads a body made of the text "a", to see whether the options can be met. */
bool cli_encode_probe(const cli_encoder *e, api_error *error);

#endif
