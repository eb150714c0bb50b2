/* Items -> batches of packed rows -> vectors. */
#include "core/program/context.h"
#include "core/stats/stats.h"

/* The rows of the position table follow from the row as sent. */
static int32_t position_of(const lam_hparams *h, int32_t id, size_t index, int32_t *counted)
{
    if (h->position_rule == LAM_POSITIONS_INDEX) return (int32_t)index;
    if (id == h->pad_id) return h->pad_id;
    return h->pad_id + ++*counted;
}

/* Appends the rows that are not masked. */
static void append(lam_ctx *c, lam_item *item)
{
    const lam_hparams *h = &c->model->hparams;
    int32_t counted = 0;
    lam_sequence *s = &c->sequences[c->sequence_count++];
    *s = (lam_sequence){.first = c->row_count, .rows = item->rows, .item = item};
    for (size_t t = 0; t < item->tokens; t++) {
        const int32_t position = position_of(h, item->ids[t], t, &counted);
        if (item->mask && !item->mask[t]) continue;
        const size_t row = c->row_count++;
        c->ids[row] = item->ids[t];
        c->positions[row] = position;
        c->indices[row] = (int32_t)t;
        c->types[row] = item->types ? item->types[t] : 0;
    }
    if (item->stats) c->any_stats = true;
    if (item->stats && lam__stats_layers(item->stats)) c->any_full = true;
}

/* Whether an item may ride with the one before it. Norms are run on one source a batch; and where
 * they look at the whole batch, that is one request. */
static bool may_join(const lam_ctx *c, const lam_item *item, const lam_item *before)
{
    if (item->opts == before->opts) return true;
    if (item->opts->statistics != before->opts->statistics) return false;
    if (lam__runs_folded(c->model, item->opts) != lam__runs_folded(c->model, before->opts))
        return false;
    return !lam_opts_batch_dependent(c->model, item->opts);
}

/* Takes whole items from the front as long as they fit; returns how many. */
static size_t fill(lam_ctx *c, lam_item *items, size_t count)
{
    c->row_count = c->sequence_count = 0;
    c->any_stats = c->any_full = false;
    size_t taken = 0;
    while (taken < count && c->row_count + items[taken].rows <= c->max_rows) {
        if (taken > 0 && !may_join(c, &items[taken], &items[taken - 1])) break;
        append(c, &items[taken++]);
    }
    return taken;
}

/* Runs items again to say where each has its first non-finite value; the vectors and statuses come
 * out as before. */
static lam_status probe(lam_ctx *c, lam_item *items, size_t count, const lam_stop *stop)
{
    (void)fill(c, items, count);
    c->any_stats = c->any_full = false; /* they have been taken */
    c->probing = true;
    const lam_status status = lam__execute(c, false, stop);
    c->probing = false;
    return status;
}

/* Costs a second pass for items that fail, each alone; for their whole batch where the items decide
 * each other's values; and nothing else. */
static lam_status locate_faults(lam_ctx *c, lam_item *items, size_t count, const lam_stop *stop)
{
    const bool together = lam_opts_batch_dependent(c->model, items[0].opts);
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        const bool failed = items[i].status == LAM_E_NON_FINITE;
        items[i].fault_layer = LAM_LAYER_NONE;
        items[i].fault_site = failed ? LAM_SITE_COUNT : LAM_SITE_FINAL;
        any = any || failed;
        if (failed && !together) LAM_TRY(probe(c, &items[i], 1, stop));
    }
    if (any && together) LAM_TRY(probe(c, items, count, stop));
    for (size_t i = 0; i < count; i++)
        if (items[i].fault_site == LAM_SITE_COUNT) items[i].fault_site = LAM_SITE_FINAL;
    return LAM_OK;
}

lam_status lam_encode(lam_ctx *c, lam_item *items, size_t count, const lam_stop *stop)
{
    for (size_t done = 0; done < count;) {
        const size_t taken = fill(c, items + done, count - done);
        LAM_TRY(lam__execute(c, done + taken == count, stop));
        LAM_TRY(locate_faults(c, items + done, taken, stop));
        done += taken;
    }
    return LAM_OK;
}
