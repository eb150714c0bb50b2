/* config.json -> hparams. Internal to core/import. */
#ifndef LAM_IMPORT_HF_CONFIG_H
#define LAM_IMPORT_HF_CONFIG_H

#include "core/import/families.h"

/* *h is checked against the maxima of hparams.h. */
lam_status lam_hf_config_read(lam_hparams *h, const lam_family **family, const lam_dir *d,
                              lam_err *err);

/* The same with other keys of "lamina": lam_open_opts.with, or NULL. What that makes wrong is named
 * as "with: lamina.norm.eps". */
lam_status lam_hf_config_read_with(lam_hparams *h, const lam_family **family, const lam_dir *d,
                                   const char *with, lam_err *err);

/* The same from a parsed object. */
lam_status lam_hf_config_take(lam_hparams *h, const lam_family **family, const lam_json *config,
                              lam_err *err);

/* The key "lamina", if there is one: moves norms away from what the family does, whose reader has
 * filled *h. err->where names the key with its path, "config.json: lamina.ffn_norm.groups". */
lam_status lam_lamina_config(lam_hparams *h, const lam_json *config, lam_err *err);

#endif
