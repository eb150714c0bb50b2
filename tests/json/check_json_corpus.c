/* Replays JSONTestSuite (tests/data/json) against the reader and as bodies of both routes.
 *
 * n_ files must be refused, y_ files read, and i_ files, which the grammar leaves free, answered as
 * the table here says. */
#include <stdio.h>

#include "api/json_reader.h"
#include "tests/unit/api/fixture.h"

static size_t passed, failed;

static void judge(bool right, const char *name, const char *what)
{
    passed += right;
    failed += !right;
    if (!right) printf("%s: %s\n", name, what);
}

/* What the free files are: SYNTAX stands for texts that are refused as no JSON. */
static const struct {
    const char *name;
    api_json_fault fault;
} free_files[] = {
    {"i_number_double_huge_neg_exp.json", API_JSON_FAULT_NONE},
    {"i_number_huge_exp.json", API_JSON_FAULT_NONE},
    {"i_number_neg_int_huge_exp.json", API_JSON_FAULT_NONE},
    {"i_number_pos_double_huge_exp.json", API_JSON_FAULT_NONE},
    {"i_number_real_neg_overflow.json", API_JSON_FAULT_NONE},
    {"i_number_real_pos_overflow.json", API_JSON_FAULT_NONE},
    {"i_number_real_underflow.json", API_JSON_FAULT_NONE},
    {"i_number_too_big_neg_int.json", API_JSON_FAULT_NONE},
    {"i_number_too_big_pos_int.json", API_JSON_FAULT_NONE},
    {"i_number_very_big_negative_int.json", API_JSON_FAULT_NONE},
    {"i_string_UTF-16LE_with_BOM.json", API_JSON_FAULT_UTF8},
    {"i_string_utf16BE_no_BOM.json", API_JSON_FAULT_SYNTAX},
    {"i_string_utf16LE_no_BOM.json", API_JSON_FAULT_SYNTAX},
    {"i_structure_500_nested_arrays.json", API_JSON_FAULT_TOO_DEEP},
    {"i_structure_UTF-8_BOM_empty_object.json", API_JSON_FAULT_SYNTAX},
};

/* The free files that are not in the table hold half surrogates or bytes that are no UTF-8. */
static api_json_fault expected_of_free(const char *name)
{
    for (size_t i = 0; i < sizeof free_files / sizeof *free_files; i++)
        if (strcmp(free_files[i].name, name) == 0) return free_files[i].fault;
    return API_JSON_FAULT_UTF8;
}

/* The code for a must-refuse file as a body. Faults of framing that are told by codes of their own.
 */
static api_code expected_of_bad(const char *name)
{
    if (strcmp(name, "n_structure_no_data.json") == 0) return API_CODE_EMPTY_BODY;
    if (strcmp(name, "n_single_space.json") == 0) return API_CODE_EMPTY_BODY;
    if (strcmp(name, "n_structure_100000_opening_arrays.json") == 0) return API_CODE_TOO_DEEP;
    if (strcmp(name, "n_structure_open_array_object.json") == 0) return API_CODE_TOO_DEEP;
    return API_CODE_INVALID_JSON;
}

typedef struct world {
    api_model named;
    api_env env;
    lam_arena arena;
} world;

/* The code that a body is refused with; API_CODE_COUNT: it is a request. The body is copied to a
 * block of exactly its size, so that a sanitizer sees a byte read beyond it. */
static api_code answer(world *w, api_route route, const char *body, size_t n)
{
    char *exact = malloc(n ? n : 1);
    api_request request;
    api_error error;
    if (!exact) return API_CODE_OUT_OF_MEMORY;
    memcpy(exact, body, n);
    const bool read = api_request_read(&w->env, route, exact, n, &w->arena, &request, &error);
    lam_arena_reset(&w->arena);
    free(exact);
    return read ? API_CODE_COUNT : error.code;
}

