/* lamina healthcheck: one GET over a plain socket, for containers and scripts. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server/cli/cli.h"

enum { MAX_HOST_BYTES = 256, MAX_PATH_BYTES = 1024, REPLY_BYTES = 64 };

#define HEALTH_MAP(X) X(NUMBER, timeout_ms, 5000, 1, 600000, "MS", "longest time for the answer")

typedef struct health_options {
    HEALTH_MAP(SRV_FIELD)
} health_options;

#define X(type, ...) SRV_ROW_##type(health_options, __VA_ARGS__)
static const srv_option options[] = {HEALTH_MAP(X)};
#undef X

typedef struct target {
    char host[MAX_HOST_BYTES];
    char port[8];
    char path[MAX_PATH_BYTES];
    bool bracketed; /* an IPv6 address */
} target;

/* ---- Where to ask ---------------------------------------------------------------------------- */

static bool copy_part(char *out, size_t room, const char *s, size_t n)
{
    if (n == 0 || n >= room) return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] <= 0x20 || (unsigned char)s[i] >= 0x7f) return false;
    memcpy(out, s, n);
    out[n] = '\0';
    return true;
}

/* http://HOST[:PORT][/PATH] */
static lam_status read_url(const char *url, target *t, lam_err *err)
{
    static const char scheme[] = "http://";
    if (strncmp(url, scheme, sizeof scheme - 1) != 0)
        return lam_fail(err, LAM_E_CONFIG, url, "the URL does not begin with http://");
    const char *s = url + sizeof scheme - 1;
    t->bracketed = *s == '[';
    if (t->bracketed) s++;
    size_t n = strcspn(s, t->bracketed ? "]" : ":/");
    if (!copy_part(t->host, sizeof t->host, s, n) || (t->bracketed && s[n] != ']'))
        return lam_fail(err, LAM_E_CONFIG, url, "the URL's host is malformed");
    s += n + t->bracketed;
    (void)snprintf(t->port, sizeof t->port, "80");
    if (*s == ':') {
        uint64_t port;
        n = strcspn(++s, "/");
        if (!srv_number_parse(s, n, &port) || port < 1 || port > 65535)
            return lam_fail(err, LAM_E_CONFIG, url, "the URL's port is not 1 to 65535");
        (void)snprintf(t->port, sizeof t->port, "%u", (unsigned)port);
        s += n;
    }
    if (*s == '\0') s = "/readyz";
    if (*s != '/' || !copy_part(t->path, sizeof t->path, s, strlen(s)))
        return lam_fail(err, LAM_E_CONFIG, url, "the URL's path is malformed");
    return LAM_OK;
}

