/* The files that sentence-transformers puts around an encoder: which modules follow it, how rows
 * are pooled, how long texts may be, which prompts there are. Both generations (up to 5.3, from 5.4
 * on). Internal to core/import. */
#ifndef LAM_IMPORT_SENTENCE_TRANSFORMERS_H
#define LAM_IMPORT_SENTENCE_TRANSFORMERS_H

#include "core/compile/compile.h"
#include "core/import/bundle.h"
#include "core/import/json.h"

enum { LAM_MAX_PROMPTS = 1000 };

typedef struct lam_sentence {
    lam_head head;
    char encoder[256];   /* folder of the encoder's own files, "" for the directory itself */
    char pooling[256];   /* folder of the pooling's config.json, or "" if there is none */
    lam_prompt *prompts; /* [prompt_count], owned; texts live in prompt_file */
    size_t prompt_count;
    const char *default_prompt; /* or NULL */
    lam_json prompt_file;
} lam_sentence;

/* modules.json: sets encoder, pooling and head.normalize. A directory without it is a bare encoder.
 */
lam_status lam_sentence_modules(lam_sentence *s, const lam_dir *d, const lam_warner *w,
                                lam_err *err);

/* The rest. `encoder` is the folder of that name, h what its config.json says. On failure
 * lam_sentence_free is still due. */
lam_status lam_sentence_read(lam_sentence *s, const lam_dir *d, const lam_dir *encoder,
                             const lam_hparams *h, const lam_warner *w, lam_err *err);
void lam_sentence_free(lam_sentence *s);

/* What a pooling's config.json says, from a parsed object. */
lam_status lam_sentence_pooling(lam_pool *pool, bool *include_prompt, const lam_json *config,
                                size_t width, lam_err *err);

#endif
