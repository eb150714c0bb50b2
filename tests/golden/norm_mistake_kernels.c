/* Kernels that compute something else. Values in double; only what the mistake is differs. */
#include "tests/golden/norm_mistakes.h"

mistaken mistaken_now;

static double d_of(const lam_row_norm *n, double v)
{
    const lam_norm_spec spec = {.eps_mode = n->eps_mode, .eps = (double)n->eps};
    return lam_norm_denominator(&spec, v);
}

/* ---- One pass ---- */

static void one_pass_layer(const lam_layer_norm *n, const float *x, size_t x_stride, size_t rows,
                           float *y, size_t y_stride)
{
    for (size_t r = 0; r < rows; r++) {
        float sum = 0.0f, squares = 0.0f;
        for (size_t c = 0; c < n->width; c++) {
            const float v = x[r * x_stride + c];
            sum += v, squares += v * v;
        }
        const float mean = sum / (float)n->width;
        const float variance = fmaxf(squares / (float)n->width - mean * mean, 0.0f);
        for (size_t c = 0; c < n->width; c++)
            y[r * y_stride + c] =
                (x[r * x_stride + c] - mean) / sqrtf(variance + n->eps) * n->gain[c] + n->bias[c];
    }
}

static void one_pass_columns(const float *x, size_t stride, size_t rows, size_t width,
                             bool around_zero, double *mean, double *squares)
{
    (void)around_zero;
    for (size_t c = 0; c < width; c++) {
        float sum = 0.0f, square = 0.0f;
        for (size_t r = 0; r < rows; r++) {
            const float v = x[r * stride + c];
            sum += v, square += v * v;
        }
        const float middle = sum / (float)rows;
        mean[c] = (double)middle;
        squares[c] = (double)(fmaxf(square / (float)rows - middle * middle, 0.0f) * (float)rows);
    }
}

void wrong_one_pass(lam_model *m, const norm_case *c)
{
    (void)c;
    m->kernels.layer_norm = one_pass_layer;
    m->kernels.column_moments = one_pass_columns;
}

/* ---- Rows ---- */

static void centred_rms(const lam_row_norm *n, const float *x, size_t x_stride, size_t rows,
                        float *y, size_t y_stride)
{
    lam_row_norm wrong = *n;
    wrong.centre = true;
    mistaken_now.right.row_norm(&wrong, x, x_stride, rows, y, y_stride);
}

void wrong_centred_rms(lam_model *m, const norm_case *c)
{
    (void)c;
    m->kernels.row_norm = centred_rms;
}

/* A denominator for each row, and whether channel c is divided by it. */
typedef double (*row_divisor)(const lam_row_norm *n, const float *x);

static void divide_rows(const lam_row_norm *n, const float *x, size_t x_stride, size_t rows,
                        float *y, size_t y_stride, row_divisor divisor, size_t divided)
{
    for (size_t r = 0; r < rows; r++) {
        const double d = divisor(n, x + r * x_stride);
        for (size_t c = 0; c < n->width; c++) {
            const double z = (double)x[r * x_stride + c] / (c < divided ? d : 1.0);
            y[r * y_stride + c] = (float)(z * (double)n->gain[c] + (double)n->bias[c]);
        }
    }
}

static double mean_square(const float *x, size_t count)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sum / (double)count;
}

static double first_channels(const lam_row_norm *n, const float *x)
{
    return d_of(n, mean_square(x, n->measured));
}

static double last_channels(const lam_row_norm *n, const float *x)
{
    return d_of(n, mean_square(x + n->width - n->measured, n->measured));
}

static double length_plus_eps(const lam_row_norm *n, const float *x)
{
    return sqrt(mean_square(x, n->width) * (double)n->width) + (double)n->eps;
}

static void last_rows(const lam_row_norm *n, const float *x, size_t xs, size_t rows, float *y,
                      size_t ys)
{
    divide_rows(n, x, xs, rows, y, ys, last_channels, n->width);
}

static void first_rows(const lam_row_norm *n, const float *x, size_t xs, size_t rows, float *y,
                       size_t ys)
{
    divide_rows(n, x, xs, rows, y, ys, first_channels, n->measured);
}

