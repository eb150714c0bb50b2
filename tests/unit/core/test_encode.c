/* The engine on a tiny model: against the formulas, and against itself under every grouping. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/core/tiny_model.h"

enum { ITEMS = 23, MOST = TINY_POSITIONS * TINY_WIDTH };

/* Items of varied lengths with types; every third has a mask. */
typedef struct batch {
    int32_t ids[ITEMS][TINY_POSITIONS], types[ITEMS][TINY_POSITIONS];
    uint8_t masks[ITEMS][TINY_POSITIONS];
    float out[ITEMS][MOST];
    lam_item items[ITEMS];
    lam_encode_opts opts;
} batch;

static batch *batch_new(const lam_model *m, lam_encode_opts opts)
{
    batch *b = calloc(1, sizeof *b);
    b->opts = opts;
    srandom(3);
    for (size_t i = 0; i < ITEMS; i++) {
        const size_t tokens = i == 0 ? TINY_POSITIONS : 1 + (size_t)random() % TINY_POSITIONS;
        for (size_t t = 0; t < tokens; t++) {
            b->ids[i][t] = (int32_t)(random() % TINY_VOCAB);
            b->types[i][t] = (int32_t)(random() % TINY_TYPES);
            b->masks[i][t] = i % 3 != 1 || t == tokens / 2 || random() % 3 != 0;
        }
        b->items[i] = (lam_item){.ids = b->ids[i],
                                 .types = b->types[i],
                                 .mask = i % 3 == 1 ? b->masks[i] : NULL,
                                 .tokens = tokens,
                                 .opts = &b->opts,
                                 .index = i,
                                 .out = b->out[i]};
        cr_assert_eq(lam_item_check(m, &b->items[i], NULL, NULL), LAM_OK);
    }
    return b;
}

/* The states of one item by the formulas: [TINY_LAYERS + 1, rows, TINY_WIDTH]. */
static double *expected_states(const lam_item *item)
{
    int32_t ids[TINY_POSITIONS], types[TINY_POSITIONS], positions[TINY_POSITIONS];
    size_t rows = 0;
    for (size_t t = 0; t < item->tokens; t++) {
        if (item->mask && !item->mask[t]) continue;
        ids[rows] = item->ids[t];
        types[rows] = item->types ? item->types[t] : 0;
        positions[rows++] = (int32_t)t;
    }
    cr_assert_gt(rows, 0);
    double *states = malloc((TINY_LAYERS + 1) * rows * TINY_WIDTH * sizeof *states);
    tiny_forward(ids, types, positions, rows, states);
    return states;
}

static lam_ctx *ctx_new(const lam_model *m, size_t rows)
{
    lam_ctx *c = NULL;
    cr_assert_eq(lam_ctx_new(&c, m, rows, NULL), LAM_OK);
    return c;
}

Test(encode, every_state_follows_the_formulas_on_every_isa)
{
    for (int isa = 0; isa <= (int)lam_open_opts_default().isa; isa++) {
        const lam_open_opts opts = {.isa = (lam_isa)isa, .fuse = true};
        lam_model *m = tiny_model_new(&opts, NULL);
        lam_ctx *c = ctx_new(m, 64);
        for (size_t state = 0; state <= TINY_LAYERS; state++) {
            batch *b = batch_new(m, (lam_encode_opts){.pool = LAM_POOL_NONE,
                                                      .dimensions = TINY_WIDTH,
                                                      .output_layer = state});
            cr_assert_eq(lam_encode(c, b->items, ITEMS, NULL), LAM_OK);
            for (size_t i = 0; i < ITEMS; i++) {
                cr_assert_eq(b->items[i].status, LAM_OK);
                double *want = expected_states(&b->items[i]);
                const size_t n = b->items[i].rows * TINY_WIDTH;
                for (size_t v = 0; v < n; v++)
                    cr_assert_lt(fabs((double)b->out[i][v] - want[state * n + v]), 2e-5,
                                 "isa %d, state %zu, item %zu, value %zu: %g, expected %g", isa,
                                 state, i, v, (double)b->out[i][v], want[state * n + v]);
                free(want);
            }
            free(b);
        }
        lam_ctx_free(c);
        lam_model_close(m);
    }
}

