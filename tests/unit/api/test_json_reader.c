#include <criterion/criterion.h>
#include <string.h>

#include "api/json_reader.h"

Test(json, judges_texts)
{
    static const struct {
        const char *text;
        api_json_fault fault;
        size_t offset;
    } rows[] = {
        {"{}", API_JSON_FAULT_NONE, 0},
        {" [ 1 , -0.5e+3 , true , false , null , \"\\u00e9\\ud83d\\ude00\" , {\"a\":{}} ] ",
         API_JSON_FAULT_NONE, 0},
        {"", API_JSON_FAULT_SYNTAX, 0},
        {"[1 2]", API_JSON_FAULT_SYNTAX, 3},
        {"[,1]", API_JSON_FAULT_SYNTAX, 1},
        {"[1,,2]", API_JSON_FAULT_SYNTAX, 3},
        {"{\"a\" 1}", API_JSON_FAULT_SYNTAX, 5},
        {"{a:1}", API_JSON_FAULT_SYNTAX, 1},
        {"{1:1}", API_JSON_FAULT_SYNTAX, 1},
        {"[1}", API_JSON_FAULT_SYNTAX, 2},
        {"{\"a\":1]", API_JSON_FAULT_SYNTAX, 6},
        {"[-]", API_JSON_FAULT_SYNTAX, 1},
        {"[-01]", API_JSON_FAULT_SYNTAX, 1},
        {"[1e]", API_JSON_FAULT_SYNTAX, 1},
        {"[\"abcdefghijklmnop\x01\"]", API_JSON_FAULT_SYNTAX, 18},
        {"[\"\xe2\x82\"]", API_JSON_FAULT_UTF8, 2},
        {"[\"abcdefghi\xf0\x9f\x98\x80\xc1\xbf\"]", API_JSON_FAULT_UTF8, 15},
        {"1 1", API_JSON_FAULT_SYNTAX, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        api_json_fault fault;
        size_t offset;
        const bool valid = api_json_validate(rows[i].text, strlen(rows[i].text), &fault, &offset);
        cr_expect_eq(valid, rows[i].fault == API_JSON_FAULT_NONE, "%s", rows[i].text);
        cr_expect_eq(fault, rows[i].fault, "%s: %s", rows[i].text, api_json_fault_text(fault));
        if (!valid) cr_expect_eq(offset, rows[i].offset, "%s: %zu", rows[i].text, offset);
    }
}

Test(json, reads_strings)
{
    static const struct {
        const char *text, *value;
        size_t size;
        bool nul;
    } rows[] = {
        {"\"\"", "", 0, false},
        {"\"plain\"", "plain", 5, false},
        {"\"a\\n\\\"\\\\\\/\\b\\f\\r\\t\"", "a\n\"\\/\b\f\r\t", 9, false},
        {"\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00z\"", "Aé€😀z", 11, false},
        {"\"12345678\\u0000\"", "12345678\0", 9, true},
    };
    lam_arena arena;
    lam_arena_init(&arena, 1 << 16);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        api_json r;
        api_text t;
        api_json_init(&r, rows[i].text, strlen(rows[i].text), &arena);
        cr_expect(api_json_string(&r, &t) && api_json_finish(&r), "%s", rows[i].text);
        cr_expect(t.size == rows[i].size && memcmp(t.data, rows[i].value, t.size) == 0, "%s",
                  rows[i].text);
        cr_expect_eq(t.has_nul, rows[i].nul);
    }
    lam_arena_fini(&arena);
}

