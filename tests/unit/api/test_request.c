/* What is refused, and how it is told. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/unit/api/exchange.h"

typedef struct refusal {
    const char *body;
    api_code code;
    const char *param;
} refusal;

static void expect_refusals(api_route route, const refusal *rows, size_t count)
{
    exchange x;
    exchange_init(&x, true);
    for (size_t i = 0; i < count; i++)
        cr_expect(exchange_refused(&x, route, rows[i].body, rows[i].code, rows[i].param),
                  "row %zu: %s", i, rows[i].body);
    exchange_fini(&x);
}

#define COUNT(a) (sizeof(a) / sizeof *(a))

Test(request, refuses_bodies)
{
    static const refusal rows[] = {
        {"", API_CODE_EMPTY_BODY, ""},
        {" \n\t", API_CODE_EMPTY_BODY, ""},
        {"null", API_CODE_NOT_OBJECT, ""},
        {"1", API_CODE_NOT_OBJECT, ""},
        {"\"x\"", API_CODE_NOT_OBJECT, ""},
        {"[]", API_CODE_NOT_OBJECT, ""},
        {"[1,]", API_CODE_INVALID_JSON, ""},
        {"{\"tokens\":[1]", API_CODE_INVALID_JSON, ""},
        {"{\"tokens\":[1]} x", API_CODE_INVALID_JSON, ""},
        {"{\"tokens\":[1],}", API_CODE_INVALID_JSON, ""},
        {"{\"tokens\":[1,]}", API_CODE_INVALID_JSON, ""},
        {"{\"tokens\":[01]}", API_CODE_INVALID_JSON, ""},
        {"{\"tokens\":[+1]}", API_CODE_INVALID_JSON, ""},
        {"{\"tokens\":[1.]}", API_CODE_INVALID_JSON, ""},
        {"{\"tokens\":[.5]}", API_CODE_INVALID_JSON, ""},
        {"{\"tokens\":[NaN]}", API_CODE_INVALID_JSON, ""},
        {"{\"tokens\":[0x10]}", API_CODE_INVALID_JSON, ""},
        {"{'tokens':[1]}", API_CODE_INVALID_JSON, ""},
        {"{\"tokens\":[1]/**/}", API_CODE_INVALID_JSON, ""},
        {"\xef\xbb\xbf{}", API_CODE_INVALID_JSON, ""},
        {"\xff\xfe{", API_CODE_INVALID_UTF8, ""},
        {"{\"texts\":\"\xc0\x80\"}", API_CODE_INVALID_UTF8, ""},
        {"{\"texts\":\"\xed\xa0\x80\"}", API_CODE_INVALID_UTF8, ""},
        {"{\"texts\":\"\xf4\x90\x80\x80\"}", API_CODE_INVALID_UTF8, ""},
        {"{\"texts\":\"abcdefghijklm\xff\"}", API_CODE_INVALID_UTF8, ""},
        {"{\"texts\":\"\\ud83d\"}", API_CODE_INVALID_UTF8, ""},
        {"{\"texts\":\"\\ude00\\ud83d\"}", API_CODE_INVALID_UTF8, ""},
        {"{\"texts\":\"a\nb\"}", API_CODE_INVALID_JSON, ""},
        {"{\"texts\":\"\\x\"}", API_CODE_INVALID_JSON, ""},
        {"{\"texts\":[\"a\\u0000b\"]}", API_CODE_INVALID_VALUE, "/texts/0"},
        {"{\"tokens\":[1],\"tokens\":[2]}", API_CODE_DUPLICATE_KEY, ""},
        {"{\"tokens\":[1],\"\\u0074okens\":[2]}", API_CODE_DUPLICATE_KEY, ""},
        /* What is wrong with the text is told before what is wrong with the request. */
        {"{\"nonsense\":1,", API_CODE_INVALID_JSON, ""},
        {"{\"tokens\":\"x\",\"texts\":\"\xff\"}", API_CODE_INVALID_UTF8, ""},
        {"[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]", API_CODE_NOT_OBJECT, ""},
        {"[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]", API_CODE_TOO_DEEP, ""},
        {"{\"foo\":[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}", API_CODE_TOO_DEEP, ""},
    };
    expect_refusals(API_ROUTE_ENCODE, rows, COUNT(rows));
}

