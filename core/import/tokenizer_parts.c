/* normalizer, pre_tokenizer and post_processor of tokenizer.json. */
#include <stdio.h>
#include <string.h>

#include "core/import/tokenizer_spec.h"

/* ---- lists of steps: one object, or Sequences of them ---- */

enum { MAX_STEPS = 64, MAX_DEPTH = 8 };

typedef struct steps {
    json_t *objects[MAX_STEPS];
    size_t count;
} steps;

/* Writes the steps of `v` in order; Sequences may lie in Sequences. `list` is the key of their
 * list. */
static lam_status flatten(lam_tokenizer_draft *d, json_t *v, const char *path, const char *list,
                          steps *out)
{
    struct {
        json_t *array;
        size_t next;
    } stack[MAX_DEPTH];
    size_t depth = 0;
    out->count = 0;
    for (json_t *at = v; at;) {
        const char *const type = json_string_value(json_object_get(at, "type"));
        if (!json_is_object(at) || !type) {
            return lam_draft_fail(d, LAM_E_FORMAT, path, "each step must be an object with a type");
        }
        if (strcmp(type, "Sequence") == 0) {
            json_t *const array = json_object_get(at, list);
            if (!json_is_array(array) || depth == MAX_DEPTH) {
                return lam_draft_fail(d, LAM_E_FORMAT, path,
                                      "a Sequence must hold a list \"%s\", at most %d deep", list,
                                      MAX_DEPTH);
            }
            stack[depth].array = array;
            stack[depth++].next = 0;
        } else if (out->count == MAX_STEPS) {
            return lam_draft_fail(d, LAM_E_LIMIT, path, "more than %d steps", MAX_STEPS);
        } else {
            out->objects[out->count++] = at;
        }
        while (depth > 0 && stack[depth - 1].next == json_array_size(stack[depth - 1].array))
            depth--;
        at = depth > 0 ? json_array_get(stack[depth - 1].array, stack[depth - 1].next++) : NULL;
    }
    return LAM_OK;
}

/* The number of `type` among names[count], or count. */
static size_t find_name(json_t *object, const char *const *names, size_t count)
{
    const char *const type = json_string_value(json_object_get(object, "type"));
    size_t i = 0;
    while (i < count && strcmp(names[i], type) != 0)
        i++;
    return i;
}

/* ---- normalizers ---- */

#define TEXT(name, text) text,
static const char *const NORM_NAMES[] = {LAM__NORM_MAP(TEXT)};
static const char *const PRETOK_NAMES[] = {LAM__PRETOK_MAP(TEXT)};
static const char *const SPLIT_NAMES[] = {LAM__SPLIT_MAP(TEXT)};
#undef TEXT

static const char NORM[] = "normalizer";

static lam_status read_bert(lam_tokenizer_draft *d, json_t *v, lam__norm_spec *out)
{
    static const char *const keys[] = {"type",          "clean_text", "handle_chinese_chars",
                                       "strip_accents", "lowercase",  NULL};
    LAM_TRY(lam_draft_only_keys(d, v, NORM, keys));
    LAM_TRY(lam_draft_bool(d, v, NORM, "clean_text", &out->as.bert.clean_text));
    LAM_TRY(lam_draft_bool(d, v, NORM, "handle_chinese_chars", &out->as.bert.handle_chinese_chars));
    LAM_TRY(lam_draft_bool(d, v, NORM, "lowercase", &out->as.bert.lowercase));
    out->as.bert.strip_accents = out->as.bert.lowercase;
    const json_t *const strip = json_object_get(v, "strip_accents");
    if (!strip || json_is_null(strip)) return LAM_OK;
    return lam_draft_bool(d, v, NORM, "strip_accents", &out->as.bert.strip_accents);
}

static lam_status read_strip(lam_tokenizer_draft *d, json_t *v, lam__norm_spec *out)
{
    static const char *const keys[] = {"type", "strip_left", "strip_right", NULL};
    LAM_TRY(lam_draft_only_keys(d, v, NORM, keys));
    LAM_TRY(lam_draft_bool(d, v, NORM, "strip_left", &out->as.strip.left));
    return lam_draft_bool(d, v, NORM, "strip_right", &out->as.strip.right);
}

static lam_status read_prepend(lam_tokenizer_draft *d, json_t *v, lam__norm_spec *out)
{
    static const char *const keys[] = {"type", "prepend", NULL};
    LAM_TRY(lam_draft_only_keys(d, v, NORM, keys));
    return lam_draft_string(d, v, NORM, "prepend", &out->as.prepend);
}

static lam_status read_norm_plain(lam_tokenizer_draft *d, json_t *v, lam__norm_spec *out)
{
    (void)out;
    static const char *const keys[] = {"type", NULL};
    return lam_draft_only_keys(d, v, NORM, keys);
}

