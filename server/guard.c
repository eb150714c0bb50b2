#include "server/guard.h"

#include <string.h>
#include <strings.h>

/* Names that carry keys elsewhere: a key in a URL ends up in logs and histories. */
static const char *const key_arguments[] = {"api_key", "api-key",      "apikey",
                                            "key",     "access_token", "token"};

bool srv_text_is(srv_text t, const char *word)
{
    return t.n == strlen(word) && memcmp(t.s, word, t.n) == 0;
}

bool srv_text_is_nocase(srv_text t, const char *word)
{
    return t.n == strlen(word) && strncasecmp(t.s, word, t.n) == 0;
}

/* The first complaint stands: later ones are often its consequences. */
static void refuse(srv_head *h, api_code code, bool close, const char *sentence)
{
    h->must_close = h->must_close || close;
    if (h->refused) return;
    h->refused = true;
    api_fail(&h->error, code, NULL, "%s", sentence);
}

static bool is_token_char(unsigned char c)
{
    if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) return true;
    return c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

static bool is_token(srv_text t)
{
    for (size_t i = 0; i < t.n; i++)
        if (!is_token_char((unsigned char)t.s[i])) return false;
    return t.n > 0;
}

static bool has_control(srv_text t)
{
    for (size_t i = 0; i < t.n; i++) {
        unsigned char c = (unsigned char)t.s[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) return true;
    }
    return false;
}

static srv_text trimmed(srv_text t)
{
    while (t.n > 0 && (t.s[0] == ' ' || t.s[0] == '\t'))
        t.s++, t.n--;
    while (t.n > 0 && (t.s[t.n - 1] == ' ' || t.s[t.n - 1] == '\t'))
        t.n--;
    return t;
}

bool srv_parse_decimal(srv_text t, uint64_t *out, bool *over)
{
    *out = 0;
    *over = false;
    for (size_t i = 0; i < t.n; i++) {
        unsigned digit = (unsigned)((unsigned char)t.s[i]) - '0';
        if (digit > 9) return false;
        if (__builtin_mul_overflow(*out, 10u, out) || __builtin_add_overflow(*out, digit, out))
            *over = true;
    }
    if (*over) *out = UINT64_MAX;
    return t.n > 0;
}

