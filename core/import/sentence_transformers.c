#include "core/import/sentence_transformers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char modules_name[] = "modules.json";

/* Which modules were seen so far; each may come once, in this order. */
typedef enum module_stage {
    STAGE_NONE,
    STAGE_TRANSFORMER,
    STAGE_POOLING,
    STAGE_NORMALIZE
} module_stage;

static lam_status take_folder(const lam_json *j, const char *key, const char *path, char *out,
                              size_t bytes, lam_err *err)
{
    lam_quoted q;
    if (path[0] != '\0' && !lam_file_name_is_inside(path))
        return lam_fail_in(err, LAM_E_CONFIG, j->file, key,
                           "names a folder outside the directory: %s",
                           lam_quote(&q, path, strlen(path)));
    if (snprintf(out, bytes, "%s", path) >= (int)bytes)
        return lam_fail_in(err, LAM_E_CONFIG, j->file, key, "folder name is too long");
    return LAM_OK;
}

/* Types are paths of Python classes whose packages move between versions: the last part decides. */
static module_stage stage_of(const char *type)
{
    static const char *const names[] = {[STAGE_TRANSFORMER] = "Transformer",
                                        [STAGE_POOLING] = "Pooling",
                                        [STAGE_NORMALIZE] = "Normalize"};
    const char *dot = strrchr(type, '.');
    const char *last = dot != NULL ? dot + 1 : type;
    for (int i = STAGE_TRANSFORMER; i <= STAGE_NORMALIZE; i++)
        if (strcmp(last, names[i]) == 0) return (module_stage)i;
    return STAGE_NONE;
}

static lam_status take_module(lam_sentence *s, const lam_json *j, module_stage *stage, lam_err *err)
{
    const char *type = NULL, *path = "";
    lam_quoted q;
    LAM_TRY(lam_json_opt_string(j, "type", &type, err));
    LAM_TRY(lam_json_opt_string(j, "path", &path, err));
    if (type == NULL) return lam_json_fail(j, "type", err, "key is missing");
    lam_quote(&q, type, strlen(type));
    const module_stage next = stage_of(type);
    if (next == STAGE_NONE)
        return lam_fail_in(err, LAM_E_UNSUPPORTED, j->file, "type",
                           "module \"%s\" is not supported; Transformer, Pooling and Normalize are",
                           q.text);
    if (next <= *stage || (next != STAGE_TRANSFORMER && *stage == STAGE_NONE) ||
        (next == STAGE_NORMALIZE && *stage != STAGE_POOLING))
        return lam_fail_in(
            err, LAM_E_UNSUPPORTED, j->file, "type",
            "module \"%s\" stands out of order; Transformer, Pooling, Normalize is supported",
            q.text);
    *stage = next;
    if (next == STAGE_TRANSFORMER)
        return take_folder(j, "path", path, s->encoder, sizeof s->encoder, err);
    if (next == STAGE_POOLING)
        return take_folder(j, "path", path, s->pooling, sizeof s->pooling, err);
    s->head.normalize = true;
    return LAM_OK;
}

static lam_status take_modules(lam_sentence *s, const lam_json *file, lam_err *err)
{
    module_stage stage = STAGE_NONE;
    size_t i;
    json_t *module;
    json_array_foreach(file->root, i, module)
    {
        lam_json j = *file;
        j.object = module;
        if (!json_is_object(module))
            return lam_fail(err, LAM_E_CONFIG, file->file, "must be a list of objects");
        LAM_TRY(take_module(s, &j, &stage, err));
    }
    if (stage < STAGE_POOLING)
        return lam_fail_in(err, LAM_E_CONFIG, file->file, "Pooling",
                           "no Transformer followed by Pooling is listed");
    return LAM_OK;
}

