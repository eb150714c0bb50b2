/* What the commands share: their description, arguments, exit statuses and the way they complain.
 */
#ifndef SERVER_CLI_CLI_H
#define SERVER_CLI_CLI_H

#include <stdio.h>

#include "core/lamina.h"
#include "server/config/config.h"

typedef enum cli_status {
    CLI_DONE = 0,
    CLI_NO = 1,     /* the answer is no, or an item failed */
    CLI_FAILED = 2, /* usage, configuration, model, input or output; one sentence was written */
} cli_status;

/* ---- Arguments ------------------------------------------------------------------------------- */

typedef struct cli_args {
    const char *const *words; /* what is no flag */
    size_t word_count;
    const srv_flag *flags; /* in the order given; each option is one of the command's groups */
    size_t flag_count;
} cli_args;

typedef struct cli_group {
    const char *title;
    const srv_option *options;
    size_t count;
} cli_group;

enum { CLI_GROUPS = 2 };

typedef struct cli_command {
    const char *name;
    const char *words; /* "MODEL" */
    size_t min_words, max_words;
    const char *summary;          /* one line */
    const char *about;            /* lines of at most 78 columns */
    const char *examples;         /* the same: "lamina ..." lines */
    cli_group groups[CLI_GROUPS]; /* an option of an earlier group hides its namesake */
    int (*run)(const cli_args *args);
} cli_command;

extern const cli_command cli_serve, cli_encode, cli_tokenize, cli_inspect, cli_compile, cli_check,
    cli_calibrate, cli_compare, cli_sweep, cli_bench, cli_healthcheck, cli_version;

/* All commands in the order of help; NULL-ended. */
extern const cli_command *const cli_commands[];

/* Runs what argv names. The program's exit status. */
int cli_main(int argc, char **argv);

/* Stores in `base` those flags that belong to the table; a later one wins. */
lam_status cli_options_apply(const cli_args *args, const srv_option *options, size_t count,
                             void *base, lam_err *err);

/* The same over the table's defaults. */
lam_status cli_options_load(const cli_args *args, const srv_option *options, size_t count,
                            void *base, lam_err *err);

/* ---- Options of every command that opens a model ----------------------------------------------
 */

#define CLI_COMMON_MAP(X) \
    SRV_ENGINE_MAP(X)     \
    X(SWITCH, quiet, 0, 0, 0, NULL, "no progress and no summary on standard error")

typedef struct cli_common {
    CLI_COMMON_MAP(SRV_FIELD)
} cli_common;

#define CLI_COUNT_ROW(...) +1
enum { CLI_COMMON_COUNT = 0 CLI_COMMON_MAP(CLI_COUNT_ROW) };
extern const srv_option cli_common_options[CLI_COMMON_COUNT];

/* default < LAM_NAME < flag. */
lam_status cli_common_load(const cli_args *args, cli_common *out, lam_err *err);

/* The instruction set for a value of --cpu: the one named, or the best of this machine below it. */
lam_isa cli_isa(const char *cpu);

/* Opens the model; what is tolerated is said on standard error unless quiet. */
lam_status cli_open_model(lam_model **out, const char *path, const cli_common *common,
                          lam_err *err);

/* Opens the tokenizer of a model, or a tokenizer.json. */
struct lam_tokenizer;
lam_status cli_open_tokenizer(struct lam_tokenizer **out, const char *path, lam_err *err);

/* How many workers the options ask for. */
size_t cli_worker_count(const cli_common *common);

/* ---- Help ------------------------------------------------------------------------------------ */

void cli_print_help(FILE *out);
void cli_print_command_help(const cli_command *command, FILE *out);

/* docs/lamina.1.scd */
void cli_print_manual(FILE *out);

/* ---- Complaints ------------------------------------------------------------------------------ */

/* "lamina: where: message" on standard error; CLI_FAILED. */
int cli_fail(const lam_err *err);

/* The same from a format. */
int cli_complain(const char *where, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Flushes standard output: `status`, or CLI_FAILED with a sentence if what was written is lost. A
 * reader that went away is no news. */
int cli_finish(int status);

#endif
