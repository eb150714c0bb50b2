/* The baton under threads: a loop submits, cuts and withdraws jobs while workers decode, run and
 * finish them. Each job must come home exactly once, each item must have been run at most once, and
 * by nobody after the job came home. Built for TSan as well as plain. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/queue.h"

enum {
    JOBS = 20000,
    WORKERS = 4,
    BATCH_ROWS = 128,
    MAX_ITEMS = 40,
    IN_FLIGHT = 64,
    SPIN_NS = 20000
};

static srv_queue queue;
static srv_done done;
static const api_model model;
static atomic_size_t items_run;

static srv_job *make_job(unsigned *seed)
{
    srv_job *job = calloc(1, sizeof *job);
    size_t items = 1 + (size_t)rand_r(seed) % MAX_ITEMS;
    job->request.items = calloc(items, sizeof *job->request.items);
    job->request.item_count = items;
    for (size_t i = 0; i < items; i++) {
        job->request.items[i].rows = 1 + (size_t)rand_r(seed) % 60;
        job->request.items[i].status = LAM_E_CANCELLED;
        job->request.rows += job->request.items[i].rows;
    }
    job->request.model = &model;
    job->request.stats = rand_r(seed) % 4 == 0 ? (lam_stats *)job : NULL;
    atomic_init(&job->dead, false);
    atomic_init(&job->due_ns, rand_r(seed) % 50 == 0 ? 1 : UINT64_MAX);
    return job;
}

static bool run_batch(srv_batch *b)
{
    bool ran = false;
    for (size_t i = 0; i < b->slice_count; i++)
        ran = ran || !atomic_load_explicit(&b->slices[i].job->dead, memory_order_relaxed);
    lam_item *item = b->items;
    for (size_t i = 0; i < b->slice_count; i++) {
        for (size_t k = 0; k < b->slices[i].count; k++, item++) {
            lam_item *home = &b->slices[i].job->request.items[b->slices[i].first + k];
            if (ran && home->status == LAM_E_CANCELLED)
                atomic_fetch_add(&items_run, 1);
            else if (ran)
                abort(); /* run twice */
            item->status = ran ? LAM_OK : LAM_E_EMPTY;
            *home = *item;
        }
    }
    return ran;
}

static void *work(void *arg)
{
    (void)arg;
    srv_batch batch;
    if (!srv_batch_init(&batch, BATCH_ROWS)) abort();
    size_t decoded = 0;
    for (;;) {
        srv_job *job;
        srv_work w = srv_queue_take(&queue, &decoded, &job, &batch);
        if (w == SRV_WORK_STOP) break;
        if (w == SRV_WORK_DECODE) {
            job->tokenize_ns = 1;
            srv_queue_ready(&queue, job);
        } else if (w == SRV_WORK_DROPPED) {
            job->failed = true;
            srv_done_push(&done, job);
        } else {
            srv_done_announce(&done);
            bool ran = run_batch(&batch);
            size_t n = srv_queue_finish(&queue, &batch, ran);
            for (size_t i = 0; i < n; i++)
                srv_done_push(&done, batch.slices[i].job);
        }
    }
    srv_batch_fini(&batch);
    return NULL;
}

/* Whether a job that came home is what it should be: all items run, or given up for a reason. */
static bool is_right(srv_job *job)
{
    bool given_up = job->failed || atomic_load(&job->dead);
    for (size_t i = 0; i < job->request.item_count; i++)
        if (job->request.items[i].status != LAM_OK && !given_up) return false;
    return true;
}

static size_t take_home(size_t *wrong)
{
    size_t n = 0;
    for (srv_job *job = srv_done_take(&done, SPIN_NS), *next; job; job = next, n++) {
        next = job->next;
        *wrong += !is_right(job);
        free(job->request.items);
        free(job);
    }
    return n;
}

int main(void)
{
    pthread_t threads[WORKERS];
    unsigned seed = 7;
    size_t home = 0, wrong = 0, withdrawn = 0;
    if (!srv_queue_init(&queue, BATCH_ROWS) || !srv_done_init(&done)) return 1;
    for (size_t i = 0; i < WORKERS; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0) return 1;
    for (size_t sent = 0; sent < JOBS; sent++) {
        srv_job *job = make_job(&seed);
        srv_queue_submit(&queue, job);
        /* Only the newest job may be touched: an older one may be home and freed. It is safe
         * because jobs are taken home by this thread alone. */
        if (rand_r(&seed) % 8 == 0) {
            atomic_store_explicit(&job->dead, true, memory_order_relaxed);
            if (srv_queue_withdraw(&queue, job)) {
                free(job->request.items);
                free(job);
                withdrawn++;
            }
        }
        do
            home += take_home(&wrong);
        while (sent + 1 - home - withdrawn > IN_FLIGHT);
    }
    srv_queue_stop(&queue);
    for (size_t i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    home += take_home(&wrong);
    bool ok = home + withdrawn == JOBS && wrong == 0 && srv_queue_depth(&queue) == 0 &&
              queue.ready_rows == 0;
    if (!ok)
        printf("queue: %d sent, %zu came home, %zu withdrawn, %zu wrong, %zu rows left\n", JOBS,
               home, withdrawn, wrong, queue.ready_rows);
    printf("queue: %zu items run, %zu jobs withdrawn\n", atomic_load(&items_run), withdrawn);
    srv_queue_fini(&queue);
    srv_done_fini(&done);
    printf("%d passed, %d failed\n", ok, !ok);
    return !ok;
}
