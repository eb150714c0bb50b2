/* A copy of a model directory with other running statistics, and the profile of norms that have
 * none. */
#include "core/import/calibrated.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/import/copy_tree.h"
#include "core/import/hf_config.h"
#include "core/import/sentence_transformers.h"
#include "core/import/st_writer.h"
#include "core/model/model.h"
#include "core/stats/norm_inputs.h"

typedef struct source {
    lam_dir root, encoder;
    lam_sentence sentence;
    lam_hparams hparams;
    const lam_family *family;
    lam_bundle bundle;
    lam_tensors tensors;
} source;

static lam_status open_source(source *s, const char *path, lam_err *err)
{
    static const lam_warner silent = {0};
    LAM_TRY(lam_dir_open(&s->root, path, err));
    LAM_TRY(lam_sentence_modules(&s->sentence, &s->root, &silent, err));
    LAM_TRY(lam_dir_open_inside(&s->encoder, &s->root, s->sentence.encoder, err));
    LAM_TRY(lam_hf_config_read(&s->hparams, &s->family, &s->encoder, err));
    LAM_TRY(lam_bundle_open(&s->bundle, &s->encoder, &silent, err));
    return lam_tensors_bind(&s->tensors, s->family, &s->hparams, &s->bundle, &silent, err);
}

static void close_source(source *s)
{
    lam_tensors_free(&s->tensors);
    lam_bundle_close(&s->bundle);
    lam_sentence_free(&s->sentence);
    lam_dir_close(&s->encoder);
    lam_dir_close(&s->root);
}

/* ---- The weights ----------------------------------------------------------------------------- */

typedef struct pieces {
    lam_st_piece *list;
    size_t count;
    char (*names)[LAM_TENSOR_NAME_MAX]; /* of tensors that the source does not hold */
    size_t name_count;
} pieces;

static lam_st_piece *find_piece(pieces *p, const lam_st_entry *e)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->list[i].name == e->name) return &p->list[i];
    return NULL;
}

/* Puts the values where the source has the tensor, in its shape; else behind all others. */
static lam_status put(pieces *p, const source *s, const lam_op *op, lam_norm_tensor t,
                      const float *values, size_t width, lam_err *err)
{
    const char *param = lam_norm_tensor_name(t);
    if (!lam_norm_uses(&op->u.norm.spec, t)) return LAM_OK;
    const lam_tensor *slot = lam__norm_slot(&s->tensors, op->u.norm.module, op->layer, param);
    lam_st_piece *piece = slot && slot->entry ? find_piece(p, slot->entry) : NULL;
    if (!piece) {
        char *name = p->names[p->name_count++];
        LAM_TRY(lam__norm_tensor_path(&s->tensors, &s->hparams, op->u.norm.module, op->layer, t,
                                      name, err));
        piece = &p->list[p->count++];
        *piece =
            (lam_st_piece){.name = name, .name_bytes = strlen(name), .shape = {width}, .rank = 1};
    }
    piece->dtype = LAM_DTYPE_F32;
    piece->bytes = width * sizeof *values;
    piece->data = values;
    return LAM_OK;
}

static void take_source(pieces *p, const source *s)
{
    for (size_t f = 0; f < s->bundle.count; f++)
        for (size_t i = 0; i < s->bundle.files[f].count; i++)
            p->list[p->count++] =
                lam_st_piece_of(&s->bundle.files[f], &s->bundle.files[f].entries[i]);
}

static lam_status fill_pieces(pieces *p, const source *s, const lam_model *m,
                              const lam_new_statistics *n, lam_err *err)
{
    take_source(p, s);
    for (size_t i = 0; i < m->program.norm_count; i++) {
        const lam_op *op = lam__norm_op(m, i);
        const size_t width = m->program.measured->bufs[op->out].width;
        lam_norm_site_view site = {0};
        (void)lam_model_norm_site(m, i, &site);
        if (!site.running) continue;
        LAM_TRY(put(p, s, op, LAM_NORM_TENSOR_MEAN, n->mean[i], width, err));
        LAM_TRY(put(p, s, op, LAM_NORM_TENSOR_SQUARE, n->square[i], width, err));
    }
    return LAM_OK;
}

