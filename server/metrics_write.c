#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/cpus.h"
#include "server/job.h"
#include "server/log.h"
#include "server/metrics.h"

#define PREFIX "lamina_"

static uint64_t get(const _Atomic uint64_t *v)
{
    return atomic_load_explicit((_Atomic uint64_t *)v, memory_order_relaxed);
}

static void head(api_buffer *b, const char *name, const char *type, const char *help)
{
    api_buffer_puts(b, "# HELP ");
    api_buffer_puts(b, name);
    api_buffer_puts(b, " ");
    api_buffer_puts(b, help);
    api_buffer_puts(b, "\n# TYPE ");
    api_buffer_puts(b, name);
    api_buffer_puts(b, " ");
    api_buffer_puts(b, type);
    api_buffer_puts(b, "\n");
}

static void value(api_buffer *b, const char *name, const char *labels, uint64_t v)
{
    api_buffer_puts(b, name);
    api_buffer_puts(b, labels);
    api_buffer_puts(b, " ");
    api_buffer_json_u64(b, v);
    api_buffer_puts(b, "\n");
}

static void single(api_buffer *b, const char *name, const char *type, const char *help, uint64_t v)
{
    head(b, name, type, help);
    value(b, name, "", v);
}

static void seconds(api_buffer *b, const char *name, const char *type, const char *help, double v)
{
    head(b, name, type, help);
    api_buffer_puts(b, name);
    api_buffer_puts(b, " ");
    api_buffer_json_double(b, v);
    api_buffer_puts(b, "\n");
}

/* ---- Histograms
 * -------------------------------------------------------------------------------------- */

/* A plain sum of several writers' histograms. */
typedef struct sum {
    uint64_t buckets[SRV_BUCKETS + 1], total;
} sum;

static void sum_add(sum *s, const srv_histogram *h)
{
    for (size_t i = 0; i <= SRV_BUCKETS; i++)
        s->buckets[i] += get(&h->buckets[i]);
    s->total += get(&h->sum);
}

static void put_bound(api_buffer *b, bool is_duration, uint64_t bound)
{
    if (is_duration)
        api_buffer_json_double(b, (double)bound / 1e9);
    else
        api_buffer_json_u64(b, bound);
}

/* `label` is "route=\"/x\"," or "". */
static void put_sum(api_buffer *b, const char *name, const char *route, bool is_duration,
                    const sum *s)
{
    const uint64_t *bounds = is_duration ? srv_duration_bounds : srv_count_bounds;
    uint64_t count = 0;
    for (size_t i = 0; i <= SRV_BUCKETS; i++) {
        count += s->buckets[i];
        api_buffer_puts(b, name);
        api_buffer_puts(b, "_bucket{");
        if (route) {
            api_buffer_puts(b, "route=\"");
            api_buffer_puts(b, route);
            api_buffer_puts(b, "\",");
        }
        api_buffer_puts(b, "le=\"");
        if (i < SRV_BUCKETS)
            put_bound(b, is_duration, bounds[i]);
        else
            api_buffer_puts(b, "+Inf");
        api_buffer_puts(b, "\"} ");
        api_buffer_json_u64(b, count);
        api_buffer_puts(b, "\n");
    }
    for (int part = 0; part < 2; part++) {
        api_buffer_puts(b, name);
        api_buffer_puts(b, part ? "_count" : "_sum");
        if (route) {
            api_buffer_puts(b, "{route=\"");
            api_buffer_puts(b, route);
            api_buffer_puts(b, "\"}");
        }
        api_buffer_puts(b, " ");
        if (part)
            api_buffer_json_u64(b, count);
        else
            put_bound(b, is_duration, s->total);
        api_buffer_puts(b, "\n");
    }
}

static void write_histograms(const srv_metrics *m, api_buffer *b)
{
    head(b, PREFIX "request_duration_seconds", "histogram",
         "From a request's head to its reply's end.");
    for (size_t i = 0; i < SRV_LABEL_COUNT; i++) {
        sum s = {0};
        sum_add(&s, &m->duration[i]);
        put_sum(b, PREFIX "request_duration_seconds", srv_label_text((srv_label)i), true, &s);
    }
    sum queue = {0}, compute = {0}, tokenize = {0}, items = {0}, tokens = {0};
    sum_add(&queue, &m->queue);
    for (size_t i = 0; i < m->worker_count; i++) {
        sum_add(&compute, &m->workers[i].compute);
        sum_add(&tokenize, &m->workers[i].tokenize);
        sum_add(&items, &m->workers[i].batch_items);
        sum_add(&tokens, &m->workers[i].batch_tokens);
    }
    head(b, PREFIX "queue_duration_seconds", "histogram", "From a whole body to the first batch.");
    put_sum(b, PREFIX "queue_duration_seconds", NULL, true, &queue);
    head(b, PREFIX "tokenize_duration_seconds", "histogram",
         "Reading a body, tokenizing its texts.");
    put_sum(b, PREFIX "tokenize_duration_seconds", NULL, true, &tokenize);
    head(b, PREFIX "compute_duration_seconds", "histogram", "Running one batch.");
    put_sum(b, PREFIX "compute_duration_seconds", NULL, true, &compute);
    head(b, PREFIX "batch_size", "histogram", "Items of one batch.");
    put_sum(b, PREFIX "batch_size", NULL, false, &items);
    head(b, PREFIX "batch_tokens", "histogram", "Tokens of one batch.");
    put_sum(b, PREFIX "batch_tokens", NULL, false, &tokens);
}

