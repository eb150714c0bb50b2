#include "server/listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/conn.h"
#include "server/exchange.h"
#include "server/log.h"

enum {
    BACKLOG = 1024,
    RESERVE = 64, /* connections beyond max_connections, for health and for refusals */
    MAX_RUNS = 16,
};

/* ---- Sockets
 * --------------------------------------------------------------------------------------- */

static lam_status listen_on(int family, const void *address, socklen_t bytes, const char *name,
                            int *out, lam_err *err)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return lam_fail(err, LAM_E_SYSTEM, name, "%s", strerror(errno));
    int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address, bytes) != 0 || listen(fd, BACKLOG) != 0) {
        int why = errno;
        close(fd);
        return lam_fail(err, LAM_E_CONFIG, name, "cannot listen: %s", strerror(why));
    }
    *out = fd;
    return LAM_OK;
}

static lam_status listen_tcp(const char *host, uint64_t port, int *out, bool *is_loopback,
                             lam_err *err)
{
    char service[8], name[300];
    snprintf(service, sizeof service, "%u", (unsigned)port);
    snprintf(name, sizeof name, "%s port %s", host, service);
    /* Names are not looked up; the one that everybody types is known. */
    const char *numeric = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found = NULL;
    if (getaddrinfo(numeric, service, &hints, &found) != 0 || !found)
        return lam_fail(err, LAM_E_CONFIG, name, "not an IP address to listen on");
    if (found->ai_family == AF_INET6) {
        const struct sockaddr_in6 *a = (const void *)found->ai_addr;
        *is_loopback = IN6_IS_ADDR_LOOPBACK(&a->sin6_addr);
    } else {
        const struct sockaddr_in *a = (const void *)found->ai_addr;
        *is_loopback = ntohl(a->sin_addr.s_addr) >> 24 == 127;
    }
    lam_status s = listen_on(found->ai_family, found->ai_addr, found->ai_addrlen, name, out, err);
    freeaddrinfo(found);
    return s;
}

/* A socket file that nobody listens on any more is left from an earlier run. */
static void remove_stale(const struct sockaddr_un *address)
{
    struct stat st;
    if (lstat(address->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode)) return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    if (connect(fd, (const void *)address, sizeof *address) != 0 && errno == ECONNREFUSED)
        (void)unlink(address->sun_path);
    close(fd);
}

static lam_status listen_unix(const char *path, int *out, lam_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return lam_fail(err, LAM_E_CONFIG, path, "a socket's path has at most %zu bytes",
                        sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, strlen(path));
    remove_stale(&address);
    return listen_on(AF_UNIX, &address, sizeof address, path, out, err);
}

unsigned srv_listener_port(const srv_listener *l)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } a = {0};
    socklen_t n = sizeof a;
    if (getsockname(l->fd, &a.any, &n) != 0) return 0;
    return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}

static srv_listener *add_listener(srv_server *s)
{
    srv_listener *l = &s->listeners[s->listener_count++];
    *l = (srv_listener){.server = s, .fd = -1};
    l->policy.max_body_bytes = s->config->max_body_bytes;
    return l;
}

static void limit_hosts(srv_server *s, srv_listener *l, bool is_loopback)
{
    if (!is_loopback && !s->config->allowed_hosts) return;
    l->policy.hosts = s->hosts;
    l->policy.host_count = s->host_count;
}

lam_status srv_listeners_open(srv_server *s, lam_err *err)
{
    const srv_config *c = s->config;
    bool is_loopback = false;
    srv_listener *l = add_listener(s);
    LAM_TRY(listen_tcp(c->host, c->port, &l->fd, &is_loopback, err));
    limit_hosts(s, l, is_loopback);
    if (!is_loopback && !c->api_key_file)
        srv_log(SRV_LOG_WARN, "reachable from other machines without an API key", "host", c->host);
    if (c->admin_port) {
        l = add_listener(s);
        l->is_admin = true;
        LAM_TRY(listen_tcp(c->host, c->admin_port, &l->fd, &is_loopback, err));
        limit_hosts(s, l, is_loopback);
    }
    if (c->unix_socket) {
        l = add_listener(s);
        LAM_TRY(listen_unix(c->unix_socket, &l->fd, err));
    }
    return LAM_OK;
}

/* ---- Daemons
 * --------------------------------------------------------------------------------------- */

/* Paths are matched as they were sent: nothing is decoded, so nothing can be hidden by it. */
static size_t keep_escapes(void *cls, struct MHD_Connection *mhd, char *s)
{
    (void)cls;
    (void)mhd;
    return strlen(s);
}

/* The library's own complaints, at most one a second; without their values, which may hold input.
 */
