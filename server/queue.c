#include "server/queue.h"

#include <stdlib.h>
#include <string.h>

enum {
    DECODE_RUN_BYTES = 65536, /* body bytes decoded in a row while others are ready */
    MIN_SPLIT_ROWS = 64,      /* below it a split for idle workers costs more than it gains */
    QUANTA_PER_BATCH = 4,
    MAX_TURNS = 512, /* jobs looked at in one round */
    PAUSES = 8,      /* between two looks of a poll */
};

static void list_append(srv_list *l, srv_job *job)
{
    job->next = NULL;
    job->prev = l->tail;
    if (l->tail)
        l->tail->next = job;
    else
        l->head = job;
    l->tail = job;
    l->count++;
    job->in_list = true;
}

static void list_remove(srv_list *l, srv_job *job)
{
    if (job->prev)
        job->prev->next = job->next;
    else
        l->head = job->next;
    if (job->next)
        job->next->prev = job->prev;
    else
        l->tail = job->prev;
    job->next = job->prev = NULL;
    l->count--;
    job->in_list = false;
}

bool srv_queue_init(srv_queue *q, size_t batch_rows)
{
    *q = (srv_queue){.batch_rows = batch_rows};
    if (pthread_mutex_init(&q->mutex, NULL) != 0) return false;
    if (pthread_cond_init(&q->work, NULL) == 0) return true;
    pthread_mutex_destroy(&q->mutex);
    return false;
}

void srv_queue_fini(srv_queue *q)
{
    pthread_cond_destroy(&q->work);
    pthread_mutex_destroy(&q->mutex);
}

bool srv_batch_init(srv_batch *b, size_t batch_rows)
{
    *b = (srv_batch){.capacity = batch_rows};
    b->slices = calloc(batch_rows, sizeof *b->slices);
    b->items = calloc(batch_rows, sizeof *b->items);
    if (b->slices && b->items) return true;
    srv_batch_fini(b);
    return false;
}

void srv_batch_fini(srv_batch *b)
{
    free(b->slices);
    free(b->items);
    *b = (srv_batch){0};
}

void srv_queue_submit(srv_queue *q, srv_job *job)
{
    pthread_mutex_lock(&q->mutex);
    list_append(&q->arrived, job);
    pthread_mutex_unlock(&q->mutex);
    pthread_cond_signal(&q->work);
}

static size_t rows_left(const srv_job *job)
{
    size_t rows = 0;
    for (size_t i = job->next_item; i < job->request.item_count; i++)
        rows += job->request.items[i].rows;
    return rows;
}

bool srv_queue_withdraw(srv_queue *q, srv_job *job)
{
    pthread_mutex_lock(&q->mutex);
    bool mine = job->in_list && job->items_running == 0;
    if (mine && job->decoded) {
        q->ready_rows -= rows_left(job);
        list_remove(&q->ready, job);
    } else if (mine) {
        list_remove(&q->arrived, job);
    }
    pthread_mutex_unlock(&q->mutex);
    return mine;
}

void srv_queue_ready(srv_queue *q, srv_job *job)
{
    pthread_mutex_lock(&q->mutex);
    job->decoded = true;
    job->items_left = job->request.item_count;
    q->ready_rows += job->request.rows;
    list_append(&q->ready, job);
    bool much = q->ready_rows >= MIN_SPLIT_ROWS && q->idle_workers > 0;
    pthread_mutex_unlock(&q->mutex);
    if (much) pthread_cond_broadcast(&q->work);
}

/* Takes the next items of a job: at least one if it fits, then up to a quantum; all of a job that
 * is a batch of its own, which fits (api's plan). */
static bool take_slice(srv_queue *q, srv_job *job, size_t quantum, size_t room, srv_batch *b)
{
    if (job->request.batch_dependent) quantum = room = q->batch_rows;
    if (job->started_ns == 0) job->started_ns = q->now_ns;
    srv_slice *slice = &b->slices[b->slice_count];
    *slice = (srv_slice){.job = job, .first = job->next_item};
    size_t rows = 0;
    while (job->next_item < job->request.item_count) {
        const lam_item *item = &job->request.items[job->next_item];
        if (rows + item->rows > room || (slice->count > 0 && rows + item->rows > quantum)) break;
        b->items[b->item_count++] = *item;
        rows += item->rows;
        slice->count++;
        job->next_item++;
    }
    if (slice->count == 0) return false;
    b->slice_count++;
    b->rows += rows;
    q->ready_rows -= rows;
    job->items_running += slice->count;
    job->holder = b;
    return true;
}

