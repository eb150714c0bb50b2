#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tokenizer/postprocessor.h"
#include "core/tokenizer/spec.h"
#include "core/tokenizer/trie.h"

enum { PAD, UNK, CLS, SEP, A, B, AB, IN_B, IN_BC, COMMA, E, MASK };
static const char *const PIECES[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b",
                                     "ab",    "##b",   "##bc",  ",",     "e"};
enum { PIECE_COUNT = sizeof PIECES / sizeof *PIECES };

static const lam__template_item SINGLE[] = {
    {LAM__TEMPLATE_SPECIAL, CLS, 0}, {LAM__TEMPLATE_FIRST, 0, 0}, {LAM__TEMPLATE_SPECIAL, SEP, 0}};
static const lam__template_item PAIR[] = {{LAM__TEMPLATE_SPECIAL, CLS, 0},
                                          {LAM__TEMPLATE_FIRST, 0, 0},
                                          {LAM__TEMPLATE_SPECIAL, SEP, 0},
                                          {LAM__TEMPLATE_SECOND, 0, 1},
                                          {LAM__TEMPLATE_SPECIAL, SEP, 1}};
static const lam__template_item BARE[] = {{LAM__TEMPLATE_FIRST, 0, 0},
                                          {LAM__TEMPLATE_SECOND, 0, 1}};
static const lam__norm_spec NORM = {.kind = LAM__NORM_BERT, .as.bert = {true, true, true, true}};
static const lam__pretok_spec PRETOK = {.kind = LAM__PRETOK_BERT};
static const lam__added_spec ADDED[] = {
    {.text = {"[SEP]", 5}, .id = SEP, .special = true},
    {.text = {"<mask>", 6}, .id = MASK, .lstrip = true, .special = true},
};

static lam__piece pieces[PIECE_COUNT];

static lam__tokenizer_spec spec_of(void)
{
    for (size_t i = 0; i < PIECE_COUNT; i++) {
        pieces[i] = (lam__piece){{PIECES[i], strlen(PIECES[i])}, (int32_t)i};
    }
    return (lam__tokenizer_spec){
        .file = "memory",
        .norms = &NORM,
        .norm_count = 1,
        .pretoks = &PRETOK,
        .pretok_count = 1,
        .pieces = pieces,
        .piece_count = PIECE_COUNT,
        .wordpiece = {.unk_token = {"[UNK]", 5}, .prefix = {"##", 2}, .max_chars = 6},
        .added = ADDED,
        .added_count = 2,
        .single = {{SINGLE, 3}, {BARE, 1}},
        .pair = {{PAIR, 5}, {BARE, 2}}};
}

static lam_tokenizer *make(void)
{
    const lam__tokenizer_spec spec = spec_of();
    lam_tokenizer *t;
    lam_err err;
    cr_assert_eq(lam__tokenizer_build(&t, &spec, &err), LAM_OK, "%s: %s", err.where, err.message);
    return t;
}

/* "id:start-end ..." */
static void show(const lam_encoding *e, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < e->count && n < size; i++) {
        n += (size_t)snprintf(out + n, size - n, "%s%d:%zu-%zu", i ? " " : "", e->ids[i],
                              e->offsets[i].start, e->offsets[i].end);
    }
}

