#include "core/tokenizer/tokenizer.h"

#include <stdlib.h>

#include "core/base/utf8.h"
#include "core/tokenizer/model.h"

lam_tokenize_opts lam_tokenize_opts_default(void)
{
    return (lam_tokenize_opts){.add_special_tokens = true,
                               .match_added_tokens = true,
                               .side = LAM_TRUNCATE_RIGHT,
                               .strategy = LAM_TRUNCATE_LONGEST_FIRST};
}

const char *lam_tokenizer_token(const lam_tokenizer *t, int32_t id, size_t *bytes)
{
    return lam__vocab_piece(&t->vocab, id, bytes);
}

size_t lam_tokenizer_vocab(const lam_tokenizer *t)
{
    return t->vocab.size;
}

size_t lam_tokenizer_bytes(const lam_tokenizer *t)
{
    return sizeof *t + t->arena.held_bytes;
}

void lam_tokenizer_free(lam_tokenizer *t)
{
    if (!t) return;
    lam_arena_fini(&t->arena);
    free(t);
}

/* What one call works with. */
typedef struct encoder {
    const lam_tokenizer *t;
    lam_arena *arena;
    bool match_added;
    lam__tokens tokens;
} encoder;

static lam_status encode_words(encoder *e, const lam__text *text)
{
    lam__words words;
    lam_span word;
    lam__words_init(&words, &e->t->pretoks, text);
    while (lam__words_next(&words, &word)) {
        switch (e->t->model.kind) {
        case LAM__MODEL_WORDPIECE:
            LAM_TRY(lam__wordpiece_encode(&e->t->model.as.wordpiece, &e->t->vocab.trie, text,
                                          word.start, word.end, &e->tokens));
            break;
        case LAM__MODEL_COUNT:
            break;
        }
    }
    return LAM_OK;
}

/* A stretch of raw text without raw added tokens. */
static lam_status encode_stretch(encoder *e, const lam__text *raw)
{
    lam__text text;
    LAM_TRY(lam__normalize(&e->t->norms, raw, e->tokens.want_spans, e->arena, &text));
    lam__added_search search;
    lam__added_match m;
    lam__added_search_init(&search, e->match_added ? &e->t->normalized : NULL, &text);
    while (lam__added_next(&search, &m)) {
        const lam__text part = lam__text_part(&text, m.gap_start, m.gap_end);
        if (part.n > 0) LAM_TRY(encode_words(e, &part));
        if (m.id >= 0) LAM_TRY(lam__tokens_push(&e->tokens, m.id, &text, m.start, m.end));
    }
    return LAM_OK;
}

static lam_status encode_text(encoder *e, const lam__text *text)
{
    lam__added_search search;
    lam__added_match m;
    lam__added_search_init(&search, e->match_added ? &e->t->raw : NULL, text);
    while (lam__added_next(&search, &m)) {
        const lam__text part = lam__text_part(text, m.gap_start, m.gap_end);
        const size_t capacity = e->tokens.capacity;
        const lam_arena_mark mark = lam_arena_get_mark(e->arena);
        if (part.n > 0) LAM_TRY(encode_stretch(e, &part));
        /* Unless the tokens had to move in between, all that is there is scratch. */
        if (e->tokens.capacity == capacity) lam_arena_rewind(e->arena, mark);
        if (m.id >= 0) LAM_TRY(lam__tokens_push(&e->tokens, m.id, text, m.start, m.end));
    }
    return LAM_OK;
}

static lam_status check_text(const char *text, size_t bytes, const char *where, lam_err *err)
{
    size_t bad;
    if (bytes >= LAM__TEXT_MAX_BYTES) {
        return lam_fail(err, LAM_E_LIMIT, where, "%zu bytes are more than the limit of %zu", bytes,
                        LAM__TEXT_MAX_BYTES - 1);
    }
    if (bytes == 0 || lam_utf8_valid(text, bytes, &bad)) return LAM_OK;
    return lam_fail(err, LAM_E_UTF8, where, "invalid UTF-8 at byte %zu", bad);
}

/* Enough for most texts: short ones may be all punctuation, long ones are words. */
static size_t expected_tokens(size_t bytes)
{
    return 32 + (bytes < 512 ? bytes : 512 + (bytes - 512) / 3);
}

static lam_status tokenize(const lam_tokenizer *t, const lam__text texts[2], bool pair,
                           const lam_tokenize_opts *opts, bool want_offsets, lam_arena *arena,
                           lam_encoding *out, lam_err *err)
{
    lam__tokens tokens[2] = {{0}, {0}};
    for (size_t i = 0; i < (pair ? 2u : 1u); i++) {
        encoder e = {.t = t, .arena = arena, .match_added = opts->match_added_tokens};
        LAM_TRY(lam__tokens_init(&e.tokens, arena, expected_tokens(texts[i].n), want_offsets));
        LAM_TRY(encode_text(&e, &texts[i]));
        tokens[i] = e.tokens;
    }
    const lam__template *const form =
        &(pair ? t->post.pair : t->post.single)[opts->add_special_tokens ? 0 : 1];
    const size_t lengths[2] = {tokens[0].count, tokens[1].count};
    const size_t full = lengths[0] + lengths[1] + form->specials;
    if (opts->max_tokens > 0 && opts->max_tokens < form->specials) {
        return lam_fail(err, LAM_E_INPUT, "truncate",
                        "%zu tokens have no room for %zu special ones", opts->max_tokens,
                        form->specials);
    }
    const size_t budget = opts->max_tokens > 0 ? opts->max_tokens - form->specials : SIZE_MAX;
    lam__kept kept[2];
    if (!lam__truncate(lengths, pair, budget, opts->strategy, opts->side, kept)) {
        return lam_fail(err, LAM_E_INPUT, "truncate",
                        "cutting only the %s text cannot bring %zu tokens down to %zu",
                        opts->strategy == LAM_TRUNCATE_ONLY_FIRST ? "first" : "second", full,
                        opts->max_tokens);
    }
    LAM_TRY(lam__template_apply(form, tokens, kept, want_offsets, arena, out));
    out->full_count = full;
    return LAM_OK;
}

// NOLINTNEXTLINE(readability-function-size): ten parameters, one call's inputs and outputs
lam_status lam_tokenize(const lam_tokenizer *t, const char *text, size_t text_bytes,
                        const char *pair, size_t pair_bytes, const lam_tokenize_opts *opts,
                        bool want_offsets, lam_arena *arena, lam_encoding *out, lam_err *err)
{
    *out = (lam_encoding){0};
    LAM_TRY(check_text(text, text_bytes, "text", err));
    if (pair) LAM_TRY(check_text(pair, pair_bytes, "pair", err));
    const lam__text texts[2] = {{.bytes = text, .n = text_bytes},
                                {.bytes = pair, .n = pair ? pair_bytes : 0}};
    const lam_status status = tokenize(t, texts, pair != NULL, opts, want_offsets, arena, out, err);
    if (status == LAM_OK) return LAM_OK;
    *out = (lam_encoding){0};
    if (status != LAM_E_NOMEM) return status;
    return lam_fail(err, status, "text", "no memory for the tokens of %zu bytes",
                    text_bytes + pair_bytes);
}
