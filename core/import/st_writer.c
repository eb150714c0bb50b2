#include "core/import/st_writer.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 18 };

lam_st_piece lam_st_piece_of(const lam_safetensors *file, const lam_st_entry *e)
{
    lam_st_piece p = {.name = e->name,
                      .name_bytes = e->name_bytes,
                      .dtype = e->dtype,
                      .rank = e->rank,
                      .bytes = e->end - e->begin,
                      .file = file,
                      .begin = e->begin};
    memcpy(p.shape, e->shape, sizeof p.shape);
    return p;
}

static unsigned bits_of(lam_dtype d)
{
    static const unsigned char bits[] = {
#define X(name, count) count,
        LAM_DTYPE_MAP(X)
#undef X
    };
    return bits[d];
}

static int compare(const void *x, const void *y)
{
    const lam_st_piece *a = x, *b = y;
    const unsigned wide = bits_of(a->dtype), other = bits_of(b->dtype);
    if (wide != other) return wide < other ? 1 : -1;
    const size_t shorter = a->name_bytes < b->name_bytes ? a->name_bytes : b->name_bytes;
    const int c = memcmp(a->name, b->name, shorter);
    if (c != 0) return c;
    return (a->name_bytes > b->name_bytes) - (a->name_bytes < b->name_bytes);
}

static json_t *describe(const lam_st_piece *p, uint64_t at)
{
    json_t *shape = json_array();
    for (size_t i = 0; i < p->rank; i++)
        (void)json_array_append_new(shape, json_integer((json_int_t)p->shape[i]));
    const uint64_t end = at + p->bytes;
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", lam_dtype_name(p->dtype), "shape", shape,
                     "data_offsets", (json_int_t)at, (json_int_t)end);
}

/* The header's text, from malloc; NULL: out of memory. */
static char *make_header(const lam_st_piece *pieces, size_t count, const char *key,
                         const char *value)
{
    json_t *root = json_pack("{s:{s:s}}", "__metadata__", key, value);
    uint64_t at = 0;
    bool ok = root != NULL;
    for (size_t i = 0; i < count && ok; i++) {
        ok = json_object_setn_new(root, pieces[i].name, pieces[i].name_bytes,
                                  describe(&pieces[i], at)) == 0;
        at += pieces[i].bytes;
    }
    char *text = ok ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}

static lam_status fail(const char *path, lam_err *err)
{
    return lam_fail(err, LAM_E_FILE, path, "file cannot be written: %s", strerror(errno));
}

static lam_status copy_piece(FILE *out, const char *path, const lam_st_piece *p, char *block,
                             lam_err *err)
{
    if (p->data) return fwrite(p->data, 1, p->bytes, out) == p->bytes ? LAM_OK : fail(path, err);
    const uint64_t start = p->file->data_start + p->begin;
    for (uint64_t done = 0; done < p->bytes;) {
        const uint64_t left = p->bytes - done;
        const size_t n = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
        LAM_TRY(lam_file_read_at(&p->file->file, start + done, block, n, err));
        if (fwrite(block, 1, n, out) != n) return fail(path, err);
        done += n;
    }
    return LAM_OK;
}

static lam_status write_all(FILE *out, const char *path, const char *header,
                            const lam_st_piece *pieces, size_t count, lam_err *err)
{
    static const char spaces[8] = "        ";
    const size_t text = strlen(header), padding = (8 - text % 8) % 8;
    const uint64_t bytes = text + padding;
    if (fwrite(&bytes, sizeof bytes, 1, out) != 1 || fwrite(header, 1, text, out) != text ||
        fwrite(spaces, 1, padding, out) != padding)
        return fail(path, err);
    char *block = malloc(BLOCK_BYTES);
    if (!block) return lam_fail(err, LAM_E_NOMEM, path, "out of memory");
    lam_status s = LAM_OK;
    for (size_t i = 0; i < count && s == LAM_OK; i++)
        s = copy_piece(out, path, &pieces[i], block, err);
    free(block);
    return s;
}

lam_status lam_st_write(const char *path, lam_st_piece *pieces, size_t count, const char *key,
                        const char *value, lam_err *err)
{
    if (count > 0) qsort(pieces, count, sizeof *pieces, compare);
    char *header = make_header(pieces, count, key, value);
    if (!header) return lam_fail(err, LAM_E_NOMEM, path, "no memory for the header");
    FILE *out = fopen(path, "wbxe");
    lam_status s = out ? write_all(out, path, header, pieces, count, err) : fail(path, err);
    if (out && fclose(out) != 0 && s == LAM_OK) s = fail(path, err);
    free(header);
    return s;
}
