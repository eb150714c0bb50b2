/* What lamina compile found, as JSON and for people. */
#ifndef SERVER_CLI_CERTIFICATE_H
#define SERVER_CLI_CERTIFICATE_H

#include "api/buffer.h"
#include "server/cli/probe.h"

typedef struct certificate {
    lam_model *folded, *plain; /* the same model, with folds and without */
    unsigned asked;            /* folds that might be taken */
    cli_difference random, texts;
    bool has_texts;
    cli_times times;
} certificate;

/* Whether the difference is what rounding explains. */
bool certificate_holds(const certificate *c);

void certificate_write(const certificate *c, api_buffer *b);
void certificate_print(const certificate *c); /* on standard output */

#endif