Test(request, refuses_fields)
{
    static const refusal rows[] = {
        {"{}", API_CODE_MISSING_FIELD, "/tokens"},
        {"{\"tokens\":[1],\"texts\":\"a\"}", API_CODE_CONFLICTING_FIELDS, "/texts"},
        {"{\"tokens\":[1],\"tokens_\":1}", API_CODE_UNKNOWN_FIELD, "/tokens_"},
        {"{\"tokens\":[1],\"<script>\":1}", API_CODE_UNKNOWN_FIELD, ""},
        {"{\"tokens\":[1],\"\":1}", API_CODE_UNKNOWN_FIELD, ""},
        {"{\"tokens\":null}", API_CODE_WRONG_TYPE, "/tokens"},
        {"{\"tokens\":{}}", API_CODE_WRONG_TYPE, "/tokens"},
        {"{\"tokens\":[{}]}", API_CODE_WRONG_TYPE, "/tokens/0"},
        {"{\"tokens\":[[1],2]}", API_CODE_WRONG_TYPE, "/tokens/1"},
        {"{\"tokens\":[[1],[2,\"3\"]]}", API_CODE_WRONG_TYPE, "/tokens/1/1"},
        {"{\"tokens\":[[1],[2,null]]}", API_CODE_WRONG_TYPE, "/tokens/1/1"},
        {"{\"tokens\":[1,[2]]}", API_CODE_WRONG_TYPE, "/tokens/1"},
        {"{\"tokens\":[1.0]}", API_CODE_WRONG_TYPE, "/tokens/0"},
        {"{\"tokens\":[[3],[1,1e2]]}", API_CODE_WRONG_TYPE, "/tokens/1/1"},
        {"{\"tokens\":[1e400]}", API_CODE_WRONG_TYPE, "/tokens/0"},
        {"{\"tokens\":[]}", API_CODE_EMPTY_INPUT, "/tokens"},
        {"{\"tokens\":[[]]}", API_CODE_EMPTY_INPUT, "/tokens/0"},
        {"{\"tokens\":[[1],[]]}", API_CODE_EMPTY_INPUT, "/tokens/1"},
        {"{\"tokens\":[16]}", API_CODE_TOKEN_OUT_OF_RANGE, "/tokens/0"},
        {"{\"tokens\":[[1],[1,2,-1]]}", API_CODE_TOKEN_OUT_OF_RANGE, "/tokens/1/2"},
        {"{\"tokens\":[2147483647]}", API_CODE_TOKEN_OUT_OF_RANGE, "/tokens/0"},
        {"{\"tokens\":[2147483648]}", API_CODE_TOKEN_OUT_OF_RANGE, "/tokens/0"},
        {"{\"tokens\":[4294967297]}", API_CODE_TOKEN_OUT_OF_RANGE, "/tokens/0"},
        {"{\"tokens\":[9223372036854775808]}", API_CODE_TOKEN_OUT_OF_RANGE, "/tokens/0"},
        {"{\"tokens\":[-9223372036854775809]}", API_CODE_TOKEN_OUT_OF_RANGE, "/tokens/0"},
        {"{\"tokens\":[18446744073709551617]}", API_CODE_TOKEN_OUT_OF_RANGE, "/tokens/0"},
        {"{\"tokens\":[1,1,1,1,1,1,1,1,1,1,1,1,1]}", API_CODE_CONTEXT_LENGTH, "/tokens"},
        {"{\"tokens\":[[1],[2],[3],[4],[5],[6],[7],[8],[9]]}", API_CODE_TOO_MANY_ITEMS, "/tokens"},
        {"{\"tokens\":[[],[],[],[],[],[],[],[],[]]}", API_CODE_TOO_MANY_ITEMS, "/tokens"},
        {"{\"tokens\":[{},{},{},{},{},{},{},{},{}]}", API_CODE_TOO_MANY_ITEMS, "/tokens"},
        {"{\"tokens\":[\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\"]}", API_CODE_TOO_MANY_ITEMS,
         "/tokens"},
        {"{\"texts\":[\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\"]}", API_CODE_TOO_MANY_ITEMS,
         "/texts"},
        {"{\"texts\":[1,1,1,1,1,1,1,1,1]}", API_CODE_TOO_MANY_ITEMS, "/texts"},
        {"{\"texts\":[]}", API_CODE_EMPTY_INPUT, "/texts"},
        {"{\"texts\":\"\"}", API_CODE_EMPTY_INPUT, "/texts"},
        {"{\"texts\":[\"red\",\"\"]}", API_CODE_EMPTY_INPUT, "/texts/1"},
        {"{\"texts\":[\"red\",7]}", API_CODE_WRONG_TYPE, "/texts/1"},
        {"{\"texts\":7}", API_CODE_WRONG_TYPE, "/texts"},
        {"{\"texts\":\"red red red red red red red\"}", API_CODE_CONTEXT_LENGTH, "/texts"},
        {"{\"tokens\":[[1]],\"attention_mask\":[1]}", API_CODE_INVALID_MASK, "/attention_mask"},
        {"{\"tokens\":[[1]],\"attention_mask\":[[1],[1]]}", API_CODE_INVALID_MASK,
         "/attention_mask"},
        {"{\"tokens\":[[1,2]],\"attention_mask\":[[1]]}", API_CODE_INVALID_MASK,
         "/attention_mask/0"},
        {"{\"tokens\":[[1,2]],\"attention_mask\":[[1,2]]}", API_CODE_INVALID_MASK,
         "/attention_mask/0/1"},
        {"{\"tokens\":[[1,2]],\"attention_mask\":[[1,-1]]}", API_CODE_INVALID_MASK,
         "/attention_mask/0/1"},
        {"{\"tokens\":[[1,2]],\"attention_mask\":[[1,256]]}", API_CODE_INVALID_MASK,
         "/attention_mask/0/1"},
        {"{\"tokens\":[[1,2]],\"attention_mask\":[[1,0.5]]}", API_CODE_WRONG_TYPE,
         "/attention_mask/0/1"},
        {"{\"tokens\":[[1,2]],\"attention_mask\":[[1,true]]}", API_CODE_WRONG_TYPE,
         "/attention_mask/0/1"},
        {"{\"tokens\":[[1],[1,2]],\"attention_mask\":[[1],[0,0]]}", API_CODE_INVALID_MASK,
         "/attention_mask/1"},
        {"{\"texts\":\"red\",\"attention_mask\":[1]}", API_CODE_CONFLICTING_FIELDS,
         "/attention_mask"},
        {"{\"texts\":\"red\",\"token_type_ids\":[1]}", API_CODE_CONFLICTING_FIELDS,
         "/token_type_ids"},
        {"{\"tokens\":[[1,2]],\"token_type_ids\":[[0]]}", API_CODE_INVALID_VALUE,
         "/token_type_ids/0"},
        {"{\"tokens\":[[1,2]],\"token_type_ids\":[[0,2]]}", API_CODE_TYPE_OUT_OF_RANGE,
         "/token_type_ids/0/1"},
        {"{\"tokens\":[[1,2]],\"token_type_ids\":[[0,-1]]}", API_CODE_TYPE_OUT_OF_RANGE,
         "/token_type_ids/0/1"},
        {"{\"tokens\":[1],\"prompt\":\"x\"}", API_CODE_CONFLICTING_FIELDS, "/prompt"},
        {"{\"texts\":\"a\",\"prompt\":\"x\",\"prompt_name\":\"query\"}",
         API_CODE_CONFLICTING_FIELDS, "/prompt"},
        {"{\"texts\":\"a\",\"prompt_name\":\"nope\"}", API_CODE_INVALID_VALUE, "/prompt_name"},
    };
    expect_refusals(API_ROUTE_ENCODE, rows, COUNT(rows));
}