Test(tokenizer, texts)
{
    static const struct {
        const char *text, *pair, *expected;
        bool specials, added;
    } rows[] = {
        {"", NULL, "2:0-0 3:0-0", true, true},
        {"", NULL, "", false, true},
        {"ab, Abbc", NULL, "6:0-2 9:2-3 6:4-6 8:6-8", false, true},
        {"abx", NULL, "1:0-3", false, true}, /* one gap: the word is unknown, not its part */
        {"abbbbb abbbbbb", NULL, "6:0-2 7:2-3 7:3-4 7:4-5 7:5-6 1:7-14", false, true},
        {"e\xcc\x81", NULL, "10:0-1", false, true}, /* a removed mark lies outside */
        {"a\xe2\x80\x8b"
         "b",
         NULL, "6:0-5", false, true},
        {"\xc3\x89", NULL, "10:0-2", false, true},
        {"a[SEP]b", NULL, "4:0-1 3:1-6 5:6-7", false, true},
        {"a[SEP]b", NULL, "4:0-1 1:1-2 1:2-5 1:5-6 5:6-7", false, false},
        {"a  <mask> b", NULL, "4:0-1 11:1-9 5:10-11", false, true},
        {"a", "b", "2:0-0 4:0-1 3:0-0 5:0-1 3:0-0", true, true},
        {"a", "b", "4:0-1 5:0-1", false, true},
    };
    lam_tokenizer *t = make();
    lam_arena arena;
    lam_arena_init(&arena, 1 << 20);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lam_tokenize_opts opts = lam_tokenize_opts_default();
        opts.add_special_tokens = rows[i].specials;
        opts.match_added_tokens = rows[i].added;
        lam_encoding e;
        char seen[400];
        const size_t pair_bytes = rows[i].pair ? strlen(rows[i].pair) : 0;
        cr_assert_eq(lam_tokenize(t, rows[i].text, strlen(rows[i].text), rows[i].pair, pair_bytes,
                                  &opts, true, &arena, &e, NULL),
                     LAM_OK);
        show(&e, seen, sizeof seen);
        cr_expect_str_eq(seen, rows[i].expected, "row %zu \"%s\": %s", i, rows[i].text, seen);
        if (rows[i].pair) cr_expect_eq(e.type_ids[e.count - 1], 1);
    }
    lam_arena_fini(&arena);
    lam_tokenizer_free(t);
}

/* NFD keeps marks: a long run of them comes out by class, each with the place of the character that
 * it displaced, as in the reference. */
Test(tokenizer, orders_many_marks)
{
    enum { MARKS = 20 };
    static const lam__norm_spec nfd = {.kind = LAM__NORM_NFD};
    static const lam__piece known[] = {
        {{"[UNK]", 5}, UNK}, {{"a", 1}, 4}, {{"##\xcc\x81", 4}, 5}, {{"##\xcc\xa7", 4}, 6}};
    lam__tokenizer_spec spec = spec_of();
    spec.norms = &nfd;
    spec.pieces = known;
    spec.piece_count = 4;
    spec.added_count = 0;
    spec.wordpiece.max_chars = 100;
    spec.single[0] = spec.single[1];
    spec.pair[0] = spec.pair[1];
    lam_tokenizer *t;
    lam_err err;
    cr_assert_eq(lam__tokenizer_build(&t, &spec, &err), LAM_OK, "%s: %s", err.where, err.message);
    char text[1 + 2 * MARKS] = "a";
    for (size_t i = 0; i < MARKS; i++)
        memcpy(text + 1 + 2 * i, i % 2 ? "\xcc\xa7" : "\xcc\x81", 2);
    for (size_t marks = 1; marks <= MARKS; marks++) {
        lam_arena arena;
        lam_encoding e;
        lam_arena_init(&arena, 1 << 20);
        const lam_tokenize_opts opts = lam_tokenize_opts_default();
        cr_assert_eq(lam_tokenize(t, text, 1 + 2 * marks, NULL, 0, &opts, true, &arena, &e, NULL),
                     LAM_OK);
        cr_assert_eq(e.count, marks + 1);
        for (size_t i = 0; i < marks; i++) {
            cr_expect_eq(e.ids[i + 1], i < marks / 2 ? 6 : 5, "%zu marks, mark %zu", marks, i);
            cr_expect_eq(e.offsets[i + 1].start, 1 + 2 * i, "%zu marks, mark %zu", marks, i);
        }
        lam_arena_fini(&arena);
    }
    lam_tokenizer_free(t);
}

