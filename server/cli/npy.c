#include "server/cli/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_BYTES = 128, PREFIX_BYTES = 10 };

/* The head has one size whatever the number of rows, so that it can be written over. */
static void make_head(char head[HEAD_BYTES], uint64_t rows, size_t width)
{
    char text[HEAD_BYTES];
    int n = snprintf(text, sizeof text,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRIu64 ", %zu), }",
                     rows, width);
    memset(head, ' ', HEAD_BYTES);
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    head[8] = HEAD_BYTES - PREFIX_BYTES;
    head[9] = 0;
    memcpy(head + PREFIX_BYTES, text, (size_t)n);
    head[HEAD_BYTES - 1] = '\n';
}

static bool can_patch(int fd)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && flags >= 0 && !(flags & O_APPEND);
}

static int open_nameless(void)
{
    const char *folder = getenv("TMPDIR");
    return open(folder && folder[0] ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

lam_status cli_npy_begin(cli_npy *n, cli_output *target, size_t width, cli_output **rows,
                         lam_err *err)
{
    *n = (cli_npy){.target = target, .width = width, .spool = {.fd = -1, .name = "spool file"}};
    if (can_patch(target->fd)) {
        char head[HEAD_BYTES];
        n->start = lseek(target->fd, 0, SEEK_CUR);
        make_head(head, 0, width);
        *rows = target;
        if (n->start >= 0 && cli_output_write(target, head, sizeof head)) return LAM_OK;
        return lam_fail(err, LAM_E_FILE, target->name, "%s", strerror(errno));
    }
    n->spool.fd = open_nameless();
    n->spool.owned = true;
    *rows = &n->spool;
    if (n->spool.fd >= 0) return LAM_OK;
    return lam_fail(err, LAM_E_FILE, target->name,
                    "npy to a pipe needs a file in TMPDIR or /tmp, which fails: %s",
                    strerror(errno));
}

static lam_status copy_spool(cli_npy *n, lam_err *err)
{
    char block[1 << 16];
    off_t at = 0;
    for (;;) {
        ssize_t got = pread(n->spool.fd, block, sizeof block, at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return lam_fail(err, LAM_E_FILE, n->spool.name, "%s", strerror(errno));
        if (got == 0) return LAM_OK;
        at += got;
        if (!cli_output_write(n->target, block, (size_t)got))
            return lam_fail(err, LAM_E_FILE, n->target->name, "%s", strerror(n->target->error));
    }
}

lam_status cli_npy_end(cli_npy *n, uint64_t rows, lam_err *err)
{
    char head[HEAD_BYTES];
    make_head(head, rows, n->width);
    lam_status s = LAM_OK;
    if (n->spool.fd < 0) {
        if (pwrite(n->target->fd, head, sizeof head, n->start) != (ssize_t)sizeof head)
            s = lam_fail(err, LAM_E_FILE, n->target->name, "%s", strerror(errno));
    } else if (!cli_output_write(n->target, head, sizeof head)) {
        s = lam_fail(err, LAM_E_FILE, n->target->name, "%s", strerror(n->target->error));
    } else {
        s = copy_spool(n, err);
    }
    cli_npy_abandon(n);
    return s;
}

void cli_npy_abandon(cli_npy *n)
{
    (void)cli_output_close(&n->spool, NULL);
}
