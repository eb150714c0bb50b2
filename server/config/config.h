/* The settings of `lamina serve`: default < file < environment < flag. Const once loaded. */
#ifndef SERVER_CONFIG_CONFIG_H
#define SERVER_CONFIG_CONFIG_H

#include <stdio.h>

#include "server/config/config_table.h"
#include "server/config/option.h"

#define SRV_ENUM_ROW_SETTING(type, field, ...) SRV_SETTING_##field,
enum { SRV_SETTING_MAP(SRV_ENUM_ROW_SETTING) SRV_SETTING_COUNT };

/* Where a setting's value came from. */
typedef enum srv_origin {
    SRV_ORIGIN_DEFAULT,
    SRV_ORIGIN_FILE,
    SRV_ORIGIN_ENVIRONMENT,
    SRV_ORIGIN_FLAG,
} srv_origin;

typedef struct srv_config {
    SRV_SETTING_MAP(SRV_FIELD) /* const char *host; uint64_t port; ... */
    struct {
        srv_origin origin;
        size_t line; /* in the file */
    } from[SRV_SETTING_COUNT];
    const char *file; /* borrowed path of the file that was read, or NULL */
    char *file_text;  /* its bytes, which texts from it point into */
} srv_config;

/* The settings as options, in order; offsets are those of srv_config. */
extern const srv_option srv_config_options[SRV_SETTING_COUNT];

/* A flag that was given on the command line. */
typedef struct srv_flag {
    const srv_option *option; /* in srv_config_options */
    const char *value;
} srv_flag;

/* Fills *c. `file` may be NULL: then LAM_CONFIG names it, if set. `environment` is a NULL-ended
 * list of NAME=VALUE; a LAM_ name that is no setting is refused. A later flag wins over an earlier
 * one. Texts point into the arguments, which must outlive *c. On failure *c is empty. Errors:
 * LAM_E_CONFIG, LAM_E_FILE, LAM_E_NOMEM; err->where names the flag, variable or "file:line: key".
 */
lam_status srv_config_load(srv_config *c, const char *file, const char *const *environment,
                           const srv_flag *flags, size_t flag_count, lam_err *err);

/* The set that a value of `fold` names. */
unsigned srv_folds(const char *words);

/* NULL is fine. */
void srv_config_free(srv_config *c);

/* Effective settings in the file's own format, each below a comment that says where it came from.
 */
void srv_config_print(const srv_config *c, FILE *out);

/* docs/CONFIG.md. */
void srv_config_print_docs(FILE *out);

#endif