lam_status lam_sentence_modules(lam_sentence *s, const lam_dir *d, const lam_warner *w,
                                lam_err *err)
{
    lam_json file;
    *s = (lam_sentence){.head = {.pool = LAM_POOL_MEAN}};
    if (lam_dir_has(d, modules_name)) {
        LAM_TRY(lam_json_read_array(&file, d, modules_name, err));
        const lam_status status = take_modules(s, &file, err);
        lam_json_free(&file);
        return status;
    }
    if (lam_dir_has(d, "1_Pooling")) {
        snprintf(s->pooling, sizeof s->pooling, "1_Pooling");
        lam_warn(
            w,
            "%s is missing: pooling is taken from 1_Pooling, vectors are not scaled to unit length",
            modules_name);
        return LAM_OK;
    }
    /* A bare encoder. Its files do not say how rows become a vector, and a request may: so it
     * loads, with the pooling that most models of this kind were trained for, and says so. */
    lam_warn(w,
             "%s and 1_Pooling are missing: pooling is \"mean\" unless a request says otherwise, "
             "and vectors are "
             "not scaled to unit length",
             modules_name);
    return LAM_OK;
}

/* ---- Pooling ----------------------------------------------------------------------------------
 */

static const struct {
    const char *flag, *mode; /* old key, new value */
    lam_pool pool;
} poolings[] = {
    {"pooling_mode_cls_token", "cls", LAM_POOL_CLS},
    {"pooling_mode_mean_tokens", "mean", LAM_POOL_MEAN},
    {"pooling_mode_max_tokens", "max", LAM_POOL_MAX},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", LAM_POOL_MEAN_SQRT_LEN},
    {"pooling_mode_weightedmean_tokens", "weightedmean", LAM_POOL_WEIGHTED},
    {"pooling_mode_lasttoken", "lasttoken", LAM_POOL_LAST},
};
enum { POOLINGS = sizeof poolings / sizeof *poolings };

/* Bits of `poolings`. */
static lam_status take_flags(unsigned *set, const lam_json *config, lam_err *err)
{
    static const char prefix[] = "pooling_mode_";
    const char *key;
    json_t *value;
    json_object_foreach(config->object, key, value)
    {
        int i = 0;
        lam_quoted q;
        if (strncmp(key, prefix, sizeof prefix - 1) != 0) continue;
        lam_quote(&q, key, strlen(key));
        if (!json_is_boolean(value))
            return lam_json_fail(config, q.text, err, "must be true or false");
        if (!json_is_true(value)) continue;
        while (i < POOLINGS && strcmp(key, poolings[i].flag) != 0)
            i++;
        if (i == POOLINGS) return lam_json_fail(config, q.text, err, "pooling is not supported");
        *set |= 1u << i;
    }
    return LAM_OK;
}

static lam_status take_mode(unsigned *set, const lam_json *config, const json_t *value,
                            lam_err *err)
{
    lam_quoted q;
    int i = 0;
    const char *mode = json_string_value(value);
    if (mode == NULL)
        return lam_json_fail(config, "pooling_mode", err, "must be a string or a list of strings");
    while (i < POOLINGS && strcmp(mode, poolings[i].mode) != 0)
        i++;
    if (i == POOLINGS)
        return lam_json_fail(config, "pooling_mode", err, "\"%s\" is not supported",
                             lam_quote(&q, mode, strlen(mode)));
    *set |= 1u << i;
    return LAM_OK;
}

static lam_status take_modes(unsigned *set, const lam_json *config, lam_err *err)
{
    const json_t *v = lam_json_get(config, "pooling_mode");
    size_t i;
    json_t *mode;
    if (v == NULL) return LAM_OK;
    if (!json_is_array(v)) return take_mode(set, config, v, err);
    json_array_foreach(v, i, mode)
    {
        LAM_TRY(take_mode(set, config, mode, err));
    }
    return LAM_OK;
}

static lam_status check_width(const lam_json *config, size_t width, lam_err *err)
{
    static const char *const keys[] = {"embedding_dimension", "word_embedding_dimension"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t n;
        if (lam_json_get(config, keys[i]) == NULL) continue;
        LAM_TRY(lam_json_size(config, keys[i], 1, LAM_MAX_WIDTH, &n, err));
        if (n != width)
            return lam_json_fail(config, keys[i], err,
                                 "is %zu, but hidden_size of config.json is %zu", n, width);
    }
    return LAM_OK;
}

