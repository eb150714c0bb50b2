/* Jobs between the loop and the workers: those that arrived, and those that are decoded and ready
 * to run.
 *
 * A batch is made of whole items of ready jobs of one model, up to a budget of rows. Ready jobs
 * take turns (round-robin, a quantum of rows each), so a long request holds up nobody; nothing ever
 * waits for company. A job with statistics gives out one slice at a time, in order; another's
 * slices may run on several workers at once. */
#ifndef SERVER_QUEUE_H
#define SERVER_QUEUE_H

#include <pthread.h>

#include "server/job.h"

typedef struct srv_list {
    srv_job *head, *tail;
    size_t count;
} srv_list;

typedef struct srv_queue {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    srv_list arrived; /* first in, first out */
    srv_list ready;   /* head: whose turn it is */
    size_t ready_rows;
    size_t idle_workers;
    size_t batch_rows; /* budget of one batch */
    uint64_t now_ns;   /* of the last take */
    bool stopping;
} srv_queue;

/* Items [first, first + count) of a job. */
typedef struct srv_slice {
    srv_job *job;
    size_t first, count;
} srv_slice;

/* A batch of one worker: its slices, and its own copies of their items side by side, as lam_encode
 * wants. */
typedef struct srv_batch {
    srv_slice *slices; /* [capacity] */
    lam_item *items;   /* [capacity] */
    size_t capacity;   /* batch_rows: an item has at least one row */
    size_t slice_count, item_count, rows;
} srv_batch;

typedef enum srv_work {
    SRV_WORK_STOP,   /* the queue is stopped and empty */
    SRV_WORK_DECODE, /* *job was given out */
    SRV_WORK_BATCH,  /* *batch was filled */
    SRV_WORK_DROPPED /* *job is over its deadline or dead: finish it */
} srv_work;

bool srv_queue_init(srv_queue *q, size_t batch_rows);
void srv_queue_fini(srv_queue *q);

bool srv_batch_init(srv_batch *b, size_t batch_rows);
void srv_batch_fini(srv_batch *b);

/* Loop: hands a job over. */
void srv_queue_submit(srv_queue *q, srv_job *job);

/* Loop: takes a job back that no worker holds; false: one does, and it will come over the done
 * list. */
bool srv_queue_withdraw(srv_queue *q, srv_job *job);

/* Worker: waits for work. `decoded_bytes` is the worker's own count of body bytes decoded since its
 * last batch; it keeps a run of large bodies from holding up ready jobs. */
srv_work srv_queue_take(srv_queue *q, size_t *decoded_bytes, srv_job **job, srv_batch *batch);

/* Worker: a decoded job joins the ready ones. */
void srv_queue_ready(srv_queue *q, srv_job *job);

/* Worker: the batch's items are done and copied back. Slices whose job is finished by that are left
 * in batch->slices[0..return value); the caller now holds those jobs. `ran` is false for a batch
 * that was abandoned because all its jobs are dead: they are finished as they are. */
size_t srv_queue_finish(srv_queue *q, srv_batch *batch, bool ran);

/* Jobs that wait for a worker. */
size_t srv_queue_depth(srv_queue *q);

/* Workers that wait for work. */
size_t srv_queue_idle(srv_queue *q);

/* Workers leave once nothing is left. */
void srv_queue_stop(srv_queue *q);

/* Finished jobs on their way to the loop. */
typedef struct srv_done {
    pthread_mutex_t mutex;
    srv_list list;
    bool is_announced; /* a job is about to be finished */
} srv_done;

bool srv_done_init(srv_done *d);
void srv_done_fini(srv_done *d);

/* Worker; true if the list was empty: the loop must be woken. */
bool srv_done_push(srv_done *d, srv_job *job);

/* Worker: a job will be pushed in less time than a sleeping CPU takes to wake. */
void srv_done_announce(srv_done *d);

/* Loop: the whole list, linked by `next`. If it is empty and a job was announced since the last
 * call, polls for it, for up to `spin_ns`. */
srv_job *srv_done_take(srv_done *d, uint64_t spin_ns);

#endif
