#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/base64.h"
#include "api/buffer.h"
#include "api/error.h"
#include "api/float_text.h"

static bool holds(const api_buffer *b, const char *text)
{
    return b->size == strlen(text) && memcmp(b->data, text, b->size) == 0;
}

Test(buffer, keeps_to_its_maximum)
{
    api_buffer b;
    api_buffer_init(&b, 10);
    api_buffer_puts(&b, "0123456789");
    cr_expect(!b.failed && holds(&b, "0123456789"));
    api_buffer_puts(&b, "x");
    cr_expect(b.failed && b.too_large && b.size == 10);
    api_buffer_clear(&b);
    api_buffer_puts(&b, "again");
    cr_expect(!b.failed && holds(&b, "again"));
    api_buffer_free(&b);
    api_buffer_free(&b);
}

Test(buffer, grows_and_keeps_its_bytes)
{
    api_buffer b;
    api_buffer_init(&b, 1 << 20);
    for (int i = 0; i < 100000; i++)
        api_buffer_put(&b, &"abc"[i % 3], 1);
    cr_assert(!b.failed && b.size == 100000);
    for (size_t i = 0; i < b.size; i++)
        cr_assert_eq(b.data[i], "abc"[i % 3]);
    api_buffer_free(&b);
}

Test(buffer, escapes_strings)
{
    api_buffer b;
    api_buffer_init(&b, 1 << 10);
    api_buffer_json_string(&b, "a\"b\\c\n\t\x01\x1f\x7f\0é", 13);
    cr_expect(holds(&b, "\"a\\\"b\\\\c\\n\\t\\u0001\\u001f\\u007f\\u0000é\""), "%.*s", (int)b.size,
              b.data);
    api_buffer_free(&b);
}

Test(buffer, writes_numbers)
{
    static const struct {
        float v;
        const char *text;
    } rows[] = {
        {0.0f, "0"},
        {-0.0f, "-0.0"},
        {1.0f, "1"},
        {-1.5f, "-1.5"},
        {0.1f, "0.1"},
        {100.0f, "100"},
        {1e10f, "10000000000"},
        {1e14f, "100000000000000"},
        {1e15f, "1e15"},
        {1e21f, "1e21"},
        {1e-6f, "0.000001"},
        {1e-7f, "1e-7"},
        {1.2345e-7f, "1.2345e-7"},
        {3.4028235e38f, "3.4028235e38"},
        {1.17549435e-38f, "1.1754944e-38"},
        {1.40129846e-45f, "1e-45"},
        {16777216.0f, "16777216"},
        {9.8765432e-6f, "0.000009876543"},
        {0.3f, "0.3"},
        {33554432.0f, "33554432"},
        {8388609.0f, "8388609"},
        {NAN, "null"},
        {INFINITY, "null"},
        {-INFINITY, "null"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[API_NUMBER_ROOM] = "";
        text[api_float_text(rows[i].v, text)] = '\0';
        cr_expect_str_eq(text, rows[i].text, "row %zu", i);
    }
    static const struct {
        double v;
        const char *text;
    } doubles[] = {
        {0.1, "0.1"},
        {5e-324, "5e-324"},
        {1.7976931348623157e308, "1.7976931348623157e308"},
        {9007199254740993.0, "9.007199254740992e15"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {123456.789, "123456.789"},
        {(double)NAN, "null"},
        {-0.0, "-0.0"},
    };
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
        char text[API_NUMBER_ROOM] = "";
        text[api_double_text(doubles[i].v, text)] = '\0';
        cr_expect_str_eq(text, doubles[i].text, "row %zu", i);
    }
    api_buffer b;
    api_buffer_init(&b, 1 << 10);
    api_buffer_json_u64(&b, UINT64_MAX);
    api_buffer_puts(&b, " ");
    api_buffer_json_i64(&b, INT64_MIN);
    api_buffer_puts(&b, " ");
    api_buffer_json_u64(&b, 7);
    cr_expect(holds(&b, "18446744073709551615 -9223372036854775808 7"));
    api_buffer_free(&b);
}

Test(buffer, writes_vectors)
{
    static const float v[] = {0.6f, -0.8f, 1.0f, -2.0f};
    static const char *const texts[] = {"", "mpkZPw==", "mpkZP83MTL8=", "mpkZP83MTL8AAIA/",
                                        "mpkZP83MTL8AAIA/AAAAwA=="};
    for (size_t n = 0; n <= 4; n++) {
        char text[64] = "";
        text[api_base64_floats(v, n, text)] = '\0';
        cr_expect_str_eq(text, texts[n]);
        cr_expect_eq(strlen(text), api_base64_size(4 * n));
    }
    api_buffer b;
    api_buffer_init(&b, 1 << 10);
    api_buffer_json_floats(&b, v, 3);
    api_buffer_json_floats(&b, v, 0);
    api_buffer_json_base64_floats(&b, v, 2);
    cr_expect(holds(&b, "[0.6,-0.8,1][]\"mpkZP83MTL8=\""), "%.*s", (int)b.size, b.data);
    api_buffer_free(&b);
    api_buffer_init(&b, 20);
    float many[100] = {0};
    api_buffer_json_floats(&b, many, 100);
    cr_expect(b.failed && b.too_large);
    api_buffer_free(&b);
}

Test(error, codes_are_whole)
{
    for (int i = 0; i < API_CODE_COUNT; i++) {
        const api_code c = (api_code)i;
        cr_expect(strlen(api_code_name(c)) > 0);
        cr_expect(api_code_http_status(c) >= 400 && api_code_http_status(c) < 600);
        for (int j = 0; j < i; j++)
            cr_expect_str_neq(api_code_name(c), api_code_name((api_code)j));
    }
    api_error e;
    cr_expect(!api_fail(&e, API_CODE_INTERNAL, NULL, "%0300d", 1));
    cr_expect_eq(strlen(e.message), sizeof e.message - 1);
    cr_expect_str_eq(e.param, "");
}