lam_status lam_sentence_pooling(lam_pool *pool, bool *include_prompt, const lam_json *config,
                                size_t width, lam_err *err)
{
    unsigned flags = 0, modes = 0;
    *include_prompt = true;
    LAM_TRY(check_width(config, width, err));
    LAM_TRY(lam_json_opt_bool(config, "include_prompt", include_prompt, err));
    LAM_TRY(take_flags(&flags, config, err));
    LAM_TRY(take_modes(&modes, config, err));
    if (flags != 0 && modes != 0 && flags != modes)
        return lam_json_fail(config, "pooling_mode", err, "contradicts the keys pooling_mode_*");
    const unsigned set = flags | modes;
    if (set == 0) return lam_json_fail(config, "pooling_mode", err, "no pooling is chosen");
    if ((set & (set - 1)) != 0)
        return lam_fail_in(err, LAM_E_UNSUPPORTED, config->file, "pooling_mode",
                           "several poolings at once are not supported");
    *pool = poolings[__builtin_ctz(set)].pool;
    return LAM_OK;
}

/* ---- Prompts ----------------------------------------------------------------------------------
 */

static lam_status take_prompts(lam_sentence *s, lam_err *err)
{
    const lam_json *j = &s->prompt_file;
    json_t *prompts = lam_json_get(j, "prompts");
    const char *name;
    json_t *text;
    if (prompts == NULL) return LAM_OK;
    if (!json_is_object(prompts))
        return lam_json_fail(j, "prompts", err, "must be an object of names and texts");
    const size_t count = json_object_size(prompts);
    if (count > LAM_MAX_PROMPTS)
        return lam_json_fail(j, "prompts", err, "has more than %d prompts", (int)LAM_MAX_PROMPTS);
    if (count == 0) return LAM_OK;
    s->prompts = calloc(count, sizeof *s->prompts);
    if (s->prompts == NULL) return lam_fail(err, LAM_E_NOMEM, j->file, "out of memory");
    json_object_foreach(prompts, name, text)
    {
        lam_quoted q;
        if (!json_is_string(text))
            return lam_json_fail(j, "prompts", err, "the prompt \"%s\" must be a string",
                                 lam_quote(&q, name, strlen(name)));
        s->prompts[s->prompt_count++] = (lam_prompt){name, json_string_value(text)};
    }
    return LAM_OK;
}

static lam_status take_default_prompt(lam_sentence *s, lam_err *err)
{
    lam_quoted q;
    LAM_TRY(lam_json_opt_string(&s->prompt_file, "default_prompt_name", &s->default_prompt, err));
    if (s->default_prompt == NULL) return LAM_OK;
    for (size_t i = 0; i < s->prompt_count; i++)
        if (strcmp(s->prompts[i].name, s->default_prompt) == 0) return LAM_OK;
    return lam_json_fail(&s->prompt_file, "default_prompt_name", err,
                         "\"%s\" is not one of the prompts",
                         lam_quote(&q, s->default_prompt, strlen(s->default_prompt)));
}

static lam_status read_prompts(lam_sentence *s, const lam_dir *d, lam_err *err)
{
    static const char expected[] = "SentenceTransformer";
    const char *type = expected;
    lam_quoted q;
    LAM_TRY(lam_json_read_optional(&s->prompt_file, d, "config_sentence_transformers.json",
                                   LAM_JSON_INTEGERS, err));
    LAM_TRY(lam_json_opt_string(&s->prompt_file, "model_type", &type, err));
    if (strcmp(type, expected) != 0)
        return lam_fail_in(err, LAM_E_UNSUPPORTED, s->prompt_file.file, "model_type",
                           "\"%s\" is not supported; %s is", lam_quote(&q, type, strlen(type)),
                           expected);
    LAM_TRY(take_prompts(s, err));
    return take_default_prompt(s, err);
}

/* Leaving a prompt out of the pooling needs to know which rows are its own. */
static lam_status refuse_excluded_prompts(const lam_sentence *s, const char *file, lam_err *err)
{
    for (size_t i = 0; i < s->prompt_count; i++)
        if (s->prompts[i].text[0] != '\0')
            return lam_fail_in(err, LAM_E_UNSUPPORTED, file, "include_prompt",
                               "false is not supported for a model that has prompts");
    return LAM_OK;
}