Test(encode, bits_are_the_same_alone_batched_reordered_and_unfused)
{
    const lam_open_opts unfused = {.isa = lam_open_opts_default().isa, .fuse = false};
    lam_model *fused = tiny_model_default(), *plain = tiny_model_new(&unfused, NULL);
    cr_assert_lt(lam_model_program(fused)->op_count, lam_model_program(plain)->op_count);
    const lam_encode_opts opts = lam_encode_opts_default(fused);
    batch *want = batch_new(fused, opts);
    lam_ctx *c = ctx_new(fused, TINY_POSITIONS);
    for (size_t i = 0; i < ITEMS; i++)
        cr_assert_eq(lam_encode(c, &want->items[i], 1, NULL), LAM_OK);
    lam_ctx_free(c);
    static const size_t rows[] = {TINY_POSITIONS, 50, 1000};
    for (size_t r = 0; r < 3; r++) {
        lam_model *models[] = {fused, plain};
        for (size_t k = 0; k < 2; k++) {
            batch *b = batch_new(models[k], opts);
            lam_item reversed[ITEMS];
            for (size_t i = 0; i < ITEMS; i++)
                reversed[i] = b->items[ITEMS - 1 - i];
            c = ctx_new(models[k], rows[r]);
            cr_assert_eq(lam_encode(c, reversed, ITEMS, NULL), LAM_OK);
            for (size_t i = 0; i < ITEMS; i++)
                cr_expect_arr_eq(b->out[i], want->out[i], TINY_WIDTH * sizeof(float),
                                 "item %zu, %zu rows, model %zu", i, rows[r], k);
            lam_ctx_free(c);
            free(b);
        }
    }
    free(want);
    lam_model_close(fused);
    lam_model_close(plain);
}

Test(encode, items_are_refused_with_the_token_to_blame)
{
    lam_model *m = tiny_model_default();
    int32_t ids[TINY_POSITIONS + 1] = {0}, types[TINY_POSITIONS + 1] = {0};
    uint8_t mask[TINY_POSITIONS + 1] = {0};
    static const struct {
        size_t tokens;
        int32_t id, type; /* of token 2 */
        int mask;         /* of token 2; -1: no mask */
        lam_status status;
        size_t at;
    } rows[] = {
        {TINY_POSITIONS, TINY_VOCAB - 1, 1, 1, LAM_OK, 0},
        {0, 0, 0, -1, LAM_E_EMPTY, 0},
        {TINY_POSITIONS + 1, 0, 0, -1, LAM_E_TOO_LONG, 0},
        {5, TINY_VOCAB, 0, -1, LAM_E_ID_RANGE, 2},
        {5, -1, 0, -1, LAM_E_ID_RANGE, 2},
        {5, INT32_MIN, 0, -1, LAM_E_ID_RANGE, 2},
        {5, 0, TINY_TYPES, -1, LAM_E_TYPE_RANGE, 2},
        {5, 0, -1, -1, LAM_E_TYPE_RANGE, 2},
        {5, 0, 0, 2, LAM_E_MASK, 2},
        {5, 0, 0, 0, LAM_E_MASK, 0}, /* all masked */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ids[2] = rows[i].id;
        types[2] = rows[i].type;
        mask[2] = (uint8_t)rows[i].mask;
        lam_item item = {.ids = ids,
                         .types = types,
                         .mask = rows[i].mask < 0 ? NULL : mask,
                         .tokens = rows[i].tokens};
        size_t at = 99;
        lam_err err;
        cr_expect_eq(lam_item_check(m, &item, &at, &err), rows[i].status, "row %zu", i);
        cr_expect_eq(at, rows[i].at, "row %zu", i);
    }
    lam_model_close(m);
}

/* Every word of the vocabulary as an item of its own, alone or all in one batch. */
static void encode_words(const lam_model *m, const lam_encode_opts *opts, bool batched,
                         lam_item items[TINY_VOCAB], float out[TINY_VOCAB][TINY_WIDTH])
{
    static int32_t ids[TINY_VOCAB];
    lam_ctx *c = ctx_new(m, 2 * TINY_POSITIONS);
    for (int32_t i = 0; i < TINY_VOCAB; i++) {
        ids[i] = i;
        items[i] = (lam_item){.ids = &ids[i], .tokens = 1, .opts = opts, .out = out[i]};
        cr_assert_eq(lam_item_check(m, &items[i], NULL, NULL), LAM_OK);
        if (!batched) cr_assert_eq(lam_encode(c, &items[i], 1, NULL), LAM_OK);
    }
    if (batched) cr_assert_eq(lam_encode(c, items, TINY_VOCAB, NULL), LAM_OK);
    lam_ctx_free(c);
}

