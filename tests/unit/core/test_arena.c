#include "core/base/arena.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

Test(arena, alignment_limits_and_reuse)
{
    lam_arena a;
    lam_arena_init(&a, 1 << 20);
    static const size_t aligns[] = {1, 2, 16, 64, 256, 4096};
    for (size_t i = 0; i < sizeof aligns / sizeof *aligns; i++) {
        void *p = lam_arena_alloc_aligned(&a, 3, aligns[i]);
        cr_assert_not_null(p);
        cr_expect_eq((uintptr_t)p % aligns[i], 0, "align %zu", aligns[i]);
    }
    cr_expect_not_null(lam_arena_alloc(&a, 0));
    cr_expect_null(lam_arena_calloc(&a, SIZE_MAX / 2, 3), "the product overflows");
    cr_expect_null(lam_arena_alloc(&a, SIZE_MAX), "the sum overflows");
    cr_expect_null(lam_arena_alloc(&a, 1 << 20), "over the limit with its header");
    cr_expect_not_null(lam_arena_alloc(&a, (1 << 20) - 100000), "what is left can be used");
    cr_expect_leq(a.held_bytes, a.max_bytes);
    lam_arena_fini(&a);
    cr_expect_eq(a.held_bytes, 0);
    cr_expect_not_null(lam_arena_alloc(&a, 10), "usable after fini");
    lam_arena_fini(&a);
}

Test(arena, rewind_gives_back_what_came_after_the_mark)
{
    lam_arena a;
    lam_arena_init(&a, 10 << 20);
    char *kept = lam_arena_strndup(&a, "kept", 4);
    const lam_arena_mark mark = lam_arena_get_mark(&a);
    char *first = lam_arena_alloc(&a, 100);
    for (int i = 0; i < 50; i++)
        cr_assert_not_null(lam_arena_alloc(&a, 100000));
    lam_arena_rewind(&a, mark);
    cr_expect_eq(a.used_bytes, mark.used_bytes);
    cr_expect_lt(a.held_bytes, 100000);
    cr_expect_eq(lam_arena_alloc(&a, 100), first, "the same place again");
    cr_expect_str_eq(kept, "kept");
    lam_arena_reset(&a);
    cr_expect_eq(a.used_bytes, 0);
    lam_arena_fini(&a);

    lam_arena_init(&a, 4096);
    const lam_arena_mark empty = lam_arena_get_mark(&a);
    cr_assert_not_null(lam_arena_alloc(&a, 64));
    lam_arena_rewind(&a, empty);
    cr_expect_eq(a.held_bytes, 0, "a mark of an empty arena frees all");
    lam_arena_fini(&a);
}

Test(arena, calloc_zeroes_reused_memory)
{
    lam_arena a;
    lam_arena_init(&a, 1 << 16);
    const lam_arena_mark mark = lam_arena_get_mark(&a);
    memset(lam_arena_alloc(&a, 1000), 0xff, 1000);
    lam_arena_rewind(&a, mark);
    const unsigned char *p = lam_arena_calloc(&a, 10, 100);
    for (size_t i = 0; i < 1000; i++)
        cr_assert_eq(p[i], 0);
    lam_arena_fini(&a);
}