Test(json, reads_lists_of_integers)
{
    static const struct {
        const char *text;
        size_t count;
        api_json_list_problem problem;
        int32_t last;
    } rows[] = {
        {"[]", 0, API_JSON_LIST_OK, 0},
        {"[ ]", 0, API_JSON_LIST_OK, 0},
        {"[0,1,22,333,123456789,12345678]", 6, API_JSON_LIST_OK, 12345678},
        {"[ 7 ,\n8 , 9 ]", 3, API_JSON_LIST_OK, 9},
        {"[1234567890]", 1, API_JSON_LIST_OK, 1234567890},
        {"[-5,-2147483648]", 2, API_JSON_LIST_OK, INT32_MIN},
        {"[2147483647]", 1, API_JSON_LIST_OK, INT32_MAX},
        {"[1,2147483648]", 1, API_JSON_LIST_RANGE, 0},
        {"[1,2,-2147483649]", 2, API_JSON_LIST_RANGE, 0},
        {"[1,1.5,2,3,4,5,6,7]", 1, API_JSON_LIST_NOT_INTEGER, 0},
        {"[1,2e1,2,3,4,5,6,7]", 1, API_JSON_LIST_NOT_INTEGER, 0},
        {"[1,\"]\",2,3,4,5,6,7]", 1, API_JSON_LIST_NOT_NUMBER, 0},
        {"[1,012,2,3,4,5,6,7,8]", 1, API_JSON_LIST_FAULT, 0},
        {"[1,2,]             ", 2, API_JSON_LIST_FAULT, 0},
        {"[1,2", 2, API_JSON_LIST_FAULT, 0},
        {"[1,2 3,4,5,6,7,8,9]", 2, API_JSON_LIST_FAULT, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int32_t out[16];
        size_t count = 99;
        api_json r;
        api_json_init(&r, rows[i].text, strlen(rows[i].text), NULL);
        cr_assert(api_json_enter_array(&r));
        cr_assert(api_json_list_bound(&r) <= 16);
        const api_json_list_problem problem = api_json_int32s(&r, out, &count);
        cr_expect_eq(problem, rows[i].problem, "%s: %d", rows[i].text, (int)problem);
        if (problem != API_JSON_LIST_FAULT)
            cr_expect_eq(count, rows[i].count, "%s: %zu", rows[i].text, count);
        if (problem == API_JSON_LIST_OK && count)
            cr_expect_eq(out[count - 1], rows[i].last, "%s", rows[i].text);
        if (problem == API_JSON_LIST_OK) cr_expect(api_json_finish(&r), "%s", rows[i].text);
    }
    uint8_t flags[8];
    size_t count;
    api_json r;
    api_json_init(&r, "[0,1,1,2]", 9, NULL);
    cr_assert(api_json_enter_array(&r));
    cr_expect_eq(api_json_flags(&r, flags, &count), API_JSON_LIST_RANGE);
    cr_expect_eq(count, 3);
}

Test(json, reads_integers_exactly)
{
    static const struct {
        const char *text;
        api_json_number_kind kind;
        int64_t integer;
    } rows[] = {
        {"0", API_JSON_INTEGER, 0},
        {"-0", API_JSON_INTEGER, 0},
        {"9223372036854775807", API_JSON_INTEGER, INT64_MAX},
        {"-9223372036854775808", API_JSON_INTEGER, INT64_MIN},
        {"9223372036854775808", API_JSON_INTEGER_TOO_HIGH, INT64_MAX},
        {"-9223372036854775809", API_JSON_INTEGER_TOO_LOW, INT64_MIN},
        {"18446744073709551616", API_JSON_INTEGER_TOO_HIGH, INT64_MAX},
        {"99999999999999999999999999", API_JSON_INTEGER_TOO_HIGH, INT64_MAX},
        {"1.0", API_JSON_FRACTION, 0},
        {"1e2", API_JSON_FRACTION, 0},
        {"0.1E-1", API_JSON_FRACTION, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        api_json r;
        api_json_number n;
        api_json_init(&r, rows[i].text, strlen(rows[i].text), NULL);
        cr_expect(api_json_number_read(&r, &n) && api_json_finish(&r), "%s", rows[i].text);
        cr_expect(n.kind == rows[i].kind && n.integer == rows[i].integer, "%s", rows[i].text);
    }
}

Test(json, refuses_keys_that_come_twice)
{
    static const struct {
        const char *text;
        api_json_fault fault;
    } rows[] = {
        {"{\"a\":1,\"b\":{\"a\":1},\"c\":[{\"a\":1},{\"a\":1}]}", API_JSON_FAULT_NONE},
        {"{\"a\":1,\"b\":{\"c\":1,\"c\":1}}", API_JSON_FAULT_DUPLICATE_KEY},
        {"{\"a\":{},\"a\":1}", API_JSON_FAULT_DUPLICATE_KEY},
        {"{\"a\":1,\"\\u0061\":1}", API_JSON_FAULT_DUPLICATE_KEY},
    };
    lam_arena arena;
    lam_arena_init(&arena, 1 << 16);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        api_json r;
        api_json_init(&r, rows[i].text, strlen(rows[i].text), &arena);
        cr_expect_eq(api_json_skip(&r), rows[i].fault == API_JSON_FAULT_NONE, "%s", rows[i].text);
        cr_expect_eq(r.fault, rows[i].fault, "%s", rows[i].text);
    }
    lam_arena_fini(&arena);
}
