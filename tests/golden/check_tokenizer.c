/* Ids, type ids and byte offsets against the reference's (tests/data/tokenizers).
 *
 *   check_tokenizer                 all folders; the real MiniLM vocabulary if the model has been
 * fetched check_tokenizer --stdin MODEL   a JSON string or [text, pair] a line ->
 * {"ids":[],"offsets":[]} a line check_tokenizer --time MODEL    microseconds a call, load time,
 * memory */
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/import/import.h"
#include "core/tokenizer/tokenizer.h"

#define DATA "tests/data/tokenizers"

static size_t passed, failed;

static void fail(const char *where, size_t line, const char *what)
{
    failed++;
    if (failed < 40) printf("%s:%zu: %s\n", where, line, what);
}

static json_t *parse(const char *line, size_t n)
{
    json_error_t e;
    return json_loadb(line, n, JSON_ALLOW_NUL | JSON_DECODE_ANY, &e);
}

/* ---- one case ---- */

static const char *compare_ids(const json_t *expected, const int32_t *got, size_t n)
{
    if (json_array_size(expected) != n) return "number of tokens";
    for (size_t i = 0; i < n; i++) {
        if (json_integer_value(json_array_get(expected, i)) != got[i]) return "ids";
    }
    return NULL;
}

static const char *compare(const json_t *c, const lam_encoding *e)
{
    const char *wrong = compare_ids(json_object_get(c, "ids"), e->ids, e->count);
    if (wrong) return wrong;
    const json_t *const types = json_object_get(c, "type_ids");
    for (size_t i = 0; i < e->count; i++) {
        if (json_integer_value(json_array_get(types, i)) != e->type_ids[i]) return "type ids";
        const json_t *const o = json_array_get(json_object_get(c, "offsets"), i);
        if ((size_t)json_integer_value(json_array_get(o, 0)) != e->offsets[i].start ||
            (size_t)json_integer_value(json_array_get(o, 1)) != e->offsets[i].end) {
            return "offsets";
        }
    }
    return NULL;
}

/* False: the strategy is unknown. */
static bool read_truncation(const json_t *t, lam_tokenize_opts *opts)
{
    static const char *const names[] = {"longest_first", "only_first", "only_second"};
    opts->max_tokens = (size_t)json_integer_value(json_object_get(t, "max_length"));
    const char *const direction = json_string_value(json_object_get(t, "direction"));
    const char *const strategy = json_string_value(json_object_get(t, "strategy"));
    if (direction && strcmp(direction, "left") == 0) opts->side = LAM_TRUNCATE_LEFT;
    for (size_t i = 0; strategy && i < LAM_TRUNCATE_STRATEGY_COUNT; i++) {
        if (strcmp(names[i], strategy) != 0) continue;
        opts->strategy = (lam_truncate_strategy)i;
        return true;
    }
    return false;
}

static const char *check_case(const lam_tokenizer *t, const json_t *c, lam_arena *arena)
{
    const json_t *const text = json_object_get(c, "text"), *const pair = json_object_get(c, "pair");
    const json_t *const truncate = json_object_get(c, "truncate");
    lam_tokenize_opts opts = lam_tokenize_opts_default();
    opts.add_special_tokens = !json_is_false(json_object_get(c, "add_special_tokens"));
    if (truncate && !read_truncation(truncate, &opts)) return "strategy is not known";
    lam_encoding e;
    lam_encoding bare;
    const lam_status status =
        lam_tokenize(t, json_string_value(text), json_string_length(text), json_string_value(pair),
                     json_string_length(pair), &opts, true, arena, &e, NULL);
    if (!json_object_get(c, "ids")) return status == LAM_E_INPUT ? NULL : "should be refused";
    if (status != LAM_OK) return "status";
    const char *const wrong = compare(c, &e);
    if (wrong) return wrong;
    if (lam_tokenize(t, json_string_value(text), json_string_length(text), json_string_value(pair),
                     json_string_length(pair), &opts, false, arena, &bare, NULL) != LAM_OK ||
        bare.offsets || bare.count != e.count || bare.full_count != e.full_count ||
        memcmp(bare.ids, e.ids, e.count * sizeof *e.ids) != 0) {
        return "differs without offsets";
    }
    return NULL;
}

