/* The tensors of norms. What a kind calls them, which it needs and which published files hold
 * besides stands in core/norm/kinds.c. */
#include <stdio.h>
#include <string.h>

#include "core/import/calibrated.h"

/* One norm of one layer. */
typedef struct norm_binder {
    lam_tensors *t;
    lam_norm_site site;
    char path[LAM_TENSOR_NAME_MAX]; /* with prefix and final dot */
    lam_tensor *slots;              /* [LAM_NORM_TENSOR_COUNT] */
    const char *nested;             /* "" or the second path of the kind */
    lam_err *err;
} norm_binder;

static void path_of(char out[LAM_TENSOR_NAME_MAX], const lam_norm_path *norm, const char *prefix,
                    size_t layer)
{
    const lam_tensor_row row = {.name = norm->path, .param = ""};
    lam_tensor_row_name(out, &row, prefix, layer, false);
}

static bool is_per_layer(const lam_norm_path *norm)
{
    return strchr(norm->path, '%') != NULL;
}

/* `set` of weights. */
static lam_tensor *slots_of(const lam_tensors *t, size_t norm, size_t set)
{
    const size_t at = is_per_layer(&t->family->norms[norm]) ? set : 0;
    return &t->norms[(norm * t->sets + at) * LAM_NORM_TENSOR_COUNT];
}

static lam_status refuse(const norm_binder *b, const char *file, const char *name, size_t bytes,
                         const char *why)
{
    lam_quoted q;
    return lam_fail_in(b->err, LAM_E_WEIGHTS, file, lam_quote(&q, name, bytes), "%s", why);
}

static lam_status refuse_entry(const norm_binder *b, const lam_tensor *t, const char *why)
{
    return refuse(b, t->file->file.name, t->entry->name, t->entry->name_bytes, why);
}

/* ---- Everything under a path ---- */

/* Below 0, 0 or above 0 as the entry's name is before, begins with, or is behind the text. */
static int compare_start(const lam_st_entry *e, const char *text, size_t n)
{
    const size_t shorter = e->name_bytes < n ? e->name_bytes : n;
    const int c = memcmp(e->name, text, shorter);
    if (c != 0) return c;
    return e->name_bytes < n ? -1 : 0;
}

