/* Files of a model directory: opened once, checked to be regular, read with bounds. Internal to
 * core/import.
 *
 * Nothing is mapped: another process may truncate a file while it is read, and that has to be an
 * error and not a SIGBUS. Symbolic links are followed, since the cache of the Hugging Face hub is
 * made of them; who can write into the directory decides what is read. Names that come out of a
 * file (shards, modules) may not leave the directory by their text: lam_file_name_is_inside. */
#ifndef LAM_IMPORT_FILES_H
#define LAM_IMPORT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

typedef struct lam_dir {
    int fd;
    char name[256]; /* what messages put before a file's name: "" or "0_Transformer/" */
} lam_dir;

/* `path` in messages is the directory itself. */
lam_status lam_dir_open(lam_dir *d, const char *path, lam_err *err);

/* A folder inside; `name` has passed lam_file_name_is_inside. "" opens the parent once more. */
lam_status lam_dir_open_inside(lam_dir *d, const lam_dir *parent, const char *name, lam_err *err);
void lam_dir_close(lam_dir *d);

/* Whether there is something of that name, even if it cannot be read. */
bool lam_dir_has(const lam_dir *d, const char *name);

/* Relative, without ".." or empty parts: cannot leave the directory except by a link that is in it.
 */
bool lam_file_name_is_inside(const char *name);

typedef struct lam_file {
    int fd;
    uint64_t bytes; /* when it was opened */
    char name[256]; /* for messages; cut if longer */
} lam_file;

/* Refuses what is no regular file without waiting for it (FIFO, device, socket, directory). */
lam_status lam_file_open(lam_file *f, const lam_dir *d, const char *name, lam_err *err);
void lam_file_close(lam_file *f);

/* All of [offset, offset + bytes), or an error that names the file. */
lam_status lam_file_read_at(const lam_file *f, uint64_t offset, void *dst, size_t bytes,
                            lam_err *err);

/* The whole file with a NUL behind it, from malloc; refuses more than max_bytes and Git LFS
 * pointers. */
lam_status lam_file_read_all(const lam_file *f, size_t max_bytes, char **out, size_t *bytes,
                             lam_err *err);

/* Refuses a Git LFS pointer, which stands where a clone without LFS lacks the real file. */
lam_status lam_file_check_lfs(const lam_file *f, lam_err *err);

/* lam_fail with where = "file: what". */
lam_status lam_fail_in(lam_err *err, lam_status status, const char *file, const char *what,
                       const char *format, ...) __attribute__((format(printf, 5, 6)));

/* A name from a file made fit for a message: at most LAM_QUOTE_MAX bytes, control bytes and bytes
 * that are no UTF-8 escaped, cut with "..." . Returns out. */
enum { LAM_QUOTE_MAX = 200 };
typedef struct lam_quoted {
    char text[LAM_QUOTE_MAX + 1];
} lam_quoted;
const char *lam_quote(lam_quoted *out, const char *name, size_t n);

#endif
