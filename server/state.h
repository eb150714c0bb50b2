/* The running server: everything below belongs to the loop thread unless it says otherwise. */
#ifndef SERVER_STATE_H
#define SERVER_STATE_H

#include <microhttpd.h>
#include <uv.h>

#include "server/config/config.h"
#include "server/guard.h"
#include "server/keys.h"
#include "server/memory_plan.h"
#include "server/metrics.h"
#include "server/models.h"
#include "server/queue.h"
#include "server/worker.h"

struct srv_exchange;
struct srv_server;

enum { SRV_LISTENERS = 3 }; /* TCP, Unix socket, administration */

typedef struct srv_listener {
    struct srv_server *server;
    struct MHD_Daemon *daemon;
    int fd; /* -1 once it no longer accepts */
    bool is_admin;
    srv_guard_policy policy;
    uv_poll_t poll;
    uv_timer_t timer;
    bool has_handles;
} srv_listener;

/* What a connection is doing, which decides its deadline. */
typedef enum srv_phase {
    SRV_PHASE_HEAD,   /* new, or known to have begun a head */
    SRV_PHASE_IDLE,   /* between requests */
    SRV_PHASE_BODY,   /* head judged, body on its way */
    SRV_PHASE_WAIT,   /* suspended: a worker's turn */
    SRV_PHASE_WRITE,  /* reply on its way */
    SRV_PHASE_LINGER, /* answered before the body's end; what still comes is thrown away */
} srv_phase;

typedef struct srv_conn {
    struct srv_conn *next, *prev;
    srv_listener *listener;
    int fd; /* MHD's */
    srv_phase phase;
    uint64_t since_ns, due_ns;     /* of the phase */
    uint64_t gone_ns;              /* when its client was first seen to have shut down; 0: not */
    struct srv_exchange *exchange; /* the request it is at, or NULL */
    bool excess;                   /* beyond max_connections: only health is answered */
} srv_conn;

/* Replies that never change while the server runs. */
typedef struct srv_pages {
    api_buffer models, info;
} srv_pages;

typedef struct srv_server {
    const srv_config *config;
    srv_models models;
    api_env api;
    srv_keys keys;
    const char **hosts; /* names that Host may have on a loopback listener */
    size_t host_count;
    srv_memory_plan plan;
    srv_pages pages;
    srv_metrics metrics;
    double start_seconds;

    srv_admission admission; /* any thread */
    srv_queue queue;         /* any thread */
    srv_done done;           /* any thread */
    srv_work_env work;
    srv_worker *workers; /* [worker_count] */
    size_t worker_count;
    srv_drift_view *drift; /* [drift_count] models that hold statistics, and room for a scrape */
    size_t drift_count;

    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t sweeper, drain, stop_limit;
    uv_signal_t signals[5];
    srv_listener listeners[SRV_LISTENERS];
    size_t listener_count;

    srv_conn *conns;
    size_t exchanges; /* requests between head and end of reply */
    uint64_t ticks;   /* of the sweeper */
    uint64_t id_state;

    bool ready;     /* readiness is on */
    bool draining;  /* a first signal came */
    bool closing;   /* no longer accepting; replies end their connection */
    bool timed_out; /* stop_timeout_ms passed: what is left gets 503 */
} srv_server;

#endif