static void length_rows(const lam_row_norm *n, const float *x, size_t xs, size_t rows, float *y,
                        size_t ys)
{
    divide_rows(n, x, xs, rows, y, ys, length_plus_eps, n->width);
}

void wrong_last_channels(lam_model *m, const norm_case *c)
{
    (void)c;
    m->kernels.row_norm = last_rows;
}

void wrong_first_scaled(lam_model *m, const norm_case *c)
{
    (void)c;
    m->kernels.row_norm = first_rows;
}

void wrong_length_plus_eps(lam_model *m, const norm_case *c)
{
    (void)c;
    m->kernels.row_norm = length_rows;
}

/* c (x - k x z) z */
static void ada_rows(const lam_row_norm *n, const float *x, size_t xs, size_t rows, float *y,
                     size_t ys)
{
    lam_row_norm plain = *n;
    plain.ada = false;
    float *z = must(malloc(rows * ys * sizeof *z + 1));
    mistaken_now.right.row_norm(&plain, x, xs, rows, z, ys);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < n->width; c++) {
            const float v = x[r * xs + c], s = z[r * ys + c];
            y[r * ys + c] = n->c * (v - n->k * v * s) * s;
        }
    free(z);
}

void wrong_ada(lam_model *m, const norm_case *c)
{
    (void)c;
    m->kernels.row_norm = ada_rows;
}

/* ---- Every G-th channel ---- */

static void strided_rows(const lam_row_norm *n, const float *x, size_t xs, size_t rows, float *y,
                         size_t ys)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t g = 0; g < n->groups; g++) {
            double mean = 0.0, squares = 0.0;
            for (size_t c = g; c < n->width; c += n->groups)
                mean += (double)x[r * xs + c] / (double)n->measured;
            for (size_t c = g; c < n->width; c += n->groups)
                squares += pow((double)x[r * xs + c] - mean, 2.0);
            const double d = d_of(n, squares / (double)(n->measured - n->ddof));
            for (size_t c = g; c < n->width; c += n->groups)
                y[r * ys + c] = (float)(((double)x[r * xs + c] - mean) / d * (double)n->gain[c] +
                                        (double)n->bias[c]);
        }
    }
}

/* For GroupNorm over a sequence, whose groups were made one channel each: the group's moments for
 * each of its channels. */
static void strided_columns(const float *x, size_t stride, size_t rows, size_t width,
                            bool around_zero, double *mean, double *squares)
{
    const size_t groups = mistaken_now.spec.groups, channels = width / groups;
    (void)around_zero;
    for (size_t g = 0; g < groups; g++) {
        double middle = 0.0, sum = 0.0;
        for (size_t r = 0; r < rows; r++)
            for (size_t c = g; c < width; c += groups)
                middle += (double)x[r * stride + c] / (double)(rows * channels);
        for (size_t r = 0; r < rows; r++)
            for (size_t c = g; c < width; c += groups)
                sum += pow((double)x[r * stride + c] - middle, 2.0);
        for (size_t c = g; c < width; c += groups)
            mean[c] = middle, squares[c] = sum / (double)channels;
    }
}

static void strided_affine(const lam_channel_affine *a, const float *x, size_t xs, size_t rows,
                           float *y, size_t ys)
{
    if (a->groups == 0) {
        mistaken_now.right.channel_affine(a, x, xs, rows, y, ys);
        return;
    }
    for (size_t r = 0; r < rows; r++) {
        for (size_t g = 0; g < a->groups; g++) {
            double square = 0.0;
            for (size_t c = g; c < a->width; c += a->groups)
                square += pow((double)x[r * xs + c], 2.0) * (double)a->groups / (double)a->width;
            const double by = 1.0 / sqrt(square + (double)a->group_eps);
            for (size_t c = g; c < a->width; c += a->groups)
                y[r * ys + c] = (float)(((double)x[r * xs + c] * by - (double)a->mean[c]) *
                                            (double)a->scale[c] +
                                        (double)a->bias[c]);
        }
    }
}