/* In a job with statistics the items run in order: one worker at a time. A job whose norms measure
 * the whole request is a batch of its own. */
static bool may_run(const srv_job *job, const srv_batch *b)
{
    const bool started = b->slice_count > 0;
    if (started && (job->request.batch_dependent || b->slices[0].job->request.batch_dependent))
        return false;
    return !job->request.stats || job->items_running == 0 || job->holder == b;
}

static bool is_over(const srv_job *job, uint64_t now_ns)
{
    return atomic_load_explicit(&job->dead, memory_order_relaxed) ||
           atomic_load_explicit(&job->due_ns, memory_order_relaxed) <= now_ns;
}

/* Gives out no more of a job whose time is over; true if no other worker holds a slice of it. */
static bool abandon(srv_queue *q, srv_job *job)
{
    size_t rest = job->request.item_count - job->next_item;
    q->ready_rows -= rows_left(job);
    job->next_item += rest;
    job->items_left -= rest;
    list_remove(&q->ready, job);
    srv_job_fail(job, API_CODE_DEADLINE, "the deadline passed before all items were run");
    return job->items_running == 0;
}

/* One turn for each ready job of the batch's model. True if the batch grew. */
static bool fill_round(srv_queue *q, srv_batch *b, const api_model **model, size_t aim,
                       size_t quantum)
{
    size_t before = b->rows;
    srv_job *job = q->ready.head;
    size_t turns = q->ready.count < MAX_TURNS ? q->ready.count : MAX_TURNS;
    for (; turns > 0 && b->rows < aim; turns--) {
        srv_job *next = job->next;
        if (may_run(job, b) && (!*model || job->request.model == *model)) {
            *model = job->request.model;
            /* A job whose item does not fit keeps its place, and so comes to the head. */
            if (take_slice(q, job, quantum, b->rows == 0 ? q->batch_rows : aim - b->rows, b)) {
                list_remove(&q->ready, job);
                if (job->next_item < job->request.item_count) list_append(&q->ready, job);
            }
        }
        job = next;
    }
    return b->rows > before;
}

static bool fill_batch(srv_queue *q, srv_batch *b)
{
    b->slice_count = b->item_count = b->rows = 0;
    /* What is ready is shared with the workers that wait. The first item fits whatever the share
     * is. */
    size_t aim = q->ready_rows / (q->idle_workers + 1);
    if (aim < MIN_SPLIT_ROWS) aim = MIN_SPLIT_ROWS;
    if (aim > q->batch_rows) aim = q->batch_rows;
    size_t quantum = q->ready.count > 1 ? aim / QUANTA_PER_BATCH : aim;
    const api_model *model = NULL;
    while (b->rows < aim && fill_round(q, b, &model, aim, quantum)) {
    }
    return b->rows > 0;
}

/* The first ready job whose time is over and which nobody holds; NULL if there is none. */
static srv_job *drop_ready(srv_queue *q, uint64_t now_ns)
{
    for (srv_job *job = q->ready.head, *next; job; job = next) {
        next = job->next;
        if (is_over(job, now_ns) && abandon(q, job)) return job;
    }
    return NULL;
}

static bool should_decode(const srv_queue *q, size_t decoded_bytes)
{
    const srv_job *job = q->arrived.head;
    if (!job) return false;
    if (q->ready.count == 0 || decoded_bytes == 0) return true;
    return q->ready_rows < q->batch_rows && decoded_bytes + job->body.size <= DECODE_RUN_BYTES;
}

/* Work for the taker right now; false: nothing to do. */
static bool take_now(srv_queue *q, size_t *decoded_bytes, srv_job **job, srv_batch *batch,
                     srv_work *work)
{
    uint64_t now_ns = q->now_ns = srv_now_ns();
    if (should_decode(q, *decoded_bytes)) {
        *job = q->arrived.head;
        list_remove(&q->arrived, *job);
        *decoded_bytes += (*job)->body.size;
        *work = is_over(*job, now_ns) ? SRV_WORK_DROPPED : SRV_WORK_DECODE;
        return true;
    }
    *job = drop_ready(q, now_ns);
    *work = *job ? SRV_WORK_DROPPED : SRV_WORK_BATCH;
    if (*job) return true;
    if (fill_batch(q, batch)) {
        *decoded_bytes = 0;
        return true;
    }
    /* Only jobs with statistics that others are running: decoding is all that is left. */
    if (*decoded_bytes > 0 && q->arrived.head) {
        *decoded_bytes = 0;
        return take_now(q, decoded_bytes, job, batch, work);
    }
    return false;
}

