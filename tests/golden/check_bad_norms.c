/* Configurations of norms, and tensors of theirs, that must be refused by the name of the key or
 * tensor to blame; and some that must load.
 *
 * check_bad_norms [DATA]: DATA is tests/data, with bad-config/ and the models it names in norms/.
 * Edited models are put together in a temporary directory. */
#include <unistd.h>

#include "tests/golden/golden.h"

/* A tensor of the model under test; its bytes are malloc'd. */
typedef struct tensor {
    char name[256];
    const char *dtype;
    size_t shape[LAM_ST_MAX_RANK], rank, bytes;
    char *data;
} tensor;

enum { MOST = 256 };

typedef struct model {
    tensor tensors[MOST];
    size_t count;
} model;

static tensor *find(model *m, const char *name)
{
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->tensors[i].name, name) == 0) return &m->tensors[i];
    printf("FAILED no tensor %s to edit\n0 passed, 1 failed\n", name);
    exit(1);
}

static bool load_model(model *m, const char *path)
{
    lam_dir dir;
    lam_safetensors st;
    m->count = 0;
    if (lam_dir_open(&dir, path, NULL) != LAM_OK) return false;
    bool ok = lam_safetensors_open(&st, &dir, "model.safetensors", NULL) == LAM_OK;
    for (size_t i = 0; ok && i < st.count && m->count < MOST; i++) {
        const lam_st_entry *e = &st.entries[i];
        tensor *t = &m->tensors[m->count++];
        *t = (tensor){.dtype = lam_dtype_name(e->dtype),
                      .rank = e->rank,
                      .bytes = (size_t)(e->end - e->begin)};
        snprintf(t->name, sizeof t->name, "%.*s", (int)e->name_bytes, e->name);
        memcpy(t->shape, e->shape, sizeof t->shape);
        t->data = must(malloc(t->bytes + 1));
        ok =
            lam_file_read_at(&st.file, st.data_start + e->begin, t->data, t->bytes, NULL) == LAM_OK;
    }
    if (ok) lam_safetensors_close(&st);
    lam_dir_close(&dir);
    return ok;
}

static void drop(model *m, tensor *t)
{
    free(t->data);
    *t = m->tensors[--m->count];
}

static void drop_all(model *m)
{
    while (m->count > 0)
        drop(m, &m->tensors[0]);
}

/* Gives the tensor a shape; its values are repeated or cut as needed. All of these are F32. */
static void reshape(tensor *t, const json_t *shape)
{
    size_t count = 1;
    t->rank = json_array_size(shape);
    for (size_t i = 0; i < t->rank; i++)
        count *= t->shape[i] = (size_t)json_integer_value(json_array_get(shape, i));
    char *data = must(malloc(count * sizeof(float) + 1));
    for (size_t i = 0; i < count; i++)
        memcpy(data + i * sizeof(float), t->data + i * sizeof(float) % t->bytes, sizeof(float));
    free(t->data);
    t->data = data;
    t->bytes = count * sizeof(float);
}

static float number(const json_t *v)
{
    const char *text = json_string_value(v);
    if (text) return strcmp(text, "nan") == 0 ? NAN : INFINITY;
    return (float)json_number_value(v);
}

static void add(model *m, const char *name, const json_t *shape, float value)
{
    tensor *t = &m->tensors[m->count++];
    *t = (tensor){.dtype = "F32", .bytes = sizeof value};
    snprintf(t->name, sizeof t->name, "%s", name);
    t->data = must(malloc(sizeof value));
    memcpy(t->data, &value, sizeof value);
    reshape(t, shape);
}

static void edit(model *m, const json_t *e)
{
    const char *what = json_string_value(json_array_get(e, 0));
    const char *name = json_string_value(json_array_get(e, 1));
    const json_t *two = json_array_get(e, 2), *three = json_array_get(e, 3);
    if (strcmp(what, "drop") == 0) {
        drop(m, find(m, name));
    } else if (strcmp(what, "rename") == 0) {
        tensor *t = find(m, name);
        snprintf(t->name, sizeof t->name, "%s", json_string_value(two));
    } else if (strcmp(what, "set") == 0) {
        const float v = number(three);
        memcpy(find(m, name)->data + (size_t)json_integer_value(two) * sizeof v, &v, sizeof v);
    } else if (strcmp(what, "add") == 0) {
        add(m, name, two, number(three));
    } else {
        reshape(find(m, name), two);
    }
}

