#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/import/import.h"
#include "core/import/tokenizer_spec.h"

/* A whole file with holes: added tokens, normalizer, pre-tokenizer, post-processor, model. */
#define FILE_OF(added, norm, pretok, post, model)                          \
    "{\"version\":\"1.0\",\"added_tokens\":" added ",\"normalizer\":" norm \
    ",\"pre_tokenizer\":" pretok ",\"post_processor\":" post ",\"model\":" model "}"
#define NORM                                                                          \
    "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true," \
    "\"strip_accents\":null,\"lowercase\":true}"
#define PRETOK "{\"type\":\"BertPreTokenizer\"}"
#define POST   "{\"type\":\"BertProcessing\",\"sep\":[\"s\",2],\"cls\":[\"c\",1]}"
#define MODEL_OF(vocab)                                                                 \
    "{\"type\":\"WordPiece\",\"unk_token\":\"u\",\"continuing_subword_prefix\":\"##\"," \
    "\"max_input_chars_per_word\":100,\"vocab\":" vocab "}"
#define MODEL MODEL_OF("{\"u\":0,\"c\":1,\"s\":2,\"a\":3}")
#define ADDED_OF(content, id)                                                            \
    "{\"id\":" id ",\"content\":\"" content "\",\"single_word\":false,\"lstrip\":false," \
    "\"rstrip\":false,\"normalized\":true,\"special\":false}"

static lam_status read_text(const char *text, lam_tokenizer **t, lam_err *err)
{
    lam_tokenizer_draft d = {.err = err, .spec = {.file = "tokenizer.json"}};
    *t = NULL;
    lam_arena_init(&d.arena, SIZE_MAX);
    lam_status status = lam_tokenizer_parse_json(&d, text, strlen(text), "tokenizer.json");
    if (status == LAM_OK) status = lam__tokenizer_build(t, &d.spec, err);
    lam_tokenizer_draft_free(&d);
    return status;
}

