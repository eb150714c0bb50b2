/* post_processor of tokenizer.json -> templates with and without special tokens. */
#include <stdio.h>
#include <string.h>

#include "core/import/tokenizer_spec.h"

static const char POST[] = "post_processor";

static const lam__template_item FIRST = {LAM__TEMPLATE_FIRST, 0, 0};

/* The same template without its special tokens. */
static lam_status without_specials(lam_tokenizer_draft *d, const lam__template_spec *from,
                                   lam__template_spec *to)
{
    void *memory;
    LAM_TRY(lam_draft_alloc(d, from->count, sizeof(lam__template_item), &memory));
    lam__template_item *const items = memory;
    to->items = items;
    to->count = 0;
    for (size_t i = 0; i < from->count; i++) {
        if (from->items[i].kind != LAM__TEMPLATE_SPECIAL) items[to->count++] = from->items[i];
    }
    return LAM_OK;
}

static lam_status copy(lam_tokenizer_draft *d, const lam__template_item *items, size_t count,
                       lam__template_spec *to)
{
    void *memory;
    LAM_TRY(lam_draft_alloc(d, count, sizeof *items, &memory));
    memcpy(memory, items, count * sizeof *items);
    to->items = memory;
    to->count = count;
    return LAM_OK;
}

/* ---- none, BertProcessing, RobertaProcessing ---- */

static lam_status no_post(lam_tokenizer_draft *d)
{
    const lam__template_item pair[] = {FIRST, {LAM__TEMPLATE_SECOND, 0, 1}};
    for (size_t i = 0; i < 2; i++) {
        LAM_TRY(copy(d, &FIRST, 1, &d->spec.single[i]));
        LAM_TRY(copy(d, pair, 2, &d->spec.pair[i]));
    }
    return LAM_OK;
}

/* ["[SEP]", 102]: string and id must belong together. */
static lam_status read_special(lam_tokenizer_draft *d, json_t *v, const char *key, int32_t *id)
{
    char path[64];
    snprintf(path, sizeof path, "%s.%s", POST, key);
    json_t *const pair = json_object_get(v, key);
    const json_t *const number = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_string(json_array_get(pair, 0)) ||
        !json_is_integer(number) || json_integer_value(number) < 0 ||
        json_integer_value(number) > INT32_MAX) {
        return lam_draft_fail(d, LAM_E_FORMAT, path, "must be a list of a token and its id");
    }
    *id = (int32_t)json_integer_value(number);
    return LAM_OK;
}

static lam_status read_bert(lam_tokenizer_draft *d, json_t *v)
{
    static const char *const keys[] = {"type", "sep", "cls", NULL};
    int32_t sep, cls;
    LAM_TRY(lam_draft_only_keys(d, v, POST, keys));
    LAM_TRY(read_special(d, v, "sep", &sep));
    LAM_TRY(read_special(d, v, "cls", &cls));
    const lam__template_item items[] = {{LAM__TEMPLATE_SPECIAL, cls, 0},
                                        {LAM__TEMPLATE_FIRST, 0, 0},
                                        {LAM__TEMPLATE_SPECIAL, sep, 0},
                                        {LAM__TEMPLATE_SECOND, 0, 1},
                                        {LAM__TEMPLATE_SPECIAL, sep, 1}};
    LAM_TRY(no_post(d));
    LAM_TRY(copy(d, items, 3, &d->spec.single[0]));
    return copy(d, items, 5, &d->spec.pair[0]);
}

static lam_status read_roberta(lam_tokenizer_draft *d, json_t *v)
{
    static const char *const keys[] = {"type", "sep", "cls", "trim_offsets", "add_prefix_space",
                                       NULL};
    int32_t sep, cls;
    bool trim, prefix;
    LAM_TRY(lam_draft_only_keys(d, v, POST, keys));
    LAM_TRY(read_special(d, v, "sep", &sep));
    LAM_TRY(read_special(d, v, "cls", &cls));
    LAM_TRY(lam_draft_bool(d, v, POST, "trim_offsets", &trim));
    LAM_TRY(lam_draft_bool(d, v, POST, "add_prefix_space", &prefix));
    if (trim) {
        return lam_draft_fail(d, LAM_E_UNSUPPORTED, "post_processor.trim_offsets",
                              "true is not supported");
    }
    const lam__template_item items[] = {
        {LAM__TEMPLATE_SPECIAL, cls, 0}, {LAM__TEMPLATE_FIRST, 0, 0},
        {LAM__TEMPLATE_SPECIAL, sep, 0}, {LAM__TEMPLATE_SPECIAL, sep, 0},
        {LAM__TEMPLATE_SECOND, 0, 0},    {LAM__TEMPLATE_SPECIAL, sep, 0}};
    const lam__template_item bare[] = {FIRST, {LAM__TEMPLATE_SECOND, 0, 0}};
    LAM_TRY(no_post(d));
    LAM_TRY(copy(d, items, 3, &d->spec.single[0]));
    LAM_TRY(copy(d, items, 6, &d->spec.pair[0]));
    return copy(d, bare, 2, &d->spec.pair[1]);
}

