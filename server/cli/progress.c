#include "server/cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "server/cli/pipeline.h"

static const double INTERVAL_S = 0.25;

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void cli_progress_start(cli_progress *p, bool wanted)
{
    *p = (cli_progress){.on = wanted && isatty(STDERR_FILENO) == 1, .start = now_s()};
    p->last = p->start;
}

static void print_eta(double seconds)
{
    if (seconds >= 360000.0) return;
    unsigned s = (unsigned)(seconds + 0.5);
    if (s >= 3600)
        (void)fprintf(stderr, ", %u:%02u:%02u left", s / 3600, s / 60 % 60, s % 60);
    else
        (void)fprintf(stderr, ", %u:%02u left", s / 60, s % 60);
}

void cli_progress_show(cli_progress *p, const cli_totals *t, uint64_t input_bytes,
                       uint64_t size_bytes)
{
    if (!p->on) return;
    double now = now_s();
    if (p->first_bytes == 0) p->first_bytes = input_bytes;
    if (now - p->last < INTERVAL_S) return;
    p->last = now;
    p->shown = true;
    double passed = now - p->start;
    (void)fprintf(stderr, "\r%" PRIu64 " lines, %.0f lines/s, %.0f tokens/s", t->lines,
                  (double)t->lines / passed, (double)t->tokens / passed);
    if (size_bytes > input_bytes && input_bytes > p->first_bytes)
        print_eta(passed * (double)(size_bytes - input_bytes) /
                  (double)(input_bytes - p->first_bytes));
    (void)fputs("\x1b[K", stderr);
}

void cli_progress_clear(cli_progress *p)
{
    if (p->shown) (void)fputs("\r\x1b[K", stderr);
    p->shown = false;
}

double cli_progress_stop(cli_progress *p)
{
    cli_progress_clear(p);
    return now_s() - p->start;
}

void cli_print_totals(const char *verb, const cli_totals *t)
{
    (void)fprintf(stderr, "%s %" PRIu64 " lines in %.3g s", verb, t->lines, t->seconds);
    if (t->seconds > 0.0)
        (void)fprintf(stderr, ", %.0f lines/s, %.0f tokens/s", (double)t->lines / t->seconds,
                      (double)t->tokens / t->seconds);
    if (t->truncated > 0) (void)fprintf(stderr, ", %" PRIu64 " truncated", t->truncated);
    if (t->failed > 0) (void)fprintf(stderr, ", %" PRIu64 " failed", t->failed);
    (void)fputc('\n', stderr);
}
