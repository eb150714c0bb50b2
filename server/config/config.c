#include "server/config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file of settings is small; more is a wrong path. */
enum { MAX_FILE_BYTES = 65536 };

enum { WHERE_BYTES = 256, PREFIX_BYTES = 4 };
static const char PREFIX[] = "LAM_";

#define X(type, ...) SRV_ROW_##type(srv_config, __VA_ARGS__)
const srv_option srv_config_options[SRV_SETTING_COUNT] = {SRV_SETTING_MAP(X)};
#undef X

static lam_status set(srv_config *c, const srv_option *o, const char *text, srv_origin origin,
                      const char *where, lam_err *err)
{
    LAM_TRY(srv_option_set(o, c, text, where, err));
    c->from[o - srv_config_options].origin = origin;
    return LAM_OK;
}

/* ---- File ------------------------------------------------------------------------------------ */

static lam_status read_descriptor(int fd, char *text, size_t *bytes, const char *path, lam_err *err)
{
    size_t n = 0;
    while (n <= MAX_FILE_BYTES) {
        ssize_t got = read(fd, text + n, MAX_FILE_BYTES + 1 - n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return lam_fail(err, LAM_E_FILE, path, "%s", strerror(errno));
        if (got == 0) break;
        n += (size_t)got;
    }
    if (n > MAX_FILE_BYTES)
        return lam_fail(err, LAM_E_CONFIG, path, "the file is larger than %d bytes",
                        MAX_FILE_BYTES);
    if (memchr(text, '\0', n))
        return lam_fail(err, LAM_E_CONFIG, path, "the file holds a NUL byte");
    text[n] = '\0';
    *bytes = n;
    return LAM_OK;
}

static lam_status read_file(srv_config *c, const char *path, size_t *bytes, lam_err *err)
{
    c->file = path;
    c->file_text = malloc(MAX_FILE_BYTES + 1);
    if (!c->file_text)
        return lam_fail(err, LAM_E_NOMEM, path, "no memory for %d bytes", MAX_FILE_BYTES + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return lam_fail(err, LAM_E_FILE, path, "%s", strerror(errno));
    lam_status s = read_descriptor(fd, c->file_text, bytes, path, err);
    (void)close(fd);
    return s;
}

/* Cuts spaces, tabs and the CR of foreign line ends from both sides; ends the text with a NUL. */
static char *trim(char *s, char *end)
{
    while (s < end && (*s == ' ' || *s == '\t'))
        s++;
    while (end > s && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    *end = '\0';
    return s;
}

static lam_status read_line(srv_config *c, char *line, char *end, size_t number, lam_err *err)
{
    char where[WHERE_BYTES];
    line = trim(line, end);
    if (line[0] == '\0' || line[0] == '#') return LAM_OK;
    (void)snprintf(where, sizeof where, "%s:%zu", c->file, number);
    char *equals = strchr(line, '=');
    if (!equals)
        return lam_fail(err, LAM_E_CONFIG, where, "\"%.64s\" is not of the form key = value", line);
    char *value = trim(equals + 1, equals + 1 + strlen(equals + 1));
    char *key = trim(line, equals);
    const srv_option *o =
        srv_option_find(srv_config_options, SRV_SETTING_COUNT, key, strlen(key), '_');
    if (!o) return lam_fail(err, LAM_E_CONFIG, where, "\"%.64s\" is not a setting", key);
    (void)snprintf(where, sizeof where, "%s:%zu: %s", c->file, number, o->name);
    size_t i = (size_t)(o - srv_config_options);
    if (c->from[i].origin == SRV_ORIGIN_FILE)
        return lam_fail(err, LAM_E_CONFIG, where, "the setting stands in line %zu already",
                        c->from[i].line);
    c->from[i].line = number;
    return set(c, o, value, SRV_ORIGIN_FILE, where, err);
}

static lam_status load_file(srv_config *c, const char *path, lam_err *err)
{
    size_t bytes = 0;
    LAM_TRY(read_file(c, path, &bytes, err));
    char *end = c->file_text + bytes;
    size_t number = 1;
    for (char *line = c->file_text; line < end; number++) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop) stop = end;
        LAM_TRY(read_line(c, line, stop, number, err));
        line = stop + 1;
    }
    return LAM_OK;
}

/* ---- Environment and flags ------------------------------------------------------------------- */

/* The setting that a LAM_ name with n bytes after the prefix stands for. */
static const srv_option *find_variable(const char *name, size_t n)
{
    char lower[SRV_OPTION_NAME_BYTES];
    if (n >= sizeof lower) return NULL;
    for (size_t i = 0; i < n; i++) {
        if (name[i] >= 'a' && name[i] <= 'z') return NULL;
        lower[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
    }
    return srv_option_find(srv_config_options, SRV_SETTING_COUNT, lower, n, '_');
}

static bool is_variable(const char *entry, const char *name)
{
    size_t n = strlen(name);
    return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

static lam_status load_environment(srv_config *c, const char *const *environment, lam_err *err)
{
    for (size_t i = 0; environment[i]; i++) {
        const char *entry = environment[i];
        if (strncmp(entry, PREFIX, PREFIX_BYTES) != 0 || is_variable(entry, "LAM_CONFIG")) continue;
        size_t n = strcspn(entry, "=");
        char where[WHERE_BYTES];
        (void)snprintf(where, sizeof where, "%.*s", n < 64 ? (int)n : 64, entry);
        const srv_option *o = find_variable(entry + PREFIX_BYTES, n - PREFIX_BYTES);
        if (!o || entry[n] != '=')
            return lam_fail(err, LAM_E_CONFIG, where, "no setting has that name");
        LAM_TRY(set(c, o, entry + n + 1, SRV_ORIGIN_ENVIRONMENT, where, err));
    }
    return LAM_OK;
}

static lam_status file_of_environment(const char *const *environment, const char **path,
                                      lam_err *err)
{
    for (size_t i = 0; environment[i]; i++) {
        if (!is_variable(environment[i], "LAM_CONFIG")) continue;
        *path = environment[i] + sizeof "LAM_CONFIG";
        if (**path == '\0') return lam_fail(err, LAM_E_CONFIG, "LAM_CONFIG", "the value is empty");
    }
    return LAM_OK;
}

static lam_status load_flags(srv_config *c, const srv_flag *flags, size_t count, lam_err *err)
{
    for (size_t i = 0; i < count; i++) {
        char where[SRV_OPTION_NAME_BYTES];
        srv_option_flag(flags[i].option, where);
        LAM_TRY(set(c, flags[i].option, flags[i].value, SRV_ORIGIN_FLAG, where, err));
    }
    return LAM_OK;
}

static lam_status load(srv_config *c, const char *file, const char *const *environment,
                       const srv_flag *flags, size_t flag_count, lam_err *err)
{
    if (!file) LAM_TRY(file_of_environment(environment, &file, err));
    if (file) LAM_TRY(load_file(c, file, err));
    LAM_TRY(load_environment(c, environment, err));
    return load_flags(c, flags, flag_count, err);
}

lam_status srv_config_load(srv_config *c, const char *file, const char *const *environment,
                           const srv_flag *flags, size_t flag_count, lam_err *err)
{
    *c = (srv_config){0};
    srv_option_defaults(srv_config_options, SRV_SETTING_COUNT, c);
    lam_status s = load(c, file, environment, flags, flag_count, err);
    if (s != LAM_OK) srv_config_free(c);
    return s;
}

unsigned srv_folds(const char *words)
{
    unsigned folds = LAM_FOLDS_NONE;
    size_t at = 0, n = 0;
    const char *word = NULL;
    while (srv_list_next(words, &at, &word, &n))
        (void)lam_folds_parse(word, n, &folds);
    return folds;
}

void srv_config_free(srv_config *c)
{
    if (!c) return;
    free(c->file_text);
    *c = (srv_config){0};
}
