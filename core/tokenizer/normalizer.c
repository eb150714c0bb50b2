#include "core/tokenizer/normalizer.h"

#include <string.h>

#include "core/base/utf8.h"
#include "core/tokenizer/norm_out.h"

typedef lam_status norm_fn(const lam__normalizer *step, const lam__text *in, bool want_origins,
                           lam_arena *arena, lam__text *out);

/* ---- BertNormalizer: clean, space around ideographs, NFD less accents, lower case, in one pass
 * ---- */

/* `flags` are those of `cp`. */
static void bert_after_clean(const lam__normalizer *step, lam__norm_out *o, uint32_t cp,
                             uint32_t flags, lam__origin from)
{
    if (step->spec.as.bert.strip_accents)
        lam__norm_out_decompose(o, cp, flags, from);
    else
        lam__norm_out_emit(o, cp, flags, from);
}

static void bert_character(const lam__normalizer *step, lam__norm_out *o, uint32_t cp,
                           lam__origin from)
{
    const uint32_t flags = lam__unicode_flags(cp);
    const uint32_t space = LAM__UNICODE_SPACE;
    if (step->spec.as.bert.clean_text) {
        if (flags & LAM__UNICODE_CLEAN_REMOVED) return;
        if (flags & LAM__UNICODE_CLEAN_SPACE) {
            bert_after_clean(step, o, ' ', space, from);
            return;
        }
    }
    const bool apart = step->spec.as.bert.handle_chinese_chars && (flags & LAM__UNICODE_CJK);
    if (apart) bert_after_clean(step, o, ' ', space, from);
    bert_after_clean(step, o, cp, flags, from);
    if (apart) bert_after_clean(step, o, ' ', space, from);
}

static lam_status norm_bert(const lam__normalizer *step, const lam__text *in, bool want_origins,
                            lam_arena *arena, lam__text *out)
{
    lam__norm_out o;
    LAM_TRY(lam__norm_out_init(&o, in, want_origins, arena));
    o.lowercase = step->spec.as.bert.lowercase;
    o.dropped = step->spec.as.bert.strip_accents ? LAM__UNICODE_ACCENT : 0;
    for (size_t at = 0; at < in->n;) {
        if (step->plain[(unsigned char)in->bytes[at]] != LAM__NORM_STOP) {
            lam__norm_out_flush(&o);
            if (!lam__norm_out_reserve(&o, in->n - at)) break;
            at += lam__norm_out_plain(&o, step->plain, at, in->n);
            continue;
        }
        uint32_t cp;
        const size_t bytes = lam_utf8_decode(in->bytes + at, &cp);
        bert_character(step, &o, cp, lam__text_origin(in, at, bytes));
        at += bytes;
    }
    return lam__norm_out_finish(&o, out);
}

/* ASCII that passes as it is or in lower case. */
static void bert_plain(lam__normalizer *step)
{
    for (uint32_t c = 0; c < 128; c++) {
        const uint32_t flags = lam__unicode_flags(c);
        uint8_t to = (uint8_t)c;
        if (step->spec.as.bert.lowercase && (flags & LAM__UNICODE_LOWER)) {
            to = (uint8_t)lam__unicode_lower(c)[1];
        }
        if (step->spec.as.bert.clean_text) {
            if (flags & LAM__UNICODE_CLEAN_SPACE) to = ' ';
            if (flags & LAM__UNICODE_CLEAN_REMOVED) to = LAM__NORM_STOP;
        }
        step->plain[c] = to;
    }
}

/* ---- steps that look at one character at a time ---- */

static lam_status norm_characters(const lam__text *in, lam__norm_out *o, bool decompose,
                                  lam__text *out)
{
    for (size_t at = 0; at < in->n && o->status == LAM_OK;) {
        uint32_t cp;
        const size_t bytes = lam_utf8_decode(in->bytes + at, &cp);
        const lam__origin from = lam__text_origin(in, at, bytes);
        if (decompose)
            lam__norm_out_decompose(o, cp, lam__unicode_flags(cp), from);
        else
            lam__norm_out_emit(o, cp, lam__unicode_flags(cp), from);
        at += bytes;
    }
    return lam__norm_out_finish(o, out);
}

static lam_status norm_lowercase(const lam__normalizer *step, const lam__text *in,
                                 bool want_origins, lam_arena *arena, lam__text *out)
{
    (void)step;
    lam__norm_out o;
    LAM_TRY(lam__norm_out_init(&o, in, want_origins, arena));
    o.lowercase = true;
    return norm_characters(in, &o, false, out);
}

