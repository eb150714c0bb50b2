/* hparams + weights -> an executable model. */
#ifndef LAM_COMPILE_COMPILE_H
#define LAM_COMPILE_COMPILE_H

#include "core/lamina.h"
#include "core/model/hparams.h"
#include "core/model/weights.h"

/* What surrounds the encoder itself. */
typedef struct lam_head {
    lam_pool pool;
    bool normalize;
    size_t max_input_length; /* of a text, in tokens; 0: as long as the positions allow */
} lam_head;

typedef struct lam_parts {
    const char *name;         /* copied */
    const char *weight_dtype; /* static string */
    lam_hparams hparams;
    lam_weights *weights; /* borrowed, only read during the call */
    lam_head head;
    const lam_prompt *prompts; /* [prompt_count], copied */
    size_t prompt_count;
    const char *default_prompt; /* or NULL; copied */
    struct lam_tokenizer
        *tokenizer; /* owned by the model on success, by the caller on failure; or NULL */
} lam_parts;

/* Builds the program, plans memory, packs the weights. hparams were checked by the caller's reader
 * for their maxima (hparams.h). Errors: LAM_E_WEIGHTS naming the tensor, LAM_E_NOMEM. */
lam_status lam_compile(lam_model **out, const lam_parts *parts, const lam_open_opts *opts,
                       lam_err *err);

#endif