Test(tokenizer_json, takes_or_names_what_is_wrong)
{
    static const struct {
        const char *text;
        const char *where;   /* NULL: taken */
        const char *message; /* a part of it */
    } rows[] = {
        {FILE_OF("[]", NORM, PRETOK, POST, MODEL), NULL, NULL},
        {FILE_OF("null", "null", "null", "null", MODEL), NULL, NULL},
        {FILE_OF("[" ADDED_OF("x", "4") "]", NORM, PRETOK, POST, MODEL), NULL, NULL},
        {"[]", "tokenizer.json", "object"},
        {"{", "tokenizer.json", "JSON"},
        {FILE_OF("[]", "{\"type\":\"NFKC\"}", PRETOK, POST, MODEL),
         "tokenizer.json: normalizer.type", "\"NFKC\" is not supported"},
        {FILE_OF("[]", "{}", PRETOK, POST, MODEL), "normalizer", "type"},
        {FILE_OF("[]", "{\"type\":\"Sequence\"}", PRETOK, POST, MODEL), "normalizer",
         "normalizers"},
        {FILE_OF("[]", "{\"type\":\"BertNormalizer\",\"lowercase\":true}", PRETOK, POST, MODEL),
         "normalizer.clean_text", "missing"},
        {FILE_OF("[]", "{\"type\":\"Lowercase\",\"x\":1}", PRETOK, POST, MODEL), "normalizer",
         "\"x\""},
        {FILE_OF("[]", NORM, "{\"type\":\"ByteLevel\"}", POST, MODEL),
         "tokenizer.json: pre_tokenizer.type", "\"ByteLevel\" is not supported"},
        {FILE_OF("[]", NORM, "{\"type\":\"Punctuation\",\"behavior\":\"Sometimes\"}", POST, MODEL),
         "pre_tokenizer.behavior", "Sometimes"},
        {FILE_OF("[]", NORM, PRETOK, "{\"type\":\"ByteLevel\"}", MODEL), "post_processor.type",
         "ByteLevel"},
        {FILE_OF("[]", NORM, PRETOK, "{\"type\":\"BertProcessing\",\"sep\":[\"s\",2]}", MODEL),
         "post_processor.cls", "list"},
        {FILE_OF("[]", NORM, PRETOK,
                 "{\"type\":\"BertProcessing\",\"sep\":[\"s\",9],\"cls\":[\"c\",1]}", MODEL),
         "post_processor", "id 9"},
        {FILE_OF("[]", NORM, PRETOK,
                 "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"q\","
                 "\"type_id\":0}}],\"pair\":[],\"special_tokens\":{}}",
                 MODEL),
         "post_processor.special_tokens", "\"q\""},
        {FILE_OF("[]", NORM, PRETOK, POST, "{\"type\":\"Unigram\",\"vocab\":[]}"), "model.type",
         "\"Unigram\" is not supported"},
        {FILE_OF("[]", NORM, PRETOK, POST, MODEL_OF("{}")), "model.vocab", "empty"},
        {FILE_OF("[]", NORM, PRETOK, POST, MODEL_OF("{\"u\":0,\"u\":1}")), "tokenizer.json",
         "duplicate"},
        {FILE_OF("[]", NORM, PRETOK, POST, MODEL_OF("{\"u\":0,\"v\":0}")), "model.vocab", "id 0"},
        {FILE_OF("[]", NORM, PRETOK, POST, MODEL_OF("{\"u\":-1}")), "model.vocab", "\"u\""},
        {FILE_OF("[]", NORM, PRETOK, POST, MODEL_OF("{\"u\":1.5}")), "model.vocab", "\"u\""},
        {FILE_OF("[]", NORM, PRETOK, POST, MODEL_OF("{\"u\":0,\"c\":9999999}")), "model.vocab",
         "9999999"},
        {FILE_OF("[]", NORM, PRETOK, POST, MODEL_OF("{\"c\":1,\"s\":2}")), "model.unk_token",
         "\"u\""},
        {FILE_OF("{}", NORM, PRETOK, POST, MODEL), "added_tokens", "list"},
        {FILE_OF("[{\"id\":0}]", NORM, PRETOK, POST, MODEL), "added_tokens[0].content", "missing"},
        {FILE_OF("[" ADDED_OF("x", "4") "," ADDED_OF("x", "5") "]", NORM, PRETOK, POST, MODEL),
         "added_tokens[1].content", "twice"},
        {FILE_OF("[" ADDED_OF("", "4") "]", NORM, PRETOK, POST, MODEL), "added_tokens[0].content",
         "empty"},
        {"{\"surprise\":1}", "top level", "surprise"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lam_tokenizer *t;
        lam_err err = {0};
        const lam_status status = read_text(rows[i].text, &t, &err);
        if (!rows[i].where) {
            cr_expect(status == LAM_OK && t, "row %zu: %s: %s", i, err.where, err.message);
        } else {
            cr_expect(status != LAM_OK && !t, "row %zu", i);
            cr_expect(strstr(err.where, rows[i].where) && strstr(err.message, rows[i].message),
                      "row %zu: %s: %s", i, err.where, err.message);
        }
        lam_tokenizer_free(t);
    }
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

Test(tokenizer_json, vocab_txt_with_its_switches)
{
    char folder[] = P_tmpdir "/lamina-vocab-XXXXXX";
    cr_assert(mkdtemp(folder));
    static const char vocab[] = "[PAD]\r\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nA\n##b";
    static const struct {
        const char *config; /* NULL: none */
        const char *vocab;
        int32_t first; /* id of "A"; 0: refused */
    } rows[] = {
        {NULL, vocab, 5},
        {"{\"do_lower_case\":false}", vocab, 6},
        {"{\"do_lower_case\":3}", vocab, 0},
        {"{\"do_basic_tokenize\":false}", vocab, 0},
        {"{\"unk_token\":\"nope\"}", vocab, 0},
        {"{}", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\na", 0},
        {"{}", "", 0},
        {"{}", "\xff\n", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_file(folder, "vocab.txt", rows[i].vocab);
        if (rows[i].config) write_file(folder, "tokenizer_config.json", rows[i].config);
        lam_tokenizer *t;
        lam_err err = {0};
        const lam_status status = lam_import_tokenizer(&t, folder, &err);
        cr_expect_eq(status == LAM_OK, rows[i].first != 0, "row %zu: %s: %s", i, err.where,
                     err.message);
        if (status != LAM_OK) continue;
        lam_arena arena;
        lam_encoding e;
        lam_arena_init(&arena, 1 << 20);
        const lam_tokenize_opts opts = lam_tokenize_opts_default();
        cr_assert_eq(lam_tokenize(t, "Ab", 2, NULL, 0, &opts, false, &arena, &e, NULL), LAM_OK);
        cr_expect(e.count == 4 && e.ids[1] == rows[i].first && e.ids[2] == 7, "row %zu", i);
        lam_arena_fini(&arena);
        lam_tokenizer_free(t);
    }
    char path[200];
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, i ? "vocab.txt" : "tokenizer_config.json");
        unlink(path);
    }
    rmdir(folder);
}

Test(tokenizer_json, a_missing_file_is_named)
{
    lam_tokenizer *t;
    lam_err err = {0};
    cr_expect_neq(lam_import_tokenizer(&t, "/nonexistent/tokenizer.json", &err), LAM_OK);
    cr_expect_null(t);
    cr_expect(err.message[0] != '\0');
}
