/* Two compilations of one model on the same inputs: how far apart their rows are, and their times.
 */
#ifndef SERVER_CLI_PROBE_H
#define SERVER_CLI_PROBE_H

#include "core/lamina.h"

enum { CLI_PROBE_ROUNDS = 101 };

/* Of all rows of the result, one a token, before pooling. */
typedef struct cli_difference {
    uint64_t sequences, tokens;
    uint64_t failed; /* sequences that neither has a finite result for; left out */
    double largest;  /* |a - b|; infinite if only one of the two has a result somewhere */
    double scale;    /* largest |a|: the first is the yardstick */
    double cosine;   /* the smallest of a row of one and its row of the other */
} cli_difference;

typedef struct cli_times {
    size_t sequences, tokens; /* of a call */
    size_t rounds;            /* one after the other, in turns */
    double ms[2];             /* medians */
} cli_times;

typedef struct cli_probe {
    lam_model *models[2]; /* borrowed; the same model, compiled in two ways */
    lam_ctx *contexts[2];
    lam_encode_opts opts; /* every row of the last layer */
    float *rows[2];       /* [positions, width] */
    int32_t *ids;         /* [positions] */
    lam_arena arena;
} cli_probe;

/* To be closed also on failure. */
lam_status cli_probe_open(cli_probe *p, lam_model *first, lam_model *second, lam_err *err);
void cli_probe_close(cli_probe *p);

/* Sequences of random ids, of all lengths up to what a text of some sentences has. */
lam_status cli_probe_random(cli_probe *p, uint64_t seed, cli_difference *out, lam_err *err);

/* Lines of a file: texts, or lists of ids (inputs.h). */
lam_status cli_probe_texts(cli_probe *p, const char *path, cli_difference *out, lam_err *err);

lam_status cli_probe_time(cli_probe *p, uint64_t seed, size_t rounds, cli_times *out, lam_err *err);

/* largest / scale; 0 for no rows. */
double cli_relative(const cli_difference *d);

#endif