static void save_model(const model *m, const char *path)
{
    json_t *header = json_object();
    json_int_t at = 0;
    for (size_t i = 0; i < m->count; i++) {
        const tensor *t = &m->tensors[i];
        json_t *shape = json_array();
        for (size_t d = 0; d < t->rank; d++)
            json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
        json_object_set_new(header, t->name,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->dtype, "shape", shape,
                                      "data_offsets", at, at + (json_int_t)t->bytes));
        at += (json_int_t)t->bytes;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    const uint64_t bytes = strlen(text);
    FILE *f = must(fopen(path, "wb"));
    fwrite(&bytes, sizeof bytes, 1, f);
    fwrite(text, 1, bytes, f);
    for (size_t i = 0; i < m->count; i++)
        fwrite(m->tensors[i].data, 1, m->tensors[i].bytes, f);
    fclose(f);
    free(text);
    json_decref(header);
}

/* "config.json: KEY" or "model.safetensors: TENSOR". */
static bool names(const lam_err *err, const char *key)
{
    const char *at = strstr(err->where, ": ");
    return at && strcmp(at + 2, key) == 0;
}

static bool names_any(const lam_err *err, const json_t *line)
{
    size_t i;
    json_t *other;
    if (names(err, json_string_value(json_object_get(line, "key")))) return true;
    json_array_foreach(json_object_get(line, "also"), i, other)
    {
        if (names(err, json_string_value(other))) return true;
    }
    return false;
}

static void check_line(tally *t, const char *data, const char *folder, const json_t *line)
{
    const char *name = json_string_value(json_object_get(line, "name"));
    const char *base = json_string_value(json_object_get(line, "model"));
    const lam_open_opts opts = lam_open_opts_default();
    static model m;
    char path[512];
    size_t i;
    json_t *e;
    lam_err err = {0};
    lam_model *opened = NULL;
    snprintf(path, sizeof path, "%s/bad-config/%s", data, base);
    if (!check(t, load_model(&m, path), "%s: %s cannot be read", name, path)) return;
    json_array_foreach(json_object_get(line, "edit"), i, e)
    {
        edit(&m, e);
    }
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    save_model(&m, path);
    drop_all(&m);
    snprintf(path, sizeof path, "%s/config.json", folder);
    json_dump_file(json_object_get(line, "config"), path, 0);
    const lam_status status = lam_import_model(&opened, folder, &opts, &err);
    if (json_is_true(json_object_get(line, "refused")))
        check(t, status != LAM_OK && names_any(&err, line), "%s: must name %s; said %s: %s", name,
              json_string_value(json_object_get(line, "key")), err.where, err.message);
    else
        check(t, status == LAM_OK, "%s: must load; said %s: %s", name, err.where, err.message);
    if (status == LAM_OK) lam_model_close(opened);
}

int main(int argc, char **argv)
{
    const char *data = argc > 1 ? argv[1] : "tests/data";
    const char *tmp = getenv("TMPDIR");
    char folder[256], path[512];
    tally t = {0};
    size_t lines = 0;
    snprintf(folder, sizeof folder, "%s/lamina-norms-XXXXXX", tmp ? tmp : P_tmpdir);
    if (!mkdtemp(folder)) return 2;
    snprintf(path, sizeof path, "%s/bad-config/cases.jsonl", data);
    FILE *f = must(fopen(path, "rb"));
    for (;; lines++) {
        json_error_t e;
        json_t *line = json_loadf(f, JSON_DISABLE_EOF_CHECK, &e);
        if (!line) break;
        check_line(&t, data, folder, line);
        json_decref(line);
    }
    fclose(f);
    check(&t, lines >= 86, "only %zu cases", lines);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/config.json", folder);
    unlink(path);
    rmdir(folder);
    return report(&t);
}
