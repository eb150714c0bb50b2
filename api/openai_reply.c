#include "api/reply.h"

void api_openai_reply(const api_request *r, api_buffer *b)
{
    api_buffer_puts(b, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < r->item_count; i++) {
        if (i) api_buffer_put(b, ",", 1);
        api_buffer_puts(b, "{\"object\":\"embedding\",\"index\":");
        api_buffer_json_u64(b, r->items[i].index);
        api_put_key(b, "embedding", false);
        api_put_vector(b, r, r->items[i].out);
        api_buffer_put(b, "}", 1);
    }
    api_buffer_puts(b, "],\"model\":");
    api_put_string(b, r->model->name);
    api_put_key(b, "usage", false);
    api_put_usage(b, r);
    api_buffer_puts(b, "}");
}
