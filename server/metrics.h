/* Numbers for Prometheus. The loop owns its own; each worker has a set of atomics that only it
 * writes; both are added up when scraped, on the loop. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "api/buffer.h"
#include "api/error.h"

/* Labels of routes; OTHER is every path that is none of ours. */
/* The formatter does not agree with itself on this list. */
/* clang-format off */
#define SRV_ROUTE_LABEL_MAP(X) \
    X(ENCODE, "/v1/encode") \
    X(COMPARE, "/v1/compare") \
    X(EMBEDDINGS, "/v1/embeddings") \
    X(MODELS, "/v1/models") \
    X(LIVEZ, "/livez") \
    X(READYZ, "/readyz") \
    X(HEALTH, "/health") \
    X(METRICS, "/metrics") \
    X(INFO, "/info") \
    X(OPENAPI, "/openapi.json") \
    X(OTHER, "other")
/* clang-format on */
#define SRV_ENUM_ROW_ROUTE_LABEL(name, text) SRV_LABEL_##name,
typedef enum srv_label { SRV_ROUTE_LABEL_MAP(SRV_ENUM_ROW_ROUTE_LABEL) SRV_LABEL_COUNT } srv_label;

const char *srv_label_text(srv_label label);

/* Every status we answer; 499 is a client that left. */
#define SRV_STATUS_MAP(X) \
    X(200)                \
    X(204)                \
    X(400)                \
    X(401)                \
    X(403)                \
    X(404)                \
    X(405) X(408) X(413) X(415) X(417) X(429) X(431) X(499) X(500) X(501) X(503) X(504) X(505)
#define SRV_ENUM_ROW_STATUS(code) SRV_STATUS_##code,
enum { SRV_STATUS_MAP(SRV_ENUM_ROW_STATUS) SRV_STATUS_COUNT };

enum { SRV_BUCKETS = 16 };

/* A histogram over fixed bounds. One writer. */
typedef struct srv_histogram {
    _Atomic uint64_t buckets[SRV_BUCKETS + 1]; /* the last: above all bounds */
    _Atomic uint64_t sum;                      /* nanoseconds or plain */
} srv_histogram;

/* Upper bounds: of durations in nanoseconds, of counts. */
extern const uint64_t srv_duration_bounds[SRV_BUCKETS];
extern const uint64_t srv_count_bounds[SRV_BUCKETS];

/* One writer for each counter and histogram. */
void srv_counter_add(_Atomic uint64_t *counter, uint64_t n);
void srv_histogram_add(srv_histogram *h, const uint64_t *bounds, uint64_t value);

typedef struct srv_worker_metrics {
    srv_histogram compute, tokenize, batch_items, batch_tokens;
    _Atomic uint64_t tokens;
    _Atomic uint64_t abandoned; /* batches given up because nobody waited */
} srv_worker_metrics;

typedef struct srv_metrics {
    uint64_t requests[SRV_LABEL_COUNT][SRV_STATUS_COUNT];
    uint64_t errors[API_CODE_COUNT];
    uint64_t clients_gone, timeouts;
    srv_histogram duration[SRV_LABEL_COUNT], queue;
    srv_worker_metrics *workers; /* [worker_count] */
    size_t worker_count;
    uint64_t inflight; /* requests between head and end of reply */
    uint64_t connections;
} srv_metrics;

/* Gauges that others own, read for the scrape. */
typedef struct srv_gauges {
    uint64_t queue_requests, queue_items, memory_bytes, memory_bound_bytes;
    bool ready;
    const char *version;
    double start_seconds; /* since 1970 */
    uint64_t other_fds;   /* open ones that are no connections */
} srv_gauges;

bool srv_metrics_init(srv_metrics *m, size_t worker_count);
void srv_metrics_fini(srv_metrics *m);

void srv_metrics_request(srv_metrics *m, srv_label label, int status, uint64_t duration_ns);

/* The whole page, text format 0.0.4. */
void srv_metrics_write(const srv_metrics *m, const srv_gauges *g, api_buffer *out);

#endif
