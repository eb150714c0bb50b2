#include "server/worker.h"

#include <signal.h>
#include <stdlib.h>

#include "server/memory_plan.h"

enum { STACK_BYTES = 2 << 20, TRIM_BYTES = 65536 };

lam_status srv_worker_init(srv_worker *w, const srv_work_env *env, srv_worker_metrics *metrics,
                           size_t batch_rows, lam_err *err)
{
    *w = (srv_worker){.env = env, .metrics = metrics};
    w->contexts = calloc(env->api->model_count, sizeof *w->contexts);
    w->drift = calloc(env->api->model_count, sizeof *w->drift);
    if (!w->contexts || !w->drift || !srv_batch_init(&w->batch, batch_rows)) {
        srv_worker_fini(w);
        return lam_fail(err, LAM_E_NOMEM, "workers", "no memory for a worker");
    }
    for (size_t i = 0; i < env->api->model_count; i++) {
        lam_status s = lam_ctx_new(&w->contexts[i], env->api->models[i].model, batch_rows, err);
        if (s == LAM_OK)
            s = srv_drift_init(&w->drift[i], env->api->models[i].model, env->drift_sample,
                               env->drift_window_ns, err);
        if (s == LAM_OK) continue;
        srv_worker_fini(w);
        return s;
    }
    return LAM_OK;
}

void srv_worker_fini(srv_worker *w)
{
    for (size_t i = 0; w->contexts && i < w->env->api->model_count; i++)
        lam_ctx_free(w->contexts[i]);
    for (size_t i = 0; w->drift && i < w->env->api->model_count; i++)
        srv_drift_fini(&w->drift[i]);
    free(w->drift);
    w->drift = NULL;
    free(w->contexts);
    w->contexts = NULL;
    srv_batch_fini(&w->batch);
}

/* The reply's memory was counted when the request was decoded; the pages that are not written cost
 * nothing. */
static void write_reply(srv_job *job)
{
    size_t bound = job->request.reply_bound_bytes;
    api_buffer_init(&job->reply, bound);
    job->reply.data = malloc(bound);
    if (!job->reply.data) {
        srv_job_fail(job, API_CODE_OUT_OF_MEMORY, "no memory for the reply");
        return;
    }
    job->reply.capacity = bound;
    api_timing t = {
        .queue_ms = job->started_ns ? (double)(job->started_ns - job->arrived_ns) / 1e6 : 0,
        .compute_ms = (double)(job->finished_ns - job->started_ns) / 1e6,
        .total_ms = (double)(srv_now_ns() - job->arrived_ns) / 1e6,
    };
    if (!api_reply_write(&job->request, &t, &job->reply)) {
        srv_job_fail(job, API_CODE_INTERNAL, "the reply is larger than was foreseen");
        return;
    }
    if (job->request.any_truncated)
        api_truncated_header(&job->request, job->truncated, sizeof job->truncated);
    if (job->reply.capacity - job->reply.size > TRIM_BYTES) {
        char *less = realloc(job->reply.data, job->reply.size);
        if (less) job->reply.data = less, job->reply.capacity = job->reply.size;
    }
}

/* The job is whole and the worker's: reply or error, then to the loop. */
static void finish(srv_worker *w, srv_job *job)
{
    bool dead = atomic_load_explicit(&job->dead, memory_order_relaxed);
    if (!dead && !job->failed) job->failed = !api_request_check(&job->request, &job->error);
    if (!dead && !job->failed) write_reply(job);
    if (job->failed) {
        api_buffer_free(&job->reply);
        api_buffer_init(&job->reply, SRV_JOB_BYTES);
        api_error_write(&job->error, &job->reply);
    }
    lam_arena_fini(&job->arena);
    srv_charge_bytes(&job->charge, SRV_JOB_BYTES + job->reply.capacity);
    if (srv_done_push(w->env->done, job)) w->env->wake(w->env->wake_arg);
}

/* Slots and bytes that the request turned out to need. */
static bool admit(srv_job *job)
{
    size_t bytes = SRV_JOB_BYTES + job->arena.held_bytes + job->request.reply_bound_bytes;
    return srv_charge_items(&job->charge, job->request.item_count) &&
           srv_charge_bytes(&job->charge, bytes);
}

