#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/config/config.h"

static const char *const NO_ENVIRONMENT[] = {NULL};

/* Writes text to a new file in the tests' temporary folder; the caller unlinks it. */
static void write_file(char path[64], const char *text, size_t bytes)
{
    (void)snprintf(path, 64, "%s/lamina-config-XXXXXX", P_tmpdir);
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    cr_assert_eq(write(fd, text, bytes), (ssize_t)bytes);
    (void)close(fd);
}

Test(config, defaults_are_the_tables)
{
    srv_config c;
    cr_assert_eq(srv_config_load(&c, NULL, NO_ENVIRONMENT, NULL, 0, NULL), LAM_OK);
    cr_expect_str_eq(c.host, "127.0.0.1");
    cr_expect_eq(c.port, 8080);
    cr_expect_eq(c.max_items, 2048);
    cr_expect_null(c.api_key_file);
    for (size_t i = 0; i < SRV_SETTING_COUNT; i++)
        cr_expect_eq(c.from[i].origin, SRV_ORIGIN_DEFAULT);
    srv_config_free(&c);
}

/* A default that its own check refuses could not be written down in a file. */
Test(config, accepts_its_own_defaults_and_bounds)
{
    for (size_t i = 0; i < SRV_SETTING_COUNT; i++) {
        const srv_option *o = &srv_config_options[i];
        srv_config c = {0};
        lam_err err;
        char text[32];
        if (o->type == SRV_OPTION_NUMBER) {
            const uint64_t good[] = {o->number, o->min, o->max};
            for (size_t k = 0; k < 3; k++) {
                (void)snprintf(text, sizeof text, "%llu", (unsigned long long)good[k]);
                cr_expect_eq(srv_option_set(o, &c, text, "x", &err), LAM_OK, "%s %s", o->name,
                             text);
            }
            (void)snprintf(text, sizeof text, "%llu", (unsigned long long)o->max + 1);
            cr_expect_eq(srv_option_set(o, &c, text, "x", &err), LAM_E_CONFIG, "%s", o->name);
        } else if (o->text) {
            cr_expect_eq(srv_option_set(o, &c, o->text, "x", &err), LAM_OK, "%s", o->name);
        }
    }
}

Test(config, later_sources_win)
{
    char path[64];
    static const char text[] = "# a comment\n\n  max_items = 7 \r\nport=1\nhost = ::1\n"
                               "max_queue_items = 9";
    write_file(path, text, sizeof text - 1);
    char config[80];
    (void)snprintf(config, sizeof config, "LAM_CONFIG=%s", path);
    const char *environment[] = {"PATH=/bin", "LAM_PORT=2", "LAM_HOST=::2", config, NULL};
    const srv_flag flags[] = {{&srv_config_options[SRV_SETTING_port], "3"},
                              {&srv_config_options[SRV_SETTING_port], "4"}};
    srv_config c;
    lam_err err;
    cr_assert_eq(srv_config_load(&c, NULL, environment, flags, 2, &err), LAM_OK, "%s", err.message);
    cr_expect_eq(c.max_items, 7);
    cr_expect_eq(c.max_queue_items, 9);
    cr_expect_eq(c.port, 4);
    cr_expect_str_eq(c.host, "::2");
    cr_expect_eq(c.from[SRV_SETTING_max_items].origin, SRV_ORIGIN_FILE);
    cr_expect_eq(c.from[SRV_SETTING_max_items].line, 3);
    cr_expect_eq(c.from[SRV_SETTING_host].origin, SRV_ORIGIN_ENVIRONMENT);
    cr_expect_eq(c.from[SRV_SETTING_port].origin, SRV_ORIGIN_FLAG);
    cr_expect_eq(c.from[SRV_SETTING_workers].origin, SRV_ORIGIN_DEFAULT);
    srv_config_free(&c);
    (void)unlink(path);
}

