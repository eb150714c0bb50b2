#include "core/base/status.h"

#include <criterion/criterion.h>
#include <string.h>

#include "core/base/utf8.h"

Test(status, fail_fills_the_error_and_returns_the_status)
{
    lam_err e;
    cr_expect_eq(lam_fail(&e, LAM_E_FILE, "config.json", "%d bytes", 7), LAM_E_FILE);
    cr_expect_eq(e.status, LAM_E_FILE);
    cr_expect_str_eq(e.where, "config.json");
    cr_expect_str_eq(e.message, "7 bytes");
    cr_expect_eq(lam_fail(NULL, LAM_E_NOMEM, NULL, "x"), LAM_E_NOMEM);
}

Test(status, text_of_a_file_is_made_printable)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"a\nb\tc\x1b[31m", "a?b?c?[31m"},
        {"na\xefve text", "na?ve text"}, /* a byte that is no UTF-8 */
        {"\xc3\xa9t\xc3\xa9", "\xc3\xa9t\xc3\xa9"},
        {"\xc2\x85z", "??z"}, /* a control character of two bytes */
        {"cut \xe2\x82", "cut "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lam_err e;
        (void)lam_fail(&e, LAM_E_FORMAT, rows[i].in, "%s", rows[i].in);
        cr_expect_str_eq(e.where, rows[i].out);
        cr_expect_str_eq(e.message, rows[i].out);
    }
    char big[2000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    lam_err e;
    (void)lam_fail(&e, LAM_E_FORMAT, big, "%s", big);
    cr_expect_eq(strlen(e.where), sizeof e.where - 1);
}

Test(utf8, accepts_well_formed_text_and_names_the_first_bad_byte)
{
    static const struct {
        const char *s;
        size_t n, bad; /* bad == n: valid */
    } rows[] = {
        {"", 0, 0},
        {"plain ascii, longer than eight", 30, 30},
        {"a\0b", 3, 3},
        {"\xc3\xa9", 2, 2},
        {"12345678\xc3\xa9", 10, 10},
        {"\xe2\x82\xac", 3, 3},
        {"\xf0\x9f\x98\x80", 4, 4},
        {"\xf4\x8f\xbf\xbf", 4, 4},
        {"\xf4\x90\x80\x80", 4, 0}, /* above U+10FFFF */
        {"\xf5\x80\x80\x80", 4, 0},
        {"\xed\x9f\xbf", 3, 3},
        {"\xed\xa0\x80", 3, 0}, /* surrogate */
        {"\xc0\x80", 2, 0},     /* overlong */
        {"\xc1\xbf", 2, 0},
        {"\xe0\x9f\xbf", 3, 0},
        {"\xf0\x8f\xbf\xbf", 4, 0},
        {"abcdefghij\x80", 11, 10},
        {"ab\xe2\x82", 4, 2}, /* cut off */
        {"ab\xe2\x28\xa1", 5, 2},
        {"\xff", 1, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t at = rows[i].n;
        const bool valid = lam_utf8_valid(rows[i].s, rows[i].n, &at);
        cr_expect_eq(valid, rows[i].bad == rows[i].n, "row %zu", i);
        cr_expect_eq(at, rows[i].bad, "row %zu: %zu", i, at);
    }
}

Test(utf8, encode_and_decode_agree_on_every_code_point)
{
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        if (c >= 0xd800 && c <= 0xdfff) continue;
        char s[4];
        const size_t n = lam_utf8_encode(c, s);
        uint32_t back;
        if (!lam_utf8_valid(s, n, NULL) || lam_utf8_decode(s, &back) != n || back != c)
            cr_assert_fail("code point %x", c);
    }
}