/* ---- TemplateProcessing ---- */

/* ids of special_tokens[name]. */
static lam_status special_ids(lam_tokenizer_draft *d, json_t *v, lam__bytes name, json_t **ids)
{
    lam_quoted q;
    json_t *const token = json_object_getn(json_object_get(v, "special_tokens"), name.text, name.n);
    *ids = json_object_get(token, "ids");
    bool right = json_array_size(*ids) > 0;
    for (size_t i = 0; i < json_array_size(*ids); i++) {
        const json_t *const id = json_array_get(*ids, i);
        right = right && json_is_integer(id) && json_integer_value(id) >= 0 &&
                json_integer_value(id) <= INT32_MAX;
    }
    if (right) return LAM_OK;
    return lam_draft_fail(d, LAM_E_FORMAT, "post_processor.special_tokens",
                          "\"%s\" must be there with a list of ids",
                          lam_quote(&q, name.text, name.n));
}

/* One piece of a template: adds its items. */
static lam_status read_piece(lam_tokenizer_draft *d, json_t *v, json_t *piece, const char *path,
                             lam__template_item *items, size_t *count)
{
    json_t *const special = json_object_get(piece, "SpecialToken");
    json_t *const body = special ? special : json_object_get(piece, "Sequence");
    if (json_object_size(piece) != 1 || !json_is_object(body)) {
        return lam_draft_fail(d, LAM_E_FORMAT, path,
                              "a piece must be a SpecialToken or a Sequence");
    }
    lam__bytes name;
    lam__template_item item = {0};
    LAM_TRY(lam_draft_string(d, body, path, "id", &name));
    LAM_TRY(lam_draft_int(d, body, path, "type_id", 0, &item.type_id));
    if (!special) {
        const bool second = strcmp(name.text, "B") == 0;
        if (!second && strcmp(name.text, "A") != 0) {
            return lam_draft_fail(d, LAM_E_FORMAT, path, "a Sequence must be A or B");
        }
        item.kind = second ? LAM__TEMPLATE_SECOND : LAM__TEMPLATE_FIRST;
        items[(*count)++] = item;
        return LAM_OK;
    }
    json_t *ids;
    LAM_TRY(special_ids(d, v, name, &ids));
    item.kind = LAM__TEMPLATE_SPECIAL;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        item.id = (int32_t)json_integer_value(json_array_get(ids, i));
        items[(*count)++] = item;
    }
    return LAM_OK;
}

enum { MAX_ITEMS = 256 };

static lam_status read_form(lam_tokenizer_draft *d, json_t *v, const char *key,
                            lam__template_spec forms[2])
{
    char path[64];
    snprintf(path, sizeof path, "%s.%s", POST, key);
    json_t *const list = json_object_get(v, key);
    if (!json_is_array(list)) return lam_draft_fail(d, LAM_E_FORMAT, path, "must be a list");
    lam__template_item items[MAX_ITEMS];
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const piece = json_array_get(list, i);
        const json_t *const name = json_object_get(json_object_get(piece, "SpecialToken"), "id");
        const json_t *const token =
            json_object_get(json_object_get(v, "special_tokens"), json_string_value(name));
        const size_t wanted = name ? json_array_size(json_object_get(token, "ids")) : 1;
        if (wanted > MAX_ITEMS - count) {
            return lam_draft_fail(d, LAM_E_LIMIT, path, "more than %d tokens", MAX_ITEMS);
        }
        LAM_TRY(read_piece(d, v, piece, path, items, &count));
    }
    LAM_TRY(copy(d, items, count, &forms[0]));
    return without_specials(d, &forms[0], &forms[1]);
}

static lam_status read_template(lam_tokenizer_draft *d, json_t *v)
{
    static const char *const keys[] = {"type", "single", "pair", "special_tokens", NULL};
    LAM_TRY(lam_draft_only_keys(d, v, POST, keys));
    LAM_TRY(read_form(d, v, "single", d->spec.single));
    return read_form(d, v, "pair", d->spec.pair);
}

lam_status lam_tokenizer_read_post(lam_tokenizer_draft *d, json_t *v)
{
    static const struct {
        const char *type;
        lam_status (*read)(lam_tokenizer_draft *, json_t *);
    } rows[] = {{"TemplateProcessing", read_template},
                {"BertProcessing", read_bert},
                {"RobertaProcessing", read_roberta}};
    if (!v || json_is_null(v)) return no_post(d);
    const char *const type = json_string_value(json_object_get(v, "type"));
    for (size_t i = 0; type && i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].type, type) == 0) return rows[i].read(d, v);
    }
    return lam_draft_unsupported(d, POST, v);
}
