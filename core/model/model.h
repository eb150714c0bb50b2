/* What a lam_model is made of: immutable after lam_compile, shared by all threads. */
#ifndef LAM_MODEL_MODEL_H
#define LAM_MODEL_MODEL_H

#include "core/kernels/kernels.h"
#include "core/program/program.h"

/* Population statistics of a norm's input, where the model came with some. */
typedef struct lam_norm_profile {
    const float *mean, *variance; /* [width]; NULL: none for this norm */
} lam_norm_profile;

struct lam_model {
    lam_arena arena; /* names, prompts, ops */
    lam_model_info info;
    lam_hparams hparams;
    lam_program program;
    lam_kernels kernels;
    lam_norm_profile *profile;       /* [program.norm_count], in the arena; or NULL */
    struct lam_tokenizer *tokenizer; /* owned; or NULL */
};

#endif
