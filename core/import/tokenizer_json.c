/* tokenizer.json, read strictly: what is not known is refused by name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/import/tokenizer_spec.h"

/* ---- model ---- */

static lam_status read_vocab(lam_tokenizer_draft *d, json_t *vocab)
{
    if (!json_is_object(vocab)) {
        return lam_draft_fail(d, LAM_E_FORMAT, "model.vocab",
                              "must be an object of pieces and ids");
    }
    void *memory;
    LAM_TRY(lam_draft_alloc(d, json_object_size(vocab), sizeof(lam__piece), &memory));
    lam__piece *const pieces = memory;
    size_t n = 0;
    for (void *it = json_object_iter(vocab); it; it = json_object_iter_next(vocab, it)) {
        const json_t *const id = json_object_iter_value(it);
        const char *const text = json_object_iter_key(it);
        const size_t bytes = json_object_iter_key_len(it);
        const json_int_t number = json_integer_value(id);
        if (!json_is_integer(id) || number < 0 || number > INT32_MAX) {
            lam_quoted q;
            return lam_draft_fail(d, LAM_E_FORMAT, "model.vocab", "\"%s\" has no id in 0..%d",
                                  lam_quote(&q, text, bytes), INT32_MAX);
        }
        pieces[n++] = (lam__piece){{text, bytes}, (int32_t)number};
    }
    d->spec.pieces = pieces;
    d->spec.piece_count = n;
    return LAM_OK;
}

static lam_status read_wordpiece(lam_tokenizer_draft *d, json_t *model)
{
    static const char *const keys[] = {
        "type",  "unk_token", "continuing_subword_prefix", "max_input_chars_per_word",
        "vocab", NULL};
    int32_t max_chars;
    LAM_TRY(lam_draft_only_keys(d, model, "model", keys));
    LAM_TRY(lam_draft_string(d, model, "model", "unk_token", &d->spec.wordpiece.unk_token));
    LAM_TRY(lam_draft_string(d, model, "model", "continuing_subword_prefix",
                             &d->spec.wordpiece.prefix));
    LAM_TRY(lam_draft_int(d, model, "model", "max_input_chars_per_word", 0, &max_chars));
    d->spec.wordpiece.max_chars = (size_t)max_chars;
    d->spec.model = LAM__MODEL_WORDPIECE;
    return read_vocab(d, json_object_get(model, "vocab"));
}

/* Old files have no type; only WordPiece has a limit for words. */
static lam_status read_model(lam_tokenizer_draft *d, json_t *model)
{
    if (!json_is_object(model))
        return lam_draft_fail(d, LAM_E_FORMAT, "model", "must be an object");
    json_t *const type = json_object_get(model, "type");
    const bool wordpiece =
        type ? json_is_string(type) && strcmp(json_string_value(type), "WordPiece") == 0
             : json_object_get(model, "max_input_chars_per_word") != NULL;
    return wordpiece ? read_wordpiece(d, model) : lam_draft_unsupported(d, "model", model);
}

/* ---- added tokens ---- */

static lam_status read_added_token(lam_tokenizer_draft *d, json_t *v, size_t index,
                                   lam__added_spec *out)
{
    static const char *const keys[] = {"id",     "content",    "single_word", "lstrip",
                                       "rstrip", "normalized", "special",     NULL};
    char path[64];
    snprintf(path, sizeof path, "added_tokens[%zu]", index);
    if (!json_is_object(v)) return lam_draft_fail(d, LAM_E_FORMAT, path, "must be an object");
    LAM_TRY(lam_draft_only_keys(d, v, path, keys));
    LAM_TRY(lam_draft_int(d, v, path, "id", 0, &out->id));
    LAM_TRY(lam_draft_string(d, v, path, "content", &out->text));
    LAM_TRY(lam_draft_bool(d, v, path, "single_word", &out->single_word));
    LAM_TRY(lam_draft_bool(d, v, path, "lstrip", &out->lstrip));
    LAM_TRY(lam_draft_bool(d, v, path, "rstrip", &out->rstrip));
    LAM_TRY(lam_draft_bool(d, v, path, "normalized", &out->normalized));
    return lam_draft_bool(d, v, path, "special", &out->special);
}

/* The reference does not take ids from this list: a token that the model knows keeps the model's,
 * any other gets the next number behind the model's pieces. Both agree with the file unless it was
 * edited by hand. */
