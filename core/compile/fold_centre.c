/* Norms of a token that first take its mean away, where all that is ever added to the residual can
 * be made to have mean 0: the mean over the channels is taken from the embedding tables and from
 * the matrices and biases that write the stream. What remains of the norm is that of the root mean
 * square. */
#include <math.h>

#include "core/compile/fold.h"

static bool takes_mean(const lam_norm_spec *spec)
{
    return spec->kind == LAM_NORM_LAYER || spec->kind == LAM_NORM_LAYER_SIMPLE ||
           spec->kind == LAM_NORM_DETACH || spec->kind == LAM_NORM_ADA;
}

/* A norm that is the same for x and x + 1, and whose other half a kernel has. */
static bool becomes_rms(const lam_norm_spec *spec)
{
    return takes_mean(spec) && spec->kind != LAM_NORM_ADA && spec->ddof == 0;
}

static bool on_stream(lam_module m)
{
    return m == LAM_MODULE_ATTENTION_NORM || m == LAM_MODULE_FFN_NORM || m == LAM_MODULE_FINAL_NORM;
}

/* Whether everything that is added to the residual is a matrix's result. */
static bool only_matrices_write(const lam_program *p)
{
    for (size_t i = 0; i < p->op_count; i++)
        if (p->ops[i].kind == LAM_OP_ADD &&
            p->ops[lam__writer_of(p, p->ops[i].in)].kind != LAM_OP_LINEAR)
            return false;
    return true;
}

/* Why the mean must stay, or NULL. */
static const char *stays(const lam__folder *f)
{
    const lam_hparams *h = f->h;
    if (lam_placement_is_post(h->placement)) return "the residual carries the normalized value";
    if (h->placement == LAM_PLACEMENT_NONE) return "matrices read the residual as it is";
    if (h->embedding_norm.kind != LAM_NORM_ABSENT) return "a norm writes the residual";
    if (h->final_norm.kind == LAM_NORM_ABSENT) return "the vectors read the residual as it is";
    if (!becomes_rms(&h->attention_norm) || !becomes_rms(&h->ffn_norm) ||
        !becomes_rms(&h->final_norm))
        return "not every norm that reads the residual is one of mean and root mean square";
    if (!only_matrices_write(f->list)) return "a norm writes the residual";
    return f->folds >> LAM_FOLD_CENTRE & 1u ? NULL : "not asked for";
}

static void centre(lam__folder *f, size_t at)
{
    lam_op *op = &f->list->ops[at];
    switch (op->kind) {
    case LAM_OP_NORM:
        if (on_stream(op->u.norm.module)) op->u.norm.spec.kind = LAM_NORM_RMS;
        break;
    case LAM_OP_EMBED:
        f->edits[at].centre = !f->h->embedding_projected;
        break;
    case LAM_OP_LINEAR: /* what leads from the embedding to the stream; the others are ADD's */
        if (op->layer == LAM_LAYER_NONE) f->edits[at].centre = true;
        break;
    case LAM_OP_ADD:
        f->edits[lam__writer_of(f->list, op->in)].centre = true;
        break;
    case LAM_OP_STATE: /* the residual of a layer in between has its mean */
        if (op->u.state_index < f->h->layers) lam__op_retire(op);
        break;
    case LAM_OP_ATTENTION:
    case LAM_OP_ACTIVATE:
    case LAM_OP_TAP:
    case LAM_OP_MEASURE:
    case LAM_OP_COUNT:
        break;
    }
}

void lam__fold_centre(lam__folder *f)
{
    const char *reason = stays(f);
    for (size_t i = 0; i < f->list->op_count; i++) {
        const lam_op *op = &f->list->ops[i];
        if (op->kind != LAM_OP_NORM || !takes_mean(&op->u.norm.spec)) continue;
        const bool other = !on_stream(op->u.norm.module);
        lam__fold_note(f, i, LAM_FOLD_CENTRE, other ? "it does not read the residual" : reason,
                       (double)NAN, (double)NAN);
    }
    if (reason) return;
    for (size_t i = 0; i < f->list->op_count; i++)
        centre(f, i);
    f->taken = true;
}