void wrong_stride(lam_model *m, const norm_case *c)
{
    m->kernels.row_norm = strided_rows;
    m->kernels.channel_affine = strided_affine;
    if (c->hparams.attention_norm.source != LAM_NORM_FROM_SEQUENCE) return;
    m->kernels.column_moments = strided_columns;
    for (size_t i = 0; i < m->program.op_count; i++)
        if (m->program.ops[i].kind == LAM_OP_NORM)
            m->program.ops[i].u.norm.spec.groups = m->info.width;
}

/* ---- Columns ---- */

static size_t longest_item(void)
{
    size_t longest = 0;
    for (size_t i = 0; i < mistaken_now.request->count; i++)
        if (mistaken_now.request->items[i].rows > longest)
            longest = mistaken_now.request->items[i].rows;
    return longest;
}

/* Rows of zeros up to the longest item, for one item or for all: moments of n rows as if of more.
 */
static void padded_columns(const float *x, size_t stride, size_t rows, size_t width,
                           bool around_zero, double *mean, double *squares)
{
    const bool whole = rows == mistaken_now.request->rows;
    const double n = (double)rows, ddof = (double)mistaken_now.spec.ddof;
    const double padded =
        (double)(longest_item() * (whole ? mistaken_now.request->count : (size_t)1));
    mistaken_now.right.column_moments(x, stride, rows, width, around_zero, mean, squares);
    for (size_t c = 0; c < width; c++) {
        const double total = squares[c] + n * mean[c] * mean[c];
        mean[c] *= n / padded;
        const double sum = total - padded * mean[c] * mean[c];
        squares[c] = sum / (padded - ddof) * (n - ddof);
    }
}

void wrong_padding(lam_model *m, const norm_case *c)
{
    (void)c;
    m->kernels.column_moments = padded_columns;
}

static void mean_of_variances(const float *x, size_t stride, size_t rows, size_t width,
                              bool around_zero, double *mean, double *squares)
{
    const norm_request *q = mistaken_now.request;
    double *part = must(calloc((size_t)2 * lam_row_stride(width), sizeof *part));
    double *part_squares = part + lam_row_stride(width);
    mistaken_now.right.column_moments(x, stride, rows, width, around_zero, mean, squares);
    memset(squares, 0, width * sizeof *squares);
    for (size_t i = 0; i < q->count; i++) {
        const size_t n = q->items[i].rows;
        mistaken_now.right.column_moments(x, stride, n, width, false, part, part_squares);
        for (size_t c = 0; c < width; c++)
            squares[c] += part_squares[c] / (double)n / (double)q->count * (double)rows;
        x += n * stride;
    }
    free(part);
}

void wrong_mean_of_variances(lam_model *m, const norm_case *c)
{
    (void)c;
    m->kernels.column_moments = mean_of_variances;
}

/* The map of the whole request, from which gain and bias follow, then one of each position. */
static double whole_square[4096];

static void remember_columns(const float *x, size_t stride, size_t rows, size_t width,
                             bool around_zero, double *mean, double *squares)
{
    mistaken_now.right.column_moments(x, stride, rows, width, around_zero, mean, squares);
    for (size_t c = 0; c < width; c++)
        whole_square[c] = squares[c] / (double)rows;
}

static void affine_of_position(const lam_channel_affine *a, float *y, size_t ys, size_t t,
                               const float *copy)
{
    const norm_request *q = mistaken_now.request;
    for (size_t c = 0; c < a->width; c++) {
        const double gain =
            (double)a->scale[c] * lam_norm_denominator(&mistaken_now.spec, whole_square[c]);
        double n = 0.0, mean = 0.0, square = 0.0;
        size_t first = 0;
        for (size_t i = 0; i < q->count; first += q->items[i++].rows)
            if (t < q->items[i].rows) n += 1.0, mean += (double)copy[(first + t) * a->width + c];
        mean /= n;
        first = 0;
        for (size_t i = 0; i < q->count; first += q->items[i++].rows)
            if (t < q->items[i].rows)
                square += pow((double)copy[(first + t) * a->width + c] - mean, 2.0) / n;
        const double d = lam_norm_denominator(&mistaken_now.spec, square);
        first = 0;
        for (size_t i = 0; i < q->count; first += q->items[i++].rows)
            if (t < q->items[i].rows)
                y[(first + t) * ys + c] =
                    (float)(((double)copy[(first + t) * a->width + c] - mean) / d * gain +
                            (double)a->bias[c]);
    }
}

