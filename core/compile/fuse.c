#include "core/compile/passes.h"

/* Whether any op but `user` reads buf. */
static bool read_elsewhere(const lam_program *p, lam_buf buf, const lam_op *user)
{
    for (size_t i = 0; i < p->op_count; i++) {
        const lam_op *op = &p->ops[i];
        if (op == user) continue;
        if (op->in == buf) return true;
        if (op->kind == LAM_OP_ADD && op->u.add.other == buf) return true;
        if (op->kind == LAM_OP_LINEAR && op->u.linear.residual == buf) return true;
    }
    return false;
}

/* Lets the linear op take over `next`, if that alone reads its result. A site on the linear's
 * result must stay what it is, the result after the bias: there only a residual may follow. */
static bool absorb(const lam_program *p, lam_op *linear, const lam_op *next)
{
    if (linear->kind != LAM_OP_LINEAR || linear->u.linear.residual != LAM_BUF_NONE) return false;
    if (next->in != linear->out || next->site != LAM_SITE_COUNT) return false;
    if (read_elsewhere(p, linear->out, next)) return false;
    if (next->kind == LAM_OP_ADD) {
        linear->u.linear.residual = next->u.add.other;
        linear->u.linear.residual_scale = next->u.add.scale;
    } else if (next->kind == LAM_OP_ACTIVATE && linear->site == LAM_SITE_COUNT &&
               linear->u.linear.activation == LAM_ACTIVATION_IDENTITY) {
        linear->u.linear.activation = next->u.activation;
    } else {
        return false;
    }
    linear->out = next->out;
    return true;
}

void lam__fuse(lam_program *p)
{
    lam_op *before = NULL;
    for (size_t i = 0; i < p->op_count; i++) {
        lam_op *op = &p->ops[i];
        if (before && absorb(p, before, op)) {
            lam__op_retire(op);
        } else {
            before = op;
        }
    }
    lam__drop(p);
}
