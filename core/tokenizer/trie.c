#include "core/tokenizer/trie.h"

#include <stdlib.h>
#include <string.h>

#include "core/tokenizer/text.h"

enum {
    BLOCK = 256,
    MAX_UNITS = 1 << 23, /* what 23 bits of base reach */
    OPEN_BLOCKS = 16,    /* gaps in older blocks are given up: bounds the search for a place */
    UNIT_TAKEN = 1,
    BASE_TAKEN = 2,
    LIST_END = 0 /* unit 0 is the root, never free */
};

/* A key to be sorted: its first bytes decide nearly always, without a look at the string. */
typedef struct sort_row {
    uint64_t head;
    uint32_t key;
} sort_row;

/* A state whose children are still to be placed: the rows first..last share `depth` bytes. */
typedef struct pending_state {
    uint32_t first, last;
    uint32_t depth;
    uint32_t unit;
} pending_state;

typedef struct builder {
    const lam__trie_key *keys;
    sort_row *rows;
    lam_arena *scratch;
    lam__trie_unit *units; /* [capacity] */
    uint8_t *marks;        /* [capacity] UNIT_TAKEN, BASE_TAKEN */
    uint32_t *next, *prev; /* [capacity] ring of free units through unit 0 */
    size_t count, capacity;
    size_t open_from; /* first unit of the blocks that still give room */
} builder;

static int compare_rows(const void *a, const void *b, void *arg)
{
    const sort_row *x = a, *y = b;
    if (x->head != y->head) return x->head < y->head ? -1 : 1;
    const lam__trie_key *keys = arg;
    const lam__trie_key *k = &keys[x->key], *l = &keys[y->key];
    const size_t shorter = k->bytes < l->bytes ? k->bytes : l->bytes;
    const int c = shorter > 0 ? memcmp(k->text, l->text, shorter) : 0;
    if (c != 0) return c;
    if (k->bytes != l->bytes) return k->bytes < l->bytes ? -1 : 1;
    return (k->value > l->value) - (k->value < l->value);
}

static uint64_t head_of(const lam__trie_key *k)
{
    uint64_t head = 0;
    for (size_t i = 0; i < 8; i++) {
        head = head << 8 | (i < k->bytes ? (unsigned char)k->text[i] : 0u);
    }
    return head;
}

static void unlink_unit(builder *b, uint32_t u)
{
    b->next[b->prev[u]] = b->next[u];
    b->prev[b->next[u]] = b->prev[u];
}

static lam_status reserve(builder *b, size_t capacity)
{
    b->units =
        lam__grow(b->scratch, b->units, b->count * sizeof *b->units, capacity * sizeof *b->units);
    b->marks = lam__grow(b->scratch, b->marks, b->count, capacity);
    b->next =
        lam__grow(b->scratch, b->next, b->count * sizeof *b->next, capacity * sizeof *b->next);
    b->prev =
        lam__grow(b->scratch, b->prev, b->count * sizeof *b->prev, capacity * sizeof *b->prev);
    b->capacity = capacity;
    return b->units && b->marks && b->next && b->prev ? LAM_OK : LAM_E_NOMEM;
}

static lam_status add_block(builder *b)
{
    if (b->count + BLOCK > MAX_UNITS) return LAM_E_LIMIT;
    if (b->count + BLOCK > b->capacity) LAM_TRY(reserve(b, b->capacity * 2));
    const uint32_t first = (uint32_t)b->count;
    for (uint32_t u = first; u < first + BLOCK; u++) {
        b->units[u] = (lam__trie_unit){.link = 0, .value = -1};
        b->marks[u] = 0;
        b->prev[u] = u == first ? b->prev[LIST_END] : u - 1;
        b->next[u] = u + 1 == first + BLOCK ? LIST_END : u + 1;
    }
    b->next[b->prev[LIST_END]] = first;
    b->prev[LIST_END] = first + BLOCK - 1;
    b->count += BLOCK;
    for (; b->count - b->open_from > (size_t)OPEN_BLOCKS * BLOCK; b->open_from++) {
        if (!(b->marks[b->open_from] & UNIT_TAKEN)) unlink_unit(b, (uint32_t)b->open_from);
    }
    return LAM_OK;
}

/* The first block: unit 0 is the root and the end of the ring; base 0 means "no children". */
static lam_status add_root(builder *b)
{
    b->next[0] = b->prev[0] = LIST_END;
    for (uint32_t u = 0; u < BLOCK; u++) {
        b->units[u] = (lam__trie_unit){.link = 0, .value = -1};
        b->marks[u] = 0;
        b->prev[u] = u == 0 ? BLOCK - 1 : u - 1;
        b->next[u] = u == BLOCK - 1 ? LIST_END : u + 1;
    }
    b->marks[0] = UNIT_TAKEN | BASE_TAKEN;
    b->count = BLOCK;
    return LAM_OK;
}

