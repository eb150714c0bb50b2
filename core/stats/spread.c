#include "core/stats/spread.h"

#include <math.h>
#include <string.h>

#include "core/base/checked.h"

enum { ALIGN = 64 };

/* ---- Memory ---------------------------------------------------------------------------------- */

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t greater(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* count * each things of `size` bytes, or where it only adds up: their bytes. */
typedef struct carver {
    lam_arena *arena; /* NULL: measure */
    size_t bytes;     /* SIZE_MAX: too many */
    bool failed;
} carver;

static void *carve(carver *c, size_t count, size_t each, size_t size)
{
    size_t values, bytes, total;
    if (!lam_mul_size(count, each, &values) || !lam_mul_size(values, size, &bytes) ||
        !lam_add_size(bytes, 2 * (size_t)ALIGN, &total) ||
        !lam_add_size(c->bytes, total, &c->bytes)) {
        c->bytes = SIZE_MAX;
        c->failed = true;
        return NULL;
    }
    if (!c->arena || c->failed) return NULL;
    void *memory = lam_arena_alloc_aligned(c->arena, bytes, ALIGN);
    if (!memory) c->failed = true;
    return memory;
}

static void carve_scratch(lam_spread_scratch *s, carver *c)
{
    const size_t width = s->width, rows = s->max_rows, stride = lam_row_stride(width);
    const size_t side = lam_row_stride(lesser(rows, width));
    s->sums = carve(c, stride, 1, sizeof *s->sums);
    s->high = carve(c, stride, 1, sizeof *s->high);
    s->low = carve(c, stride, 1, sizeof *s->low);
    s->ones = carve(c, rows, 1, sizeof *s->ones);
    s->zeros = carve(c, side, 1, sizeof *s->zeros);
    s->centred = carve(c, rows, width, sizeof *s->centred);
    s->turned = rows >= width ? carve(c, width, rows, sizeof *s->turned) : NULL;
    s->packed = carve(c, side, greater(rows, width), sizeof *s->packed);
    s->products = carve(c, LAM_PANEL, side, sizeof *s->products);
    if (c->failed || !c->arena) return;
    for (size_t i = 0; i < rows; i++)
        s->ones[i] = 1.0f;
    memset(s->zeros, 0, side * sizeof *s->zeros);
}

size_t lam__spread_scratch_bytes(size_t width, size_t max_rows)
{
    carver c = {0};
    lam_spread_scratch s = {.width = width, .max_rows = max_rows};
    carve_scratch(&s, &c);
    return c.bytes;
}

bool lam__spread_scratch_init(lam_spread_scratch *s, lam_arena *arena, size_t width,
                              size_t max_rows)
{
    carver c = {.arena = arena};
    *s = (lam_spread_scratch){.width = width, .max_rows = max_rows};
    carve_scratch(s, &c);
    return !c.failed;
}

/* Rows of LAM_PANEL of a lower triangle, each as wide as its last row's diagonal, rounded up: panel
 * b begins behind 1 + 2 + ... + b squares. */
static size_t panel_start(size_t b)
{
    return b * (b + 1) / 2 * LAM_PANEL * LAM_PANEL;
}

static void carve_spread(lam_spread *p, carver *c, size_t max_rows)
{
    p->capacity = lesser(max_rows, p->width);
    p->rows = carve(c, p->capacity, p->width, sizeof *p->rows);
    if (max_rows <= p->width) return;
    const size_t products = panel_start(lam_row_stride(p->width) / LAM_PANEL);
    p->mean = carve(c, p->width, 1, sizeof *p->mean);
    p->products = carve(c, products, 1, sizeof *p->products);
    if (p->mean) memset(p->mean, 0, p->width * sizeof *p->mean);
    if (p->products) memset(p->products, 0, products * sizeof *p->products);
}

size_t lam__spread_bytes(size_t width, size_t max_rows)
{
    carver c = {0};
    lam_spread p = {.width = width};
    carve_spread(&p, &c, max_rows);
    return c.bytes;
}

bool lam__spread_init(lam_spread *p, lam_arena *arena, size_t width, size_t max_rows)
{
    carver c = {.arena = arena};
    *p = (lam_spread){.width = width};
    carve_spread(p, &c, max_rows);
    return !c.failed;
}

/* ---- Products of rows with rows ----------------------------------------------------------------
 */

/* s->centred = the rows that are kept around their mean, which is left in s->sums; returns how
 * many.
 */
static size_t centre(const lam_spread_scratch *s, const lam_kernels *k, const float *x,
                     size_t stride, size_t rows, const float *keep)
{
    size_t count = 0, at = 0;
    for (size_t r = 0; r < rows; r++)
        count += keep[r] != 0.0f;
    for (size_t c = 0; c < s->width; c++)
        s->sums[c] = 0.0;
    k->add_scaled(x, stride, rows, s->width, keep, s->sums);
    for (size_t c = 0; c < s->width && count > 0; c++) {
        s->sums[c] /= (double)count;
        s->high[c] = (float)s->sums[c];
        s->low[c] = (float)(s->sums[c] - (double)s->high[c]);
    }
    for (size_t r = 0; r < rows; r++)
        if (keep[r] != 0.0f)
            k->centre(x + r * stride, stride, 1, s->width, s->high, s->low,
                      s->centred + at++ * s->width, s->width);
    return count;
}

/* turned = transposed centred [count, width]. */
static void turn(const lam_spread_scratch *s, size_t count)
{
    enum { BLOCK = 16 };
    for (size_t r0 = 0; r0 < count; r0 += BLOCK)
        for (size_t c = 0; c < s->width; c++)
            for (size_t r = r0; r < count && r < r0 + BLOCK; r++)
                s->turned[c * count + r] = s->centred[r * s->width + c];
}

/* What becomes of a block of LAM_PANEL rows of the products, up to the diagonal. */
typedef struct sink {
    double squares;   /* of the Frobenius norm */
    double *products; /* or NULL: added to */
} sink;

static void take_block(sink *to, size_t block, size_t rows, const float *products, size_t stride)
{
    const size_t first = block * LAM_PANEL, columns = first + LAM_PANEL;
    for (size_t r = 0; r < rows; r++) {
        const float *p = products + r * stride;
        const size_t diagonal = first + r;
        if (to->products) {
            double *sums = to->products + panel_start(block) + r * columns;
            for (size_t c = 0; c <= diagonal; c++)
                sums[c] += (double)p[c];
            continue;
        }
        double below = 0.0;
        for (size_t c = 0; c < diagonal; c++)
            below += (double)p[c] * (double)p[c];
        to->squares += 2.0 * below + (double)p[diagonal] * (double)p[diagonal];
    }
}

/* m m^T for m [side, depth], the lower triangle, block by block into `to`. */
static void multiply(const lam_spread_scratch *s, const lam_kernels *k, const float *m, size_t side,
                     size_t depth, sink *to)
{
    const size_t stride = lam_row_stride(side);
    if (side < stride)
        memset(s->packed + (stride - LAM_PANEL) * depth, 0, LAM_PANEL * depth * sizeof(float));
    lam__pack_weight(m, side, depth, 0, s->packed);
    lam_linear l = {
        .weight = s->packed, .bias = s->zeros, .k = depth, .activation = LAM_ACTIVATION_IDENTITY};
    for (size_t b = 0; b * LAM_PANEL < side; b++) {
        const size_t rows = lesser(side - b * LAM_PANEL, LAM_PANEL);
        l.n = (b + 1) * LAM_PANEL;
        k->linear(&l, m + b * LAM_PANEL * depth, depth, rows, NULL, 0, 1.0f, s->products, stride);
        take_block(to, b, rows, s->products, stride);
    }
}

static double trace_of(const lam_kernels *k, const float *rows, size_t count, size_t width)
{
    double trace = 0.0;
    for (size_t r = 0; r < count; r++) {
        lam_row_products p;
        k->products(rows + r * width, width, rows + r * width, width, 1, width, &p);
        trace += p.xx;
    }
    return trace;
}

static double ratio(double trace, double squares)
{
    return trace > 0.0 && squares > 0.0 ? trace * trace / squares : (double)NAN;
}

double lam__spread_of(const lam_spread_scratch *s, const lam_kernels *k, const float *x,
                      size_t stride, size_t rows, const float *keep)
{
    sink to = {0};
    const size_t count = centre(s, k, x, stride, rows, keep);
    if (count < 2) return (double)NAN;
    const double trace = trace_of(k, s->centred, count, s->width);
    if (count <= s->width) {
        multiply(s, k, s->centred, count, s->width, &to);
    } else {
        turn(s, count);
        multiply(s, k, s->turned, s->width, count, &to);
    }
    return ratio(trace, to.squares);
}

/* ---- Rows that come bit by bit -----------------------------------------------------------------
 */

/* The kept rows become products. With d the distance of the means: + d d^T n_a n_b / n. */
static void fold(lam_spread *p, const lam_spread_scratch *s, const lam_kernels *k)
{
    sink to = {.products = p->products};
    const double na = (double)p->folded, nb = (double)p->count, n = na + nb;
    (void)centre(s, k, p->rows, p->width, p->count, s->ones);
    turn(s, p->count);
    multiply(s, k, s->turned, p->width, p->count, &to);
    double *d = s->sums; /* the mean of what is folded, then its distance */
    for (size_t c = 0; c < p->width; c++)
        d[c] -= p->mean[c];
    for (size_t b = 0; b * LAM_PANEL < p->width && p->folded > 0; b++) {
        const size_t first = b * LAM_PANEL, rows = lesser(p->width - first, LAM_PANEL);
        for (size_t r = 0; r < rows; r++) {
            double *sums = p->products + panel_start(b) + r * (first + LAM_PANEL);
            const double factor = d[first + r] * na * nb / n;
            for (size_t c = 0; c <= first + r; c++)
                sums[c] += factor * d[c];
        }
    }
    for (size_t c = 0; c < p->width; c++)
        p->mean[c] += d[c] * nb / n;
    p->folded += p->count;
    p->count = 0;
}

void lam__spread_add(lam_spread *p, const lam_spread_scratch *s, const lam_kernels *k,
                     const float *x, size_t stride, size_t rows, const float *keep)
{
    for (size_t r = 0; r < rows; r++) {
        if (keep[r] == 0.0f) continue;
        if (p->count == p->capacity) fold(p, s, k);
        memcpy(p->rows + p->count * p->width, x + r * stride, p->width * sizeof *x);
        p->count++;
    }
}

static double ratio_of_products(const lam_spread *p)
{
    double trace = 0.0, squares = 0.0;
    for (size_t i = 0; i < p->width; i++) {
        const size_t b = i / LAM_PANEL, columns = (b + 1) * LAM_PANEL;
        const double *row = p->products + panel_start(b) + i % LAM_PANEL * columns;
        double below = 0.0;
        for (size_t c = 0; c < i; c++)
            below += row[c] * row[c];
        trace += row[i];
        squares += 2.0 * below + row[i] * row[i];
    }
    return ratio(trace, squares);
}

double lam__spread_read(lam_spread *p, const lam_spread_scratch *s, const lam_kernels *k)
{
    if (p->folded == 0) return lam__spread_of(s, k, p->rows, p->width, p->count, s->ones);
    if (p->count > 0) fold(p, s, k);
    return ratio_of_products(p);
}
