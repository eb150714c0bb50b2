/* The scratch memory of one thread, and the batch that stands in it. */
#ifndef LAM_PROGRAM_CONTEXT_H
#define LAM_PROGRAM_CONTEXT_H

#include "core/model/model.h"

/* Consecutive rows of the batch that belong to one item. */
typedef struct lam_sequence {
    size_t first, rows;
    lam_item *item;
} lam_sequence;

/* Shows the rows of each site as they come up: [rows, the slot's width]. For tools and tests. */
typedef struct lam_watch {
    void (*see)(void *arg, size_t slot, const float *x, size_t stride, size_t rows); /* or NULL */
    void *arg;
    /* Before each norm of the list that has them all goes over the batch's rows; or NULL. What it
     * may do: run it over other rows and into other memory, lam__norm_over. */
    void (*norm)(void *arg, const lam_ctx *c, const lam_op *op, const lam_norm_run *run);
} lam_watch;

struct lam_ctx {
    const lam_model *model;
    size_t max_rows;
    lam_block block; /* everything below lies in it */
    float *rows;     /* [max_rows, row_floats of the widest list], buffer by buffer */
    float *tap; /* [max_rows, stride(program.tap_width)] a linear's result before its residual */
    double *norm_sums;                /* [2, widest stride]: scratch of norms over several rows */
    float *norm_affine;               /* [3, widest stride]: the same */
    float *attention;                 /* scratch of the attention kernel */
    int32_t *ids, *positions, *types; /* [max_rows] positions: rows of their table */
    int32_t *indices;                 /* [max_rows] places in the row as sent */
    lam_sequence *sequences;          /* [max_rows]: an item has at least one row */

    /* the batch at hand */
    size_t row_count, sequence_count;
    bool any_stats, any_full;
    const lam_program *program;    /* the list that runs: plain, measured or folded */
    bool takes_vectors;            /* from its states */
    const lam_watch *watch;        /* or NULL; set by lam__ctx_watch */
    bool probing;                  /* looking for the first faults of the items (encode.c) */
    lam_norm_inputs *inputs;       /* or NULL; with the next set by lam_ctx_measure */
    const lam_norm_values *values; /* or NULL */
};

/* Until it is called with NULL, lam_encode runs every op and shows each tapped tensor. */
void lam__ctx_watch(lam_ctx *c, const lam_watch *w);

/* Runs a norm over sequences that stand side by side, x and y being the first row of the batch:
 * over each by itself, or over all at once, as its source wants. */
void lam__norm_over(const lam_norm_run *run, const lam_sequence *sequences, size_t count);

/* Whether the vectors of such a request come from the folded list. The rows of a batch agree in it.
 */
bool lam__runs_folded(const lam_model *m, const lam_encode_opts *opts);

/* Runs the program over the batch. Vectors are written as their states come up. `is_last`: no other
 * batch of the call follows. */
lam_status lam__execute(lam_ctx *c, bool is_last, const lam_stop *stop);

#endif