static void complain(void *cls, const char *format, va_list values)
{
    (void)values;
    uint64_t *last_ns = cls;
    uint64_t now_ns = srv_now_ns();
    if (now_ns - *last_ns < 1000000000u) return;
    *last_ns = now_ns;
    char text[160];
    snprintf(text, sizeof text, "%.*s", (int)strcspn(format, "\n"), format);
    srv_log(SRV_LOG_DEBUG, "libmicrohttpd", "text", text);
}

static struct MHD_Daemon *start_daemon(srv_listener *l)
{
    static uint64_t last_complaint_ns;
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    unsigned limit = (unsigned)l->server->config->max_connections + RESERVE;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, srv_exchange_handle, l, MHD_OPTION_EXTERNAL_LOGGER, complain,
        &last_complaint_ns, MHD_OPTION_LISTEN_SOCKET, l->fd, MHD_OPTION_NOTIFY_CONNECTION,
        srv_conn_notify, l, MHD_OPTION_NOTIFY_COMPLETED, srv_exchange_completed, l,
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, l, MHD_OPTION_CONNECTION_LIMIT, limit,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SRV_CONNECTION_POOL_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
}

static void on_timer(uv_timer_t *t)
{
    srv_listener_run(t->data);
}

static void on_poll(uv_poll_t *p, int status, int events)
{
    (void)status;
    (void)events;
    srv_listener_run(p->data);
}

/* Two runs: the library looks at a freed place for a waiting client only when it is entered again.
 * Inside it is edge-triggered, so work it still knows of is asked for until it has none. */
void srv_listener_run(srv_listener *l)
{
    if (!l->daemon) return;
    MHD_UNSIGNED_LONG_LONG ms = 0;
    MHD_run(l->daemon);
    for (int runs = 0; runs < MAX_RUNS && ms == 0; runs++) {
        MHD_run(l->daemon);
        if (MHD_get_timeout(l->daemon, &ms) != MHD_YES) return;
    }
    /* Never 0: libuv 1.44 runs a timer that its own callback starts with 0 again at once, and a
     * connection on which the library makes no progress would keep the loop from everything else.
     */
    uv_timer_start(&l->timer, on_timer, ms > 0 ? ms : 1, 0);
}

void srv_listeners_run(srv_server *s)
{
    for (size_t i = 0; i < s->listener_count; i++)
        srv_listener_run(&s->listeners[i]);
}

lam_status srv_listeners_start(srv_server *s, lam_err *err)
{
    for (size_t i = 0; i < s->listener_count; i++) {
        srv_listener *l = &s->listeners[i];
        l->daemon = start_daemon(l);
        if (!l->daemon)
            return lam_fail(err, LAM_E_SYSTEM, "listener", "libmicrohttpd does not start");
        const union MHD_DaemonInfo *info = MHD_get_daemon_info(l->daemon, MHD_DAEMON_INFO_EPOLL_FD);
        if (!info || uv_poll_init(&s->loop, &l->poll, info->epoll_fd) != 0 ||
            uv_timer_init(&s->loop, &l->timer) != 0)
            return lam_fail(err, LAM_E_SYSTEM, "listener", "the loop cannot watch the sockets");
        l->has_handles = true;
        l->poll.data = l->timer.data = l;
        if (uv_poll_start(&l->poll, UV_READABLE, on_poll) != 0)
            return lam_fail(err, LAM_E_SYSTEM, "listener", "the loop cannot watch the sockets");
    }
    return LAM_OK;
}

static void close_socket(srv_listener *l)
{
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
}

void srv_listeners_quiesce(srv_server *s)
{
    for (size_t i = 0; i < s->listener_count; i++) {
        srv_listener *l = &s->listeners[i];
        if (l->daemon) (void)MHD_quiesce_daemon(l->daemon);
        close_socket(l);
    }
    if (s->config->unix_socket) (void)unlink(s->config->unix_socket);
}

void srv_listeners_close(srv_server *s)
{
    for (size_t i = 0; i < s->listener_count; i++) {
        srv_listener *l = &s->listeners[i];
        if (l->has_handles) {
            uv_poll_stop(&l->poll);
            uv_close((uv_handle_t *)&l->poll, NULL);
            uv_close((uv_handle_t *)&l->timer, NULL);
            l->has_handles = false;
        }
        if (l->daemon) {
            /* A socket that was not given up by quiescing is the daemon's and closed with it. */
            bool is_open = l->fd >= 0;
            MHD_stop_daemon(l->daemon);
            l->daemon = NULL;
            if (is_open) l->fd = -1;
        }
        close_socket(l);
    }
}
