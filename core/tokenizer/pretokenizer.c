#include "core/tokenizer/pretokenizer.h"

#include "core/base/utf8.h"
#include "core/tokenizer/unicode.h"

/* Flags of the character at `at`, and its length. */
static inline uint32_t flags_at(const lam__text *t, size_t at, size_t *bytes)
{
    uint32_t cp;
    *bytes = lam_utf8_decode(t->bytes + at, &cp);
    return lam__unicode_flags(cp);
}

static void skip(lam__cursor *c, uint32_t flags)
{
    size_t bytes;
    while (c->at < c->end && (flags_at(c->text, c->at, &bytes) & flags))
        c->at += bytes;
}

/* ---- white space goes, punctuation stands alone ---- */

static bool next_bert(lam__cursor *c, lam_span *word)
{
    skip(c, LAM__UNICODE_SPACE);
    if (c->at == c->end) return false;
    size_t bytes;
    word->start = c->at;
    const uint32_t first = flags_at(c->text, c->at, &bytes);
    c->at += bytes;
    if (!(first & LAM__UNICODE_PUNCT)) {
        while (c->at < c->end) {
            const uint32_t flags = flags_at(c->text, c->at, &bytes);
            if (flags & (LAM__UNICODE_SPACE | LAM__UNICODE_PUNCT)) break;
            c->at += bytes;
        }
    }
    word->end = c->at;
    return true;
}

static bool next_whitespace_split(lam__cursor *c, lam_span *word)
{
    skip(c, LAM__UNICODE_SPACE);
    if (c->at == c->end) return false;
    word->start = c->at;
    size_t bytes;
    while (c->at < c->end && !(flags_at(c->text, c->at, &bytes) & LAM__UNICODE_SPACE))
        c->at += bytes;
    word->end = c->at;
    return true;
}

/* \w+ or [^\w\s]+ */
static bool next_whitespace(lam__cursor *c, lam_span *word)
{
    skip(c, LAM__UNICODE_SPACE);
    if (c->at == c->end) return false;
    const uint32_t both = LAM__UNICODE_SPACE | LAM__UNICODE_WORD;
    word->start = c->at;
    size_t bytes;
    const uint32_t kind = flags_at(c->text, c->at, &bytes) & both;
    while (c->at < c->end && (flags_at(c->text, c->at, &bytes) & both) == kind)
        c->at += bytes;
    word->end = c->at;
    return true;
}

/* ---- one class of characters against the rest ---- */

/* The run of characters that all match, or all do not; in most behaviours a match is one character.
 */
static bool take_run(lam__cursor *c, uint32_t class, bool joined)
{
    size_t bytes;
    const bool match = (flags_at(c->text, c->at, &bytes) & class) != 0;
    c->at += bytes;
    if (match && !joined) return true;
    while (c->at < c->end && ((flags_at(c->text, c->at, &bytes) & class) != 0) == match)
        c->at += bytes;
    return match;
}

static bool at_match(const lam__cursor *c, uint32_t class)
{
    size_t bytes;
    return c->at < c->end && (flags_at(c->text, c->at, &bytes) & class);
}

static bool next_of_class(lam__cursor *c, uint32_t class, lam_span *word)
{
    const lam__split behavior = c->step->behavior;
    if (behavior == LAM__SPLIT_REMOVED) skip(c, class);
    if (c->at == c->end) return false;
    word->start = c->at;
    const bool match = take_run(c, class, behavior == LAM__SPLIT_CONTIGUOUS);
    if (behavior == LAM__SPLIT_MERGED_WITH_PREVIOUS && !match && at_match(c, class)) {
        take_run(c, class, false);
    }
    if (behavior == LAM__SPLIT_MERGED_WITH_NEXT && match && c->at < c->end && !at_match(c, class)) {
        take_run(c, class, false);
    }
    word->end = c->at;
    return true;
}

static bool next_punctuation(lam__cursor *c, lam_span *word)
{
    return next_of_class(c, LAM__UNICODE_PUNCT, word);
}

static bool next_digits(lam__cursor *c, lam_span *word)
{
    return next_of_class(c, LAM__UNICODE_NUMERIC, word);
}

/* ---- chains ---- */

static bool (*const FUNCTIONS[LAM__PRETOK_COUNT])(lam__cursor *c, lam_span *word) = {
    [LAM__PRETOK_BERT] = next_bert,
    [LAM__PRETOK_WHITESPACE_SPLIT] = next_whitespace_split,
    [LAM__PRETOK_WHITESPACE] = next_whitespace,
    [LAM__PRETOK_PUNCTUATION] = next_punctuation,
    [LAM__PRETOK_DIGITS] = next_digits,
};

void lam__words_init(lam__words *w, const lam__pretoks *p, const lam__text *text)
{
    w->count = p->count;
    for (size_t i = 0; i < p->count; i++)
        w->cursors[i] = (lam__cursor){&p->steps[i], text, 0, 0};
    w->depth = 1;
    w->whole = text->n > 0;
    w->rest = (lam_span){0, text->n};
    if (p->count > 0) w->cursors[0].end = text->n;
}

bool lam__words_next(lam__words *w, lam_span *word)
{
    if (w->count == 0) {
        *word = w->rest;
        const bool given = w->whole;
        w->whole = false;
        return given;
    }
    while (w->depth > 0) {
        lam__cursor *const c = &w->cursors[w->depth - 1];
        if (!FUNCTIONS[c->step->kind](c, word)) {
            w->depth--;
            continue;
        }
        if (w->depth == w->count) return true;
        w->cursors[w->depth].at = word->start;
        w->cursors[w->depth].end = word->end;
        w->depth++;
    }
    return false;
}