static lam_status write_weights(const source *s, const lam_model *m, const lam_new_statistics *n,
                                const char *path, lam_err *err)
{
    const size_t more = 2 * m->program.norm_count;
    size_t total = more + 1;
    for (size_t f = 0; f < s->bundle.count; f++)
        total += s->bundle.files[f].count;
    pieces p = {.list = calloc(total, sizeof *p.list), .names = calloc(more + 1, sizeof *p.names)};
    lam_status status = p.list && p.names ? fill_pieces(&p, s, m, n, err)
                                          : lam_fail(err, LAM_E_NOMEM, path, "out of memory");
    if (status == LAM_OK) status = lam_st_write(path, p.list, p.count, "format", "pt", err);
    free(p.list);
    free(p.names);
    return status;
}

/* ---- The directory --------------------------------------------------------------------------- */

static lam_status join(char out[PATH_MAX], const char *a, const char *b, const char *c,
                       lam_err *err)
{
    const int n = snprintf(out, PATH_MAX, "%s%s%s%s%s", a, *b ? "/" : "", b, *c ? "/" : "", c);
    if (n < 0 || n >= PATH_MAX) return lam_fail(err, LAM_E_FILE, a, "path is too long");
    return LAM_OK;
}

static bool any_norm(const lam_model *m, bool running)
{
    lam_norm_site_view v = {0};
    for (size_t i = 0; lam_model_norm_site(m, i, &v); i++)
        if (v.measured && v.running == running) return true;
    return false;
}

static lam_status rename_to(const char *from, const char *to, lam_err *err)
{
    if (rename(from, to) == 0) return LAM_OK;
    return lam_fail(err, LAM_E_FILE, to, "cannot be put in place: %s", strerror(errno));
}

/* Everything is written beside `out` and put in place at the end: there is all of it or none. */
static lam_status write_model(const source *s, const char *path, const char *out,
                              const lam_model *m, const lam_new_statistics *n, lam_err *err)
{
    char partial[PATH_MAX], file[PATH_MAX];
    LAM_TRY(join(partial, out, "", "", err));
    if (strlen(partial) + sizeof ".partial" > sizeof partial)
        return lam_fail(err, LAM_E_FILE, out, "path is too long");
    memcpy(partial + strlen(partial), ".partial", sizeof ".partial");
    LAM_TRY(lam_remove_tree(partial, err));
    LAM_TRY(lam_copy_tree(path, partial, err));
    LAM_TRY(join(file, partial, s->sentence.encoder, "model.safetensors", err));
    LAM_TRY(write_weights(s, m, n, file, err));
    if (any_norm(m, false)) {
        LAM_TRY(join(file, partial, "", lam_profile_name, err));
        LAM_TRY(lam__write_profile(m, s->family, n, file, err));
    }
    return rename_to(partial, out, err);
}

static lam_status write_profile(const source *s, const char *out, const lam_model *m,
                                const lam_new_statistics *n, lam_err *err)
{
    char file[PATH_MAX], partial[PATH_MAX];
    if (mkdir(out, 0777) != 0 && errno != EEXIST)
        return lam_fail(err, LAM_E_FILE, out, "folder cannot be made: %s", strerror(errno));
    LAM_TRY(join(file, out, "", lam_profile_name, err));
    LAM_TRY(join(partial, out, "", ".lamina_profile.partial", err));
    if (unlink(partial) != 0 && errno != ENOENT)
        return lam_fail(err, LAM_E_FILE, partial, "cannot be removed: %s", strerror(errno));
    LAM_TRY(lam__write_profile(m, s->family, n, partial, err));
    return rename_to(partial, file, err);
}

lam_status lam_import_write_calibrated(const char *path, const char *out, const lam_model *m,
                                       const lam_new_statistics *n, lam_err *err)
{
    source s = {.root.fd = -1, .encoder.fd = -1};
    lam_status status = open_source(&s, path, err);
    if (status == LAM_OK && any_norm(m, true))
        status = write_model(&s, path, out, m, n, err);
    else if (status == LAM_OK)
        status = write_profile(&s, out, m, n, err);
    close_source(&s);
    return status;
}
