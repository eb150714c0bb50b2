/* Help and the manual page, both from the table of commands. */
#include <inttypes.h>
#include <string.h>

#include "server/cli/cli.h"

enum { INDENT = 30, COLUMNS = 80 };

/* Prints words from column `at` on, broken to stay within COLUMNS, later lines indented. */
static void print_wrapped(const char *text, size_t at, FILE *out)
{
    while (*text) {
        size_t n = strcspn(text, " ");
        if (at > INDENT && at + 1 + n > COLUMNS) {
            (void)fprintf(out, "\n%*s", INDENT, "");
            at = INDENT;
        } else if (at > INDENT) {
            (void)fputc(' ', out);
            at++;
        }
        (void)fwrite(text, 1, n, out);
        at += n;
        text += n;
        while (*text == ' ')
            text++;
    }
    (void)fputc('\n', out);
}

/* "address to listen on (default 127.0.0.1)" */
static void describe(const srv_option *o, char *out, size_t bytes)
{
    if (o->type == SRV_OPTION_NUMBER)
        (void)snprintf(out, bytes, "%s (default %" PRIu64 ")", o->help, o->number);
    else if (o->text)
        (void)snprintf(out, bytes, "%s (default %s)", o->help, o->text);
    else
        (void)snprintf(out, bytes, "%s", o->help);
}

static void print_option(const srv_option *o, FILE *out)
{
    char flag[SRV_OPTION_NAME_BYTES], left[160], text[512];
    srv_option_flag(o, flag);
    (void)snprintf(left, sizeof left, "  %s%s%s", flag, o->value ? " " : "",
                   o->value ? o->value : "");
    describe(o, text, sizeof text);
    int n = fprintf(out, "%-*s", INDENT - 2, left);
    if (n > INDENT - 2)
        (void)fprintf(out, "\n%*s", INDENT, "");
    else
        (void)fputs("  ", out);
    print_wrapped(text, INDENT, out);
}

/* Whether an earlier group has an option of that name. */
static bool is_hidden(const cli_command *command, size_t group, const srv_option *o)
{
    for (size_t i = 0; i < group; i++) {
        const cli_group *g = &command->groups[i];
        if (srv_option_find(g->options, g->count, o->name, strlen(o->name), '_')) return true;
    }
    return false;
}

void cli_print_command_help(const cli_command *command, FILE *out)
{
    (void)fprintf(out, "Usage: lamina %s%s%s [options]\n\n%s", command->name,
                  command->words[0] ? " " : "", command->words, command->about);
    for (size_t i = 0; i < CLI_GROUPS; i++) {
        const cli_group *g = &command->groups[i];
        if (g->count == 0) continue;
        (void)fprintf(out, "\n%s:\n", g->title);
        for (size_t k = 0; k < g->count; k++)
            if (!is_hidden(command, i, &g->options[k])) print_option(&g->options[k], out);
    }
    (void)fprintf(out, "\nExamples:\n%s", command->examples);
}

void cli_print_help(FILE *out)
{
    (void)fputs("Usage: lamina COMMAND [arguments] [options]\n\n"
                "Turns texts and token ids into embedding vectors, over HTTP or from files.\n\n"
                "Commands:\n",
                out);
    for (size_t i = 0; cli_commands[i]; i++)
        (void)fprintf(out, "  %-12s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    (void)fputs("\nOptions:\n"
                "  --help       this text; lamina COMMAND --help describes a command\n"
                "  --version    the version\n\n"
                "MODEL is a directory in the form of Hugging Face or sentence-transformers.\n"
                "Data goes to standard output, everything else to standard error.\n"
                "Exit status: 0 done; 1 the answer is no, or an item failed; 2 an option,\n"
                "setting, model or file is refused, in one sentence that names it.\n",
                out);
}

/* ---- Manual ---------------------------------------------------------------------------------- */

