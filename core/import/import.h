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

#endif
