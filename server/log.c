#include "server/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RING_BYTES = 1 << 20, WRITE_BYTES = 1 << 16, FLUSH_MS = 20, LAST_FLUSH_MS = 1000 };

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t wake, emptied;
    pthread_t thread;
    bool running, stopping;
    char ring[RING_BYTES];
    size_t head, size; /* oldest byte, bytes held */
} state = {.mutex = PTHREAD_MUTEX_INITIALIZER,
           .wake = PTHREAD_COND_INITIALIZER,
           .emptied = PTHREAD_COND_INITIALIZER};

static atomic_int wanted_level = SRV_LOG_INFO;
static atomic_bool as_json = true;
static _Atomic uint64_t dropped;

static const char *const level_names[] = {
#define X(name, text) text,
    SRV_LOG_LEVEL_MAP(X)
#undef X
};

void srv_log_configure(srv_log_format format, srv_log_level level)
{
    bool json = format == SRV_LOG_JSON || (format == SRV_LOG_AUTO && !isatty(STDERR_FILENO));
    atomic_store(&as_json, json);
    atomic_store(&wanted_level, (int)level);
}

bool srv_log_wants(srv_log_level level)
{
    return (int)level <= atomic_load_explicit(&wanted_level, memory_order_relaxed);
}

uint64_t srv_log_dropped(void)
{
    return atomic_load_explicit(&dropped, memory_order_relaxed);
}

static void write_all(const char *s, size_t n)
{
    while (n > 0) {
        ssize_t written = write(STDERR_FILENO, s, n);
        if (written > 0) {
            s += written;
            n -= (size_t)written;
        } else if (written < 0 && errno == EAGAIN) {
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        } else if (written == 0 || errno != EINTR) {
            atomic_fetch_add(&dropped, 1); /* reader gone or disk full: the service goes on */
            return;
        }
    }
}

static struct timespec in_ms(long ms)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

/* Lines are gathered for some milliseconds: a wake-up for each would cost the writers more than the
 * line. */
static void *drain(void *arg)
{
    (void)arg;
    static char out[WRITE_BYTES];
    pthread_mutex_lock(&state.mutex);
    while (!state.stopping || state.size > 0) {
        if (state.size == 0) {
            pthread_cond_broadcast(&state.emptied);
            pthread_cond_wait(&state.wake, &state.mutex);
            continue;
        }
        if (!state.stopping && state.size < WRITE_BYTES) {
            struct timespec until = in_ms(FLUSH_MS);
            pthread_mutex_unlock(&state.mutex);
            clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL);
            pthread_mutex_lock(&state.mutex);
        }
        size_t n = state.size < sizeof out ? state.size : sizeof out;
        size_t first = RING_BYTES - state.head < n ? RING_BYTES - state.head : n;
        memcpy(out, state.ring + state.head, first);
        memcpy(out + first, state.ring, n - first);
        state.head = (state.head + n) % RING_BYTES;
        state.size -= n;
        pthread_mutex_unlock(&state.mutex);
        write_all(out, n);
        pthread_mutex_lock(&state.mutex);
    }
    state.running = false;
    pthread_cond_broadcast(&state.emptied);
    pthread_mutex_unlock(&state.mutex);
    return NULL;
}

bool srv_log_start(void)
{
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0) return false;
    state.stopping = false;
    state.running = true;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int rc = pthread_create(&state.thread, &attr, drain, NULL);
    pthread_attr_destroy(&attr);
    if (rc != 0) state.running = false;
    return rc == 0;
}

void srv_log_stop(void)
{
    struct timespec until = in_ms(LAST_FLUSH_MS);
    pthread_mutex_lock(&state.mutex);
    state.stopping = true;
    pthread_cond_signal(&state.wake);
    /* The thread is detached: a reader that never reads must not keep the process from ending. */
    while (state.running && pthread_cond_timedwait(&state.emptied, &state.mutex, &until) == 0) {
    }
    pthread_mutex_unlock(&state.mutex);
}

