/* A small random BERT made in memory, and a slow forward pass in double to hold the engine against.
 */
#ifndef TESTS_UNIT_CORE_TINY_MODEL_H
#define TESTS_UNIT_CORE_TINY_MODEL_H

#include "core/compile/compile.h"
#include "core/program/program.h"

enum {
    TINY_WIDTH = 24, /* not a multiple of a panel, so that padding columns exist */
    TINY_LAYERS = 3,
    TINY_HEADS = 2,
    TINY_FFN = 40,
    TINY_VOCAB = 50,
    TINY_POSITIONS = 32,
    TINY_TYPES = 2,
};

/* A value of a parameter, the same for every model: a hash of its name and place. */
float tiny_value(lam_module module, size_t layer, const char *name, size_t index);

/* What a test may spoil: one value of one parameter. */
typedef struct tiny_fault {
    lam_module module;
    size_t layer;
    const char *name;
    size_t index;
    float value;
} tiny_fault;

/* The caller closes it. `fault` may be NULL. */
lam_model *tiny_model_new(const lam_open_opts *opts, const tiny_fault *fault);

/* The best kernels, fused. */
lam_model *tiny_model_default(void);

/* States of one sequence: states[(layer * tokens + t) * TINY_WIDTH + c], layer 0 = embedding. */
void tiny_forward(const int32_t *ids, const int32_t *types, const int32_t *positions, size_t tokens,
                  double *states);

#endif
