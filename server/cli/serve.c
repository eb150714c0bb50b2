/* lamina serve */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/cli/cli.h"
#include "server/server.h"

enum { MAX_MODELS = 64, MAX_NAME_BYTES = 256 };

#define SERVE_MAP(X)                                                                               \
    X(TEXT, config, NULL, 1, 4095, "FILE", "file of settings, key = value lines (or LAM_CONFIG)")  \
    X(SWITCH, print_config, 0, 0, 0, NULL, "print the settings in effect and where from, and end") \
    X(SWITCH, check_config, 0, 0, 0, NULL, "check settings, open the models, and end")             \
    X(SWITCH, print_config_docs, 0, 0, 0, NULL, "print docs/CONFIG.md, and end")                   \
    X(SWITCH, quiet, 0, 0, 0, NULL, "log errors only: --log-level error")

typedef struct serve_options {
    SERVE_MAP(SRV_FIELD)
} serve_options;

#define X(type, ...) SRV_ROW_##type(serve_options, __VA_ARGS__)
static const srv_option options[] = {SERVE_MAP(X)};
#undef X
enum { OPTION_COUNT = sizeof options / sizeof *options };

/* NAME=PATH or PATH. A path with '=' in its first component is written ./a=b. */
static lam_status read_model(const char *word, char name[MAX_NAME_BYTES], srv_model_spec *out,
                             lam_err *err)
{
    size_t n = strcspn(word, "=/");
    *out = (srv_model_spec){.path = word};
    if (word[n] == '=') {
        if (n == 0 || n >= MAX_NAME_BYTES)
            return lam_fail(err, LAM_E_CONFIG, word, "a model's name has 1 to %d bytes",
                            MAX_NAME_BYTES - 1);
        memcpy(name, word, n);
        name[n] = '\0';
        *out = (srv_model_spec){.name = name, .path = word + n + 1};
    }
    if (out->path[0] == '\0') return lam_fail(err, LAM_E_CONFIG, "MODEL", "the path is empty");
    return LAM_OK;
}

typedef struct serve_models {
    srv_model_spec specs[MAX_MODELS];
    char names[MAX_MODELS][MAX_NAME_BYTES];
    size_t count;
} serve_models;

static lam_status read_models(const cli_args *args, serve_models *m, lam_err *err)
{
    for (size_t i = 0; i < args->word_count; i++) {
        LAM_TRY(read_model(args->words[i], m->names[i], &m->specs[i], err));
        for (size_t k = 0; k < i; k++)
            if (m->specs[i].name && m->specs[k].name &&
                strcmp(m->specs[i].name, m->specs[k].name) == 0)
                return lam_fail(err, LAM_E_CONFIG, m->specs[i].name, "two models have this name");
    }
    m->count = args->word_count;
    return LAM_OK;
}

/* The settings among the flags, and --quiet in front, so that an explicit --log-level wins. */
static size_t pick_settings(const cli_args *args, const serve_options *o, srv_flag *out)
{
    size_t n = 0;
    if (o->quiet)
        out[n++] =
            (srv_flag){.option = &srv_config_options[SRV_SETTING_log_level], .value = "error"};
    for (size_t i = 0; i < args->flag_count; i++) {
        const srv_option *p = args->flags[i].option;
        if (p >= srv_config_options && p < srv_config_options + SRV_SETTING_COUNT)
            out[n++] = args->flags[i];
    }
    return n;
}

static lam_status load_config(const cli_args *args, const serve_options *o, srv_config *out,
                              lam_err *err)
{
    srv_flag *flags = calloc(args->flag_count + 1, sizeof *flags);
    if (!flags) return lam_fail(err, LAM_E_NOMEM, "", "no memory for the arguments");
    size_t n = pick_settings(args, o, flags);
    lam_status s = srv_config_load(out, o->config, (const char *const *)environ, flags, n, err);
    free(flags);
    return s;
}

static int check(const srv_config *config, const serve_models *models)
{
    lam_err err;
    if (config->api_key_file && access(config->api_key_file, R_OK) != 0)
        return cli_complain(config->api_key_file, "%s", strerror(errno));
    for (size_t i = 0; i < models->count; i++) {
        cli_common common = {.cpu = config->cpu};
        lam_model *model = NULL;
        if (cli_open_model(&model, models->specs[i].path, &common, &err) != LAM_OK)
            return cli_fail(&err);
        lam_model_close(model);
    }
    return CLI_DONE;
}

static int act(const serve_options *o, const srv_config *config, const serve_models *models)
{
    if (o->print_config) {
        srv_config_print(config, stdout);
        return cli_finish(CLI_DONE);
    }
    if (models->count == 0)
        return cli_complain("serve", "MODEL is missing; lamina serve --help says more");
    return o->check_config ? check(config, models)
                           : srv_serve(config, models->specs, models->count);
}

static int run(const cli_args *args)
{
    static serve_models models;
    serve_options o = {0};
    srv_config config = {0};
    lam_err err;
    if (cli_options_load(args, options, OPTION_COUNT, &o, &err) != LAM_OK) return cli_fail(&err);
    if (o.print_config_docs) {
        srv_config_print_docs(stdout);
        return cli_finish(CLI_DONE);
    }
    if (read_models(args, &models, &err) != LAM_OK ||
        load_config(args, &o, &config, &err) != LAM_OK)
        return cli_fail(&err);
    int status = act(&o, &config, &models);
    srv_config_free(&config);
    return status;
}

const cli_command cli_serve = {
    .name = "serve",
    .words = "MODEL...",
    .max_words = MAX_MODELS,
    .summary = "answer HTTP requests",
    .about = "Serves models over HTTP until SIGTERM or SIGINT. MODEL is a path or NAME=PATH. With\n"
             "several of them each request names the one it means.\n"
             "A setting comes from its flag, else from LAM_NAME in the environment, else from the\n"
             "file, else it has its default.\n",
    .examples = "  lamina serve models/all-MiniLM-L6-v2\n"
                "  lamina serve minilm=models/all-MiniLM-L6-v2 --port 9000 --workers 4\n"
                "  LAM_PORT=9000 lamina serve MODEL --config lamina.conf --print-config\n",
    .groups = {{"Running", options, OPTION_COUNT},
               {"Settings", srv_config_options, SRV_SETTING_COUNT}},
    .run = run,
};
