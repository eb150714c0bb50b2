/* A directory of tests/data/norms, opened part by part, so that a test can spoil what stands
 * between the files and the compiler. */
#ifndef TESTS_GOLDEN_NORM_CASE_H
#define TESTS_GOLDEN_NORM_CASE_H

#include "core/compile/compile.h"
#include "core/import/hf_config.h"
#include "core/import/tensors.h"
#include "core/program/context.h"
#include "tests/golden/golden.h"

typedef struct norm_case {
    const char *name;
    char path[512];
    json_t *cases;
    expected want;
    lam_hparams hparams;
    lam_bundle bundle;
    lam_tensors tensors;
    double relative; /* tolerance, of the largest expected value */
    unsigned folds;  /* that case_compile lets the compiler take */
} norm_case;

/* One request of it, ready to run on a model. */
typedef struct norm_request {
    const char *name;
    const json_t *json, *expect;
    lam_encode_opts opts;
    lam_item *items; /* [count] */
    size_t count, rows;
    float *out; /* embeddings of all items, one after another: [out_rows, width] */
    size_t out_rows, width;
} norm_request;

bool case_open(norm_case *c, const char *data, const char *name, lam_err *err);
void case_close(norm_case *c);

/* Compiles what the case holds, with other hparams or weights if a test wants (NULL: its own). */
lam_status case_compile(const norm_case *c, const lam_hparams *h, lam_weights *w, lam_isa isa,
                        bool fuse, lam_model **out, lam_err *err);

/* False if the model refuses it. */
bool request_open(norm_request *r, const lam_model *m, const json_t *json);
void request_close(norm_request *r);

/* Whether every item came out. */
bool request_run(norm_request *r, lam_ctx *ctx);

/* Expected values, to be freed; NULL if there are none of that name. */
double *case_expected(const norm_case *c, const char *name, size_t *rows, size_t *columns);

/* Largest |got - want| over largest |want|. */
double relative_error(const float *got, size_t stride, const double *want, size_t rows,
                      size_t columns);

#endif
