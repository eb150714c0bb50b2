/* Texts against a slow, plain BERT tokenizer: the same ids, whatever the switches (first byte of an
 * input: clean_text, handle_chinese_chars, strip_accents, lowercase). */
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/tokenizer/spec.h"
#include "core/tokenizer/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_TEXT = 4096, MAX_CHARS = 8 * MAX_TEXT, MAX_WORD = 20, UNK = 0 };

/* The id is the place in the list. */
static const char *const PIECES[] = {"[UNK]",
                                     "a",
                                     "b",
                                     "c",
                                     "e",
                                     "ab",
                                     "abc",
                                     "abcde",
                                     "##a",
                                     "##b",
                                     "##bc",
                                     "##cde",
                                     "##e",
                                     "i",
                                     "##i",
                                     "##",
                                     "A",
                                     "##A",
                                     "\xc3\xa9",
                                     "##\xc3\xa9",
                                     ",",
                                     "$",
                                     "\xe4\xb8\xad",
                                     "##\xe4\xb8\xad",
                                     "##\xcc\x81",
                                     "\xcc\x81",
                                     "\xc2\xad",
                                     "##\xc2\xad",
                                     "x",
                                     "##x",
                                     "##ab",
                                     "##abcd",
                                     "\xe1\x84\x80",
                                     "##\xe1\x85\xa1"};
enum { PIECE_COUNT = sizeof PIECES / sizeof *PIECES };

/* ---- the oracle ---- */

typedef struct chars {
    uint32_t at[MAX_CHARS];
    size_t n;
} chars;

static void add(chars *c, uint32_t cp)
{
    if (c->n == MAX_CHARS) abort();
    c->at[c->n++] = cp;
}

static uint32_t class_of(uint32_t cp)
{
    return lam__unicode_combining_class(lam__unicode_flags(cp));
}

static void clean(const chars *in, chars *out)
{
    out->n = 0;
    for (size_t i = 0; i < in->n; i++) {
        const uint32_t flags = lam__unicode_flags(in->at[i]);
        if (flags & LAM__UNICODE_CLEAN_REMOVED) continue;
        add(out, flags & LAM__UNICODE_CLEAN_SPACE ? ' ' : in->at[i]);
    }
}

static void space_ideographs(const chars *in, chars *out)
{
    out->n = 0;
    for (size_t i = 0; i < in->n; i++) {
        const bool apart = lam__unicode_flags(in->at[i]) & LAM__UNICODE_CJK;
        if (apart) add(out, ' ');
        add(out, in->at[i]);
        if (apart) add(out, ' ');
    }
}

static void strip(const chars *in, chars *out)
{
    static chars all;
    all.n = out->n = 0;
    for (size_t i = 0; i < in->n; i++) {
        uint32_t parts[LAM__UNICODE_CANONICAL_MAX] = {in->at[i]};
        size_t n = 1;
        if (lam__unicode_flags(in->at[i]) & LAM__UNICODE_CANONICAL) {
            n = lam__unicode_decompose(in->at[i], parts);
        }
        for (size_t k = 0; k < n; k++)
            add(&all, parts[k]);
    }
    for (size_t i = 1; i < all.n; i++) {
        for (size_t k = i;
             k > 0 && class_of(all.at[k]) && class_of(all.at[k - 1]) > class_of(all.at[k]); k--) {
            const uint32_t swap = all.at[k];
            all.at[k] = all.at[k - 1];
            all.at[k - 1] = swap;
        }
    }
    for (size_t i = 0; i < all.n; i++) {
        if (!(lam__unicode_flags(all.at[i]) & LAM__UNICODE_ACCENT)) add(out, all.at[i]);
    }
}

static void lower(const chars *in, chars *out)
{
    out->n = 0;
    for (size_t i = 0; i < in->n; i++) {
        if (!(lam__unicode_flags(in->at[i]) & LAM__UNICODE_LOWER)) {
            add(out, in->at[i]);
            continue;
        }
        const uint32_t *const to = lam__unicode_lower(in->at[i]);
        for (uint32_t k = 1; k <= to[0]; k++)
            add(out, to[k]);
    }
}

/* The id of prefix + characters, or -1. */
static int32_t lookup(const char *prefix, const uint32_t *from, size_t n)
{
    char text[MAX_WORD * 4 + 8];
    size_t bytes = strlen(prefix);
    memcpy(text, prefix, bytes);
    for (size_t i = 0; i < n; i++)
        bytes += lam_utf8_encode(from[i], text + bytes);
    for (size_t i = 0; i < PIECE_COUNT; i++) {
        if (strlen(PIECES[i]) == bytes && memcmp(PIECES[i], text, bytes) == 0) return (int32_t)i;
    }
    return -1;
}

