#include <criterion/criterion.h>
#include <string.h>

#include "core/import/hf_config.h"
#include "core/import/sentence_transformers.h"

#define SIZES                                                                                      \
    "\"model_type\":\"bert\",\"hidden_size\":8,\"num_hidden_layers\":2,\"num_attention_heads\":2," \
    "\"intermediate_size\":12,\"vocab_size\":16,\"max_position_embeddings\":10"

static bool names(const lam_err *err, const char *key)
{
    return strstr(err->where, key) != NULL || strstr(err->message, key) != NULL;
}

/* Parses and takes `text`; `key`: what the refusal must name, or NULL where there must be none. */
static lam_hparams take(const char *text, const char *key)
{
    lam_json j;
    lam_err err = {0};
    lam_hparams h = {0};
    const lam_family *family;
    lam_status s = lam_json_parse(&j, text, strlen(text), "config.json", LAM_JSON_INTEGERS, &err);
    if (s == LAM_OK) s = lam_hf_config_take(&h, &family, &j, &err);
    if (key == NULL)
        cr_expect(s == LAM_OK, "%s: %s: %s", text, err.where, err.message);
    else
        cr_expect(s != LAM_OK && names(&err, key), "%s: %s: %s", text, err.where, err.message);
    lam_json_free(&j);
    return h;
}

