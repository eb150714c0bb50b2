/* What is answered. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "tests/unit/api/exchange.h"

static size_t size_at(json_t *reply, const char *key)
{
    return json_array_size(json_object_get(reply, key));
}

static json_t *embedding(json_t *reply, size_t i)
{
    return json_array_get(json_object_get(reply, "embeddings"), i);
}

static double number(json_t *list, size_t i)
{
    return json_number_value(json_array_get(list, i));
}

static int64_t item_number(json_t *reply, size_t i, const char *key)
{
    return json_integer_value(
        json_object_get(json_array_get(json_object_get(reply, "items"), i), key));
}

static bool has_key(json_t *object, const char *key)
{
    return json_object_get(object, key) != NULL;
}

/* Whether two bodies have equal embeddings. */
static bool same_embeddings(exchange *x, const char *a, const char *b)
{
    json_t *ra = exchange_encode(x, a), *rb = exchange_encode(x, b);
    const bool same =
        json_equal(json_object_get(ra, "embeddings"), json_object_get(rb, "embeddings"));
    json_decref(ra);
    json_decref(rb);
    return same;
}

Test(reply, has_the_shape_of_the_contract)
{
    exchange x;
    exchange_init(&x, true);
    json_t *r = exchange_encode(&x, "{\"tokens\":[[1,2,3],[4,5,6,7]]}");
    cr_expect_str_eq(json_string_value(json_object_get(r, "model")), "tiny");
    cr_expect_eq(size_at(r, "embeddings"), 2);
    cr_expect_eq(json_array_size(embedding(r, 0)), FIXTURE_WIDTH);
    cr_expect_eq(item_number(r, 1, "index"), 1);
    cr_expect_eq(item_number(r, 1, "tokens"), 4);
    cr_expect_eq(item_number(r, 1, "tokens_used"), 4);
    cr_expect(json_is_false(json_object_get(r, "batch_dependent")));
    cr_expect(!has_key(r, "sites") && !has_key(r, "layers"));
    json_t *usage = json_object_get(r, "usage");
    cr_expect_eq(json_integer_value(json_object_get(usage, "prompt_tokens")), 7);
    cr_expect_eq(json_integer_value(json_object_get(usage, "total_tokens")), 7);
    json_t *timing = json_object_get(r, "timing");
    cr_expect_eq(json_number_value(json_object_get(timing, "compute_ms")), 1.5);
    for (size_t i = 0; i < FIXTURE_WIDTH; i++) {
        const double v = number(embedding(r, 1), i);
        cr_expect_eq((float)v, x.request.items[1].out[i], "channel %zu", i);
    }
    json_decref(r);
    exchange_fini(&x);
}

