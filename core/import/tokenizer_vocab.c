/* vocab.txt: a piece a line, the line number is the id; tokenizer_config.json beside it says the
 * rest. */
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/import/tokenizer_spec.h"

static lam_status split_lines(lam_tokenizer_draft *d, size_t bytes)
{
    size_t lines = 0, bad;
    if (!lam_utf8_valid(d->text, bytes, &bad)) {
        return lam_fail(d->err, LAM_E_FORMAT, d->spec.file, "invalid UTF-8 at byte %zu", bad);
    }
    for (size_t i = 0; i < bytes; i++)
        lines += d->text[i] == '\n';
    if (bytes > 0 && d->text[bytes - 1] != '\n') lines++;
    if (lines > INT32_MAX) return lam_fail(d->err, LAM_E_LIMIT, d->spec.file, "too many lines");
    void *memory;
    LAM_TRY(lam_draft_alloc(d, lines, sizeof(lam__piece), &memory));
    lam__piece *const pieces = memory;
    size_t at = 0;
    for (size_t i = 0; i < lines; i++) {
        const char *const end = memchr(d->text + at, '\n', bytes - at);
        size_t n = (end ? (size_t)(end - d->text) : bytes) - at;
        const size_t next = at + n + 1;
        if (n > 0 && d->text[at + n - 1] == '\r') n--;
        pieces[i] = (lam__piece){{d->text + at, n}, (int32_t)i};
        at = next;
    }
    d->spec.pieces = pieces;
    d->spec.piece_count = lines;
    return LAM_OK;
}

/* A token is a string, or an object with its content. */
static lam_status read_name(const lam_json *config, const char *key, lam__bytes *out, lam_err *err)
{
    json_t *v = lam_json_get(config, key);
    if (json_is_object(v)) v = json_object_get(v, "content");
    if (!v) return LAM_OK;
    if (!json_is_string(v)) return lam_json_fail(config, key, err, "must be a string");
    *out = (lam__bytes){json_string_value(v), json_string_length(v)};
    return LAM_OK;
}

/* The id of a piece, or -1. */
static int32_t find_piece(const lam_tokenizer_draft *d, lam__bytes name)
{
    for (size_t i = 0; i < d->spec.piece_count; i++) {
        const lam__bytes *const p = &d->spec.pieces[i].text;
        if (p->n == name.n && memcmp(p->text, name.text, name.n) == 0) return (int32_t)i;
    }
    return -1;
}

enum { UNK, SEP, PAD, CLS, MASK, SPECIALS };

static lam_status read_specials(lam_tokenizer_draft *d)
{
    static const char *const keys[SPECIALS] = {"unk_token", "sep_token", "pad_token", "cls_token",
                                               "mask_token"};
    lam__bytes names[SPECIALS] = {
        {"[UNK]", 5}, {"[SEP]", 5}, {"[PAD]", 5}, {"[CLS]", 5}, {"[MASK]", 6}};
    void *added_memory, *item_memory;
    LAM_TRY(lam_draft_alloc(d, SPECIALS, sizeof(lam__added_spec), &added_memory));
    LAM_TRY(lam_draft_alloc(d, 5, sizeof(lam__template_item), &item_memory));
    lam__added_spec *const added = added_memory;
    for (size_t i = 0; i < SPECIALS; i++) {
        LAM_TRY(read_name(&d->json, keys[i], &names[i], d->err));
        const int32_t id = find_piece(d, names[i]);
        if (id < 0) {
            lam_quoted q;
            return lam_fail(d->err, LAM_E_FORMAT, d->spec.file, "%s \"%s\" is not in it", keys[i],
                            lam_quote(&q, names[i].text, names[i].n));
        }
        added[i] = (lam__added_spec){.text = names[i], .id = id, .special = true};
    }
    d->spec.added = added;
    d->spec.added_count = SPECIALS;
    d->spec.wordpiece.unk_token = names[UNK];
    lam__template_item *const items = item_memory;
    items[0] = (lam__template_item){LAM__TEMPLATE_SPECIAL, added[CLS].id, 0};
    items[1] = (lam__template_item){LAM__TEMPLATE_FIRST, 0, 0};
    items[2] = (lam__template_item){LAM__TEMPLATE_SPECIAL, added[SEP].id, 0};
    items[3] = (lam__template_item){LAM__TEMPLATE_SECOND, 0, 1};
    items[4] = (lam__template_item){LAM__TEMPLATE_SPECIAL, added[SEP].id, 1};
    d->spec.single[0] = (lam__template_spec){items, 3};
    d->spec.pair[0] = (lam__template_spec){items, 5};
    return LAM_OK;
}

/* The bare templates, and BERT's fixed pipeline with the switches of tokenizer_config.json. */
static lam_status read_pipeline(lam_tokenizer_draft *d)
{
    static const lam__template_item bare[] = {{LAM__TEMPLATE_FIRST, 0, 0},
                                              {LAM__TEMPLATE_SECOND, 0, 1}};
    static const lam__pretok_spec pretok = {.kind = LAM__PRETOK_BERT};
    const lam_json *const c = &d->json;
    bool basic = true, lower = true, chinese = true;
    LAM_TRY(lam_json_opt_bool(c, "do_basic_tokenize", &basic, d->err));
    if (!basic) return lam_json_fail(c, "do_basic_tokenize", d->err, "false is not supported");
    if (json_array_size(lam_json_get(c, "never_split")) > 0) {
        return lam_json_fail(c, "never_split", d->err, "is not supported");
    }
    LAM_TRY(lam_json_opt_bool(c, "do_lower_case", &lower, d->err));
    LAM_TRY(lam_json_opt_bool(c, "tokenize_chinese_chars", &chinese, d->err));
    bool strip = lower;
    LAM_TRY(lam_json_opt_bool(c, "strip_accents", &strip, d->err));
    void *memory;
    LAM_TRY(lam_draft_alloc(d, 1, sizeof(lam__norm_spec), &memory));
    lam__norm_spec *const norm = memory;
    norm->kind = LAM__NORM_BERT;
    norm->as.bert.clean_text = true;
    norm->as.bert.handle_chinese_chars = chinese;
    norm->as.bert.strip_accents = strip;
    norm->as.bert.lowercase = lower;
    d->spec.norms = norm;
    d->spec.norm_count = d->spec.pretok_count = 1;
    d->spec.pretoks = &pretok;
    d->spec.single[1] = (lam__template_spec){bare, 1};
    d->spec.pair[1] = (lam__template_spec){bare, 2};
    d->spec.model = LAM__MODEL_WORDPIECE;
    d->spec.wordpiece.prefix = (lam__bytes){"##", 2};
    d->spec.wordpiece.max_chars = 100;
    return LAM_OK;
}

lam_status lam_tokenizer_read_vocab(lam_tokenizer_draft *d, const lam_dir *dir, const char *name)
{
    lam_file f;
    size_t bytes;
    d->spec.file = name;
    LAM_TRY(lam_file_open(&f, dir, name, d->err));
    const lam_status status =
        lam_file_read_all(&f, LAM_TOKENIZER_MAX_BYTES, &d->text, &bytes, d->err);
    lam_file_close(&f);
    if (status != LAM_OK) {
        d->text = NULL;
        return status;
    }
    LAM_TRY(split_lines(d, bytes));
    LAM_TRY(lam_json_read_optional(&d->json, dir, "tokenizer_config.json", LAM_JSON_REALS, d->err));
    LAM_TRY(read_specials(d));
    return read_pipeline(d);
}
