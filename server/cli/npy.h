/* One float32 array in NumPy's format, version 1.0, whose number of rows is known only at the end.
 */
#ifndef SERVER_CLI_NPY_H
#define SERVER_CLI_NPY_H

#include <sys/types.h>

#include "server/cli/stream.h"

typedef struct cli_npy {
    cli_output *target;
    cli_output spool; /* a nameless file, where the target cannot be written twice; else fd -1 */
    off_t start;      /* of the array in the target */
    size_t width;
} cli_npy;

/* *rows is where the rows go: the target, or the spool. */
lam_status cli_npy_begin(cli_npy *n, cli_output *target, size_t width, cli_output **rows,
                         lam_err *err);

/* Writes the true head, and what was spooled. Closes the spool, also if `rows` is of no use. */
lam_status cli_npy_end(cli_npy *n, uint64_t rows, lam_err *err);
void cli_npy_abandon(cli_npy *n);

#endif