Test(request, refuses_options)
{
#define T "{\"tokens\":[1],"
    static const refusal rows[] = {
        {T "\"model\":\"other\"}", API_CODE_MODEL_NOT_FOUND, "/model"},
        {T "\"model\":\"../../etc\"}", API_CODE_MODEL_NOT_FOUND, "/model"},
        {T "\"model\":\"tiny\\u0000\"}", API_CODE_MODEL_NOT_FOUND, "/model"},
        {T "\"model\":null}", API_CODE_WRONG_TYPE, "/model"},
        {T "\"pooling\":\"Mean\"}", API_CODE_INVALID_VALUE, "/pooling"},
        {T "\"pooling\":1}", API_CODE_WRONG_TYPE, "/pooling"},
        {T "\"normalize\":1}", API_CODE_WRONG_TYPE, "/normalize"},
        {T "\"normalize\":tru}", API_CODE_INVALID_JSON, ""},
        {T "\"dimensions\":0}", API_CODE_OUT_OF_RANGE, "/dimensions"},
        {T "\"dimensions\":9}", API_CODE_OUT_OF_RANGE, "/dimensions"},
        {T "\"dimensions\":-1}", API_CODE_OUT_OF_RANGE, "/dimensions"},
        {T "\"dimensions\":9223372036854775808}", API_CODE_OUT_OF_RANGE, "/dimensions"},
        {T "\"dimensions\":4.0}", API_CODE_WRONG_TYPE, "/dimensions"},
        {T "\"dimensions\":\"5\"}", API_CODE_WRONG_TYPE, "/dimensions"},
        {T "\"output_layer\":3}", API_CODE_OUT_OF_RANGE, "/output_layer"},
        {T "\"output_layer\":-4}", API_CODE_OUT_OF_RANGE, "/output_layer"},
        {T "\"output_layer\":-9223372036854775809}", API_CODE_OUT_OF_RANGE, "/output_layer"},
        {T "\"encoding_format\":\"hex\"}", API_CODE_INVALID_VALUE, "/encoding_format"},
        {T "\"statistics\":\"all\"}", API_CODE_INVALID_VALUE, "/statistics"},
        {T "\"statistics\":true}", API_CODE_WRONG_TYPE, "/statistics"},
        {T "\"statistics\":\"fuller\"}", API_CODE_INVALID_VALUE, "/statistics"},
        {T "\"layers\":[2]}", API_CODE_OUT_OF_RANGE, "/layers/0"},
        {T "\"layers\":[0,-1]}", API_CODE_OUT_OF_RANGE, "/layers/1"},
        {T "\"layers\":[1,0,1]}", API_CODE_INVALID_VALUE, "/layers/2"},
        {T "\"layers\":[9223372036854775808]}", API_CODE_OUT_OF_RANGE, "/layers/0"},
        {T "\"layers\":[0.0]}", API_CODE_WRONG_TYPE, "/layers/0"},
        {T "\"layers\":0}", API_CODE_WRONG_TYPE, "/layers"},
        {T "\"layers\":[]}", API_CODE_INVALID_VALUE, "/layers"},
        {T "\"sites\":[\"ffn\",\"ffn\"]}", API_CODE_INVALID_VALUE, "/sites/1"},
        {T "\"sites\":[\"nowhere\"]}", API_CODE_INVALID_VALUE, "/sites/0"},
        {T "\"sites\":[\"ffn_inner_norm\"]}", API_CODE_INVALID_VALUE, "/sites"},
        {T "\"sites\":[]}", API_CODE_INVALID_VALUE, "/sites"},
        {T "\"per_item\":\"yes\"}", API_CODE_WRONG_TYPE, "/per_item"},
        {T "\"norm\":{\"statistics\":\"batch\"}}", API_CODE_UNSUPPORTED, "/norm/statistics"},
        {T "\"norm\":{\"statistics\":\"x\"}}", API_CODE_INVALID_VALUE, "/norm/statistics"},
        {T "\"norm\":{}}", API_CODE_MISSING_FIELD, "/norm/statistics"},
        {T "\"norm\":{\"eps\":1}}", API_CODE_UNKNOWN_FIELD, "/norm"},
        {T "\"norm\":\"batch\"}", API_CODE_WRONG_TYPE, "/norm"},
        {T "\"truncate\":\"middle\"}", API_CODE_INVALID_VALUE, "/truncate"},
        {T "\"truncate\":1}", API_CODE_WRONG_TYPE, "/truncate"},
        {T "\"special_tokens\":0}", API_CODE_WRONG_TYPE, "/special_tokens"},
        {T "\"on_error\":\"ignore\"}", API_CODE_INVALID_VALUE, "/on_error"},
        {T "\"deadline_ms\":0}", API_CODE_OUT_OF_RANGE, "/deadline_ms"},
        {T "\"deadline_ms\":-5}", API_CODE_OUT_OF_RANGE, "/deadline_ms"},
        {T "\"deadline_ms\":3600001}", API_CODE_OUT_OF_RANGE, "/deadline_ms"},
        {T "\"deadline_ms\":2147483648}", API_CODE_OUT_OF_RANGE, "/deadline_ms"},
        {T "\"deadline_ms\":1e3}", API_CODE_WRONG_TYPE, "/deadline_ms"},
        {T "\"user\":1}", API_CODE_WRONG_TYPE, "/user"},
    };
    expect_refusals(API_ROUTE_ENCODE, rows, COUNT(rows));
}

