#include "core/pool/pool.h"

#include <math.h>
#include <string.h>

/* Channels summed at a time: their double sums stay in registers or L1. */
enum { BLOCK = 32 };

/* What a row counts in a sum over rows 1..n. */
static double row_weight(lam_pool pool, size_t row)
{
    return pool == LAM_POOL_WEIGHTED ? (double)(row + 1) : 1.0;
}

/* What the sum over n rows is divided by. */
static double sum_divisor(lam_pool pool, size_t rows)
{
    const double n = (double)rows;
    if (pool == LAM_POOL_WEIGHTED) return n * (n + 1.0) / 2.0;
    if (pool == LAM_POOL_MEAN_SQRT_LEN) return sqrt(n);
    return n;
}

static void pool_sum(lam_pool pool, const float *x, size_t stride, size_t rows, size_t dimensions,
                     float *out)
{
    const double divisor = sum_divisor(pool, rows);
    for (size_t first = 0; first < dimensions; first += BLOCK) {
        const size_t width = dimensions - first < BLOCK ? dimensions - first : BLOCK;
        double sums[BLOCK] = {0};
        for (size_t r = 0; r < rows; r++) {
            const double weight = row_weight(pool, r);
            for (size_t c = 0; c < width; c++)
                sums[c] += weight * (double)x[r * stride + first + c];
        }
        for (size_t c = 0; c < width; c++)
            out[first + c] = (float)(sums[c] / divisor);
    }
}

static void pool_max(const float *x, size_t stride, size_t rows, size_t dimensions, float *out)
{
    memcpy(out, x, dimensions * sizeof *out);
    for (size_t r = 1; r < rows; r++)
        for (size_t c = 0; c < dimensions; c++) {
            const float v = x[r * stride + c];
            /* A NaN must win: a maximum that passes over it would hide it. */
            if (v > out[c] || isnan(v)) out[c] = v;
        }
}

static bool all_finite(const float *v, size_t n)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++)
        finite &= isfinite(v[i]) != 0;
    return finite;
}

static lam_status scale_to_unit(float *v, size_t n)
{
    double squares = 0.0;
    for (size_t i = 0; i < n; i++)
        squares += (double)v[i] * (double)v[i];
    if (!(squares > 0.0)) return LAM_E_ZERO_NORM;
    const double inverse = 1.0 / sqrt(squares);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)((double)v[i] * inverse);
    return LAM_OK;
}

static lam_status finish(const lam_encode_opts *opts, float *v)
{
    if (!all_finite(v, opts->dimensions)) return LAM_E_NON_FINITE;
    return opts->normalize ? scale_to_unit(v, opts->dimensions) : LAM_OK;
}

static lam_status pool_none(const lam_encode_opts *opts, const float *x, size_t stride, size_t rows,
                            float *out)
{
    const size_t dimensions = opts->dimensions;
    for (size_t r = 0; r < rows; r++) {
        memcpy(out + r * dimensions, x + r * stride, dimensions * sizeof *out);
        LAM_TRY(finish(opts, out + r * dimensions));
    }
    return LAM_OK;
}

lam_status lam__pool(const lam_encode_opts *opts, const float *x, size_t stride, size_t rows,
                     float *out)
{
    switch (opts->pool) {
    case LAM_POOL_MEAN:
    case LAM_POOL_MEAN_SQRT_LEN:
    case LAM_POOL_WEIGHTED:
        pool_sum(opts->pool, x, stride, rows, opts->dimensions, out);
        break;
    case LAM_POOL_MAX:
        pool_max(x, stride, rows, opts->dimensions, out);
        break;
    case LAM_POOL_CLS:
        memcpy(out, x, opts->dimensions * sizeof *out);
        break;
    case LAM_POOL_LAST:
        memcpy(out, x + (rows - 1) * stride, opts->dimensions * sizeof *out);
        break;
    case LAM_POOL_NONE:
    case LAM_POOL_COUNT:
        return pool_none(opts, x, stride, rows, out);
    }
    return finish(opts, out);
}
