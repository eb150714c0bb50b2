/* POST /v1/compare: two sides of one request, and its reply. */
#include <math.h>
#include <string.h>

#include "api/compare.h"
#include "api/reply.h"
#include "api/request.h"

bool api_plan_other(api_draft *d, api_request *out)
{
    lam_err err;
    const lam_model *m = out->model->model;
    if (d->with_source == LAM_NORM_FROM_NONE)
        return api_refuse(d, API_CODE_MISSING_FIELD, api_place_field("with"),
                          "this field is missing: what the other side has");
    out->opts.normalize = false; /* a cosine needs none, and a distance is relative */
    out->other_opts = out->opts;
    out->other_opts.statistics = d->with_source;
    out->tolerance = pow(10.0, d->digits_given ? -(double)d->digits.integer : -5.0);
    out->batch_dependent = out->batch_dependent || lam_opts_batch_dependent(m, &out->other_opts);
    if (lam_encode_opts_check(m, &out->other_opts, &err) == LAM_OK) return true;
    return api_refuse(d, API_CODE_UNSUPPORTED, api_place_field("with/norm/statistics"), "%s",
                      err.message);
}

static bool plan_states(api_draft *d, const api_request *out, lam_item *item)
{
    const lam_model_info *info = lam_model_get_info(out->model->model);
    const size_t values = (info->layers + 1) * item->rows * info->width;
    item->states = lam_arena_alloc_aligned(d->arena, values * sizeof *item->states, 64);
    return item->states ||
           api_refuse_memory(d, values * sizeof *item->states, API_CODE_TOO_MANY_ITEMS);
}

/* Each side is a batch of its own where norms look at all of it. */
static bool check_sides(api_draft *d, const api_request *out)
{
    lam_err err;
    const lam_encode_opts *const sides[] = {&out->opts, &out->other_opts};
    const size_t max = d->env->limits.max_batch_rows / 2;
    for (size_t i = 0; i < 2; i++) {
        const lam_status s = lam_request_check(out->model->model, sides[i], out->rows, max, &err);
        if (s == LAM_OK) continue;
        api_refuse(d, api_code_of_status(s),
                   api_place_field(d->texts.field ? d->texts.field : d->tokens.field), "%s",
                   err.message);
        d->error->has_limit = s == LAM_E_LIMIT;
        d->error->limit = max;
        d->error->actual = out->rows;
        return false;
    }
    return true;
}

/* Norms on batch statistics see each side as one batch; both go through one call of lam_encode,
 * which keeps them apart because their sources differ, or else their options. */
bool api_plan_pairs(api_draft *d, api_request *out)
{
    const size_t count = out->item_count;
    if (!check_sides(d, out)) return false;
    memcpy(out->items + count, out->items, count * sizeof *out->items);
    for (size_t i = 0; i < 2 * count; i++) {
        if (i >= count) out->items[i].opts = &out->other_opts;
        if (!plan_states(d, out, &out->items[i])) return false;
    }
    out->item_count = 2 * count;
    out->rows *= 2;
    return true;
}

void api_compare_reply(const api_request *r, const api_timing *t, api_buffer *b)
{
    const lam_model *m = r->model->model;
    const lam_model_info *info = lam_model_get_info(m);
    const size_t count = r->item_count / 2;
    const api_comparison c = {.model = r->model->name,
                              .a = r->items,
                              .b = r->items + count,
                              .count = count,
                              .layers = info->layers,
                              .width = info->width,
                              .vector = info->width,
                              .tolerance = r->tolerance,
                              .batch_dependent = {lam_opts_batch_dependent(m, &r->opts),
                                                  lam_opts_batch_dependent(m, &r->other_opts)}};
    api_departure list[API_MAX_LAYERS + 1];
    api_comparison_write(&c, list, b);
    if (t) {
        api_put_key(b, "timing", false);
        api_put_timing(b, t);
    }
    api_buffer_put(b, "}", 1);
}
