/* What `lamina check` finds out, and the two ways in which it does. */
#ifndef SERVER_CLI_CHECK_H
#define SERVER_CLI_CHECK_H

#include "server/cli/trace.h"

/* ---- Each norm by itself --------------------------------------------------------------------- */

/* A norm of the model on rows that the model gave it: over two items, over the first of them, and
 * over half of that one. */
typedef struct check_norm {
    size_t layer; /* LAM_LAYER_NONE outside the layers */
    lam_site site;
    const char *kind;
    lam_norm_source source;
    double batch;  /* largest change of the first item's rows when the second goes away */
    double length; /* and when the half of the first goes away */
} check_norm;

typedef struct check_norms {
    check_norm *list; /* [count], in order of computation; malloc'd */
    size_t count, capacity;
    bool failed; /* no memory */
} check_norms;

/* "independent", "length" or "batch": what was seen. */
const char *check_norm_measured(const check_norm *n);

/* Adds what this model, on its instruction set, shows. Keeps the larger differences where the list
 * was filled from another set before. The items are two, of 4 rows or more. */
lam_status check_norms_run(check_norms *norms, lam_ctx *ctx, lam_item items[2], lam_err *err);

/* ---- Whole items ----------------------------------------------------------------------------- */

#define CHECK_TEST_MAP(X)                                                           \
    X(ALONE, "alone", "again, after others in the same memory")                     \
    X(BATCH, "batch", "in batches with all other items, in three orders")           \
    X(PADDING_BEHIND, "padding_behind", "with masked tokens behind it")             \
    X(PADDING_FRONT, "padding_front", "with masked tokens in front: other ids")     \
    X(PADDING_INSIDE, "padding_inside", "with masked tokens in between: other ids") \
    X(WORKERS, "workers", "by several workers at once")
#define CHECK_ENUM_ROW(name, text, about) CHECK_##name,
typedef enum check_test { CHECK_TEST_MAP(CHECK_ENUM_ROW) CHECK_TEST_COUNT } check_test;

typedef struct check_result {
    size_t runs;
    cli_parting parting;
    size_t item;   /* the first that came out otherwise */
    double vector; /* largest relative distance of a vector */
} check_result;

enum { CHECK_MAX_ITEMS = 8 };

/* One model on one instruction set. */
typedef struct check_run {
    lam_model *model;
    lam_encode_opts opts;
    lam_arena arena;
    lam_ctx *ctx;
    cli_sites sites;
    const int32_t *ids[CHECK_MAX_ITEMS];
    size_t tokens[CHECK_MAX_ITEMS];
    size_t first_row[CHECK_MAX_ITEMS]; /* in `base` */
    size_t count, rows, longest;
    cli_trace base; /* each item alone */
    float *vectors; /* [count, width] of the same */
    cli_trace other;
    float *other_vectors; /* [2 * count, width] */
    size_t workers;
    check_result results[CHECK_TEST_COUNT];
} check_run;

/* Items of seeded ids, memory, and each item alone. The model is the caller's. */
lam_status check_run_open(check_run *r, lam_model *model, lam_norm_source statistics,
                          size_t workers, lam_err *err);
lam_status check_run_all(check_run *r, lam_err *err);
void check_run_close(check_run *r);

/* An item as it is, for lam_encode. */
lam_item check_item(const check_run *r, size_t i, float *out);

#endif
