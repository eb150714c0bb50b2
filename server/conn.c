#include "server/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "server/exchange.h"
#include "server/listener.h"
#include "server/reply.h"

enum {
    /* A client that shut its sending side may still read: what is quick enough is answered, what is
     * not is given up. A reset is known at once. */
    HALF_CLOSED_MS = 500,
    HEAD_CHECK_TICKS = 20, /* an idle connection is asked this seldom whether a head has begun */
    HEAD_SLACK_MS = 200,
};

static uint64_t ms_to_ns(uint64_t ms)
{
    return ms * 1000000u;
}

static void conn_started(srv_listener *l, struct MHD_Connection *mhd, void **context)
{
    srv_server *s = l->server;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    srv_conn *c = info ? calloc(1, sizeof *c) : NULL;
    *context = c;
    if (!c) return; /* its first request is refused */
    c->listener = l;
    c->fd = info->connect_fd;
    c->phase = SRV_PHASE_HEAD;
    c->since_ns = srv_now_ns();
    c->due_ns = c->since_ns + ms_to_ns(s->config->header_timeout_ms);
    c->next = s->conns;
    if (s->conns) s->conns->prev = c;
    s->conns = c;
    s->metrics.connections++;
    c->excess = s->metrics.connections > s->config->max_connections;
}

static void conn_closed(srv_listener *l, void **context)
{
    srv_conn *c = *context;
    *context = NULL;
    if (!c) return;
    if (c->prev)
        c->prev->next = c->next;
    else
        l->server->conns = c->next;
    if (c->next) c->next->prev = c->prev;
    l->server->metrics.connections--;
    free(c);
}

void srv_conn_notify(void *cls, struct MHD_Connection *mhd, void **context,
                     enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        conn_started(cls, mhd, context);
    else
        conn_closed(cls, context);
}

/* ---- The watch
 * ------------------------------------------------------------------------------------- */

/* MHD sees the shutdown and cleans up. */
static void kill_conn(srv_server *s, srv_conn *c)
{
    s->metrics.timeouts++;
    c->due_ns = UINT64_MAX;
    (void)shutdown(c->fd, SHUT_RDWR);
}

/* Whether bytes came in since the connection went idle: a head that began and does not end. MHD
 * tells only of whole heads. */
static bool head_began(const srv_conn *c, uint64_t now_ns)
{
    struct tcp_info info;
    socklen_t n = sizeof info;
    if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &n) != 0) return false;
    uint64_t idle_ms = (now_ns - c->since_ns) / 1000000u;
    return idle_ms > info.tcpi_last_data_recv + HEAD_SLACK_MS;
}

typedef enum presence { HERE, SHUT, GONE } presence;

static presence look(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0) return HERE; /* the next request, pipelined */
    if (n == 0) return SHUT;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? HERE : GONE;
}

/* The body will not come to its end: answers by hand, since MHD cannot in the middle of a body. */
static void end_body(srv_conn *c, api_code code, const char *sentence)
{
    srv_exchange_refuse(c->exchange, code, sentence);
    srv_reply_raw(c->exchange);
    c->phase = SRV_PHASE_LINGER;
    c->due_ns = srv_now_ns() + ms_to_ns(HALF_CLOSED_MS);
}

static void watch_body(srv_server *s, srv_conn *c, uint64_t now_ns)
{
    if (now_ns >= c->due_ns) {
        s->metrics.timeouts++;
        end_body(c, API_CODE_REQUEST_TIMEOUT, "the body did not arrive in time");
    } else if (now_ns - c->since_ns >= ms_to_ns(SRV_WATCH_MS) && look(c->fd) == SHUT) {
        end_body(c, API_CODE_INVALID_HTTP, "the client ended the body before its length");
    }
}

/* Between requests a connection is looked at this seldom: it costs a system call. */
static bool is_turn(const srv_server *s, const srv_conn *c)
{
    return (s->ticks + (uint64_t)c->fd) % HEAD_CHECK_TICKS == 0;
}

/* A client that left while its request was suspended: MHD is not told twice. */
static bool has_left(const srv_server *s, const srv_conn *c)
{
    return is_turn(s, c) && look(c->fd) != HERE;
}

static void watch_idle(srv_server *s, srv_conn *c, uint64_t now_ns)
{
    if (!is_turn(s, c)) return;
    if (now_ns - c->since_ns < 2 * ms_to_ns(HEAD_SLACK_MS) || !head_began(c, now_ns)) return;
    c->phase = SRV_PHASE_HEAD;
    c->since_ns = now_ns;
    c->due_ns = now_ns + ms_to_ns(s->config->header_timeout_ms);
}

static void watch_waiting(srv_conn *c, uint64_t now_ns)
{
    srv_exchange *x = c->exchange;
    if (!x || !x->job) return; /* on its way out */
    if (atomic_load_explicit(&x->job->due_ns, memory_order_relaxed) <= now_ns) {
        srv_exchange_cut(x, API_CODE_DEADLINE, "the deadline passed before the reply was ready");
        return;
    }
    presence p = look(c->fd);
    if (p == SHUT && c->gone_ns == 0) c->gone_ns = now_ns;
    bool is_gone = p == GONE || (p == SHUT && now_ns - c->gone_ns >= ms_to_ns(HALF_CLOSED_MS));
    if (is_gone) srv_exchange_cut(x, API_CODE_COUNT, NULL);
}

static void watch_one(srv_server *s, srv_conn *c, uint64_t now_ns)
{
    switch (c->phase) {
    case SRV_PHASE_WAIT:
        watch_waiting(c, now_ns);
        return;
    case SRV_PHASE_BODY:
        watch_body(s, c, now_ns);
        return;
    case SRV_PHASE_IDLE:
        if (now_ns >= c->due_ns || has_left(s, c))
            kill_conn(s, c);
        else
            watch_idle(s, c, now_ns);
        return;
    case SRV_PHASE_HEAD:
        if (now_ns >= c->due_ns || has_left(s, c)) kill_conn(s, c);
        return;
    case SRV_PHASE_WRITE:
    case SRV_PHASE_LINGER:
        if (now_ns >= c->due_ns) kill_conn(s, c);
        return;
    }
}

void srv_watch(srv_server *s)
{
    /* What has arrived counts before the clock does: the process may have been stopped for a while.
     */
    srv_listeners_run(s);
    uint64_t now_ns = srv_now_ns();
    s->ticks++;
    for (srv_conn *c = s->conns; c; c = c->next)
        watch_one(s, c, now_ns);
    srv_listeners_run(s);
}

void srv_conns_close_idle(srv_server *s)
{
    for (srv_conn *c = s->conns; c; c = c->next)
        if (!c->exchange && (c->phase == SRV_PHASE_IDLE || c->phase == SRV_PHASE_HEAD))
            (void)shutdown(c->fd, SHUT_RDWR);
}

void srv_conns_cut_all(srv_server *s, api_code code, const char *sentence)
{
    for (srv_conn *c = s->conns; c; c = c->next)
        if (c->exchange && c->exchange->job) srv_exchange_cut(c->exchange, code, sentence);
}