static void decode(srv_worker *w, srv_job *job)
{
    uint64_t begin_ns = srv_now_ns();
    bool ok = api_request_read(w->env->api, job->route, job->body.data, job->body.size, &job->arena,
                               &job->request, &job->error);
    free(job->body.data);
    job->body = (srv_body){0};
    job->tokenize_ns = srv_now_ns() - begin_ns;
    srv_histogram_add(&w->metrics->tokenize, srv_duration_bounds, job->tokenize_ns);
    job->failed = !ok;
    if (ok && !admit(job)) srv_job_fail(job, API_CODE_OVERLOADED, "too much work is waiting");
    if (ok && job->request.deadline_ms > 0)
        atomic_store_explicit(&job->due_ns,
                              job->arrived_ns + (uint64_t)job->request.deadline_ms * 1000000u,
                              memory_order_relaxed);
    if (job->failed || job->request.item_count == 0)
        finish(w, job);
    else
        srv_queue_ready(w->env->queue, job);
}

typedef struct watched {
    const srv_work_env *env;
    const srv_batch *batch;
    size_t alive; /* a slice whose job was alive when last looked at */
} watched;

/* A batch is given up only if nobody waits for any of its jobs. */
static bool all_dead(void *arg)
{
    watched *seen = arg;
    const srv_batch *b = seen->batch;
    for (; seen->alive < b->slice_count; seen->alive++)
        if (!atomic_load_explicit(&b->slices[seen->alive].job->dead, memory_order_relaxed))
            return false;
    return true;
}

/* Wakes the loop early, so that it is awake by the time the reply is there; a sleeping CPU takes
 * longer to wake than what is left to compute. Only where a CPU is idle: the loop polls meanwhile.
 */
static void announce(void *arg)
{
    const watched *seen = arg;
    const srv_work_env *env = seen->env;
    if (env->workers - srv_queue_idle(env->queue) >= env->cpus) return;
    srv_done_announce(env->done);
    env->wake(env->wake_arg);
}

/* Whether the batch is a job's last; its other slices are done or run elsewhere. */
static bool ends_a_job(const srv_batch *b)
{
    for (size_t i = 0; i < b->slice_count; i++)
        if (b->slices[i].first + b->slices[i].count == b->slices[i].job->request.item_count)
            return true;
    return false;
}

static void copy_back(const srv_batch *b)
{
    const lam_item *from = b->items;
    for (size_t i = 0; i < b->slice_count; i++) {
        lam_item *to = b->slices[i].job->request.items + b->slices[i].first;
        for (size_t k = 0; k < b->slices[i].count; k++)
            to[k] = *from++;
    }
}

static void run(srv_worker *w)
{
    srv_batch *b = &w->batch;
    size_t model = (size_t)(b->slices[0].job->request.model - w->env->api->models);
    uint64_t begin_ns = srv_now_ns();
    watched seen = {.env = w->env, .batch = b};
    lam_stop stop = {.asked = all_dead, .arg = &seen, .ending = ends_a_job(b) ? announce : NULL};
    lam_ctx *ctx = w->contexts[model];
    srv_drift_begin(&w->drift[model], ctx, b->items, b->item_count);
    bool ran = lam_encode(ctx, b->items, b->item_count, &stop) == LAM_OK;
    srv_drift_end(&w->drift[model], ctx, b->items, b->item_count, ran);
    srv_worker_metrics *m = w->metrics;
    srv_histogram_add(&m->compute, srv_duration_bounds, srv_now_ns() - begin_ns);
    srv_histogram_add(&m->batch_items, srv_count_bounds, b->item_count);
    srv_histogram_add(&m->batch_tokens, srv_count_bounds, b->rows);
    if (ran)
        srv_counter_add(&m->tokens, b->rows);
    else
        srv_counter_add(&m->abandoned, 1);
    copy_back(b);
    size_t finished = srv_queue_finish(w->env->queue, b, ran);
    for (size_t i = 0; i < finished; i++)
        finish(w, b->slices[i].job);
}

static void *work(void *arg)
{
    srv_worker *w = arg;
    size_t decoded_bytes = 0;
    for (;;) {
        srv_job *job = NULL;
        switch (srv_queue_take(w->env->queue, &decoded_bytes, &job, &w->batch)) {
        case SRV_WORK_STOP:
            return NULL;
        case SRV_WORK_DECODE:
            decode(w, job);
            break;
        case SRV_WORK_BATCH:
            run(w);
            break;
        case SRV_WORK_DROPPED:
            if (!job->failed)
                srv_job_fail(job, API_CODE_DEADLINE,
                             "the deadline passed before the request was run");
            finish(w, job);
            break;
        }
    }
}

bool srv_worker_start(srv_worker *w)
{
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0) return false;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    /* Signals are the loop's. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    w->running = pthread_create(&w->thread, &attr, work, w) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (w->running) pthread_setname_np(w->thread, "lamina-worker");
    return w->running;
}

void srv_worker_join(srv_worker *w)
{
    if (w->running) pthread_join(w->thread, NULL);
    w->running = false;
}
