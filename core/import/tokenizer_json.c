/* tokenizer.json as Hugging Face tokenizers writes it -> a description. What this version does not
 * run is refused by name, never approximated. Its `truncation` and `padding` are not applied: they
 * belong to whoever called the library when the file was saved. */
#include <stdio.h>
#include <string.h>

#include "core/import/tokenizer_spec.h"

/* An object inside the file; messages name it "tokenizer.json: normalizer". */
static lam_json view(const lam_json *file, json_t *object, const char *name)
{
    lam_json v = {.object = object};
    (void)snprintf(v.file, sizeof v.file, "%.80s: %s", file->file, name);
    return v;
}

static lam_status no_memory(const lam_json *j, lam_err *err)
{
    return lam_fail(err, LAM_E_NOMEM, j->file, "no memory for its description");
}

static lam_status text_of(const lam_json *j, const char *key, lam__bytes *out, lam_err *err)
{
    const json_t *v = lam_json_get(j, key);
    if (!json_is_string(v)) return lam_json_fail(j, key, err, "must be a string");
    *out = (lam__bytes){json_string_value(v), json_string_length(v)};
    return LAM_OK;
}

/* An id; their upper bound is the tokenizer's to check. */
static lam_status id_of(const lam_json *j, const char *key, const json_t *v, int32_t *out,
                        lam_err *err)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > INT32_MAX)
        return lam_json_fail(j, key, err, "an id must be a whole number from 0 to %d", INT32_MAX);
    *out = (int32_t)json_integer_value(v);
    return LAM_OK;
}

static lam_status type_of(const lam_json *j, const char **out, lam_err *err)
{
    *out = NULL;
    LAM_TRY(lam_json_opt_string(j, "type", out, err));
    if (!*out) return lam_json_fail(j, "type", err, "key is missing");
    return LAM_OK;
}

static lam_status unknown_type(const lam_json *j, const char *type, lam_err *err)
{
    lam_quoted q;
    return lam_fail_in(err, LAM_E_UNSUPPORTED, j->file, "type", "\"%s\" is not supported",
                       lam_quote(&q, type, strlen(type)));
}

/* The steps of a part: none, itself, or those of a Sequence, which may not hold another one. */
typedef struct steps {
    json_t *array; /* of a Sequence, else NULL */
    json_t *single;
    size_t count;
} steps;

static lam_status steps_of(const lam_json *file, const char *part, const char *list, steps *out,
                           lam_err *err)
{
    *out = (steps){0};
    json_t *object = lam_json_get(file, part);
    if (!object) return LAM_OK;
    if (!json_is_object(object)) return lam_json_fail(file, part, err, "must be an object or null");
    const lam_json v = view(file, object, part);
    const char *type;
    LAM_TRY(type_of(&v, &type, err));
    if (strcmp(type, "Sequence") != 0) {
        *out = (steps){.single = object, .count = 1};
        return LAM_OK;
    }
    json_t *array = lam_json_get(&v, list);
    if (!json_is_array(array)) return lam_json_fail(&v, list, err, "must be a list");
    *out = (steps){.array = array, .count = json_array_size(array)};
    return LAM_OK;
}

static lam_status step_at(const lam_json *file, const char *part, const steps *s, size_t i,
                          lam_json *out, lam_err *err)
{
    json_t *object = s->array ? json_array_get(s->array, i) : s->single;
    *out = view(file, object, part);
    if (!json_is_object(object)) return lam_json_fail(file, part, err, "step %zu is no object", i);
    return LAM_OK;
}

/* ---- Normalizer ---- */

static lam_status read_bert_normalizer(const lam_json *j, lam__norm_spec *n, lam_err *err)
{
    n->as.bert.clean_text = n->as.bert.handle_chinese_chars = n->as.bert.lowercase = true;
    LAM_TRY(lam_json_opt_bool(j, "clean_text", &n->as.bert.clean_text, err));
    LAM_TRY(lam_json_opt_bool(j, "handle_chinese_chars", &n->as.bert.handle_chinese_chars, err));
    LAM_TRY(lam_json_opt_bool(j, "lowercase", &n->as.bert.lowercase, err));
    n->as.bert.strip_accents = n->as.bert.lowercase; /* what null means */
    return lam_json_opt_bool(j, "strip_accents", &n->as.bert.strip_accents, err);
}