Test(config, bert)
{
    /* text, key that the refusal names or NULL */
    static const char *const table[][2] = {
        {"{" SIZES "}", NULL},
        {"{" SIZES ",\"hidden_act\":null,\"type_vocab_size\":3,\"layer_norm_eps\":1}", NULL},
        {"{" SIZES
         ",\"hidden_act\":\"gelu_pytorch_tanh\",\"position_embedding_type\":\"absolute\"}",
         NULL},
        {"{" SIZES ",\"hidden_size\":8}", "hidden_size"},
        {"{" SIZES ",\"hidden_act\":3}", "hidden_act"},
        {"{" SIZES ",\"hidden_act\":\"quick_gelu\"}", "quick_gelu"},
        {"{" SIZES ",\"layer_norm_eps\":1e-60}", "layer_norm_eps"},
        {"{" SIZES ",\"layer_norm_eps\":\"1e-5\"}", "layer_norm_eps"},
        {"{" SIZES ",\"type_vocab_size\":0}", "type_vocab_size"},
        {"{" SIZES ",\"position_embedding_type\":\"alibi\"}", "alibi"},
        {"{" SIZES ",\"add_cross_attention\":true}", "add_cross_attention"},
        {"{" SIZES ",\"is_decoder\":1}", "is_decoder"},
        {"{" SIZES ",\"lamina\":{}}", "lamina"},
        {"{\"model_type\":\"gpt2\"}", "gpt2"},
        {"{\"model_type\":7}", "model_type"},
        {"{\"model_type\":\"bert\"}", "hidden_size"},
        {"{\"a\":\"\\u0000\"}", "JSON"},
        {"{", "JSON"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const lam_hparams h = take(table[i][0], table[i][1]);
        if (table[i][1] == NULL) cr_expect(h.width == 8 && h.positions == 10);
    }
}

#define OF(type, more)                                                        \
    "{\"model_type\":\"" type "\",\"hidden_size\":8,\"num_hidden_layers\":2," \
    "\"num_attention_heads\":2,\"intermediate_size\":12,\"vocab_size\":16,"   \
    "\"max_position_embeddings\":10" more "}"

#define T5(more)                                                                        \
    "{\"model_type\":\"t5\",\"d_model\":8,\"num_layers\":2,\"num_heads\":3,\"d_kv\":4," \
    "\"d_ff\":12,\"vocab_size\":16" more "}"

Test(config, t5)
{
    static const char *const table[][2] = {
        {T5(",\"feed_forward_proj\":\"gated-gelu\""), "gated-gelu"},
        {T5(",\"relative_attention_num_buckets\":6"), "relative_attention_num_buckets"},
        {T5(",\"relative_attention_num_buckets\":0"), "relative_attention_num_buckets"},
        {T5(",\"relative_attention_max_distance\":8"), "relative_attention_max_distance"},
        {T5(",\"n_positions\":-1"), "n_positions"},
        {T5(",\"layer_norm_epsilon\":0"), "layer_norm_epsilon"},
        {T5(",\"is_decoder\":true"), "is_decoder"},
        {"{\"model_type\":\"t5\",\"d_model\":8,\"num_layers\":2,\"num_heads\":3,\"d_ff\":12,"
         "\"vocab_size\":16}",
         "d_kv"},
        {"{\"model_type\":\"t5\",\"d_model\":8,\"num_layers\":2,\"num_heads\":3,\"d_kv\":32768,"
         "\"d_ff\":12,\"vocab_size\":16}",
         "d_kv"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        (void)take(table[i][0], table[i][1]);
    const lam_hparams h = take(T5(",\"n_positions\":20"), NULL);
    cr_expect(h.head_width == 4 && h.attention_scale == 1.0f && h.without_biases);
    cr_expect(h.positions == 20 && h.position_rows == 0 && h.bias_rows == 32);
    cr_expect(h.embedding_norm.kind == LAM_NORM_ABSENT && h.final_norm.kind == LAM_NORM_RMS);
}

Test(config, learned_positions)
{
    static const char *const table[][2] = {
        {OF("roberta", ",\"pad_token_id\":16"), "pad_token_id"},
        {OF("roberta", ",\"pad_token_id\":-1"), "pad_token_id"},
        {OF("roberta", ",\"pad_token_id\":9"), "max_position_embeddings"},
        {OF("roberta", ",\"position_embedding_type\":\"relative_key\""), "relative_key"},
        {OF("xlm-roberta", ",\"is_decoder\":true"), "is_decoder"},
        {OF("camembert", ",\"type_vocab_size\":1025"), "type_vocab_size"},
        {OF("electra", ",\"embedding_size\":0"), "embedding_size"},
        {OF("electra", ",\"embedding_size\":99999999999"), "embedding_size"},
        {OF("albert", ",\"embedding_size\":-3"), "embedding_size"},
        {OF("albert", ",\"num_hidden_groups\":3"), "num_hidden_groups"},
        {OF("albert", ",\"num_hidden_groups\":0"), "num_hidden_groups"},
        {OF("albert", ",\"inner_group_num\":2"), "inner_group_num"},
        {OF("distilbert", ",\"dim\":12"), "hidden_size"},
        {OF("distilbert", ",\"n_heads\":3"), "num_attention_heads"},
        {OF("distilbert", ",\"activation\":\"mish\""), "mish"},
        {OF("distilbert", ",\"lamina\":{\"placement\":\"sandwich\",\"norm\":{\"kind\":\"rms\","
                          "\"eps\":1e-6,\"eps_mode\":\"variance\"},\"embedding_norm\":null,"
                          "\"final_norm\":null}"),
         "attention_branch_norm"},
        {OF("roberta-prelayernorm", ",\"layer_norm_eps\":-1"), "layer_norm_eps"},
        {OF("mpnet", ",\"relative_attention_num_buckets\":16"), "relative_attention_num_buckets"},
        {OF("mpnet", ",\"pad_token_id\":\"1\""), "pad_token_id"},
        {OF("distilbert", ",\"dim\":8"), NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        (void)take(table[i][0], table[i][1]);

    lam_hparams h = take(OF("roberta", ",\"pad_token_id\":3"), NULL);
    cr_expect(h.position_rule == LAM_POSITIONS_AFTER_PAD && h.pad_id == 3 && h.positions == 6);
    h = take(OF("mpnet", ",\"relative_attention_num_buckets\":40"), NULL);
    cr_expect(h.bias_rows == 40 && h.bias_buckets == 32 && h.types == 0 && h.positions == 8);
    h = take(OF("electra", ""), NULL);
    cr_expect(h.embedding_width == 128 && h.embedding_projected);
    h = take(OF("electra", ",\"embedding_size\":8"), NULL);
    cr_expect(!h.embedding_projected && h.weight_sets == 2);
    h = take(OF("albert", ",\"embedding_size\":8"), NULL);
    cr_expect(h.embedding_projected && h.weight_sets == 1 &&
              h.activation == LAM_ACTIVATION_GELU_TANH);
    h = take(OF("distilbert", ""), NULL);
    cr_expect(h.types == 0 && h.placement == LAM_PLACEMENT_POST);
    h = take(OF("roberta-prelayernorm", ""), NULL);
    cr_expect(h.placement == LAM_PLACEMENT_PRE && h.final_norm.kind == LAM_NORM_LAYER);
}

Test(config, pooling)
{
    static const struct {
        const char *text, *key;
        lam_pool pool;
    } table[] = {
        {"{\"pooling_mode\":\"cls\"}", NULL, LAM_POOL_CLS},
        {"{\"pooling_mode\":[\"lasttoken\"],\"embedding_dimension\":8}", NULL, LAM_POOL_LAST},
        {"{\"pooling_mode_mean_tokens\":true,\"pooling_mode_cls_token\":false}", NULL,
         LAM_POOL_MEAN},
        {"{\"pooling_mode_weightedmean_tokens\":true}", NULL, LAM_POOL_WEIGHTED},
        {"{\"pooling_mode\":\"max\",\"pooling_mode_max_tokens\":true}", NULL, LAM_POOL_MAX},
        {"{\"pooling_mode\":\"max\",\"pooling_mode_mean_tokens\":true}", "pooling_mode",
         LAM_POOL_COUNT},
        {"{\"pooling_mode\":[\"mean\",\"max\"]}", "several", LAM_POOL_COUNT},
        {"{\"pooling_mode_mean_tokens\":false}", "pooling_mode", LAM_POOL_COUNT},
        {"{\"pooling_mode_attention\":true}", "pooling_mode_attention", LAM_POOL_COUNT},
        {"{\"pooling_mode\":\"mean\",\"word_embedding_dimension\":9}", "word_embedding_dimension",
         LAM_POOL_COUNT},
        {"{\"pooling_mode\":\"mean\",\"include_prompt\":0}", "include_prompt", LAM_POOL_COUNT},
        {"{}", "pooling_mode", LAM_POOL_COUNT},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        lam_json j;
        lam_err err = {0};
        lam_pool pool = LAM_POOL_COUNT;
        bool include_prompt;
        cr_assert_eq(
            lam_json_parse(&j, table[i].text, strlen(table[i].text), "p", LAM_JSON_INTEGERS, &err),
            LAM_OK);
        const lam_status s = lam_sentence_pooling(&pool, &include_prompt, &j, 8, &err);
        cr_expect((s == LAM_OK) == (table[i].key == NULL) && pool == table[i].pool, "%s: %s",
                  table[i].text, err.message);
        cr_expect(table[i].key == NULL || names(&err, table[i].key), "%s: %s", table[i].text,
                  err.message);
        lam_json_free(&j);
    }
}

Test(config, names_of_files_and_messages)
{
    static const struct {
        const char *name;
        bool inside;
    } table[] = {{"a", true},   {"a/b.c", true}, {"..a/b..", true}, {"", false},     {"/a", false},
                 {"..", false}, {"a/..", false}, {"a/../b", false}, {"a//b", false}, {"a/", false}};
    static char long_name[5000];
    lam_quoted q;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        cr_expect_eq(lam_file_name_is_inside(table[i].name), table[i].inside, "%s", table[i].name);
    cr_expect_str_eq(lam_quote(&q, "a\0b\x1b\xff\xc2\x9b", 7), "a\\x00b\\x1b\\xff\\xc2\\x9b");
    cr_expect_str_eq(lam_quote(&q, "\xc3\xa9\xf0\x9f\x98\x80", 6), "\xc3\xa9\xf0\x9f\x98\x80");
    memset(long_name, 'n', sizeof long_name);
    cr_expect_eq(strlen(lam_quote(&q, long_name, sizeof long_name)), LAM_QUOTE_MAX);
    cr_expect_str_eq(q.text + LAM_QUOTE_MAX - 4, "n...");
}
