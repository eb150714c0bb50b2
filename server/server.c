#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>

#include "core/tokenizer/tokenizer.h"
#include "server/conn.h"
#include "server/cpus.h"
#include "server/exchange.h"
#include "server/latency.h"
#include "server/listener.h"
#include "server/log.h"
#include "server/notify.h"
#include "server/stop.h"

enum {
    EXIT_CONFIG = 2,
    EXIT_SYSTEM = 71,
    SPARE_FDS = 128,  /* beside connections */
    FEWEST_FDS = 256, /* below it nothing is served */
    PAGE_BYTES = 16 << 20,
};

/* ---- What the configuration means
 * ------------------------------------------------------------------ */

static srv_log_format log_format(const srv_config *c)
{
    if (strcmp(c->log_format, "json") == 0) return SRV_LOG_JSON;
    return strcmp(c->log_format, "text") == 0 ? SRV_LOG_TEXT : SRV_LOG_AUTO;
}

static srv_log_level log_level(const srv_config *c)
{
#define X(name, text) \
    if (strcmp(c->log_level, text) == 0) return SRV_LOG_##name;
    SRV_LOG_LEVEL_MAP(X)
#undef X
    return SRV_LOG_INFO;
}

/* The names of this machine's own address, and those that were set. */
static lam_status make_hosts(srv_server *s, char **text, lam_err *err)
{
    static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
    const char *list = s->config->allowed_hosts ? s->config->allowed_hosts : "";
    size_t max = sizeof own / sizeof *own + 2;
    for (const char *p = list; *p; p++)
        max += *p == ',';
    *text = strdup(list);
    s->hosts = calloc(max, sizeof *s->hosts);
    if (!*text || !s->hosts) return lam_fail(err, LAM_E_NOMEM, "allowed_hosts", "no memory");
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        s->hosts[s->host_count++] = own[i];
    char *name = *text;
    while (*name) {
        s->hosts[s->host_count++] = name;
        name += strcspn(name, ",");
        if (*name) *name++ = '\0';
    }
    return LAM_OK;
}

/* As many descriptors as connections may need; refused where the system gives too few for any
 * service. */
static lam_status raise_files(srv_server *s, lam_err *err)
{
    struct rlimit r;
    rlim_t want = (rlim_t)s->config->max_connections + SPARE_FDS;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur >= want) return LAM_OK;
    r.rlim_cur = r.rlim_max < want ? r.rlim_max : want;
    (void)setrlimit(RLIMIT_NOFILE, &r);
    (void)getrlimit(RLIMIT_NOFILE, &r);
    if (r.rlim_cur >= want) return LAM_OK;
    if (r.rlim_cur < FEWEST_FDS)
        return lam_fail(err, LAM_E_CONFIG, "nofile",
                        "the limit of %llu open files is too low: %llu are needed",
                        (unsigned long long)r.rlim_cur, (unsigned long long)want);
    srv_log(SRV_LOG_WARN, "the limit of open files is below max_connections", NULL, NULL);
    return LAM_OK;
}

/* ---- Memory and pages
 * ------------------------------------------------------------------------------ */

static lam_status plan_memory(srv_server *s, size_t batch_rows, lam_err *err)
{
    const srv_config *c = s->config;
    srv_memory_inputs in = {
        .available_bytes = srv_memory_available(),
        .workers = s->worker_count,
        .max_connections = (size_t)c->max_connections,
        .max_request_bytes = c->max_request_bytes,
        .max_reply_bytes = c->max_reply_bytes,
        .max_body_bytes = c->max_body_bytes,
        .max_queue_items = c->max_queue_items,
        .max_memory_bytes = c->max_memory_bytes,
    };
    for (size_t i = 0; i < s->models.count; i++) {
        const lam_model *m = s->models.models[i].model;
        size_t context = 0;
        LAM_TRY(lam_ctx_bytes(m, batch_rows, &context, err));
        in.context_bytes += context * s->worker_count;
        /* Three sets of sums a worker (drift.h), and one for a scrape. */
        if (c->drift_sample > 0 && srv_drift_has(m))
            in.context_bytes += lam_norm_inputs_bytes(m) * (3 * s->worker_count + 1);
        in.model_bytes += lam_model_get_info(m)->weight_bytes;
        if (lam_model_tokenizer(m)) in.model_bytes += lam_tokenizer_bytes(lam_model_tokenizer(m));
    }
    s->plan = srv_memory_plan_make(&in);
    srv_admission_init(&s->admission, (size_t)c->max_queue_items, s->plan.requests);
    srv_line l;
    srv_line_begin(&l, SRV_LOG_INFO, "memory");
    srv_line_u64(&l, "bound_bytes", s->plan.bound);
    srv_line_u64(&l, "models_bytes", s->plan.models);
    srv_line_u64(&l, "contexts_bytes", s->plan.contexts);
    srv_line_u64(&l, "requests_bytes", s->plan.requests);
    srv_line_u64(&l, "decoding_bytes", s->plan.decoding);
    srv_line_u64(&l, "connections_bytes", s->plan.connections);
    srv_line_u64(&l, "base_bytes", s->plan.base);
    srv_line_end(&l);
    return LAM_OK;
}

