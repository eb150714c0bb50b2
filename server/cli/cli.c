#include "server/cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "server/server.h"

const cli_command *const cli_commands[] = {
    &cli_serve,       &cli_encode,    &cli_tokenize, &cli_inspect, &cli_compile,
    &cli_check,       &cli_calibrate, &cli_compare,  &cli_sweep,   &cli_bench,
    &cli_healthcheck, &cli_version,   NULL,
};

int cli_fail(const lam_err *err)
{
    if (err->where[0] != '\0')
        (void)fprintf(stderr, "lamina: %s: %s\n", err->where, err->message);
    else
        (void)fprintf(stderr, "lamina: %s\n", err->message);
    return CLI_FAILED;
}

int cli_complain(const char *where, const char *format, ...)
{
    char message[sizeof(((lam_err *)0)->message)];
    lam_err err;
    va_list list;
    va_start(list, format);
    (void)vsnprintf(message, sizeof message, format, list);
    va_end(list);
    (void)lam_fail(&err, LAM_E_CONFIG, where, "%s", message);
    return cli_fail(&err);
}

int cli_finish(int status)
{
    bool lost = ferror(stdout) != 0;
    errno = 0;
    if (fflush(stdout) != 0) lost = true;
    if (!lost) return status;
    if (errno == EPIPE) return CLI_FAILED;
    return cli_complain("standard output", "%s", errno ? strerror(errno) : "a write failed");
}

/* ---- Parsing --------------------------------------------------------------------------------- */

static const srv_option *find_option(const cli_command *command, const char *name, size_t bytes)
{
    for (size_t i = 0; i < CLI_GROUPS; i++) {
        const cli_group *g = &command->groups[i];
        const srv_option *o = srv_option_find(g->options, g->count, name, bytes, '-');
        if (o) return o;
    }
    return NULL;
}

typedef struct parse {
    const cli_command *command;
    const char **words;
    srv_flag *flags;
    size_t word_count, flag_count;
    bool help;
} parse;

/* Takes the flag at argv[i]; returns how many arguments it used, 0 on failure. */
static size_t take_flag(parse *p, char **argv, size_t i, lam_err *err)
{
    const char *arg = argv[i];
    size_t n = strcspn(arg, "=");
    char where[SRV_OPTION_NAME_BYTES];
    (void)snprintf(where, sizeof where, "%.*s", (int)(n < sizeof where ? n : sizeof where), arg);
    const srv_option *o = n > 2 && arg[1] == '-' ? find_option(p->command, arg + 2, n - 2) : NULL;
    if (n == 2 && arg[1] == 'o') o = find_option(p->command, "output", strlen("output"));
    if (!o) {
        (void)lam_fail(err, LAM_E_CONFIG, where,
                       "%s has no such option; lamina %s --help lists all", p->command->name,
                       p->command->name);
        return 0;
    }
    srv_flag *flag = &p->flags[p->flag_count++];
    *flag = (srv_flag){.option = o, .value = arg[n] == '=' ? arg + n + 1 : NULL};
    if (flag->value || o->type == SRV_OPTION_SWITCH) return 1;
    flag->value = argv[i + 1];
    if (flag->value) return 2;
    (void)lam_fail(err, LAM_E_CONFIG, where, "the value is missing");
    return 0;
}

static lam_status parse_arguments(parse *p, char **argv, lam_err *err)
{
    bool flags = true;
    for (size_t i = 0; argv[i];) {
        const char *arg = argv[i];
        if (!flags || arg[0] != '-' || arg[1] == '\0') {
            p->words[p->word_count++] = arg;
            i++;
        } else if (strcmp(arg, "--") == 0) {
            flags = false;
            i++;
        } else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            p->help = true;
            return LAM_OK;
        } else {
            size_t used = take_flag(p, argv, i, err);
            if (used == 0) return LAM_E_CONFIG;
            i += used;
        }
    }
    const cli_command *c = p->command;
    if (p->word_count < c->min_words)
        return lam_fail(err, LAM_E_CONFIG, c->name, "%s is missing; lamina %s --help says more",
                        c->words, c->name);
    if (p->word_count > c->max_words)
        return lam_fail(err, LAM_E_CONFIG, c->name, "\"%.64s\" is one argument too many",
                        p->words[c->max_words]);
    return LAM_OK;
}

static int run_parsed(const parse *p)
{
    if (p->help) {
        cli_print_command_help(p->command, stdout);
        return cli_finish(CLI_DONE);
    }
    const cli_args args = {.words = p->words,
                           .word_count = p->word_count,
                           .flags = p->flags,
                           .flag_count = p->flag_count};
    return p->command->run(&args);
}

static int run_command(const cli_command *command, size_t count, char **argv)
{
    parse p = {.command = command,
               .words = calloc(count + 1, sizeof *p.words),
               .flags = calloc(count + 1, sizeof *p.flags)};
    lam_err err;
    int status;
    if (!p.words || !p.flags)
        status = cli_complain("", "no memory for the arguments");
    else if (parse_arguments(&p, argv, &err) != LAM_OK)
        status = cli_fail(&err);
    else
        status = run_parsed(&p);
    free(p.words);
    free(p.flags);
    return status;
}

lam_status cli_options_apply(const cli_args *args, const srv_option *options, size_t count,
                             void *base, lam_err *err)
{
    for (size_t i = 0; i < args->flag_count; i++) {
        const srv_option *o = args->flags[i].option;
        if (o < options || o >= options + count) continue;
        char where[SRV_OPTION_NAME_BYTES];
        srv_option_flag(o, where);
        LAM_TRY(srv_option_set(o, base, args->flags[i].value, where, err));
    }
    return LAM_OK;
}

lam_status cli_options_load(const cli_args *args, const srv_option *options, size_t count,
                            void *base, lam_err *err)
{
    srv_option_defaults(options, count, base);
    return cli_options_apply(args, options, count, base, err);
}

int cli_main(int argc, char **argv)
{
    if (argc < 2) return cli_complain("", "a command is missing; lamina --help lists them");
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        cli_print_help(stdout);
        return cli_finish(CLI_DONE);
    }
    if (strcmp(word, "--version") == 0) {
        (void)puts("lamina " SRV_VERSION);
        return cli_finish(CLI_DONE);
    }
    if (strcmp(word, "--print-manual") == 0) {
        cli_print_manual(stdout);
        return cli_finish(CLI_DONE);
    }
    for (size_t i = 0; cli_commands[i]; i++)
        if (strcmp(cli_commands[i]->name, word) == 0)
            return run_command(cli_commands[i], (size_t)argc - 2, argv + 2);
    if (word[0] == '-') return cli_complain(word, "no such option; lamina --help lists all");
    return cli_complain(word, "no such command; lamina --help lists them");
}
