/* Run-time detection by CPUID and XGETBV.
 *
 * A flag in CPUID alone is not enough: the operating system must also save the wide registers when
 * it switches threads (XCR0), or the first vector instruction traps or its values leak. */
#include "core/base/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdint.h>

/* Bits of XCR0: SSE and AVX state; opmask, upper halves of zmm0-15, and zmm16-31. */
enum { XCR0_YMM = 0x06, XCR0_ZMM = 0xe6 };

static uint32_t xcr0(void)
{
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool has_all(uint32_t have, uint32_t want)
{
    return (have & want) == want;
}

lam_isa lam_cpu_best(void)
{
    const uint32_t leaf1 = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C;
    const uint32_t leaf7 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has_all(c, leaf1)) return LAM_ISA_REF;
    if (!has_all(xcr0(), XCR0_YMM)) return LAM_ISA_REF;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has_all(b, bit_AVX2)) return LAM_ISA_REF;
    if (!has_all(b, leaf7) || !has_all(xcr0(), XCR0_ZMM)) return LAM_ISA_AVX2;
    return LAM_ISA_AVX512;
}
#else
lam_isa lam_cpu_best(void)
{
    return LAM_ISA_REF;
}
#endif

bool lam_cpu_supports(lam_isa isa)
{
    return isa <= lam_cpu_best();
}
