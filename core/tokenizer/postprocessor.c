#include "core/tokenizer/postprocessor.h"

#include <stdio.h>
#include <string.h>

#include "core/base/checked.h"

static lam_status build_template(lam__template *out, const lam__template_spec *from, size_t texts,
                                 const char *where, lam_arena *arena, lam_err *err)
{
    lam__template_item *items = lam_arena_calloc(arena, from->count, sizeof *items);
    if (!items) return LAM_E_NOMEM;
    size_t seen[2] = {0, 0};
    *out = (lam__template){.items = items, .count = from->count};
    for (size_t i = 0; i < from->count; i++) {
        items[i] = from->items[i];
        if (items[i].kind == LAM__TEMPLATE_SPECIAL)
            out->specials++;
        else
            seen[items[i].kind == LAM__TEMPLATE_SECOND]++;
    }
    if (seen[0] == 1 && seen[1] == texts - 1) return LAM_OK;
    return lam_fail(err, LAM_E_UNSUPPORTED, where,
                    "each text stands once in a template; here A stands %zu and B %zu times",
                    seen[0], seen[1]);
}

lam_status lam__postprocessor_build(lam__postprocessor *out, const lam__tokenizer_spec *spec,
                                    lam_arena *arena, lam_err *err)
{
    char where[200];
    for (size_t i = 0; i < 2; i++) {
        snprintf(where, sizeof where, "%s: post_processor.single", spec->file);
        LAM_TRY(build_template(&out->single[i], &spec->single[i], 1, where, arena, err));
        snprintf(where, sizeof where, "%s: post_processor.pair", spec->file);
        LAM_TRY(build_template(&out->pair[i], &spec->pair[i], 2, where, arena, err));
    }
    return LAM_OK;
}

/* The reference's longest_first: both are cut only when neither fits in half. */
static void cut_longest(const size_t lengths[2], bool pair, size_t max, lam__kept kept[2])
{
    if (!pair) {
        kept[0].count = max;
        return;
    }
    const size_t longer = lengths[0] > lengths[1] ? 0 : 1;
    size_t n1 = lengths[1 - longer];
    size_t n2 = max > 2 * n1 ? max - n1 : n1;
    if (n1 + n2 > max) {
        n1 = max / 2;
        n2 = n1 + max % 2;
    }
    kept[1 - longer].count = n1;
    kept[longer].count = n2;
}

bool lam__truncate(const size_t lengths[2], bool pair, size_t max, lam_truncate_strategy strategy,
                   lam_truncate_side side, lam__kept kept[2])
{
    kept[0] = (lam__kept){0, lengths[0]};
    kept[1] = (lam__kept){0, lengths[1]};
    const size_t total = lengths[0] + lengths[1];
    if (total <= max) return true;
    const size_t only = strategy == LAM_TRUNCATE_ONLY_SECOND;
    if (max == 0) {
        kept[0].count = kept[1].count = 0;
    } else if (strategy == LAM_TRUNCATE_LONGEST_FIRST) {
        cut_longest(lengths, pair, max, kept);
    } else {
        if ((only == 1 && !pair) || lengths[only] <= total - max) return false;
        kept[only].count = lengths[only] - (total - max);
    }
    for (size_t i = 0; i < 2 && side == LAM_TRUNCATE_LEFT; i++) {
        kept[i].first = lengths[i] - kept[i].count;
    }
    return true;
}

static lam_status allocate(lam_encoding *out, size_t count, bool want_offsets, lam_arena *arena)
{
    size_t bytes;
    if (!lam_mul_size(count, sizeof *out->offsets, &bytes)) return LAM_E_NOMEM;
    out->count = count;
    out->ids = lam_arena_alloc(arena, count * sizeof *out->ids);
    out->type_ids = lam_arena_alloc(arena, count * sizeof *out->type_ids);
    out->offsets = want_offsets ? lam_arena_alloc(arena, bytes) : NULL;
    return out->ids && out->type_ids && (out->offsets || !want_offsets) ? LAM_OK : LAM_E_NOMEM;
}

lam_status lam__template_apply(const lam__template *t, const lam__tokens texts[2],
                               const lam__kept kept[2], bool want_offsets, lam_arena *arena,
                               lam_encoding *out)
{
    LAM_TRY(allocate(out, t->specials + kept[0].count + kept[1].count, want_offsets, arena));
    size_t at = 0;
    for (size_t i = 0; i < t->count; i++) {
        const lam__template_item *const item = &t->items[i];
        if (item->kind == LAM__TEMPLATE_SPECIAL) {
            out->ids[at] = item->id;
            out->type_ids[at] = item->type_id;
            if (out->offsets) out->offsets[at] = (lam_span){0, 0};
            at++;
            continue;
        }
        const size_t which = item->kind == LAM__TEMPLATE_SECOND;
        const lam__tokens *const from = &texts[which];
        const size_t first = kept[which].first, n = kept[which].count;
        if (n > 0) memcpy(out->ids + at, from->ids + first, n * sizeof *out->ids);
        for (size_t j = 0; j < n; j++)
            out->type_ids[at + j] = item->type_id;
        for (size_t j = 0; out->offsets && j < n; j++) {
            out->offsets[at + j] =
                (lam_span){from->spans[first + j].start, from->spans[first + j].end};
        }
        at += n;
    }
    return LAM_OK;
}