Test(reply, treats_like_things_alike)
{
    static const char *const pairs[][2] = {
        {"{\"tokens\":[1,2,3]}", "{\"tokens\":[[1,2,3]]}"},
        {"{\"tokens\":[1,2,3]}",
         "{ \"tokens\" : [ 1 , 2\n,3 ] , \"pooling\":\"mean\", \"user\":\"u\" }"},
        {"{\"tokens\":[1,2,3]}",
         "{\"tokens\":[1,2,3],\"attention_mask\":[1,1,1],\"token_type_ids\":[0,0,0]}"},
        {"{\"tokens\":[1,2,3]}", "{\"tokens\":[1,2,3,9],\"attention_mask\":[1,1,1,0]}"},
        {"{\"texts\":\"red blues\"}", "{\"tokens\":[2,4,5,6,3]}"},
        {"{\"texts\":\"red blues\"}", "{\"texts\":[\"r\\u0065d blues\"]}"},
        {"{\"texts\":\"red\",\"prompt_name\":\"query\"}", "{\"texts\":\"query: red\"}"},
        {"{\"texts\":\"red\",\"prompt\":\"blue \"}", "{\"texts\":\"blue red\"}"},
        {"{\"texts\":\"[SEP]\"}", "{\"tokens\":[2,3,3]}"},
        {"{\"texts\":\"[SEP]\",\"special_tokens\":false}", "{\"tokens\":[2,11,13,12,3]}"},
        {"{\"tokens\":[1,2,3,4,5,6,7,8,9,1,2,3,4,5],\"truncate\":true}",
         "{\"tokens\":[1,2,3,4,5,6,7,8,9,1,2,3]}"},
        {"{\"tokens\":[1,2,3,4,5,6,7,8,9,1,2,3,4,5],\"truncate\":\"left\"}",
         "{\"tokens\":[3,4,5,6,7,8,9,1,2,3,4,5]}"},
        {"{\"tokens\":[1,2,3,4,5,6,7,8,9,1,2,3,4,5],\"truncate\":\"left\","
         "\"attention_mask\":[1,1,0,1,1,1,1,1,1,1,1,1,1,1]}",
         "{\"tokens\":[3,4,5,6,7,8,9,1,2,3,4,5],\"attention_mask\":[0,1,1,1,1,1,1,1,1,1,1,1]}"},
        {"{\"texts\":\"red blue a b c red blue a b c\",\"truncate\":true}",
         "{\"tokens\":[2,4,5,9,14,15,4,3]}"},
        {"{\"texts\":\"red blue a b c red blue a b c\",\"truncate\":\"left\"}",
         "{\"tokens\":[2,15,4,5,9,14,15,3]}"},
        {"{\"tokens\":[1,2],\"output_layer\":-1}", "{\"tokens\":[1,2],\"output_layer\":2}"},
        {"{\"tokens\":[1,2],\"output_layer\":-3}", "{\"tokens\":[1,2],\"output_layer\":0}"},
        {"{\"tokens\":[1,2],\"pooling\":\"last\"}", "{\"tokens\":[1,2],\"pooling\":\"lasttoken\"}"},
        {"{\"tokens\":[1,2],\"model\":\"tiny\"}",
         "{\"tokens\":[1,2],\"model\":\"text-embedding-3-small\"}"},
    };
    exchange x;
    exchange_init(&x, true);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        cr_expect(same_embeddings(&x, pairs[i][0], pairs[i][1]), "%s and %s", pairs[i][0],
                  pairs[i][1]);
    cr_expect(
        !same_embeddings(&x, "{\"tokens\":[1,2]}", "{\"tokens\":[1,2],\"token_type_ids\":[1,0]}"));
    cr_expect(!same_embeddings(&x, "{\"tokens\":[1,2]}", "{\"tokens\":[1,2],\"normalize\":false}"));
    cr_expect(!same_embeddings(&x, "{\"tokens\":[1,2]}", "{\"tokens\":[1,2],\"output_layer\":1}"));
    /* A token behind a masked one keeps its position. */
    cr_expect(!same_embeddings(&x, "{\"tokens\":[1,2,3]}",
                               "{\"\\u0074okens\":[1,2,-0,3],\"attention_mask\":[1,1,0,1]}"));
    exchange_fini(&x);
}

Test(reply, cuts_and_scales)
{
    exchange x;
    exchange_init(&x, true);
    json_t *r = exchange_encode(&x, "{\"tokens\":[1,2],\"dimensions\":3}");
    double square = 0;
    cr_expect_eq(json_array_size(embedding(r, 0)), 3);
    for (size_t i = 0; i < 3; i++)
        square += number(embedding(r, 0), i) * number(embedding(r, 0), i);
    cr_expect_float_eq(square, 1.0, 1e-6);
    json_decref(r);
    r = exchange_encode(&x, "{\"tokens\":[[1,2],[3]],\"pooling\":\"none\",\"dimensions\":5}");
    cr_expect_eq(json_array_size(embedding(r, 0)), 2);
    cr_expect_eq(json_array_size(json_array_get(embedding(r, 0), 1)), 5);
    cr_expect_eq(json_array_size(embedding(r, 1)), 1);
    json_decref(r);
    r = exchange_encode(
        &x, "{\"tokens\":[[1,2],[3]],\"pooling\":\"none\",\"encoding_format\":\"base64\"}");
    cr_expect_eq(json_array_size(embedding(r, 0)), 2);
    cr_expect_eq(json_string_length(json_array_get(embedding(r, 0), 0)), 44);
    json_decref(r);
    exchange_fini(&x);
}

