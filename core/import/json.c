#include "core/import/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

lam_status lam_json_fail(const lam_json *j, const char *key, lam_err *err, const char *format, ...)
{
    char message[sizeof err->message];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return lam_fail_in(err, LAM_E_CONFIG, j->file, key, "%s", message);
}

lam_status lam_json_parse(lam_json *j, const char *text, size_t bytes, const char *file,
                          lam_json_numbers numbers, lam_err *err)
{
    json_error_t e;
    lam_quoted q;
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY |
                         (numbers == LAM_JSON_REALS ? (size_t)JSON_DECODE_INT_AS_REAL : 0);
    *j = (lam_json){0};
    snprintf(j->file, sizeof j->file, "%s", file);
    j->root = j->object = json_loadb(text, bytes, flags, &e);
    if (j->root != NULL) return LAM_OK;
    return lam_fail(err, LAM_E_FORMAT, j->file, "not valid JSON at line %d, column %d: %s", e.line,
                    e.column, lam_quote(&q, e.text, strlen(e.text)));
}

static lam_status read_any(lam_json *j, const lam_dir *d, const char *name,
                           lam_json_numbers numbers, lam_err *err)
{
    lam_file f;
    char *text;
    size_t bytes;
    *j = (lam_json){0};
    LAM_TRY(lam_file_open(&f, d, name, err));
    lam_status status = lam_file_read_all(&f, LAM_JSON_MAX_BYTES, &text, &bytes, err);
    lam_file_close(&f);
    if (status != LAM_OK) return status;
    status = lam_json_parse(j, text, bytes, f.name, numbers, err);
    free(text);
    return status;
}

static lam_status require_kind(lam_json *j, bool right, const char *kind, lam_err *err)
{
    if (right) return LAM_OK;
    lam_json_free(j);
    return lam_fail(err, LAM_E_FORMAT, j->file, "must hold a JSON %s", kind);
}

lam_status lam_json_read(lam_json *j, const lam_dir *d, const char *name, lam_json_numbers numbers,
                         lam_err *err)
{
    LAM_TRY(read_any(j, d, name, numbers, err));
    return require_kind(j, json_is_object(j->root), "object", err);
}

lam_status lam_json_read_array(lam_json *j, const lam_dir *d, const char *name, lam_err *err)
{
    LAM_TRY(read_any(j, d, name, LAM_JSON_INTEGERS, err));
    return require_kind(j, json_is_array(j->root), "array", err);
}

lam_status lam_json_read_optional(lam_json *j, const lam_dir *d, const char *name,
                                  lam_json_numbers numbers, lam_err *err)
{
    *j = (lam_json){0};
    if (!lam_dir_has(d, name)) return LAM_OK;
    return lam_json_read(j, d, name, numbers, err);
}

void lam_json_free(lam_json *j)
{
    json_decref(j->root);
    j->root = j->object = NULL;
}

json_t *lam_json_get(const lam_json *j, const char *key)
{
    json_t *v = json_object_get(j->object, key);
    return json_is_null(v) ? NULL : v;
}

lam_status lam_json_size(const lam_json *j, const char *key, size_t min, size_t max, size_t *out,
                         lam_err *err)
{
    const json_t *v = lam_json_get(j, key);
    if (v == NULL) return lam_json_fail(j, key, err, "key is missing");
    if (!json_is_integer(v)) return lam_json_fail(j, key, err, "must be a whole number");
    const json_int_t n = json_integer_value(v);
    if (n < 0 || (uintmax_t)n < min || (uintmax_t)n > max)
        return lam_json_fail(j, key, err, "must be %zu..%zu, is %lld", min, max, (long long)n);
    *out = (size_t)n;
    return LAM_OK;
}

lam_status lam_json_opt_bool(const lam_json *j, const char *key, bool *out, lam_err *err)
{
    const json_t *v = lam_json_get(j, key);
    if (v == NULL) return LAM_OK;
    if (!json_is_boolean(v)) return lam_json_fail(j, key, err, "must be true or false");
    *out = json_is_true(v);
    return LAM_OK;
}

lam_status lam_json_opt_real(const lam_json *j, const char *key, double *out, lam_err *err)
{
    const json_t *v = lam_json_get(j, key);
    if (v == NULL) return LAM_OK;
    if (!json_is_number(v)) return lam_json_fail(j, key, err, "must be a number");
    *out = json_number_value(v);
    return LAM_OK;
}

lam_status lam_json_opt_string(const lam_json *j, const char *key, const char **out, lam_err *err)
{
    const json_t *v = lam_json_get(j, key);
    if (v == NULL) return LAM_OK;
    if (!json_is_string(v)) return lam_json_fail(j, key, err, "must be a string");
    *out = json_string_value(v);
    return LAM_OK;
}
