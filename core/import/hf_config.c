#include "core/import/hf_config.h"

#include <string.h>

lam_status lam_hf_config_take(lam_hparams *h, const lam_family **family, const lam_json *config,
                              lam_err *err)
{
    const char *type = NULL;
    lam_quoted q;
    char known[128];
    *h = (lam_hparams){0};
    LAM_TRY(lam_json_opt_string(config, "model_type", &type, err));
    if (type == NULL)
        return lam_json_fail(config, "model_type", err, "key is missing: the family is unknown");
    *family = lam_family_find(type);
    if (*family == NULL) {
        lam_family_list(known, sizeof known);
        return lam_fail_in(err, LAM_E_UNSUPPORTED, config->file, "model_type",
                           "family \"%s\" is not supported; supported: %s",
                           lam_quote(&q, type, strlen(type)), known);
    }
    h->family = (*family)->model_type;
    LAM_TRY((*family)->read_config(h, config, err));
    return lam_lamina_config(h, config, err);
}

lam_status lam_hf_config_read(lam_hparams *h, const lam_family **family, const lam_dir *d,
                              lam_err *err)
{
    lam_json config;
    LAM_TRY(lam_json_read(&config, d, "config.json", LAM_JSON_INTEGERS, err));
    const lam_status status = lam_hf_config_take(h, family, &config, err);
    lam_json_free(&config);
    return status;
}