static const char *libraries(void)
{
    static char text[128];
    snprintf(text, sizeof text, "libmicrohttpd %s, libuv %s", MHD_get_version(),
             uv_version_string());
    return text;
}

/* Every NUMBER of the settings' table is a limit. */
static lam_status make_pages(srv_server *s, size_t batch_rows, lam_err *err)
{
    api_named_limit limits[SRV_SETTING_COUNT];
    size_t n = 0;
    for (size_t i = 0; i < SRV_SETTING_COUNT; i++) {
        const srv_option *o = &srv_config_options[i];
        if (o->type != SRV_OPTION_NUMBER) continue;
        uint64_t v;
        memcpy(&v, (const char *)s->config + o->offset, sizeof v);
        if (strcmp(o->name, "max_batch_tokens") == 0) v = batch_rows;
        if (strcmp(o->name, "max_memory_bytes") == 0) v = s->plan.requests;
        if (strcmp(o->name, "workers") == 0) v = s->worker_count;
        if (strcmp(o->name, "port") == 0 || strcmp(o->name, "admin_port") == 0) continue;
        limits[n++] = (api_named_limit){o->name, v};
    }
    api_server_info info = {.version = SRV_VERSION,
                            .limits = limits,
                            .limit_count = n,
                            .workers = s->worker_count,
                            .libraries = libraries()};
    api_buffer_init(&s->pages.info, PAGE_BYTES);
    api_buffer_init(&s->pages.models, PAGE_BYTES);
    if (api_info_write(&s->api, &info, &s->pages.info) &&
        api_models_write(&s->api, &s->pages.models))
        return LAM_OK;
    return lam_fail(err, LAM_E_NOMEM, "pages", "no memory for /info and /v1/models");
}

/* ---- Threads
 * --------------------------------------------------------------------------------------- */

static void wake_loop(void *arg)
{
    (void)uv_async_send(arg);
}

/* Sends coalesce: each wake empties the list. */
static void on_wake(uv_async_t *a)
{
    srv_server *s = a->data;
    srv_job *job = srv_done_take(&s->done, s->config->spin_us * 1000);
    if (!job) return;
    while (job) {
        srv_job *next = job->next;
        srv_exchange_deliver(job);
        job = next;
    }
    srv_listeners_run(s);
    srv_stop_check(s);
}

static void on_sweep(uv_timer_t *t)
{
    srv_server *s = t->data;
    srv_watch(s);
    if (s->closing) srv_conns_close_idle(s);
    srv_stop_check(s);
}

static lam_status make_drift(srv_server *s, lam_err *err)
{
    s->drift = calloc(s->models.count, sizeof *s->drift);
    if (!s->drift) return lam_fail(err, LAM_E_NOMEM, "drift", "no memory for its sums");
    for (size_t i = 0; i < s->models.count && s->config->drift_sample > 0; i++) {
        const api_model *m = &s->models.models[i];
        if (!srv_drift_has(m->model)) continue;
        srv_drift_view *v = &s->drift[s->drift_count];
        LAM_TRY(lam_norm_inputs_new(&v->total, m->model, err));
        v->name = m->name;
        v->model = m->model;
        v->index = i;
        s->drift_count++;
    }
    return LAM_OK;
}