static srv_method parse_method(const char *s)
{
#define X(name) \
    if (strcmp(s, #name) == 0) return SRV_METHOD_##name;
    SRV_METHOD_MAP(X)
#undef X
    return SRV_METHOD_UNKNOWN;
}

/* "http://authority/path" names the authority in the target; it then takes Host's place (RFC
 * 9112 3.2.2). */
static srv_text split_absolute(srv_text target, srv_text *authority)
{
    static const char scheme[] = "http://";
    size_t skip = sizeof scheme - 1;
    if (target.n < skip || strncasecmp(target.s, scheme, skip) != 0) return target;
    srv_text rest = {target.s + skip, target.n - skip};
    const char *slash = memchr(rest.s, '/', rest.n);
    size_t host_bytes = slash ? (size_t)(slash - rest.s) : rest.n;
    *authority = (srv_text){rest.s, host_bytes};
    if (!slash) return (srv_text){"/", 1};
    return (srv_text){slash, rest.n - host_bytes};
}

static void judge_target(srv_head *h, const char *target)
{
    srv_text t = {target ? target : "", target ? strlen(target) : 0};
    for (size_t i = 0; i < t.n; i++) {
        if ((unsigned char)t.s[i] > 0x20 && t.s[i] != 0x7f) continue;
        refuse(h, API_CODE_INVALID_HTTP, true,
               "the request target has a space or control character");
        break;
    }
    t = split_absolute(t, &h->host);
    const char *query = memchr(t.s, '?', t.n);
    if (query) t.n = (size_t)(query - t.s);
    h->path = t;
    bool is_star = h->method == SRV_METHOD_OPTIONS && srv_text_is(t, "*");
    if (h->method == SRV_METHOD_CONNECT || is_star) return;
    if (t.n == 0 || t.s[0] != '/')
        refuse(h, API_CODE_INVALID_HTTP, true, "the request target is not a path");
}

void srv_head_begin(srv_head *h, const char *method, const char *target, const char *version)
{
    *h = (srv_head){0};
    if (!is_token((srv_text){method, strlen(method)}))
        refuse(h, API_CODE_INVALID_HTTP, true, "the method is not a token");
    h->method = parse_method(method);
    h->http10 = strcmp(version, "HTTP/1.0") == 0;
    if (!h->http10 && strcmp(version, "HTTP/1.1") != 0)
        refuse(h, API_CODE_HTTP_VERSION, true, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    judge_target(h, target);
}

static void judge_length(srv_head *h, srv_text value)
{
    bool over;
    if (h->count.length++ > 0) {
        refuse(h, API_CODE_INVALID_HTTP, true, "Content-Length is given more than once");
        return;
    }
    h->has_length = srv_parse_decimal(value, &h->length, &over);
    if (!h->has_length)
        refuse(h, API_CODE_INVALID_HTTP, true, "Content-Length is not a decimal number");
}

static void judge_coding(srv_head *h, srv_text value)
{
    if (h->count.coding++ > 0)
        refuse(h, API_CODE_INVALID_HTTP, true, "Transfer-Encoding is given more than once");
    h->chunked = srv_text_is_nocase(value, "chunked");
    if (!h->chunked) refuse(h, API_CODE_INVALID_HTTP, true, "the only transfer coding is chunked");
}

static bool is_host_char(unsigned char c)
{
    if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) return true;
    return c != '\0' && strchr("-._~[]:%!$&'()*+,;=", c) != NULL;
}

static void judge_host(srv_head *h, srv_text value)
{
    h->count.host++;
    for (size_t i = 0; i < value.n; i++) {
        if (is_host_char((unsigned char)value.s[i])) continue;
        refuse(h, API_CODE_INVALID_HTTP, true, "Host has a character that no host name has");
        break;
    }
    if (!h->host.s) h->host = value;
}

/* application/json, alone or with charset utf-8, quoted or not. */
static bool is_json_type(srv_text v)
{
    const char *semicolon = memchr(v.s, ';', v.n);
    srv_text type = {v.s, semicolon ? (size_t)(semicolon - v.s) : v.n};
    if (!srv_text_is_nocase(trimmed(type), "application/json")) return false;
    while (semicolon) {
        srv_text rest = {semicolon + 1, v.n - (size_t)(semicolon + 1 - v.s)};
        semicolon = memchr(rest.s, ';', rest.n);
        srv_text one =
            trimmed((srv_text){rest.s, semicolon ? (size_t)(semicolon - rest.s) : rest.n});
        if (one.n == 0) continue;
        if (!srv_text_is_nocase(one, "charset=utf-8") && !srv_text_is_nocase(one, "charset=utf8") &&
            !srv_text_is_nocase(one, "charset=\"utf-8\""))
            return false;
    }
    return true;
}

static void judge_media(srv_head *h, srv_text value)
{
    bool json = h->count.media++ == 0 && is_json_type(value);
    h->media = json ? SRV_MEDIA_JSON : SRV_MEDIA_OTHER;
}

static void judge_expect(srv_head *h, srv_text value)
{
    h->expects_continue = srv_text_is_nocase(value, "100-continue");
    if (!h->expects_continue)
        refuse(h, API_CODE_EXPECTATION, true, "the only expectation is 100-continue");
}

void srv_head_header(srv_head *h, srv_text name, srv_text value)
{
    if (!value.s) value = (srv_text){"", 0};
    value = trimmed(value);
    if (!is_token(name)) refuse(h, API_CODE_INVALID_HTTP, true, "a header name is not a token");
    if (has_control(value))
        refuse(h, API_CODE_INVALID_HTTP, true, "a header value has a control character");

    if (srv_text_is_nocase(name, "content-length")) {
        judge_length(h, value);
    } else if (srv_text_is_nocase(name, "transfer-encoding")) {
        judge_coding(h, value);
    } else if (srv_text_is_nocase(name, "host")) {
        judge_host(h, value);
    } else if (srv_text_is_nocase(name, "content-type")) {
        judge_media(h, value);
    } else if (srv_text_is_nocase(name, "content-encoding")) {
        if (!srv_text_is_nocase(value, "identity"))
            refuse(h, API_CODE_MEDIA_TYPE, true, "a compressed body is not read; send it as it is");
    } else if (srv_text_is_nocase(name, "expect")) {
        judge_expect(h, value);
    } else if (srv_text_is_nocase(name, "authorization")) {
        if (h->count.authorization++ > 0)
            refuse(h, API_CODE_INVALID_HTTP, true, "Authorization is given more than once");
        h->authorization = value;
    } else if (srv_text_is_nocase(name, "x-request-id")) {
        if (!h->request_id.s) h->request_id = value;
    } else if (srv_text_is_nocase(name, "traceparent")) {
        if (!h->traceparent.s) h->traceparent = value;
    }
}

void srv_head_argument(srv_head *h, srv_text name)
{
    for (size_t i = 0; i < sizeof key_arguments / sizeof *key_arguments; i++)
        if (srv_text_is_nocase(name, key_arguments[i]))
            refuse(h, API_CODE_INVALID_HTTP, false, "a key belongs into the Authorization header");
}

/* "name", "name:port", "[v6]:port" -> the name. */
static srv_text host_name(srv_text host)
{
    if (host.n > 0 && host.s[0] == '[') {
        const char *end = memchr(host.s, ']', host.n);
        return end ? (srv_text){host.s, (size_t)(end + 1 - host.s)} : host;
    }
    const char *colon = memchr(host.s, ':', host.n);
    return colon ? (srv_text){host.s, (size_t)(colon - host.s)} : host;
}

static bool host_is_allowed(const srv_guard_policy *p, srv_text host)
{
    if (!p->hosts) return true;
    srv_text name = host_name(host);
    for (size_t i = 0; i < p->host_count; i++)
        if (srv_text_is_nocase(name, p->hosts[i])) return true;
    return false;
}

bool srv_head_has_body(const srv_head *h)
{
    return h->chunked || h->count.coding > 0 || h->length > 0;
}

bool srv_head_end(srv_head *h, const srv_guard_policy *policy)
{
    if (h->count.length > 0 && h->count.coding > 0)
        refuse(h, API_CODE_INVALID_HTTP, true,
               "Content-Length and Transfer-Encoding exclude each other");
    if (h->http10 && h->count.coding > 0)
        refuse(h, API_CODE_INVALID_HTTP, true, "HTTP/1.0 has no Transfer-Encoding");
    if (h->count.host > 1 || (h->count.host == 0 && !h->http10))
        refuse(h, API_CODE_INVALID_HTTP, true, "a request has exactly one Host header");
    if (!h->refused && h->has_length && h->length > policy->max_body_bytes) {
        refuse(h, API_CODE_BODY_TOO_LARGE, true, "the body is larger than max_body_bytes");
        h->error.has_limit = true;
        h->error.limit = policy->max_body_bytes;
        h->error.actual = h->length;
    }
    /* A browser always sends Host; a tool without one cannot be a rebinding attack. */
    if (!h->refused && h->host.s && !host_is_allowed(policy, h->host))
        refuse(h, API_CODE_HOST_NOT_ALLOWED, false,
               "this Host name is not on the list of allowed hosts");
    if (!h->refused && h->method == SRV_METHOD_UNKNOWN)
        refuse(h, API_CODE_METHOD_UNKNOWN, true, "the method is not known");
    if (!h->refused && h->method != SRV_METHOD_POST && srv_head_has_body(h)) h->must_close = true;
    return !h->refused;
}
