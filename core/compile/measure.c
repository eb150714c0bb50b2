/* The plain list and the measured one. */
#include <string.h>

#include "core/compile/passes.h"

static void *copy(lam_arena *arena, const void *from, size_t count, size_t size)
{
    void *to = lam_arena_calloc(arena, count, size);
    if (to && count > 0) memcpy(to, from, count * size);
    return to;
}

lam_status lam__part_measured(lam_program *p, lam_arena *arena, lam_err *err)
{
    lam_program *m = copy(arena, p, 1, sizeof *p);
    if (m) m->ops = copy(arena, p->ops, p->op_count, sizeof *p->ops);
    if (m) m->bufs = copy(arena, p->bufs, p->buf_count, sizeof *p->bufs);
    if (!m || !m->ops || !m->bufs)
        return lam_fail(err, LAM_E_NOMEM, "program", "no memory for the op list");
    for (size_t i = 0; i < p->op_count; i++)
        if (p->ops[i].kind == LAM_OP_MEASURE) lam__op_retire(&p->ops[i]);
    lam__drop(p);
    p->measured = m;
    return LAM_OK;
}
