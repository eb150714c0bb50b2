#include "server/cli/pipeline.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/cli/progress.h"

/* Results of one chunk; more is an error of its lines. */
#define MAX_OUT_BYTES ((size_t)256 << 20)

typedef struct pipeline {
    const cli_work *work;
    cli_input *in;
    cli_output *out;
    uint64_t skip_lines;
    pthread_mutex_t lock;
    pthread_cond_t changed;          /* any of what follows */
    uint64_t filled, taken, written; /* chunks so far; chunk i lives in slot i % slot_count */
    bool closed;                     /* no more will be filled */
    bool stopping;                   /* the writer gave up */
    bool no_memory;
    bool too_short; /* the input ends within the lines to skip */
    cli_chunk *slots;
    size_t slot_count;
    void **states; /* [worker_count] */
    size_t worker_count;
} pipeline;

/* ---- Reader ---------------------------------------------------------------------------------- */

static bool append_line(cli_chunk *c, const char *line, size_t bytes, bool too_long)
{
    if (c->text_capacity - c->text_bytes < bytes) {
        size_t capacity = c->text_bytes + bytes + CLI_CHUNK_BYTES;
        char *text = realloc(c->text, capacity);
        if (!text) return false;
        c->text = text;
        c->text_capacity = capacity;
    }
    if (bytes > 0) memcpy(c->text + c->text_bytes, line, bytes);
    c->lines[c->line_count++] =
        (cli_chunk_line){.offset = c->text_bytes, .bytes = bytes, .too_long = too_long};
    c->text_bytes += bytes;
    return true;
}

/* Takes lines until the chunk is full, or nothing more is there at once. */
static bool fill_chunk(pipeline *p, cli_chunk *c)
{
    while (c->line_count < p->work->chunk_lines && c->text_bytes < CLI_CHUNK_BYTES) {
        const char *line = NULL;
        size_t bytes = 0;
        cli_line kind = cli_input_next(p->in, c->line_count == 0, &line, &bytes);
        if (kind == CLI_LINE_WAIT || kind == CLI_LINE_END) break;
        if (!append_line(c, line, bytes, kind == CLI_LINE_TOO_LONG)) return false;
    }
    c->input_bytes = p->in->used_bytes;
    return true;
}

static void clear_chunk(cli_chunk *c, uint64_t first_line)
{
    c->text_bytes = 0;
    c->line_count = 0;
    c->first_line = first_line;
    c->done = false;
    c->failed = c->truncated = c->tokens = c->vectors = 0;
    api_buffer_clear(&c->out);
    api_buffer_clear(&c->notes);
}

/* Waits for a free slot; NULL when stopping. */
static cli_chunk *next_free(pipeline *p)
{
    pthread_mutex_lock(&p->lock);
    while (!p->stopping && p->filled - p->written == p->slot_count)
        pthread_cond_wait(&p->changed, &p->lock);
    cli_chunk *c = p->stopping ? NULL : &p->slots[p->filled % p->slot_count];
    pthread_mutex_unlock(&p->lock);
    return c;
}

static bool skip(pipeline *p)
{
    const char *line;
    size_t bytes;
    for (uint64_t i = 0; i < p->skip_lines; i++)
        if (cli_input_next(p->in, true, &line, &bytes) == CLI_LINE_END) return false;
    return true;
}

