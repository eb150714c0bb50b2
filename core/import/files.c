#include "core/import/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/checked.h"
#include "core/base/utf8.h"

static const char lfs_magic[] = "version https://git-lfs";

lam_status lam_fail_in(lam_err *err, lam_status status, const char *file, const char *what,
                       const char *format, ...)
{
    char where[sizeof err->where], message[sizeof err->message];
    va_list args;
    snprintf(where, sizeof where, "%s: %s", file, what);
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return lam_fail(err, status, where, "%s", message);
}

/* Bytes of s[0..n) that may stand in a message as they are: one character, or 0. */
static size_t printable_length(const char *s, size_t n)
{
    const unsigned char c = (unsigned char)s[0];
    if (c < 0x80) return c >= 0x20 && c != 0x7f ? 1 : 0;
    const size_t len = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (len > n || !lam_utf8_valid(s, len, NULL)) return 0;
    /* C1 controls: a terminal may obey them */
    return len == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0 ? 0 : len;
}

const char *lam_quote(lam_quoted *out, const char *name, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    enum { ROOM = LAM_QUOTE_MAX - 3 }; /* the dots always fit */
    size_t used = 0, i = 0;
    while (i < n) {
        const size_t len = printable_length(name + i, n - i);
        const size_t need = len != 0 ? len : 4;
        if (used + need > ROOM) break;
        if (len != 0) {
            memcpy(out->text + used, name + i, len);
            i += len;
        } else {
            const unsigned char c = (unsigned char)name[i++];
            const char escape[4] = {'\\', 'x', hex[c >> 4], hex[c & 15]};
            memcpy(out->text + used, escape, sizeof escape);
        }
        used += need;
    }
    if (i < n) {
        memcpy(out->text + used, "...", 3);
        used += 3;
    }
    out->text[used] = '\0';
    return out->text;
}

lam_status lam_dir_open(lam_dir *d, const char *path, lam_err *err)
{
    d->name[0] = '\0';
    d->fd = open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (d->fd >= 0) return LAM_OK;
    if (errno == ENOTDIR)
        return lam_fail(err, LAM_E_FILE, path,
                        "is not a directory; a model is a directory with config.json");
    return lam_fail(err, LAM_E_FILE, path, "model directory cannot be opened: %s", strerror(errno));
}

lam_status lam_dir_open_inside(lam_dir *d, const lam_dir *parent, const char *name, lam_err *err)
{
    lam_quoted q;
    const int n =
        snprintf(d->name, sizeof d->name, "%s%s%s", parent->name, name, name[0] ? "/" : "");
    if (n < 0 || (size_t)n >= sizeof d->name) {
        d->fd = -1;
        return lam_fail(err, LAM_E_FILE, lam_quote(&q, name, strlen(name)),
                        "folder name is too long");
    }
    d->fd = openat(parent->fd, name[0] ? name : ".",
                   O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (d->fd >= 0) return LAM_OK;
    return lam_fail(err, LAM_E_FILE, lam_quote(&q, name, strlen(name)),
                    "folder cannot be opened: %s", strerror(errno));
}

void lam_dir_close(lam_dir *d)
{
    if (d->fd >= 0) close(d->fd);
    d->fd = -1;
}

bool lam_dir_has(const lam_dir *d, const char *name)
{
    struct stat st;
    /* A dangling link is there: opening it then says what is wrong. */
    return fstatat(d->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
           (errno != ENOENT && errno != ENOTDIR);
}

bool lam_file_name_is_inside(const char *name)
{
    const char *part = name;
    for (;;) {
        const size_t n = strcspn(part, "/");
        if (n == 0 || (n == 2 && part[0] == '.' && part[1] == '.')) return false;
        if (part[n] == '\0') return true;
        part += n + 1;
    }
}

static lam_status check_regular(lam_file *f, lam_err *err)
{
    struct stat st;
    if (fstat(f->fd, &st) != 0)
        return lam_fail(err, LAM_E_FILE, f->name, "file cannot be examined: %s", strerror(errno));
    if (S_ISDIR(st.st_mode))
        return lam_fail(err, LAM_E_FILE, f->name, "is a directory, not a file");
    if (!S_ISREG(st.st_mode)) return lam_fail(err, LAM_E_FILE, f->name, "is not a regular file");
    f->bytes = (uint64_t)st.st_size;
    return LAM_OK;
}

lam_status lam_file_open(lam_file *f, const lam_dir *d, const char *name, lam_err *err)
{
    lam_quoted q;
    snprintf(f->name, sizeof f->name, "%s%s", d->name, lam_quote(&q, name, strlen(name)));
    f->bytes = 0;
    /* O_NONBLOCK: opening a FIFO must not wait for its writer. */
    f->fd = openat(d->fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (f->fd < 0 && errno == ENOENT) return lam_fail(err, LAM_E_FILE, f->name, "file is missing");
    if (f->fd < 0)
        return lam_fail(err, LAM_E_FILE, f->name, "file cannot be opened: %s", strerror(errno));
    const lam_status status = check_regular(f, err);
    if (status != LAM_OK) lam_file_close(f);
    return status;
}

void lam_file_close(lam_file *f)
{
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
}

lam_status lam_file_read_at(const lam_file *f, uint64_t offset, void *dst, size_t bytes,
                            lam_err *err)
{
    char *p = dst;
    while (bytes > 0) {
        const ssize_t n = pread(f->fd, p, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return lam_fail(err, LAM_E_FILE, f->name, "file cannot be read: %s", strerror(errno));
        if (n == 0)
            return lam_fail(err, LAM_E_FILE, f->name, "file became shorter while it was read");
        p += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return LAM_OK;
}

lam_status lam_file_check_lfs(const lam_file *f, lam_err *err)
{
    char head[sizeof lfs_magic - 1];
    if (f->bytes < sizeof head) return LAM_OK;
    LAM_TRY(lam_file_read_at(f, 0, head, sizeof head, err));
    if (memcmp(head, lfs_magic, sizeof head) != 0) return LAM_OK;
    return lam_fail(
        err, LAM_E_FILE, f->name,
        "is a Git LFS pointer, not the file itself; `git lfs pull` in that directory fetches it");
}

lam_status lam_file_read_all(const lam_file *f, size_t max_bytes, char **out, size_t *bytes,
                             lam_err *err)
{
    size_t room;
    *out = NULL;
    if (f->bytes > max_bytes)
        return lam_fail(err, LAM_E_LIMIT, f->name, "file has %llu bytes; at most %zu are read",
                        (unsigned long long)f->bytes, max_bytes);
    LAM_TRY(lam_file_check_lfs(f, err));
    if (!lam_add_size((size_t)f->bytes, 1, &room))
        return lam_fail(err, LAM_E_NOMEM, f->name, "out of memory");
    char *text = malloc(room);
    if (text == NULL) return lam_fail(err, LAM_E_NOMEM, f->name, "out of memory");
    const lam_status status = lam_file_read_at(f, 0, text, (size_t)f->bytes, err);
    if (status != LAM_OK) {
        free(text);
        return status;
    }
    text[f->bytes] = '\0';
    *out = text;
    *bytes = (size_t)f->bytes;
    return LAM_OK;
}
