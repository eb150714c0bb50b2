#include "core/tokenizer/norm_out.h"

#include <string.h>

#include "core/base/utf8.h"

/* More than any one source character makes: 2 spaces and 4 code points, each lowered to 3. */
enum { SLACK = 64, FEW_MARKS = 16, CLASSES = 256 };

lam_status lam__norm_out_init(lam__norm_out *o, const lam__text *in, bool want_origins,
                              lam_arena *arena)
{
    *o = (lam__norm_out){.arena = arena, .in = in, .want_origins = want_origins};
    o->capacity = in->n + in->n / 8 + 2 * (size_t)SLACK;
    o->bytes = lam_arena_alloc(arena, o->capacity);
    if (want_origins && in->origins) {
        o->origins = lam_arena_alloc(arena, o->capacity * sizeof *o->origins);
        if (!o->origins) return LAM_E_NOMEM;
    }
    return o->bytes ? LAM_OK : LAM_E_NOMEM;
}

static bool fail(lam__norm_out *o, lam_status status)
{
    if (o->status == LAM_OK) o->status = status;
    return false;
}

static bool grow(lam__norm_out *o, size_t needed)
{
    const size_t capacity = needed + needed / 2 + SLACK;
    if (capacity > UINT32_MAX) return fail(o, LAM_E_NOMEM);
    char *bytes = lam__grow(o->arena, o->bytes, o->n, capacity);
    if (!bytes) return fail(o, LAM_E_NOMEM);
    if (o->origins) {
        lam__origin *origins =
            lam__grow(o->arena, o->origins, o->n * sizeof *origins, capacity * sizeof *origins);
        if (!origins) return fail(o, LAM_E_NOMEM);
        o->origins = origins;
    }
    o->bytes = bytes;
    o->capacity = capacity;
    return true;
}

bool lam__norm_out_reserve(lam__norm_out *o, size_t bytes)
{
    if (o->status != LAM_OK) return false;
    return o->capacity - o->n >= bytes || grow(o, o->n + bytes);
}

/* Up to here every byte stands where it stood; writes that down, since it ends. */
static bool move_begins(lam__norm_out *o)
{
    o->origins = lam_arena_alloc(o->arena, o->capacity * sizeof *o->origins);
    if (!o->origins) return fail(o, LAM_E_NOMEM);
    for (size_t at = 0; at < o->n;) {
        uint32_t cp;
        const size_t bytes = lam_utf8_decode(o->bytes + at, &cp);
        const uint32_t start = (uint32_t)(o->in->base + at);
        for (size_t i = 0; i < bytes; i++) {
            o->origins[at + i] = (lam__origin){start, start + (uint32_t)bytes};
        }
        at += bytes;
    }
    return true;
}

void lam__norm_out_put(lam__norm_out *o, uint32_t code_point, lam__origin from)
{
    if (!lam__norm_out_reserve(o, 4)) return;
    const size_t bytes = lam_utf8_encode(code_point, o->bytes + o->n);
    if (o->want_origins) {
        const bool moved = from.start != o->in->base + o->n || from.end - from.start != bytes;
        if (moved && !o->origins && !move_begins(o)) return;
        if (o->origins) {
            for (size_t i = 0; i < bytes; i++)
                o->origins[o->n + i] = from;
        }
    }
    o->n += bytes;
}

size_t lam__norm_out_plain(lam__norm_out *o, const uint8_t *plain, size_t at, size_t end)
{
    const unsigned char *from = (const unsigned char *)o->in->bytes + at;
    unsigned char *to = (unsigned char *)o->bytes + o->n;
    size_t n = 0;
    for (; n < end - at && plain[from[n]] != LAM__NORM_STOP; n++)
        to[n] = plain[from[n]];
    if (n > 0 && o->want_origins) {
        if (!o->origins && at != o->n && !move_begins(o)) return n;
        if (o->origins) {
            for (size_t i = 0; i < n; i++)
                o->origins[o->n + i] = lam__text_origin(o->in, at + i, 1);
        }
    }
    o->n += n;
    return n;
}