static lam_status read_norm(const lam_json *j, lam__norm_spec *n, lam_err *err)
{
    static const char *const names[] = {
#define X(name, text) text,
        LAM__NORM_MAP(X)
#undef X
    };
    const char *type;
    LAM_TRY(type_of(j, &type, err));
    size_t kind = 0;
    while (kind < LAM__NORM_COUNT && strcmp(names[kind], type) != 0)
        kind++;
    n->kind = (lam__norm_kind)kind;
    switch (n->kind) {
    case LAM__NORM_BERT:
        return read_bert_normalizer(j, n, err);
    case LAM__NORM_STRIP:
        n->as.strip.left = n->as.strip.right = true;
        LAM_TRY(lam_json_opt_bool(j, "strip_left", &n->as.strip.left, err));
        return lam_json_opt_bool(j, "strip_right", &n->as.strip.right, err);
    case LAM__NORM_PREPEND:
        return text_of(j, "prepend", &n->as.prepend, err);
    case LAM__NORM_LOWERCASE:
    case LAM__NORM_NFD:
    case LAM__NORM_STRIP_ACCENTS:
        return LAM_OK;
    case LAM__NORM_COUNT:
        break;
    }
    return unknown_type(j, type, err);
}

static lam_status read_norms(lam_tokenizer_reader *r, const lam_json *file, lam_err *err)
{
    steps s;
    LAM_TRY(steps_of(file, "normalizer", "normalizers", &s, err));
    lam__norm_spec *norms = lam_arena_calloc(&r->arena, s.count + 1, sizeof *norms);
    if (!norms) return no_memory(file, err);
    for (size_t i = 0; i < s.count; i++) {
        lam_json step;
        LAM_TRY(step_at(file, "normalizer", &s, i, &step, err));
        LAM_TRY(read_norm(&step, &norms[i], err));
    }
    r->spec.norms = norms;
    r->spec.norm_count = s.count;
    return LAM_OK;
}

/* ---- Pre-tokenizer ---- */

static lam_status read_behavior(const lam_json *j, lam__split *out, lam_err *err)
{
    static const char *const names[] = {
#define X(name, text) text,
        LAM__SPLIT_MAP(X)
#undef X
    };
    const char *text = names[LAM__SPLIT_ISOLATED];
    LAM_TRY(lam_json_opt_string(j, "behavior", &text, err));
    for (size_t i = 0; i < LAM__SPLIT_COUNT; i++) {
        if (strcmp(names[i], text) != 0) continue;
        *out = (lam__split)i;
        return LAM_OK;
    }
    return lam_json_fail(j, "behavior", err, "is none of those that exist");
}

static lam_status read_pretok(const lam_json *j, lam__pretok_spec *p, lam_err *err)
{
    static const char *const names[] = {
#define X(name, text) text,
        LAM__PRETOK_MAP(X)
#undef X
    };
    const char *type;
    bool individual = false;
    LAM_TRY(type_of(j, &type, err));
    size_t kind = 0;
    while (kind < LAM__PRETOK_COUNT && strcmp(names[kind], type) != 0)
        kind++;
    p->kind = (lam__pretok_kind)kind;
    switch (p->kind) {
    case LAM__PRETOK_PUNCTUATION:
        return read_behavior(j, &p->behavior, err);
    case LAM__PRETOK_DIGITS:
        LAM_TRY(lam_json_opt_bool(j, "individual_digits", &individual, err));
        p->behavior = individual ? LAM__SPLIT_ISOLATED : LAM__SPLIT_CONTIGUOUS;
        return LAM_OK;
    case LAM__PRETOK_BERT:
    case LAM__PRETOK_WHITESPACE_SPLIT:
    case LAM__PRETOK_WHITESPACE:
        return LAM_OK;
    case LAM__PRETOK_COUNT:
        break;
    }
    return unknown_type(j, type, err);
}

static lam_status read_pretoks(lam_tokenizer_reader *r, const lam_json *file, lam_err *err)
{
    steps s;
    LAM_TRY(steps_of(file, "pre_tokenizer", "pretokenizers", &s, err));
    lam__pretok_spec *pretoks = lam_arena_calloc(&r->arena, s.count + 1, sizeof *pretoks);
    if (!pretoks) return no_memory(file, err);
    for (size_t i = 0; i < s.count; i++) {
        lam_json step;
        LAM_TRY(step_at(file, "pre_tokenizer", &s, i, &step, err));
        LAM_TRY(read_pretok(&step, &pretoks[i], err));
    }
    r->spec.pretoks = pretoks;
    r->spec.pretok_count = s.count;
    return LAM_OK;
}

/* ---- Model ---- */

