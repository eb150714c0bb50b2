/* Validation of one item against the model: after it, the executor checks nothing. */
#include "core/model/model.h"

static lam_status blame(lam_err *err, lam_status status, size_t token, size_t *at, const char *what)
{
    if (at) *at = token;
    return lam_fail(err, status, "item", "token %zu: %s", token, what);
}

static lam_status check_mask(lam_item *item, size_t *at, lam_err *err)
{
    item->rows = item->tokens;
    if (!item->mask) return LAM_OK;
    item->rows = 0;
    for (size_t t = 0; t < item->tokens; t++) {
        if (item->mask[t] > 1) return blame(err, LAM_E_MASK, t, at, "mask is neither 0 nor 1");
        item->rows += item->mask[t];
    }
    if (item->rows == 0) return blame(err, LAM_E_MASK, 0, at, "every token is masked");
    return LAM_OK;
}

/* ddof 1 needs two values. */
static lam_status check_count(const lam_model *m, const lam_item *item, lam_err *err)
{
    const lam_norm_source asked = item->opts ? item->opts->statistics : LAM_NORM_FROM_NONE;
    for (size_t i = 0; m->program.any_ddof && i < m->program.op_count; i++) {
        const lam_op *op = &m->program.ops[i];
        if (op->kind != LAM_OP_NORM || op->u.norm.spec.ddof == 0) continue;
        const lam_norm_spec *spec = &op->u.norm.spec;
        const lam_norm_source source = lam_norm_source_for(spec, asked);
        if (source == LAM_NORM_FROM_BATCH) continue; /* lam_request_check's */
        if (lam_norm_count(spec, source, m->program.bufs[op->out].width, item->rows) == 1)
            return lam_fail(err, LAM_E_INPUT, "item",
                            "a variance over one value cannot be divided by N - 1 (ddof 1)");
    }
    return LAM_OK;
}

lam_status lam_item_check(const lam_model *m, lam_item *item, size_t *at, lam_err *err)
{
    const lam_model_info *info = &m->info;
    if (at) *at = 0;
    if (item->tokens == 0) return lam_fail(err, LAM_E_EMPTY, "item", "no tokens");
    if (item->tokens > info->positions)
        return lam_fail(err, LAM_E_TOO_LONG, "item", "%zu tokens, at most %zu", item->tokens,
                        info->positions);
    const size_t types = info->types ? info->types : 1;
    for (size_t t = 0; t < item->tokens; t++) {
        /* A negative id is a huge unsigned one. */
        if ((size_t)(uint32_t)item->ids[t] >= info->vocab)
            return blame(err, LAM_E_ID_RANGE, t, at, "id is outside the vocabulary");
        if (item->types && (size_t)(uint32_t)item->types[t] >= types)
            return blame(err, LAM_E_TYPE_RANGE, t, at, "type is outside the model's types");
    }
    LAM_TRY(check_mask(item, at, err));
    return check_count(m, item, err);
}