static lam_status make_workers(srv_server *s, size_t batch_rows, lam_err *err)
{
    s->work = (srv_work_env){.api = &s->api,
                             .queue = &s->queue,
                             .done = &s->done,
                             .cpus = srv_cpus_available(),
                             .workers = s->worker_count,
                             .drift_sample = s->config->drift_sample,
                             .drift_window_ns = s->config->drift_window_s * 1000000000u,
                             .wake = wake_loop,
                             .wake_arg = &s->wake};
    LAM_TRY(make_drift(s, err));
    s->workers = calloc(s->worker_count, sizeof *s->workers);
    if (!s->workers || !srv_metrics_init(&s->metrics, s->worker_count))
        return lam_fail(err, LAM_E_NOMEM, "workers", "no memory for the workers");
    for (size_t i = 0; i < s->worker_count; i++)
        LAM_TRY(srv_worker_init(&s->workers[i], &s->work, &s->metrics.workers[i], batch_rows, err));
    return LAM_OK;
}

static lam_status start_loop(srv_server *s, lam_err *err)
{
    LAM_TRY(srv_signals_start(s, err));
    if (uv_async_init(&s->loop, &s->wake, on_wake) != 0 ||
        uv_timer_init(&s->loop, &s->sweeper) != 0)
        return lam_fail(err, LAM_E_SYSTEM, "loop", "the system gives no more descriptors");
    s->wake.data = s->sweeper.data = s;
    uv_timer_start(&s->sweeper, on_sweep, SRV_WATCH_MS, SRV_WATCH_MS);
    LAM_TRY(srv_listeners_start(s, err));
    if (!srv_log_start()) return lam_fail(err, LAM_E_SYSTEM, "log", "the system refuses a thread");
    for (size_t i = 0; i < s->worker_count; i++)
        if (!srv_worker_start(&s->workers[i]))
            return lam_fail(err, LAM_E_SYSTEM, "workers", "the system refuses a thread");
    return LAM_OK;
}

/* ---- Start and end
 * --------------------------------------------------------------------------------- */

static void announce(srv_server *s)
{
    for (size_t i = 0; i < s->listener_count; i++) {
        srv_listener *l = &s->listeners[i];
        bool is_unix = s->config->unix_socket && i + 1 == s->listener_count;
        srv_line line;
        srv_line_begin(&line, SRV_LOG_INFO, "listening");
        if (is_unix) {
            srv_line_text(&line, "unix_socket", s->config->unix_socket);
        } else {
            char url[320];
            bool is_v6 = strchr(s->config->host, ':') != NULL;
            unsigned port = srv_listener_port(l);
            snprintf(url, sizeof url, is_v6 ? "http://[%s]:%u" : "http://%s:%u", s->config->host,
                     port);
            srv_line_text(&line, "address", url);
            srv_line_text(&line, "host", s->config->host);
            srv_line_u64(&line, "port", port);
        }
        if (l->is_admin) srv_line_text(&line, "for", "health and metrics");
        srv_line_end(&line);
    }
    if (MHD_VERSION < 0x01000500 || strcmp(MHD_get_version(), "1.0.5") < 0)
        srv_log(SRV_LOG_WARN,
                "this libmicrohttpd is older than 1.0.5: keep it behind a proxy that normalises "
                "framing",
                "version", MHD_get_version());
}