static lam_status read_pieces(lam_tokenizer_reader *r, const lam_json *model, lam_err *err)
{
    json_t *vocab = lam_json_get(model, "vocab");
    if (!json_is_object(vocab)) return lam_json_fail(model, "vocab", err, "must be an object");
    lam__piece *pieces = lam_arena_calloc(&r->arena, json_object_size(vocab) + 1, sizeof *pieces);
    if (!pieces) return no_memory(model, err);
    size_t count = 0;
    for (void *it = json_object_iter(vocab); it; it = json_object_iter_next(vocab, it)) {
        const char *text = json_object_iter_key(it);
        pieces[count].text = (lam__bytes){text, strlen(text)};
        LAM_TRY(id_of(model, "vocab", json_object_iter_value(it), &pieces[count].id, err));
        count++;
    }
    r->spec.pieces = pieces;
    r->spec.piece_count = count;
    return LAM_OK;
}

static lam_status read_model(lam_tokenizer_reader *r, const lam_json *file, lam_err *err)
{
    json_t *object = lam_json_get(file, "model");
    if (!json_is_object(object)) return lam_json_fail(file, "model", err, "must be an object");
    const lam_json model = view(file, object, "model");
    const char *type, *prefix = "##";
    LAM_TRY(type_of(&model, &type, err));
    if (strcmp(type, "WordPiece") != 0) return unknown_type(&model, type, err);
    r->spec.model = LAM__MODEL_WORDPIECE;
    r->spec.wordpiece.max_chars = 100;
    LAM_TRY(text_of(&model, "unk_token", &r->spec.wordpiece.unk_token, err));
    LAM_TRY(lam_json_opt_string(&model, "continuing_subword_prefix", &prefix, err));
    r->spec.wordpiece.prefix = (lam__bytes){prefix, strlen(prefix)};
    if (lam_json_get(&model, "max_input_chars_per_word"))
        LAM_TRY(lam_json_size(&model, "max_input_chars_per_word", 1, 1 << 20,
                              &r->spec.wordpiece.max_chars, err));
    return read_pieces(r, &model, err);
}

/* ---- Added tokens ---- */

static lam_status read_added_token(const lam_json *j, lam__added_spec *a, lam_err *err)
{
    a->normalized = true;
    LAM_TRY(text_of(j, "content", &a->text, err));
    LAM_TRY(id_of(j, "id", lam_json_get(j, "id"), &a->id, err));
    LAM_TRY(lam_json_opt_bool(j, "single_word", &a->single_word, err));
    LAM_TRY(lam_json_opt_bool(j, "lstrip", &a->lstrip, err));
    LAM_TRY(lam_json_opt_bool(j, "rstrip", &a->rstrip, err));
    LAM_TRY(lam_json_opt_bool(j, "normalized", &a->normalized, err));
    return lam_json_opt_bool(j, "special", &a->special, err);
}

static lam_status read_added(lam_tokenizer_reader *r, const lam_json *file, lam_err *err)
{
    json_t *array = lam_json_get(file, "added_tokens");
    if (!array) return LAM_OK;
    if (!json_is_array(array)) return lam_json_fail(file, "added_tokens", err, "must be a list");
    const size_t count = json_array_size(array);
    lam__added_spec *added = lam_arena_calloc(&r->arena, count + 1, sizeof *added);
    if (!added) return no_memory(file, err);
    for (size_t i = 0; i < count; i++) {
        json_t *object = json_array_get(array, i);
        if (!json_is_object(object))
            return lam_json_fail(file, "added_tokens", err, "token %zu is no object", i);
        const lam_json token = view(file, object, "added_tokens");
        LAM_TRY(read_added_token(&token, &added[i], err));
    }
    r->spec.added = added;
    r->spec.added_count = count;
    return LAM_OK;
}

/* ---- Post-processor ---- */

/* The ids that a template's special token stands for. */
static lam_status special_ids(const lam_json *post, const char *name, json_t **ids, lam_err *err)
{
    json_t *table = lam_json_get(post, "special_tokens");
    *ids = json_object_get(json_object_get(table, name), "ids");
    if (json_is_array(*ids) && json_array_size(*ids) > 0) return LAM_OK;
    lam_quoted q;
    return lam_json_fail(post, "special_tokens", err, "has no ids for \"%s\"",
                         lam_quote(&q, name, strlen(name)));
}

typedef struct form {
    lam__template_item *items;
    size_t count, capacity;
    size_t sequences[2]; /* how often A and B stand in it */
} form;

static lam_status add_item(const lam_json *post, form *f, lam__template_item item, lam_err *err)
{
    if (f->count == f->capacity)
        return lam_json_fail(post, "special_tokens", err, "the template has too many tokens");
    f->items[f->count++] = item;
    return LAM_OK;
}

