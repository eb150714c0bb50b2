/* Inference threads. Each has scratch of its own for every model and takes work from the queue. */
#ifndef SERVER_WORKER_H
#define SERVER_WORKER_H

#include <pthread.h>

#include "server/drift.h"
#include "server/metrics.h"
#include "server/queue.h"

/* What all workers share. Const after start but for the things behind pointers, which are
 * thread-safe. */
typedef struct srv_work_env {
    const api_env *api;
    srv_queue *queue;
    srv_done *done;
    void (*wake)(void *arg); /* tells the loop that the done list has something; any thread */
    void *wake_arg;
    size_t cpus; /* that this process may use */
    size_t workers;
    uint64_t drift_sample, drift_window_ns; /* drift.h */
} srv_work_env;

typedef struct srv_worker {
    const srv_work_env *env;
    srv_worker_metrics *metrics;
    lam_ctx **contexts; /* [env->api->model_count] */
    srv_drift *drift;   /* the same */
    srv_batch batch;
    pthread_t thread;
    bool running;
} srv_worker;

/* Makes scratch for batches of up to batch_rows rows. On failure nothing is held. */
lam_status srv_worker_init(srv_worker *w, const srv_work_env *env, srv_worker_metrics *metrics,
                           size_t batch_rows, lam_err *err);
void srv_worker_fini(srv_worker *w);

/* False: the system refuses the thread. It ends after srv_queue_stop. */
bool srv_worker_start(srv_worker *w);
void srv_worker_join(srv_worker *w);

#endif
