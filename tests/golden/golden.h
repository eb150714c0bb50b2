/* What the golden checks share: counting, JSON, expected tensors. */
#ifndef TESTS_GOLDEN_GOLDEN_H
#define TESTS_GOLDEN_GOLDEN_H

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cpu.h"
#include "core/import/import.h"
#include "core/import/safetensors.h"

typedef struct tally {
    size_t passed, failed;
} tally;

/* Counts one check; a failed one is printed. Returns ok. */
static inline bool check(tally *t, bool ok, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline bool check(tally *t, bool ok, const char *format, ...)
{
    va_list args;
    if (ok) {
        t->passed++;
        return true;
    }
    t->failed++;
    va_start(args, format);
    printf("FAILED ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    return false;
}

static inline int report(const tally *t)
{
    printf("%zu passed, %zu failed\n", t->passed, t->failed);
    return t->failed == 0 ? 0 : 1;
}

static inline void *must(void *p)
{
    if (p != NULL) return p;
    printf("out of memory\n0 passed, 1 failed\n");
    exit(1);
}

static inline json_t *load_json(const char *path)
{
    json_error_t e;
    json_t *j = json_load_file(path, 0, &e);
    if (j != NULL) return j;
    printf("FAILED %s: %s\n0 passed, 1 failed\n", path, e.text);
    exit(1);
}

/* Expected values of one directory. */
typedef struct expected {
    lam_dir dir;
    lam_safetensors file;
} expected;

static inline bool expected_open(expected *e, const char *path, lam_err *err)
{
    if (lam_dir_open(&e->dir, path, err) != LAM_OK) return false;
    if (lam_safetensors_open(&e->file, &e->dir, "expected.safetensors", err) == LAM_OK) return true;
    lam_dir_close(&e->dir);
    return false;
}

static inline void expected_close(expected *e)
{
    lam_safetensors_close(&e->file);
    lam_dir_close(&e->dir);
}

/* "request/what" as doubles [rows, columns], to be freed; NULL if there is none. F64 and F32 are
 * known. */
static inline double *expected_read(const expected *e, const char *request, const char *what,
                                    size_t *rows, size_t *columns)
{
    char name[256];
    const int n = snprintf(name, sizeof name, "%s/%s", request, what);
    const lam_st_entry *t = lam_safetensors_find(&e->file, name, (size_t)n);
    if (t == NULL || t->rank != 2) return NULL;
    *rows = t->shape[0];
    *columns = t->shape[1];
    const size_t count = *rows * *columns;
    const bool wide = t->dtype == LAM_DTYPE_F64;
    double *v = must(malloc(count * sizeof *v + 1));
    float *narrow = must(malloc(count * sizeof *narrow + 1));
    if (lam_file_read_at(&e->file.file, e->file.data_start + t->begin,
                         wide ? (void *)v : (void *)narrow, (size_t)(t->end - t->begin),
                         NULL) != LAM_OK) {
        free(v);
        v = NULL;
    }
    for (size_t i = 0; v != NULL && !wide && i < count; i++)
        v[i] = (double)narrow[i];
    free(narrow);
    return v;
}

#endif
