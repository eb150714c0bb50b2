#include "core/import/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/import/widen.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors data is little-endian and is read as it lies"
#endif

const char *lam_dtype_name(lam_dtype v)
{
    static const char *const names[] = {
#define X(name, bits) #name,
        LAM_DTYPE_MAP(X)
#undef X
    };
    return names[v];
}

static lam_status read_header_bytes(lam_safetensors *st, char **out, size_t *bytes, lam_err *err)
{
    uint64_t n;
    const lam_file *f = &st->file;
    if (f->bytes < sizeof n)
        return lam_fail(err, LAM_E_FORMAT, f->name,
                        "file has %llu bytes, too few for a safetensors header",
                        (unsigned long long)f->bytes);
    LAM_TRY(lam_file_check_lfs(f, err));
    LAM_TRY(lam_file_read_at(f, 0, &n, sizeof n, err));
    if (n == 0) return lam_fail(err, LAM_E_FORMAT, f->name, "safetensors header has length 0");
    if (n > LAM_ST_MAX_HEADER)
        return lam_fail(err, LAM_E_FORMAT, f->name,
                        "length of the safetensors header is %llu, over the format's limit of %d: "
                        "no safetensors file?",
                        (unsigned long long)n, (int)LAM_ST_MAX_HEADER);
    if (n > f->bytes - sizeof n)
        return lam_fail(err, LAM_E_FORMAT, f->name,
                        "safetensors header of %llu bytes ends after the file",
                        (unsigned long long)n);
    char *header = malloc((size_t)n);
    if (header == NULL) return lam_fail(err, LAM_E_NOMEM, f->name, "out of memory");
    const lam_status status = lam_file_read_at(f, sizeof n, header, (size_t)n, err);
    if (status != LAM_OK) {
        free(header);
        return status;
    }
    st->data_start = sizeof n + n;
    *out = header;
    *bytes = (size_t)n;
    return LAM_OK;
}

lam_status lam_safetensors_open(lam_safetensors *st, const lam_dir *d, const char *name,
                                lam_err *err)
{
    char *header = NULL;
    size_t bytes = 0;
    *st = (lam_safetensors){.file.fd = -1};
    LAM_TRY(lam_file_open(&st->file, d, name, err));
    lam_status status = read_header_bytes(st, &header, &bytes, err);
    if (status == LAM_OK)
        status = lam_safetensors_parse(st, header, bytes, st->file.bytes - st->data_start, err);
    if (status != LAM_OK) lam_safetensors_close(st);
    return status;
}

void lam_safetensors_close(lam_safetensors *st)
{
    lam_file_close(&st->file);
    free(st->header);
    free(st->entries);
    st->header = NULL;
    st->entries = NULL;
    st->count = 0;
}

/* Bytes that are read before they are looked at: small enough to stay in the cache. */
enum { CHUNK_BYTES = 1 << 16 };

static lam_status not_finite(const lam_safetensors *st, const lam_st_entry *e, lam_err *err)
{
    lam_quoted q;
    return lam_fail_in(err, LAM_E_WEIGHTS, st->file.name, lam_quote(&q, e->name, e->name_bytes),
                       "holds a value that is not finite");
}

static lam_status read_f32(const lam_safetensors *st, const lam_st_entry *e, float *dst,
                           size_t count, lam_err *err)
{
    uint64_t at = st->data_start + e->begin;
    while (count > 0) {
        const size_t n = count < CHUNK_BYTES / sizeof *dst ? count : CHUNK_BYTES / sizeof *dst;
        LAM_TRY(lam_file_read_at(&st->file, at, dst, n * sizeof *dst, err));
        if (!lam_all_finite(dst, n)) return not_finite(st, e, err);
        at += n * sizeof *dst;
        dst += n;
        count -= n;
    }
    return LAM_OK;
}

typedef void (*widen_function)(float *dst, const void *src, size_t n);

static lam_status read_widened(const lam_safetensors *st, const lam_st_entry *e,
                               widen_function widen, size_t value_bytes, float *dst, size_t count,
                               lam_err *err)
{
    _Alignas(16) unsigned char chunk[CHUNK_BYTES];
    uint64_t at = st->data_start + e->begin;
    while (count > 0) {
        const size_t n = count < CHUNK_BYTES / value_bytes ? count : CHUNK_BYTES / value_bytes;
        LAM_TRY(lam_file_read_at(&st->file, at, chunk, n * value_bytes, err));
        widen(dst, chunk, n);
        if (!lam_all_finite(dst, n)) return not_finite(st, e, err);
        at += n * value_bytes;
        dst += n;
        count -= n;
    }
    return LAM_OK;
}

lam_status lam_safetensors_read(const lam_safetensors *st, const lam_st_entry *e, float *dst,
                                size_t count, lam_err *err)
{
    lam_quoted q;
    if (e->dtype == LAM_DTYPE_F32) return read_f32(st, e, dst, count, err);
    if (e->dtype == LAM_DTYPE_F16) return read_widened(st, e, lam_widen_f16, 2, dst, count, err);
    if (e->dtype == LAM_DTYPE_BF16) return read_widened(st, e, lam_widen_bf16, 2, dst, count, err);
    if (e->dtype == LAM_DTYPE_F64) return read_widened(st, e, lam_narrow_f64, 8, dst, count, err);
    return lam_fail_in(err, LAM_E_WEIGHTS, st->file.name, lam_quote(&q, e->name, e->name_bytes),
                       "has dtype %s; weights are F32, F16, BF16 or F64", lam_dtype_name(e->dtype));
}
