#include "core/import/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"

/* Which prefix the file has is settled by the first tensor that is found. */
typedef struct binder {
    lam_tensors *t;
    const char *prefix; /* or NULL */
    char first[LAM_TENSOR_NAME_MAX];
    lam_err *err;
} binder;

/* `layer`: a set of weights. */
static size_t slot_of(const lam_tensors *t, size_t row, size_t layer)
{
    const size_t l = lam_tensor_row_is_per_layer(&t->family->rows[row]) ? layer : 0;
    return row * t->sets + l;
}

size_t lam__tensors_set(const lam_tensors *t, size_t layer)
{
    return layer == LAM_LAYER_NONE ? 0 : layer * t->sets / t->layers;
}

/* Looks under every name that the tensor may have: with and without prefix, new and old. */
static lam_status find_one(binder *b, size_t row, size_t layer, lam_tensor *out)
{
    const lam_family *family = b->t->family;
    char found[LAM_TENSOR_NAME_MAX] = "";
    *out = (lam_tensor){0};
    for (int i = 0; i < 4; i++) {
        const char *prefix = i & 1 ? family->prefix : "";
        const bool old = (i & 2) != 0;
        char name[LAM_TENSOR_NAME_MAX];
        lam_tensor tensor;
        if (old && family->rows[row].old_param == NULL) break;
        if (i & 1 && prefix[0] == '\0') continue;
        lam_tensor_row_name(name, &family->rows[row], prefix, layer, old);
        LAM_TRY(lam_bundle_find(b->t->bundle, name, &tensor, b->err));
        if (tensor.entry == NULL) continue;
        if (out->entry != NULL)
            return lam_fail_in(b->err, LAM_E_WEIGHTS, tensor.file->file.name, name,
                               "is the same tensor as %s: "
                               "one of the two must go",
                               found);
        if (b->prefix != NULL && strcmp(b->prefix, prefix) != 0)
            return lam_fail_in(b->err, LAM_E_WEIGHTS, tensor.file->file.name, name,
                               "\"%s\" must stand before all names or none; compare %s",
                               family->prefix, b->first);
        if (b->prefix == NULL) memcpy(b->first, name, sizeof name);
        b->prefix = prefix;
        memcpy(found, name, sizeof name);
        *out = tensor;
    }
    return LAM_OK;
}

void lam__print_shape(char *out, size_t bytes, const size_t *shape, size_t rank)
{
    size_t used = 0;
    for (size_t i = 0; i < rank; i++) {
        const int n = snprintf(out + used, bytes - used, "%s%zu", i ? ", " : "", shape[i]);
        if (n < 0 || (size_t)n >= bytes - used) return;
        used += (size_t)n;
    }
    out[used] = '\0';
}

lam_status lam_tensor_check_dtype(const lam_tensor *t, const char *what, lam_err *err)
{
    const lam_dtype d = t->entry->dtype;
    if (d == LAM_DTYPE_F32 || d == LAM_DTYPE_F16 || d == LAM_DTYPE_BF16 || d == LAM_DTYPE_F64)
        return LAM_OK;
    return lam_fail_in(err, LAM_E_WEIGHTS, t->file->file.name, what,
                       "has dtype %s; weights are F32, F16, BF16 or F64", lam_dtype_name(d));
}

static lam_status check_tensor(const lam_tensor *t, size_t rank, const size_t *shape, lam_err *err)
{
    const lam_st_entry *e = t->entry;
    lam_quoted q;
    char has[200] = "", needed[64] = "";
    lam_quote(&q, e->name, e->name_bytes);
    if (e->rank != rank || memcmp(e->shape, shape, rank * sizeof *shape) != 0) {
        lam__print_shape(has, sizeof has, e->shape, e->rank);
        lam__print_shape(needed, sizeof needed, shape, rank);
        return lam_fail_in(err, LAM_E_WEIGHTS, t->file->file.name, q.text,
                           "has shape [%s]; the configuration asks for [%s]", has, needed);
    }
    return lam_tensor_check_dtype(t, q.text, err);
}

static lam_status bind_one(binder *b, const lam_hparams *h, size_t row, size_t layer)
{
    const lam_tensor_row *r = &b->t->family->rows[row];
    const size_t shape[2] = {lam_dim_size(h, r->rows), lam_dim_size(h, r->columns)};
    lam_tensor *slot = &b->t->slots[slot_of(b->t, row, layer)];
    LAM_TRY(find_one(b, row, layer, slot));
    if (slot->entry == NULL) {
        char name[LAM_TENSOR_NAME_MAX];
        lam_tensor_row_name(name, r, b->prefix ? b->prefix : "", layer, false);
        return lam_fail_in(b->err, LAM_E_WEIGHTS, lam_bundle_name(b->t->bundle), name,
                           "tensor is missing");
    }
    slot->entry->used = true;
    return check_tensor(slot, r->columns == LAM_DIM_NONE ? 1 : 2, shape, b->err);
}

static bool is_ignored(const lam_family *family, const lam_st_entry *e)
{
    const char *name = e->name;
    size_t n = e->name_bytes;
    const size_t prefix = strlen(family->prefix);
    if (n >= prefix && memcmp(name, family->prefix, prefix) == 0) {
        name += prefix;
        n -= prefix;
    }
    return lam_family_ignores(name, n);
}

