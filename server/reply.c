#include "server/reply.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { ERROR_BYTES = 4096, RETRY_MS = 500, RETRY_JITTER_MS = 1000 };

void srv_exchange_refuse(srv_exchange *x, api_code code, const char *sentence)
{
    x->refused = true;
    api_fail(&x->error, code, NULL, "%s", sentence);
}

/* "GET, HEAD" */
static void allow_text(unsigned methods, char *out, size_t out_bytes)
{
    static const char *const names[] = {
#define X(name) #name,
        SRV_METHOD_MAP(X)
#undef X
    };
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (methods & 1u << i)
            n += (size_t)snprintf(out + n, out_bytes - n, "%s%s", n ? ", " : "", names[i]);
}

/* Clients that were refused at the same moment shall not come back at the same moment. */
static unsigned retry_ms(srv_server *s)
{
    s->id_state = s->id_state * 6364136223846793005u + 1442695040888963407u;
    return RETRY_MS + (unsigned)(s->id_state >> 40) % RETRY_JITTER_MS;
}

/* Headers that belong to an error code, as "name: value" pairs. */
typedef struct extra {
    char names[2][24], values[2][96];
    size_t count;
} extra;

static void extra_add(extra *e, const char *name, const char *value)
{
    snprintf(e->names[e->count], sizeof e->names[0], "%s", name);
    snprintf(e->values[e->count++], sizeof e->values[0], "%s", value);
}

static void extra_of(srv_exchange *x, int status, extra *e)
{
    char text[96];
    e->count = 0;
    if (status == 401) {
        extra_add(e, "www-authenticate", "Bearer");
    } else if (status == 405 || status == 204) {
        allow_text(x->allow, text, sizeof text);
        extra_add(e, "allow", text);
    } else if (status == 429) {
        unsigned ms = retry_ms(x->server);
        snprintf(text, sizeof text, "%u", (ms + 999) / 1000);
        extra_add(e, "retry-after", text);
        snprintf(text, sizeof text, "%u", ms);
        extra_add(e, "retry-after-ms", text);
    }
}

static bool ends_connection(const srv_exchange *x)
{
    return x->close || x->server->closing || x->conn->excess;
}

static void start_writing(srv_exchange *x, int status, size_t bytes)
{
    x->status = status;
    x->reply_bytes = bytes;
    srv_conn *c = x->conn;
    c->phase = SRV_PHASE_WRITE;
    c->since_ns = srv_now_ns();
    c->due_ns = c->since_ns + (x->server->config->write_timeout_ms + bytes / 16) * 1000000u;
}

enum MHD_Result srv_reply(srv_exchange *x, int status, const char *type, const char *data,
                          size_t bytes)
{
    struct MHD_Response *r =
        MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)data, MHD_RESPMEM_PERSISTENT);
    if (!r) return MHD_NO;
    extra e;
    extra_of(x, status, &e);
    bool ok = MHD_add_response_header(r, "x-request-id", x->request_id) == MHD_YES;
    if (type) ok = ok && MHD_add_response_header(r, "content-type", type) == MHD_YES;
    if (ends_connection(x)) ok = ok && MHD_add_response_header(r, "connection", "close") == MHD_YES;
    if (x->done && x->done->truncated[0] && status == 200)
        ok = ok && MHD_add_response_header(r, "x-lamina-truncated", x->done->truncated) == MHD_YES;
    for (size_t i = 0; i < e.count; i++)
        ok = ok && MHD_add_response_header(r, e.names[i], e.values[i]) == MHD_YES;
    start_writing(x, status, bytes);
    enum MHD_Result queued = ok ? MHD_queue_response(x->mhd, (unsigned)status, r) : MHD_NO;
    MHD_destroy_response(r);
    return queued;
}

enum MHD_Result srv_reply_page(srv_exchange *x, const char *type)
{
    if (x->page.failed) {
        srv_exchange_refuse(x, API_CODE_OUT_OF_MEMORY, "no memory for the reply");
        return srv_reply_error(x);
    }
    return srv_reply(x, 200, type, x->page.data, x->page.size);
}

/* The error's body in x->page. */
static bool write_error(srv_exchange *x)
{
    api_buffer_free(&x->page);
    api_buffer_init(&x->page, ERROR_BYTES);
    return api_error_write(&x->error, &x->page);
}

enum MHD_Result srv_reply_error(srv_exchange *x)
{
    x->server->metrics.errors[x->error.code]++;
    if (!write_error(x)) return MHD_NO;
    return srv_reply(x, api_code_http_status(x->error.code), SRV_TYPE_JSON, x->page.data,
                     x->page.size);
}

void srv_reply_raw(srv_exchange *x)
{
    char head[640];
    int status = api_code_http_status(x->error.code);
    const char *reason = MHD_get_reason_phrase_for((unsigned)status);
    x->server->metrics.errors[x->error.code]++;
    x->status = status;
    extra e;
    extra_of(x, status, &e);
    if (write_error(x)) {
        int n = snprintf(head, sizeof head,
                         "HTTP/1.1 %d %s\r\nconnection: close\r\ncontent-type: " SRV_TYPE_JSON
                         "\r\ncontent-length: %zu\r\nx-request-id: %s\r\n",
                         status, reason, x->page.size, x->request_id);
        for (size_t i = 0; i < e.count; i++)
            n += snprintf(head + n, sizeof head - (size_t)n, "%s: %s\r\n", e.names[i], e.values[i]);
        n += snprintf(head + n, sizeof head - (size_t)n, "\r\n");
        /* The socket's buffer is empty: nothing was sent for this request. Short or failed is as
         * good as a close. */
        (void)send(x->conn->fd, head, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE);
        (void)send(x->conn->fd, x->page.data, x->page.size, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    (void)shutdown(x->conn->fd, SHUT_WR);
}
