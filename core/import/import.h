/* Foreign files -> a model. The only part of core that knows JSON and the file system. */
#ifndef LAM_IMPORT_IMPORT_H
#define LAM_IMPORT_IMPORT_H

#include "core/lamina.h"

/* Opens a Hugging Face or sentence-transformers directory: config.json, model.safetensors or its
 * index and shards, tokenizer.json or vocab.txt, modules.json and what it names. What a file leaves
 * ambiguous is refused; err->where is "file: key" or "file: tensor". Thread: any; the model may
 * then be shared. */
lam_status lam_import_model(lam_model **out, const char *path, const lam_open_opts *opts,
                            lam_err *err);

/* Reads only what the model would be, its weights unseen: with opts->with, what it would become. */
struct lam_hparams;
lam_status lam_import_hparams(struct lam_hparams *out, const char *path, const lam_open_opts *opts,
                              lam_err *err);

/* Opens only a tokenizer: a tokenizer.json, or a directory that holds one (or a vocab.txt). The
 * caller frees it with lam_tokenizer_free. */
struct lam_tokenizer;
lam_status lam_import_tokenizer(struct lam_tokenizer **out, const char *path, lam_err *err);

/* Population statistics by norm (lam_model_norm_site), [width] each. `mean` is not read where kinds
 * have none. */
typedef struct lam_new_statistics {
    const float *const *mean;
    const float *const *square; /* variance, or mean square around 0 */
} lam_new_statistics;

/* The file that holds what norms without running tensors have; read when it stands in a model
 * directory. */
extern const char lam_profile_name[];

/* Writes what calibration of the model `m` of directory `path` found. With any norm that has
 * running tensors: a new directory `out`, the same but for those tensors (and a profile of the
 * other norms); `out` must not exist or be empty. Else: the profile alone, into the directory
 * `out`, which is made where it does not exist. */
lam_status lam_import_write_calibrated(const char *path, const char *out, const lam_model *m,
                                       const lam_new_statistics *n, lam_err *err);

#endif
