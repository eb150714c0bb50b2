/* Many lines through several workers, results in the order of the lines.
 *
 * The calling thread writes, one thread reads, N threads work. A chunk of lines has one owner at a
 * time: reader -> worker -> writer -> reader. Memory is bounded by the number of chunks. */
#ifndef SERVER_CLI_PIPELINE_H
#define SERVER_CLI_PIPELINE_H

#include "api/buffer.h"
#include "server/cli/stream.h"

enum { CLI_CHUNK_LINES = 64, CLI_CHUNK_BYTES = 32 << 10 };

typedef struct cli_chunk_line {
    size_t offset, bytes; /* in the chunk's text */
    bool too_long;        /* the text is lost */
} cli_chunk_line;

typedef struct cli_chunk {
    char *text;
    size_t text_bytes, text_capacity;
    cli_chunk_line lines[CLI_CHUNK_LINES];
    size_t line_count;
    uint64_t first_line;  /* number of the first, from 0 */
    uint64_t input_bytes; /* of the input, up to its last line */
    bool done;
    /* what the worker makes of it */
    api_buffer out;     /* bytes for the output */
    api_buffer notes;   /* lines for standard error */
    uint64_t failed;    /* lines or items */
    uint64_t truncated; /* items */
    uint64_t tokens;
    uint64_t vectors; /* in out */
} cli_chunk;

/* What a command does with lines. Calls for one state are never concurrent. */
typedef struct cli_work {
    const char *verb;   /* "encoded": for the summary */
    size_t chunk_lines; /* at most, <= CLI_CHUNK_LINES */
    /* A worker's own state; NULL with *err on failure. */
    void *(*start)(void *arg, lam_err *err);
    void (*run)(void *state, cli_chunk *chunk);
    void (*stop)(void *state);
    void *arg;
} cli_work;

typedef struct cli_totals {
    uint64_t lines, failed, truncated, tokens, vectors;
    double seconds;
} cli_totals;

/* Skips `skip_lines` lines (the input must have them), then runs all others. Errors: LAM_E_FILE
 * naming input or output; what came before is written. `progress`: show it, if standard error is a
 * terminal. */
lam_status cli_pipeline_run(const cli_work *work, size_t workers, cli_input *in, cli_output *out,
                            uint64_t skip_lines, bool progress, cli_totals *totals, lam_err *err);

/* "encoded 12 lines in 0.5 s (...)" on standard error. */
void cli_print_totals(const char *verb, const cli_totals *totals);

#endif
