#include "core/compile/passes.h"

void lam__op_retire(lam_op *op)
{
    *op = (lam_op){.kind = LAM_OP_TAP,
                   .layer = LAM_LAYER_NONE,
                   .site = LAM_SITE_COUNT,
                   .slot = LAM_SLOT_NONE,
                   .in = LAM_BUF_NONE,
                   .out = LAM_BUF_NONE};
}

void lam__drop(lam_program *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->op_count; i++) {
        const bool retired = p->ops[i].kind == LAM_OP_TAP && p->ops[i].site == LAM_SITE_COUNT;
        if (!retired) p->ops[kept++] = p->ops[i];
    }
    p->op_count = kept;
}

static uint16_t *slot_of_site(const lam_program *p, size_t layers, size_t layer, lam_site site)
{
    return &p->slots[(layer == LAM_LAYER_NONE ? layers : layer) * LAM_SITE_COUNT + site];
}

size_t lam_program_slot(const lam_program *p, size_t layers, size_t layer, lam_site site)
{
    if (layer != LAM_LAYER_NONE && layer >= layers) return LAM_SLOT_NONE;
    return *slot_of_site(p, layers, layer, site);
}

/* The buffer whose rows are the site's tensor once the op has run; a linear op with a residual
 * leaves it in none. */
static lam_buf tapped_buf(const lam_op *op)
{
    if (op->kind == LAM_OP_TAP) return op->in;
    if (op->kind == LAM_OP_LINEAR && op->u.linear.residual != LAM_BUF_NONE) return LAM_BUF_NONE;
    return op->out;
}

static void number_tap(lam_program *p, lam_op *op, uint16_t *slot_of_buf, size_t layers)
{
    const lam_buf buf = tapped_buf(op);
    uint16_t *site = slot_of_site(p, layers, op->layer, op->site);
    if (buf != LAM_BUF_NONE && slot_of_buf[buf] != LAM_SLOT_NONE) {
        *site = slot_of_buf[buf];
        lam__op_retire(op);
        return;
    }
    const uint16_t slot = (uint16_t)p->slot_count++;
    op->slot = *site = slot;
    p->slot_widths[slot] = p->bufs[buf == LAM_BUF_NONE ? op->out : buf].width;
    if (buf != LAM_BUF_NONE) slot_of_buf[buf] = slot;
}

lam_status lam__number_taps(lam_program *p, size_t layers, lam_arena *arena, lam_err *err)
{
    const size_t sites = (layers + 1) * LAM_SITE_COUNT;
    p->slots = lam_arena_calloc(arena, sites, sizeof *p->slots);
    p->slot_widths = lam_arena_calloc(arena, p->op_count, sizeof *p->slot_widths);
    uint16_t *slot_of_buf = lam_arena_calloc(arena, p->buf_count, sizeof *slot_of_buf);
    if (!p->slots || !p->slot_widths || !slot_of_buf)
        return lam_fail(err, LAM_E_NOMEM, "program", "no memory for the table of sites");
    for (size_t i = 0; i < sites; i++)
        p->slots[i] = LAM_SLOT_NONE;
    for (size_t i = 0; i < p->buf_count; i++)
        slot_of_buf[i] = LAM_SLOT_NONE;
    for (size_t i = 0; i < p->op_count; i++)
        if (p->ops[i].site != LAM_SITE_COUNT) number_tap(p, &p->ops[i], slot_of_buf, layers);
    lam__drop(p);
    return LAM_OK;
}
