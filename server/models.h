/* The models of this process, open and named. */
#ifndef SERVER_MODELS_H
#define SERVER_MODELS_H

#include "api/api.h"
#include "server/config/config.h"
#include "server/server.h"

typedef struct srv_models {
    api_model *models; /* [count] */
    size_t count;
    char *alias_text;     /* the setting's names, each NUL-ended */
    const char **aliases; /* of the first model */
} srv_models;

/* Opens them in order; the setting `alias` names the first. On failure nothing is held. Errors:
 * those of lam_import_model, LAM_E_CONFIG for a name given twice. */
lam_status srv_models_open(srv_models *m, const srv_config *config, const srv_model_spec *specs,
                           size_t count, lam_err *err);
void srv_models_close(srv_models *m);

/* Rows of a batch: the setting, raised to the longest sequence of any model. */
size_t srv_models_batch_rows(const srv_models *m, uint64_t max_batch_tokens);

#endif