static void submit(const char *s, size_t n)
{
    pthread_mutex_lock(&state.mutex);
    bool direct = !state.running;
    bool wake = false;
    if (!direct && n > RING_BYTES - state.size) {
        atomic_fetch_add(&dropped, 1);
    } else if (!direct) {
        size_t tail = (state.head + state.size) % RING_BYTES;
        size_t first = RING_BYTES - tail < n ? RING_BYTES - tail : n;
        memcpy(state.ring + tail, s, first);
        memcpy(state.ring, s + first, n - first);
        wake = state.size == 0;
        state.size += n;
    }
    pthread_mutex_unlock(&state.mutex);
    if (wake) pthread_cond_signal(&state.wake);
    if (direct) write_all(s, n);
}

/* Leaves room for the end of the line. */
static void put(srv_line *l, const char *s, size_t n)
{
    size_t room = sizeof l->text - 4 - l->size;
    if (n > room) n = room;
    memcpy(l->text + l->size, s, n);
    l->size += n;
}

static void puts_line(srv_line *l, const char *s)
{
    put(l, s, strlen(s));
}

/* Quotes, backslashes and control bytes are escaped in both formats: one event stays one line. */
static void put_escaped(srv_line *l, const char *s)
{
    for (; *s && l->size + 12 < sizeof l->text; s++) {
        unsigned char c = (unsigned char)*s;
        char escape[8];
        if (c == '"' || c == '\\') {
            put(l, (char[]){'\\', (char)c}, 2);
        } else if (c < 0x20 || c >= 0x7f) {
            int n = snprintf(escape, sizeof escape, "\\u%04x", c);
            put(l, escape, (size_t)n);
        } else {
            put(l, s, 1);
        }
    }
}

static void put_key(srv_line *l, const char *key)
{
    puts_line(l, l->json ? ",\"" : " ");
    puts_line(l, key);
    puts_line(l, l->json ? "\":" : "=");
}

void srv_line_begin(srv_line *l, srv_log_level level, const char *msg)
{
    struct timespec now;
    struct tm tm;
    char ts[64];
    l->level = level;
    l->json = atomic_load_explicit(&as_json, memory_order_relaxed);
    l->size = 0;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(ts, sizeof ts, l->json ? "%Y-%m-%dT%H:%M:%S" : "%H:%M:%S", &tm);
    n += (size_t)snprintf(ts + n, sizeof ts - n, ".%03ld%s", now.tv_nsec / 1000000,
                          l->json ? "Z" : "");
    puts_line(l, l->json ? "{\"ts\":\"" : "");
    put(l, ts, n);
    puts_line(l, l->json ? "\",\"level\":\"" : " ");
    puts_line(l, level_names[level]);
    puts_line(l, l->json ? "\",\"msg\":\"" : " ");
    put_escaped(l, msg);
    if (l->json) puts_line(l, "\"");
}

void srv_line_text(srv_line *l, const char *key, const char *value)
{
    /* A cut inside a quoted value would break the line; a value that may not fit is left out. */
    if (l->size + strlen(key) + 64 > sizeof l->text) return;
    put_key(l, key);
    if (l->json) puts_line(l, "\"");
    put_escaped(l, value);
    if (l->json) puts_line(l, "\"");
}

static void put_number(srv_line *l, const char *key, const char *digits)
{
    if (l->size + strlen(key) + 64 > sizeof l->text) return;
    put_key(l, key);
    puts_line(l, digits);
}

void srv_line_u64(srv_line *l, const char *key, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    put_number(l, key, digits);
}

void srv_line_seconds(srv_line *l, const char *key, uint64_t ns)
{
    char digits[40];
    snprintf(digits, sizeof digits, "%llu.%06llu", (unsigned long long)(ns / 1000000000u),
             (unsigned long long)(ns % 1000000000u / 1000u));
    put_number(l, key, digits);
}

void srv_line_end(srv_line *l)
{
    size_t n = l->size;
    if (l->json) l->text[n++] = '}';
    l->text[n++] = '\n';
    submit(l->text, n);
}

void srv_log(srv_log_level level, const char *msg, const char *key, const char *value)
{
    if (!srv_log_wants(level)) return;
    srv_line l;
    srv_line_begin(&l, level, msg);
    if (key) srv_line_text(&l, key, value);
    srv_line_end(&l);
}
