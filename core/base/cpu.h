/* What the CPU and the operating system offer at run time. */
#ifndef LAM_BASE_CPU_H
#define LAM_BASE_CPU_H

#include <stdbool.h>

#include "core/model/names.h"

/* The best instruction set that has kernels here and that both CPU and operating system support. */
lam_isa lam_cpu_best(void);

/* Whether kernels for `isa` may run on this machine. LAM_ISA_REF always may. */
bool lam_cpu_supports(lam_isa isa);

#endif