static int32_t reference_id(json_t *vocab, const lam__added_spec *a, int64_t *largest)
{
    const json_t *const known = json_object_getn(vocab, a->text.text, a->text.n);
    const int64_t pieces = (int64_t)json_object_size(vocab);
    const int64_t next = *largest >= pieces ? *largest + 1 : pieces;
    const int64_t id = known ? json_integer_value(known) : next;
    if (id > *largest) *largest = id;
    return (int32_t)id;
}

static lam_status check_twins(lam_tokenizer_draft *d, json_t *seen, const lam__added_spec *a,
                              size_t index)
{
    char path[64];
    lam_quoted q;
    snprintf(path, sizeof path, "added_tokens[%zu].content", index);
    if (json_object_getn(seen, a->text.text, a->text.n)) {
        return lam_draft_fail(d, LAM_E_FORMAT, path, "\"%s\" is there twice",
                              lam_quote(&q, a->text.text, a->text.n));
    }
    if (json_object_setn_new(seen, a->text.text, a->text.n, json_true()) == 0) return LAM_OK;
    return lam_draft_fail(d, LAM_E_NOMEM, path, "no memory");
}

static lam_status read_added(lam_tokenizer_draft *d, json_t *list, json_t *vocab)
{
    if (!list || json_is_null(list)) return LAM_OK;
    if (!json_is_array(list))
        return lam_draft_fail(d, LAM_E_FORMAT, "added_tokens", "must be a list");
    void *memory;
    LAM_TRY(lam_draft_alloc(d, json_array_size(list), sizeof(lam__added_spec), &memory));
    lam__added_spec *const added = memory;
    json_t *const seen = json_object();
    if (!seen) return lam_draft_fail(d, LAM_E_NOMEM, "added_tokens", "no memory");
    lam_status status = LAM_OK;
    int64_t largest = -1;
    for (size_t i = 0; i < json_array_size(list) && status == LAM_OK; i++) {
        status = read_added_token(d, json_array_get(list, i), i, &added[i]);
        if (status == LAM_OK) status = check_twins(d, seen, &added[i], i);
        if (status == LAM_OK) added[i].id = reference_id(vocab, &added[i], &largest);
    }
    json_decref(seen);
    d->spec.added = added;
    d->spec.added_count = json_array_size(list);
    return status;
}

/* ---- the whole ---- */

static lam_status read_parts(lam_tokenizer_draft *d)
{
    static const char *const keys[] = {
        "version",       "truncation",     "padding", "added_tokens", "normalizer",
        "pre_tokenizer", "post_processor", "decoder", "model",        NULL};
    json_t *const root = d->json.object;
    LAM_TRY(lam_draft_only_keys(d, root, "top level", keys));
    json_t *const model = json_object_get(root, "model");
    LAM_TRY(read_model(d, model));
    LAM_TRY(read_added(d, json_object_get(root, "added_tokens"), json_object_get(model, "vocab")));
    LAM_TRY(lam_tokenizer_read_norms(d, json_object_get(root, "normalizer")));
    LAM_TRY(lam_tokenizer_read_pretoks(d, json_object_get(root, "pre_tokenizer")));
    return lam_tokenizer_read_post(d, json_object_get(root, "post_processor"));
}

lam_status lam_tokenizer_parse_json(lam_tokenizer_draft *d, const char *text, size_t bytes,
                                    const char *name)
{
    LAM_TRY(lam_json_parse(&d->json, text, bytes, name, LAM_JSON_INTEGERS, d->err));
    if (!json_is_object(d->json.root)) {
        return lam_fail(d->err, LAM_E_FORMAT, d->json.file, "must hold a JSON object");
    }
    d->spec.file = d->json.file;
    return read_parts(d);
}

lam_status lam_tokenizer_read_json(lam_tokenizer_draft *d, const lam_dir *dir, const char *name)
{
    lam_file f;
    char *text;
    size_t bytes;
    LAM_TRY(lam_file_open(&f, dir, name, d->err));
    lam_status status = lam_file_read_all(&f, LAM_TOKENIZER_MAX_BYTES, &text, &bytes, d->err);
    lam_file_close(&f);
    if (status != LAM_OK) return status;
    status = lam_tokenizer_parse_json(d, text, bytes, name);
    free(text);
    return status;
}
