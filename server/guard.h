/* The head guard: judges a request's head before a byte of its body is read. Pure, so that it can
 * be tested and fuzzed without a socket: begin, one call a header in the order received, end.
 *
 * It exists because libmicrohttpd 0.9.75 takes conflicting lengths, unknown transfer codings and
 * odd names; any doubt about where a request ends is a 400 and the end of the connection. */
#ifndef SERVER_GUARD_H
#define SERVER_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/error.h"

#define SRV_METHOD_MAP(X) \
    X(GET)                \
    X(HEAD)               \
    X(POST)               \
    X(PUT)                \
    X(PATCH)              \
    X(DELETE)             \
    X(OPTIONS)            \
    X(CONNECT)            \
    X(TRACE)

#define SRV_ENUM_ROW_METHOD(name) SRV_METHOD_##name,
typedef enum srv_method { SRV_METHOD_MAP(SRV_ENUM_ROW_METHOD) SRV_METHOD_UNKNOWN } srv_method;

/* A run of bytes that someone else owns; s is NULL where there is none. */
typedef struct srv_text {
    const char *s;
    size_t n;
} srv_text;

bool srv_text_is(srv_text t, const char *word);
bool srv_text_is_nocase(srv_text t, const char *word);

typedef enum srv_media { SRV_MEDIA_NONE, SRV_MEDIA_JSON, SRV_MEDIA_OTHER } srv_media;

typedef struct srv_guard_policy {
    uint64_t max_body_bytes;
    const char *const *hosts; /* [host_count] names that Host may have; NULL: any */
    size_t host_count;
} srv_guard_policy;

/* What the head says, and what is wrong with it. Texts point into the caller's head. */
typedef struct srv_head {
    srv_method method;
    srv_text path; /* raw, without scheme, authority and query */
    srv_text host, authorization, request_id, traceparent;
    bool http10;
    bool chunked;
    bool has_length;
    uint64_t length;
    bool expects_continue;
    srv_media media;

    bool refused;
    bool must_close; /* the connection ends with the reply */
    api_error error; /* if refused */

    struct {
        unsigned length, coding, host, authorization, media;
    } count;
} srv_head;

void srv_head_begin(srv_head *h, const char *method, const char *target, const char *version);
void srv_head_header(srv_head *h, srv_text name, srv_text value);

/* A name of a query argument, as sent. */
void srv_head_argument(srv_head *h, srv_text name);

/* True: the head may go on to a route. */
bool srv_head_end(srv_head *h, const srv_guard_policy *policy);

/* True if a body follows the head. */
bool srv_head_has_body(const srv_head *h);

/* Digits only; *over is set and *out is UINT64_MAX if the number is larger than 64 bits. */
bool srv_parse_decimal(srv_text t, uint64_t *out, bool *over);

#endif