Test(reply, tells_truncation)
{
    exchange x;
    exchange_init(&x, true);
    json_t *r = exchange_encode(
        &x, "{\"texts\":[\"red blue a b c red blue a\",\"red\"],\"truncate\":true}");
    cr_expect_eq(item_number(r, 0, "tokens"), 10);
    cr_expect_eq(item_number(r, 0, "tokens_used"), 8);
    cr_expect(
        json_is_true(json_object_get(json_array_get(json_object_get(r, "items"), 0), "truncated")));
    cr_expect(json_is_false(
        json_object_get(json_array_get(json_object_get(r, "items"), 1), "truncated")));
    cr_expect(x.request.any_truncated);
    json_decref(r);
    r = exchange_encode(&x, "{\"truncate\":true,\"tokens\":[[1,1,1,1,1,1,1,1,1,1,1,1,1],[1],"
                            "[1,1,1,1,1,1,1,1,1,1,1,1,1],[1,1,1,1,1,1,1,1,1,1,1,1,1]]}");
    char header[16];
    api_truncated_header(&x.request, header, sizeof header);
    cr_expect_str_eq(header, "0,2,3");
    api_truncated_header(&x.request, header, 8);
    cr_expect_str_eq(header, "0,2,...");
    api_truncated_header(&x.request, header, 7);
    cr_expect_str_eq(header, "0,...");
    json_decref(r);
    exchange_fini(&x);
}

static json_t *site(json_t *of, const char *name)
{
    return json_object_get(json_object_get(of, "sites"), name);
}

Test(reply, shows_the_statistics_that_were_asked_for)
{
    exchange x;
    exchange_init(&x, true);
    json_t *r = exchange_encode(&x, "{\"tokens\":[[1,2],[3]],\"statistics\":\"summary\"}");
    cr_expect_eq(json_object_size(json_object_get(r, "sites")), 2);
    cr_expect_eq(size_at(r, "layers"), FIXTURE_LAYERS);
    json_t *norm = site(json_array_get(json_object_get(r, "layers"), 1), "ffn_norm");
    cr_expect_eq(json_integer_value(json_object_get(norm, "tokens")), 3);
    cr_expect_eq(json_integer_value(json_object_get(norm, "nonfinite")), 0);
    cr_expect_eq(size_at(norm, "channels"), 5);
    static const char *const names[] = {"mean", "variance", "rms", "min", "max", "kurtosis"};
    for (size_t i = 0; i < 6; i++)
        cr_expect(json_is_real(json_object_get(norm, names[i])), "%s", names[i]);
    cr_expect(!has_key(json_array_get(json_object_get(r, "items"), 0), "sites"));
    json_decref(r);

    r = exchange_encode(&x, "{\"tokens\":[[1,2],[3]],\"statistics\":\"summary\",\"layers\":[1],"
                            "\"per_item\":true}");
    cr_expect(!has_key(r, "sites"));
    cr_expect_eq(size_at(r, "layers"), 1);
    json_t *layer = json_array_get(json_object_get(r, "layers"), 0);
    cr_expect_eq(json_integer_value(json_object_get(layer, "layer")), 1);
    json_t *item = json_array_get(json_object_get(r, "items"), 0);
    layer = json_array_get(json_object_get(item, "layers"), 0);
    cr_expect_eq(json_integer_value(json_object_get(site(layer, "ffn"), "tokens")), 2);
    json_decref(r);

    r = exchange_encode(&x, "{\"tokens\":[1,2],\"statistics\":\"summary\",\"layers\":[1,0],"
                            "\"sites\":[\"final\",\"output\"]}");
    cr_expect_eq(json_object_size(json_object_get(r, "sites")), 1);
    cr_expect_not_null(site(r, "final"));
    layer = json_array_get(json_object_get(r, "layers"), 0);
    cr_expect_eq(json_integer_value(json_object_get(layer, "layer")), 0);
    cr_expect_eq(json_object_size(json_object_get(layer, "sites")), 1);
    json_decref(r);
    exchange_fini(&x);
}

Test(reply, keeps_going_with_errors_per_item)
{
    exchange x;
    exchange_init(&x, true);
    json_t *r = exchange_encode(&x, "{\"tokens\":[[1],[99],[],[2]],\"on_error\":\"item\"}");
    cr_expect(json_is_array(embedding(r, 0)) && json_is_array(embedding(r, 3)));
    cr_expect(json_is_null(embedding(r, 1)) && json_is_null(embedding(r, 2)));
    json_t *error = json_object_get(json_array_get(json_object_get(r, "items"), 1), "error");
    cr_expect_str_eq(json_string_value(json_object_get(error, "code")), "token_out_of_range");
    cr_expect_str_eq(json_string_value(json_object_get(error, "param")), "/tokens/1/0");
    cr_expect_eq(json_integer_value(json_object_get(error, "index")), 1);
    error = json_object_get(json_array_get(json_object_get(r, "items"), 2), "error");
    cr_expect_str_eq(json_string_value(json_object_get(error, "code")), "empty_input");
    cr_expect_eq(x.request.item_count, 2);
    json_decref(r);
    exchange_fini(&x);
}

