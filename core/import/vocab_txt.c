/* vocab.txt of older BERT checkpoints: a piece a line, its number the id. How texts are normalized
 * stands in tokenizer_config.json, with BERT's defaults where it is silent. */
#include <stdlib.h>
#include <string.h>

#include "core/import/tokenizer_spec.h"

enum { MAX_VOCAB_BYTES = 64 << 20 };

static lam_status split_lines(lam_tokenizer_reader *r, const char *text, size_t bytes, lam_err *err)
{
    size_t lines = 1;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    lam__piece *pieces = lam_arena_calloc(&r->arena, lines, sizeof *pieces);
    if (!pieces) return lam_fail(err, LAM_E_NOMEM, r->spec.file, "no memory for its pieces");
    size_t count = 0;
    for (size_t start = 0; start < bytes; count++) {
        const char *end = memchr(text + start, '\n', bytes - start);
        size_t n = end ? (size_t)(end - text) - start : bytes - start;
        const size_t next = start + n + 1;
        if (n > 0 && text[start + n - 1] == '\r') n--;
        pieces[count] = (lam__piece){{text + start, n}, (int32_t)count};
        start = next;
    }
    r->spec.pieces = pieces;
    r->spec.piece_count = count;
    return LAM_OK;
}

static lam_status find_piece(const lam_tokenizer_reader *r, const char *text, int32_t *id,
                             lam_err *err)
{
    const size_t n = strlen(text);
    for (size_t i = 0; i < r->spec.piece_count; i++) {
        const lam__bytes *t = &r->spec.pieces[i].text;
        if (t->n != n || memcmp(t->text, text, n) != 0) continue;
        *id = r->spec.pieces[i].id;
        return LAM_OK;
    }
    return lam_fail(err, LAM_E_FORMAT, r->spec.file, "special token \"%s\" is missing", text);
}

static lam_status add_specials(lam_tokenizer_reader *r, lam_err *err)
{
    static const char *const names[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    enum { COUNT = sizeof names / sizeof *names };
    lam__added_spec *added = lam_arena_calloc(&r->arena, COUNT, sizeof *added);
    if (!added) return lam_fail(err, LAM_E_NOMEM, r->spec.file, "no memory for its tokens");
    for (size_t i = 0; i < COUNT; i++) {
        added[i] = (lam__added_spec){.text = {names[i], strlen(names[i])}, .special = true};
        LAM_TRY(find_piece(r, names[i], &added[i].id, err));
    }
    r->spec.added = added;
    r->spec.added_count = COUNT;
    return lam_tokenizer_bert_template(r, added[2].id, added[3].id, err);
}

static lam_status read_normalizer(lam_tokenizer_reader *r, lam_err *err)
{
    lam_json config;
    lam__norm_spec *n = lam_arena_calloc(&r->arena, 1, sizeof *n);
    lam__pretok_spec *p = lam_arena_calloc(&r->arena, 1, sizeof *p);
    if (!n || !p) return lam_fail(err, LAM_E_NOMEM, r->spec.file, "no memory for its steps");
    LAM_TRY(lam_json_read_optional(&config, r->dir, "tokenizer_config.json", LAM_JSON_REALS, err));
    n->kind = LAM__NORM_BERT;
    p->kind = LAM__PRETOK_BERT;
    n->as.bert.clean_text = n->as.bert.handle_chinese_chars = n->as.bert.lowercase = true;
    bool *lower = &n->as.bert.lowercase, *chinese = &n->as.bert.handle_chinese_chars;
    lam_status status = lam_json_opt_bool(&config, "do_lower_case", lower, err);
    if (status == LAM_OK)
        status = lam_json_opt_bool(&config, "tokenize_chinese_chars", chinese, err);
    n->as.bert.strip_accents = *lower;
    if (status == LAM_OK)
        status = lam_json_opt_bool(&config, "strip_accents", &n->as.bert.strip_accents, err);
    lam_json_free(&config);
    r->spec.norms = n;
    r->spec.norm_count = 1;
    r->spec.pretoks = p;
    r->spec.pretok_count = 1;
    return status;
}

static lam_status describe(lam_tokenizer **out, lam_tokenizer_reader *r, const char *text,
                           size_t bytes, lam_err *err)
{
    r->spec.model = LAM__MODEL_WORDPIECE;
    r->spec.wordpiece.unk_token = (lam__bytes){"[UNK]", 5};
    r->spec.wordpiece.prefix = (lam__bytes){"##", 2};
    r->spec.wordpiece.max_chars = 100;
    LAM_TRY(split_lines(r, text, bytes, err));
    LAM_TRY(read_normalizer(r, err));
    LAM_TRY(add_specials(r, err));
    LAM_TRY(lam_tokenizer_plain_templates(r, err));
    return lam__tokenizer_build(out, &r->spec, err);
}

lam_status lam_vocab_txt_read(lam_tokenizer **out, lam_tokenizer_reader *r, const char *name,
                              lam_err *err)
{
    lam_file file;
    char *text = NULL;
    size_t bytes = 0;
    LAM_TRY(lam_file_open(&file, r->dir, name, err));
    lam_status status = lam_file_read_all(&file, MAX_VOCAB_BYTES, &text, &bytes, err);
    if (status == LAM_OK) status = describe(out, r, text, bytes, err);
    free(text);
    lam_file_close(&file);
    return status;
}