static lam_status (*const READ_NORM[LAM__NORM_COUNT])(lam_tokenizer_draft *, json_t *,
                                                      lam__norm_spec *) = {
    [LAM__NORM_BERT] = read_bert,      [LAM__NORM_LOWERCASE] = read_norm_plain,
    [LAM__NORM_NFD] = read_norm_plain, [LAM__NORM_STRIP_ACCENTS] = read_norm_plain,
    [LAM__NORM_STRIP] = read_strip,    [LAM__NORM_PREPEND] = read_prepend,
};

lam_status lam_tokenizer_read_norms(lam_tokenizer_draft *d, json_t *v)
{
    if (!v || json_is_null(v)) return LAM_OK;
    steps list;
    void *memory;
    LAM_TRY(flatten(d, v, NORM, "normalizers", &list));
    LAM_TRY(lam_draft_alloc(d, list.count, sizeof(lam__norm_spec), &memory));
    lam__norm_spec *const norms = memory;
    for (size_t i = 0; i < list.count; i++) {
        const size_t kind = find_name(list.objects[i], NORM_NAMES, LAM__NORM_COUNT);
        if (kind == LAM__NORM_COUNT) return lam_draft_unsupported(d, NORM, list.objects[i]);
        norms[i].kind = (lam__norm_kind)kind;
        LAM_TRY(READ_NORM[kind](d, list.objects[i], &norms[i]));
    }
    d->spec.norms = norms;
    d->spec.norm_count = list.count;
    return LAM_OK;
}

/* ---- pre-tokenizers ---- */

static const char PRETOK[] = "pre_tokenizer";

static lam_status read_pretok_plain(lam_tokenizer_draft *d, json_t *v, lam__pretok_spec *out)
{
    (void)out;
    static const char *const keys[] = {"type", NULL};
    return lam_draft_only_keys(d, v, PRETOK, keys);
}

static lam_status read_punctuation(lam_tokenizer_draft *d, json_t *v, lam__pretok_spec *out)
{
    static const char *const keys[] = {"type", "behavior", NULL};
    LAM_TRY(lam_draft_only_keys(d, v, PRETOK, keys));
    out->behavior = LAM__SPLIT_ISOLATED;
    if (!json_object_get(v, "behavior")) return LAM_OK;
    lam__bytes name;
    LAM_TRY(lam_draft_string(d, v, PRETOK, "behavior", &name));
    for (size_t i = 0; i < LAM__SPLIT_COUNT; i++) {
        if (strcmp(SPLIT_NAMES[i], name.text) != 0) continue;
        out->behavior = (lam__split)i;
        return LAM_OK;
    }
    lam_quoted q;
    return lam_draft_fail(d, LAM_E_FORMAT, "pre_tokenizer.behavior", "\"%s\" is no behavior",
                          lam_quote(&q, name.text, name.n));
}

static lam_status read_digits(lam_tokenizer_draft *d, json_t *v, lam__pretok_spec *out)
{
    static const char *const keys[] = {"type", "individual_digits", NULL};
    LAM_TRY(lam_draft_only_keys(d, v, PRETOK, keys));
    bool individual;
    LAM_TRY(lam_draft_bool(d, v, PRETOK, "individual_digits", &individual));
    out->behavior = individual ? LAM__SPLIT_ISOLATED : LAM__SPLIT_CONTIGUOUS;
    return LAM_OK;
}

static lam_status (*const READ_PRETOK[LAM__PRETOK_COUNT])(lam_tokenizer_draft *, json_t *,
                                                          lam__pretok_spec *) = {
    [LAM__PRETOK_BERT] = read_pretok_plain,
    [LAM__PRETOK_WHITESPACE_SPLIT] = read_pretok_plain,
    [LAM__PRETOK_WHITESPACE] = read_pretok_plain,
    [LAM__PRETOK_PUNCTUATION] = read_punctuation,
    [LAM__PRETOK_DIGITS] = read_digits,
};

lam_status lam_tokenizer_read_pretoks(lam_tokenizer_draft *d, json_t *v)
{
    if (!v || json_is_null(v)) return LAM_OK;
    steps list;
    void *memory;
    LAM_TRY(flatten(d, v, PRETOK, "pretokenizers", &list));
    LAM_TRY(lam_draft_alloc(d, list.count, sizeof(lam__pretok_spec), &memory));
    lam__pretok_spec *const pretoks = memory;
    for (size_t i = 0; i < list.count; i++) {
        const size_t kind = find_name(list.objects[i], PRETOK_NAMES, LAM__PRETOK_COUNT);
        if (kind == LAM__PRETOK_COUNT) return lam_draft_unsupported(d, PRETOK, list.objects[i]);
        pretoks[i].kind = (lam__pretok_kind)kind;
        LAM_TRY(READ_PRETOK[kind](d, list.objects[i], &pretoks[i]));
    }
    d->spec.pretoks = pretoks;
    d->spec.pretok_count = list.count;
    return LAM_OK;
}
