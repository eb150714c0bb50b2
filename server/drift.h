/* How far live traffic is from the statistics that a model holds: its running tensors or its
 * profile. Each worker sums up what the norms of some of its batches meet; /metrics merges the sums
 * of all workers, and only then makes distances of them. */
#ifndef SERVER_DRIFT_H
#define SERVER_DRIFT_H

#include <pthread.h>

#include "api/api.h"

/* One worker's sums of one model. */
typedef struct srv_drift {
    const lam_model *model; /* NULL: it holds no statistics, or drift is off */
    uint64_t sample, window_ns;
    uint64_t batches;       /* of the worker alone */
    lam_norm_inputs *batch; /* of the worker alone: the batch at hand */
    pthread_mutex_t lock;   /* what follows */
    lam_norm_inputs *now, *before;
    uint64_t since_ns; /* of `now`; before it `before`, which is as long */
} srv_drift;

/* Whether the model holds statistics of any norm. */
bool srv_drift_has(const lam_model *m);

/* sample 0: off. On failure nothing is held. */
lam_status srv_drift_init(srv_drift *d, const lam_model *m, uint64_t sample, uint64_t window_ns,
                          lam_err *err);
void srv_drift_fini(srv_drift *d);

/* Before a batch and after it, by the worker. Of every sample-th batch the norms' inputs are kept;
 * batches with items that failed or asked for a source of statistics of their own are not. */
void srv_drift_begin(srv_drift *d, lam_ctx *ctx, const lam_item *items, size_t count);
void srv_drift_end(srv_drift *d, lam_ctx *ctx, const lam_item *items, size_t count, bool ran);

/* Adds the worker's window to `total`; by the loop. */
void srv_drift_merge(srv_drift *d, lam_norm_inputs *total);

/* The gauges of one model. `total` is empty where nothing was met. */
typedef struct srv_drift_view {
    const char *name;
    const lam_model *model;
    size_t index; /* of the model in the server */
    lam_norm_inputs *total;
} srv_drift_view;

void srv_drift_write(const srv_drift_view *views, size_t count, api_buffer *out);

#endif
