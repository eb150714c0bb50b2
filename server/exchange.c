#include "server/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "server/head.h"
#include "server/log.h"
#include "server/reply.h"

enum {
    FIRST_BODY_BYTES = 4096,
    SWALLOW_BYTES =
        65536, /* a refused body up to this size is read, so that the connection can be kept */
    LINGER_MS = 1000,
};

static void enter(srv_conn *c, srv_phase phase, uint64_t ms)
{
    c->phase = phase;
    c->since_ns = srv_now_ns();
    c->due_ns = c->since_ns + ms * 1000000u;
}

static srv_exchange *exchange_new(srv_listener *l, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    srv_exchange *x = info && info->socket_context ? calloc(1, sizeof *x) : NULL;
    if (!x) return NULL;
    x->server = l->server;
    x->conn = info->socket_context;
    x->mhd = mhd;
    x->label = SRV_LABEL_OTHER;
    x->began_ns = srv_now_ns();
    x->conn->exchange = x;
    x->server->exchanges++;
    x->server->metrics.inflight++;
    return x;
}

/* ---- The head
 * -------------------------------------------------------------------------------------- */

/* Whether a reply may wait for the body's end, so that the connection can be kept. */
static bool may_swallow(const srv_exchange *x, const srv_head *h)
{
    return !x->close && !h->expects_continue && !h->chunked && h->length <= SWALLOW_BYTES;
}

static enum MHD_Result begin(srv_exchange *x, const char *url, const char *method,
                             const char *version)
{
    srv_head h;
    srv_head_read(x, url, method, version, &h);
    enter(x->conn, SRV_PHASE_BODY, x->server->config->body_timeout_ms);
    if (!x->refused || !srv_head_has_body(&h) || may_swallow(x, &h)) return MHD_YES;
    x->close = true;
    /* MHD reads no body after an early reply to these two; for others it would wait for it. */
    if (h.method == SRV_METHOD_POST || h.method == SRV_METHOD_PUT) return srv_reply_error(x);
    srv_reply_raw(x);
    return MHD_NO;
}

/* ---- The body
 * -------------------------------------------------------------------------------------- */

/* Refuses in the middle of a body: the reply goes out by hand and the rest is thrown away for a
 * moment, or the reset that follows unread bytes could overtake it. */
static void refuse_midway(srv_exchange *x, api_code code, const char *sentence)
{
    srv_exchange_refuse(x, code, sentence);
    x->close = true;
    free(x->body.data);
    x->body = (srv_body){0};
    srv_charge_release(&x->charge);
    srv_reply_raw(x);
    enter(x->conn, SRV_PHASE_LINGER, LINGER_MS);
}

static bool grow_body(srv_exchange *x, size_t wanted)
{
    size_t max = (size_t)x->server->config->max_body_bytes;
    size_t capacity = x->body.capacity ? x->body.capacity : FIRST_BODY_BYTES;
    while (capacity < wanted)
        capacity *= 2;
    if (capacity > max) capacity = max;
    if (!srv_charge_bytes(&x->charge, SRV_JOB_BYTES + capacity)) {
        refuse_midway(x, API_CODE_OVERLOADED, "the memory for requests is in use");
        return false;
    }
    char *data = realloc(x->body.data, capacity);
    if (!data) {
        refuse_midway(x, API_CODE_OUT_OF_MEMORY, "no memory for the body");
        return false;
    }
    x->body.data = data;
    x->body.capacity = capacity;
    return true;
}

static void take_body(srv_exchange *x, const char *data, size_t n)
{
    x->received += n;
    srv_conn *c = x->conn;
    c->due_ns =
        c->since_ns + (x->server->config->body_timeout_ms + x->received / 64) * (uint64_t)1000000;
    if (x->received > x->server->config->max_body_bytes) {
        refuse_midway(x, API_CODE_BODY_TOO_LARGE, "the body is larger than max_body_bytes");
        return;
    }
    if (x->refused || !x->route || x->route->handle) return; /* read and forgotten */
    if (x->received > x->body.capacity && !grow_body(x, x->received)) return;
    memcpy(x->body.data + x->body.size, data, n);
    x->body.size += n;
}

/* ---- The work
 * -------------------------------------------------------------------------------------- */

static enum MHD_Result submit(srv_exchange *x)
{
    srv_server *s = x->server;
    if (s->timed_out)
        srv_exchange_refuse(x, API_CODE_SHUTTING_DOWN, "the server is stopping");
    else if (x->body.size == 0)
        srv_exchange_refuse(x, API_CODE_EMPTY_BODY, "the request has no body");
    else if (!srv_charge_items(&x->charge, 1))
        srv_exchange_refuse(x, API_CODE_OVERLOADED, "too much work is waiting");
    if (x->refused) return srv_reply_error(x);

    srv_job *job = srv_job_new(x->route->inference, &x->body, &x->charge,
                               (size_t)s->config->max_request_bytes);
    if (!job) {
        srv_exchange_refuse(x, API_CODE_OUT_OF_MEMORY, "no memory for the request");
        return srv_reply_error(x);
    }
    job->arrived_ns = srv_now_ns();
    atomic_store_explicit(&job->due_ns, job->arrived_ns + s->config->default_deadline_ms * 1000000u,
                          memory_order_relaxed);
    job->exchange = x;
    x->job = job;
    x->conn->gone_ns = 0;
    enter(x->conn, SRV_PHASE_WAIT, 0);
    /* The worker may begin at once: nothing resumes the connection but this thread, later. */
    srv_queue_submit(&s->queue, job);
    MHD_suspend_connection(x->mhd);
    return MHD_YES;
}

