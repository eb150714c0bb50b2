#include "core/import/bundle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char single_name[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";

void lam_warn(const lam_warner *w, const char *format, ...)
{
    char sentence[768];
    va_list args;
    if (w->warn == NULL) return;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    w->warn(w->arg, sentence);
}

static lam_status refuse_without_weights(const lam_dir *d, lam_err *err)
{
    static const char *const pickles[] = {"pytorch_model.bin", "pytorch_model.bin.index.json"};
    char where[sizeof d->name + 32];
    for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++) {
        if (!lam_dir_has(d, pickles[i])) continue;
        snprintf(where, sizeof where, "%s%s", d->name, pickles[i]);
        return lam_fail(
            err, LAM_E_UNSUPPORTED, where,
            "is a pickle file, which can run code when it is read; convert it to %s: in Python, "
            "AutoModel.from_pretrained(DIR).save_pretrained(DIR, safe_serialization=True)",
            single_name);
    }
    snprintf(where, sizeof where, "%s%s", d->name, single_name);
    return lam_fail(err, LAM_E_FILE, where, "file is missing, and so is %s", index_name);
}

static bool has_file(const lam_bundle *b, const char *display)
{
    for (size_t i = 0; i < b->count; i++)
        if (strcmp(b->files[i].file.name, display) == 0) return true;
    return false;
}

static lam_status open_shard(lam_bundle *b, const lam_dir *d, const char *tensor,
                             const json_t *value, lam_err *err)
{
    lam_quoted q, shard;
    char display[sizeof b->files->file.name];
    const char *name = json_string_value(value);
    lam_quote(&q, tensor, strlen(tensor));
    if (name == NULL)
        return lam_fail_in(err, LAM_E_FORMAT, b->index.file, q.text, "weight_map must name a file");
    lam_quote(&shard, name, strlen(name));
    if (!lam_file_name_is_inside(name))
        return lam_fail_in(err, LAM_E_FORMAT, b->index.file, q.text,
                           "weight_map names a file outside the directory: %s", shard.text);
    if (snprintf(display, sizeof display, "%s%s", d->name, shard.text) >= (int)sizeof display ||
        strcmp(shard.text, name) != 0)
        return lam_fail_in(err, LAM_E_FORMAT, b->index.file, q.text,
                           "weight_map names a file that cannot be right: %s", shard.text);
    if (has_file(b, display)) return LAM_OK;
    if (b->count == LAM_MAX_SHARDS)
        return lam_fail(err, LAM_E_LIMIT, b->index.file, "weight_map names more than %d files",
                        (int)LAM_MAX_SHARDS);
    LAM_TRY(lam_safetensors_open(&b->files[b->count], d, name, err));
    b->count++;
    return LAM_OK;
}

static lam_status open_shards(lam_bundle *b, const lam_dir *d, lam_err *err)
{
    const char *tensor;
    json_t *file;
    LAM_TRY(lam_json_read(&b->index, d, index_name, LAM_JSON_INTEGERS, err));
    json_t *map = lam_json_get(&b->index, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0)
        return lam_json_fail(&b->index, "weight_map", err,
                             "must be an object that names a file for each tensor");
    b->index.object = map;
    json_object_foreach(map, tensor, file)
    {
        LAM_TRY(open_shard(b, d, tensor, file, err));
    }
    return LAM_OK;
}

lam_status lam_bundle_open(lam_bundle *b, const lam_dir *d, const lam_warner *w, lam_err *err)
{
    *b = (lam_bundle){0};
    const bool single = lam_dir_has(d, single_name), sharded = lam_dir_has(d, index_name);
    if (!single && !sharded) return refuse_without_weights(d, err);
    if (single && sharded)
        lam_warn(w, "%s%s is used; %s beside it is ignored", d->name, single_name, index_name);
    b->files = calloc(single ? 1 : LAM_MAX_SHARDS, sizeof *b->files);
    if (b->files == NULL) return lam_fail(err, LAM_E_NOMEM, single_name, "out of memory");
    lam_status status;
    if (single) {
        status = lam_safetensors_open(b->files, d, single_name, err);
        b->count = status == LAM_OK;
    } else {
        status = open_shards(b, d, err);
    }
    if (status != LAM_OK) lam_bundle_close(b);
    return status;
}

void lam_bundle_close(lam_bundle *b)
{
    for (size_t i = 0; i < b->count; i++)
        lam_safetensors_close(&b->files[i]);
    free(b->files);
    lam_json_free(&b->index);
    b->files = NULL;
    b->count = 0;
}

const char *lam_bundle_name(const lam_bundle *b)
{
    return b->index.root != NULL ? b->index.file : b->files[0].file.name;
}

/* Shards were opened by the map, so each name in it has its file. */
static const lam_safetensors *shard_of(const lam_bundle *b, const char *name)
{
    const char *shard = json_string_value(json_object_get(b->index.object, name));
    if (shard == NULL) return NULL;
    const size_t n = strlen(shard);
    for (size_t i = 0; i < b->count; i++) {
        const char *file = b->files[i].file.name;
        const size_t file_n = strlen(file);
        if (file_n >= n && strcmp(file + file_n - n, shard) == 0 &&
            (file_n == n || file[file_n - n - 1] == '/'))
            return &b->files[i];
    }
    return NULL;
}

lam_status lam_bundle_find(const lam_bundle *b, const char *name, lam_tensor *out, lam_err *err)
{
    *out = (lam_tensor){0};
    const lam_safetensors *file = b->index.root != NULL ? shard_of(b, name) : &b->files[0];
    if (file == NULL) return LAM_OK;
    lam_st_entry *entry = lam_safetensors_find(file, name, strlen(name));
    if (entry == NULL && b->index.root != NULL)
        return lam_fail_in(err, LAM_E_WEIGHTS, file->file.name, name,
                           "tensor is missing, though %s says that it is here", b->index.file);
    if (entry != NULL) *out = (lam_tensor){file, entry};
    return LAM_OK;
}
