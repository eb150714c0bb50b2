#include "server/handle.h"

#include <string.h>

#include "server/reply.h"

enum { MODEL_PAGE_BYTES = 65536, METRICS_PAGE_BYTES = 1 << 20, OTHER_FDS = 32 };

static enum MHD_Result say(srv_exchange *x, int status, const char *json)
{
    return srv_reply(x, status, SRV_TYPE_JSON, json, strlen(json));
}

enum MHD_Result srv_handle_livez(srv_exchange *x)
{
    return say(x, 200, "{\"status\":\"ok\"}");
}

enum MHD_Result srv_handle_readyz(srv_exchange *x)
{
    if (x->server->ready) return say(x, 200, "{\"status\":\"ok\"}");
    return say(x, 503, "{\"status\":\"stopping\"}");
}

enum MHD_Result srv_handle_models(srv_exchange *x)
{
    const api_buffer *p = &x->server->pages.models;
    return srv_reply(x, 200, SRV_TYPE_JSON, p->data, p->size);
}

enum MHD_Result srv_handle_model(srv_exchange *x)
{
    const api_model *m = api_model_find(&x->server->api, x->model_name, strlen(x->model_name));
    if (!m) {
        srv_exchange_refuse(x, API_CODE_MODEL_NOT_FOUND, "no model has this name");
        return srv_reply_error(x);
    }
    api_buffer_init(&x->page, MODEL_PAGE_BYTES);
    api_model_write(m, &x->page);
    return srv_reply_page(x, SRV_TYPE_JSON);
}

enum MHD_Result srv_handle_info(srv_exchange *x)
{
    const api_buffer *p = &x->server->pages.info;
    return srv_reply(x, 200, SRV_TYPE_JSON, p->data, p->size);
}

enum MHD_Result srv_handle_openapi(srv_exchange *x)
{
    size_t bytes;
    const char *text = api_openapi(&bytes);
    return srv_reply(x, 200, SRV_TYPE_JSON, text, bytes);
}

/* The sums of all workers together, and of them the distances: never a mean of distances. */
static void write_drift(srv_server *s, api_buffer *out)
{
    for (size_t m = 0; m < s->drift_count; m++) {
        srv_drift_view *v = &s->drift[m];
        lam_norm_inputs_clear(v->total);
        for (size_t i = 0; i < s->worker_count; i++)
            srv_drift_merge(&s->workers[i].drift[v->index], v->total);
    }
    srv_drift_write(s->drift, s->drift_count, out);
}

enum MHD_Result srv_handle_metrics(srv_exchange *x)
{
    srv_server *s = x->server;
    srv_gauges g = {
        .queue_requests = srv_queue_depth(&s->queue),
        .queue_items = atomic_load_explicit(&s->admission.slots, memory_order_relaxed),
        .memory_bytes = atomic_load_explicit(&s->admission.bytes, memory_order_relaxed),
        .memory_bound_bytes = s->plan.bound,
        .ready = s->ready,
        .version = SRV_VERSION,
        .start_seconds = s->start_seconds,
        .other_fds = OTHER_FDS,
    };
    api_buffer_init(&x->page, METRICS_PAGE_BYTES);
    srv_metrics_write(&s->metrics, &g, &x->page);
    write_drift(s, &x->page);
    return srv_reply_page(x, "text/plain; version=0.0.4; charset=utf-8");
}
