#include "core/model/names.h"

#include <criterion/criterion.h>
#include <string.h>

Test(names, every_name_reads_back_to_its_value)
{
    for (int i = 0; i < LAM_POOL_COUNT; i++) {
        lam_pool v;
        const char *s = lam_pool_name((lam_pool)i);
        cr_expect(lam_pool_parse(s, strlen(s), &v) && (int)v == i, "%s", s);
    }
    for (int i = 0; i < LAM_SITE_COUNT; i++) {
        lam_site v;
        const char *s = lam_site_name((lam_site)i);
        cr_expect(lam_site_parse(s, strlen(s), &v) && (int)v == i, "%s", s);
    }
    for (int i = 0; i < LAM_ISA_COUNT; i++) {
        lam_isa v;
        const char *s = lam_isa_name((lam_isa)i);
        cr_expect(lam_isa_parse(s, strlen(s), &v) && (int)v == i, "%s", s);
    }
    for (int i = 0; i < LAM_STATS_LEVEL_COUNT; i++) {
        lam_stats_level v;
        const char *s = lam_stats_level_name((lam_stats_level)i);
        cr_expect(lam_stats_level_parse(s, strlen(s), &v) && (int)v == i, "%s", s);
    }
}

Test(names, pool_takes_the_spellings_of_others_and_nothing_else)
{
    static const struct {
        const char *in;
        int pool; /* -1: refused */
    } rows[] = {
        {"mean", LAM_POOL_MEAN},
        {"last_token", LAM_POOL_LAST},
        {"lasttoken", LAM_POOL_LAST},
        {"weightedmean", LAM_POOL_WEIGHTED},
        {"mean_sqrt_len_tokens", LAM_POOL_MEAN_SQRT_LEN},
        {"Mean", -1},
        {"mea", -1},
        {"means", -1},
        {"", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lam_pool v = LAM_POOL_COUNT;
        const bool ok = lam_pool_parse(rows[i].in, strlen(rows[i].in), &v);
        cr_expect_eq(ok ? (int)v : -1, rows[i].pool, "\"%s\"", rows[i].in);
        if (!ok) cr_expect_eq(v, LAM_POOL_COUNT, "out is left alone");
    }
}
