#include "core/pool/pool.h"

#include <criterion/criterion.h>
#include <math.h>

#define D      ((size_t)3)
#define STRIDE ((size_t)32)
#define ROWS   ((size_t)4)

static const float values[ROWS][D] = {{1, -2, 3}, {5, 6, -7}, {-9, 10, 11}, {2, 2, 2}};

static void fill(float *x)
{
    for (size_t i = 0; i < ROWS * STRIDE; i++)
        x[i] = NAN; /* padding must not count */
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < D; c++)
            x[r * STRIDE + c] = values[r][c];
}

Test(pool, each_kind_follows_its_formula)
{
    static const struct {
        lam_pool pool;
        float want[D];
    } rows[] = {
        {LAM_POOL_MEAN, {-0.25f, 4.0f, 2.25f}},
        {LAM_POOL_CLS, {1, -2, 3}},
        {LAM_POOL_MAX, {5, 10, 11}},
        {LAM_POOL_LAST, {2, 2, 2}},
        {LAM_POOL_MEAN_SQRT_LEN, {-0.5f, 8.0f, 4.5f}},
        {LAM_POOL_WEIGHTED, {-0.8f, 4.8f, 3.0f}},
    };
    float x[ROWS * STRIDE];
    fill(x);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const lam_encode_opts opts = {.pool = rows[i].pool, .dimensions = D};
        float out[D];
        cr_assert_eq(lam__pool(&opts, x, STRIDE, ROWS, out), LAM_OK);
        for (size_t c = 0; c < D; c++)
            cr_expect_float_eq(out[c], rows[i].want[c], 1e-6f, "%s[%zu] = %g",
                               lam_pool_name(rows[i].pool), c, (double)out[c]);
    }
}

Test(pool, cuts_first_then_scales)
{
    float x[ROWS * STRIDE], out[ROWS * 2];
    fill(x);
    const lam_encode_opts cls = {.pool = LAM_POOL_CLS, .normalize = true, .dimensions = 2};
    cr_assert_eq(lam__pool(&cls, x, STRIDE, ROWS, out), LAM_OK);
    cr_expect_float_eq(out[0], (float)(1 / sqrt(5.0)), 1e-7f);
    cr_expect_float_eq(out[1], (float)(-2 / sqrt(5.0)), 1e-7f);
    const lam_encode_opts none = {.pool = LAM_POOL_NONE, .normalize = true, .dimensions = 2};
    cr_assert_eq(lam__pool(&none, x, STRIDE, ROWS, out), LAM_OK);
    for (size_t r = 0; r < ROWS; r++)
        cr_expect_float_eq(out[2 * r] * out[2 * r] + out[2 * r + 1] * out[2 * r + 1], 1, 1e-6f);
}

Test(pool, never_hides_what_is_not_finite_or_has_no_length)
{
    float x[ROWS * STRIDE], out[ROWS * D];
    for (int p = 0; p < LAM_POOL_COUNT; p++) {
        const lam_encode_opts opts = {.pool = (lam_pool)p, .normalize = true, .dimensions = D};
        static const float bad[] = {NAN, INFINITY, -INFINITY};
        for (size_t b = 0; b < 3; b++) {
            fill(x);
            for (size_t r = 0; r < ROWS; r++)
                x[r * STRIDE + 1] = bad[b];
            cr_expect_eq(lam__pool(&opts, x, STRIDE, ROWS, out), LAM_E_NON_FINITE, "%s with %g",
                         lam_pool_name((lam_pool)p), (double)bad[b]);
        }
        for (size_t i = 0; i < ROWS * STRIDE; i++)
            x[i] = 0;
        cr_expect_eq(lam__pool(&opts, x, STRIDE, ROWS, out), LAM_E_ZERO_NORM, "%s of zeros",
                     lam_pool_name((lam_pool)p));
    }
    /* One NaN between finite rows. */
    fill(x);
    x[2 * STRIDE] = NAN;
    const lam_encode_opts max = {.pool = LAM_POOL_MAX, .dimensions = D};
    cr_expect_eq(lam__pool(&max, x, STRIDE, ROWS, out), LAM_E_NON_FINITE);
}
