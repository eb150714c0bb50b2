/* What `lamina sweep` measures: batches of items on one source of statistics, against vectors on
 * running statistics. */
#ifndef SERVER_CLI_SWEEP_H
#define SERVER_CLI_SWEEP_H

#include "server/cli/inputs.h"

/* Discrepancies of a norm's running tensors and its batch, in deviations: docs/NUMERICS.md. */
#define SWEEP_TID_MAP(X)                     \
    X(MEAN, LAM_POPULATION_MEAN_TID)         \
    X(VARIANCE, LAM_POPULATION_VARIANCE_TID) \
    X(SECOND_MOMENT, LAM_POPULATION_SECOND_MOMENT_TID)
#define SWEEP_ENUM_ROW(name, value) SWEEP_TID_##name,
typedef enum sweep_tid { SWEEP_TID_MAP(SWEEP_ENUM_ROW) SWEEP_TID_COUNT } sweep_tid;

/* One line of the result. Means that have nothing to be of are NaN. */
typedef struct sweep_row {
    lam_norm_source source;
    size_t batch_size, batches, items;
    uint64_t tokens;
    double error_mean, error_max; /* of ||e - running|| / ||running|| over the items */
    double cosine_mean, cosine_least;
    double tid[SWEEP_TID_COUNT]; /* mean over batches and sites */
} sweep_row;

typedef struct sweep_run {
    const lam_model *model;
    const cli_inputs *inputs;
    size_t workers;
    size_t max_rows; /* of a context */
    float *running;  /* [items, width]: vectors on running statistics */
} sweep_run;

/* Fills `running`, which has room. */
lam_status sweep_reference(const sweep_run *r, lam_err *err);

/* Batches of batch_size items, in the order of the inputs; what is left over at the end, fewer than
 * that, is left out. The same numbers for any number of workers. */
lam_status sweep_batches(const sweep_run *r, lam_norm_source source, size_t batch_size,
                         sweep_row *out, lam_err *err);

/* Rows of the largest batch of that many items. */
size_t sweep_largest_batch(const cli_inputs *inputs, size_t batch_size);

#endif
