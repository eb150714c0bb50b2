#include "core/tokenizer/added_tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/tokenizer/unicode.h"

/* ---- building ---- */

static lam_status key_of(lam__trie_key *key, const lam__tokenizer_spec *spec, size_t i,
                         const lam__normalizers *norms, lam_arena *scratch, lam_err *err)
{
    const lam__bytes content = spec->added[i].text;
    lam__text text = {.bytes = content.text, .n = content.n};
    if (spec->added[i].normalized) LAM_TRY(lam__normalize(norms, &text, false, scratch, &text));
    char where[200];
    snprintf(where, sizeof where, "%s: added_tokens[%zu].content", spec->file, i);
    if (text.n > LAM__ADDED_MAX_BYTES) {
        return lam_fail(err, LAM_E_LIMIT, where, "%zu bytes are more than %d", text.n,
                        LAM__ADDED_MAX_BYTES);
    }
    if (text.n == 0) {
        return lam_fail(err, LAM_E_FORMAT, where,
                        content.n == 0 ? "is empty" : "is empty once normalized");
    }
    key->text = text.bytes;
    key->bytes = text.n;
    return LAM_OK;
}

static void note_start(lam__added *a, unsigned char c)
{
    if (a->starts[c]) return;
    a->starts[c] = true;
    size_t different = 0;
    for (size_t i = 0; i < 256; i++)
        different += a->starts[i];
    a->only_start = different == 1 ? (int)c : -1;
}

/* Numbers of the added tokens in the order of their ids: the trie keeps the smallest number of
 * equal keys. */
static int compare_added(const void *a, const void *b)
{
    const lam__added_spec *const x = *(const lam__added_spec *const *)a;
    const lam__added_spec *const y = *(const lam__added_spec *const *)b;
    return (x->id > y->id) - (x->id < y->id);
}

static lam_status build(lam__added *a, const lam__tokenizer_spec *spec, bool normalized,
                        const lam__normalizers *norms, lam_arena *arena, lam_arena *scratch,
                        lam_err *err)
{
    const lam__added_spec **chosen = lam_arena_calloc(scratch, spec->added_count, sizeof *chosen);
    lam__trie_key *keys = lam_arena_calloc(scratch, spec->added_count, sizeof *keys);
    if (!keys || !chosen) return LAM_E_NOMEM;
    for (size_t i = 0; i < spec->added_count; i++) {
        if (spec->added[i].normalized == normalized) chosen[a->count++] = &spec->added[i];
    }
    lam__added_token *tokens = lam_arena_calloc(arena, a->count, sizeof *tokens);
    if (!tokens) return LAM_E_NOMEM;
    a->tokens = tokens;
    if (a->count == 0) return LAM_OK;
    qsort(chosen, a->count, sizeof *chosen, compare_added);
    for (size_t i = 0; i < a->count; i++) {
        const lam__added_spec *const from = chosen[i];
        LAM_TRY(key_of(&keys[i], spec, (size_t)(from - spec->added), norms, scratch, err));
        note_start(a, (unsigned char)keys[i].text[0]);
        tokens[i] = (lam__added_token){from->id, from->single_word, from->lstrip, from->rstrip};
        keys[i].value = (int32_t)i;
    }
    return lam__trie_build(&a->trie, keys, a->count, arena, scratch, NULL);
}

lam_status lam__added_build(lam__added *out, const lam__tokenizer_spec *spec, bool normalized,
                            const lam__normalizers *norms, lam_arena *arena, lam_arena *scratch,
                            lam_err *err)
{
    *out = (lam__added){.only_start = -1};
    const lam_arena_mark mark = lam_arena_get_mark(scratch);
    const lam_status status = build(out, spec, normalized, norms, arena, scratch, err);
    lam_arena_rewind(scratch, mark);
    if (status != LAM_E_LIMIT || !err || err->status == status) return status;
    char where[200];
    snprintf(where, sizeof where, "%s: added_tokens", spec->file);
    return lam_fail(err, status, where, "%zu added tokens make more than 8 million trie states",
                    out->count);
}

