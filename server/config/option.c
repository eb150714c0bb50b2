#include "server/config/option.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Bytes of a refused value that an error shows. */
enum { SHOWN_BYTES = 64 };

static char *field_of(const srv_option *o, void *base)
{
    return (char *)base + o->offset;
}

static void store_text(const srv_option *o, void *base, const char *text)
{
    memcpy(field_of(o, base), &text, sizeof text);
}

static void store_number(const srv_option *o, void *base, uint64_t v)
{
    memcpy(field_of(o, base), &v, sizeof v);
}

static void store_switch(const srv_option *o, void *base, bool v)
{
    memcpy(field_of(o, base), &v, sizeof v);
}

void srv_option_defaults(const srv_option *options, size_t count, void *base)
{
    for (size_t i = 0; i < count; i++) {
        const srv_option *o = &options[i];
        switch (o->type) {
        case SRV_OPTION_TEXT:
        case SRV_OPTION_LIST:
        case SRV_OPTION_CHOICE:
        case SRV_OPTION_WORDS:
            store_text(o, base, o->text);
            break;
        case SRV_OPTION_NUMBER:
            store_number(o, base, o->number);
            break;
        case SRV_OPTION_SWITCH:
            store_switch(o, base, false);
            break;
        }
    }
}

/* Names are kept with '_'; `word` is what the caller's spelling has in its place. */
static bool name_matches(const char *name, const char *s, size_t n, char word)
{
    if (strlen(name) != n) return false;
    for (size_t i = 0; i < n; i++) {
        if (name[i] == '_' ? s[i] != word : s[i] != name[i]) return false;
    }
    return true;
}

const srv_option *srv_option_find(const srv_option *options, size_t count, const char *name,
                                  size_t name_bytes, char word)
{
    for (size_t i = 0; i < count; i++)
        if (name_matches(options[i].name, name, name_bytes, word)) return &options[i];
    return NULL;
}

bool srv_number_parse(const char *text, size_t bytes, uint64_t *out)
{
    uint64_t v = 0;
    if (bytes == 0) return false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        if (__builtin_mul_overflow(v, (uint64_t)10, &v)) return false;
        if (__builtin_add_overflow(v, (uint64_t)(text[i] - '0'), &v)) return false;
    }
    *out = v;
    return true;
}

