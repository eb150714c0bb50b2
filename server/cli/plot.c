#include "server/cli/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* All of it; a reader that went away is no signal here: the caller ignores SIGPIPE. */
static bool write_all(int fd, const char *s, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(fd, s, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        s += done;
        n -= (size_t)done;
    }
    return true;
}

/* gnuplot with `in` as its commands and `out` as its output. */
static int start(pid_t *pid, int in, int out)
{
    char name[] = "gnuplot";
    char *argv[] = {name, NULL};
    posix_spawn_file_actions_t actions;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed) return failed;
    failed = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    if (!failed) failed = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (!failed) failed = posix_spawnp(pid, name, &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed;
}

static lam_status run(int out, const char *commands, lam_err *err)
{
    int ends[2], status = 0;
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return lam_fail(err, LAM_E_SYSTEM, "gnuplot", "%s", strerror(errno));
    const int failed = start(&pid, ends[0], out);
    (void)close(ends[0]);
    if (failed) {
        (void)close(ends[1]);
        return lam_fail(err, LAM_E_SYSTEM, "gnuplot", "%s; Debian has it in gnuplot-nox",
                        strerror(failed));
    }
    const bool told = write_all(ends[1], commands, strlen(commands));
    (void)close(ends[1]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (told && WIFEXITED(status) && WEXITSTATUS(status) == 0) return LAM_OK;
    return lam_fail(err, LAM_E_SYSTEM, "gnuplot", "did not draw the figure");
}

lam_status cli_plot(const char *path, const char *commands, lam_err *err)
{
    char part[PATH_MAX];
    const int n = snprintf(part, sizeof part, "%s.part", path);
    if (n < 0 || (size_t)n >= sizeof part)
        return lam_fail(err, LAM_E_FILE, path, "the path is too long");
    const int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return lam_fail(err, LAM_E_FILE, path, "%s", strerror(errno));
    lam_status s = run(fd, commands, err);
    if (close(fd) != 0 && s == LAM_OK) s = lam_fail(err, LAM_E_FILE, path, "%s", strerror(errno));
    if (s == LAM_OK && rename(part, path) != 0)
        s = lam_fail(err, LAM_E_FILE, path, "%s", strerror(errno));
    if (s != LAM_OK) (void)unlink(part);
    return s;
}
