#include "server/job.h"

#include <stdlib.h>
#include <time.h>

uint64_t srv_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

srv_job *srv_job_new(api_route route, srv_body *body, srv_charge *charge, size_t max_arena_bytes)
{
    srv_job *job = calloc(1, sizeof *job);
    if (!job) return NULL;
    job->route = route;
    job->body = *body;
    *body = (srv_body){0};
    srv_charge_move(&job->charge, charge);
    lam_arena_init(&job->arena, max_arena_bytes);
    atomic_init(&job->dead, false);
    atomic_init(&job->due_ns, UINT64_MAX);
    return job;
}

void srv_job_free(srv_job *job)
{
    if (!job) return;
    free(job->body.data);
    api_buffer_free(&job->reply);
    lam_arena_fini(&job->arena);
    srv_charge_release(&job->charge);
    free(job);
}

void srv_job_fail(srv_job *job, api_code code, const char *sentence)
{
    job->failed = true;
    api_fail(&job->error, code, NULL, "%s", sentence);
}