static lam_status norm_nfd(const lam__normalizer *step, const lam__text *in, bool want_origins,
                           lam_arena *arena, lam__text *out)
{
    (void)step;
    lam__norm_out o;
    LAM_TRY(lam__norm_out_init(&o, in, want_origins, arena));
    return norm_characters(in, &o, true, out);
}

static lam_status norm_strip_accents(const lam__normalizer *step, const lam__text *in,
                                     bool want_origins, lam_arena *arena, lam__text *out)
{
    (void)step;
    lam__norm_out o;
    LAM_TRY(lam__norm_out_init(&o, in, want_origins, arena));
    o.dropped = LAM__UNICODE_MARK;
    return norm_characters(in, &o, false, out);
}

static lam_status norm_strip(const lam__normalizer *step, const lam__text *in, bool want_origins,
                             lam_arena *arena, lam__text *out)
{
    (void)want_origins;
    (void)arena;
    size_t first = 0, end = in->n;
    while (step->spec.as.strip.left && first < end) {
        uint32_t cp;
        const size_t bytes = lam_utf8_decode(in->bytes + first, &cp);
        if (!(lam__unicode_flags(cp) & LAM__UNICODE_SPACE)) break;
        first += bytes;
    }
    while (step->spec.as.strip.right && end > first) {
        const size_t start = lam__text_previous(in->bytes, end);
        uint32_t cp;
        lam_utf8_decode(in->bytes + start, &cp);
        if (!(lam__unicode_flags(cp) & LAM__UNICODE_SPACE)) break;
        end = start;
    }
    *out = lam__text_part(in, first, end);
    return LAM_OK;
}

static lam_status norm_prepend(const lam__normalizer *step, const lam__text *in, bool want_origins,
                               lam_arena *arena, lam__text *out)
{
    *out = *in;
    if (in->n == 0) return LAM_OK;
    lam__norm_out o;
    LAM_TRY(lam__norm_out_init(&o, in, want_origins, arena));
    uint32_t cp;
    const size_t first = lam_utf8_decode(in->bytes, &cp);
    const lam__bytes prefix = step->spec.as.prepend;
    for (size_t at = 0; at < prefix.n;) {
        at += lam_utf8_decode(prefix.text + at, &cp);
        lam__norm_out_put(&o, cp, lam__text_origin(in, 0, first));
    }
    return norm_characters(in, &o, false, out);
}

/* ---- all of them ---- */

static norm_fn *const FUNCTIONS[LAM__NORM_COUNT] = {
    [LAM__NORM_BERT] = norm_bert,   [LAM__NORM_LOWERCASE] = norm_lowercase,
    [LAM__NORM_NFD] = norm_nfd,     [LAM__NORM_STRIP_ACCENTS] = norm_strip_accents,
    [LAM__NORM_STRIP] = norm_strip, [LAM__NORM_PREPEND] = norm_prepend,
};

lam_status lam__normalizers_build(lam__normalizers *out, const lam__norm_spec *specs, size_t count,
                                  lam_arena *arena)
{
    *out = (lam__normalizers){0};
    lam__normalizer *steps = lam_arena_calloc(arena, count, sizeof *steps);
    if (!steps) return LAM_E_NOMEM;
    for (size_t i = 0; i < count; i++) {
        lam__normalizer *s = &steps[i];
        s->spec = specs[i];
        memset(s->plain, LAM__NORM_STOP, sizeof s->plain);
        if (s->spec.kind == LAM__NORM_BERT) bert_plain(s);
        if (s->spec.kind == LAM__NORM_PREPEND) {
            lam__bytes *const p = &s->spec.as.prepend;
            p->text = lam_arena_strndup(arena, p->text, p->n);
            if (!p->text) return LAM_E_NOMEM;
        }
    }
    *out = (lam__normalizers){.steps = steps, .count = count};
    return LAM_OK;
}

lam_status lam__normalize(const lam__normalizers *n, const lam__text *in, bool want_origins,
                          lam_arena *arena, lam__text *out)
{
    lam__text text = *in;
    for (size_t i = 0; i < n->count; i++) {
        lam__text next;
        LAM_TRY(FUNCTIONS[n->steps[i].spec.kind](&n->steps[i], &text, want_origins, arena, &next));
        text = next;
    }
    *out = text;
    return LAM_OK;
}
