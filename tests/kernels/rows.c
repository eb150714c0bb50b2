/* Layer norm, embedding and addition against their formulas. */
#include "tests/kernels/support.h"

#include <math.h>

/* y to within 1e-6 of its own size and of the largest gain; an input at a large offset is exact, so
 * no more is allowed there. */
static void check_norm_case(const lam_kernels *k, size_t rows, size_t width, float offset,
                            float spread)
{
    matrix x = make_random(rows, width, offset, spread), y = make(rows, width),
           one = make(1, width);
    matrix gain = make_random(1, width, 1, 0.5f), bias = make_random(1, width, 0, 1);
    const lam_layer_norm n = {.gain = gain.data, .bias = bias.data, .width = width, .eps = 1e-12f};
    if (spread == 0.0f) /* all equal */
        for (size_t i = 0; i < rows * x.stride; i++)
            x.data[i] = i % x.stride < width ? offset : NAN;
    k->layer_norm(&n, x.data, x.stride, rows, y.data, y.stride);
    double worst = 0.0;
    bool alone = true;
    for (size_t r = 0; r < rows; r++) {
        double mean = 0.0, variance = 0.0;
        for (size_t c = 0; c < width; c++)
            mean += (double)at(&x, r, c) / (double)width;
        for (size_t c = 0; c < width; c++)
            variance +=
                ((double)at(&x, r, c) - mean) * ((double)at(&x, r, c) - mean) / (double)width;
        const double inverse = 1.0 / sqrt(variance + (double)n.eps);
        /* A row of equal values may be centred on a mean that is off by its last place. */
        const double centre = spread == 0.0f ? 1e-13 * fabs((double)offset) * inverse : 0.0;
        for (size_t c = 0; c < width; c++) {
            const double d = ((double)at(&x, r, c) - mean) * inverse, g = (double)at(&gain, 0, c);
            const double want = d * g + (double)at(&bias, 0, c);
            const double bound =
                1e-6 * (1.0 + fabs(d)) * fabs(g) + 2 * EPS * fabs(want) + centre * 2;
            worst = larger(worst, excess(at(&y, r, c), want, bound + 1e-7));
        }
        k->layer_norm(&n, x.data + r * x.stride, x.stride, 1, one.data, one.stride);
        alone = alone && same_rows(&one, 0, &y, r);
    }
    report(worst <= 1.0 && guards_hold(&y), "layer_norm", "against double", rows, width,
           (size_t)offset, worst);
    report(alone, "layer_norm", "bits of rows alone", rows, width, (size_t)offset, 0);
    k->layer_norm(&n, x.data, x.stride, rows, x.data, x.stride);
    report(same_matrix(&x, &y), "layer_norm", "in place", rows, width, 0, 0);
    drop(&x), drop(&y), drop(&one), drop(&gain), drop(&bias);
}

void check_norm(const lam_kernels *k)
{
    static const size_t widths[] = {2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100, 384, 1536};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        check_norm_case(k, 3, widths[i], 0.3f, 1.0f);
        check_norm_case(k, 3, widths[i], 1e4f, 1.0f);
        check_norm_case(k, 3, widths[i], 1e4f, 0.0f);
        check_norm_case(k, 1, widths[i], 0.0f, 1e-3f);
    }
    check_norm_case(k, 0, 32, 0, 1);
    for (int kind = 0; kind < 2; kind++) { /* not finite: the whole row, and no other */
        matrix x = make_random(3, 40, 0, 1), y = make(3, 40), gain = make_random(2, 40, 1, 0);
        const lam_layer_norm n = {gain.data, gain.data + gain.stride, 40, 1e-12f};
        x.data[x.stride + 39] = kind ? INFINITY : NAN;
        k->layer_norm(&n, x.data, x.stride, 3, y.data, y.stride);
        bool ok = true;
        for (size_t i = 0; i < 120; i++)
            ok = ok && (isfinite(at(&y, i / 40, i % 40)) != 0) == (i / 40 != 1);
        report(ok, "layer_norm", "not finite", 3, 40, (size_t)kind, 0);
        drop(&x), drop(&y), drop(&gain);
    }
}

/* Both are exact but for the order of roundings, which is fixed: bits are compared. */
void check_embed_and_add(const lam_kernels *k, size_t width)
{
    enum { ROWS = 9 };
    matrix word = make_random(20, width, 0, 1), position = make_random(12, width, 0, 1);
    matrix type = make_random(2, width, 0, 1), y = make(ROWS, width), z = make(ROWS, width);
    int32_t ids[ROWS], positions[ROWS], types[ROWS];
    for (int i = 0; i < ROWS; i++)
        ids[i] = 19 - 2 * i, positions[i] = i + 1, types[i] = i % 2;
    const lam_embedding e = {word.data, position.data, type.data, width};
    const lam_embedding bare = {word.data, NULL, NULL, width};
    for (int kind = 0; kind < 3; kind++) {
        k->embed(kind == 2 ? &bare : &e, ids, positions, kind ? NULL : types, ROWS, y.data,
                 y.stride);
        bool ok = guards_hold(&y);
        for (size_t r = 0; r < ROWS; r++)
            for (size_t c = 0; c < width; c++) {
                float want = at(&word, (size_t)ids[r], c);
                if (kind < 2) want += at(&position, (size_t)positions[r], c);
                if (kind < 1) want += at(&type, (size_t)types[r], c);
                ok = ok && same(want, at(&y, r, c));
            }
        report(ok, "embed", "bits", ROWS, width, (size_t)kind, 0);
    }
    k->embed(&e, ids, positions, types, ROWS, y.data, y.stride);
    k->add(y.data, y.stride, word.data, word.stride, 0.3f, ROWS, width, z.data, z.stride);
    bool ok = guards_hold(&z);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t c = 0; c < width; c++) {
            const float scaled = 0.3f * at(&word, r, c);
            ok = ok && same(at(&y, r, c) + scaled, at(&z, r, c));
        }
    report(ok, "add", "bits", ROWS, width, 0, 0);
    matrix x = copy(&y);
    k->add(x.data, x.stride, word.data, word.stride, 0.3f, ROWS, width, x.data, x.stride);
    report(same_matrix(&x, &z), "add", "y is x", ROWS, width, 0, 0);
    k->add(y.data, y.stride, word.data, word.stride, 0.3f, ROWS, width, word.data, word.stride);
    word.rows = ROWS;
    report(same_matrix(&word, &z), "add", "y is z", ROWS, width, 0, 0);
    drop(&word), drop(&position), drop(&type), drop(&y), drop(&z), drop(&x);
}