/* ---- long texts: head and tail, and that they are done in time ---- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static char *repeat(const json_t *unit, size_t count, size_t *bytes)
{
    const size_t n = json_string_length(unit);
    char *text = malloc(n * count + 1);
    if (!text) abort();
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * n, json_string_value(unit), n);
    *bytes = n * count;
    return text;
}

static const char *check_long(const lam_tokenizer *t, const json_t *c, lam_arena *arena)
{
    size_t bytes;
    char *text = repeat(json_object_get(c, "unit"),
                        (size_t)json_integer_value(json_object_get(c, "count")), &bytes);
    const lam_tokenize_opts opts = lam_tokenize_opts_default();
    lam_encoding e;
    const double start = seconds();
    const lam_status status = lam_tokenize(t, text, bytes, NULL, 0, &opts, true, arena, &e, NULL);
    const double taken = seconds() - start;
    free(text);
    if (status != LAM_OK) return "status";
    if ((size_t)json_integer_value(json_object_get(c, "n")) != e.count) return "number of tokens";
    const json_t *const head = json_object_get(c, "head"), *const tail = json_object_get(c, "tail");
    if (compare_ids(head, e.ids, json_array_size(head))) return "head";
    const size_t n = json_array_size(tail);
    if (compare_ids(tail, e.ids + e.count - n, n)) return "tail";
    return taken > 2.0 ? "takes more than 2 s" : NULL;
}

/* ---- files ---- */

typedef const char *check_fn(const lam_tokenizer *t, const json_t *c, lam_arena *arena);