/* The first entry whose name begins with the text; entries are sorted. */
static size_t first_under(const lam_safetensors *st, const char *text, size_t n)
{
    size_t low = 0, high = st->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_start(&st->entries[middle], text, n) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Calls `visit` for each tensor under a path, with the rest of its name; stops at what is not OK.
 */
static lam_status each_under(const norm_binder *b, const char *path,
                             lam_status (*visit)(const norm_binder *b, const lam_tensor *t,
                                                 const char *rest, size_t bytes))
{
    const size_t n = strlen(path);
    for (size_t f = 0; f < b->t->bundle->count; f++) {
        const lam_safetensors *st = &b->t->bundle->files[f];
        for (size_t i = first_under(st, path, n);
             i < st->count && compare_start(&st->entries[i], path, n) == 0; i++) {
            const lam_tensor t = {st, &st->entries[i]};
            LAM_TRY(visit(b, &t, t.entry->name + n, t.entry->name_bytes - n));
        }
    }
    return LAM_OK;
}

static bool is_text(const char *name, size_t bytes, const char *text)
{
    return strlen(text) == bytes && memcmp(name, text, bytes) == 0;
}

static lam_status check_surplus(const norm_binder *b, const lam_tensor *t, const char *rest,
                                size_t bytes)
{
    const lam_norm_info *info = lam_norm_get_info(b->site.spec.kind);
    if (t->entry->used) return LAM_OK;
    for (const char *const *name = info->ignored; name && *name; name++) {
        if (!is_text(rest, bytes, *name)) continue;
        t->entry->used = true; /* nothing to tell of */
        return LAM_OK;
    }
    return refuse_entry(b, t, "is no tensor of this norm as it is configured");
}

static lam_status refuse_any(const norm_binder *b, const lam_tensor *t, const char *rest,
                             size_t bytes)
{
    (void)rest, (void)bytes;
    return refuse_entry(b, t, "the model as it is configured has no such norm");
}

static lam_status refuse_prefix(const norm_binder *b, const lam_tensor *t, const char *rest,
                                size_t bytes)
{
    (void)rest, (void)bytes;
    char why[64];
    snprintf(why, sizeof why, "\"%s\" must stand before all names or none", b->t->family->prefix);
    return refuse_entry(b, t, why);
}

/* ---- One tensor ---- */

static lam_status find(const norm_binder *b, const char *nested, const char *name,
                       char full[LAM_TENSOR_NAME_MAX], lam_tensor *out)
{
    snprintf(full, LAM_TENSOR_NAME_MAX, "%s%s%s", b->path, nested, name);
    return lam_bundle_find(b->t->bundle, full, out, b->err);
}

/* Dimensions of size 1 say nothing: [D], [1, D, 1, 1] and [1, D] are the same, and a scalar is []
 * or [1]. */
static bool has_shape(const lam_st_entry *e, size_t count)
{
    size_t rank = 0, size = 1;
    for (size_t i = 0; i < e->rank; i++) {
        if (e->shape[i] == 1) continue;
        rank++;
        size = e->shape[i];
    }
    return rank <= 1 && size == count;
}

static lam_status check(const norm_binder *b, const lam_tensor *t, lam_norm_tensor tensor)
{
    const size_t count = lam_norm_tensor_is_scalar(tensor) ? 1 : b->site.width;
    lam_quoted q;
    if (!has_shape(t->entry, count)) {
        char has[200] = "";
        lam__print_shape(has, sizeof has, t->entry->shape, t->entry->rank);
        return lam_fail_in(b->err, LAM_E_WEIGHTS, t->file->file.name,
                           lam_quote(&q, t->entry->name, t->entry->name_bytes),
                           "has shape [%s]; the configuration asks for [%zu]", has, count);
    }
    return lam_tensor_check_dtype(t, lam_quote(&q, t->entry->name, t->entry->name_bytes), b->err);
}

static lam_status refuse_double(const norm_binder *b, const lam_tensor *t, const lam_tensor *first)
{
    char why[320];
    lam_quoted q;
    snprintf(why, sizeof why, "is the same tensor as %s: one of the two must go",
             lam_quote(&q, first->entry->name, first->entry->name_bytes));
    return refuse_entry(b, t, why);
}

static bool is_needed(const lam_norm_spec *spec, lam_norm_tensor tensor)
{
    const bool running = tensor == LAM_NORM_TENSOR_MEAN || tensor == LAM_NORM_TENSOR_SQUARE;
    return !running || spec->source == LAM_NORM_FROM_RUNNING;
}

static lam_status bind_tensor(const norm_binder *b, const lam_norm_stored *stored)
{
    lam_tensor *slot = &b->slots[stored->tensor];
    char full[LAM_TENSOR_NAME_MAX];
    if (!lam_norm_uses(&b->site.spec, stored->tensor)) return LAM_OK;
    for (size_t i = 0; stored->names[i]; i++) {
        lam_tensor found;
        LAM_TRY(find(b, b->nested, stored->names[i], full, &found));
        if (found.entry == NULL) continue;
        if (slot->entry != NULL) return refuse_double(b, &found, slot);
        *slot = found;
        found.entry->used = true;
    }
    if (slot->entry != NULL) return check(b, slot, stored->tensor);
    if (!is_needed(&b->site.spec, stored->tensor)) return LAM_OK;
    snprintf(full, sizeof full, "%s%s%s", b->path, b->nested, stored->names[0]);
    return refuse(b, lam_bundle_name(b->t->bundle), full, strlen(full), "tensor is missing");
}

/* ---- One norm ---- */

/* Whether any of the kind's tensors stands under `nested`; its name then is in `full`. */
static lam_status stands_under(const norm_binder *b, const char *nested,
                               char full[LAM_TENSOR_NAME_MAX], bool *any)
{
    const lam_norm_stored *s = lam_norm_get_info(b->site.spec.kind)->stored;
    *any = false;
    for (size_t i = 0; i < LAM_NORM_MAX_STORED && s[i].names[0]; i++) {
        for (size_t n = 0; s[i].names[n] && !*any; n++) {
            lam_tensor found;
            LAM_TRY(find(b, nested, s[i].names[n], full, &found));
            *any = found.entry != NULL;
        }
    }
    return LAM_OK;
}

static lam_status choose_nested(norm_binder *b)
{
    const char *nested = lam_norm_get_info(b->site.spec.kind)->nested;
    char full[LAM_TENSOR_NAME_MAX];
    bool inside, plain;
    b->nested = "";
    if (nested == NULL) return LAM_OK;
    LAM_TRY(stands_under(b, nested, full, &inside));
    if (!inside) return LAM_OK;
    b->nested = nested;
    LAM_TRY(stands_under(b, "", full, &plain));
    if (!plain) return LAM_OK;
    return refuse(b, lam_bundle_name(b->t->bundle), full, strlen(full),
                  "stands beside tensors of the same norm under a longer path: one must go");
}

static lam_status bind_norm(norm_binder *b)
{
    if (b->site.spec.kind == LAM_NORM_ABSENT) return each_under(b, b->path, refuse_any);
    const lam_norm_stored *s = lam_norm_get_info(b->site.spec.kind)->stored;
    LAM_TRY(choose_nested(b));
    for (size_t i = 0; i < LAM_NORM_MAX_STORED && s[i].names[0]; i++)
        LAM_TRY(bind_tensor(b, &s[i]));
    return each_under(b, b->path, check_surplus);
}

static lam_status bind_at(lam_tensors *t, const lam_hparams *h, size_t norm, size_t layer,
                          const char *prefix, lam_err *err)
{
    const lam_norm_path *path = &t->family->norms[norm];
    norm_binder b = {.t = t,
                     .site = lam_hparams_norm(h, path->module),
                     .slots = slots_of(t, norm, layer),
                     .err = err};
    const bool prefixed = prefix[0] != '\0';
    char other[LAM_TENSOR_NAME_MAX];
    path_of(b.path, path, prefix, layer);
    path_of(other, path, prefixed ? "" : t->family->prefix, layer);
    LAM_TRY(bind_norm(&b));
    if (t->family->prefix[0] == '\0') return LAM_OK;
    return each_under(&b, other, refuse_prefix);
}

static lam_status bind_layer(lam_tensors *t, const lam_hparams *h, size_t layer, const char *prefix,
                             lam_err *err)
{
    for (size_t n = 0; n < t->family->norm_count; n++)
        if (is_per_layer(&t->family->norms[n])) LAM_TRY(bind_at(t, h, n, layer, prefix, err));
    return LAM_OK;
}

lam_status lam__bind_norms(lam_tensors *t, const lam_hparams *h, const char *prefix, lam_err *err)
{
    bool first = true;
    if (prefix == NULL) prefix = "";
    /* In order of computation: what stands before the layers, the layers, what stands after. */
    for (size_t n = 0; n < t->family->norm_count; n++) {
        if (!is_per_layer(&t->family->norms[n])) {
            LAM_TRY(bind_at(t, h, n, 0, prefix, err));
            continue;
        }
        for (size_t set = 0; first && set < t->sets; set++)
            LAM_TRY(bind_layer(t, h, set, prefix, err));
        first = false;
    }
    return LAM_OK;
}

/* ---- For the compiler ---- */

lam_tensor *lam__norm_slot(const lam_tensors *t, lam_module module, size_t layer, const char *name)
{
    for (size_t n = 0; n < t->family->norm_count; n++) {
        if (t->family->norms[n].module != module) continue;
        if (is_per_layer(&t->family->norms[n]) ? layer >= t->layers : layer != LAM_LAYER_NONE)
            return NULL;
        for (int i = 0; i < LAM_NORM_TENSOR_COUNT; i++)
            if (strcmp(lam_norm_tensor_name((lam_norm_tensor)i), name) == 0)
                return &slots_of(t, n, lam__tensors_set(t, layer))[i];
    }
    return NULL;
}

lam_status lam__norm_tensor_path(const lam_tensors *t, const lam_hparams *h, lam_module module,
                                 size_t layer, lam_norm_tensor tensor,
                                 char out[LAM_TENSOR_NAME_MAX], lam_err *err)
{
    norm_binder b = {.t = (lam_tensors *)t, .site = lam_hparams_norm(h, module), .err = err};
    const lam_norm_path path = {.module = module, .path = lam__norm_path(t->family, module)};
    path_of(b.path, &path, t->prefix, lam__tensors_set(t, layer));
    LAM_TRY(choose_nested(&b));
    const lam_norm_stored *s = lam_norm_get_info(b.site.spec.kind)->stored;
    out[0] = '\0';
    for (size_t i = 0; i < LAM_NORM_MAX_STORED && s[i].names[0]; i++)
        if (s[i].tensor == tensor)
            snprintf(out, LAM_TENSOR_NAME_MAX, "%s%s%s", b.path, b.nested, s[i].names[0]);
    return LAM_OK;
}

lam_status lam__read_norm(const lam_tensors *t, const lam_param *p, float *dst, lam_err *err)
{
    const lam_tensor *slot = lam__norm_slot(t, p->module, p->layer, p->name);
    const size_t count = p->shape[0];
    const bool square = strcmp(p->name, lam_norm_tensor_name(LAM_NORM_TENSOR_SQUARE)) == 0;
    lam_quoted q;
    LAM_TRY(lam_safetensors_read(slot->file, slot->entry, dst, count, err));
    for (size_t i = 0; square && i < count; i++)
        if (dst[i] < 0.0f)
            return lam_fail_in(err, LAM_E_WEIGHTS, slot->file->file.name,
                               lam_quote(&q, slot->entry->name, slot->entry->name_bytes),
                               "value %zu is negative", i);
    return LAM_OK;
}