/* Text for scdoc, whose markup characters are escaped. */
static void print_escaped(const char *s, FILE *out)
{
    for (; *s; s++) {
        if (strchr("_*\\#", *s)) (void)fputc('\\', out);
        (void)fputc(*s, out);
    }
}

/* Text in paragraphs; a line that begins with spaces stands by itself, as it is. */
static void print_manual_text(const char *s, FILE *out)
{
    while (*s) {
        size_t n = strcspn(s, "\n");
        if (s[0] == ' ') {
            (void)fprintf(out, "\n```\n%.*s\n```\n\n", (int)n, s);
        } else {
            for (size_t i = 0; i < n; i++) {
                if (strchr("_*\\#", s[i])) (void)fputc('\\', out);
                (void)fputc(s[i], out);
            }
            (void)fputc('\n', out);
        }
        s += n + (s[n] == '\n');
    }
}

static void print_manual_option(const srv_option *o, FILE *out)
{
    char flag[SRV_OPTION_NAME_BYTES], text[512];
    srv_option_flag(o, flag);
    describe(o, text, sizeof text);
    (void)fprintf(out, "*%s*%s", flag, o->value ? " " : "");
    if (o->value) print_escaped(o->value, out);
    (void)fputs("\n\t", out);
    print_escaped(text, out);
    (void)fputs("\n\n", out);
}

static void print_manual_command(const cli_command *c, FILE *out)
{
    (void)fprintf(out, "## lamina %s", c->name);
    if (c->words[0]) (void)fprintf(out, " %s", c->words);
    (void)fputs(" [options]\n\n", out);
    print_manual_text(c->about, out);
    (void)fputc('\n', out);
    for (size_t i = 0; i < CLI_GROUPS; i++)
        for (size_t k = 0; k < c->groups[i].count; k++)
            if (!is_hidden(c, i, &c->groups[i].options[k]))
                print_manual_option(&c->groups[i].options[k], out);
    (void)fprintf(out, "Examples:\n\n```\n%s```\n\n", c->examples);
}

void cli_print_manual(FILE *out)
{
    (void)fputs("lamina(1)\n\n"
                "; Written by lamina --print-manual > docs/lamina.1.scd; a test compares.\n\n"
                "# NAME\n\n"
                "lamina - embedding server and tools\n\n"
                "# SYNOPSIS\n\n"
                "*lamina* _COMMAND_ [arguments] [options]\n\n"
                "*lamina* --help | --version\n\n"
                "# DESCRIPTION\n\n"
                "Turns texts and token ids into embedding vectors, over HTTP or from files.\n"
                "_MODEL_ is a directory in the form of Hugging Face or sentence-transformers.\n"
                "Data goes to standard output, everything else to standard error. An option is\n"
                "written as *--name value* or *--name=value*.\n\n"
                "# COMMANDS\n\n",
                out);
    for (size_t i = 0; cli_commands[i]; i++)
        print_manual_command(cli_commands[i], out);
    (void)fputs(
        "# ENVIRONMENT\n\n"
        "Every setting of *lamina serve* can be given as a variable: *LAM\\_PORT* is *--port*,\n"
        "*LAM\\_MAX\\_ITEMS* is *--max-items*. *LAM\\_CONFIG* names a file of settings. The other\n"
        "commands read *LAM\\_CPU*, *LAM\\_WORKERS*, *LAM\\_THREADS* and *LAM\\_PRECISION*. A flag "
        "wins\n"
        "over the environment, which wins over the file.\n\n"
        "# EXIT STATUS\n\n"
        "*0*\n\tDone.\n\n"
        "*1*\n\tThe answer is no, or an item failed.\n\n"
        "*2*\n\tAn option, setting, model or file is refused, or a port is in use: one sentence\n"
        "\ton standard error names it.\n\n"
        "# SIGNALS\n\n"
        "*SIGTERM* and *SIGINT* end *lamina serve* after the requests that it has admitted. A "
        "second\n"
        "one ends it at once. *SIGHUP*, *SIGUSR1* and *SIGUSR2* change nothing.\n",
        out);
}
