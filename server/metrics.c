#include "server/metrics.h"

#include <stdlib.h>

const uint64_t srv_duration_bounds[SRV_BUCKETS] = {
    100000,   250000,    500000,    1000000,   2500000,    5000000,    10000000,    25000000,
    50000000, 100000000, 250000000, 500000000, 1000000000, 2500000000, 10000000000, 30000000000,
};

const uint64_t srv_count_bounds[SRV_BUCKETS] = {
    1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 384, 512, 1024, 2048, 4096, 16384,
};

const char *srv_label_text(srv_label label)
{
    static const char *const texts[] = {
#define X(name, text) text,
        SRV_ROUTE_LABEL_MAP(X)
#undef X
    };
    return texts[label];
}

/* One writer: a plain load and store, so that no bus is locked. */
void srv_counter_add(_Atomic uint64_t *counter, uint64_t n)
{
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, now + n, memory_order_relaxed);
}

void srv_histogram_add(srv_histogram *h, const uint64_t *bounds, uint64_t value)
{
    size_t i = 0;
    while (i < SRV_BUCKETS && value > bounds[i])
        i++;
    srv_counter_add(&h->buckets[i], 1);
    srv_counter_add(&h->sum, value);
}

bool srv_metrics_init(srv_metrics *m, size_t worker_count)
{
    *m = (srv_metrics){.worker_count = worker_count};
    m->workers = calloc(worker_count, sizeof *m->workers);
    return m->workers != NULL;
}

void srv_metrics_fini(srv_metrics *m)
{
    free(m->workers);
    m->workers = NULL;
}

static size_t status_index(int status)
{
    switch (status) {
#define X(code) \
    case code:  \
        return SRV_STATUS_##code;
        SRV_STATUS_MAP(X)
#undef X
    default:
        return SRV_STATUS_500;
    }
}

void srv_metrics_request(srv_metrics *m, srv_label label, int status, uint64_t duration_ns)
{
    m->requests[label][status_index(status)]++;
    srv_histogram_add(&m->duration[label], srv_duration_bounds, duration_ns);
}