void srv_exchange_deliver(srv_job *job)
{
    srv_exchange *x = job->exchange;
    if (!x) {
        srv_job_free(job);
        return;
    }
    x->job = NULL;
    x->done = job;
    if (job->started_ns)
        srv_histogram_add(&x->server->metrics.queue, srv_duration_bounds,
                          job->started_ns - job->arrived_ns);
    MHD_resume_connection(x->mhd);
}

void srv_exchange_cut(srv_exchange *x, api_code code, const char *sentence)
{
    srv_job *job = x->job;
    x->job = NULL;
    job->exchange = NULL;
    atomic_store_explicit(&job->dead, true, memory_order_relaxed);
    if (srv_queue_withdraw(&x->server->queue, job)) srv_job_free(job);
    if (code == API_CODE_COUNT)
        x->client_gone = true;
    else
        srv_exchange_refuse(x, code, sentence);
    MHD_resume_connection(x->mhd);
}

static enum MHD_Result reply_done(srv_exchange *x)
{
    srv_job *job = x->done;
    if (!job->failed) return srv_reply(x, 200, SRV_TYPE_JSON, job->reply.data, job->reply.size);
    x->error = job->error;
    x->server->metrics.errors[job->error.code]++;
    return srv_reply(x, api_code_http_status(job->error.code), SRV_TYPE_JSON, job->reply.data,
                     job->reply.size);
}

static enum MHD_Result options(srv_exchange *x)
{
    return srv_reply(x, 204, NULL, "", 0);
}

/* The request is whole, or its job came back. */
static enum MHD_Result answer(srv_exchange *x)
{
    if (x->client_gone) return MHD_NO;
    if (x->done) return reply_done(x);
    if (x->refused) return srv_reply_error(x);
    if (!x->route) return options(x);
    return x->route->handle ? x->route->handle(x) : submit(x);
}

enum MHD_Result srv_exchange_handle(void *cls, struct MHD_Connection *mhd, const char *url,
                                    const char *method, const char *version, const char *data,
                                    size_t *data_bytes, void **state)
{
    srv_exchange *x = *state;
    if (!x) {
        x = exchange_new(cls, mhd);
        *state = x;
        return x ? begin(x, url, method, version) : MHD_NO;
    }
    if (*data_bytes > 0) {
        if (x->conn->phase != SRV_PHASE_LINGER) take_body(x, data, *data_bytes);
        *data_bytes = 0;
        return MHD_YES;
    }
    return x->conn->phase == SRV_PHASE_LINGER ? MHD_NO : answer(x);
}

/* ---- The end
 * --------------------------------------------------------------------------------------- */

static void log_request(const srv_exchange *x, int status, uint64_t duration_ns)
{
    srv_log_level level =
        x->route && x->route->quiet && status < 500 ? SRV_LOG_DEBUG : SRV_LOG_INFO;
    if (!srv_log_wants(level)) return;
    srv_line l;
    srv_line_begin(&l, level, "request");
    srv_line_text(&l, "request_id", x->request_id);
    if (x->trace_id[0]) srv_line_text(&l, "trace_id", x->trace_id);
    srv_line_text(&l, "route", srv_label_text(x->label));
    srv_line_u64(&l, "status", (uint64_t)status);
    if (status >= 400 && status != 499) srv_line_text(&l, "code", api_code_name(x->error.code));
    srv_line_seconds(&l, "duration_s", duration_ns);
    const srv_job *job = x->done;
    if (job && job->started_ns) {
        srv_line_u64(&l, "items", job->request.item_count);
        srv_line_u64(&l, "tokens", job->request.rows);
        srv_line_seconds(&l, "queue_s", job->started_ns - job->arrived_ns);
        srv_line_seconds(&l, "compute_s", job->finished_ns - job->started_ns);
    }
    srv_line_u64(&l, "body_bytes", x->received);
    srv_line_u64(&l, "reply_bytes", x->reply_bytes);
    srv_line_end(&l);
}

void srv_exchange_completed(void *cls, struct MHD_Connection *mhd, void **state,
                            enum MHD_RequestTerminationCode code)
{
    (void)cls;
    (void)mhd;
    (void)code;
    srv_exchange *x = *state;
    if (!x) return;
    *state = NULL;
    srv_server *s = x->server;
    uint64_t duration_ns = srv_now_ns() - x->began_ns;
    bool left = x->status == 0 || x->client_gone;
    int status = left ? 499 : x->status;
    if (left) s->metrics.clients_gone++;
    srv_metrics_request(&s->metrics, x->label, status, duration_ns);
    log_request(x, status, duration_ns);
    if (x->job) { /* closed while suspended: its job comes back to nobody */
        x->job->exchange = NULL;
        atomic_store_explicit(&x->job->dead, true, memory_order_relaxed);
    }
    enter(x->conn, SRV_PHASE_IDLE, s->config->idle_timeout_ms);
    if (x->conn->exchange == x) x->conn->exchange = NULL;
    free(x->body.data);
    srv_charge_release(&x->charge);
    srv_job_free(x->done);
    api_buffer_free(&x->page);
    s->exchanges--;
    s->metrics.inflight--;
    free(x);
}