/* Where a server with the same settings listens. */
static lam_status read_settings(target *t, lam_err *err)
{
    srv_config c;
    LAM_TRY(srv_config_load(&c, NULL, (const char *const *)environ, NULL, 0, err));
    const char *host = c.host;
    if (strcmp(host, "0.0.0.0") == 0) host = "127.0.0.1";
    if (strcmp(host, "::") == 0) host = "::1";
    uint64_t port = c.admin_port ? c.admin_port : c.port;
    (void)snprintf(t->host, sizeof t->host, "%s", host);
    (void)snprintf(t->port, sizeof t->port, "%u", (unsigned)port);
    (void)snprintf(t->path, sizeof t->path, "/readyz");
    t->bracketed = strchr(t->host, ':') != NULL;
    srv_config_free(&c);
    if (port == 0)
        return lam_fail(err, LAM_E_CONFIG, "LAM_PORT", "port 0 is not known here; give the URL");
    return LAM_OK;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Waits for `events`; false with errno at the deadline or on an error. */
static bool wait_for(int fd, short events, int64_t deadline_ms)
{
    for (;;) {
        int64_t left = deadline_ms - now_ms();
        struct pollfd p = {.fd = fd, .events = events};
        int n = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (n > 0) return true;
        if (n == 0) errno = ETIMEDOUT;
        if (n == 0 || errno != EINTR) return false;
    }
}

static int connect_to(const struct addrinfo *a, int64_t deadline_ms)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    int error = 0;
    socklen_t size = sizeof error;
    if (connect(fd, a->ai_addr, a->ai_addrlen) == 0) return fd;
    if (errno == EINPROGRESS && wait_for(fd, POLLOUT, deadline_ms) &&
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0) {
        if (error == 0) return fd;
        errno = error;
    }
    error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

static bool send_all(int fd, const char *s, size_t n, int64_t deadline_ms)
{
    while (n > 0) {
        ssize_t k = wait_for(fd, POLLOUT, deadline_ms) ? send(fd, s, n, MSG_NOSIGNAL) : -1;
        if (k < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (k < 0) return false;
        s += k;
        n -= (size_t)k;
    }
    return true;
}

/* The first bytes of the reply, which hold its status. */
static bool receive_head(int fd, char reply[REPLY_BYTES], int64_t deadline_ms)
{
    size_t n = 0;
    while (n < REPLY_BYTES - 1 && !memchr(reply, '\n', n)) {
        ssize_t k =
            wait_for(fd, POLLIN, deadline_ms) ? recv(fd, reply + n, REPLY_BYTES - 1 - n, 0) : -1;
        if (k < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (k < 0) return false;
        if (k == 0) break;
        n += (size_t)k;
    }
    reply[n] = '\0';
    return true;
}

/* The status of the answer; 0 with a reason if there was none. */
static unsigned ask(int fd, const target *t, int64_t deadline_ms, const char **reason)
{
    char request[MAX_PATH_BYTES + MAX_HOST_BYTES + 128], reply[REPLY_BYTES] = "";
    int n = snprintf(request, sizeof request,
                     "GET %s HTTP/1.1\r\nHost: %s%s%s:%s\r\nUser-Agent: lamina-healthcheck\r\n"
                     "Connection: close\r\n\r\n",
                     t->path, t->bracketed ? "[" : "", t->host, t->bracketed ? "]" : "", t->port);
    if (!send_all(fd, request, (size_t)n, deadline_ms) || !receive_head(fd, reply, deadline_ms)) {
        *reason = strerror(errno);
        return 0;
    }
    uint64_t status = 0;
    if (strncmp(reply, "HTTP/1.", 7) != 0 || strlen(reply) < 12 || reply[8] != ' ' ||
        !srv_number_parse(reply + 9, 3, &status)) {
        *reason = "the answer is not HTTP";
        return 0;
    }
    return (unsigned)status;
}

static unsigned ask_any(const target *t, int64_t deadline_ms, const char **reason)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int failed = getaddrinfo(t->host, t->port, &hints, &list);
    if (failed) {
        *reason = gai_strerror(failed);
        return 0;
    }
    int fd = -1;
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
        fd = connect_to(a, deadline_ms);
    *reason = strerror(errno);
    freeaddrinfo(list);
    if (fd < 0) return 0;
    unsigned status = ask(fd, t, deadline_ms, reason);
    (void)close(fd);
    return status;
}

static int run(const cli_args *args)
{
    health_options o;
    target t = {0};
    lam_err err;
    if (cli_options_load(args, options, 1, &o, &err) != LAM_OK) return cli_fail(&err);
    lam_status s = args->word_count ? read_url(args->words[0], &t, &err) : read_settings(&t, &err);
    if (s != LAM_OK) return cli_fail(&err);
    char url[MAX_HOST_BYTES + MAX_PATH_BYTES + 32];
    (void)snprintf(url, sizeof url, "http://%s%s%s:%s%s", t.bracketed ? "[" : "", t.host,
                   t.bracketed ? "]" : "", t.port, t.path);
    const char *reason = "";
    unsigned status = ask_any(&t, now_ms() + (int64_t)o.timeout_ms, &reason);
    if (status == 0) {
        (void)cli_complain(url, "%s", reason);
        return CLI_NO;
    }
    (void)printf("%s: %u\n", url, status);
    return cli_finish(status >= 200 && status < 300 ? CLI_DONE : CLI_NO);
}

const cli_command cli_healthcheck = {
    .name = "healthcheck",
    .words = "[URL]",
    .max_words = 1,
    .summary = "ask a server whether it is ready",
    .about =
        "Asks URL (http://HOST[:PORT][/PATH], path /readyz if it has none) and ends with 0 if\n"
        "the status is 2xx, else with 1. Without URL it asks the server that the settings in\n"
        "the environment describe (LAM_HOST, LAM_PORT, LAM_ADMIN_PORT, LAM_CONFIG), which is\n"
        "http://127.0.0.1:8080/readyz by default.\n",
    .examples = "  lamina healthcheck\n"
                "  lamina healthcheck http://127.0.0.1:9000/livez --timeout-ms 500\n",
    .groups = {{"Options", options, 1}},
    .run = run,
};
