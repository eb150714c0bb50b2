/* A norm next to matrices: a fixed affine map into those that read it, W diag(a) and c + W b, or
 * into the one that writes its input, diag(a) W and a c + b; gain and bias of other norms into
 * those that read it. */
#include <math.h>

#include "core/compile/fold.h"

static const char not_asked[] = "not asked for";
static const char far_mean[] = "the running mean is too far from 0: differences would cancel";

static bool asked(const lam__folder *f, lam_fold fold)
{
    return (f->folds >> fold & 1u) != 0;
}

static bool only_matrices(const lam__readers *r)
{
    return r->count > 0 && r->by[LAM_OP_LINEAR] == r->count;
}

/* All readers are matrices. */
static void into_readers(lam__folder *f, const lam_op *op, lam__affine map)
{
    for (size_t i = 0; i < f->list->op_count; i++)
        if (f->list->ops[i].kind == LAM_OP_LINEAR && f->list->ops[i].in == op->out)
            lam__edit_input(f, i, map);
}

static void remove_norm(lam__folder *f, size_t at)
{
    lam_op *op = &f->list->ops[at];
    lam__redirect(f->list, op->out, op->in);
    lam__op_retire(op);
    f->taken = true;
}

static void fold_fixed(lam__folder *f, size_t at, lam_fold fold, size_t writer)
{
    const lam_op *op = &f->list->ops[at];
    double offset;
    const lam__affine map = lam__norm_map(f, op, &offset);
    const char *reason = NULL;
    if (!map.scale) return;
    if (!asked(f, fold)) reason = not_asked;
    /* Behind a matrix the mean is taken from the bias: nothing is lost in the product. */
    else if (fold == LAM_FOLD_READER && offset > LAM__FOLD_MAX_OFFSET)
        reason = far_mean;
    lam__fold_note(f, at, fold, reason, (double)NAN, offset);
    if (reason) return;
    if (fold == LAM_FOLD_READER)
        into_readers(f, op, map);
    else
        lam__edit_output(f, writer, map);
    remove_norm(f, at);
}

/* Why gain and bias of a norm must stay, or NULL. */
static const char *gain_stays(const lam__folder *f, const lam_op *op, const lam__readers *r)
{
    const lam_norm_spec *spec = &op->u.norm.spec;
    if (spec->source == LAM_NORM_FROM_BATCH)
        return "it measures the request: nothing of it is fixed";
    if (spec->source == LAM_NORM_FROM_SEQUENCE)
        return "it measures the sequence: nothing of it is fixed";
    if (!spec->gain && !spec->bias && !lam_norm_uses(spec, LAM_NORM_TENSOR_FACTOR) &&
        spec->source != LAM_NORM_FROM_RUNNING)
        return "it has neither gain nor bias";
    if (r->shortcuts > 0) return "the residual carries the normalized value";
    if (r->by[LAM_OP_ADD] > 0) return "a residual sum reads it, no matrix";
    if (r->by[LAM_OP_ACTIVATE] > 0) return "an activation reads it, no matrix";
    if (!only_matrices(r)) return "no matrix reads it";
    return asked(f, LAM_FOLD_GAIN) ? NULL : not_asked;
}

static void fold_gain(lam__folder *f, size_t at, const lam__readers *r)
{
    const lam_op *op = &f->list->ops[at];
    double offset;
    const lam__affine map = lam__norm_map(f, op, &offset);
    const char *reason = gain_stays(f, op, r);
    if (!map.scale) return;
    if (!reason && offset > LAM__FOLD_MAX_OFFSET) reason = far_mean;
    lam__fold_note(f, at, LAM_FOLD_GAIN, reason, (double)NAN, offset);
    if (reason) return;
    into_readers(f, op, map);
    f->edits[at].bare = true;
}

static void fold_norm(lam__folder *f, size_t at)
{
    const lam_op *op = &f->list->ops[at];
    const lam__readers r = lam__readers_of(f->list, op->out);
    const size_t writer = lam__writer_of(f->list, op->in);
    const bool behind_matrix =
        f->list->ops[writer].kind == LAM_OP_LINEAR && lam__readers_of(f->list, op->in).count == 1;
    if (!lam__norm_is_fixed(&op->u.norm.spec))
        fold_gain(f, at, &r);
    else if (only_matrices(&r))
        fold_fixed(f, at, LAM_FOLD_READER, 0);
    else if (behind_matrix)
        fold_fixed(f, at, LAM_FOLD_WRITER, writer);
}

/* From the end: of two norms in a row the second goes first, and the matrices then read the other.
 */
void lam__fold_neighbours(lam__folder *f)
{
    for (size_t i = f->list->op_count; i-- > 0;)
        if (f->list->ops[i].kind == LAM_OP_NORM) fold_norm(f, i);
}
