/* The settings as text for people: effective values, and the reference page. */
#include <inttypes.h>

#include "server/config/config.h"

static void print_origin(const srv_config *c, size_t i, FILE *out)
{
    char name[SRV_OPTION_NAME_BYTES];
    const srv_option *o = &srv_config_options[i];
    switch (c->from[i].origin) {
    case SRV_ORIGIN_DEFAULT:
        (void)fputs("# default\n", out);
        break;
    case SRV_ORIGIN_FILE:
        (void)fprintf(out, "# %s:%zu\n", c->file, c->from[i].line);
        break;
    case SRV_ORIGIN_ENVIRONMENT:
        srv_option_environment(o, name);
        (void)fprintf(out, "# environment: %s\n", name);
        break;
    case SRV_ORIGIN_FLAG:
        srv_option_flag(o, name);
        (void)fprintf(out, "# flag: %s\n", name);
        break;
    }
}

void srv_config_print(const srv_config *c, FILE *out)
{
    for (size_t i = 0; i < SRV_SETTING_COUNT; i++) {
        char buf[32];
        const char *value = srv_option_get(&srv_config_options[i], c, buf);
        print_origin(c, i, out);
        if (value)
            (void)fprintf(out, "%s = %s\n", srv_config_options[i].name, value);
        else
            (void)fprintf(out, "# %s is not set\n", srv_config_options[i].name);
    }
}

static const char DOCS_HEAD[] =
    "# Configuration of `lamina serve`\n"
    "\n"
    "<!-- Written by `lamina serve --print-config-docs > docs/CONFIG.md`; a test compares. -->\n"
    "\n"
    "Each setting can be given four ways; the later of these wins: its default, a line\n"
    "`max_items = 100` in a file, the environment variable `LAM_MAX_ITEMS=100`, the flag\n"
    "`--max-items 100` or `--max-items=100`. The file is named by `--config FILE` or by\n"
    "`LAM_CONFIG`. In the file, lines that are empty or begin with `#` say nothing; a setting may\n"
    "stand there once.\n"
    "\n"
    "Numbers are decimal digits without a sign or a unit. An unknown setting, an empty value or "
    "one\n"
    "that is out of range ends the program with status 2 and a sentence that names where it "
    "stood.\n"
    "`LAM_` variables that are no setting are refused too.\n"
    "\n"
    "`lamina serve MODEL --print-config` shows what holds and where each value came from, in the\n"
    "form of such a file. `lamina serve MODEL --check-config` also opens the models and then ends\n"
    "with 0, without listening.\n"
    "\n"
    "| file key | flag | environment | default | values | meaning |\n"
    "|---|---|---|---|---|---|\n";

/* A table cell must not hold a bare '|'. */
static void print_cell(const char *s, FILE *out)
{
    for (; *s; s++) {
        if (*s == '|')
            (void)fputs("\\|", out);
        else
            (void)fputc(*s, out);
    }
}

static void print_values(const srv_option *o, FILE *out)
{
    if (o->type == SRV_OPTION_NUMBER && o->min == o->max)
        (void)fprintf(out, "%" PRIu64, o->min);
    else if (o->type == SRV_OPTION_NUMBER)
        (void)fprintf(out, "%" PRIu64 " to %" PRIu64, o->min, o->max);
    else
        print_cell(o->value, out);
}

void srv_config_print_docs(FILE *out)
{
    (void)fputs(DOCS_HEAD, out);
    for (size_t i = 0; i < SRV_SETTING_COUNT; i++) {
        const srv_option *o = &srv_config_options[i];
        char flag[SRV_OPTION_NAME_BYTES], variable[SRV_OPTION_NAME_BYTES];
        srv_option_flag(o, flag);
        srv_option_environment(o, variable);
        (void)fprintf(out, "| `%s` | `%s` | `%s` | ", o->name, flag, variable);
        if (o->type == SRV_OPTION_NUMBER)
            (void)fprintf(out, "%" PRIu64 " | ", o->number);
        else
            (void)fprintf(out, "%s | ", o->text ? o->text : "–");
        print_values(o, out);
        (void)fputs(" | ", out);
        print_cell(o->help, out);
        (void)fputs(" |\n", out);
    }
}
