/* Seeded token ids, a clock and medians, for the commands that measure. */
#ifndef SERVER_CLI_SAMPLE_H
#define SERVER_CLI_SAMPLE_H

#include "core/lamina.h"

/* splitmix64 (Steele, Lea and Flood 2014). */
uint64_t cli_random(uint64_t *state);

/* ids [tokens] of the model's vocabulary. */
void cli_random_ids(const lam_model *m, int32_t *ids, size_t tokens, uint64_t *state);

/* Monotonic. */
double cli_now_ms(void);

/* Ascending. */
void cli_sort(double *v, size_t n);

/* Of sorted values, n > 0. */
double cli_median(const double *sorted, size_t n);

#endif