Test(reply, tells_failed_items)
{
    exchange x;
    exchange_init(&x, true);
    json_decref(exchange_encode(&x, "{\"tokens\":[[1],[2]]}"));
    lam_item *item = &x.request.items[1];
    item->status = LAM_E_NON_FINITE;
    item->fault_site = LAM_SITE_FFN;
    item->fault_layer = 1;
    cr_expect(!api_request_check(&x.request, &x.error));
    cr_expect_eq(x.error.code, API_CODE_NON_FINITE);
    cr_expect(x.error.has_index && x.error.index == 1);
    cr_expect_not_null(strstr(x.error.message, "layer 1, site ffn"), "%s", x.error.message);
    item->status = LAM_E_ZERO_NORM;
    cr_expect(!api_request_check(&x.request, &x.error));
    cr_expect_eq(x.error.code, API_CODE_ZERO_NORM);
    x.request.errors_per_item = true;
    cr_expect(api_request_check(&x.request, &x.error));
    exchange_fini(&x);
}

Test(reply, answers_as_openai_does)
{
    static const char *const bodies[] = {
        "{\"input\":[2,4,3],\"model\":\"tiny\"}",
        "{\"input\":[[2,4,3]],\"dimensions\":null,\"user\":null}",
        "{\"input\":\"red\",\"model\":\"text-embedding-3-small\",\"x\":{\"y\":[{}]}}",
        "{\"input\":[\"red\"],\"encoding_format\":\"float\"}",
    };
    exchange x;
    exchange_init(&x, true);
    json_t *first = NULL;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        json_t *r = exchange_run(&x, API_ROUTE_OPENAI_EMBEDDINGS, bodies[i], strlen(bodies[i]));
        cr_assert_not_null(r, "%s: %s", bodies[i], x.error.message);
        cr_expect_str_eq(json_string_value(json_object_get(r, "object")), "list");
        json_t *data = json_array_get(json_object_get(r, "data"), 0);
        cr_expect_str_eq(json_string_value(json_object_get(data, "object")), "embedding");
        cr_expect_eq(json_array_size(json_object_get(data, "embedding")), FIXTURE_WIDTH);
        if (first) cr_expect(json_equal(first, r), "%s differs", bodies[i]);
        if (!first) first = json_incref(r);
        json_decref(r);
    }
    json_decref(first);
    static const char two[] = "{\"input\":[[1],[2]],\"encoding_format\":\"base64\"}";
    json_t *r = exchange_run(&x, API_ROUTE_OPENAI_EMBEDDINGS, two, sizeof two - 1);
    json_t *data = json_array_get(json_object_get(r, "data"), 1);
    cr_expect_eq(json_integer_value(json_object_get(data, "index")), 1);
    cr_expect_eq(json_string_length(json_object_get(data, "embedding")), 44);
    json_decref(r);
    exchange_fini(&x);
}

Test(reply, lists_models_and_info)
{
    exchange x;
    exchange_init(&x, true);
    static const api_named_limit limits[] = {{"max_items", 8}, {"max_queue_items", 512}};
    const api_server_info server = {"1.2.3", limits, 2, 4, "a 1, b 2"};
    api_buffer b;
    api_buffer_init(&b, 1 << 16);
    cr_assert(api_info_write(&x.env, &server, &b));
    json_t *r = json_loadb(b.data, b.size, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(r, "%.*s", (int)b.size, b.data);
    cr_expect_eq(json_integer_value(json_object_get(r, "max_input_length")), FIXTURE_TEXT_TOKENS);
    cr_expect_eq(json_integer_value(json_object_get(r, "max_positions")), FIXTURE_POSITIONS);
    cr_expect_eq(json_integer_value(json_object_get(r, "max_client_batch_size")), 8);
    cr_expect_eq(
        json_integer_value(json_object_get(json_object_get(r, "limits"), "max_queue_items")), 512);
    json_decref(r);
    api_buffer_clear(&b);
    cr_assert(api_models_write(&x.env, &b));
    r = json_loadb(b.data, b.size, 0, NULL);
    json_t *model = json_array_get(json_object_get(r, "data"), 0);
    cr_expect_str_eq(json_string_value(json_object_get(model, "id")), "tiny");
    json_decref(r);
    api_buffer_free(&b);
    exchange_fini(&x);
}