static lam_status read_pooling(lam_sentence *s, const lam_dir *d, const lam_hparams *h,
                               lam_err *err)
{
    char name[sizeof s->pooling + 16];
    bool include_prompt;
    lam_json config;
    if (s->pooling[0] == '\0') return LAM_OK;
    snprintf(name, sizeof name, "%s/config.json", s->pooling);
    LAM_TRY(lam_json_read(&config, d, name, LAM_JSON_INTEGERS, err));
    lam_status status =
        lam_sentence_pooling(&s->head.pool, &include_prompt, &config, h->width, err);
    if (status == LAM_OK && !include_prompt) status = refuse_excluded_prompts(s, config.file, err);
    lam_json_free(&config);
    return status;
}

/* ---- Length of texts --------------------------------------------------------------------------
 */

/* "tokenizer_config.json": lengths there may be 1e30, spelled as integer, for "no limit". */
static lam_status take_model_max_length(const lam_json *tokenizer, size_t positions, size_t *out,
                                        lam_err *err)
{
    static const char key[] = "model_max_length";
    double length = 0.0;
    if (lam_json_get(tokenizer, key) == NULL) return LAM_OK;
    LAM_TRY(lam_json_opt_real(tokenizer, key, &length, err));
    if (!(length >= 1.0))
        return lam_json_fail(tokenizer, key, err, "must be at least 1, is %g", length);
    *out = length < (double)positions ? (size_t)length : positions;
    return LAM_OK;
}

static lam_status check_sentence_config(const lam_json *sentence, const lam_json *tokenizer,
                                        lam_err *err)
{
    static const char task_expected[] = "feature-extraction";
    const char *task = task_expected;
    bool lower = false, tokenizer_lowers = false;
    lam_quoted q;
    LAM_TRY(lam_json_opt_string(sentence, "transformer_task", &task, err));
    if (strcmp(task, task_expected) != 0)
        return lam_fail_in(err, LAM_E_UNSUPPORTED, sentence->file, "transformer_task",
                           "\"%s\" is not supported; %s is", lam_quote(&q, task, strlen(task)),
                           task_expected);
    LAM_TRY(lam_json_opt_bool(sentence, "do_lower_case", &lower, err));
    LAM_TRY(lam_json_opt_bool(tokenizer, "do_lower_case", &tokenizer_lowers, err));
    if (lower && !tokenizer_lowers)
        return lam_fail_in(err, LAM_E_UNSUPPORTED, sentence->file, "do_lower_case",
                           "true is not supported where the tokenizer keeps the case");
    return LAM_OK;
}

static lam_status take_lengths(lam_sentence *s, const lam_json *sentence, const lam_json *tokenizer,
                               size_t positions, const lam_warner *w, lam_err *err)
{
    static const char key[] = "max_seq_length";
    size_t length;
    LAM_TRY(check_sentence_config(sentence, tokenizer, err));
    if (lam_json_get(sentence, key) == NULL)
        return take_model_max_length(tokenizer, positions, &s->head.max_input_length, err);
    LAM_TRY(lam_json_size(sentence, key, 1, INT32_MAX, &length, err));
    if (length > positions)
        lam_warn(w, "%s: %s %zu is cut to the %zu positions of the model", sentence->file, key,
                 length, positions);
    s->head.max_input_length = length < positions ? length : positions;
    return LAM_OK;
}

static lam_status read_lengths(lam_sentence *s, const lam_dir *encoder, size_t positions,
                               const lam_warner *w, lam_err *err)
{
    lam_json sentence, tokenizer;
    LAM_TRY(lam_json_read_optional(&sentence, encoder, "sentence_bert_config.json",
                                   LAM_JSON_INTEGERS, err));
    lam_status status =
        lam_json_read_optional(&tokenizer, encoder, "tokenizer_config.json", LAM_JSON_REALS, err);
    if (status == LAM_OK) status = take_lengths(s, &sentence, &tokenizer, positions, w, err);
    lam_json_free(&sentence);
    lam_json_free(&tokenizer);
    return status;
}

lam_status lam_sentence_read(lam_sentence *s, const lam_dir *d, const lam_dir *encoder,
                             const lam_hparams *h, const lam_warner *w, lam_err *err)
{
    LAM_TRY(read_prompts(s, d, err));
    LAM_TRY(read_pooling(s, d, h, err));
    return read_lengths(s, encoder, h->positions, w, err);
}

void lam_sentence_free(lam_sentence *s)
{
    free(s->prompts);
    lam_json_free(&s->prompt_file);
    s->prompts = NULL;
    s->prompt_count = 0;
    s->default_prompt = NULL;
}
