/* Stands in for the compiler's header when the AVX-512 kernels are built for a machine without
 * AVX-512 (make VARIANT=simde): SIMDe does in AVX2 and plain C what the intrinsics say. SIMDe asks
 * for the real header itself, hence the second branch. */
#ifndef LAM_TESTS_SIMDE_IMMINTRIN_H
#define LAM_TESTS_SIMDE_IMMINTRIN_H
#pragma GCC system_header
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/fma.h>

/* Not in SIMDe 0.7.4. Lanes that are masked out are neither read nor written, as the instructions
 * promise. */
static inline simde__m512 lam_test_maskz_loadu_ps(simde__mmask16 mask, const float *p)
{
    float lanes[16];
    for (int i = 0; i < 16; i++)
        lanes[i] = mask >> i & 1 ? p[i] : 0.0f;
    return simde_mm512_loadu_ps(lanes);
}

static inline void lam_test_mask_storeu_ps(float *p, simde__mmask16 mask, simde__m512 a)
{
    float lanes[16];
    simde_mm512_storeu_ps(lanes, a);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) p[i] = lanes[i];
}

static inline simde__m512d lam_test_cvtps_pd(simde__m256 a)
{
    float lanes[8];
    double wide[8];
    simde_mm256_storeu_ps(lanes, a);
    for (int i = 0; i < 8; i++)
        wide[i] = lanes[i];
    return simde_mm512_loadu_pd(wide);
}

#define _mm512_maskz_loadu_ps(mask, p)    lam_test_maskz_loadu_ps(mask, p)
#define _mm512_mask_storeu_ps(p, mask, a) lam_test_mask_storeu_ps(p, mask, a)
#define _mm512_cvtps_pd(a)                lam_test_cvtps_pd(a)
#else
#pragma GCC system_header
#include_next <immintrin.h>
#endif
