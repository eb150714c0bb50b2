/* Which statistics a request runs its norms on. */
#include "core/model/model.h"

static const lam_op *next_norm(const lam_model *m, size_t *at)
{
    while (*at < m->program.op_count) {
        const lam_op *op = &m->program.ops[(*at)++];
        if (op->kind == LAM_OP_NORM) return op;
    }
    return NULL;
}

lam_status lam_encode_opts_check(const lam_model *m, const lam_encode_opts *opts, lam_err *err)
{
    const lam_norm_source asked = opts->statistics;
    const char *name = lam_norm_source_name(asked);
    bool any = false;
    if (asked == LAM_NORM_FROM_NONE) return LAM_OK;
    size_t at = 0;
    for (const lam_op *op; (op = next_norm(m, &at)) != NULL;) {
        const lam_norm_spec *spec = &op->u.norm.spec;
        if (!lam_norm_has_source(lam_norm_get_info(spec->kind), asked)) continue;
        any = true;
        if (asked == LAM_NORM_FROM_RUNNING && !op->u.norm.has_running)
            return lam_fail(err, LAM_E_INPUT, "norm.statistics",
                            "the model holds no running statistics");
    }
    if (any) return LAM_OK;
    return lam_fail(err, LAM_E_INPUT, "norm.statistics",
                    "no norm of this model has the source \"%s\"", name);
}

bool lam_opts_batch_dependent(const lam_model *m, const lam_encode_opts *opts)
{
    return opts->statistics == LAM_NORM_FROM_BATCH ||
           (m->program.any_batch && opts->statistics == LAM_NORM_FROM_NONE);
}

lam_status lam_request_check(const lam_model *m, const lam_encode_opts *opts, size_t rows,
                             size_t max_rows, lam_err *err)
{
    if (!lam_opts_batch_dependent(m, opts)) return LAM_OK;
    if (rows > max_rows)
        return lam_fail(err, LAM_E_LIMIT, "request",
                        "%zu tokens; norms on batch statistics see a whole request at once, at "
                        "most %zu tokens",
                        rows, max_rows);
    size_t at = 0;
    for (const lam_op *op; (op = next_norm(m, &at)) != NULL;) {
        const lam_norm_spec *spec = &op->u.norm.spec;
        const bool batch = lam_norm_source_for(spec, opts->statistics) == LAM_NORM_FROM_BATCH;
        if (batch && spec->ddof == 1 && rows == 1)
            return lam_fail(err, LAM_E_INPUT, "request",
                            "a variance over one token cannot be divided by N - 1 (ddof 1)");
    }
    return LAM_OK;
}

bool lam_model_norm(const lam_model *m, size_t index, lam_norm_view *out)
{
    size_t at = 0;
    const lam_op *op = next_norm(m, &at);
    for (; op && index > 0; index--)
        op = next_norm(m, &at);
    if (!op) return false;
    const lam_norm_spec *spec = &op->u.norm.spec;
    *out = (lam_norm_view){.layer = op->layer,
                           .site = lam_hparams_norm(&m->hparams, op->u.norm.module).site,
                           .kind = lam_norm_kind_name(spec->kind),
                           .source = spec->source,
                           .verdict = lam_norm_verdict(spec->source),
                           .has_running = op->u.norm.has_running};
    return true;
}
