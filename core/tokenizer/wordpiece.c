#include "core/tokenizer/wordpiece.h"

#include <stdio.h>

lam_status lam__wordpiece_build(lam__wordpiece *out, const lam__tokenizer_spec *spec,
                                const lam__vocab *vocab, lam_err *err)
{
    const lam__bytes unk = spec->wordpiece.unk_token, prefix = spec->wordpiece.prefix;
    out->unk = lam__trie_find(&vocab->trie, unk.text, unk.n);
    out->max_chars = spec->wordpiece.max_chars;
    out->inner = lam__trie_walk(&vocab->trie, prefix.text, prefix.n);
    if (out->unk >= 0) return LAM_OK;
    char where[200];
    snprintf(where, sizeof where, "%s: model.unk_token", spec->file);
    return lam_fail(err, LAM_E_FORMAT, where, "\"%.*s\" is not in the vocabulary",
                    (int)(unk.n < 64 ? unk.n : 64), unk.text);
}

static bool longer_than(const char *s, size_t n, size_t max_chars)
{
    if (n <= max_chars) return false;
    size_t chars = 0;
    for (size_t i = 0; i < n && chars <= max_chars; i++)
        chars += ((unsigned char)s[i] & 0xc0) != 0x80;
    return chars > max_chars;
}

/* Pieces are whole characters, so a match by bytes ends between characters. */
lam_status lam__wordpiece_encode(const lam__wordpiece *w, const lam__trie *trie,
                                 const lam__text *text, size_t start, size_t end, lam__tokens *out)
{
    const unsigned char *const s = (const unsigned char *)text->bytes;
    if (longer_than(text->bytes + start, end - start, w->max_chars)) {
        return lam__tokens_push(out, w->unk, text, start, end);
    }
    const size_t before = out->count;
    uint32_t state = LAM__TRIE_ROOT;
    for (size_t at = start; at < end; state = w->inner) {
        int32_t id = -1;
        size_t id_end = at;
        size_t i = state == LAM__TRIE_NONE ? end : at;
        for (; i < end && lam__trie_step(trie, &state, s[i]); i++) {
            if (trie->units[state].value < 0) continue;
            id = trie->units[state].value;
            id_end = i + 1;
        }
        if (id < 0) {
            out->count = before;
            return lam__tokens_push(out, w->unk, text, start, end);
        }
        LAM_TRY(lam__tokens_push(out, id, text, at, id_end));
        at = id_end;
    }
    return LAM_OK;
}