static void affine_per_position(const lam_channel_affine *a, const float *x, size_t xs, size_t rows,
                                float *y, size_t ys)
{
    float *copy = must(calloc(rows * a->width + 1, sizeof *copy));
    for (size_t r = 0; r < rows; r++)
        memcpy(copy + r * a->width, x + r * xs, a->width * sizeof *copy);
    for (size_t t = 0; t < longest_item(); t++)
        affine_of_position(a, y, ys, t, copy);
    free(copy);
}

void wrong_per_position(lam_model *m, const norm_case *c)
{
    (void)c;
    m->kernels.column_moments = remember_columns;
    m->kernels.channel_affine = affine_per_position;
}

/* The request's mean taken away where the kind has none. */
static void affine_centred(const lam_channel_affine *a, const float *x, size_t xs, size_t rows,
                           float *y, size_t ys)
{
    const size_t stride = lam_row_stride(a->width);
    double *mean = must(calloc(2 * stride, sizeof *mean));
    float *zeros = must(aligned_alloc(64, 3 * stride * sizeof *zeros));
    memset(zeros, 0, 3 * stride * sizeof *zeros);
    float *middle = zeros + stride, *ones = middle + stride;
    for (size_t c = 0; c < a->width; c++)
        ones[c] = 1.0f;
    lam_channel_affine scaled = *a, centred = *a;
    scaled.mean = scaled.bias = zeros, scaled.scale = ones;
    mistaken_now.right.channel_affine(&scaled, x, xs, rows, y, ys);
    mistaken_now.right.column_moments(y, ys, rows, a->width, false, mean, mean + stride);
    for (size_t c = 0; c < a->width; c++)
        middle[c] = (float)mean[c];
    centred.mean = middle, centred.groups = 0;
    mistaken_now.right.channel_affine(&centred, y, ys, rows, y, ys);
    free(mean), free(zeros);
}

void wrong_mean_subtracted(lam_model *m, const norm_case *c)
{
    (void)c;
    m->kernels.channel_affine = affine_centred;
}

/* ---- Point by point ---- */

static void clip(const lam_squash *s, const float *x, size_t xs, size_t rows, float *y, size_t ys)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < s->width; c++) {
            const float u = s->alpha * x[r * xs + c];
            y[r * ys + c] = fmaxf(-1.0f, fminf(1.0f, u)) * s->gain[c] + s->bias[c];
        }
}

static void tanh_of(const lam_squash *s, const float *x, size_t xs, size_t rows, float *y,
                    size_t ys)
{
    lam_squash wrong = *s;
    wrong.erf = false;
    mistaken_now.right.squash(&wrong, x, xs, rows, y, ys);
}

void wrong_clip(lam_model *m, const norm_case *c)
{
    (void)c;
    m->kernels.squash = clip;
}

void wrong_tanh(lam_model *m, const norm_case *c)
{
    (void)c;
    m->kernels.squash = tanh_of;
}

/* ---- Attention over the whole request ---- */

// NOLINTBEGIN(readability-non-const-parameter): the signature is the table's
static void attend_to_all(const lam_attention *a, const float *q, const float *k, const float *v,
                          size_t stride, size_t tokens, float *out, size_t out_stride,
                          float *scratch)
{
    static size_t calls;
    (void)tokens, (void)scratch;
    const norm_request *r = mistaken_now.request;
    if (calls++ % r->count != 0) return; /* the first item's call has done it */
    const size_t floats = mistaken_now.right.attention_scratch(a, r->rows);
    float *mine = must(aligned_alloc(64, (floats * sizeof *mine + 127) / 64 * 64));
    mistaken_now.right.attention(a, q, k, v, stride, r->rows, out, out_stride, mine);
    free(mine);
}
// NOLINTEND(readability-non-const-parameter)

void wrong_attention(lam_model *m, const norm_case *c)
{
    (void)c;
    m->kernels.attention = attend_to_all;
}
