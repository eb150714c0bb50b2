#include "server/cli/sample.h"

#include <stdlib.h>
#include <time.h>

uint64_t cli_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void cli_random_ids(const lam_model *m, int32_t *ids, size_t tokens, uint64_t *state)
{
    const size_t vocab = lam_model_get_info(m)->vocab;
    for (size_t i = 0; i < tokens; i++)
        ids[i] = (int32_t)(cli_random(state) % vocab);
}

double cli_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void cli_sort(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_size);
}

double cli_median(const double *sorted, size_t n)
{
    return n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}
