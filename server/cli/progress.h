/* One line on a terminal that says how far a run is. */
#ifndef SERVER_CLI_PROGRESS_H
#define SERVER_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct cli_totals;

typedef struct cli_progress {
    bool on;
    bool shown;
    uint64_t first_bytes; /* of the input when the first result came: a resumed run starts far in */
    double start, last;   /* seconds */
} cli_progress;

/* Off unless wanted and standard error is a terminal. */
void cli_progress_start(cli_progress *p, bool wanted);

/* Shows it if the last time is long enough ago. size_bytes 0: how much there is is not known. */
void cli_progress_show(cli_progress *p, const struct cli_totals *t, uint64_t input_bytes,
                       uint64_t size_bytes);

/* Takes the line away, for something else to be written. */
void cli_progress_clear(cli_progress *p);

/* The same at the end; seconds since the start. */
double cli_progress_stop(cli_progress *p);

#endif