/* The same text as a value of a field that OpenAI's route skips. */
static api_code answer_inside(world *w, const char *text, size_t n)
{
    static const char head[] = "{\"input\":[3],\"x\":", tail[] = "}";
    char *body = malloc(sizeof head + n + sizeof tail);
    if (!body) return API_CODE_OUT_OF_MEMORY;
    memcpy(body, head, sizeof head - 1);
    memcpy(body + sizeof head - 1, text, n);
    memcpy(body + sizeof head - 1 + n, tail, 1);
    const api_code code = answer(w, API_ROUTE_OPENAI_EMBEDDINGS, body, sizeof head + n);
    free(body);
    return code;
}

static void check_bad(world *w, const char *name, const char *text, size_t n)
{
    for (int route = 0; route < API_ROUTE_COUNT; route++)
        judge(answer(w, (api_route)route, text, n) == expected_of_bad(name), name,
              "is refused otherwise");
    judge(answer_inside(w, text, n) != API_CODE_COUNT, name, "is accepted inside a request");
}

static void check_good(world *w, const char *name, const char *text, size_t n)
{
    /* None of them is a request; the two with equal keys are JSON all the same. */
    const bool twice = strncmp(name, "y_object_duplicated", 19) == 0;
    const api_code code = answer(w, API_ROUTE_ENCODE, text, n);
    judge(code == API_CODE_NOT_OBJECT || code == API_CODE_UNKNOWN_FIELD ||
              code == API_CODE_MISSING_FIELD,
          name, "is not answered as a request of the wrong shape");
    const api_code inside = answer_inside(w, text, n);
    judge(inside == (twice ? API_CODE_DUPLICATE_KEY : API_CODE_COUNT), name,
          "is refused inside a request");
}

static void check_file(world *w, const char *name, const char *text, size_t n)
{
    api_json_fault fault;
    size_t offset;
    const bool valid = api_json_validate(text, n, &fault, &offset);
    judge(valid == (fault == API_JSON_FAULT_NONE) && offset <= n, name,
          "verdict contradicts itself");
    if (name[0] == 'y') {
        judge(valid, name, api_json_fault_text(fault));
        check_good(w, name, text, n);
    } else if (name[0] == 'n') {
        judge(!valid, name, "is taken for JSON");
        check_bad(w, name, text, n);
    } else {
        judge(fault == expected_of_free(name), name, api_json_fault_text(fault));
        judge(answer(w, API_ROUTE_ENCODE, text, n) != API_CODE_COUNT, name,
              "is taken for a request");
    }
}

static void check_repeated(world *w, const char *name, const char *pattern, size_t count)
{
    const size_t size = strlen(pattern);
    char *text = malloc(size * count);
    if (!text) {
        judge(false, name, "out of memory");
        return;
    }
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * size, pattern, size);
    check_file(w, name, text, size * count);
    free(text);
}

/* Takes "NAME SIZE\n" apart: cuts it after the name and returns the size, SIZE_MAX if it is
 * something else. */
static size_t take_size(char *line)
{
    char *space = strchr(line, ' ');
    size_t size = 0;
    if (!space) return SIZE_MAX;
    *space = '\0';
    for (const char *p = space + 1; *p != '\n'; p++) {
        if (*p < '0' || *p > '9') return SIZE_MAX;
        size = size * 10 + (size_t)(*p - '0');
    }
    return size;
}

static size_t check_pack(world *w, const char *path)
{
    static char text[1 << 16];
    char line[128];
    size_t files = 0;
    FILE *f = fopen(path, "rb");
    while (f && fgets(line, sizeof line, f)) {
        const size_t size = take_size(line);
        if (size >= sizeof text || fread(text, 1, size + 1, f) != size + 1) break;
        check_file(w, line, text, size);
        files++;
    }
    if (f) fclose(f);
    return files;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "tests/data/json/JSONTestSuite.pack";
    lam_model *m = fixture_model(false);
    if (!m) return 1;
    world w;
    w.env = fixture_env(m, &w.named);
    lam_arena_init(&w.arena, w.env.limits.max_request_bytes);
    judge(check_pack(&w, path) == 316, path, "the pack is not whole");
    check_repeated(&w, "n_structure_100000_opening_arrays.json", "[", 100000);
    check_repeated(&w, "n_structure_open_array_object.json", "[{\"\":", 50000);
    lam_arena_fini(&w.arena);
    lam_model_close(m);
    printf("%zu passed, %zu failed\n", passed, failed);
    return failed ? 1 : 0;
}
