/* Broken, odd and good weight files and directories: refused with the right name, or loaded with
 * the right vectors; never a crash, a hang or a control character.
 *
 * check_bad_weights [DATA]: DATA is tests/data/models/bad-weights. Files that are too large to keep
 * are made here, in a temporary directory. */
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/golden/golden.h"

typedef struct suite {
    tally tally;
    const char *data;
    char root[1024];  /* of DATA, absolute */
    char folder[64];  /* where a directory under test is put together */
    json_t *base;     /* base/cases.json */
    char said[16384]; /* error and warnings of the last opening */
} suite;

static void keep_warning(void *arg, const char *sentence)
{
    suite *s = arg;
    const size_t n = strlen(s->said);
    snprintf(s->said + n, sizeof s->said - n, "%s\n", sentence);
}

static lam_status open_model(suite *s, lam_model **m, const char *path)
{
    lam_open_opts opts = lam_open_opts_default();
    lam_err err = {0};
    opts.warn = keep_warning;
    opts.warn_arg = s;
    s->said[0] = '\0';
    const lam_status status = lam_import_model(m, path, &opts, &err);
    const size_t n = strlen(s->said);
    if (status != LAM_OK)
        snprintf(s->said + n, sizeof s->said - n, "%s: %s\n", err.where, err.message);
    return status;
}

static bool is_clean(const char *text)
{
    for (; *text != '\0'; text++)
        if (((unsigned char)*text < 0x20 && *text != '\n') || *text == 0x7f) return false;
    return true;
}

/* ---- Vectors of a model that was accepted -----------------------------------------------------
 */

static double encode_distance(lam_ctx *ctx, lam_model *m, const json_t *tokens, const json_t *want,
                              lam_pool pool)
{
    lam_encode_opts opts = lam_encode_opts_default(m);
    int32_t ids[16];
    float out[8];
    lam_item item = {.ids = ids, .opts = &opts, .out = out, .tokens = json_array_size(tokens)};
    double worst = 0.0;
    opts.pool = pool;
    opts.normalize = false;
    for (size_t i = 0; i < item.tokens && i < 16; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(tokens, i));
    if (lam_item_check(m, &item, NULL, NULL) != LAM_OK ||
        lam_encode(ctx, &item, 1, NULL) != LAM_OK || item.status != LAM_OK)
        return (double)INFINITY;
    for (size_t i = 0; i < 8; i++) {
        const double d = fabs((double)out[i] - json_number_value(json_array_get(want, i)));
        if (!(d <= worst)) worst = d;
    }
    return worst;
}

static double base_distance(const suite *s, lam_model *m)
{
    const json_t *tokens = json_object_get(s->base, "tokens");
    lam_ctx *ctx;
    double worst = 0.0;
    if (lam_model_get_info(m)->width != 8 ||
        lam_ctx_new(&ctx, m, lam_model_get_info(m)->positions, NULL) != LAM_OK)
        return (double)INFINITY;
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *ids = json_array_get(tokens, i);
        const json_t *mean = json_array_get(json_object_get(s->base, "mean"), i);
        const json_t *cls = json_array_get(json_object_get(s->base, "cls"), i);
        worst = fmax(worst, encode_distance(ctx, m, ids, mean, LAM_POOL_MEAN));
        worst = fmax(worst, encode_distance(ctx, m, ids, cls, LAM_POOL_CLS));
    }
    lam_ctx_free(ctx);
    return worst;
}

/* ---- One directory ----------------------------------------------------------------------------
 */

static void check_path(suite *s, const char *name, const char *path, const char *verdict,
                       const json_t *must)
{
    lam_model *m;
    size_t i;
    json_t *word;
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    const lam_status status = open_model(s, &m, path);
    clock_gettime(CLOCK_MONOTONIC, &b);
    const double seconds = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
    const bool accepted = status == LAM_OK;
    check(&s->tally, strcmp(verdict, "either") == 0 || accepted == (strcmp(verdict, "accept") == 0),
          "%s: must be %s; status %d, %s", name, verdict, (int)status, s->said);
    json_array_foreach(must, i, word)
    {
        /* what is named is the reason of a refusal, or the warning that comes with acceptance */
        check(&s->tally, strstr(s->said, json_string_value(word)) != NULL,
              "%s: %s is not named in: %s", name, json_string_value(word), s->said);
    }
    check(&s->tally, is_clean(s->said) && strlen(s->said) < 2000,
          "%s: control character or too long: %s", name, s->said);
    check(&s->tally, seconds < 5.0, "%s: took %.1f s", name, seconds);
    if (!accepted) {
        check(&s->tally, m == NULL, "%s: result beside an error", name);
        return;
    }
    /* shards-and-single holds other values in its single file, which wins */
    const double worst = base_distance(s, m);
    if (strcmp(name, "shards-and-single") == 0)
        check(&s->tally, worst > 0.1 && isfinite(worst), "%s: the index was read", name);
    else
        check(&s->tally, worst <= 1e-5, "%s: vectors differ by %.3g", name, worst);
    lam_model_close(m);
}

