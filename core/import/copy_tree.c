#include "core/import/copy_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A model directory has folders in folders, but no deep tree; a link into its parent ends here. */
enum { MAX_DEPTH = 4, BLOCK_BYTES = 1 << 16 };

bool lam_copy_is_weights(const char *name)
{
    static const char *const ends[] = {".safetensors", ".safetensors.index.json",
                                       ".bin",         ".bin.index.json",
                                       ".h5",          ".msgpack",
                                       ".onnx",        ".onnx_data",
                                       ".ot",          ".pt",
                                       ".pth",         ".ckpt",
                                       ".gguf",        ".npz",
                                       ".lam",         ".tflite",
                                       ".mlmodel"};
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t k = strlen(ends[i]);
        if (n >= k && strcmp(name + n - k, ends[i]) == 0) return true;
    }
    return false;
}

static lam_status fail(const char *path, const char *what, lam_err *err)
{
    return lam_fail(err, LAM_E_FILE, path, "%s: %s", what, strerror(errno));
}

static lam_status join(char out[PATH_MAX], const char *folder, const char *name, lam_err *err)
{
    const int n = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    if (n < 0 || n >= PATH_MAX) return lam_fail(err, LAM_E_FILE, folder, "path is too long");
    return LAM_OK;
}

static lam_status copy_bytes(int from, int to, const char *source, const char *path, lam_err *err)
{
    char block[BLOCK_BYTES];
    for (;;) {
        const ssize_t n = read(from, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(source, "file cannot be read", err);
        if (n == 0) return LAM_OK;
        for (ssize_t done = 0; done < n;) {
            const ssize_t k = write(to, block + done, (size_t)(n - done));
            if (k < 0 && errno == EINTR) continue;
            if (k < 0) return fail(path, "file cannot be written", err);
            done += k;
        }
    }
}

static lam_status copy_file(const char *source, const char *path, lam_err *err)
{
    const int from = open(source, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (from < 0) return fail(source, "file cannot be opened", err);
    const int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    lam_status s =
        to < 0 ? fail(path, "file cannot be made", err) : copy_bytes(from, to, source, path, err);
    if (to >= 0 && close(to) != 0 && s == LAM_OK) s = fail(path, "file cannot be written", err);
    (void)close(from);
    return s;
}

static lam_status copy_folder(const char *from, const char *to, int depth, lam_err *err);

static lam_status copy_entry(const char *from, const char *to, const char *name, int depth,
                             lam_err *err)
{
    char source[PATH_MAX], path[PATH_MAX];
    struct stat st;
    if (name[0] == '.' || lam_copy_is_weights(name)) return LAM_OK;
    LAM_TRY(join(source, from, name, err));
    LAM_TRY(join(path, to, name, err));
    if (stat(source, &st) != 0) return fail(source, "file cannot be examined", err);
    if (S_ISDIR(st.st_mode))
        return depth < MAX_DEPTH ? copy_folder(source, path, depth + 1, err) : LAM_OK;
    return S_ISREG(st.st_mode) ? copy_file(source, path, err) : LAM_OK;
}

/* Bounded by MAX_DEPTH. */
static lam_status copy_folder(const char *from, const char *to, int depth, lam_err *err)
{
    DIR *d = opendir(from);
    if (!d) return fail(from, "folder cannot be opened", err);
    lam_status s = mkdir(to, 0777) == 0 ? LAM_OK : fail(to, "folder cannot be made", err);
    while (s == LAM_OK) {
        const struct dirent *e = readdir(d);
        if (!e) break;
        s = copy_entry(from, to, e->d_name, depth, err);
    }
    (void)closedir(d);
    return s;
}

lam_status lam_copy_tree(const char *from, const char *to, lam_err *err)
{
    return copy_folder(from, to, 0, err);
}

static lam_status remove_folder(const char *path, int depth, lam_err *err)
{
    DIR *d = opendir(path);
    if (!d) return errno == ENOENT ? LAM_OK : fail(path, "folder cannot be opened", err);
    lam_status s = LAM_OK;
    while (s == LAM_OK) {
        char inner[PATH_MAX];
        struct stat st;
        const struct dirent *e = readdir(d);
        if (!e) break;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        s = join(inner, path, e->d_name, err);
        if (s != LAM_OK) break;
        if (lstat(inner, &st) == 0 && S_ISDIR(st.st_mode) && depth <= MAX_DEPTH)
            s = remove_folder(inner, depth + 1, err);
        else if (unlink(inner) != 0)
            s = fail(inner, "file cannot be removed", err);
    }
    (void)closedir(d);
    if (s == LAM_OK && rmdir(path) != 0) s = fail(path, "folder cannot be removed", err);
    return s;
}

lam_status lam_remove_tree(const char *path, lam_err *err)
{
    return remove_folder(path, 0, err);
}
