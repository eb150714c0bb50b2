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
        {"{\"model_type\":\"t5\"}", "t5"},
        {"{\"model_type\":7}", "model_type"},
        {"{\"model_type\":\"bert\"}", "hidden_size"},
        {"{\"a\":\"\\u0000\"}", "JSON"},
        {"{", "JSON"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        lam_json j;
        lam_err err = {0};
        lam_hparams h = {0};
        const lam_family *family;
        lam_status s = lam_json_parse(&j, table[i][0], strlen(table[i][0]), "config.json",
                                      LAM_JSON_INTEGERS, &err);
        if (s == LAM_OK) s = lam_hf_config_take(&h, &family, &j, &err);
        if (table[i][1] == NULL)
            cr_expect(s == LAM_OK && h.width == 8 && h.position_rows == 10, "%s: %s", table[i][0],
                      err.message);
        else
            cr_expect(s != LAM_OK && names(&err, table[i][1]), "%s: %s", table[i][0], err.message);
        lam_json_free(&j);
    }
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
