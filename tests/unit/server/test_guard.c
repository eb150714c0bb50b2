/* Tests of the head guard: one table, a head a row. */
#include <criterion/criterion.h>
#include <string.h>

#include "server/guard.h"

enum { MAX_BODY = 1000 };

static srv_text text(const char *s)
{
    return (srv_text){s, strlen(s)};
}

/* A head as lines "Name: value" with '\n' between them. */
static bool judge(srv_head *h, const char *method, const char *target, const char *version,
                  const char *headers)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]"};
    const srv_guard_policy policy = {.max_body_bytes = MAX_BODY, .hosts = hosts, .host_count = 3};
    srv_head_begin(h, method, target, version);
    for (const char *line = headers; *line;) {
        size_t n = strcspn(line, "\n");
        const char *colon = memchr(line, ':', n);
        cr_assert_not_null(colon, "a row without colon: %s", headers);
        size_t name_bytes = (size_t)(colon - line);
        srv_head_header(h, (srv_text){line, name_bytes}, (srv_text){colon + 1, n - name_bytes - 1});
        line += n + (line[n] == '\n');
    }
    return srv_head_end(h, &policy);
}

#define PASS API_CODE_COUNT
#define HOST "Host: localhost:8080"

Test(guard, judges_heads)
{
    static const struct {
        const char *method, *target, *version, *headers;
        api_code code;
        bool close;
    } rows[] = {
        {"GET", "/livez", "HTTP/1.1", HOST, PASS, false},
        {"GET", "/livez", "HTTP/1.0", "", PASS, false},
        {"POST", "/v1/encode", "HTTP/1.1", HOST "\nContent-Length: 7", PASS, false},
        {"POST", "/v1/encode", "HTTP/1.1", HOST "\ncontent-LENGTH:  7 ", PASS, false},
        {"POST", "/v1/encode", "HTTP/1.1", HOST "\nTransfer-Encoding: CHUNKED", PASS, false},
        {"POST", "/", "HTTP/1.1", HOST "\nContent-Length: 1000", PASS, false},
        {"POST", "/", "HTTP/1.1", HOST "\nContent-Length: 1001", API_CODE_BODY_TOO_LARGE, true},
        {"POST", "/", "HTTP/1.1", HOST "\nContent-Length: 18446744073709551615",
         API_CODE_BODY_TOO_LARGE, true},
        {"POST", "/", "HTTP/1.1", HOST "\nContent-Length: 18446744073709551617",
         API_CODE_BODY_TOO_LARGE, true},
        {"POST", "/", "HTTP/1.1", HOST "\nContent-Length: 3\nContent-Length: 3",
         API_CODE_INVALID_HTTP, true},
        {"POST", "/", "HTTP/1.1", HOST "\nContent-Length: 3\nTransfer-Encoding: chunked",
         API_CODE_INVALID_HTTP, true},
        {"POST", "/", "HTTP/1.1", HOST "\nTransfer-Encoding: chunked\nContent-Length: 3",
         API_CODE_INVALID_HTTP, true},
        {"POST", "/", "HTTP/1.1", HOST "\nContent-Length: +3", API_CODE_INVALID_HTTP, true},
        {"POST", "/", "HTTP/1.1", HOST "\nContent-Length: 3, 3", API_CODE_INVALID_HTTP, true},
        {"POST", "/", "HTTP/1.1", HOST "\nContent-Length: 0x3", API_CODE_INVALID_HTTP, true},
        {"POST", "/", "HTTP/1.1", HOST "\nContent-Length:", API_CODE_INVALID_HTTP, true},
        {"POST", "/", "HTTP/1.1", HOST "\nTransfer-Encoding: gzip, chunked", API_CODE_INVALID_HTTP,
         true},
        {"POST", "/", "HTTP/1.1", HOST "\nTransfer-Encoding: identity", API_CODE_INVALID_HTTP,
         true},
        {"POST", "/", "HTTP/1.1", HOST "\nTransfer-Encoding: chunked\nTransfer-Encoding: chunked",
         API_CODE_INVALID_HTTP, true},
        {"POST", "/", "HTTP/1.0", "Transfer-Encoding: chunked", API_CODE_INVALID_HTTP, true},
        {"GET", "/", "HTTP/1.1", "", API_CODE_INVALID_HTTP, true},
        {"GET", "/", "HTTP/1.1", HOST "\n" HOST, API_CODE_INVALID_HTTP, true},
        {"GET", "/", "HTTP/1.1", "Host: a/b", API_CODE_INVALID_HTTP, true},
        {"GET", "/", "HTTP/1.1", "Host: a b", API_CODE_INVALID_HTTP, true},
        {"GET", "/", "HTTP/1.1", "Host: evil.example", API_CODE_HOST_NOT_ALLOWED, false},
        {"GET", "/", "HTTP/1.1", "Host: localhost.evil.example", API_CODE_HOST_NOT_ALLOWED, false},
        {"GET", "/", "HTTP/1.1", "Host: [::1]:80", PASS, false},
        {"GET", "/", "HTTP/1.1", "Host: LOCALHOST", PASS, false},
        {"GET", "http://localhost/livez?x", "HTTP/1.1", HOST, PASS, false},
        {"GET", "http://evil.example/", "HTTP/1.1", HOST, API_CODE_HOST_NOT_ALLOWED, false},
        {"GET", "livez", "HTTP/1.1", HOST, API_CODE_INVALID_HTTP, true},
        {"GET", "/a b", "HTTP/1.1", HOST, API_CODE_INVALID_HTTP, true},
        {"GET", "/a\x01", "HTTP/1.1", HOST, API_CODE_INVALID_HTTP, true},
        {"GET", "/", "HTTP/1.1", HOST "\nX : y", API_CODE_INVALID_HTTP, true},
        {"GET", "/", "HTTP/1.1", HOST "\nX(: y", API_CODE_INVALID_HTTP, true},
        {"GET", "/", "HTTP/1.1", HOST "\n: y", API_CODE_INVALID_HTTP, true},
        {"GET", "/", "HTTP/1.1", HOST "\nX: a\rb", API_CODE_INVALID_HTTP, true},
        {"GET", "/", "HTTP/1.1", HOST "\nX: a\tb", PASS, false},
        {"GET", "/", "HTTP/1.2", HOST, API_CODE_HTTP_VERSION, true},
        {"GET", "/", "HTTP/2.0", HOST, API_CODE_HTTP_VERSION, true},
        {"FOO", "/", "HTTP/1.1", HOST, API_CODE_METHOD_UNKNOWN, true},
        {"get", "/", "HTTP/1.1", HOST, API_CODE_METHOD_UNKNOWN, true},
        {"FO\x01", "/", "HTTP/1.1", HOST, API_CODE_INVALID_HTTP, true},
        {"OPTIONS", "*", "HTTP/1.1", HOST, PASS, false},
        {"GET", "/", "HTTP/1.1", HOST "\nContent-Length: 5", PASS, true},
        {"POST", "/", "HTTP/1.1", HOST "\nContent-Encoding: gzip", API_CODE_MEDIA_TYPE, true},
        {"POST", "/", "HTTP/1.1", HOST "\nContent-Encoding: identity", PASS, false},
        {"POST", "/", "HTTP/1.1", HOST "\nExpect: 100-Continue", PASS, false},
        {"POST", "/", "HTTP/1.1", HOST "\nExpect: tea", API_CODE_EXPECTATION, true},
        {"GET", "/", "HTTP/1.1", HOST "\nAuthorization: a\nAuthorization: a", API_CODE_INVALID_HTTP,
         true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        srv_head h;
        bool ok = judge(&h, rows[i].method, rows[i].target, rows[i].version, rows[i].headers);
        api_code code = h.refused ? h.error.code : PASS;
        cr_expect_eq(ok, rows[i].code == PASS, "row %zu: %s", i, rows[i].headers);
        cr_expect_eq(code, rows[i].code, "row %zu: code %d, not %d", i, (int)code,
                     (int)rows[i].code);
        cr_expect_eq(h.must_close, rows[i].close, "row %zu: close", i);
    }
}

Test(guard, reads_media_types)
{
    static const struct {
        const char *value;
        srv_media media;
    } rows[] = {
        {"application/json", SRV_MEDIA_JSON},
        {"Application/JSON ; Charset=UTF-8", SRV_MEDIA_JSON},
        {"application/json; charset=\"utf-8\"", SRV_MEDIA_JSON},
        {"application/json;", SRV_MEDIA_JSON},
        {"application/json; charset=latin1", SRV_MEDIA_OTHER},
        {"application/jsonp", SRV_MEDIA_OTHER},
        {"text/plain", SRV_MEDIA_OTHER},
        {"", SRV_MEDIA_OTHER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        srv_head h;
        srv_head_begin(&h, "POST", "/", "HTTP/1.1");
        cr_expect_eq(h.media, SRV_MEDIA_NONE);
        srv_head_header(&h, text("content-type"), text(rows[i].value));
        cr_expect_eq(h.media, rows[i].media, "\"%s\"", rows[i].value);
        srv_head_header(&h, text("Content-Type"), text("application/json"));
        cr_expect_eq(h.media, SRV_MEDIA_OTHER, "twice: \"%s\"", rows[i].value);
    }
}

Test(guard, cuts_targets)
{
    static const struct {
        const char *target, *path, *host;
    } rows[] = {
        {"/v1/models/a%2Fb?x=/y", "/v1/models/a%2Fb", NULL},
        {"http://me:1/p?q", "/p", "me:1"},
        {"HTTP://me", "/", "me"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        srv_head h;
        srv_head_begin(&h, "GET", rows[i].target, "HTTP/1.1");
        cr_expect(srv_text_is(h.path, rows[i].path), "path of %s", rows[i].target);
        cr_expect_eq(h.host.s != NULL, rows[i].host != NULL);
        if (rows[i].host)
            cr_expect(srv_text_is(h.host, rows[i].host), "host of %s", rows[i].target);
    }
}

Test(guard, refuses_keys_in_the_query)
{
    srv_head h;
    srv_head_begin(&h, "GET", "/", "HTTP/1.1");
    srv_head_argument(&h, text("verbose"));
    cr_expect_not(h.refused);
    srv_head_argument(&h, text("API_KEY"));
    cr_expect(h.refused);
}
