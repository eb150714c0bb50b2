#include "core/program/context.h"

#include <stdlib.h>

#include "core/base/checked.h"

/* Pieces of a context, one after another; a NULL base only measures. */
typedef struct layout {
    char *base;
    size_t bytes;
    bool overflow;
} layout;

static void *piece(layout *l, size_t count, size_t each, size_t size)
{
    size_t values, bytes;
    const size_t start = l->bytes;
    if (!lam_mul_size(count, each, &values) || !lam_mul_size(values, size, &bytes) ||
        !lam_round_up_size(bytes, 64, &bytes) || !lam_add_size(start, bytes, &l->bytes))
        l->overflow = true;
    return l->base ? l->base + start : NULL;
}

static size_t attention_floats(const lam_model *m)
{
    const lam_program *p = &m->program;
    size_t most = 0;
    for (size_t i = 0; i < p->op_count; i++) {
        if (p->ops[i].kind != LAM_OP_ATTENTION) continue;
        const size_t floats =
            m->kernels.attention_scratch(&p->ops[i].u.attention.shape, m->info.positions);
        if (floats > most) most = floats;
    }
    return most;
}

static size_t widest_norm(const lam_program *p)
{
    size_t most = 0;
    for (size_t i = 0; i < p->op_count; i++) {
        if (p->ops[i].kind != LAM_OP_NORM) continue;
        const size_t stride = lam_row_stride(p->bufs[p->ops[i].out].width);
        if (stride > most) most = stride;
    }
    return most;
}

static void lay_out(lam_ctx *c, layout *l, const lam_model *m, size_t max_rows)
{
    const lam_program *p = &m->program;
    const lam_program *const lists[] = {p, p->measured, p->folded};
    size_t row_floats = 0;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i] && lists[i]->row_floats > row_floats) row_floats = lists[i]->row_floats;
    c->rows = piece(l, max_rows, row_floats, sizeof *c->rows);
    c->tap = piece(l, max_rows, lam_row_stride(p->tap_width), sizeof *c->tap);
    c->norm_sums = piece(l, widest_norm(p), 2, sizeof *c->norm_sums);
    c->norm_affine = piece(l, widest_norm(p), 3, sizeof *c->norm_affine);
    c->attention = piece(l, attention_floats(m), 1, sizeof *c->attention);
    c->ids = piece(l, max_rows, 1, sizeof *c->ids);
    c->positions = piece(l, max_rows, 1, sizeof *c->positions);
    c->indices = piece(l, max_rows, 1, sizeof *c->indices);
    c->types = piece(l, max_rows, 1, sizeof *c->types);
    c->sequences = piece(l, max_rows, 1, sizeof *c->sequences);
}

lam_status lam_ctx_bytes(const lam_model *m, size_t max_rows, size_t *bytes, lam_err *err)
{
    if (max_rows < m->info.positions)
        return lam_fail(err, LAM_E_LIMIT, "max_batch_tokens", "%zu rows hold no item of %zu tokens",
                        max_rows, m->info.positions);
    lam_ctx measured = {0};
    layout l = {0};
    lay_out(&measured, &l, m, max_rows);
    if (l.overflow || !lam_add_size(l.bytes, sizeof measured, bytes))
        return lam_fail(err, LAM_E_LIMIT, "max_batch_tokens", "%zu rows are too many", max_rows);
    return LAM_OK;
}

lam_status lam_ctx_new(lam_ctx **out, const lam_model *m, size_t max_rows, lam_err *err)
{
    *out = NULL;
    size_t bytes = 0;
    LAM_TRY(lam_ctx_bytes(m, max_rows, &bytes, err));
    lam_ctx *c = calloc(1, sizeof *c);
    if (!c || !lam_block_map(&c->block, bytes)) {
        lam_ctx_free(c);
        return lam_fail(err, LAM_E_NOMEM, "context", "%zu bytes for %zu rows", bytes, max_rows);
    }
    layout l = {.base = c->block.data};
    lay_out(c, &l, m, max_rows);
    c->model = m;
    c->max_rows = max_rows;
    *out = c;
    return LAM_OK;
}

void lam_ctx_free(lam_ctx *c)
{
    if (!c) return;
    lam_block_unmap(&c->block);
    free(c);
}

void lam__ctx_watch(lam_ctx *c, const lam_watch *w)
{
    c->watch = w;
}

void lam_ctx_measure(lam_ctx *c, lam_norm_inputs *p, const lam_norm_values *v)
{
    c->inputs = p;
    c->values = v;
}

bool lam_ctx_measures(const lam_ctx *c)
{
    return c->inputs != NULL;
}
