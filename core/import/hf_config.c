#include "core/import/hf_config.h"

#include <stdio.h>
#include <string.h>

/* The key "lamina" may ask for norms whose tensors have no name in the family. */
static lam_status check_norms(const lam_hparams *h, const lam_family *family,
                              const lam_json *config, lam_err *err)
{
    for (int m = LAM_MODULE_EMBEDDING_NORM; m <= LAM_MODULE_FINAL_NORM; m++) {
        const lam_norm_site site = lam_hparams_norm(h, (lam_module)m);
        if (site.spec.kind == LAM_NORM_ABSENT || lam__norm_path(family, (lam_module)m)) continue;
        return lam_json_fail(config, "lamina", err, "a %s encoder has no place for the norm %s",
                             family->model_type, lam_site_name(site.site));
    }
    return LAM_OK;
}

lam_status lam_hf_config_take(lam_hparams *h, const lam_family **family, const lam_json *config,
                              lam_err *err)
{
    const char *type = NULL;
    lam_quoted q;
    char known[512];
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
    lam_hparams_complete(h);
    LAM_TRY(lam_lamina_config(h, config, err));
    return check_norms(h, *family, config, err);
}

/* What a model without the key "lamina" would say there, from what its family's reader found. */
static json_t *spelled_out(const lam_hparams *h)
{
    const lam_norm_spec *spec = &h->attention_norm;
    json_t *norm = json_pack("{s:s, s:f, s:s}", "kind", lam_norm_kind_name(spec->kind), "eps",
                             spec->eps, "eps_mode", lam_eps_mode_name(spec->eps_mode));
    json_t *lamina =
        json_pack("{s:s, s:O}", "placement", lam_placement_name(h->placement), "norm", norm);
    /* Pre-norm models must say it. */
    if (lamina && h->placement == LAM_PLACEMENT_PRE)
        (void)json_object_set(lamina, "embedding_norm",
                              h->embedding_norm.kind == LAM_NORM_ABSENT ? json_null() : norm);
    json_decref(norm);
    return lamina;
}

/* One key. A norm that names no kind changes fields of the one that the site has. */
static bool put_key(json_t *lamina, const char *key, json_t *value)
{
    json_t *old = json_object_get(lamina, key);
    if (!json_is_object(old)) old = json_object_get(lamina, "norm");
    const bool fields = json_is_object(value) && json_object_get(value, "kind") == NULL;
    if (!fields || !json_is_object(old)) return json_object_set(lamina, key, value) == 0;
    json_t *changed = json_copy(old);
    return changed && json_object_update(changed, value) == 0 &&
           json_object_set_new(lamina, key, changed) == 0;
}

static lam_status put_keys(lam_json *config, const lam_hparams *h, const lam_json *with,
                           lam_err *err)
{
    json_t *lamina = json_object_get(config->object, "lamina");
    const char *key;
    json_t *value;
    if (!json_is_object(with->root))
        return lam_fail(err, LAM_E_CONFIG, with->file, "must be an object of keys of \"lamina\"");
    lamina = lamina ? json_copy(lamina) : spelled_out(h);
    bool done = lamina && json_object_set_new(config->object, "lamina", lamina) == 0;
    json_object_foreach(with->root, key, value) done = done && put_key(lamina, key, value);
    return done ? LAM_OK : lam_fail(err, LAM_E_NOMEM, with->file, "out of memory");
}

static lam_status take_with(lam_hparams *h, const lam_family **family, lam_json *config,
                            const char *text, lam_err *err)
{
    lam_json with;
    LAM_TRY(lam_json_parse(&with, text, strlen(text), "with", LAM_JSON_INTEGERS, err));
    lam_status status = put_keys(config, h, &with, err);
    snprintf(config->file, sizeof config->file, "%s", with.file);
    if (status == LAM_OK) status = lam_hf_config_take(h, family, config, err);
    lam_json_free(&with);
    return status;
}

lam_status lam_hf_config_read_with(lam_hparams *h, const lam_family **family, const lam_dir *d,
                                   const char *with, lam_err *err)
{
    lam_json config;
    LAM_TRY(lam_json_read(&config, d, "config.json", LAM_JSON_INTEGERS, err));
    lam_status status = lam_hf_config_take(h, family, &config, err);
    if (status == LAM_OK && with) status = take_with(h, family, &config, with, err);
    lam_json_free(&config);
    return status;
}

lam_status lam_hf_config_read(lam_hparams *h, const lam_family **family, const lam_dir *d,
                              lam_err *err)
{
    return lam_hf_config_read_with(h, family, d, NULL, err);
}
