#include "server/head.h"

#include <stdio.h>
#include <string.h>

#include "server/reply.h"

static enum MHD_Result each_header(void *arg, enum MHD_ValueKind kind, const char *name,
                                   size_t name_bytes, const char *value, size_t value_bytes)
{
    (void)kind;
    srv_head_header(arg, (srv_text){name, name_bytes}, (srv_text){value, value_bytes});
    return MHD_YES;
}

static enum MHD_Result each_argument(void *arg, enum MHD_ValueKind kind, const char *name,
                                     size_t name_bytes, const char *value, size_t value_bytes)
{
    (void)kind;
    (void)value;
    (void)value_bytes;
    srv_head_argument(arg, (srv_text){name, name_bytes});
    return MHD_YES;
}

/* ---- Ids
 * ------------------------------------------------------------------------------------------- */

static bool is_sane_id(srv_text t)
{
    if (t.n == 0 || t.n >= SRV_REQUEST_ID_BYTES) return false;
    for (size_t i = 0; i < t.n; i++) {
        char c = t.s[i];
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) continue;
        if (!strchr("-_.:/+=", c)) return false;
    }
    return true;
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void set_request_id(srv_exchange *x, srv_text given)
{
    if (is_sane_id(given)) {
        memcpy(x->request_id, given.s, given.n);
        return;
    }
    uint64_t a = mix(x->server->id_state += 0x9e3779b97f4a7c15u);
    uint64_t b = mix(x->server->id_state += 0x9e3779b97f4a7c15u);
    snprintf(x->request_id, sizeof x->request_id, "%016llx%016llx", (unsigned long long)a,
             (unsigned long long)b);
}

static bool is_hex(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f'))) return false;
    return true;
}

/* "00-<32 hex>-<16 hex>-<2 hex>"; a later version may go on. */
static void set_trace_id(srv_exchange *x, srv_text t)
{
    enum { VERSION_00_BYTES = 55, TRACE = 3, SPAN = 36, FLAGS = 53 };
    if (t.n < VERSION_00_BYTES || t.s[2] != '-' || t.s[SPAN - 1] != '-' || t.s[FLAGS - 1] != '-')
        return;
    if (!is_hex(t.s, 2) || !is_hex(t.s + TRACE, 32) || !is_hex(t.s + SPAN, 16) ||
        !is_hex(t.s + FLAGS, 2))
        return;
    bool is_first = memcmp(t.s, "00", 2) == 0;
    if (memcmp(t.s, "ff", 2) == 0 ||
        (is_first ? t.n != VERSION_00_BYTES
                  : t.n > VERSION_00_BYTES && t.s[VERSION_00_BYTES] != '-'))
        return;
    static const char zeros[] = "00000000000000000000000000000000";
    if (memcmp(t.s + TRACE, zeros, 32) == 0 || memcmp(t.s + SPAN, zeros, 16) == 0) return;
    memcpy(x->trace_id, t.s + TRACE, 32);
}

/* ---- Routes
 * ---------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* A model's name out of a path; clients escape the slash in it. False: not a name. */
static bool decode_name(srv_text t, char *out, size_t out_bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < t.n; i++) {
        int c = (unsigned char)t.s[i];
        if (c == '%') {
            if (i + 2 >= t.n) return false;
            int high = hex_digit(t.s[i + 1]), low = hex_digit(t.s[i + 2]);
            if (high < 0 || low < 0) return false;
            c = high * 16 + low;
            i += 2;
        }
        if (c < 0x20 || c == 0x7f || n + 1 >= out_bytes) return false;
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return true;
}

static void find_route(srv_exchange *x, const srv_head *h)
{
    srv_text rest = {0};
    bool is_admin = x->conn->listener->is_admin;
    bool has_admin = x->server->config->admin_port != 0;
    x->route = srv_route_find(h->path, h->method, is_admin, has_admin, &rest, &x->allow);
    if (x->route) {
        x->label = x->route->label;
        if (rest.n > 0 && !decode_name(rest, x->model_name, sizeof x->model_name)) {
            srv_exchange_refuse(x, API_CODE_MODEL_NOT_FOUND, "no model has this name");
        }
    } else if (h->method == SRV_METHOD_OPTIONS && (x->allow || srv_text_is(h->path, "*"))) {
        if (!x->allow) x->allow = 1u << SRV_METHOD_GET | 1u << SRV_METHOD_POST;
    } else if (x->allow) {
        srv_exchange_refuse(x, API_CODE_METHOD_NOT_ALLOWED,
                            "this path has other methods: see Allow");
    } else if (h->method == SRV_METHOD_CONNECT || h->method == SRV_METHOD_TRACE) {
        x->allow = 1u << SRV_METHOD_GET | 1u << SRV_METHOD_POST;
        srv_exchange_refuse(x, API_CODE_METHOD_NOT_ALLOWED, "this method is answered nowhere here");
    } else {
        srv_exchange_refuse(x, API_CODE_ROUTE_NOT_FOUND, "there is no such path");
    }
}

static bool has_key(const srv_exchange *x, const srv_head *h)
{
    const srv_keys *k = &x->server->keys;
    return k->count == 0 || (x->route && x->route->open) || srv_keys_match(k, h->authorization);
}

/* What a request for the workers needs before its body. */
static void admit(srv_exchange *x, const srv_head *h)
{
    if (h->media != SRV_MEDIA_JSON) {
        srv_exchange_refuse(x, API_CODE_MEDIA_TYPE, "the body must be application/json in UTF-8");
    } else if (x->server->timed_out) {
        srv_exchange_refuse(x, API_CODE_SHUTTING_DOWN, "the server is stopping");
    } else if (x->conn->excess || !srv_charge_open(&x->charge, &x->server->admission)) {
        srv_exchange_refuse(x, API_CODE_OVERLOADED, "too much work is waiting");
    }
}

void srv_head_read(srv_exchange *x, const char *url, const char *method, const char *version,
                   srv_head *h)
{
    srv_head_begin(h, method, url, version);
    MHD_get_connection_values_n(x->mhd, MHD_HEADER_KIND, each_header, h);
    MHD_get_connection_values_n(x->mhd, MHD_GET_ARGUMENT_KIND, each_argument, h);
    bool fine = srv_head_end(h, &x->conn->listener->policy);
    x->close = h->must_close;
    set_request_id(x, h->request_id);
    set_trace_id(x, h->traceparent);
    if (!fine) {
        x->refused = true;
        x->error = h->error;
        return;
    }
    find_route(x, h);
    if (!has_key(x, h))
        srv_exchange_refuse(x, API_CODE_INVALID_API_KEY, "a valid API key is needed");
    if (!x->refused && x->route && !x->route->handle) admit(x, h);
}