Test(request, refuses_on_the_openai_route)
{
    static const refusal rows[] = {
        {"{}", API_CODE_MISSING_FIELD, "input"},
        {"{\"input\":null}", API_CODE_WRONG_TYPE, "input"},
        {"{\"input\":1}", API_CODE_WRONG_TYPE, "input"},
        {"{\"input\":\"\"}", API_CODE_EMPTY_INPUT, "input"},
        {"{\"input\":[]}", API_CODE_EMPTY_INPUT, "input"},
        {"{\"input\":[[]]}", API_CODE_EMPTY_INPUT, "input"},
        {"{\"input\":[\"a\",\"\"]}", API_CODE_EMPTY_INPUT, "input"},
        {"{\"input\":[\"a\",1]}", API_CODE_WRONG_TYPE, "input"},
        {"{\"input\":[1,\"a\"]}", API_CODE_WRONG_TYPE, "input"},
        {"{\"input\":[[1],\"a\"]}", API_CODE_WRONG_TYPE, "input"},
        {"{\"input\":[1,2,99999]}", API_CODE_TOKEN_OUT_OF_RANGE, "input"},
        {"{\"input\":\"a\",\"model\":\"x\"}", API_CODE_MODEL_NOT_FOUND, "model"},
        {"{\"input\":\"a\",\"dimensions\":99}", API_CODE_OUT_OF_RANGE, "dimensions"},
        {"{\"input\":\"a\",\"encoding_format\":\"x\"}", API_CODE_INVALID_VALUE, "encoding_format"},
        {"{\"input\":\"a\",\"extra\":{\"a\":1,\"a\":2}}", API_CODE_DUPLICATE_KEY, ""},
        {"{\"input\":\"a\",\"extra\":[1,}", API_CODE_INVALID_JSON, ""},
    };
    expect_refusals(API_ROUTE_OPENAI_EMBEDDINGS, rows, COUNT(rows));
}

