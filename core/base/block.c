#include "core/base/block.h"

#include <sys/mman.h>

#include "core/base/checked.h"

enum { HUGE_PAGE = 2 << 20 };

/* A mapping that starts on a huge page's boundary: map one page more, give the ends back. */
static void *map_aligned(size_t bytes)
{
    size_t wide;
    if (!lam_add_size(bytes, HUGE_PAGE, &wide)) return NULL;
    char *p = mmap(NULL, wide, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    const size_t lead = (size_t)(-(uintptr_t)p & (HUGE_PAGE - 1));
    if (lead) (void)munmap(p, lead);
    if (lead < HUGE_PAGE) (void)munmap(p + lead + bytes, HUGE_PAGE - lead);
    return p + lead;
}

bool lam_block_map(lam_block *b, size_t bytes)
{
    *b = (lam_block){0};
    size_t rounded;
    if (!lam_round_up_size(bytes, 4096, &rounded)) return false;
    void *data = map_aligned(rounded);
    if (!data) return false;
    /* Only advice: without huge pages everything works, slower. */
    (void)madvise(data, rounded, MADV_HUGEPAGE);
    *b = (lam_block){data, rounded};
    return true;
}

void lam_block_unmap(lam_block *b)
{
    if (b->data) (void)munmap(b->data, b->bytes);
    *b = (lam_block){0};
}
