/* How much memory the server may take, computed at start from the limits. */
#ifndef SERVER_MEMORY_PLAN_H
#define SERVER_MEMORY_PLAN_H

#include <stddef.h>
#include <stdint.h>

enum {
    SRV_CONNECTION_POOL_BYTES = 32768, /* libmicrohttpd's pool of one connection */
    SRV_CONNECTION_BYTES = SRV_CONNECTION_POOL_BYTES + 4096,
    SRV_JOB_BYTES = 8192, /* of a request apart from what its limits count */
};

typedef struct srv_memory_inputs {
    size_t model_bytes, context_bytes; /* all models; all contexts of all workers */
    size_t available_bytes;            /* machine or cgroup */
    size_t workers, max_connections;
    uint64_t max_request_bytes, max_reply_bytes, max_body_bytes, max_queue_items;
    uint64_t max_memory_bytes; /* 0: computed */
} srv_memory_inputs;

typedef struct srv_memory_plan {
    size_t models, contexts;
    size_t
        requests; /* bodies, decoded requests and replies of all requests: what admission counts */
    size_t decoding; /* one request under decoding a worker, before it is counted */
    size_t connections;
    size_t base;  /* program, libraries, stacks, log */
    size_t bound; /* the sum */
} srv_memory_plan;

srv_memory_plan srv_memory_plan_make(const srv_memory_inputs *in);

#endif