/* ---- Counters and gauges
 * ----------------------------------------------------------------------------- */

static const char *const status_texts[] = {
#define X(code) #code,
    SRV_STATUS_MAP(X)
#undef X
};

/* Pairs that never happened are left out, but each route has its 200. */
static void write_requests(const srv_metrics *m, api_buffer *b)
{
    head(b, PREFIX "requests_total", "counter",
         "Requests by route and status; 499: the client left.");
    for (size_t i = 0; i < SRV_LABEL_COUNT; i++) {
        for (size_t j = 0; j < SRV_STATUS_COUNT; j++) {
            if (m->requests[i][j] == 0 && j != SRV_STATUS_200) continue;
            api_buffer_puts(b, PREFIX "requests_total{route=\"");
            api_buffer_puts(b, srv_label_text((srv_label)i));
            api_buffer_puts(b, "\",code=\"");
            api_buffer_puts(b, status_texts[j]);
            value(b, "\"}", "", m->requests[i][j]);
        }
    }
    head(b, PREFIX "request_errors_total", "counter", "Refused or failed requests by reason.");
    for (size_t i = 0; i < API_CODE_COUNT; i++) {
        api_buffer_puts(b, PREFIX "request_errors_total{reason=\"");
        api_buffer_puts(b, api_code_name((api_code)i));
        value(b, "\"}", "", m->errors[i]);
    }
}

static void write_work(const srv_metrics *m, const srv_gauges *g, api_buffer *b)
{
    uint64_t tokens = 0, abandoned = 0;
    for (size_t i = 0; i < m->worker_count; i++) {
        tokens += get(&m->workers[i].tokens);
        abandoned += get(&m->workers[i].abandoned);
    }
    single(b, PREFIX "tokens_total", "counter", "Tokens that were run.", tokens);
    single(b, PREFIX "abandoned_batches_total", "counter",
           "Batches that nobody waited for any more.", abandoned);
    single(b, PREFIX "clients_gone_total", "counter", "Clients that left before their reply.",
           m->clients_gone);
    single(b, PREFIX "connection_timeouts_total", "counter",
           "Connections closed for being slow or idle.", m->timeouts);
    single(b, PREFIX "log_lines_dropped_total", "counter", "Log lines that could not be written.",
           srv_log_dropped());
    single(b, PREFIX "queue_requests", "gauge", "Requests waiting for a worker.",
           g->queue_requests);
    single(b, PREFIX "queue_items", "gauge", "Slots of admission that are taken.", g->queue_items);
    single(b, PREFIX "inflight_requests", "gauge", "Requests between head and end of reply.",
           m->inflight);
    single(b, PREFIX "connections", "gauge", "Open connections.", m->connections);
    single(b, PREFIX "workers", "gauge", "Inference threads.", m->worker_count);
    single(b, PREFIX "ready", "gauge", "1 while new work is wanted.", g->ready);
    single(b, PREFIX "request_memory_bytes", "gauge", "Memory counted for requests.",
           g->memory_bytes);
    single(b, PREFIX "memory_bound_bytes", "gauge", "Most memory the server takes.",
           g->memory_bound_bytes);
    head(b, PREFIX "build_info", "gauge", "The running version.");
    api_buffer_puts(b, PREFIX "build_info{version=\"");
    api_buffer_puts(b, g->version);
    value(b, "\"}", "", 1);
}

/* ---- The process
 * ------------------------------------------------------------------------------------- */

/* Field `index` (from 0) of a line of numbers, as in /proc/self/statm. */
static uint64_t field(const char *path, size_t index)
{
    char text[256];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text);
    close(fd);
    uint64_t v = 0;
    for (ssize_t i = 0; i < n; i++) {
        if (text[i] == ' ') {
            if (index-- == 0) return v;
            v = 0;
        } else if (text[i] >= '0' && text[i] <= '9') {
            v = v * 10 + (uint64_t)(text[i] - '0');
        }
    }
    return index == 0 ? v : 0;
}

static void write_process(const srv_metrics *m, const srv_gauges *g, api_buffer *b)
{
    struct rusage use = {0};
    struct rlimit files = {0};
    getrusage(RUSAGE_SELF, &use);
    getrlimit(RLIMIT_NOFILE, &files);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    double cpu = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                 (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
    seconds(b, "process_cpu_seconds_total", "counter", "User and system time.", cpu);
    seconds(b, "process_start_time_seconds", "gauge", "Start, in seconds since 1970.",
            g->start_seconds);
    single(b, "process_virtual_memory_bytes", "gauge", "Address space.",
           field("/proc/self/statm", 0) * page);
    single(b, "process_resident_memory_bytes", "gauge", "Resident memory.",
           field("/proc/self/statm", 1) * page);
    /* Counted, not listed: a listing of ten thousand would hold up the loop. */
    single(b, "process_open_fds", "gauge", "Open descriptors.", m->connections + g->other_fds);
    single(b, "process_max_fds", "gauge", "Most open descriptors.", (uint64_t)files.rlim_cur);
}

void srv_metrics_write(const srv_metrics *m, const srv_gauges *g, api_buffer *out)
{
    write_requests(m, out);
    write_histograms(m, out);
    write_work(m, g, out);
    write_process(m, g, out);
}
