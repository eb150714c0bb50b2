#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/import/safetensors.h"

/* Header, bytes of data, what the refusal names (NULL: accepted), number of tensors. */
static const struct {
    const char *header;
    size_t data_bytes;
    const char *named;
    size_t count;
} headers[] = {
    {"{}", 0, NULL, 0},
    {"{}  \n", 0, NULL, 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, NULL, 1},
    {"{\"b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[8,9]},"
     "\"a\":{\"data_offsets\":[0,8],\"shape\":[1,2],\"dtype\":\"F32\"}}",
     9, NULL, 2},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]}}", 2, NULL, 1},
    {"{\"__metadata__\":{\"k\":\"\\ud83d\\ude00\"}}", 0, NULL, 0},
    {"", 0, "must start with", 0},
    {" {}", 0, "must start with", 0},
    {"{}{}", 0, "white space", 0},
    {"{\"a\":1}", 0, "must be an object", 0},
    {"{\"\\ud83d\":{}}", 0, "escape", 0},
    {"{\"\\udc00\\ud83d\":{}}", 0, "escape", 0},
    {"{\"a\tb\":{}}", 0, "control", 0},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, "whole bytes", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, "shape",
     0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[01],\"data_offsets\":[0,4]}}", 4, "shape", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551616],\"data_offsets\":[0,4]}}", 4,
     "shape", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
     "shape", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8,
     "another number of bytes", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "hole", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8, "accounts for", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"\\u0061\":{\"dtype\":"
     "\"F32\","
     "\"shape\":[1],\"data_offsets\":[4,8]}}",
     8, "twice", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\","
     "\"shape\":[1],"
     "\"data_offsets\":[4,8]}}",
     8, "overlap", 0},
    {"{\"__metadata__\":{\"k\":1}}", 0, "strings", 0},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice", 0},
};

Test(safetensors, headers)
{
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        lam_safetensors st = {.file = {.fd = -1, .name = "f"}};
        lam_err err = {0};
        const size_t n = strlen(headers[i].header);
        char *copy = malloc(n + 1);
        cr_assert_not_null(copy);
        memcpy(copy, headers[i].header, n + 1);
        const lam_status s = lam_safetensors_parse(&st, copy, n, headers[i].data_bytes, &err);
        if (headers[i].named == NULL)
            cr_expect(s == LAM_OK && st.count == headers[i].count, "%s: %s", headers[i].header,
                      err.message);
        else
            cr_expect(s != LAM_OK && strstr(err.message, headers[i].named), "%s: %s",
                      headers[i].header, err.message);
        lam_safetensors_close(&st);
    }
}

Test(safetensors, finds_names_by_their_bytes)
{
    static const char text[] =
        "{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    lam_safetensors st = {.file = {.fd = -1, .name = "f"}};
    char *copy = strdup(text);
    cr_assert_eq(lam_safetensors_parse(&st, copy, sizeof text - 1, 2, NULL), LAM_OK);
    cr_expect_eq(lam_safetensors_find(&st, "a", 1)->begin, 0);
    cr_expect_eq(lam_safetensors_find(&st, "a\0b", 3)->begin, 1);
    cr_expect_null(lam_safetensors_find(&st, "a\0", 2));
    cr_expect_null(lam_safetensors_find(&st, "b", 1));
    lam_safetensors_close(&st);
}