static void *reader_main(void *arg)
{
    pipeline *p = arg;
    uint64_t line = p->skip_lines;
    bool skipped = skip(p), more = skipped, no_memory = false;
    while (more) {
        cli_chunk *c = next_free(p);
        if (!c) break;
        clear_chunk(c, line);
        no_memory = !fill_chunk(p, c);
        line += c->line_count;
        more = c->line_count > 0 && !no_memory;
        if (!more) break;
        pthread_mutex_lock(&p->lock);
        p->filled++;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
    }
    pthread_mutex_lock(&p->lock);
    p->closed = true;
    p->no_memory = no_memory;
    p->too_short = !skipped;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- Workers --------------------------------------------------------------------------------- */

typedef struct worker {
    pipeline *pipeline;
    void *state;
} worker;

static cli_chunk *next_filled(pipeline *p)
{
    cli_chunk *c = NULL;
    pthread_mutex_lock(&p->lock);
    while (!p->stopping && !p->closed && p->taken == p->filled)
        pthread_cond_wait(&p->changed, &p->lock);
    if (!p->stopping && p->taken < p->filled) c = &p->slots[p->taken++ % p->slot_count];
    pthread_mutex_unlock(&p->lock);
    return c;
}

static void *worker_main(void *arg)
{
    const worker *w = arg;
    pipeline *p = w->pipeline;
    for (cli_chunk *c; (c = next_filled(p)) != NULL;) {
        p->work->run(w->state, c);
        pthread_mutex_lock(&p->lock);
        c->done = true;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

/* ---- Writer ---------------------------------------------------------------------------------- */

static cli_chunk *next_done(pipeline *p)
{
    cli_chunk *c = NULL;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        bool any = p->written < p->filled;
        c = any ? &p->slots[p->written % p->slot_count] : NULL;
        if (any ? c->done : p->closed) break;
        pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return c;
}

static void count(cli_totals *t, const cli_chunk *c)
{
    t->lines += c->line_count;
    t->failed += c->failed;
    t->truncated += c->truncated;
    t->tokens += c->tokens;
    t->vectors += c->vectors;
}

/* False if the output fails. */
static bool write_all(pipeline *p, cli_progress *progress, cli_totals *totals)
{
    for (cli_chunk *c; (c = next_done(p)) != NULL;) {
        if (c->notes.size > 0) {
            cli_progress_clear(progress);
            (void)!write(STDERR_FILENO, c->notes.data, c->notes.size);
        }
        if (!cli_output_write(p->out, c->out.data, c->out.size)) return false;
        count(totals, c);
        cli_progress_show(progress, totals, c->input_bytes, p->in->size_bytes);
        pthread_mutex_lock(&p->lock);
        p->written++;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
    }
    return true;
}

/* ---- All together ---------------------------------------------------------------------------- */

static void stop_all(pipeline *p)
{
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    const uint64_t one = 1;
    (void)!write(p->in->wake_fd, &one, sizeof one);
}

static lam_status start_and_write(pipeline *p, pthread_t *threads, worker *workers, bool progress,
                                  cli_totals *totals, lam_err *err)
{
    lam_status s = LAM_OK;
    size_t started = 0;
    int failed = pthread_create(&threads[0], NULL, reader_main, p);
    if (!failed) started = 1;
    for (size_t i = 0; i < p->worker_count && !failed; i++) {
        workers[i] = (worker){.pipeline = p, .state = p->states[i]};
        failed = pthread_create(&threads[i + 1], NULL, worker_main, &workers[i]);
        if (!failed) started++;
    }
    cli_progress show;
    cli_progress_start(&show, progress);
    if (failed)
        s = lam_fail(err, LAM_E_SYSTEM, "a worker's thread", "%s", strerror(failed));
    else if (!write_all(p, &show, totals))
        s = lam_fail(err, LAM_E_FILE, p->out->name, "%s", strerror(p->out->error));
    if (s != LAM_OK) stop_all(p);
    totals->seconds = cli_progress_stop(&show);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (s == LAM_OK && p->in->error)
        s = lam_fail(err, LAM_E_FILE, p->in->name, "%s", strerror(p->in->error));
    if (s == LAM_OK && p->no_memory)
        s = lam_fail(err, LAM_E_NOMEM, p->in->name, "no memory for a line");
    if (s == LAM_OK && p->too_short)
        s = lam_fail(err, LAM_E_FILE, p->in->name,
                     "there are fewer lines than the output to be resumed has");
    return s;
}

static lam_status run_threads(pipeline *p, bool progress, cli_totals *totals, lam_err *err)
{
    pthread_t *threads = calloc(p->worker_count + 1, sizeof *threads);
    worker *workers = calloc(p->worker_count, sizeof *workers);
    lam_status s = LAM_E_NOMEM;
    if (threads && workers)
        s = start_and_write(p, threads, workers, progress, totals, err);
    else
        (void)lam_fail(err, s, "", "no memory for %zu threads", p->worker_count + 1);
    free(threads);
    free(workers);
    return s;
}

static lam_status prepare(pipeline *p, lam_err *err)
{
    p->slots = calloc(p->slot_count, sizeof *p->slots);
    p->states = calloc(p->worker_count, sizeof *p->states);
    if (!p->slots || !p->states)
        return lam_fail(err, LAM_E_NOMEM, "", "no memory for %zu workers", p->worker_count);
    for (size_t i = 0; i < p->slot_count; i++) {
        api_buffer_init(&p->slots[i].out, MAX_OUT_BYTES);
        api_buffer_init(&p->slots[i].notes, MAX_OUT_BYTES);
    }
    for (size_t i = 0; i < p->worker_count; i++) {
        p->states[i] = p->work->start(p->work->arg, err);
        if (!p->states[i]) return err ? err->status : LAM_E_NOMEM;
    }
    p->in->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p->in->wake_fd < 0) return lam_fail(err, LAM_E_SYSTEM, "eventfd", "%s", strerror(errno));
    return LAM_OK;
}

static void clean(pipeline *p)
{
    for (size_t i = 0; p->states && i < p->worker_count; i++)
        if (p->states[i]) p->work->stop(p->states[i]);
    for (size_t i = 0; p->slots && i < p->slot_count; i++) {
        free(p->slots[i].text);
        api_buffer_free(&p->slots[i].out);
        api_buffer_free(&p->slots[i].notes);
    }
    free(p->states);
    free(p->slots);
    if (p->in->wake_fd >= 0) (void)close(p->in->wake_fd);
    p->in->wake_fd = -1;
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
}

lam_status cli_pipeline_run(const cli_work *work, size_t workers, cli_input *in, cli_output *out,
                            uint64_t skip_lines, bool progress, cli_totals *totals, lam_err *err)
{
    pipeline p = {.work = work,
                  .in = in,
                  .out = out,
                  .skip_lines = skip_lines,
                  .worker_count = workers,
                  .slot_count = 2 * workers + 2};
    *totals = (cli_totals){0};
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.changed, NULL);
    lam_status s = prepare(&p, err);
    if (s == LAM_OK) s = run_threads(&p, progress, totals, err);
    clean(&p);
    return s;
}
