/* A tiny BERT made in memory, with a tokenizer, and an environment around it. In a header of its
 * own because fuzz targets are one file each. */
#ifndef TESTS_UNIT_API_FIXTURE_H
#define TESTS_UNIT_API_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "core/compile/compile.h"
#include "core/tokenizer/spec.h"

enum {
    FIXTURE_WIDTH = 8,
    FIXTURE_LAYERS = 2,
    FIXTURE_POSITIONS = 12,
    FIXTURE_ROWS = 4 * FIXTURE_POSITIONS, /* of a batch */
    FIXTURE_TEXT_TOKENS = 8,
    FIXTURE_VOCAB = 16,
};

static inline lam_status fixture_read(lam_weights *w, const lam_param *p, float *dst, lam_err *err)
{
    (void)w, (void)err;
    const size_t count = p->rank == 2 ? p->shape[0] * p->shape[1] : p->shape[0];
    uint32_t h = (uint32_t)p->module * 2654435761u + (uint32_t)p->layer * 40503u + 1;
    for (const char *c = p->name; *c; c++)
        h = (h ^ (unsigned char)*c) * 16777619u;
    for (size_t i = 0; i < count; i++) {
        h = h * 1664525u + 1013904223u;
        dst[i] = (float)(h >> 8) / 16777216.0f - 0.5f;
    }
    return LAM_OK;
}

static inline bool fixture_has(const lam_weights *w, lam_module module, size_t layer,
                               const char *name)
{
    (void)w, (void)module, (void)layer, (void)name;
    return true;
}

static inline lam_tokenizer *fixture_tokenizer(void)
{
#define PIECE(s, i)          \
    {                        \
        {s, sizeof s - 1}, i \
    }
    static const lam__piece pieces[] = {
        PIECE("[PAD]", 0), PIECE("[UNK]", 1), PIECE("[CLS]", 2), PIECE("[SEP]", 3),
        PIECE("red", 4),   PIECE("blue", 5),  PIECE("##s", 6),   PIECE("query", 7),
        PIECE(":", 8),     PIECE("a", 9),     PIECE("##a", 10),  PIECE("[", 11),
        PIECE("]", 12),    PIECE("sep", 13),  PIECE("b", 14),    PIECE("c", 15),
    };
    static const lam__norm_spec norms[] = {
        {LAM__NORM_BERT, {.bert = {true, true, true, true}}},
    };
    static const lam__pretok_spec pretoks[] = {{.kind = LAM__PRETOK_BERT}};
    static const lam__added_spec added[] = {
        {.text = {"[CLS]", 5}, .id = 2, .special = true},
        {.text = {"[SEP]", 5}, .id = 3, .special = true},
    };
    static const lam__template_item with[] = {
        {LAM__TEMPLATE_SPECIAL, 2, 0}, {LAM__TEMPLATE_FIRST, 0, 0}, {LAM__TEMPLATE_SPECIAL, 3, 0}};
    static const lam__template_item pair[] = {{LAM__TEMPLATE_SPECIAL, 2, 0},
                                              {LAM__TEMPLATE_FIRST, 0, 0},
                                              {LAM__TEMPLATE_SPECIAL, 3, 0},
                                              {LAM__TEMPLATE_SECOND, 0, 1},
                                              {LAM__TEMPLATE_SPECIAL, 3, 1}};
    static const lam__template_item bare[] = {{LAM__TEMPLATE_FIRST, 0, 0}};
    static const lam__template_item bare_pair[] = {{LAM__TEMPLATE_FIRST, 0, 0},
                                                   {LAM__TEMPLATE_SECOND, 0, 1}};
    const lam__tokenizer_spec spec = {
        .file = "tokenizer.json",
        .norms = norms,
        .norm_count = 1,
        .pretoks = pretoks,
        .pretok_count = 1,
        .model = LAM__MODEL_WORDPIECE,
        .pieces = pieces,
        .piece_count = sizeof pieces / sizeof *pieces,
        .wordpiece = {.unk_token = {"[UNK]", 5}, .prefix = {"##", 2}, .max_chars = 100},
        .added = added,
        .added_count = 2,
        .single = {{with, 3}, {bare, 1}},
        .pair = {{pair, 5}, {bare_pair, 2}},
    };
    lam_tokenizer *t = NULL;
    return lam__tokenizer_build(&t, &spec, NULL) == LAM_OK ? t : NULL;
}

/* NULL if anything fails. The caller closes it. */
static inline lam_model *fixture_model(bool with_tokenizer)
{
    static const lam_norm_spec norm = {.kind = LAM_NORM_LAYER,
                                       .source = LAM_NORM_FROM_TOKEN,
                                       .eps = 1e-5,
                                       .gain = true,
                                       .bias = true};
    static const lam_prompt prompts[] = {{"query", "query: "}, {"none", ""}};
    lam_weights weights = {fixture_read, fixture_has};
    lam_open_opts opts = lam_open_opts_default();
    opts.isa = LAM_ISA_REF;
    const lam_parts parts = {
        .name = "tiny",
        .weight_dtype = "float32",
        .hparams = {.family = "bert",
                    .width = FIXTURE_WIDTH,
                    .layers = FIXTURE_LAYERS,
                    .heads = 2,
                    .ffn_width = 16,
                    .vocab = FIXTURE_VOCAB,
                    .types = 2,
                    .position_rows = FIXTURE_POSITIONS,
                    .activation = LAM_ACTIVATION_GELU,
                    .embedding_norm = norm,
                    .attention_norm = norm,
                    .ffn_norm = norm,
                    .residual_scale = 1.0f},
        .weights = &weights,
        .head = {.pool = LAM_POOL_MEAN, .normalize = true, .max_input_length = FIXTURE_TEXT_TOKENS},
        .prompts = prompts,
        .prompt_count = 2,
        .tokenizer = with_tokenizer ? fixture_tokenizer() : NULL,
    };
    lam_model *m = NULL;
    if (with_tokenizer && !parts.tokenizer) return NULL;
    if (lam_compile(&m, &parts, &opts, NULL) != LAM_OK) lam_tokenizer_free(parts.tokenizer);
    return m;
}

/* One model "tiny" with the alias "text-embedding-3-small". `out` borrows m and storage. */
static inline api_env fixture_env(const lam_model *m, api_model *storage)
{
    static const char *const aliases[] = {"text-embedding-3-small"};
    *storage = (api_model){.name = "tiny",
                           .aliases = aliases,
                           .alias_count = 1,
                           .model = m,
                           .max_input_length = FIXTURE_TEXT_TOKENS,
                           .created = 1764000000};
    return (api_env){.models = storage,
                     .model_count = 1,
                     .limits = {.max_body_bytes = 1 << 20,
                                .max_items = 8,
                                .max_reply_bytes = 1 << 20,
                                .max_request_bytes = 1 << 22,
                                .max_batch_rows = 64,
                                .max_deadline_ms = 3600000}};
}

#endif
