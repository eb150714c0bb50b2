#include "core/base/arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"

struct lam_arena_chunk {
    lam_arena_chunk *older;
    size_t capacity; /* bytes of data */
    size_t used;
    alignas(16) unsigned char data[];
};

/* Chunks double from 4 KiB to 1 MiB, so that a small request costs little and a large one few
 * calls. */
enum { FIRST_CHUNK = 4096, LARGEST_STEP = 1 << 20, DEFAULT_ALIGN = 16 };

void lam_arena_init(lam_arena *a, size_t max_bytes)
{
    *a = (lam_arena){.max_bytes = max_bytes};
}

static void drop_newest(lam_arena *a)
{
    lam_arena_chunk *c = a->head;
    a->head = c->older;
    a->held_bytes -= sizeof *c + c->capacity;
    free(c);
}

void lam_arena_fini(lam_arena *a)
{
    if (!a) return;
    while (a->head)
        drop_newest(a);
    a->used_bytes = 0;
}

void lam_arena_reset(lam_arena *a)
{
    lam_arena_chunk *newest = a->head;
    if (!newest) return;
    a->head = newest->older;
    while (a->head)
        drop_newest(a);
    newest->older = NULL;
    newest->used = 0;
    a->head = newest;
    a->used_bytes = 0;
}

/* Adds a chunk with room for `bytes`; the usual size, or less where the limit is near. */
static bool add_chunk(lam_arena *a, size_t bytes)
{
    size_t wanted = a->head ? a->head->capacity * 2 : FIRST_CHUNK;
    if (wanted > LARGEST_STEP) wanted = LARGEST_STEP;
    if (wanted < bytes) wanted = bytes;
    const size_t left = a->max_bytes - a->held_bytes;
    if (left < sizeof(lam_arena_chunk) || left - sizeof(lam_arena_chunk) < bytes) return false;
    if (wanted > left - sizeof(lam_arena_chunk)) wanted = left - sizeof(lam_arena_chunk);
    lam_arena_chunk *c = malloc(sizeof *c + wanted);
    if (!c) return false;
    c->older = a->head;
    c->capacity = wanted;
    c->used = 0;
    a->head = c;
    a->held_bytes += sizeof *c + wanted;
    return true;
}

/* Takes aligned bytes from the newest chunk; NULL if they do not fit. */
static void *take(lam_arena *a, size_t bytes, size_t align)
{
    lam_arena_chunk *c = a->head;
    if (!c) return NULL;
    const uintptr_t base = (uintptr_t)c->data;
    const size_t start = (size_t)(((base + c->used + align - 1) & ~(uintptr_t)(align - 1)) - base);
    if (start > c->capacity || c->capacity - start < bytes) return NULL;
    a->used_bytes += start + bytes - c->used;
    c->used = start + bytes;
    return c->data + start;
}

void *lam_arena_alloc_aligned(lam_arena *a, size_t bytes, size_t align)
{
    assert(align != 0 && (align & (align - 1)) == 0 && align <= 4096);
    void *p = take(a, bytes, align);
    if (p) return p;
    size_t worst;
    if (!lam_add_size(bytes, align, &worst) || !add_chunk(a, worst)) return NULL;
    return take(a, bytes, align);
}

void *lam_arena_alloc(lam_arena *a, size_t bytes)
{
    return lam_arena_alloc_aligned(a, bytes, DEFAULT_ALIGN);
}

void *lam_arena_calloc(lam_arena *a, size_t count, size_t size)
{
    size_t bytes;
    if (!lam_mul_size(count, size, &bytes)) return NULL;
    void *p = lam_arena_alloc(a, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

char *lam_arena_strndup(lam_arena *a, const char *s, size_t n)
{
    size_t bytes;
    if (!lam_add_size(n, 1, &bytes)) return NULL;
    char *copy = lam_arena_alloc_aligned(a, bytes, 1);
    if (!copy) return NULL;
    memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

lam_arena_mark lam_arena_get_mark(const lam_arena *a)
{
    return (lam_arena_mark){a->head, a->head ? a->head->used : 0, a->used_bytes};
}

void lam_arena_rewind(lam_arena *a, lam_arena_mark mark)
{
    while (a->head != mark.head)
        drop_newest(a);
    if (a->head) a->head->used = mark.head_used;
    a->used_bytes = mark.used_bytes;
}
