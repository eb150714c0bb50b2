/* safetensors files, by the rules of the format. Internal to core/import.
 *
 * 8 bytes: length N of the header, little-endian; N bytes of JSON: name -> {dtype, shape,
 * data_offsets} and optionally __metadata__ (string -> string); then the data. N <= 100,000,000 and
 * 8 + N <= file size; the header starts with '{' and may end in white space; names are unique;
 * sorted by offset the tensors tile the data exactly; each has the bytes that dtype and shape say.
 * Own limits: LAM_ST_MAX_TENSORS, LAM_ST_MAX_RANK, LAM_ST_MAX_NAME, LAM_ST_MAX_METADATA.
 *
 * The header is read by a parser of its own, in place and without a tree: its memory is the header
 * once plus one entry a tensor, its time linear but for sorting. */
#ifndef LAM_IMPORT_SAFETENSORS_H
#define LAM_IMPORT_SAFETENSORS_H

#include "core/import/files.h"

/* X(name, bits) */
/* The formatter does not agree with itself on this list. */
/* clang-format off */
#define LAM_DTYPE_MAP(X) \
    X(BOOL, 8) \
    X(U8, 8) \
    X(I8, 8) \
    X(I16, 16) \
    X(U16, 16) X(I32, 32) X(U32, 32) X(I64, 64) X(U64, 64) X(F16, 16) X(BF16, 16) X(F32, 32) \
        X(F64, 64) X(C64, 64) X(F8_E5M2, 8) X(F8_E4M3, 8) X(F8_E8M0, 8) X(F8_E5M2FNUZ, 8) \
            X(F8_E4M3FNUZ, 8) X(F4, 4) X(F6_E2M3, 6) X(F6_E3M2, 6)
/* clang-format on */
#define LAM_ENUM_ROW_DTYPE(name, bits) LAM_DTYPE_##name,
typedef enum lam_dtype { LAM_DTYPE_MAP(LAM_ENUM_ROW_DTYPE) LAM_DTYPE_COUNT } lam_dtype;

const char *lam_dtype_name(lam_dtype v);

enum {
    LAM_ST_MAX_HEADER = 100000000,
    LAM_ST_MAX_TENSORS = 1 << 18,
    LAM_ST_MAX_RANK = 8,
    LAM_ST_MAX_NAME = 1 << 16,
    LAM_ST_MAX_METADATA = 16 << 20, /* bytes of one value */
};

typedef struct lam_st_entry {
    const char *name; /* in the header; not terminated, may hold any byte */
    size_t name_bytes;
    uint64_t begin, end; /* in the data */
    size_t shape[LAM_ST_MAX_RANK];
    size_t rank;
    lam_dtype dtype;
    bool used; /* the importer's mark */
} lam_st_entry;

typedef struct lam_safetensors {
    lam_file file;
    char *header;          /* owned; names point into it */
    lam_st_entry *entries; /* [count], owned, sorted by name */
    size_t count;
    uint64_t data_start; /* of the data in the file */
} lam_safetensors;

/* Opens, validates everything but the values. On failure nothing is left to close. */
lam_status lam_safetensors_open(lam_safetensors *st, const lam_dir *d, const char *name,
                                lam_err *err);
void lam_safetensors_close(lam_safetensors *st);

/* The header alone: takes `header` [bytes], which it rewrites and owns from then on.
 * `st->file.name` and the data's size are given. */
lam_status lam_safetensors_parse(lam_safetensors *st, char *header, size_t bytes,
                                 uint64_t data_bytes, lam_err *err);

/* NULL if there is none. */
lam_st_entry *lam_safetensors_find(const lam_safetensors *st, const char *name, size_t name_bytes);

/* Reads the tensor as float32 into dst [count], count the product of its shape. F16, BF16 are
 * widened, F64 narrowed; other dtypes and values that are not finite (as float32) are refused. */
lam_status lam_safetensors_read(const lam_safetensors *st, const lam_st_entry *e, float *dst,
                                size_t count, lam_err *err);

#endif