Test(config, what_it_prints_reads_back)
{
    const srv_flag flags[] = {{&srv_config_options[SRV_SETTING_alias], "a,b#c"},
                              {&srv_config_options[SRV_SETTING_api_key_file], "/x y/#1 = 2"},
                              {&srv_config_options[SRV_SETTING_port], "0"}};
    srv_config c, again;
    lam_err err;
    char *text = NULL;
    size_t bytes = 0;
    cr_assert_eq(srv_config_load(&c, NULL, NO_ENVIRONMENT, flags, 3, &err), LAM_OK);
    FILE *out = open_memstream(&text, &bytes);
    srv_config_print(&c, out);
    (void)fclose(out);
    char path[64];
    write_file(path, text, bytes);
    cr_assert_eq(srv_config_load(&again, path, NO_ENVIRONMENT, NULL, 0, &err), LAM_OK, "%s: %s",
                 err.where, err.message);
    for (size_t i = 0; i < SRV_SETTING_COUNT; i++) {
        char buf[2][32];
        const char *a = srv_option_get(&srv_config_options[i], &c, buf[0]);
        const char *b = srv_option_get(&srv_config_options[i], &again, buf[1]);
        cr_expect(a == b || (a && b && strcmp(a, b) == 0), "%s", srv_config_options[i].name);
    }
    srv_config_free(&c);
    srv_config_free(&again);
    free(text);
    (void)unlink(path);
}

