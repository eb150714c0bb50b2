/* tokenizer.json: an input is a file. What is taken must tokenize, with ids and places that exist.
 */
#include <stdlib.h>
#include <string.h>

#include "core/import/tokenizer_spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const lam_tokenizer *t)
{
    static const char text[] =
        "[CLS] Caf\xc3\xa9 e\xcc\x81\xcc\xa7 ab  abc\t\xe4\xb8\xad\xe6\x96\x87 "
        "##x <mask>\xf0\x9f\x98\x80 12,5!";
    lam_arena arena;
    lam_encoding e;
    lam_arena_init(&arena, (size_t)64 << 20);
    for (int i = 0; i < 4; i++) {
        const lam_tokenize_opts opts = {.add_special_tokens = i & 1, .match_added_tokens = i & 2};
        const char *const pair = i & 1 ? text + 6 : NULL;
        if (lam_tokenize(t, text, sizeof text - 1, pair, pair ? sizeof text - 7 : 0, &opts, true,
                         &arena, &e, NULL) != LAM_OK) {
            abort();
        }
        for (size_t k = 0; k < e.count; k++) {
            if (e.offsets[k].start > e.offsets[k].end || e.offsets[k].end >= sizeof text) abort();
            if (!lam_tokenizer_token(t, e.ids[k], NULL)) abort();
        }
    }
    lam_arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lam_err err;
    lam_tokenizer_draft d = {.err = &err, .spec = {.file = "tokenizer.json"}};
    lam_tokenizer *t = NULL;
    lam_arena_init(&d.arena, (size_t)64 << 20);
    lam_status status = lam_tokenizer_parse_json(&d, (const char *)data, size, "tokenizer.json");
    if (status == LAM_OK) status = lam__tokenizer_build(&t, &d.spec, &err);
    if ((status == LAM_OK) != (t != NULL)) abort();
    lam_tokenizer_draft_free(&d);
    if (!t) return 0;
    use(t);
    lam_tokenizer_free(t);
    return 0;
}
