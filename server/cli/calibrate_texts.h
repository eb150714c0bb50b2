/* Lines of text or of token ids -> items of the engine, chunk by chunk. */
#ifndef SERVER_CLI_CALIBRATE_TEXTS_H
#define SERVER_CLI_CALIBRATE_TEXTS_H

#include "core/lamina.h"
#include "server/cli/stream.h"

/* What the lines are, decided once. */
typedef struct cal_texts {
    const lam_model *model;
    const char *path;   /* a regular file: it is read more than once */
    bool tokens;        /* lines are JSON lists of ids; else texts */
    const char *prompt; /* what the model puts in front of texts, or "" */
    lam_encode_opts opts;
} cal_texts;

/* `format` is "auto", "text" or "tokens"; auto looks at the first line. */
lam_status cal_texts_open(cal_texts *t, const lam_model *m, const char *path, const char *format,
                          lam_err *err);

/* Lines of the file in a row, and the items made of them. */
typedef struct cal_chunk {
    uint64_t index;      /* of the chunk in the file */
    uint64_t end_offset; /* of its last line's end, in bytes */
    uint64_t end_line;
    uint64_t skipped; /* empty lines */
    char *text;
    size_t text_bytes, text_capacity;
    struct {
        size_t offset, bytes;
        uint64_t line; /* from 1 */
        bool too_long;
    } * lines;
    size_t line_count, line_capacity;
    lam_item *items; /* [line_capacity] */
    uint64_t rows, truncated;
    lam_arena arena; /* ids and vectors */
} cal_chunk;

lam_status cal_chunk_init(cal_chunk *c, size_t lines, lam_err *err);
void cal_chunk_free(cal_chunk *c);

/* Takes the next line_capacity lines that are not empty; line_count is 0 at the end. */
lam_status cal_chunk_read(cal_chunk *c, cli_input *in, uint64_t line, lam_err *err);

/* Makes the items. Errors name the file and line. */
lam_status cal_chunk_make(cal_chunk *c, const cal_texts *t, lam_err *err);

#endif