static lam_status start(srv_server *s, const srv_model_spec *specs, size_t count, char **host_text,
                        lam_err *err)
{
    const srv_config *c = s->config;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    s->start_seconds = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    if (getrandom(&s->id_state, sizeof s->id_state, 0) < 0) s->id_state = srv_now_ns();
    s->worker_count = c->workers ? (size_t)c->workers : srv_cpus_available();
    LAM_TRY(raise_files(s, err));
    LAM_TRY(make_hosts(s, host_text, err));
    if (c->api_key_file) LAM_TRY(srv_keys_load(&s->keys, c->api_key_file, err));
    /* The cheap refusals first: a port in use is known before a model is read. */
    LAM_TRY(srv_listeners_open(s, err));
    LAM_TRY(srv_models_open(&s->models, c, specs, count, err));
    s->api = (api_env){.models = s->models.models,
                       .model_count = s->models.count,
                       .limits = {.max_body_bytes = (size_t)c->max_body_bytes,
                                  .max_items = (size_t)c->max_items,
                                  .max_reply_bytes = (size_t)c->max_reply_bytes,
                                  .max_request_bytes = (size_t)c->max_request_bytes,
                                  .max_deadline_ms = 3600000}};
    size_t batch_rows = srv_models_batch_rows(&s->models, c->max_batch_tokens);
    s->api.limits.max_batch_rows = batch_rows;
    LAM_TRY(plan_memory(s, batch_rows, err));
    LAM_TRY(make_pages(s, batch_rows, err));
    if (!srv_queue_init(&s->queue, batch_rows) || !srv_done_init(&s->done))
        return lam_fail(err, LAM_E_SYSTEM, "queue", "the system refuses a lock");
    LAM_TRY(make_workers(s, batch_rows, err));
    return start_loop(s, err);
}

/* In this order: workers end before connections are resumed, connections before their daemons. */
static void stop(srv_server *s)
{
    if (s->queue.batch_rows) srv_queue_stop(&s->queue);
    for (size_t i = 0; s->workers && i < s->worker_count; i++)
        srv_worker_join(&s->workers[i]);
    for (srv_job *job = s->queue.batch_rows ? srv_done_take(&s->done, 0) : NULL, *next; job;
         job = next) {
        next = job->next;
        srv_exchange_deliver(job);
    }
    s->timed_out = true;
    srv_conns_cut_all(s, API_CODE_SHUTTING_DOWN, "the server is stopping");
    srv_listeners_run(s);
    srv_listeners_close(s);
    srv_signals_close(s);
    if (s->wake.data) uv_close((uv_handle_t *)&s->wake, NULL);
    if (s->sweeper.data) uv_close((uv_handle_t *)&s->sweeper, NULL);
    (void)uv_run(&s->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&s->loop);
}

static void release(srv_server *s, char *host_text)
{
    for (size_t i = 0; s->workers && i < s->worker_count; i++)
        if (s->workers[i].env) srv_worker_fini(&s->workers[i]);
    free(s->workers);
    for (size_t i = 0; i < s->drift_count; i++)
        lam_norm_inputs_free(s->drift[i].total);
    free(s->drift);
    srv_metrics_fini(&s->metrics);
    if (s->queue.batch_rows) {
        srv_queue_fini(&s->queue);
        srv_done_fini(&s->done);
    }
    api_buffer_free(&s->pages.info);
    api_buffer_free(&s->pages.models);
    srv_models_close(&s->models);
    srv_keys_free(&s->keys);
    free(s->hosts);
    free(host_text);
}

/* One sentence on stderr. */
static int complain(const lam_err *err)
{
    fprintf(stderr, "lamina: %s: %s\n", err->where, err->message);
    return err->status == LAM_E_SYSTEM || err->status == LAM_E_NOMEM ? EXIT_SYSTEM : EXIT_CONFIG;
}

int srv_serve(const struct srv_config *config, const srv_model_spec *models, size_t model_count)
{
    static srv_server s; /* large, and there is one */
    s = (srv_server){.config = config};
    char *host_text = NULL;
    lam_err err = {0};
    srv_signals_early();
    srv_log_configure(log_format(config), log_level(config));
    if (uv_loop_init(&s.loop) != 0) {
        fprintf(stderr, "lamina: loop: the system gives no more descriptors\n");
        return EXIT_SYSTEM;
    }
    lam_status status = start(&s, models, model_count, &host_text, &err);
    if (status == LAM_OK) {
        srv_latency_prefer(); /* after the workers exist: they would inherit it */
        s.ready = true;
        announce(&s);
        srv_notify("READY=1");
        (void)uv_run(&s.loop, UV_RUN_DEFAULT);
    }
    stop(&s);
    if (status == LAM_OK) srv_log(SRV_LOG_INFO, "stopped", NULL, NULL);
    srv_log_stop();
    release(&s, host_text);
    return status == LAM_OK ? 0 : complain(&err);
}
