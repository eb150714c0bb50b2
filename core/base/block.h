/* Large zeroed memory straight from the operating system, in huge pages where it has them: weights
 * are walked panel by panel, and 4 KiB pages would cost a TLB miss each. */
#ifndef LAM_BASE_BLOCK_H
#define LAM_BASE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

typedef struct lam_block {
    void *data;   /* page-aligned; NULL while unmapped */
    size_t bytes; /* rounded up to pages */
} lam_block;

/* `bytes` > 0 zeroed; false: out of memory, *b is empty. */
bool lam_block_map(lam_block *b, size_t bytes);

/* An empty block is fine. */
void lam_block_unmap(lam_block *b);

#endif
