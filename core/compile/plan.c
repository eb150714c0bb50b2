/* Where each buffer stands. A row of the arena holds all buffers alive at once, side by side; a
 * buffer's place is free again after the last op that reads it. */
#include "core/compile/passes.h"

static void read_at(lam_program *p, lam_buf buf, size_t op)
{
    if (buf != LAM_BUF_NONE) p->bufs[buf].last = op;
}

static lam_buf second_input(const lam_op *op)
{
    if (op->kind == LAM_OP_ADD) return op->u.add.other;
    if (op->kind == LAM_OP_LINEAR) return op->u.linear.residual;
    if (op->kind == LAM_OP_MEASURE) return op->u.measure.other;
    return LAM_BUF_NONE;
}

static void find_lifetimes(lam_program *p)
{
    for (size_t i = 0; i < p->op_count; i++) {
        const lam_op *op = &p->ops[i];
        if (op->out != LAM_BUF_NONE) p->bufs[op->out].first = p->bufs[op->out].last = i;
        read_at(p, op->in, i);
        read_at(p, second_input(op), i);
    }
}

/* The input whose memory the op may overwrite with its result (kernels.h says which may alias). */
static lam_buf overwritable(const lam_op *op)
{
    switch (op->kind) {
    case LAM_OP_NORM:
    case LAM_OP_ACTIVATE:
    case LAM_OP_ADD:
        return op->in;
    case LAM_OP_LINEAR:
        return op->u.linear.residual;
    case LAM_OP_EMBED:
    case LAM_OP_ATTENTION:
    case LAM_OP_TAP:
    case LAM_OP_MEASURE:
    case LAM_OP_STATE:
    case LAM_OP_COUNT:
        break;
    }
    return LAM_BUF_NONE;
}

/* Lowest offset at which `floats` fit beside every buffer that op number `at` needs. */
static size_t first_fit(const lam_program *p, size_t at, size_t floats)
{
    size_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < p->buf_count; i++) {
            const lam_buf_info *b = &p->bufs[i];
            const size_t end = b->row_offset + lam_row_stride(b->width);
            const bool alive = b->first < at && b->last >= at;
            if (alive && offset < end && b->row_offset < offset + floats) {
                offset = end;
                moved = true;
            }
        }
    }
    return offset;
}

static void place_result(lam_program *p, size_t at)
{
    const lam_op *op = &p->ops[at];
    lam_buf_info *out = &p->bufs[op->out];
    const size_t floats = lam_row_stride(out->width);
    const lam_buf candidate = overwritable(op);
    const lam_buf_info *old = candidate == LAM_BUF_NONE ? NULL : &p->bufs[candidate];
    if (old && old->last == at && lam_row_stride(old->width) == floats) {
        out->row_offset = old->row_offset;
    } else {
        out->row_offset = first_fit(p, at, floats);
    }
    if (out->row_offset + floats > p->row_floats) p->row_floats = out->row_offset + floats;
}

void lam__plan(lam_program *p)
{
    find_lifetimes(p);
    for (size_t i = 0; i < p->op_count; i++) {
        const lam_op *op = &p->ops[i];
        if (op->out != LAM_BUF_NONE) place_result(p, i);
        if (op->kind == LAM_OP_LINEAR) p->last_linear = i;
        const bool split = op->kind == LAM_OP_LINEAR && op->slot != LAM_SLOT_NONE &&
                           second_input(op) != LAM_BUF_NONE;
        if (split && p->bufs[op->out].width > p->tap_width) p->tap_width = p->bufs[op->out].width;
    }
}
