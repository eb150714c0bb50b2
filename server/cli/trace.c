#include "server/cli/trace.h"

#include <float.h>
#include <math.h>
#include <string.h>

lam_status cli_sites_of(cli_sites *out, const lam_model *m, lam_arena *arena, lam_err *err)
{
    const lam_program *p = lam_model_program(m);
    *out = (cli_sites){.count = p->slot_count};
    out->at = lam_arena_calloc(arena, p->slot_count + 1, sizeof *out->at);
    if (!out->at) return lam_fail(err, LAM_E_NOMEM, "sites", "no memory for their list");
    for (size_t i = 0; i < p->op_count; i++) {
        const lam_op *op = &p->ops[i];
        if (op->slot == LAM_SLOT_NONE) continue;
        out->at[op->slot].layer = op->layer;
        out->at[op->slot].site = op->site;
    }
    for (size_t i = 0; i < p->slot_count; i++) {
        out->at[i].width = p->slot_widths[i];
        out->at[i].before = out->row_floats;
        out->row_floats += p->slot_widths[i];
    }
    return LAM_OK;
}

lam_status cli_trace_new(cli_trace *t, const cli_sites *sites, size_t capacity, lam_arena *arena,
                         lam_err *err)
{
    *t = (cli_trace){.sites = sites, .capacity = capacity};
    t->data = lam_arena_calloc(arena, capacity * sites->row_floats, sizeof *t->data);
    if (t->data) return LAM_OK;
    return lam_fail(err, LAM_E_NOMEM, "sites", "no memory for %zu rows of %zu numbers", capacity,
                    sites->row_floats);
}

static void keep(void *arg, size_t slot, const float *x, size_t stride, size_t rows)
{
    cli_trace *t = arg;
    const cli_site *s = &t->sites->at[slot];
    float *to = t->data + s->before * t->capacity + t->rows * s->width;
    for (size_t r = 0; r < rows && t->rows + r < t->capacity; r++)
        memcpy(to + r * s->width, x + r * stride, s->width * sizeof *x);
}

lam_status cli_trace_run(cli_trace *t, lam_ctx *ctx, lam_item *items, size_t count, lam_err *err)
{
    const lam_watch watch = {.see = keep, .arg = t};
    lam__ctx_watch(ctx, &watch);
    const lam_status status = lam_encode(ctx, items, count, NULL);
    lam__ctx_watch(ctx, NULL);
    if (status != LAM_OK) return lam_fail(err, status, "encode", "%s", lam_status_text(status));
    for (size_t i = 0; i < count; i++) {
        t->rows += items[i].rows;
        if (items[i].status == LAM_OK) continue;
        return lam_fail(err, items[i].status, "encode", "item %zu: %s, first at site %s",
                        items[i].index, lam_status_text(items[i].status),
                        lam_site_name(items[i].fault_site));
    }
    return LAM_OK;
}

double cli_largest_difference(const float *a, const float *b, size_t n)
{
    double largest = 0.0;
    if (memcmp(a, b, n * sizeof *a) == 0) return 0.0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);
        if (!isfinite(d)) return (double)INFINITY;
        if (d > largest) largest = d;
    }
    return largest > 0.0 ? largest : DBL_MIN; /* zeros of other signs */
}

double cli_relative_distance(const float *a, const float *b, size_t n)
{
    double off = 0.0, length = 0.0;
    if (memcmp(a, b, n * sizeof *a) == 0) return 0.0;
    for (size_t i = 0; i < n; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        length += (double)b[i] * (double)b[i];
    }
    return length > 0.0 ? sqrt(off / length) : (double)INFINITY;
}

void cli_trace_compare(const cli_trace *a, size_t a_row, const cli_trace *b, size_t b_row,
                       size_t rows, cli_parting *parting)
{
    cli_parting p = {.compared = rows};
    for (size_t i = 0; i < a->sites->count; i++) {
        const size_t width = a->sites->at[i].width;
        const double d = cli_largest_difference(cli_trace_site(a, i) + a_row * width,
                                                cli_trace_site(b, i) + b_row * width, rows * width);
        if (d == 0.0) continue;
        if (!p.differs) p.first_site = i, p.first_largest = d;
        if (!p.differs || d > p.largest) p.largest_site = i, p.largest = d;
        p.differs = true;
    }
    cli_parting_merge(parting, &p);
}

void cli_parting_merge(cli_parting *into, const cli_parting *from)
{
    into->compared += from->compared;
    if (!from->differs) return;
    if (!into->differs || from->first_site < into->first_site)
        into->first_site = from->first_site, into->first_largest = from->first_largest;
    else if (from->first_site == into->first_site && from->first_largest > into->first_largest)
        into->first_largest = from->first_largest;
    if (!into->differs || from->largest > into->largest)
        into->largest_site = from->largest_site, into->largest = from->largest;
    into->differs = true;
}