/* ---- searching ---- */

void lam__added_search_init(lam__added_search *s, const lam__added *added, const lam__text *text)
{
    *s = (lam__added_search){.added = added && added->count > 0 ? added : NULL, .text = text};
}

static uint32_t flags_before(const lam__text *t, size_t at)
{
    uint32_t cp;
    lam_utf8_decode(t->bytes + lam__text_previous(t->bytes, at), &cp);
    return lam__unicode_flags(cp);
}

static uint32_t flags_after(const lam__text *t, size_t at, size_t *bytes)
{
    uint32_t cp;
    *bytes = lam_utf8_decode(t->bytes + at, &cp);
    return lam__unicode_flags(cp);
}

/* The next place at or behind `at` where a token might start. */
static size_t next_start(const lam__added *a, const lam__text *t, size_t at)
{
    if (a->only_start >= 0) {
        const char *p = at < t->n ? memchr(t->bytes + at, a->only_start, t->n - at) : NULL;
        return p ? (size_t)(p - t->bytes) : t->n;
    }
    while (at < t->n && !a->starts[(unsigned char)t->bytes[at]])
        at++;
    return at;
}

/* The longest token at `at`: its index, or -1. */
static int32_t longest(const lam__added *a, const lam__text *t, size_t at, size_t *end)
{
    uint32_t state = LAM__TRIE_ROOT;
    int32_t found = -1;
    for (size_t i = at; i < t->n && lam__trie_step(&a->trie, &state, (unsigned char)t->bytes[i]);
         i++) {
        if (a->trie.units[state].value < 0) continue;
        found = a->trie.units[state].value;
        *end = i + 1;
    }
    return found;
}

static bool stands_alone(const lam__text *t, size_t start, size_t end)
{
    size_t bytes;
    if (start > 0 && (flags_before(t, start) & LAM__UNICODE_WORD)) return false;
    return end == t->n || !(flags_after(t, end, &bytes) & LAM__UNICODE_WORD);
}

/* White space may follow token after token of white space: its end is looked for once. */
static size_t skip_space(lam__added_search *s, size_t at)
{
    if (at >= s->space_from && at < s->space_end) return s->space_end;
    size_t end = at, bytes;
    while (end < s->text->n && (flags_after(s->text, end, &bytes) & LAM__UNICODE_SPACE))
        end += bytes;
    s->space_from = at;
    s->space_end = end;
    return end;
}

static size_t skip_space_back(const lam__text *t, size_t at, size_t floor)
{
    while (at > floor && (flags_before(t, at) & LAM__UNICODE_SPACE)) {
        at = lam__text_previous(t->bytes, at);
    }
    return at;
}

bool lam__added_next(lam__added_search *s, lam__added_match *m)
{
    if (s->ended) return false;
    while (s->added && (s->at = next_start(s->added, s->text, s->at)) < s->text->n) {
        size_t start = s->at, end = s->at;
        const int32_t index = longest(s->added, s->text, start, &end);
        if (index < 0) {
            s->at++;
            continue;
        }
        /* A token that is refused here hides the shorter ones inside it. */
        s->at = end;
        const lam__added_token *const token = &s->added->tokens[index];
        if (token->single_word && !stands_alone(s->text, start, end)) continue;
        if (token->lstrip && start > s->done)
            start = skip_space_back(s->text, start, s->done);
        else if (token->lstrip)
            start = s->done;
        if (token->rstrip) end = skip_space(s, end);
        if (start >= end) continue; /* lies wholly in what the token before it took */
        *m = (lam__added_match){s->done, start > s->done ? start : s->done, token->id, start, end};
        s->done = end;
        return true;
    }
    s->ended = true;
    *m = (lam__added_match){s->done, s->text->n, -1, 0, 0};
    return s->done < s->text->n;
}
