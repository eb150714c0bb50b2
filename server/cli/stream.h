/* Lines in, bytes out: files or the standard streams, with every call checked. */
#ifndef SERVER_CLI_STREAM_H
#define SERVER_CLI_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

/* A longer line is an item that failed. */
enum { CLI_MAX_LINE_BYTES = 8 << 20 };

typedef struct cli_input {
    int fd;
    const char *name;    /* for people */
    uint64_t size_bytes; /* of a regular file, from where it was opened; else 0 */
    uint64_t used_bytes; /* of the lines taken so far */
    int wake_fd;         /* read ends when this becomes readable; -1: none */
    char *data;          /* [capacity], of which [begin, end) is unread */
    size_t begin, end, capacity;
    size_t scanned; /* no line ends in [begin, scanned) */
    bool at_end;
    bool skipping; /* in a line that is too long */
    int error;     /* errno of a read that failed */
} cli_input;

typedef enum cli_line {
    CLI_LINE_OK,
    CLI_LINE_TOO_LONG,
    CLI_LINE_WAIT, /* none is complete yet */
    CLI_LINE_END,  /* of the input, or an error of it */
} cli_line;

/* "-" is standard input. */
lam_status cli_input_open(cli_input *in, const char *path, lam_err *err);

/* The next line without its "\n" or "\r\n"; a last one may lack it. *line lives until the next
 * call. Without `wait` nothing is read from the file. */
cli_line cli_input_next(cli_input *in, bool wait, const char **line, size_t *bytes);

void cli_input_close(cli_input *in);

typedef struct cli_output {
    int fd;
    const char *name;
    bool owned; /* closed by cli_output_close */
    int error;  /* errno of the first write that failed */
} cli_output;

/* "-" is standard output. An existing file is kept; cli_output_empty or cli_output_resume comes
 * next. */
lam_status cli_output_open(cli_output *out, const char *path, lam_err *err);

/* Empties a regular file that was opened by name. */
lam_status cli_output_empty(cli_output *out, lam_err *err);

/* All of it, or false with out->error; then all later writes are false. */
bool cli_output_write(cli_output *out, const void *data, size_t bytes);

/* Closes; LAM_E_FILE naming the output if anything was lost. */
lam_status cli_output_close(cli_output *out, lam_err *err);

/* Counts the complete lines of a regular file, cuts what follows the last of them and leaves the
 * position at the end. */
lam_status cli_output_resume(cli_output *out, uint64_t *lines, lam_err *err);

/* Whether both are the same file. */
bool cli_same_file(const cli_input *in, const cli_output *out);

#endif
