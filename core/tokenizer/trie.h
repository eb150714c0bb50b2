/* Strings -> numbers, one byte a step: a double array.
 *
 * Each state has its own `base`; its child by byte c is unit base ^ c, which is really its child if
 * that unit carries the label c: no two states share a base, so unit and label tell the parent. */
#ifndef LAM_TOKENIZER_TRIE_H
#define LAM_TOKENIZER_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/status.h"

typedef struct lam__trie_unit {
    uint32_t link; /* base << 9 | LAM__TRIE_TAKEN | label; the low nine bits are 0 in the root and
                      in gaps */
    int32_t value; /* of the string that ends here, or -1 */
} lam__trie_unit;

enum { LAM__TRIE_TAKEN = 0x100, LAM__TRIE_ROOT = 0, LAM__TRIE_NONE = UINT32_MAX >> 1 };

typedef struct lam__trie {
    const lam__trie_unit *units; /* [count], a multiple of 256: no step leaves the array */
    size_t count;
} lam__trie;

typedef struct lam__trie_key {
    const char *text;
    size_t bytes;
    int32_t value; /* >= 0 */
} lam__trie_key;

/* The keys may come in any order. Of equal keys the smallest value stays, and *twin (may be NULL)
 * becomes the index of one of the others, else SIZE_MAX. The trie comes from `arena`; `scratch` is
 * left as it was. Statuses: LAM_E_NOMEM, LAM_E_LIMIT (more than about 8 million states). */
lam_status lam__trie_build(lam__trie *out, const lam__trie_key *keys, size_t count,
                           lam_arena *arena, lam_arena *scratch, size_t *twin);

/* One step; false if there is no such child. */
static inline bool lam__trie_step(const lam__trie *t, uint32_t *state, unsigned char c)
{
    const uint32_t next = t->units[*state].link >> 9 ^ c;
    if ((t->units[next].link & 0x1ff) != (LAM__TRIE_TAKEN | c)) return false;
    *state = next;
    return true;
}

/* The state after s[n] from the root, or LAM__TRIE_NONE. */
uint32_t lam__trie_walk(const lam__trie *t, const char *s, size_t n);

/* The number of s[n], or -1. */
int32_t lam__trie_find(const lam__trie *t, const char *s, size_t n);

#endif