static void tell_of_unused(const lam_tensors *t, const lam_warner *w)
{
    char names[512] = "";
    size_t used = 0, count = 0;
    bool full = false;
    for (size_t f = 0; f < t->bundle->count; f++) {
        const lam_safetensors *file = &t->bundle->files[f];
        for (size_t i = 0; i < file->count; i++) {
            const lam_st_entry *e = &file->entries[i];
            lam_quoted q;
            if (e->used || is_ignored(t->family, e)) continue;
            count++;
            if (full) continue;
            lam_quote(&q, e->name, e->name_bytes);
            const size_t need = strlen(q.text) + 2;
            full = need >= sizeof names - used;
            if (!full)
                used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                         used ? ", " : "", q.text);
        }
    }
    if (count > 0)
        lam_warn(w, "%s: %zu tensor%s that a %s encoder does not know %s ignored: %s%s",
                 lam_bundle_name(t->bundle), count, count == 1 ? "" : "s", t->family->model_type,
                 count == 1 ? "is" : "are", names, full ? ", ..." : "");
}

static lam_tensor *slot_for(const lam_tensors *t, lam_module module, size_t layer, const char *name)
{
    if (lam_module_is_norm(module)) return lam__norm_slot(t, module, layer, name);
    for (size_t i = 0; i < t->family->row_count; i++) {
        const lam_tensor_row *r = &t->family->rows[i];
        if (r->module != module || strcmp(r->param, name) != 0) continue;
        const bool per_layer = lam_tensor_row_is_per_layer(r);
        if (per_layer ? layer >= t->layers : layer != LAM_LAYER_NONE) return NULL;
        return &t->slots[slot_of(t, i, per_layer ? lam__tensors_set(t, layer) : 0)];
    }
    return NULL;
}

static bool has_tensor(const lam_weights *w, lam_module module, size_t layer, const char *name)
{
    const lam_tensor *slot = slot_for((const lam_tensors *)w, module, layer, name);
    return slot != NULL && slot->entry != NULL;
}

static lam_status read_tensor(lam_weights *w, const lam_param *p, float *dst, lam_err *err)
{
    const lam_tensors *t = (const lam_tensors *)w;
    const lam_tensor *slot = slot_for(t, p->module, p->layer, p->name);
    size_t count = 1;
    if (slot == NULL || slot->entry == NULL)
        return lam_fail_in(err, LAM_E_WEIGHTS, lam_bundle_name(t->bundle), p->name,
                           "a %s encoder has no such tensor in module %d", t->family->model_type,
                           (int)p->module);
    if (lam_module_is_norm(p->module)) return lam__read_norm(t, p, dst, err);
    LAM_TRY(check_tensor(slot, p->rank, p->shape, err));
    for (size_t i = 0; i < p->rank; i++)
        if (!lam_mul_size(count, p->shape[i], &count))
            return lam_fail_in(err, LAM_E_LIMIT, slot->file->file.name, p->name,
                               "tensor is too large");
    return lam_safetensors_read(slot->file, slot->entry, dst, count, err);
}

lam_status lam_tensors_bind(lam_tensors *t, const lam_family *family, const lam_hparams *h,
                            lam_bundle *bundle, const lam_warner *w, lam_err *err)
{
    size_t slots, norms;
    *t = (lam_tensors){.base = {.read = read_tensor, .has = has_tensor},
                       .family = family,
                       .bundle = bundle,
                       .layers = h->layers,
                       .sets = h->weight_sets};
    if (!lam_mul_size(family->row_count, t->sets, &slots) ||
        !lam_mul_size(family->norm_count * LAM_NORM_TENSOR_COUNT, t->sets, &norms))
        return lam_fail(err, LAM_E_LIMIT, lam_bundle_name(bundle), "too many tensors");
    t->slots = calloc(slots, sizeof *t->slots);
    t->norms = calloc(norms, sizeof *t->norms);
    if (t->slots == NULL || t->norms == NULL) {
        lam_tensors_free(t);
        return lam_fail(err, LAM_E_NOMEM, lam_bundle_name(bundle), "out of memory");
    }
    binder b = {.t = t, .err = err};
    lam_status status = LAM_OK;
    for (size_t row = 0; row < family->row_count && status == LAM_OK; row++) {
        const size_t sets = lam_tensor_row_is_per_layer(&family->rows[row]) ? t->sets : 1;
        if (!lam_tensor_row_exists(&family->rows[row], h)) continue;
        for (size_t l = 0; l < sets && status == LAM_OK; l++)
            status = bind_one(&b, h, row, l);
    }
    t->prefix = b.prefix ? b.prefix : "";
    if (status == LAM_OK) status = lam__bind_norms(t, h, b.prefix, err);
    if (status != LAM_OK) {
        lam_tensors_free(t);
        return status;
    }
    tell_of_unused(t, w);
    return LAM_OK;
}

void lam_tensors_free(lam_tensors *t)
{
    free(t->slots);
    free(t->norms);
    t->slots = t->norms = NULL;
}

const char *lam_tensors_dtype(const lam_tensors *t)
{
    const lam_tensor *word = slot_for(t, LAM_MODULE_WORD_EMBEDDING, LAM_LAYER_NONE, "weight");
    switch ((int)word->entry->dtype) {
    case LAM_DTYPE_F16:
        return "float16";
    case LAM_DTYPE_BF16:
        return "bfloat16";
    case LAM_DTYPE_F64:
        return "float64";
    default:
        return "float32";
    }
}
