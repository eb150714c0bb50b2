/* lamina_profile.safetensors: mean and variance of what norms without running tensors normalize,
 * channel by channel, as "<path of the norm>.mean" and ".variance". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/import/calibrated.h"
#include "core/import/st_writer.h"
#include "core/model/model.h"
#include "core/stats/norm_inputs.h"

const char lam_profile_name[] = "lamina_profile.safetensors";

static void name_of(char out[LAM_TENSOR_NAME_MAX], const lam_family *family, const lam_op *op,
                    const char *param)
{
    const lam_tensor_row row = {.name = lam__norm_path(family, op->u.norm.module), .param = param};
    lam_tensor_row_name(out, &row, "", op->layer, false);
}

static bool has_profile(const lam_model *m, size_t norm)
{
    lam_norm_site_view v = {0};
    return lam_model_norm_site(m, norm, &v) && v.measured && !v.running;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static lam_status read_one(lam_model *m, const lam_safetensors *st, const char *name, size_t width,
                           const float **out, lam_err *err)
{
    const lam_st_entry *e = lam_safetensors_find(st, name, strlen(name));
    if (!e)
        return lam_fail_in(err, LAM_E_WEIGHTS, st->file.name, name,
                           "tensor is missing; the profile is of another model");
    if (e->rank != 1 || e->shape[0] != width)
        return lam_fail_in(err, LAM_E_WEIGHTS, st->file.name, name,
                           "must have shape [%zu]; the profile is of another model", width);
    float *values = lam_arena_calloc(&m->arena, width, sizeof *values);
    if (!values) return lam_fail(err, LAM_E_NOMEM, st->file.name, "out of memory");
    LAM_TRY(lam_safetensors_read(st, e, values, width, err));
    *out = values;
    return LAM_OK;
}

static lam_status read_norm(lam_model *m, const lam_safetensors *st, const lam_family *family,
                            size_t norm, lam_err *err)
{
    const lam_op *op = lam__norm_op(m, norm);
    const size_t width = m->program.measured->bufs[op->out].width;
    lam_norm_profile *p = &m->profile[norm];
    char name[LAM_TENSOR_NAME_MAX];
    name_of(name, family, op, "mean");
    LAM_TRY(read_one(m, st, name, width, &p->mean, err));
    name_of(name, family, op, "variance");
    LAM_TRY(read_one(m, st, name, width, &p->variance, err));
    for (size_t c = 0; c < width; c++)
        if (p->variance[c] < 0.0f)
            return lam_fail_in(err, LAM_E_WEIGHTS, st->file.name, name, "value %zu is negative", c);
    return LAM_OK;
}

lam_status lam__read_profile(lam_model *m, const lam_dir *d, const lam_family *family, lam_err *err)
{
    lam_safetensors st;
    if (!lam_dir_has(d, lam_profile_name)) return LAM_OK;
    m->profile = lam_arena_calloc(&m->arena, m->program.norm_count + 1, sizeof *m->profile);
    if (!m->profile) return lam_fail(err, LAM_E_NOMEM, lam_profile_name, "out of memory");
    LAM_TRY(lam_safetensors_open(&st, d, lam_profile_name, err));
    lam_status s = LAM_OK;
    for (size_t i = 0; i < m->program.norm_count && s == LAM_OK; i++)
        if (has_profile(m, i)) s = read_norm(m, &st, family, i, err);
    lam_safetensors_close(&st);
    return s;
}

/* ---- Writing --------------------------------------------------------------------------------- */

typedef struct texts {
    char mean[LAM_TENSOR_NAME_MAX], variance[LAM_TENSOR_NAME_MAX];
} texts;

static lam_st_piece piece(const char *name, const float *values, size_t width)
{
    return (lam_st_piece){.name = name,
                          .name_bytes = strlen(name),
                          .dtype = LAM_DTYPE_F32,
                          .shape = {width},
                          .rank = 1,
                          .bytes = width * sizeof *values,
                          .data = values};
}

static lam_status write_norms(const lam_model *m, const lam_family *family,
                              const lam_new_statistics *s, const char *path, texts *names,
                              lam_st_piece *pieces, lam_err *err)
{
    size_t count = 0;
    for (size_t i = 0; i < m->program.norm_count; i++) {
        const lam_op *op = lam__norm_op(m, i);
        const size_t width = m->program.measured->bufs[op->out].width;
        if (!has_profile(m, i)) continue;
        name_of(names[i].mean, family, op, "mean");
        name_of(names[i].variance, family, op, "variance");
        pieces[count++] = piece(names[i].mean, s->mean[i], width);
        pieces[count++] = piece(names[i].variance, s->square[i], width);
    }
    return lam_st_write(path, pieces, count, "lamina_profile", "1", err);
}

lam_status lam__write_profile(const lam_model *m, const lam_family *family,
                              const lam_new_statistics *s, const char *path, lam_err *err)
{
    const size_t norms = m->program.norm_count;
    texts *names = calloc(norms + 1, sizeof *names);
    lam_st_piece *pieces = calloc(2 * norms + 1, sizeof *pieces);
    lam_status status = LAM_E_NOMEM;
    if (names && pieces)
        status = write_norms(m, family, s, path, names, pieces, err);
    else
        (void)lam_fail(err, status, path, "out of memory");
    free(names);
    free(pieces);
    return status;
}