void lam__norm_out_emit(lam__norm_out *o, uint32_t code_point, uint32_t flags, lam__origin from)
{
    if (flags & o->dropped) return;
    if (!o->lowercase || !(flags & LAM__UNICODE_LOWER)) {
        lam__norm_out_put(o, code_point, from);
        return;
    }
    const uint32_t *const lower = lam__unicode_lower(code_point);
    for (uint32_t i = 1; i <= lower[0]; i++)
        lam__norm_out_put(o, lower[i], from);
}

static bool grow_marks(lam__norm_out *o)
{
    const size_t n = o->mark_capacity, wanted = n * 2 + FEW_MARKS;
    lam__waiting_mark *marks =
        lam__grow(o->arena, o->marks, n * sizeof *marks, wanted * sizeof *marks);
    lam__origin *origins =
        lam__grow(o->arena, o->mark_origins, n * sizeof *origins, wanted * sizeof *origins);
    if (!marks || !origins) return fail(o, LAM_E_NOMEM);
    o->marks = marks;
    o->mark_origins = origins;
    o->mark_capacity = wanted;
    return true;
}

static void wait(lam__norm_out *o, lam__waiting_mark mark, lam__origin from)
{
    if (o->mark_count == o->mark_capacity && !grow_marks(o)) return;
    o->marks[o->mark_count++] = mark;
    if (!mark.inserted) o->mark_origins[o->mark_origin_count++] = from;
}

static void sort_few(lam__waiting_mark *marks, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const lam__waiting_mark m = marks[i];
        const uint32_t class = lam__unicode_combining_class(m.flags);
        size_t j = i;
        for (; j > 0 && lam__unicode_combining_class(marks[j - 1].flags) > class; j--) {
            marks[j] = marks[j - 1];
        }
        marks[j] = m;
    }
}

/* Stable, linear: a text may be nothing but marks. */
static void sort_many(lam__norm_out *o)
{
    lam__waiting_mark *sorted = lam_arena_alloc(o->arena, o->mark_capacity * sizeof *sorted);
    if (!sorted) {
        fail(o, LAM_E_NOMEM);
        return;
    }
    size_t starts[CLASSES + 1] = {0};
    for (size_t i = 0; i < o->mark_count; i++) {
        starts[lam__unicode_combining_class(o->marks[i].flags) + 1]++;
    }
    for (size_t c = 0; c < CLASSES; c++)
        starts[c + 1] += starts[c];
    for (size_t i = 0; i < o->mark_count; i++) {
        sorted[starts[lam__unicode_combining_class(o->marks[i].flags)]++] = o->marks[i];
    }
    memcpy(o->marks, sorted, o->mark_count * sizeof *sorted);
}

void lam__norm_out_flush(lam__norm_out *o)
{
    if (o->mark_count == 0 || o->status != LAM_OK) return;
    if (o->mark_count > FEW_MARKS)
        sort_many(o);
    else
        sort_few(o->marks, o->mark_count);
    size_t source = 0;
    for (size_t i = 0; i < o->mark_count; i++) {
        const lam__waiting_mark *m = &o->marks[i];
        if (!m->inserted) o->last = o->mark_origins[source++];
        lam__norm_out_emit(o, m->code_point, m->flags, o->last);
    }
    o->mark_count = o->mark_origin_count = 0;
}

static void order(lam__norm_out *o, uint32_t cp, uint32_t flags, bool inserted, lam__origin from)
{
    if (lam__unicode_combining_class(flags) != 0) {
        wait(o, (lam__waiting_mark){cp, flags, inserted}, from);
        return;
    }
    lam__norm_out_flush(o);
    if (!inserted) o->last = from;
    lam__norm_out_emit(o, cp, flags, o->last);
}

void lam__norm_out_decompose(lam__norm_out *o, uint32_t code_point, uint32_t flags,
                             lam__origin from)
{
    if (!(flags & LAM__UNICODE_CANONICAL)) {
        order(o, code_point, flags, false, from);
        return;
    }
    uint32_t parts[LAM__UNICODE_CANONICAL_MAX];
    const size_t n = lam__unicode_decompose(code_point, parts);
    for (size_t i = 0; i < n; i++)
        order(o, parts[i], lam__unicode_flags(parts[i]), i > 0, from);
}

lam_status lam__norm_out_finish(lam__norm_out *o, lam__text *out)
{
    lam__norm_out_flush(o);
    *out = (lam__text){.bytes = o->bytes, .n = o->n, .origins = o->origins, .base = o->in->base};
    return o->status;
}
