/* A bump allocator: many small things that die together. Not thread-safe; one owner at a time. */
#ifndef LAM_BASE_ARENA_H
#define LAM_BASE_ARENA_H

#include <stddef.h>

#include "core/base/status.h"

typedef struct lam_arena_chunk lam_arena_chunk;

typedef struct lam_arena {
    lam_arena_chunk *head; /* newest chunk */
    size_t used_bytes;     /* handed out, alignment included */
    size_t held_bytes;     /* taken from malloc */
    size_t max_bytes;      /* held_bytes never exceeds it */
} lam_arena;

/* Takes no memory yet. */
void lam_arena_init(lam_arena *a, size_t max_bytes);

/* Frees everything; the arena may be used again. NULL is fine. */
void lam_arena_fini(lam_arena *a);

/* Frees all but the newest chunk and starts over in it. */
void lam_arena_reset(lam_arena *a);

/* `bytes` of memory aligned to 16, not zeroed; NULL if the limit or malloc says no (bytes 0 gives a
 * valid pointer). */
void *lam_arena_alloc(lam_arena *a, size_t bytes);

/* The same, zeroed, for count things of size bytes; NULL on overflow too. */
void *lam_arena_calloc(lam_arena *a, size_t count, size_t size);

/* `align` is a power of two up to 4096. */
void *lam_arena_alloc_aligned(lam_arena *a, size_t bytes, size_t align);

/* Copies n bytes and adds a NUL. */
char *lam_arena_strndup(lam_arena *a, const char *s, size_t n);

/* A point to return to: everything allocated after the mark is given back by rewind. */
typedef struct lam_arena_mark {
    lam_arena_chunk *head;
    size_t head_used;
    size_t used_bytes;
} lam_arena_mark;

lam_arena_mark lam_arena_get_mark(const lam_arena *a);
void lam_arena_rewind(lam_arena *a, lam_arena_mark mark);

#endif
