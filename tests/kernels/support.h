/* What the kernel checks share: counting, random numbers, matrices with guards around them. */
#ifndef TESTS_KERNELS_SUPPORT_H
#define TESTS_KERNELS_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/kernels/kernels.h"

#define EPS 5.9604645e-8 /* half the distance from 1 to the next float */

extern size_t passed, failed;
extern const char *isa_now; /* under test, for messages */
extern uint64_t random_state;

/* Counts; prints a failure with its sizes and the worst error in units of its bound. */
void report(bool ok, const char *op, const char *what, size_t a, size_t b, size_t c, double worst);

/* Uniform in [-1, 1). */
float uniform(void);

/* 64-byte aligned; exits if there is no memory. free() gives it back. */
void *take(size_t bytes);

enum { GUARD = 64 };
extern const uint32_t GUARD_BITS; /* a NaN */

typedef struct matrix {
    float *base, *data;
    size_t rows, width, stride, floats;
} matrix;

/* All NaN, guards before and behind. */
matrix make(size_t rows, size_t width);
/* offset + spread * uniform; the padding stays NaN. */
matrix make_random(size_t rows, size_t width, float offset, float spread);
matrix copy(const matrix *from);
void drop(matrix *m);
bool guards_hold(const matrix *m);
float at(const matrix *m, size_t r, size_t c);

/* Equal bits, or both NaN: payloads are nobody's promise. */
bool same(float a, float b);
bool same_rows(const matrix *a, size_t ra, const matrix *b, size_t rb);
bool same_matrix(const matrix *a, const matrix *b);

/* How far off `got` is, in bounds; values that are not finite must stay so. */
double excess(float got, double want, double bound);
double larger(double a, double b);

/* The checks of rows.c, norms.c, moments.c and measures.c. */
void check_norm(const lam_kernels *k);
void check_norms(const lam_kernels *k);
void check_embed_and_add(const lam_kernels *k, size_t width);
void check_moments(const lam_kernels *k);
void check_measures(const lam_kernels *k);

#endif
