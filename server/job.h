/* An inference request on its way: a baton. Who holds it may touch what is his without a lock.
 *
 *   loop    collects the body, makes the job, submits it        (srv_queue_submit)
 *   queue   holds it until a worker comes                        (under the queue's mutex)
 *   worker  decodes it, gives it back ready                      (srv_queue_ready)
 *   worker  runs slices of its items; several workers may hold different slices of one job
 *   worker  whoever finishes the last slice writes the reply     (srv_done_push)
 *   loop    sends the reply and frees the job                    (srv_job_free)
 *
 * A client that left or a passed deadline cuts the tie on the loop (exchange = NULL) and sets
 * `dead`; the job comes back over the done list all the same and is freed there. So a late result
 * has no way to another connection. */
#ifndef SERVER_JOB_H
#define SERVER_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h"
#include "server/admission.h"

struct srv_exchange;

typedef struct srv_body {
    char *data; /* malloc'd; NULL while empty */
    size_t size, capacity;
} srv_body;

typedef struct srv_job {
    /* Set before submission, const after. */
    api_route route;
    uint64_t arrived_ns; /* when the body was complete */

    /* The loop's alone. */
    struct srv_exchange *exchange; /* who waits for the reply; NULL: nobody */

    /* Shared. */
    atomic_bool dead;        /* set by the loop: nobody waits any more */
    _Atomic uint64_t due_ns; /* deadline; moved once by the worker that decodes */

    /* The queue's, under its mutex. */
    struct srv_job *next, *prev; /* the list it is in */
    size_t next_item;            /* items before it were given out */
    size_t items_running;
    size_t items_left; /* not yet finished */
    bool in_list;
    const void *holder;               /* batch that took the last slice */
    uint64_t started_ns, finished_ns; /* first slice's start, last slice's end; 0: never ran */

    /* Whoever holds the job (a slice's holder: its items only). */
    srv_charge charge;
    srv_body body;
    lam_arena arena;
    api_request request;
    bool decoded;
    bool failed;
    api_error error; /* if failed */
    api_buffer reply;
    char truncated[128]; /* value of x-lamina-truncated, or "" */
    uint64_t tokenize_ns;
} srv_job;

/* NULL if there is no memory. Takes over the body and the charge. */
srv_job *srv_job_new(api_route route, srv_body *body, srv_charge *charge, size_t max_arena_bytes);

/* Frees the job and gives its charge back. Thread: the loop, or none else is running. NULL is fine.
 */
void srv_job_free(srv_job *job);

/* Ends the job with an error (worker or queue holds it). */
void srv_job_fail(srv_job *job, api_code code, const char *sentence);

/* Monotonic clock. */
uint64_t srv_now_ns(void);

#endif