static void put_link(const suite *s, const char *name, const char *target)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", s->folder, name);
    unlink(path);
    if (target != NULL && symlink(target, path) != 0)
        printf("FAILED %s: %s\n", path, strerror(errno));
}

/* config.json of the base beside `weights`. */
static void check_file(suite *s, const char *name, const char *weights, const char *verdict,
                       const json_t *must)
{
    char config[1100];
    snprintf(config, sizeof config, "%s/base/config.json", s->root);
    put_link(s, "config.json", config);
    put_link(s, "model.safetensors", weights);
    check_path(s, name, s->folder, verdict, must);
    put_link(s, "model.safetensors", NULL);
}

/* ---- Files that are made here -----------------------------------------------------------------
 */

typedef struct good_file {
    char *header; /* without padding and last brace */
    size_t header_bytes;
    char *data;
    size_t data_bytes;
} good_file;

static void read_good(const suite *s, good_file *g)
{
    char path[1100];
    uint64_t n = 0;
    snprintf(path, sizeof path, "%s/good.safetensors", s->root);
    FILE *f = must(fopen(path, "rb"));
    struct stat st;
    bool ok = fstat(fileno(f), &st) == 0 && fread(&n, 8, 1, f) == 1;
    g->header = must(malloc((size_t)n + 1));
    ok &= fread(g->header, 1, (size_t)n, f) == n;
    g->data_bytes = (size_t)st.st_size - 8 - (size_t)n;
    g->data = must(malloc(g->data_bytes));
    ok &= fread(g->data, 1, g->data_bytes, f) == g->data_bytes;
    fclose(f);
    while (n > 0 && g->header[n - 1] != '}')
        n--;
    g->header_bytes = (size_t)n - 1;
    if (!ok) must(NULL);
}

/* The good file with `times` times `repeat` and then `tail` behind its last tensor; # in repeat
 * counts. */
static void write_file(const good_file *g, const char *path, const char *repeat, size_t times,
                       const char *tail)
{
    FILE *f = must(fopen(path, "wb"));
    uint64_t n = 0;
    const char *number = strstr(repeat, "#");
    fwrite(&n, 8, 1, f);
    fwrite(g->header, 1, g->header_bytes, f);
    for (size_t i = 0; i < times; i++) {
        if (number == NULL)
            fputs(repeat, f);
        else
            fprintf(f, "%.*s%zu%s", (int)(number - repeat), repeat, i, number + 1);
    }
    fputs(tail, f);
    n = (uint64_t)ftell(f) - 8;
    fwrite(g->data, 1, g->data_bytes, f);
    rewind(f);
    fwrite(&n, 8, 1, f);
    fclose(f);
}

static char *repeated(char c, size_t n, const char *before, const char *after)
{
    const size_t a = strlen(before), b = strlen(after);
    char *s = must(malloc(a + n + b + 1));
    memcpy(s, before, a);
    memset(s + a, c, n);
    memcpy(s + a + n, after, b + 1);
    return s;
}

/* The lines of cases.jsonl that say "generate". */
static bool write_large(const good_file *g, const char *name, const char *path)
{
    static const char empty[] = "{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}";
    char entry[128];
    char *text = NULL;
    if (strcmp(name, "many-tensors") == 0) {
        snprintf(entry, sizeof entry, ",\"extra.block.#.weight\":%s", empty);
        write_file(g, path, entry, 100000, "}");
    } else if (strcmp(name, "long-header") == 0) {
        text = repeated(' ', 90000000, "}", "");
        write_file(g, path, "", 0, text);
    } else if (strcmp(name, "deep-header") == 0) {
        text = repeated('[', 1000000, ",\"deep\":", "]}");
        write_file(g, path, "", 0, text);
    } else if (strcmp(name, "name-5-megabytes") == 0) {
        snprintf(entry, sizeof entry, "\":%s}", empty);
        text = repeated('n', 5000000, ",\"", entry);
        write_file(g, path, "", 0, text);
    } else if (strcmp(name, "many-duplicates") == 0) {
        snprintf(entry, sizeof entry, ",\"d\":%s", empty);
        write_file(g, path, entry, 50000, "}");
    } else {
        return false;
    }
    free(text);
    return true;
}

/* ---- The table --------------------------------------------------------------------------------
 */