srv_work srv_queue_take(srv_queue *q, size_t *decoded_bytes, srv_job **job, srv_batch *batch)
{
    srv_work work = SRV_WORK_STOP;
    pthread_mutex_lock(&q->mutex);
    while (!take_now(q, decoded_bytes, job, batch, &work)) {
        if (q->stopping && q->arrived.count == 0 && q->ready.count == 0) {
            work = SRV_WORK_STOP;
            break;
        }
        *decoded_bytes = 0;
        q->idle_workers++;
        pthread_cond_wait(&q->work, &q->mutex);
        q->idle_workers--;
    }
    bool more = q->idle_workers > 0 && (q->arrived.count > 0 || q->ready.count > 0);
    pthread_mutex_unlock(&q->mutex);
    if (more) pthread_cond_signal(&q->work);
    return work;
}

size_t srv_queue_finish(srv_queue *q, srv_batch *b, bool ran)
{
    size_t finished = 0;
    uint64_t now_ns = srv_now_ns();
    pthread_mutex_lock(&q->mutex);
    for (size_t i = 0; i < b->slice_count; i++) {
        srv_slice slice = b->slices[i];
        srv_job *job = slice.job;
        job->items_running -= slice.count;
        job->items_left -= slice.count;
        job->finished_ns = now_ns;
        if (!ran && job->in_list) abandon(q, job);
        if (job->items_left == 0) b->slices[finished++] = slice;
    }
    bool more = q->idle_workers > 0 && q->ready.count > 0;
    pthread_mutex_unlock(&q->mutex);
    if (more) pthread_cond_signal(&q->work);
    return finished;
}

size_t srv_queue_depth(srv_queue *q)
{
    pthread_mutex_lock(&q->mutex);
    size_t n = q->arrived.count + q->ready.count;
    pthread_mutex_unlock(&q->mutex);
    return n;
}

size_t srv_queue_idle(srv_queue *q)
{
    pthread_mutex_lock(&q->mutex);
    size_t n = q->idle_workers;
    pthread_mutex_unlock(&q->mutex);
    return n;
}

void srv_queue_stop(srv_queue *q)
{
    pthread_mutex_lock(&q->mutex);
    q->stopping = true;
    pthread_mutex_unlock(&q->mutex);
    pthread_cond_broadcast(&q->work);
}

bool srv_done_init(srv_done *d)
{
    *d = (srv_done){0};
    return pthread_mutex_init(&d->mutex, NULL) == 0;
}

void srv_done_fini(srv_done *d)
{
    pthread_mutex_destroy(&d->mutex);
}

/* Not list_append: `in_list` speaks of the queue's lists and belongs to the queue's mutex. */
bool srv_done_push(srv_done *d, srv_job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&d->mutex);
    bool was_empty = d->list.head == NULL;
    if (d->list.tail)
        d->list.tail->next = job;
    else
        d->list.head = job;
    d->list.tail = job;
    pthread_mutex_unlock(&d->mutex);
    return was_empty;
}

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void srv_done_announce(srv_done *d)
{
    pthread_mutex_lock(&d->mutex);
    d->is_announced = true;
    pthread_mutex_unlock(&d->mutex);
}

static srv_job *take_all(srv_done *d, bool *was_announced)
{
    pthread_mutex_lock(&d->mutex);
    srv_job *head = d->list.head;
    d->list = (srv_list){0};
    *was_announced = d->is_announced;
    d->is_announced = false;
    pthread_mutex_unlock(&d->mutex);
    return head;
}

srv_job *srv_done_take(srv_done *d, uint64_t spin_ns)
{
    bool was_announced;
    srv_job *job = take_all(d, &was_announced);
    if (job || !was_announced || spin_ns == 0) return job;
    const uint64_t end_ns = srv_now_ns() + spin_ns;
    while (!job && srv_now_ns() < end_ns) {
        for (int i = 0; i < PAUSES; i++)
            pause_cpu();
        job = take_all(d, &was_announced);
    }
    return job;
}
