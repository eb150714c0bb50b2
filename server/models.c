#include "server/models.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/import/import.h"
#include "server/log.h"

static void warn(void *arg, const char *sentence)
{
    srv_log(SRV_LOG_WARN, sentence, "model", arg);
}

static lam_status split_aliases(srv_models *m, const char *list, lam_err *err)
{
    if (!list) return LAM_OK;
    size_t count = 1;
    for (const char *p = list; *p; p++)
        count += *p == ',';
    m->alias_text = strdup(list);
    m->aliases = calloc(count, sizeof *m->aliases);
    if (!m->alias_text || !m->aliases)
        return lam_fail(err, LAM_E_NOMEM, "alias", "no memory for the names");
    char *name = m->alias_text;
    for (size_t i = 0; i < count; i++) {
        m->aliases[i] = name;
        name += strcspn(name, ",");
        *name++ = '\0';
    }
    m->models[0].aliases = m->aliases;
    m->models[0].alias_count = count;
    return LAM_OK;
}

static lam_status open_one(api_model *m, const srv_config *config, const srv_model_spec *spec,
                           lam_err *err)
{
    lam_open_opts opts = lam_open_opts_default();
    lam_isa isa;
    if (lam_isa_parse(config->cpu, strlen(config->cpu), &isa) && isa < opts.isa) opts.isa = isa;
    opts.folds = srv_folds(config->fold);
    opts.warn = warn;
    opts.warn_arg = (void *)(uintptr_t)spec->path;
    lam_model *model;
    LAM_TRY(lam_import_model(&model, spec->path, &opts, err));
    const lam_model_info *info = lam_model_get_info(model);
    size_t longest =
        config->max_input_length ? (size_t)config->max_input_length : info->max_input_length;
    *m = (api_model){
        .name = spec->name ? spec->name : info->name,
        .model = model,
        .max_input_length = longest < info->positions ? longest : info->positions,
        .created = (int64_t)time(NULL),
    };
    return LAM_OK;
}

static bool is_taken(const srv_models *m, size_t before, const char *name)
{
    for (size_t i = 0; i < before; i++) {
        if (strcmp(m->models[i].name, name) == 0) return true;
        for (size_t j = 0; j < m->models[i].alias_count; j++)
            if (strcmp(m->models[i].aliases[j], name) == 0) return true;
    }
    return false;
}

static lam_status open_all(srv_models *m, const srv_config *config, const srv_model_spec *specs,
                           size_t count, lam_err *err)
{
    for (size_t i = 0; i < count; i++) {
        LAM_TRY(open_one(&m->models[i], config, &specs[i], err));
        m->count++;
        if (i == 0) LAM_TRY(split_aliases(m, config->alias, err));
        if (is_taken(m, i, m->models[i].name))
            return lam_fail(err, LAM_E_CONFIG, m->models[i].name, "two models have this name");
    }
    return LAM_OK;
}

lam_status srv_models_open(srv_models *m, const srv_config *config, const srv_model_spec *specs,
                           size_t count, lam_err *err)
{
    *m = (srv_models){.models = calloc(count ? count : 1, sizeof *m->models)};
    if (!m->models) return lam_fail(err, LAM_E_NOMEM, "models", "no memory for the list of models");
    lam_status s = open_all(m, config, specs, count, err);
    if (s != LAM_OK) srv_models_close(m);
    return s;
}

void srv_models_close(srv_models *m)
{
    for (size_t i = 0; i < m->count; i++)
        lam_model_close((lam_model *)(uintptr_t)m->models[i].model);
    free(m->models);
    free(m->alias_text);
    free(m->aliases);
    *m = (srv_models){0};
}

size_t srv_models_batch_rows(const srv_models *m, uint64_t max_batch_tokens)
{
    size_t rows = (size_t)max_batch_tokens;
    for (size_t i = 0; i < m->count; i++) {
        size_t longest = lam_model_get_info(m->models[i].model)->positions;
        if (rows < longest) rows = longest;
    }
    return rows;
}
