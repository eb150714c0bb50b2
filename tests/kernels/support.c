#include "tests/kernels/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t passed, failed;
const char *isa_now;
uint64_t random_state;

static uint64_t next_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

float uniform(void)
{
    return (float)((double)(next_bits() >> 11) / 4503599627370496.0 - 1.0);
}

void report(bool ok, const char *op, const char *what, size_t a, size_t b, size_t c, double worst)
{
    if (ok) {
        passed++;
        return;
    }
    failed++;
    printf("FAILED %s %s: %s, sizes %zu %zu %zu, worst %g of its bound\n", isa_now, op, what, a, b,
           c, worst);
}

const uint32_t GUARD_BITS = 0x7fa5a5a5u;

void *take(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!p) exit(2);
    return p;
}

matrix make(size_t rows, size_t width)
{
    matrix m = {.rows = rows, .width = width, .stride = lam_row_stride(width)};
    m.floats = rows * m.stride;
    m.base = take((m.floats + 2 * (size_t)GUARD) * sizeof(float));
    m.data = m.base + GUARD;
    for (size_t i = 0; i < m.floats + 2 * (size_t)GUARD; i++)
        memcpy(m.base + i, &GUARD_BITS, 4);
    return m;
}

matrix make_random(size_t rows, size_t width, float offset, float spread)
{
    matrix m = make(rows, width);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < width; c++)
            m.data[r * m.stride + c] = offset + spread * uniform();
    return m;
}

matrix copy(const matrix *from)
{
    matrix m = make(from->rows, from->width);
    if (from->floats) memcpy(m.data, from->data, from->floats * sizeof(float));
    return m;
}

bool guards_hold(const matrix *m)
{
    for (size_t i = 0; i < GUARD; i++) {
        if (memcmp(m->base + i, &GUARD_BITS, 4) != 0) return false;
        if (memcmp(m->data + m->floats + i, &GUARD_BITS, 4) != 0) return false;
    }
    return true;
}

float at(const matrix *m, size_t r, size_t c)
{
    return m->data[r * m->stride + c];
}

bool same(float a, float b)
{
    return memcmp(&a, &b, 4) == 0 || (isnan(a) && isnan(b));
}

bool same_rows(const matrix *a, size_t ra, const matrix *b, size_t rb)
{
    for (size_t c = 0; c < a->width; c++)
        if (!same(at(a, ra, c), at(b, rb, c))) return false;
    return true;
}

bool same_matrix(const matrix *a, const matrix *b)
{
    for (size_t r = 0; r < a->rows; r++)
        if (!same_rows(a, r, b, r)) return false;
    return true;
}

void drop(matrix *m)
{
    free(m->base);
}

double excess(float got, double want, double bound)
{
    if (!isfinite(want)) return isfinite(got) ? HUGE_VAL : 0.0;
    const double e = fabs((double)got - want) / bound;
    return isnan(e) ? HUGE_VAL : e;
}

double larger(double a, double b)
{
    return a > b ? a : b;
}
