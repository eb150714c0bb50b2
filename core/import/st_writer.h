/* Writing safetensors files. Internal to core/import. */
#ifndef LAM_IMPORT_ST_WRITER_H
#define LAM_IMPORT_ST_WRITER_H

#include "core/import/safetensors.h"

/* A tensor to write: its bytes stand in memory, or in a file that is open. */
typedef struct lam_st_piece {
    const char *name; /* [name_bytes], borrowed */
    size_t name_bytes;
    lam_dtype dtype;
    size_t shape[LAM_ST_MAX_RANK];
    size_t rank;
    uint64_t bytes;
    const void *data;            /* or NULL, and then: */
    const lam_safetensors *file; /* where it is copied from, */
    uint64_t begin;              /* at this place of its data */
} lam_st_piece;

/* A tensor of a file, to be copied as it is. */
lam_st_piece lam_st_piece_of(const lam_safetensors *file, const lam_st_entry *e);

/* Sorts the pieces (widest type first, then by name, so that every tensor is aligned) and writes
 * them to a new file. `note`: the one line of metadata, a key and its value. The same pieces give
 * the same bytes. Errors: LAM_E_FILE naming the path, or what reading says; a broken file may be
 * left. */
lam_status lam_st_write(const char *path, lam_st_piece *pieces, size_t count, const char *key,
                        const char *value, lam_err *err);

#endif
