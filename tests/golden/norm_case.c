#include "tests/golden/norm_case.h"

bool case_open(norm_case *c, const char *data, const char *name, lam_err *err)
{
    static const lam_warner silent = {0};
    const lam_family *family;
    char path[600];
    *c = (norm_case){.name = name, .folds = LAM_FOLDS_DEFAULT};
    snprintf(c->path, sizeof c->path, "%s/%s", data, name);
    snprintf(path, sizeof path, "%s/cases.json", c->path);
    if (!expected_open(&c->want, c->path, err)) return false;
    if (lam_hf_config_read(&c->hparams, &family, &c->want.dir, err) == LAM_OK &&
        lam_bundle_open(&c->bundle, &c->want.dir, &silent, err) == LAM_OK) {
        if (lam_tensors_bind(&c->tensors, family, &c->hparams, &c->bundle, &silent, err) ==
            LAM_OK) {
            c->cases = load_json(path);
            const json_t *t = json_object_get(c->cases, "tolerance");
            c->relative = json_number_value(json_object_get(t, "relative"));
            return true;
        }
        lam_bundle_close(&c->bundle);
    }
    expected_close(&c->want);
    return false;
}

void case_close(norm_case *c)
{
    json_decref(c->cases);
    lam_tensors_free(&c->tensors);
    lam_bundle_close(&c->bundle);
    expected_close(&c->want);
}

lam_status case_compile(const norm_case *c, const lam_hparams *h, lam_weights *w, lam_isa isa,
                        bool fuse, lam_model **out, lam_err *err)
{
    lam_open_opts opts = lam_open_opts_default();
    opts.isa = isa;
    opts.fuse = fuse;
    opts.folds = c->folds;
    const lam_parts parts = {.name = c->name,
                             .weight_dtype = "float32",
                             .hparams = h ? *h : c->hparams,
                             .weights = w ? w : (lam_weights *)&c->tensors.base,
                             .head = {.pool = LAM_POOL_MEAN}};
    return lam_compile(out, &parts, &opts, err);
}

static int32_t *ids_of(const json_t *list, size_t i)
{
    const json_t *row = json_array_get(list, i);
    if (!json_is_array(row)) return NULL;
    int32_t *ids = must(calloc(json_array_size(row) + 1, sizeof *ids));
    for (size_t k = 0; k < json_array_size(row); k++)
        ids[k] = (int32_t)json_integer_value(json_array_get(row, k));
    return ids;
}

static bool take_options(norm_request *r, const lam_model *m, const json_t *body)
{
    const char *pool = json_string_value(json_object_get(body, "pooling"));
    const json_t *norm = json_object_get(body, "norm");
    const char *source = json_string_value(json_object_get(norm, "statistics"));
    r->opts = lam_encode_opts_default(m);
    r->opts.normalize = json_is_true(json_object_get(body, "normalize"));
    if (pool && !lam_pool_parse(pool, strlen(pool), &r->opts.pool)) return false;
    return !source || lam_norm_source_parse(source, strlen(source), &r->opts.statistics);
}

bool request_open(norm_request *r, const lam_model *m, const json_t *json)
{
    const json_t *body = json_object_get(json, "request");
    const json_t *tokens = json_object_get(body, "tokens");
    *r = (norm_request){.name = json_string_value(json_object_get(json, "name")),
                        .json = json,
                        .expect = json_object_get(json, "expect"),
                        .count = json_array_size(tokens),
                        .width = lam_model_get_info(m)->width};
    bool ok = take_options(r, m, body) && lam_encode_opts_check(m, &r->opts, NULL) == LAM_OK;
    r->items = must(calloc(r->count, sizeof *r->items));
    for (size_t i = 0; i < r->count; i++) {
        lam_item *it = &r->items[i];
        *it = (lam_item){.index = i,
                         .opts = &r->opts,
                         .tokens = json_array_size(json_array_get(tokens, i)),
                         .ids = ids_of(tokens, i),
                         .types = ids_of(json_object_get(body, "token_type_ids"), i)};
        ok &= lam_item_check(m, it, NULL, NULL) == LAM_OK;
        r->rows += it->rows;
    }
    const bool each = r->opts.pool == LAM_POOL_NONE;
    r->out_rows = each ? r->rows : r->count;
    r->out = must(calloc(r->out_rows * r->width + 1, sizeof *r->out));
    float *at = r->out;
    for (size_t i = 0; i < r->count; i++) {
        r->items[i].out = at;
        at += (each ? r->items[i].rows : 1) * r->width;
    }
    return ok && lam_request_check(m, &r->opts, r->rows, SIZE_MAX, NULL) == LAM_OK;
}

void request_close(norm_request *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free((void *)r->items[i].ids);
        free((void *)r->items[i].types);
    }
    free(r->items);
    free(r->out);
}

bool request_run(norm_request *r, lam_ctx *ctx)
{
    if (lam_encode(ctx, r->items, r->count, NULL) != LAM_OK) return false;
    for (size_t i = 0; i < r->count; i++)
        if (r->items[i].status != LAM_OK) return false;
    return true;
}

double *case_expected(const norm_case *c, const char *name, size_t *rows, size_t *columns)
{
    const lam_st_entry *e = lam_safetensors_find(&c->want.file, name, strlen(name));
    if (!e || e->rank != 2) return NULL;
    *rows = e->shape[0];
    *columns = e->shape[1];
    const size_t count = *rows * *columns;
    float *narrow = must(malloc(count * sizeof *narrow + 1));
    double *wide = must(malloc(count * sizeof *wide + 1));
    const lam_status s = lam_safetensors_read(&c->want.file, e, narrow, count, NULL);
    for (size_t i = 0; s == LAM_OK && i < count; i++)
        wide[i] = (double)narrow[i];
    free(narrow);
    if (s == LAM_OK) return wide;
    free(wide);
    return NULL;
}

double relative_error(const float *got, size_t stride, const double *want, size_t rows,
                      size_t columns)
{
    double largest = 0.0, worst = 0.0;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c++) {
            const double w = want[r * columns + c];
            const double off = fabs((double)got[r * stride + c] - w);
            if (!(off <= worst)) worst = off; /* a NaN stays */
            if (fabs(w) > largest) largest = fabs(w);
        }
    }
    return worst / largest;
}