static size_t check_file(const lam_tokenizer *t, const char *folder, const char *name,
                         check_fn *check)
{
    char path[512];
    snprintf(path, sizeof path, DATA "/%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    char *line = NULL;
    size_t room = 0, number = 0;
    ssize_t n;
    lam_arena arena;
    lam_arena_init(&arena, (size_t)1 << 30);
    while ((n = getline(&line, &room, f)) > 0) {
        json_t *c = parse(line, (size_t)n);
        number++;
        const char *const wrong = c ? check(t, c, &arena) : "line is no JSON";
        if (wrong)
            fail(path, number, wrong);
        else
            passed++;
        json_decref(c);
        lam_arena_reset(&arena);
    }
    lam_arena_fini(&arena);
    free(line);
    fclose(f);
    return number;
}

static void check_folder(const char *folder, const char *model)
{
    lam_tokenizer *t;
    lam_err err;
    if (lam_import_tokenizer(&t, model, &err) != LAM_OK) {
        printf("%s: %s: %s\n", folder, err.where, err.message);
        failed++;
        return;
    }
    const size_t before = failed;
    size_t cases = check_file(t, folder, "cases.jsonl", check_case);
    cases += check_file(t, folder, "fuzz.jsonl", check_case);
    cases += check_file(t, folder, "long.jsonl", check_long);
    printf("%-44s %5zu cases, %zu failed\n", folder, cases, failed - before);
    if (cases == 0) fail(folder, 0, "no cases");
    lam_tokenizer_free(t);
}

/* Folders in DATA/parent that hold a tokenizer.json. */
static void check_folders(const char *parent)
{
    char path[400];
    snprintf(path, sizeof path, DATA "/%s", parent);
    struct dirent **entries;
    const int n = scandir(path, &entries, NULL, alphasort);
    if (n < 0) fail(path, 0, "folder is missing");
    for (int i = 0; i < n; i++) {
        char folder[400], model[512];
        struct stat info;
        snprintf(folder, sizeof folder, "%s%s%.200s", parent, *parent ? "/" : "",
                 entries[i]->d_name);
        snprintf(model, sizeof model, DATA "/%s/tokenizer.json", folder);
        if (entries[i]->d_name[0] != '.' && stat(model, &info) == 0) check_folder(folder, model);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
}

/* Where the fetched model is, or NULL. */
static const char *real_model(void)
{
    const char *path = getenv("LAMINA_MODEL");
    if (!path) path = "models/all-MiniLM-L6-v2";
    struct stat info;
    return stat(path, &info) == 0 ? path : NULL;
}

/* ---- bytes that are no UTF-8 ---- */

static size_t from_hex(const char *hex, char *out)
{
    size_t n = 0;
    for (; hex[2 * n]; n++) {
        const char digits[3] = {hex[2 * n], hex[2 * n + 1]};
        char *end;
        out[n] = (char)strtoul(digits, &end, 16);
        if (end != digits + 2) abort();
    }
    return n;
}

static const char *check_invalid(const lam_tokenizer *t, const json_t *c, lam_arena *arena)
{
    const char *const hex = json_string_value(json_object_get(c, "hex"));
    if (!hex) return NULL; /* lone surrogates in JSON are for the readers of JSON */
    char text[256], wanted[64];
    const lam_tokenize_opts opts = lam_tokenize_opts_default();
    lam_encoding e;
    lam_err err;
    const size_t n = from_hex(hex, text);
    if (lam_tokenize(t, text, n, NULL, 0, &opts, true, arena, &e, &err) != LAM_E_UTF8)
        return "accepted";
    snprintf(wanted, sizeof wanted, "byte %lld",
             (long long)json_integer_value(json_object_get(c, "valid_up_to")));
    return strstr(err.message, wanted) ? NULL : "valid_up_to";
}

static void check_invalid_file(void)
{
    lam_tokenizer *t;
    if (lam_import_tokenizer(&t, DATA "/bert-cased", NULL) != LAM_OK) {
        fail("bert-cased", 0, "does not load");
        return;
    }
    const size_t before = failed, cases = check_file(t, ".", "invalid.jsonl", check_invalid);
    printf("%-44s %5zu cases, %zu failed\n", "invalid.jsonl", cases, failed - before);
    lam_tokenizer_free(t);
}

/* ---- --stdin, --time ---- */

static void print_encoding(const lam_encoding *e)
{
    printf("{\"ids\":[");
    for (size_t i = 0; i < e->count; i++)
        printf("%s%d", i ? "," : "", e->ids[i]);
    printf("],\"offsets\":[");
    for (size_t i = 0; i < e->count; i++) {
        printf("%s[%zu,%zu]", i ? "," : "", e->offsets[i].start, e->offsets[i].end);
    }
    printf("]}\n");
}

static int run_stdin(const lam_tokenizer *t)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    lam_arena arena;
    lam_arena_init(&arena, (size_t)1 << 30);
    while ((n = getline(&line, &room, stdin)) > 0) {
        json_t *v = parse(line, (size_t)n);
        const json_t *const text = json_is_array(v) ? json_array_get(v, 0) : v;
        const json_t *const pair = json_is_array(v) ? json_array_get(v, 1) : NULL;
        const lam_tokenize_opts opts = lam_tokenize_opts_default();
        lam_encoding e;
        if (json_is_string(text) &&
            lam_tokenize(t, json_string_value(text), json_string_length(text),
                         json_string_value(pair), json_string_length(pair), &opts, true, &arena, &e,
                         NULL) == LAM_OK) {
            print_encoding(&e);
        } else {
            printf("{}\n");
        }
        json_decref(v);
        lam_arena_reset(&arena);
    }
    lam_arena_fini(&arena);
    free(line);
    return 0;
}

static void time_text(const lam_tokenizer *t, const char *name, const char *text, size_t bytes,
                      bool offsets)
{
    const lam_tokenize_opts opts = lam_tokenize_opts_default();
    lam_arena arena;
    lam_arena_init(&arena, (size_t)1 << 30);
    lam_encoding e = {0};
    double best = 1e9;
    const size_t calls = 20000000 / (bytes + 1000) + 1;
    for (int round = 0; round < 7; round++) {
        const double start = seconds();
        for (size_t i = 0; i < calls; i++) {
            lam_arena_reset(&arena);
            if (lam_tokenize(t, text, bytes, NULL, 0, &opts, offsets, &arena, &e, NULL) != LAM_OK)
                abort();
        }
        const double each = (seconds() - start) / (double)calls;
        if (each < best) best = each;
    }
    printf("%-24s %8zu bytes %7zu tokens %s %10.2f us\n", name, bytes, e.count,
           offsets ? "with offsets" : "ids only    ", best * 1e6);
    lam_arena_fini(&arena);
}

static int run_times(const char *path)
{
    static const char prose[] = "The command prints a summary of the options that it knows, and "
                                "exits without reading the file. ";
    static const char ten[] =
        "Ce programme affiche \xc3\xa9galement les donn\xc3\xa9"
        "es. "
        "\xd0\x9f\xd1\x80\xd0\xbe\xd0\xb3\xd1\x80\xd0\xb0\xd0\xbc\xd0\xbc\xd0\xb0. "
        "\xe4\xb8\xad\xe6\x96\x87\xe6\x96\x87\xe6\x9c\xac\xe3\x80\x82 ";
    double best = 1e9;
    lam_tokenizer *t = NULL;
    for (int i = 0; i < 9; i++) {
        lam_tokenizer_free(t);
        const double start = seconds();
        if (lam_import_tokenizer(&t, path, NULL) != LAM_OK) return 1;
        if (seconds() - start < best) best = seconds() - start;
    }
    printf("load %.1f ms, holds %zu bytes, %zu ids\n", best * 1e3, lam_tokenizer_bytes(t),
           lam_tokenizer_vocab(t));
    const struct {
        const char *name, *unit;
        size_t bytes;
    } rows[] = {{"short prose", prose, 72},
                {"long prose", prose, 2400},
                {"1 MB prose", prose, 1000000},
                {"1 MB, one word", "a", 1000000},
                {"1 MB, words of 100", NULL, 1000000},
                {"1 MB, punctuation", "!", 1000000},
                {"long, other scripts", ten, 2400}};
    char *text = malloc(1000001);
    if (!text) return 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t unit = rows[i].unit ? strlen(rows[i].unit) : 101;
        const size_t bytes = rows[i].bytes / unit * unit;
        for (size_t j = 0; j < rows[i].bytes; j++) {
            text[j] = rows[i].unit ? rows[i].unit[j % unit]
                                   : (j % 101 == 100 ? ' ' : (char)('a' + j % 7));
        }
        const size_t whole = bytes > 0 ? bytes : rows[i].bytes;
        time_text(t, rows[i].name, text, whole, false);
        time_text(t, rows[i].name, text, whole, true);
    }
    free(text);
    lam_tokenizer_free(t);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--time") == 0) return run_times(argv[2]);
    if (argc == 3 && strcmp(argv[1], "--stdin") == 0) {
        lam_tokenizer *t;
        lam_err err;
        if (lam_import_tokenizer(&t, argv[2], &err) != LAM_OK) {
            fprintf(stderr, "%s: %s\n", err.where, err.message);
            return 1;
        }
        const int status = run_stdin(t);
        lam_tokenizer_free(t);
        return status;
    }
    if (real_model())
        check_folder("bert-uncased-real", real_model());
    else
        printf("bert-uncased-real: skipped, no model at LAMINA_MODEL or models/all-MiniLM-L6-v2\n");
    check_folders("");
    check_folders("bert-flags");
    check_folders("added");
    check_folders("trunc");
    check_invalid_file();
    printf("%zu passed, %zu failed\n", passed, failed);
    return failed ? 1 : 0;
}
