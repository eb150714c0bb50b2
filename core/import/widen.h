/* Stored numbers to float32. Loops over fixed blocks, which the compiler vectorizes for the
 * baseline. */
#ifndef LAM_IMPORT_WIDEN_H
#define LAM_IMPORT_WIDEN_H

#include <stdbool.h>
#include <stddef.h>

/* dst[n] = src[n]; src is aligned for its type, the two do not overlap. */
void lam_widen_f16(float *dst, const void *src, size_t n);
void lam_widen_bf16(float *dst, const void *src, size_t n);
/* Rounds to nearest even; beyond float32's range gives an infinity. */
void lam_narrow_f64(float *dst, const void *src, size_t n);

bool lam_all_finite(const float *v, size_t n);

#endif
