#include "core/tokenizer/text.h"

#include <string.h>

#include "core/base/checked.h"

void *lam__grow(lam_arena *arena, const void *old, size_t old_bytes, size_t new_bytes)
{
    void *p = lam_arena_alloc(arena, new_bytes);
    if (p && old_bytes > 0) memcpy(p, old, old_bytes);
    return p;
}

static lam_status resize(lam__tokens *t, size_t capacity)
{
    size_t bytes;
    if (!lam_mul_size(capacity, sizeof *t->spans, &bytes)) return LAM_E_NOMEM;
    t->ids = lam__grow(t->arena, t->ids, t->count * sizeof *t->ids, capacity * sizeof *t->ids);
    if (!t->ids) return LAM_E_NOMEM;
    if (t->want_spans) {
        t->spans = lam__grow(t->arena, t->spans, t->count * sizeof *t->spans, bytes);
        if (!t->spans) return LAM_E_NOMEM;
    }
    t->capacity = capacity;
    return LAM_OK;
}

lam_status lam__tokens_init(lam__tokens *t, lam_arena *arena, size_t capacity, bool want_spans)
{
    *t = (lam__tokens){.arena = arena, .want_spans = want_spans};
    return resize(t, capacity);
}

lam_status lam__tokens_grow(lam__tokens *t)
{
    return resize(t, t->capacity * 2 + 64);
}
