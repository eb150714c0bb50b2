/* Strict reading of small JSON files. Internal to core/import.
 *
 * Getters name what is wrong as "file: key". A key whose value is null counts as absent, as it does
 * for the programs that write these files. */
#ifndef LAM_IMPORT_JSON_H
#define LAM_IMPORT_JSON_H

#include <jansson.h>

#include "core/import/files.h"

enum { LAM_JSON_MAX_BYTES = 8 << 20 };

/* One object of a file. */
typedef struct lam_json {
    json_t *object; /* borrowed from root */
    json_t *root;   /* owned; NULL: there is no such file */
    char file[256]; /* for messages */
} lam_json;

/* How whole numbers are read. Some files hold lengths of 1e30 spelled as integers. */
typedef enum lam_json_numbers { LAM_JSON_INTEGERS, LAM_JSON_REALS } lam_json_numbers;

/* Reads a file that must hold one object. Duplicate keys, invalid UTF-8, NUL in strings, nesting
 * deeper than jansson allows (2048) and files over LAM_JSON_MAX_BYTES are refused. The caller
 * frees. */
lam_status lam_json_read(lam_json *j, const lam_dir *d, const char *name, lam_json_numbers numbers,
                         lam_err *err);

/* The same where the file may be absent: then root is NULL and every key is. */
lam_status lam_json_read_optional(lam_json *j, const lam_dir *d, const char *name,
                                  lam_json_numbers numbers, lam_err *err);

/* The same from memory, any kind of value at the root. `file` is for messages. */
lam_status lam_json_parse(lam_json *j, const char *text, size_t bytes, const char *file,
                          lam_json_numbers numbers, lam_err *err);

/* A file whose root is an array. */
lam_status lam_json_read_array(lam_json *j, const lam_dir *d, const char *name, lam_err *err);

void lam_json_free(lam_json *j);

/* NULL if absent or null. */
json_t *lam_json_get(const lam_json *j, const char *key);

lam_status lam_json_fail(const lam_json *j, const char *key, lam_err *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A whole number in [min, max]; absent is refused. */
lam_status lam_json_size(const lam_json *j, const char *key, size_t min, size_t max, size_t *out,
                         lam_err *err);

/* Absent leaves *out alone. */
lam_status lam_json_opt_bool(const lam_json *j, const char *key, bool *out, lam_err *err);
lam_status lam_json_opt_real(const lam_json *j, const char *key, double *out, lam_err *err);
lam_status lam_json_opt_string(const lam_json *j, const char *key, const char **out, lam_err *err);

#endif
