#include "server/memory_plan.h"

enum { BASE_BYTES = 48 << 20, ITEM_BYTES = 256 << 10 };

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* A quarter of the memory at hand, or what the other limits can use, whichever is less; but never
 * too little for one request of the largest kind. */
static uint64_t request_bytes(const srv_memory_inputs *in)
{
    uint64_t usable = in->max_queue_items * ITEM_BYTES + in->workers * in->max_request_bytes;
    uint64_t want =
        in->max_memory_bytes ? in->max_memory_bytes : least(in->available_bytes / 4, usable);
    uint64_t one = in->max_request_bytes + in->max_reply_bytes + in->max_body_bytes + SRV_JOB_BYTES;
    return in->max_memory_bytes == 0 && want < one ? one : want;
}

srv_memory_plan srv_memory_plan_make(const srv_memory_inputs *in)
{
    srv_memory_plan p = {
        .models = in->model_bytes,
        .contexts = in->context_bytes,
        .requests = (size_t)request_bytes(in),
        .decoding = (size_t)(in->workers * in->max_request_bytes),
        .connections = in->max_connections * SRV_CONNECTION_BYTES,
        .base = BASE_BYTES,
    };
    p.bound = p.models + p.contexts + p.requests + p.decoding + p.connections + p.base;
    return p;
}
