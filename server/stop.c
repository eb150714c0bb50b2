#include "server/stop.h"

#include <signal.h>
#include <unistd.h>

#include "server/conn.h"
#include "server/listener.h"
#include "server/log.h"
#include "server/notify.h"

void srv_stop_check(srv_server *s)
{
    if (s->closing && s->exchanges == 0) uv_stop(&s->loop);
}

/* Requests of slow clients may be left even then: they are answered or cut, and then nobody is
 * waited for. */
static void on_limit(uv_timer_t *t)
{
    srv_server *s = t->data;
    if (s->timed_out) {
        uv_stop(&s->loop);
        return;
    }
    s->timed_out = true;
    srv_log(SRV_LOG_WARN, "stop_timeout_ms passed; requests in flight are given up", NULL, NULL);
    srv_conns_cut_all(s, API_CODE_SHUTTING_DOWN, "the server is stopping");
    srv_listeners_run(s);
    srv_stop_check(s);
    uv_timer_start(&s->stop_limit, on_limit, 1000, 0);
}

static void on_drained(uv_timer_t *t)
{
    srv_server *s = t->data;
    s->closing = true;
    srv_listeners_quiesce(s);
    srv_conns_close_idle(s);
    srv_listeners_run(s);
    uv_timer_start(&s->stop_limit, on_limit, s->config->stop_timeout_ms, 0);
    srv_stop_check(s);
}

static void begin_stop(srv_server *s, const char *name)
{
    s->draining = true;
    s->ready = false;
    srv_log(SRV_LOG_INFO, "stopping", "signal", name);
    srv_notify("STOPPING=1");
    uv_timer_start(&s->drain, on_drained, s->config->drain_delay_ms, 0);
}

static const struct {
    const char *name;
    int number;
    bool stops;
} known[] = {
    {"SIGTERM", SIGTERM, true},  {"SIGINT", SIGINT, true},    {"SIGHUP", SIGHUP, false},
    {"SIGUSR1", SIGUSR1, false}, {"SIGUSR2", SIGUSR2, false},
};

static void on_signal(uv_signal_t *h, int number)
{
    srv_server *s = h->data;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].number != number) continue;
        if (!known[i].stops) {
            srv_log(SRV_LOG_INFO, "signal ignored", "signal", known[i].name);
        } else if (s->draining) {
            srv_log(SRV_LOG_WARN, "second signal: ending at once", "signal", known[i].name);
            srv_log_stop();
            _exit(128 + number);
        } else {
            begin_stop(s, known[i].name);
        }
    }
}

static void end_early(int number)
{
    (void)number;
    _exit(0);
}

void srv_signals_early(void)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct sigaction action = {.sa_handler = SIG_IGN};
        if (known[i].stops) action.sa_handler = end_early;
        (void)sigaction(known[i].number, &action, NULL);
    }
}

lam_status srv_signals_start(srv_server *s, lam_err *err)
{
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uv_signal_init(&s->loop, &s->signals[i]);
        s->signals[i].data = s;
        if (uv_signal_start(&s->signals[i], on_signal, known[i].number) != 0)
            return lam_fail(err, LAM_E_SYSTEM, known[i].name, "the signal cannot be watched");
    }
    uv_timer_init(&s->loop, &s->drain);
    uv_timer_init(&s->loop, &s->stop_limit);
    s->drain.data = s->stop_limit.data = s;
    return LAM_OK;
}

void srv_signals_close(srv_server *s)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (s->signals[i].data) uv_close((uv_handle_t *)&s->signals[i], NULL);
    if (!s->drain.data) return;
    uv_close((uv_handle_t *)&s->drain, NULL);
    uv_close((uv_handle_t *)&s->stop_limit, NULL);
}