Test(tokenizer, truncates_and_says_so)
{
    static const struct {
        size_t max;
        lam_truncate_side side;
        lam_truncate_strategy strategy;
        const char *pair;
        const char *expected; /* NULL: refused */
        size_t full;
    } rows[] = {
        {0, LAM_TRUNCATE_RIGHT, LAM_TRUNCATE_LONGEST_FIRST, NULL, "2:0-0 4:0-1 5:2-3 10:4-5 3:0-0",
         5},
        {5, LAM_TRUNCATE_RIGHT, LAM_TRUNCATE_LONGEST_FIRST, NULL, "2:0-0 4:0-1 5:2-3 10:4-5 3:0-0",
         5},
        {4, LAM_TRUNCATE_RIGHT, LAM_TRUNCATE_LONGEST_FIRST, NULL, "2:0-0 4:0-1 5:2-3 3:0-0", 5},
        {4, LAM_TRUNCATE_LEFT, LAM_TRUNCATE_LONGEST_FIRST, NULL, "2:0-0 5:2-3 10:4-5 3:0-0", 5},
        {2, LAM_TRUNCATE_LEFT, LAM_TRUNCATE_LONGEST_FIRST, NULL, "2:0-0 3:0-0", 5},
        {1, LAM_TRUNCATE_RIGHT, LAM_TRUNCATE_LONGEST_FIRST, NULL, NULL, 0},
        {4, LAM_TRUNCATE_RIGHT, LAM_TRUNCATE_ONLY_SECOND, NULL, NULL, 0},
        {5, LAM_TRUNCATE_RIGHT, LAM_TRUNCATE_ONLY_FIRST, "b", "2:0-0 4:0-1 3:0-0 5:0-1 3:0-0", 7},
        {4, LAM_TRUNCATE_RIGHT, LAM_TRUNCATE_ONLY_FIRST, "b", NULL, 0},
        {6, LAM_TRUNCATE_RIGHT, LAM_TRUNCATE_ONLY_SECOND, "b", NULL, 0},
    };
    lam_tokenizer *t = make();
    lam_arena arena;
    lam_arena_init(&arena, 1 << 20);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const lam_tokenize_opts opts = {.add_special_tokens = true,
                                        .match_added_tokens = true,
                                        .max_tokens = rows[i].max,
                                        .side = rows[i].side,
                                        .strategy = rows[i].strategy};
        lam_encoding e;
        lam_err err = {0};
        char seen[400];
        const lam_status status =
            lam_tokenize(t, "a b e", 5, rows[i].pair, 1, &opts, true, &arena, &e, &err);
        cr_expect_eq(status, rows[i].expected ? LAM_OK : LAM_E_INPUT, "row %zu: %s", i,
                     err.message);
        if (!rows[i].expected || status != LAM_OK) continue;
        show(&e, seen, sizeof seen);
        cr_expect_str_eq(seen, rows[i].expected, "row %zu: %s", i, seen);
        cr_expect_eq(e.full_count, rows[i].full, "row %zu", i);
    }
    lam_arena_fini(&arena);
    lam_tokenizer_free(t);
}