Test(request, tells_what_is_to_blame)
{
    exchange x;
    exchange_init(&x, true);
    cr_expect(exchange_refused(&x, API_ROUTE_ENCODE, "{\"tokens\":[[1],[2,99]]}",
                               API_CODE_TOKEN_OUT_OF_RANGE, "/tokens/1/1"));
    cr_expect(x.error.has_index && x.error.index == 1);
    cr_expect(exchange_refused(&x, API_ROUTE_ENCODE, "{\"tokens\":[1,1,1,1,1,1,1,1,1,1,1,1,1]}",
                               API_CODE_CONTEXT_LENGTH, "/tokens"));
    cr_expect(x.error.has_limit && x.error.limit == FIXTURE_POSITIONS && x.error.actual == 13);
    cr_expect(exchange_refused(&x, API_ROUTE_ENCODE, "{\"texts\":[\"a\",\"a a a a a a a\"]}",
                               API_CODE_CONTEXT_LENGTH, "/texts/1"));
    cr_expect(x.error.has_limit && x.error.limit == FIXTURE_TEXT_TOKENS && x.error.actual == 9);
    cr_expect(exchange_refused(&x, API_ROUTE_OPENAI_EMBEDDINGS, "{\"input\":[[1],[2,99]]}",
                               API_CODE_TOKEN_OUT_OF_RANGE, "input"));
    cr_expect_not_null(strstr(x.error.message, "input[1][1]"), "%s", x.error.message);
    cr_expect_not_null(strstr(x.error.message, "check_embedding_ctx_length=False"));
    cr_expect(exchange_refused(&x, API_ROUTE_ENCODE, "{\"texts\":\"a\",\"normalise\":true}",
                               API_CODE_UNKNOWN_FIELD, "/normalise"));
    cr_expect_not_null(strstr(x.error.message, "\"normalize\""), "%s", x.error.message);
    cr_expect(exchange_refused(&x, API_ROUTE_ENCODE, "{\"texts\":\"a\",\"prompt_name\":\"x\"}",
                               API_CODE_INVALID_VALUE, "/prompt_name"));
    cr_expect_not_null(strstr(x.error.message, "query, none"), "%s", x.error.message);
    exchange_fini(&x);
}

