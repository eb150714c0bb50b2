#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/import/tokenizer_spec.h"

void lam_tokenizer_draft_free(lam_tokenizer_draft *d)
{
    lam_arena_fini(&d->arena);
    lam_json_free(&d->json);
    free(d->text);
    d->text = NULL;
}

lam_status lam_draft_fail(lam_tokenizer_draft *d, lam_status status, const char *key,
                          const char *format, ...)
{
    char message[sizeof d->err->message];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return lam_fail_in(d->err, status, d->spec.file, key, "%s", message);
}

lam_status lam_draft_unsupported(lam_tokenizer_draft *d, const char *key, json_t *v)
{
    char path[200];
    lam_quoted q;
    const json_t *const type = json_object_get(v, "type");
    snprintf(path, sizeof path, "%s.type", key);
    if (!json_is_string(type))
        return lam_draft_fail(d, LAM_E_FORMAT, path, "is missing or no string");
    return lam_draft_fail(d, LAM_E_UNSUPPORTED, path, "\"%s\" is not supported",
                          lam_quote(&q, json_string_value(type), json_string_length(type)));
}

lam_status lam_draft_alloc(lam_tokenizer_draft *d, size_t count, size_t size, void **out)
{
    *out = lam_arena_calloc(&d->arena, count, size);
    if (*out) return LAM_OK;
    return lam_fail(d->err, LAM_E_NOMEM, d->spec.file, "no memory for %zu entries", count);
}

static lam_status wrong(lam_tokenizer_draft *d, const char *path, const char *key, const json_t *v,
                        const char *wanted)
{
    char where[200];
    snprintf(where, sizeof where, "%s.%s", path, key);
    if (!v) return lam_draft_fail(d, LAM_E_FORMAT, where, "key is missing");
    return lam_draft_fail(d, LAM_E_FORMAT, where, "must be %s", wanted);
}

lam_status lam_draft_bool(lam_tokenizer_draft *d, json_t *object, const char *path, const char *key,
                          bool *out)
{
    const json_t *const v = json_object_get(object, key);
    if (!json_is_boolean(v)) return wrong(d, path, key, v, "true or false");
    *out = json_is_true(v);
    return LAM_OK;
}

lam_status lam_draft_string(lam_tokenizer_draft *d, json_t *object, const char *path,
                            const char *key, lam__bytes *out)
{
    const json_t *const v = json_object_get(object, key);
    if (!json_is_string(v)) return wrong(d, path, key, v, "a string");
    *out = (lam__bytes){json_string_value(v), json_string_length(v)};
    return LAM_OK;
}

lam_status lam_draft_int(lam_tokenizer_draft *d, json_t *object, const char *path, const char *key,
                         int32_t min, int32_t *out)
{
    const json_t *const v = json_object_get(object, key);
    if (!json_is_integer(v)) return wrong(d, path, key, v, "a whole number");
    const json_int_t n = json_integer_value(v);
    if (n < min || n > INT32_MAX) return wrong(d, path, key, v, "in the range of ids");
    *out = (int32_t)n;
    return LAM_OK;
}

lam_status lam_draft_only_keys(lam_tokenizer_draft *d, json_t *object, const char *path,
                               const char *const *allowed)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (allowed[i] && strcmp(allowed[i], key) != 0)
            i++;
        if (allowed[i]) continue;
        lam_quoted q;
        return lam_draft_fail(d, LAM_E_UNSUPPORTED, path, "key \"%s\" is not known",
                              lam_quote(&q, key, strlen(key)));
    }
    return LAM_OK;
}
