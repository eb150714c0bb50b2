/* A path -> a tokenizer: which file, and what its readers share. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/import/import.h"
#include "core/import/tokenizer_spec.h"

static lam_status no_memory(const lam_tokenizer_reader *r, lam_err *err)
{
    return lam_fail(err, LAM_E_NOMEM, r->spec.file, "no memory for its description");
}

lam_status lam_tokenizer_bert_template(lam_tokenizer_reader *r, int32_t cls, int32_t sep,
                                       lam_err *err)
{
    const lam__template_item items[] = {
        {.kind = LAM__TEMPLATE_SPECIAL, .id = cls},
        {.kind = LAM__TEMPLATE_FIRST},
        {.kind = LAM__TEMPLATE_SPECIAL, .id = sep},
        {.kind = LAM__TEMPLATE_SECOND, .type_id = 1},
        {.kind = LAM__TEMPLATE_SPECIAL, .id = sep, .type_id = 1},
    };
    lam__template_item *copy = lam_arena_alloc(&r->arena, sizeof items);
    if (!copy) return no_memory(r, err);
    memcpy(copy, items, sizeof items);
    r->spec.single[0] = (lam__template_spec){copy, 3};
    r->spec.pair[0] = (lam__template_spec){copy, 5};
    return LAM_OK;
}

static lam_status without_specials(lam_tokenizer_reader *r, lam__template_spec form[2],
                                   lam_err *err)
{
    lam__template_item *items = lam_arena_calloc(&r->arena, form[0].count + 1, sizeof *items);
    if (!items) return no_memory(r, err);
    form[1] = (lam__template_spec){items, 0};
    for (size_t i = 0; i < form[0].count; i++)
        if (form[0].items[i].kind != LAM__TEMPLATE_SPECIAL)
            items[form[1].count++] = form[0].items[i];
    return LAM_OK;
}

lam_status lam_tokenizer_plain_templates(lam_tokenizer_reader *r, lam_err *err)
{
    LAM_TRY(without_specials(r, r->spec.single, err));
    return without_specials(r, r->spec.pair, err);
}

/* Reads the file `name` of the directory, or the one that it has. */
static lam_status read_from(lam_tokenizer **out, const lam_dir *dir, const char *name, lam_err *err)
{
    if (!name) name = lam_dir_has(dir, "tokenizer.json") ? "tokenizer.json" : "vocab.txt";
    if (!lam_dir_has(dir, name))
        return lam_fail(err, LAM_E_FILE, "tokenizer.json",
                        "file is missing, and there is no vocab.txt either");
    lam_tokenizer_reader r = {.dir = dir, .spec = {.file = name}};
    lam_arena_init(&r.arena, SIZE_MAX);
    const size_t n = strlen(name);
    const bool lines = n > 4 && strcmp(name + n - 4, ".txt") == 0;
    const lam_status status = lines ? lam_vocab_txt_read(out, &r, name, err)
                                    : lam_tokenizer_json_read(out, &r, name, err);
    lam_arena_fini(&r.arena);
    return status;
}

/* The directory part of a path of a file, "." if it has none. */
static lam_status parent_of(const char *path, char out[PATH_MAX], const char **name, lam_err *err)
{
    const char *slash = strrchr(path, '/');
    const int n = slash ? (int)(slash - path) + 1 : 1;
    *name = slash ? slash + 1 : path;
    if (snprintf(out, PATH_MAX, "%.*s", n, slash ? path : ".") >= PATH_MAX)
        return lam_fail(err, LAM_E_FILE, "path", "path is too long");
    return LAM_OK;
}

lam_status lam_import_tokenizer(lam_tokenizer **out, const char *path, lam_err *err)
{
    *out = NULL;
    struct stat st;
    char parent[PATH_MAX];
    const char *directory = path, *name = NULL;
    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
        LAM_TRY(parent_of(path, parent, &name, err));
        directory = parent;
    }
    lam_dir dir;
    LAM_TRY(lam_dir_open(&dir, directory, err));
    const lam_status status = read_from(out, &dir, name, err);
    lam_dir_close(&dir);
    return status;
}
