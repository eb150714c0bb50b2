#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cpu.h"
#include "core/import/import.h"
#include "server/cli/cli.h"
#include "server/cpus.h"

#define X(type, ...) SRV_ROW_##type(cli_common, __VA_ARGS__)
const srv_option cli_common_options[CLI_COMMON_COUNT] = {CLI_COMMON_MAP(X)};
#undef X

lam_status cli_common_load(const cli_args *args, cli_common *out, lam_err *err)
{
    *out = (cli_common){0};
    srv_option_defaults(cli_common_options, CLI_COMMON_COUNT, out);
    for (size_t i = 0; i < CLI_COMMON_COUNT; i++) {
        const srv_option *o = &cli_common_options[i];
        char name[SRV_OPTION_NAME_BYTES];
        srv_option_environment(o, name);
        const char *value = o->type == SRV_OPTION_SWITCH ? NULL : getenv(name);
        if (value) LAM_TRY(srv_option_set(o, out, value, name, err));
    }
    return cli_options_apply(args, cli_common_options, CLI_COMMON_COUNT, out, err);
}

lam_isa cli_isa(const char *cpu)
{
    lam_isa best = lam_cpu_best(), asked = best;
    (void)lam_isa_parse(cpu, strlen(cpu), &asked); /* "auto" is none */
    return asked < best ? asked : best;
}

/* Sentences about oddities, kept until the model is open: a refusal stands alone. */
typedef struct warnings {
    char text[4096];
    size_t used;
} warnings;

static void warn(void *arg, const char *sentence)
{
    warnings *w = arg;
    const size_t room = sizeof w->text - w->used;
    int n = snprintf(w->text + w->used, room, "lamina: %s\n", sentence);
    if (n > 0 && (size_t)n < room) w->used += (size_t)n;
}

/* Passes the error up with the path in front, unless it has it: a file's name alone says too
 * little. */
static lam_status name_path(const lam_err *inner, const char *path, lam_err *err)
{
    char where[sizeof inner->where + 8];
    const bool named = strncmp(inner->where, path, strlen(path)) == 0;
    (void)snprintf(where, sizeof where, "%s%s%s", named ? "" : path, named ? "" : ": ",
                   inner->where);
    return lam_fail(err, inner->status, where, "%s", inner->message);
}

lam_status cli_open_model(lam_model **out, const char *path, const cli_common *common, lam_err *err)
{
    warnings w = {.used = 0};
    lam_err inner = {0};
    lam_open_opts opts = lam_open_opts_default();
    opts.isa = cli_isa(common->cpu);
    opts.folds = srv_folds(common->fold);
    opts.warn = warn;
    opts.warn_arg = &w;
    lam_status s = lam_import_model(out, path, &opts, &inner);
    if (s == LAM_OK) {
        if (!common->quiet) (void)fwrite(w.text, 1, w.used, stderr);
        return LAM_OK;
    }
    return name_path(&inner, path, err);
}

lam_status cli_open_tokenizer(struct lam_tokenizer **out, const char *path, lam_err *err)
{
    lam_err inner = {0};
    if (lam_import_tokenizer(out, path, &inner) == LAM_OK) return LAM_OK;
    return name_path(&inner, path, err);
}

size_t cli_worker_count(const cli_common *common)
{
    return common->workers ? common->workers : srv_cpus_available();
}
