/* A model directory, from its files to a compiled model. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/compile/compile.h"
#include "core/import/bundle.h"
#include "core/import/calibrated.h"
#include "core/import/hf_config.h"
#include "core/import/import.h"
#include "core/import/sentence_transformers.h"
#include "core/import/tensors.h"
#include "core/tokenizer/tokenizer.h"

/* All that is open while a model is put together; `parts` borrows from the rest. */
typedef struct import {
    const char *path;
    const lam_open_opts *opts;
    lam_warner warner;
    lam_dir root, encoder;
    lam_sentence sentence;
    const lam_family *family;
    lam_bundle bundle;
    lam_tensors tensors;
    char name[NAME_MAX + 1];
    lam_parts parts;
} import;

/* The last component of the path as it is written, or of what it stands for where that is "." or
 * "/". */
static lam_status take_name(import *in, lam_err *err)
{
    size_t n = strlen(in->path);
    while (n > 1 && in->path[n - 1] == '/')
        n--;
    size_t start = n;
    while (start > 0 && in->path[start - 1] != '/')
        start--;
    const char *base = in->path + start;
    const size_t len = n - start;
    const bool dots =
        (len == 1 && base[0] == '.') || (len == 2 && base[0] == '.' && base[1] == '.');
    if (len > 0 && len < sizeof in->name && !dots) {
        memcpy(in->name, base, len);
        in->name[len] = '\0';
        return LAM_OK;
    }
    char *real = realpath(in->path, NULL);
    if (real == NULL) return lam_fail(err, LAM_E_FILE, in->path, "path cannot be resolved");
    const char *slash = strrchr(real, '/');
    const char *last = slash != NULL && slash[1] != '\0' ? slash + 1 : "model";
    snprintf(in->name, sizeof in->name, "%s", last);
    free(real);
    return LAM_OK;
}

static lam_status open_tokenizer(import *in, lam_err *err)
{
    char path[PATH_MAX];
    const char *file = lam_dir_has(&in->encoder, "tokenizer.json") ? "tokenizer.json" : "vocab.txt";
    if (!lam_dir_has(&in->encoder, file)) return LAM_OK;
    const int n = snprintf(path, sizeof path, "%s/%s", in->path, in->encoder.name);
    if (n < 0 || (size_t)n >= sizeof path)
        return lam_fail(err, LAM_E_FILE, in->name, "path is too long");
    LAM_TRY(lam_import_tokenizer(&in->parts.tokenizer, path, err));
    const size_t ids = lam_tokenizer_vocab(in->parts.tokenizer), vocab = in->parts.hparams.vocab;
    if (ids <= vocab) return LAM_OK;
    return lam_fail(err, LAM_E_CONFIG, file,
                    "has token ids up to %zu, but vocab_size of config.json is %zu", ids - 1,
                    vocab);
}

static lam_status read_files(import *in, lam_err *err)
{
    lam_parts *p = &in->parts;
    LAM_TRY(take_name(in, err));
    LAM_TRY(lam_dir_open(&in->root, in->path, err));
    LAM_TRY(lam_sentence_modules(&in->sentence, &in->root, &in->warner, err));
    LAM_TRY(lam_dir_open_inside(&in->encoder, &in->root, in->sentence.encoder, err));
    LAM_TRY(lam_hf_config_read_with(&p->hparams, &in->family, &in->encoder, in->opts->with, err));
    LAM_TRY(
        lam_sentence_read(&in->sentence, &in->root, &in->encoder, &p->hparams, &in->warner, err));
    LAM_TRY(lam_bundle_open(&in->bundle, &in->encoder, &in->warner, err));
    LAM_TRY(lam_tensors_bind(&in->tensors, in->family, &p->hparams, &in->bundle, &in->warner, err));
    return open_tokenizer(in, err);
}

static lam_status build(lam_model **out, import *in, lam_err *err)
{
    lam_parts *p = &in->parts;
    LAM_TRY(read_files(in, err));
    p->name = in->name;
    p->weight_dtype = lam_tensors_dtype(&in->tensors);
    p->weights = &in->tensors.base;
    p->head = in->sentence.head;
    p->prompts = in->sentence.prompts;
    p->prompt_count = in->sentence.prompt_count;
    p->default_prompt = in->sentence.default_prompt;
    LAM_TRY(lam_compile(out, p, in->opts, err));
    p->tokenizer = NULL; /* the model's from here on */
    const lam_status status = lam__read_profile(*out, &in->root, in->family, err);
    if (status == LAM_OK) return LAM_OK;
    lam_model_close(*out);
    *out = NULL;
    return status;
}

lam_status lam_import_model(lam_model **out, const char *path, const lam_open_opts *opts,
                            lam_err *err)
{
    *out = NULL;
    struct import in = {.path = path,
                        .opts = opts,
                        .warner = {opts->warn, opts->warn_arg},
                        .root = {.fd = -1},
                        .encoder = {.fd = -1}};
    const lam_status status = build(out, &in, err);
    if (in.parts.tokenizer != NULL) lam_tokenizer_free(in.parts.tokenizer);
    lam_tensors_free(&in.tensors);
    lam_bundle_close(&in.bundle);
    lam_sentence_free(&in.sentence);
    lam_dir_close(&in.encoder);
    lam_dir_close(&in.root);
    return status;
}

lam_status lam_import_hparams(lam_hparams *out, const char *path, const lam_open_opts *opts,
                              lam_err *err)
{
    struct import in = {.path = path, .opts = opts, .root = {.fd = -1}, .encoder = {.fd = -1}};
    lam_status status = lam_dir_open(&in.root, path, err);
    if (status == LAM_OK) status = lam_sentence_modules(&in.sentence, &in.root, &in.warner, err);
    if (status == LAM_OK)
        status = lam_dir_open_inside(&in.encoder, &in.root, in.sentence.encoder, err);
    if (status == LAM_OK)
        status = lam_hf_config_read_with(out, &in.family, &in.encoder, opts->with, err);
    lam_sentence_free(&in.sentence);
    lam_dir_close(&in.encoder);
    lam_dir_close(&in.root);
    return status;
}
