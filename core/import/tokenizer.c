#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/import/import.h"
#include "core/import/tokenizer_spec.h"

/* Splits a path to a file into its directory and name. */
static lam_status split_path(const char *path, char *folder, size_t size, const char **name,
                             lam_err *err)
{
    const char *const slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    const size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    if (n >= size) return lam_fail(err, LAM_E_FILE, path, "path is too long");
    memcpy(folder, path, n);
    folder[n] = '\0';
    if (n == 0) snprintf(folder, size, ".");
    return LAM_OK;
}

static lam_status read_and_build(lam_tokenizer **out, const lam_dir *dir, const char *name,
                                 lam_err *err)
{
    lam_tokenizer_draft d = {.err = err, .spec = {.file = name}};
    lam_arena_init(&d.arena, SIZE_MAX);
    const size_t n = strlen(name);
    const bool lines = n > 4 && strcmp(name + n - 4, ".txt") == 0;
    lam_status status =
        lines ? lam_tokenizer_read_vocab(&d, dir, name) : lam_tokenizer_read_json(&d, dir, name);
    if (status == LAM_OK) status = lam__tokenizer_build(out, &d.spec, err);
    lam_tokenizer_draft_free(&d);
    return status;
}

lam_status lam_import_tokenizer(lam_tokenizer **out, const char *path, lam_err *err)
{
    *out = NULL;
    char folder[4096];
    const char *name = NULL;
    struct stat info;
    lam_dir dir;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        LAM_TRY(lam_dir_open(&dir, path, err));
        name = lam_dir_has(&dir, "tokenizer.json") || !lam_dir_has(&dir, "vocab.txt")
                   ? "tokenizer.json"
                   : "vocab.txt";
    } else {
        LAM_TRY(split_path(path, folder, sizeof folder, &name, err));
        LAM_TRY(lam_dir_open(&dir, folder, err));
    }
    const lam_status status = read_and_build(out, &dir, name, err);
    lam_dir_close(&dir);
    return status;
}