static size_t word(const uint32_t *from, size_t n, int32_t *ids)
{
    size_t count = 0, at = 0;
    while (n <= MAX_WORD && at < n) {
        size_t end = n;
        int32_t id = -1;
        while (end > at && (id = lookup(at ? "##" : "", from + at, end - at)) < 0)
            end--;
        if (end == at) break;
        ids[count++] = id;
        at = end;
    }
    if (n <= MAX_WORD && at == n) return count;
    ids[0] = UNK;
    return 1;
}

static size_t oracle(const char *text, size_t bytes, unsigned switches, int32_t *ids)
{
    static chars a, b;
    size_t count = 0;
    a.n = 0;
    for (size_t at = 0; at < bytes;) {
        uint32_t cp;
        at += lam_utf8_decode(text + at, &cp);
        add(&a, cp);
    }
    static void (*const steps[])(const chars *, chars *) = {clean, space_ideographs, strip, lower};
    for (unsigned i = 0; i < 4; i++) {
        if (!(switches >> i & 1)) continue;
        steps[i](&a, &b);
        a = b;
    }
    for (size_t at = 0; at < a.n;) {
        const uint32_t flags = lam__unicode_flags(a.at[at]);
        size_t end = at + 1;
        const uint32_t both = LAM__UNICODE_SPACE | LAM__UNICODE_PUNCT;
        while (!(flags & both) && end < a.n && !(lam__unicode_flags(a.at[end]) & both))
            end++;
        if (!(flags & LAM__UNICODE_SPACE)) count += word(a.at + at, end - at, ids + count);
        at = end;
    }
    return count;
}

/* ---- the target ---- */

static lam_tokenizer *make(unsigned switches)
{
    static const lam__template_item items[] = {{LAM__TEMPLATE_FIRST, 0, 0},
                                               {LAM__TEMPLATE_SECOND, 0, 1}};
    static const lam__pretok_spec pretok = {.kind = LAM__PRETOK_BERT};
    lam__piece pieces[PIECE_COUNT];
    for (size_t i = 0; i < PIECE_COUNT; i++) {
        pieces[i] = (lam__piece){{PIECES[i], strlen(PIECES[i])}, (int32_t)i};
    }
    const lam__norm_spec norm = {.kind = LAM__NORM_BERT,
                                 .as.bert = {.clean_text = switches & 1,
                                             .handle_chinese_chars = switches >> 1 & 1,
                                             .strip_accents = switches >> 2 & 1,
                                             .lowercase = switches >> 3 & 1}};
    const lam__template_spec single = {items, 1}, pair = {items, 2};
    const lam__tokenizer_spec spec = {
        .file = "memory",
        .norms = &norm,
        .norm_count = 1,
        .pretoks = &pretok,
        .pretok_count = 1,
        .pieces = pieces,
        .piece_count = PIECE_COUNT,
        .wordpiece = {.unk_token = {"[UNK]", 5}, .prefix = {"##", 2}, .max_chars = MAX_WORD},
        .single = {single, single},
        .pair = {pair, pair}};
    lam_tokenizer *t;
    if (lam__tokenizer_build(&t, &spec, NULL) != LAM_OK) abort();
    return t;
}

static void compare(const lam_tokenizer *t, const char *text, size_t bytes, unsigned switches)
{
    static int32_t expected[MAX_CHARS];
    lam_arena arena;
    lam_encoding e;
    lam_arena_init(&arena, (size_t)16 << 20);
    const lam_tokenize_opts opts = lam_tokenize_opts_default();
    const lam_status status = lam_tokenize(t, text, bytes, NULL, 0, &opts, true, &arena, &e, NULL);
    if (!lam_utf8_valid(text, bytes, NULL)) {
        if (status != LAM_E_UTF8) abort();
    } else {
        const size_t n = oracle(text, bytes, switches, expected);
        if (status != LAM_OK || e.count != n) abort();
        if (n > 0 && memcmp(e.ids, expected, n * sizeof *expected) != 0) abort();
        for (size_t i = 0; i < n; i++) {
            const lam_span s = e.offsets[i];
            if (s.start >= s.end || s.end > bytes) abort();
            if ((text[s.start] & 0xc0) == 0x80 || (s.end < bytes && (text[s.end] & 0xc0) == 0x80))
                abort();
        }
    }
    lam_arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > MAX_TEXT) return 0;
    const unsigned switches = data[0] & 15;
    lam_tokenizer *t = make(switches);
    char *text = malloc(size);
    if (!text) abort();
    memcpy(text, data + 1, size - 1);
    compare(t, text, size - 1, switches);
    free(text);
    lam_tokenizer_free(t);
    return 0;
}
