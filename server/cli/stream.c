#include "server/cli/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK_BYTES = 256 << 10 };

/* ---- Input ----------------------------------------------------------------------------------- */

lam_status cli_input_open(cli_input *in, const char *path, lam_err *err)
{
    bool standard = strcmp(path, "-") == 0;
    *in = (cli_input){.fd = standard ? STDIN_FILENO : -1,
                      .name = standard ? "standard input" : path,
                      .wake_fd = -1};
    if (!standard) in->fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (in->fd < 0 || fstat(in->fd, &st) != 0)
        return lam_fail(err, LAM_E_FILE, in->name, "%s", strerror(errno));
    if (S_ISDIR(st.st_mode)) return lam_fail(err, LAM_E_FILE, in->name, "%s", strerror(EISDIR));
    if (S_ISREG(st.st_mode)) {
        off_t at = lseek(in->fd, 0, SEEK_CUR);
        if (at >= 0 && st.st_size > at) in->size_bytes = (uint64_t)(st.st_size - at);
    }
    in->capacity = BLOCK_BYTES;
    in->data = malloc(in->capacity);
    if (!in->data) return lam_fail(err, LAM_E_NOMEM, in->name, "no memory for a buffer");
    return LAM_OK;
}

void cli_input_close(cli_input *in)
{
    free(in->data);
    in->data = NULL;
    if (in->fd > STDERR_FILENO) (void)close(in->fd);
    in->fd = -1;
}

/* Makes room behind `end`: moves the rest to the front, then grows. False: the line is too long. */
static bool make_room(cli_input *in)
{
    if (in->begin > 0) {
        memmove(in->data, in->data + in->begin, in->end - in->begin);
        in->end -= in->begin;
        in->scanned -= in->begin;
        in->begin = 0;
    }
    if (in->end < in->capacity) return true;
    if (in->capacity > CLI_MAX_LINE_BYTES) return false;
    char *bigger = realloc(in->data, in->capacity * 2);
    if (!bigger) return false;
    in->data = bigger;
    in->capacity *= 2;
    return true;
}

/* Waits for bytes or for the wake descriptor; false if woken. */
static bool wait_readable(const cli_input *in)
{
    struct pollfd p[2] = {{.fd = in->fd, .events = POLLIN}, {.fd = in->wake_fd, .events = POLLIN}};
    while (poll(p, 2, -1) < 0)
        if (errno != EINTR) return true;
    return p[1].revents == 0;
}

static void fill(cli_input *in)
{
    while (wait_readable(in)) {
        ssize_t n = read(in->fd, in->data + in->end, in->capacity - in->end);
        if (n > 0) {
            in->end += (size_t)n;
            return;
        }
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n < 0) in->error = errno;
        break;
    }
    in->at_end = true;
}

static cli_line take(cli_input *in, size_t bytes, size_t used, const char **line, size_t *out)
{
    *line = in->data + in->begin;
    *out = bytes;
    in->begin += used;
    in->scanned = in->begin;
    in->used_bytes += used;
    if (*out > 0 && (*line)[*out - 1] == '\r') (*out)--;
    bool too_long = in->skipping || bytes > CLI_MAX_LINE_BYTES;
    in->skipping = false;
    if (!too_long) return CLI_LINE_OK;
    *out = 0;
    return CLI_LINE_TOO_LONG;
}

cli_line cli_input_next(cli_input *in, bool wait, const char **line, size_t *bytes)
{
    for (;;) {
        const char *from = in->data + in->scanned;
        const char *stop = memchr(from, '\n', in->end - in->scanned);
        if (stop) {
            size_t n = (size_t)(stop - in->data) - in->begin;
            return take(in, n, n + 1, line, bytes);
        }
        in->scanned = in->end;
        if (in->at_end) {
            size_t n = in->end - in->begin;
            if ((n == 0 && !in->skipping) || in->error) return CLI_LINE_END;
            return take(in, n, n, line, bytes);
        }
        if (!wait) return CLI_LINE_WAIT;
        if (!make_room(in)) {
            in->used_bytes += in->end - in->begin;
            in->begin = in->end = in->scanned = 0;
            in->skipping = true;
        }
        fill(in);
    }
}

/* ---- Output ---------------------------------------------------------------------------------- */

lam_status cli_output_open(cli_output *out, const char *path, lam_err *err)
{
    bool standard = strcmp(path, "-") == 0;
    *out = (cli_output){.fd = standard ? STDOUT_FILENO : -1,
                        .name = standard ? "standard output" : path,
                        .owned = !standard};
    if (standard) return LAM_OK;
    out->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    /* A pipe or device need not be readable. */
    if (out->fd < 0) out->fd = open(path, O_WRONLY | O_CLOEXEC);
    if (out->fd < 0) return lam_fail(err, LAM_E_FILE, out->name, "%s", strerror(errno));
    return LAM_OK;
}

lam_status cli_output_empty(cli_output *out, lam_err *err)
{
    struct stat st;
    if (!out->owned || fstat(out->fd, &st) != 0 || !S_ISREG(st.st_mode)) return LAM_OK;
    if (ftruncate(out->fd, 0) == 0) return LAM_OK;
    return lam_fail(err, LAM_E_FILE, out->name, "%s", strerror(errno));
}

bool cli_output_write(cli_output *out, const void *data, size_t bytes)
{
    const char *s = data;
    while (bytes > 0 && out->error == 0) {
        ssize_t n = write(out->fd, s, bytes);
        if (n >= 0) {
            s += n;
            bytes -= (size_t)n;
        } else if (errno == EAGAIN) {
            struct pollfd p = {.fd = out->fd, .events = POLLOUT};
            (void)poll(&p, 1, -1);
        } else if (errno != EINTR) {
            out->error = errno;
        }
    }
    return out->error == 0;
}

lam_status cli_output_close(cli_output *out, lam_err *err)
{
    if (out->owned && out->fd >= 0 && close(out->fd) != 0 && out->error == 0) out->error = errno;
    out->fd = -1;
    if (out->error == 0) return LAM_OK;
    return lam_fail(err, LAM_E_FILE, out->name, "%s", strerror(out->error));
}

lam_status cli_output_resume(cli_output *out, uint64_t *lines, lam_err *err)
{
    struct stat st;
    if (fstat(out->fd, &st) != 0 || !S_ISREG(st.st_mode))
        return lam_fail(err, LAM_E_FILE, out->name, "only a regular file can be resumed");
    char block[1 << 14];
    off_t complete = 0, at = 0;
    *lines = 0;
    for (;;) {
        ssize_t n = pread(out->fd, block, sizeof block, at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return lam_fail(err, LAM_E_FILE, out->name, "%s", strerror(errno));
        if (n == 0) break;
        for (ssize_t i = 0; i < n; i++) {
            if (block[i] != '\n') continue;
            complete = at + i + 1;
            (*lines)++;
        }
        at += n;
    }
    if (ftruncate(out->fd, complete) != 0 || lseek(out->fd, complete, SEEK_SET) < 0)
        return lam_fail(err, LAM_E_FILE, out->name, "%s", strerror(errno));
    return LAM_OK;
}

bool cli_same_file(const cli_input *in, const cli_output *out)
{
    struct stat a, b;
    return fstat(in->fd, &a) == 0 && fstat(out->fd, &b) == 0 && S_ISREG(a.st_mode) &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}