static void check_case(suite *s, const good_file *g, const json_t *c)
{
    const char *name = json_string_value(json_object_get(c, "name"));
    const char *verdict = json_string_value(json_object_get(c, "verdict"));
    const char *file = json_string_value(json_object_get(c, "file"));
    const char *directory = json_string_value(json_object_get(c, "directory"));
    const json_t *must_name = json_object_get(c, "must_name");
    char path[1200];
    if (directory != NULL) {
        snprintf(path, sizeof path, "%s/%s", s->root, directory);
        check_path(s, name, path, verdict, must_name);
    } else if (json_is_true(json_object_get(c, "generate"))) {
        snprintf(path, sizeof path, "%s/large", s->folder);
        if (check(&s->tally, write_large(g, name, path), "%s: nobody knows how to make it", name))
            check_file(s, name, path, verdict, must_name);
        unlink(path);
    } else {
        snprintf(path, sizeof path, "%s/%s", s->root, file);
        check_file(s, name, path, verdict, must_name);
    }
}

static void check_cases(suite *s, const good_file *g)
{
    char path[1100], line[8192];
    snprintf(path, sizeof path, "%s/cases.jsonl", s->root);
    FILE *f = must(fopen(path, "r"));
    while (fgets(line, sizeof line, f) != NULL) {
        json_t *c = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        if (check(&s->tally, c != NULL, "cases.jsonl: %s", line)) check_case(s, g, c);
        json_decref(c);
    }
    fclose(f);
}

/* What stands in place of the file is no file, or cannot be read. */
static void check_places(suite *s)
{
    char path[128];
    json_t *name = json_pack("[s]", "model.safetensors");
    check_file(s, "/dev/zero", "/dev/zero", "refuse", name);
    check_file(s, "dangling link", "nowhere", "refuse", name);
    check_file(s, "link to itself", "model.safetensors", "refuse", name);
    snprintf(path, sizeof path, "%s/fifo", s->folder);
    check(&s->tally, mkfifo(path, 0600) == 0, "mkfifo: %s", strerror(errno));
    check_file(s, "fifo", path, "refuse", name);
    check_path(s, "fifo as directory", path, "refuse", NULL);
    unlink(path);
    snprintf(path, sizeof path, "%s/config.json", s->folder);
    check_path(s, "file as directory", path, "refuse", NULL);
    check_path(s, "nothing", "does/not/exist", "refuse", NULL);
    check_path(s, "empty path", "", "refuse", NULL);
    json_decref(name);
}

/* The good file cut at each length near the header's parts and at each 37th byte, and with each
 * byte of its header changed: refused, or taken with the vectors of the base unless the change
 * moved a value or a name. */
static void check_damage(suite *s, const good_file *g)
{
    char path[128];
    lam_model *m;
    const size_t header = g->header_bytes + 1, all = 8 + header + g->data_bytes;
    unsigned char *bytes = must(malloc(all));
    const uint64_t n = header;
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, g->header, g->header_bytes);
    bytes[8 + g->header_bytes] = '}';
    memcpy(bytes + 8 + header, g->data, g->data_bytes);
    snprintf(path, sizeof path, "%s/model.safetensors", s->folder);
    for (size_t cut = 0; cut < all; cut += cut < 16 ? 1 : 37) {
        FILE *f = must(fopen(path, "wb"));
        fwrite(bytes, 1, cut, f);
        fclose(f);
        check(&s->tally, open_model(s, &m, s->folder) != LAM_OK, "cut at %zu: taken", cut);
    }
    for (size_t at = 0; at < 8 + header; at++) {
        const unsigned char kept = bytes[at];
        bytes[at] ^= (unsigned char)(1u << at % 8);
        FILE *f = must(fopen(path, "wb"));
        fwrite(bytes, 1, all, f);
        fclose(f);
        bytes[at] = kept;
        const lam_status status = open_model(s, &m, s->folder);
        check(&s->tally, is_clean(s->said) && (status == LAM_OK) == (m != NULL), "byte %zu: %s", at,
              s->said);
        if (status == LAM_OK) lam_model_close(m);
    }
    unlink(path);
    free(bytes);
}

int main(int argc, char **argv)
{
    suite s = {.data = argc > 1 ? argv[1] : "tests/data/models/bad-weights"};
    char path[1100];
    good_file g;
    const char *tmp = getenv("TMPDIR");
    snprintf(s.folder, sizeof s.folder, "%s/lamina-XXXXXX",
             tmp != NULL && strlen(tmp) <= 40 ? tmp : P_tmpdir);
    char *real = realpath(s.data, NULL);
    const size_t length = real == NULL ? 0 : strlen(real);
    const bool fits = length > 0 && length < sizeof s.root;
    if (fits) memcpy(s.root, real, length + 1);
    free(real);
    if (!fits || mkdtemp(s.folder) == NULL) {
        printf("%s or %s: %s\n0 passed, 1 failed\n", s.data, s.folder, strerror(errno));
        return 1;
    }
    snprintf(path, sizeof path, "%s/base/cases.json", s.root);
    s.base = load_json(path);
    read_good(&s, &g);
    check_cases(&s, &g);
    check_places(&s);
    check_damage(&s, &g);
    put_link(&s, "config.json", NULL);
    rmdir(s.folder);
    free(g.header);
    free(g.data);
    json_decref(s.base);
    return report(&s.tally);
}