Test(tokenizer, longest_first_splits_as_the_reference)
{
    static const size_t rows[][5] = {
        /* lengths, max, kept */
        {10, 10, 7, 3, 4}, {10, 2, 7, 5, 2}, {2, 10, 7, 2, 5}, {9, 10, 1, 0, 1},
        {10, 9, 5, 3, 2},  {3, 3, 6, 3, 3},  {4, 9, 8, 4, 4},  {4, 4, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lam__kept kept[2];
        cr_expect(lam__truncate(rows[i], true, rows[i][2], LAM_TRUNCATE_LONGEST_FIRST,
                                LAM_TRUNCATE_RIGHT, kept));
        cr_expect(kept[0].count == rows[i][3] && kept[1].count == rows[i][4], "row %zu: %zu, %zu",
                  i, kept[0].count, kept[1].count);
    }
}

Test(tokenizer, refuses_bad_descriptions)
{
    static const lam__added_spec far[] = {{.text = {"x", 1}, .id = 1 << 30}};
    static const lam__added_spec other[] = {{.text = {"x", 1}, .id = A}};
    static const lam__added_spec vanishes[] = {
        {.text = {"\xe2\x80\x8b", 3}, .id = 50, .normalized = true}};
    static const lam__template_item dangling[] = {{LAM__TEMPLATE_SPECIAL, 777, 0},
                                                  {LAM__TEMPLATE_FIRST, 0, 0}};
    static const lam__template_item twice[] = {{LAM__TEMPLATE_FIRST, 0, 0},
                                               {LAM__TEMPLATE_FIRST, 0, 0}};
    lam__tokenizer_spec specs[8];
    static const char *const keys[8] = {"model.vocab",     "model.vocab",     "model.unk_token",
                                        "added_tokens[0]", "added_tokens[0]", "added_tokens[0]",
                                        "post_processor",  "post_processor"};
    for (size_t i = 0; i < 8; i++)
        specs[i] = spec_of();
    lam__piece twin[PIECE_COUNT];
    specs[0].piece_count = 0;
    memcpy(twin, pieces, sizeof twin);
    twin[B].text = twin[A].text;
    specs[1].pieces = twin;
    specs[2].wordpiece.unk_token = (lam__bytes){"nope", 4};
    const lam__added_spec *const added[] = {far, other, vanishes};
    for (size_t i = 0; i < 3; i++) {
        specs[3 + i].added = added[i];
        specs[3 + i].added_count = 1;
    }
    specs[6].single[0] = (lam__template_spec){dangling, 2};
    specs[7].single[0] = (lam__template_spec){twice, 2};
    for (size_t i = 0; i < 8; i++) {
        lam_tokenizer *t = (lam_tokenizer *)&specs;
        lam_err err = {0};
        cr_expect_neq(lam__tokenizer_build(&t, &specs[i], &err), LAM_OK, "%zu", i);
        cr_expect_null(t);
        cr_expect(strstr(err.where, keys[i]), "%zu: %s: %s", i, err.where, err.message);
    }
}

Test(tokenizer, stays_within_the_arena)
{
    lam_tokenizer *t = make();
    static char text[100000];
    memset(text, 'a', sizeof text);
    for (size_t i = 1; i < sizeof text; i += 2)
        text[i] = ',';
    size_t refused = 0;
    for (size_t limit = 1000; limit < (size_t)16 << 20; limit *= 2) {
        lam_arena arena;
        lam_arena_init(&arena, limit);
        lam_encoding e;
        const lam_tokenize_opts opts = lam_tokenize_opts_default();
        const lam_status status =
            lam_tokenize(t, text, sizeof text, NULL, 0, &opts, true, &arena, &e, NULL);
        cr_expect(status == LAM_OK ? e.count == sizeof text + 2 : status == LAM_E_NOMEM && !e.ids);
        refused += status != LAM_OK;
        lam_arena_fini(&arena);
    }
    cr_expect(refused > 3 && refused < 14, "%zu", refused);
    lam_tokenizer_free(t);
}

Test(tokenizer, names_its_tokens)
{
    lam_tokenizer *t = make();
    size_t bytes;
    cr_expect_eq(lam_tokenizer_vocab(t), MASK + 1);
    cr_expect_str_eq(lam_tokenizer_token(t, IN_BC, &bytes), "##bc");
    cr_expect_eq(bytes, 4);
    cr_expect_str_eq(lam_tokenizer_token(t, MASK, NULL), "<mask>");
    cr_expect_null(lam_tokenizer_token(t, -1, NULL));
    cr_expect_null(lam_tokenizer_token(t, MASK + 1, NULL));
    lam_tokenizer_free(t);
}

/* All strings of a random set are found with their numbers, and no others. */
Test(trie, finds_exactly_its_keys)
{
    enum { KEYS = 3000 };
    static char text[KEYS][8];
    static lam__trie_key keys[KEYS];
    lam_arena arena, scratch;
    lam_arena_init(&arena, (size_t)1 << 26);
    lam_arena_init(&scratch, (size_t)1 << 26);
    unsigned state = 7;
    for (size_t i = 0; i < KEYS; i++) {
        for (size_t k = 0; k < 8; k++) {
            state = state * 1103515245u + 12345u;
            text[i][k] = (char)(k < 2 ? state >> 16 & 0xff : state >> 16 & 3);
        }
        keys[i] = (lam__trie_key){text[i], 1 + i % 8, (int32_t)i};
    }
    lam__trie trie;
    cr_assert_eq(lam__trie_build(&trie, keys, KEYS, &arena, &scratch, NULL), LAM_OK);
    cr_expect_eq(scratch.used_bytes, 0);
    for (size_t i = 0; i < KEYS; i++) {
        int32_t first = -1;
        for (size_t k = 0; k < KEYS && first < 0; k++) {
            if (keys[k].bytes == keys[i].bytes && memcmp(text[k], text[i], keys[i].bytes) == 0) {
                first = (int32_t)k;
            }
        }
        cr_assert_eq(lam__trie_find(&trie, text[i], keys[i].bytes), first, "key %zu", i);
        text[i][keys[i].bytes - 1] ^= 64; /* no key has this bit behind its second byte */
        if (keys[i].bytes > 2) cr_assert_eq(lam__trie_find(&trie, text[i], keys[i].bytes), -1);
        text[i][keys[i].bytes - 1] ^= 64;
    }
    lam_arena_fini(&arena);
    lam_arena_fini(&scratch);
}