Test(encode, a_non_finite_item_is_named_and_its_neighbours_live)
{
    enum { WORD = 7 }; /* its embedding is too large for the variance of a norm in float32 */
    const tiny_fault fault = {LAM_MODULE_WORD_EMBEDDING, LAM_LAYER_NONE, "weight",
                              (size_t)WORD * TINY_WIDTH, 3e38f};
    const lam_open_opts open = lam_open_opts_default();
    lam_model *m = tiny_model_new(&open, &fault);
    const lam_encode_opts opts = lam_encode_opts_default(m);
    static lam_item alone[TINY_VOCAB], batched[TINY_VOCAB];
    static float a[TINY_VOCAB][TINY_WIDTH], b[TINY_VOCAB][TINY_WIDTH];
    encode_words(m, &opts, false, alone, a);
    encode_words(m, &opts, true, batched, b);
    for (size_t i = 0; i < TINY_VOCAB; i++) {
        const lam_status want = i == WORD ? LAM_E_NON_FINITE : LAM_OK;
        cr_expect_eq(alone[i].status, want, "word %zu", i);
        cr_expect_eq(batched[i].status, want, "word %zu", i);
        if (i != WORD) cr_expect_arr_eq(a[i], b[i], sizeof a[i], "word %zu", i);
    }
    cr_expect_eq(batched[WORD].fault_layer, LAM_LAYER_NONE);
    cr_expect_eq(batched[WORD].fault_site, LAM_SITE_EMBEDDING);
    lam_model_close(m);
}

Test(encode, a_fault_names_its_layer_and_earlier_layers_still_answer)
{
    const tiny_fault fault = {LAM_MODULE_FFN_OUT, 1, "bias", 3, 3e38f};
    const lam_open_opts open = lam_open_opts_default();
    lam_model *m = tiny_model_new(&open, &fault);
    static lam_item items[TINY_VOCAB];
    static float out[TINY_VOCAB][TINY_WIDTH];
    lam_encode_opts opts = lam_encode_opts_default(m);
    encode_words(m, &opts, true, items, out);
    for (size_t i = 0; i < TINY_VOCAB; i++) {
        cr_expect_eq(items[i].status, LAM_E_NON_FINITE);
        cr_expect_eq(items[i].fault_layer, 1);
        cr_expect_eq(items[i].fault_site, LAM_SITE_FFN_NORM);
    }
    opts.output_layer = 1;
    encode_words(m, &opts, true, items, out);
    for (size_t i = 0; i < TINY_VOCAB; i++)
        cr_expect_eq(items[i].status, LAM_OK);
    lam_model_close(m);
}

static bool stop_after(void *arg)
{
    size_t *left = arg;
    return (*left)-- == 0;
}

Test(encode, stops_at_the_next_op_when_asked)
{
    lam_model *m = tiny_model_default();
    lam_ctx *c = ctx_new(m, 64);
    batch *b = batch_new(m, lam_encode_opts_default(m));
    size_t calls = SIZE_MAX;
    const lam_stop count = {.asked = stop_after, .arg = &calls};
    cr_assert_eq(lam_encode(c, b->items, ITEMS, &count), LAM_OK);
    const size_t total = SIZE_MAX - calls;
    cr_expect_gt(total, lam_model_program(m)->op_count, "asked before every op of every batch");
    for (size_t left = 0; left < total; left += 7) {
        size_t n = left;
        const lam_stop stop = {.asked = stop_after, .arg = &n};
        cr_expect_eq(lam_encode(c, b->items, ITEMS, &stop), LAM_E_CANCELLED);
    }
    free(b);
    lam_ctx_free(c);
    lam_model_close(m);
}

static bool go_on(void *arg)
{
    (void)arg;
    return false;
}

static void count_ending(void *arg)
{
    ++*(size_t *)arg;
}

Test(encode, tells_once_that_the_last_batch_ends)
{
    lam_model *m = tiny_model_default();
    lam_ctx *c = ctx_new(m, TINY_POSITIONS); /* several batches */
    batch *b = batch_new(m, lam_encode_opts_default(m));
    size_t told = 0;
    const lam_stop follow = {.asked = go_on, .arg = &told, .ending = count_ending};
    cr_assert_eq(lam_encode(c, b->items, ITEMS, &follow), LAM_OK);
    cr_expect_eq(told, 1);
    free(b);
    lam_ctx_free(c);
    lam_model_close(m);
}

Test(encode, contexts_refuse_what_cannot_hold_the_longest_item)
{
    lam_model *m = tiny_model_default();
    lam_ctx *c;
    size_t bytes;
    lam_err err;
    cr_expect_eq(lam_ctx_new(&c, m, TINY_POSITIONS - 1, &err), LAM_E_LIMIT);
    cr_expect_null(c);
    cr_expect_eq(lam_ctx_bytes(m, SIZE_MAX / 8, &bytes, &err), LAM_E_LIMIT);
    lam_model_close(m);
}