bool srv_list_next(const char *list, size_t *at, const char **word, size_t *bytes)
{
    if (!list || list[*at] == '\0') return false;
    const char *s = list + *at;
    size_t n = strcspn(s, ",");
    *word = s;
    *bytes = n;
    *at += n + (s[n] == ',');
    return true;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* What a line of a file can carry unchanged, so that --print-config reads back. */
static lam_status check_text(const srv_option *o, const char *text, const char *where, lam_err *err)
{
    size_t n = strlen(text);
    if (n < o->min || n > o->max)
        return lam_fail(err, LAM_E_CONFIG, where,
                        "a value of %zu bytes is not within %" PRIu64 " to %" PRIu64, n, o->min,
                        o->max);
    if (is_space(text[0]) || is_space(text[n - 1]))
        return lam_fail(err, LAM_E_CONFIG, where, "the value begins or ends with a space");
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return lam_fail(err, LAM_E_CONFIG, where, "the value holds a control character");
    return LAM_OK;
}

static lam_status check_list(const char *text, const char *where, lam_err *err)
{
    size_t n = strlen(text);
    if (text[0] == ',' || text[n - 1] == ',' || strstr(text, ",,"))
        return lam_fail(err, LAM_E_CONFIG, where, "an entry of the list is empty");
    if (strpbrk(text, " \t")) return lam_fail(err, LAM_E_CONFIG, where, "the list holds a space");
    return LAM_OK;
}

static lam_status check_choice(const srv_option *o, const char *text, size_t n, const char *where,
                               lam_err *err)
{
    for (const char *s = o->value; *s;) {
        size_t k = strcspn(s, "|");
        if (k == n && memcmp(s, text, n) == 0) return LAM_OK;
        s += k + (s[k] == '|');
    }
    const char *one_of = strchr(o->value, '|') ? "one of " : "";
    return lam_fail(err, LAM_E_CONFIG, where, "\"%.*s\" is not %s%s",
                    (int)(n < SHOWN_BYTES ? n : SHOWN_BYTES), text, one_of, o->value);
}

static lam_status check_words(const srv_option *o, const char *text, const char *where,
                              lam_err *err)
{
    size_t at = 0, n = 0;
    const char *word = NULL;
    LAM_TRY(check_list(text, where, err));
    while (srv_list_next(text, &at, &word, &n))
        LAM_TRY(check_choice(o, word, n, where, err));
    return LAM_OK;
}

static lam_status set_number(const srv_option *o, void *base, const char *text, const char *where,
                             lam_err *err)
{
    uint64_t v = 0;
    if (srv_number_parse(text, strlen(text), &v) && v >= o->min && v <= o->max) {
        store_number(o, base, v);
        return LAM_OK;
    }
    if (o->min == o->max)
        return lam_fail(err, LAM_E_CONFIG, where, "\"%.*s\" is not %" PRIu64, SHOWN_BYTES, text,
                        o->min);
    return lam_fail(err, LAM_E_CONFIG, where,
                    "\"%.*s\" is not a number from %" PRIu64 " to %" PRIu64, SHOWN_BYTES, text,
                    o->min, o->max);
}

lam_status srv_option_set(const srv_option *o, void *base, const char *text, const char *where,
                          lam_err *err)
{
    if (o->type == SRV_OPTION_SWITCH) {
        if (text) return lam_fail(err, LAM_E_CONFIG, where, "takes no value");
        store_switch(o, base, true);
        return LAM_OK;
    }
    if (!text || text[0] == '\0') return lam_fail(err, LAM_E_CONFIG, where, "the value is empty");
    switch (o->type) {
    case SRV_OPTION_NUMBER:
        return set_number(o, base, text, where, err);
    case SRV_OPTION_LIST:
        LAM_TRY(check_text(o, text, where, err));
        LAM_TRY(check_list(text, where, err));
        break;
    case SRV_OPTION_CHOICE:
        LAM_TRY(check_choice(o, text, strlen(text), where, err));
        break;
    case SRV_OPTION_WORDS:
        LAM_TRY(check_words(o, text, where, err));
        break;
    case SRV_OPTION_TEXT:
        LAM_TRY(check_text(o, text, where, err));
        break;
    case SRV_OPTION_SWITCH:
        break;
    }
    store_text(o, base, text);
    return LAM_OK;
}

void srv_option_flag(const srv_option *o, char out[SRV_OPTION_NAME_BYTES])
{
    (void)snprintf(out, SRV_OPTION_NAME_BYTES, "--%s", o->name);
    for (char *s = out; *s; s++)
        if (*s == '_') *s = '-';
}

void srv_option_environment(const srv_option *o, char out[SRV_OPTION_NAME_BYTES])
{
    (void)snprintf(out, SRV_OPTION_NAME_BYTES, "LAM_%s", o->name);
    for (char *s = out; *s; s++)
        if (*s >= 'a' && *s <= 'z') *s = (char)(*s - 'a' + 'A');
}

const char *srv_option_get(const srv_option *o, const void *base, char buf[32])
{
    const char *field = (const char *)base + o->offset;
    if (o->type == SRV_OPTION_NUMBER) {
        uint64_t v;
        memcpy(&v, field, sizeof v);
        (void)snprintf(buf, 32, "%" PRIu64, v);
        return buf;
    }
    if (o->type == SRV_OPTION_SWITCH) {
        bool v;
        memcpy(&v, field, sizeof v);
        return v ? "true" : "false";
    }
    const char *text;
    memcpy(&text, field, sizeof text);
    return text;
}