Test(config, refuses_bad_files)
{
    static const struct {
        const char *text;
        const char *named;
        const char *said;
    } rows[] = {
        {"max_item = 3", ":1", "\"max_item\" is not a setting"},
        {"\nmax-items = 3", ":2", "\"max-items\" is not a setting"},
        {"max_items", ":1", "is not of the form key = value"},
        {"= 3", ":1", "\"\" is not a setting"},
        {"max_items = ", ":1: max_items", "the value is empty"},
        {"max_items = 3 # three", ":1: max_items", "is not a number from 1 to 65536"},
        {"port = 1\n#\nport = 1", ":3: port", "the setting stands in line 1 already"},
        {"port = \"1\"", ":1: port", "is not a number from 0 to 65535"},
        {"config = /etc/x", ":1", "\"config\" is not a setting"},
        {"[server]", ":1", "is not of the form key = value"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[64];
        srv_config c;
        lam_err err;
        write_file(path, rows[i].text, strlen(rows[i].text));
        cr_expect_eq(srv_config_load(&c, path, NO_ENVIRONMENT, NULL, 0, &err), LAM_E_CONFIG,
                     "file \"%s\"", rows[i].text);
        const char *named = err.where + strlen(path);
        cr_expect(strncmp(err.where, path, strlen(path)) == 0 && strcmp(named, rows[i].named) == 0,
                  "file \"%s\": named %s", rows[i].text, err.where);
        cr_expect(strstr(err.message, rows[i].said), "file \"%s\": said %s", rows[i].text,
                  err.message);
        (void)unlink(path);
    }
}

Test(config, refuses_files_that_are_none)
{
    srv_config c;
    lam_err err;
    cr_expect_eq(srv_config_load(&c, "/nonexistent/x.conf", NO_ENVIRONMENT, NULL, 0, &err),
                 LAM_E_FILE);
    cr_expect_str_eq(err.where, "/nonexistent/x.conf");
    cr_expect_eq(srv_config_load(&c, "/", NO_ENVIRONMENT, NULL, 0, &err), LAM_E_FILE);
    cr_expect_eq(srv_config_load(&c, "/dev/zero", NO_ENVIRONMENT, NULL, 0, &err), LAM_E_CONFIG);
    char path[64];
    write_file(path, "port = 1\0\n", 10);
    cr_expect_eq(srv_config_load(&c, path, NO_ENVIRONMENT, NULL, 0, &err), LAM_E_CONFIG);
    cr_expect(strstr(err.message, "NUL"));
    (void)unlink(path);
}

Test(config, refuses_bad_environment)
{
    static const struct {
        const char *entry;
        const char *named;
        const char *said;
    } rows[] = {
        {"LAM_PORT=80x", "LAM_PORT", "\"80x\" is not a number from 0 to 65535"},
        {"LAM_PORT=", "LAM_PORT", "the value is empty"},
        {"LAM_PORT=-1", "LAM_PORT", "is not a number from 0 to 65535"},
        {"LAM_PORT=+1", "LAM_PORT", "is not a number from 0 to 65535"},
        {"LAM_PORT= 1", "LAM_PORT", "is not a number from 0 to 65535"},
        {"LAM_PORT=65536", "LAM_PORT", "is not a number from 0 to 65535"},
        {"LAM_PORT=18446744073709551616", "LAM_PORT", "is not a number from 0 to 65535"},
        {"LAM_PORT=18446744073709551696", "LAM_PORT", "is not a number from 0 to 65535"},
        {"LAM_PORT=1e3", "LAM_PORT", "is not a number from 0 to 65535"},
        {"LAM_PORT=0x50", "LAM_PORT", "is not a number from 0 to 65535"},
        {"LAM_MAX_BODY_BYTES=8M", "LAM_MAX_BODY_BYTES", "\"8M\" is not a number from 1024"},
        {"LAM_STOP_TIMEOUT_MS=25s", "LAM_STOP_TIMEOUT_MS", "\"25s\" is not a number from 1"},
        {"LAM_THREADS=2", "LAM_THREADS", "\"2\" is not 1"},
        {"LAM_PRECISION=bf16", "LAM_PRECISION", "\"bf16\" is not f32"},
        {"LAM_CPU=avx", "LAM_CPU", "\"avx\" is not one of auto|ref|avx2|avx512"},
        {"LAM_CPU=auto|ref", "LAM_CPU", "is not one of auto|ref|avx2|avx512"},
        {"LAM_LOG_LEVEL=INFO", "LAM_LOG_LEVEL", "is not one of error|warn|info|debug"},
        {"LAM_ALIAS=a,,b", "LAM_ALIAS", "an entry of the list is empty"},
        {"LAM_ALIAS=a, b", "LAM_ALIAS", "the list holds a space"},
        {"LAM_ALIAS=,", "LAM_ALIAS", "an entry of the list is empty"},
        {"LAM_HOST= ::1", "LAM_HOST", "the value begins or ends with a space"},
        {"LAM_HOST=a\nb", "LAM_HOST", "the value holds a control character"},
        {"LAM_PROT=1", "LAM_PROT", "no setting has that name"},
        {"LAM_port=1", "LAM_port", "no setting has that name"},
        {"LAM_=1", "LAM_", "no setting has that name"},
        {"LAM_CONFIG=", "LAM_CONFIG", "the value is empty"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *environment[] = {"HOME=/", rows[i].entry, NULL};
        srv_config c;
        lam_err err;
        cr_expect_eq(srv_config_load(&c, NULL, environment, NULL, 0, &err), LAM_E_CONFIG, "%s",
                     rows[i].entry);
        cr_expect_str_eq(err.where, rows[i].named);
        cr_expect(strstr(err.message, rows[i].said), "%s: said %s", rows[i].entry, err.message);
    }
}

Test(config, text_has_its_length)
{
    char path[256];
    memset(path, 'a', sizeof path);
    path[107] = '\0';
    srv_config c = {0};
    lam_err err;
    const srv_option *o = &srv_config_options[SRV_SETTING_unix_socket];
    cr_expect_eq(srv_option_set(o, &c, path, "--unix-socket", &err), LAM_OK);
    path[107] = 'a';
    path[108] = '\0';
    cr_expect_eq(srv_option_set(o, &c, path, "--unix-socket", &err), LAM_E_CONFIG);
    cr_expect(strstr(err.message, "108 bytes"), "said %s", err.message);
}

Test(config, lists_and_names)
{
    static const char list[] = "a,bc,d";
    static const char *const words[] = {"a", "bc", "d"};
    size_t at = 0, n = 0, bytes = 0;
    const char *word = NULL;
    while (srv_list_next(list, &at, &word, &bytes)) {
        cr_assert_lt(n, 3);
        cr_expect(bytes == strlen(words[n]) && memcmp(word, words[n], bytes) == 0);
        n++;
    }
    cr_expect_eq(n, 3);
    at = 0;
    cr_expect_not(srv_list_next(NULL, &at, &word, &bytes));

    char name[SRV_OPTION_NAME_BYTES];
    const srv_option *o = &srv_config_options[SRV_SETTING_max_batch_tokens];
    srv_option_flag(o, name);
    cr_expect_str_eq(name, "--max-batch-tokens");
    srv_option_environment(o, name);
    cr_expect_str_eq(name, "LAM_MAX_BATCH_TOKENS");
    static const struct {
        const char *name;
        char word;
        bool found;
    } rows[] = {{"max-batch-tokens", '-', true},  {"max_batch_tokens", '-', false},
                {"max_batch_tokens", '_', true},  {"max-batch-tokens", '_', false},
                {"max-batch", '-', false},        {"", '-', false},
                {"MAX-BATCH-TOKENS", '-', false}, {"max-batch-tokens2", '-', false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq(srv_option_find(srv_config_options, SRV_SETTING_COUNT, rows[i].name,
                                     strlen(rows[i].name), rows[i].word) != NULL,
                     rows[i].found, "name \"%s\"", rows[i].name);
}