static lam_status read_piece(const lam_json *post, const char *key, json_t *piece, form *f,
                             lam_err *err)
{
    json_t *special = json_object_get(piece, "SpecialToken");
    json_t *sequence = json_object_get(piece, "Sequence");
    json_t *body = special ? special : sequence;
    const char *id = json_string_value(json_object_get(body, "id"));
    lam__template_item item = {0};
    if (!id) return lam_json_fail(post, key, err, "has a piece that is no token and no sequence");
    LAM_TRY(id_of(post, key, json_object_get(body, "type_id"), &item.type_id, err));
    if (sequence) {
        const bool second = strcmp(id, "B") == 0;
        if (!second && strcmp(id, "A") != 0)
            return lam_json_fail(post, key, err, "a sequence is neither A nor B");
        item.kind = second ? LAM__TEMPLATE_SECOND : LAM__TEMPLATE_FIRST;
        f->sequences[second]++;
        return add_item(post, f, item, err);
    }
    json_t *ids;
    LAM_TRY(special_ids(post, id, &ids, err));
    item.kind = LAM__TEMPLATE_SPECIAL;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        LAM_TRY(id_of(post, "special_tokens", json_array_get(ids, i), &item.id, err));
        LAM_TRY(add_item(post, f, item, err));
    }
    return LAM_OK;
}

static lam_status read_form(lam_tokenizer_reader *r, const lam_json *post, const char *key,
                            bool pair, lam__template_spec *out, lam_err *err)
{
    enum { MOST_ITEMS = 256 };
    json_t *array = lam_json_get(post, key);
    if (!json_is_array(array)) return lam_json_fail(post, key, err, "must be a list");
    form f = {.capacity = MOST_ITEMS};
    f.items = lam_arena_calloc(&r->arena, f.capacity, sizeof *f.items);
    if (!f.items) return no_memory(post, err);
    for (size_t i = 0; i < json_array_size(array); i++)
        LAM_TRY(read_piece(post, key, json_array_get(array, i), &f, err));
    if (f.sequences[0] != 1 || f.sequences[1] != pair)
        return lam_json_fail(post, key, err, "must hold each of its sequences once");
    *out = (lam__template_spec){f.items, f.count};
    return LAM_OK;
}

/* "sep": ["[SEP]", 102] */
static lam_status bert_special(const lam_json *post, const char *key, int32_t *out, lam_err *err)
{
    return id_of(post, key, json_array_get(lam_json_get(post, key), 1), out, err);
}

/* What the reference does where the file names no post-processor. */
static lam_status bare_template(lam_tokenizer_reader *r, const lam_json *file, lam_err *err)
{
    lam__template_item *items = lam_arena_calloc(&r->arena, 2, sizeof *items);
    if (!items) return no_memory(file, err);
    items[0] = (lam__template_item){.kind = LAM__TEMPLATE_FIRST};
    items[1] = (lam__template_item){.kind = LAM__TEMPLATE_SECOND, .type_id = 1};
    r->spec.single[0] = (lam__template_spec){items, 1};
    r->spec.pair[0] = (lam__template_spec){items, 2};
    return LAM_OK;
}

static lam_status read_post(lam_tokenizer_reader *r, const lam_json *file, lam_err *err)
{
    json_t *object = lam_json_get(file, "post_processor");
    if (!object) return bare_template(r, file, err);
    const lam_json post = view(file, object, "post_processor");
    const char *type;
    int32_t cls, sep;
    LAM_TRY(type_of(&post, &type, err));
    if (strcmp(type, "TemplateProcessing") == 0) {
        LAM_TRY(read_form(r, &post, "single", false, &r->spec.single[0], err));
        return read_form(r, &post, "pair", true, &r->spec.pair[0], err);
    }
    if (strcmp(type, "BertProcessing") != 0) return unknown_type(&post, type, err);
    LAM_TRY(bert_special(&post, "cls", &cls, err));
    LAM_TRY(bert_special(&post, "sep", &sep, err));
    return lam_tokenizer_bert_template(r, cls, sep, err);
}

static lam_status read_all(lam_tokenizer **out, lam_tokenizer_reader *r, const lam_json *file,
                           lam_err *err)
{
    LAM_TRY(read_norms(r, file, err));
    LAM_TRY(read_pretoks(r, file, err));
    LAM_TRY(read_model(r, file, err));
    LAM_TRY(read_added(r, file, err));
    LAM_TRY(read_post(r, file, err));
    LAM_TRY(lam_tokenizer_plain_templates(r, err));
    return lam__tokenizer_build(out, &r->spec, err);
}

lam_status lam_tokenizer_json_read(lam_tokenizer **out, lam_tokenizer_reader *r, const char *name,
                                   lam_err *err)
{
    lam_json file;
    LAM_TRY(lam_json_read(&file, r->dir, name, LAM_JSON_INTEGERS, err));
    const lam_status status = read_all(out, r, &file, err);
    lam_json_free(&file);
    return status;
}