static bool base_fits(const builder *b, uint32_t base, const uint8_t *labels, size_t n)
{
    if (b->marks[base] & BASE_TAKEN) return false;
    for (size_t i = 0; i < n; i++) {
        if (b->marks[base ^ labels[i]] & UNIT_TAKEN) return false;
    }
    return true;
}

static lam_status find_base(builder *b, const uint8_t *labels, size_t n, uint32_t *base)
{
    for (;;) {
        for (uint32_t u = b->next[LIST_END]; u != LIST_END; u = b->next[u]) {
            *base = u ^ labels[0];
            if (base_fits(b, *base, labels, n)) return LAM_OK;
        }
        LAM_TRY(add_block(b));
    }
}

/* Places the children of a state and puts them on the stack. */
static lam_status place(builder *b, pending_state s, pending_state *stack, size_t *top)
{
    uint8_t labels[256];
    uint32_t firsts[257];
    size_t n = 0;
    for (uint32_t i = s.first; i < s.last; i++) {
        const uint8_t c = (uint8_t)b->keys[b->rows[i].key].text[s.depth];
        if (n > 0 && labels[n - 1] == c) continue;
        labels[n] = c;
        firsts[n++] = i;
    }
    firsts[n] = s.last;
    uint32_t base;
    LAM_TRY(find_base(b, labels, n, &base));
    b->marks[base] |= BASE_TAKEN;
    b->units[s.unit].link |= base << 9;
    for (size_t i = 0; i < n; i++) {
        const uint32_t u = base ^ labels[i];
        unlink_unit(b, u);
        b->marks[u] |= UNIT_TAKEN;
        b->units[u].link = LAM__TRIE_TAKEN | labels[i];
        stack[(*top)++] = (pending_state){firsts[i], firsts[i + 1], s.depth + 1, u};
    }
    return LAM_OK;
}

static lam_status fill(builder *b, size_t count, size_t *twin)
{
    /* The rows of waiting states do not overlap, so there are never more of them than rows. */
    pending_state *stack = lam_arena_alloc(b->scratch, (count + 1) * sizeof *stack);
    if (!stack) return LAM_E_NOMEM;
    size_t top = 0;
    stack[top++] = (pending_state){0, (uint32_t)count, 0, LAM__TRIE_ROOT};
    while (top > 0) {
        pending_state s = stack[--top];
        for (; s.first < s.last; s.first++) {
            const uint32_t k = b->rows[s.first].key;
            if (b->keys[k].bytes != s.depth) break;
            if (b->units[s.unit].value < 0)
                b->units[s.unit].value = b->keys[k].value;
            else
                *twin = k;
        }
        if (s.first < s.last) LAM_TRY(place(b, s, stack, &top));
    }
    return LAM_OK;
}

static lam_status sort_keys(builder *b, size_t count)
{
    b->rows = lam_arena_alloc(b->scratch, (count + 1) * sizeof *b->rows);
    if (!b->rows) return LAM_E_NOMEM;
    for (size_t i = 0; i < count; i++) {
        b->rows[i] = (sort_row){head_of(&b->keys[i]), (uint32_t)i};
    }
    /* The comparison only reads what the last argument points to. */
    if (count > 0)
        qsort_r(b->rows, count, sizeof *b->rows, compare_rows, (void *)(uintptr_t)b->keys);
    return LAM_OK;
}

static lam_status build(builder *b, size_t count, lam__trie *out, lam_arena *arena, size_t *twin)
{
    LAM_TRY(sort_keys(b, count));
    LAM_TRY(reserve(b, count * 3 + (size_t)2 * BLOCK));
    LAM_TRY(add_root(b));
    LAM_TRY(fill(b, count, twin));
    lam__trie_unit *units =
        lam__grow(arena, b->units, b->count * sizeof *units, b->count * sizeof *units);
    if (!units) return LAM_E_NOMEM;
    *out = (lam__trie){.units = units, .count = b->count};
    return LAM_OK;
}

lam_status lam__trie_build(lam__trie *out, const lam__trie_key *keys, size_t count,
                           lam_arena *arena, lam_arena *scratch, size_t *twin)
{
    size_t ignored;
    if (!twin) twin = &ignored;
    *twin = SIZE_MAX;
    *out = (lam__trie){0};
    if (count > MAX_UNITS) return LAM_E_LIMIT;
    const lam_arena_mark mark = lam_arena_get_mark(scratch);
    builder b = {.keys = keys, .scratch = scratch};
    const lam_status status = build(&b, count, out, arena, twin);
    lam_arena_rewind(scratch, mark);
    return status;
}

uint32_t lam__trie_walk(const lam__trie *t, const char *s, size_t n)
{
    uint32_t state = LAM__TRIE_ROOT;
    for (size_t i = 0; i < n; i++) {
        if (!lam__trie_step(t, &state, (unsigned char)s[i])) return LAM__TRIE_NONE;
    }
    return state;
}

int32_t lam__trie_find(const lam__trie *t, const char *s, size_t n)
{
    const uint32_t state = lam__trie_walk(t, s, n);
    return state == LAM__TRIE_NONE ? -1 : t->units[state].value;
}