/* Thousand-digit numbers, a megabyte of key, a hundred thousand keys: answered, and quickly. */
Test(request, refuses_large_things)
{
    exchange x;
    exchange_init(&x, true);
    const size_t size = 3u << 20;
    char *body = malloc(size);
    memcpy(body, "{\"tokens\":[1", 12);
    memset(body + 12, '0', 999);
    memcpy(body + 1011, "]}", 2);
    size_t n = 1013;
    cr_expect_null(exchange_run(&x, API_ROUTE_ENCODE, body, n));
    cr_expect_eq(x.error.code, API_CODE_TOKEN_OUT_OF_RANGE);
    n = 2;
    memcpy(body, "{\"", 2);
    memset(body + n, 'k', 1 << 20);
    n += 1 << 20;
    memcpy(body + n, "\":1}", 4);
    cr_expect_null(exchange_run(&x, API_ROUTE_ENCODE, body, n + 4));
    cr_expect_eq(x.error.code, API_CODE_UNKNOWN_FIELD);
    body[0] = '{';
    n = 1;
    for (int i = 0; i < 100000; i++)
        n += (size_t)snprintf(body + n, size - n, "%s\"k%d\":0", i ? "," : "", i);
    body[n++] = '}';
    cr_expect_null(exchange_run(&x, API_ROUTE_OPENAI_EMBEDDINGS, body, n));
    cr_expect_eq(x.error.code, API_CODE_INVALID_VALUE);
    memset(body, '[', size);
    cr_expect_null(exchange_run(&x, API_ROUTE_ENCODE, body, 1000000));
    cr_expect_eq(x.error.code, API_CODE_TOO_DEEP);
    free(body);
    exchange_fini(&x);
}

/* A body cut anywhere is no request. */
Test(request, refuses_every_beginning)
{
    static const char body[] =
        "{\"tokens\":[[1, 2],[3]],\"pooling\":\"m\\u0065an\",\"deadline_ms\":10,"
        "\"normalize\":true,\"layers\":[0]}";
    exchange x;
    exchange_init(&x, true);
    for (size_t n = 0; n < sizeof body - 1; n++) {
        cr_expect_null(exchange_run(&x, API_ROUTE_ENCODE, body, n), "%zu bytes", n);
        cr_expect_eq(x.error.code, n ? API_CODE_INVALID_JSON : API_CODE_EMPTY_BODY, "%zu bytes: %s",
                     n, x.error.message);
    }
    json_decref(exchange_encode(&x, body));
    exchange_fini(&x);
}

/* Limits of memory and of the reply are the client's fault, and nothing is computed. */
Test(request, bounds_memory_and_reply)
{
    exchange x;
    exchange_init(&x, true);
    x.env.limits.max_reply_bytes = 1500;
    cr_expect(exchange_refused(&x, API_ROUTE_ENCODE,
                               "{\"tokens\":[1,2,3,4,5,6,7,8],\"pooling\":\"none\"}",
                               API_CODE_RESPONSE_TOO_LARGE, ""));
    cr_expect(x.error.has_limit && x.error.limit == 1500 && x.error.actual > 1500);
    cr_expect(exchange_refused(&x, API_ROUTE_ENCODE, "{\"tokens\":[1],\"statistics\":\"summary\"}",
                               API_CODE_RESPONSE_TOO_LARGE, ""));
    x.env.limits.max_reply_bytes = 1 << 20;
    x.env.limits.max_request_bytes = 64;
    cr_expect(
        exchange_refused(&x, API_ROUTE_ENCODE, "{\"tokens\":[1]}", API_CODE_TOO_MANY_ITEMS, ""));
    exchange_fini(&x);
}

Test(request, needs_a_tokenizer_for_texts)
{
    exchange x;
    exchange_init(&x, false);
    cr_expect(exchange_refused(&x, API_ROUTE_ENCODE, "{\"texts\":\"a\"}", API_CODE_NO_TOKENIZER,
                               "/texts"));
    cr_expect(exchange_refused(&x, API_ROUTE_OPENAI_EMBEDDINGS, "{\"input\":\"a\"}",
                               API_CODE_NO_TOKENIZER, "input"));
    exchange_fini(&x);
}
