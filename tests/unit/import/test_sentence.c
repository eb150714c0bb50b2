#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/import/sentence_transformers.h"

#define TRANSFORMER "{\"type\":\"sentence_transformers.models.Transformer\",\"path\":\"\"}"
#define POOLING     "{\"type\":\"a.b.Pooling\",\"path\":\"1_Pooling\"}"
#define NORMALIZE   "{\"type\":\"Normalize\",\"path\":\"2_Normalize\"}"
#define USUAL       "[" TRANSFORMER "," POOLING "," NORMALIZE "]"

enum { MODULES, POOLING_FILE, SENTENCE, TOKENIZER, PROMPTS, FILES };
static const char *const file_names[FILES] = {"modules.json", "1_Pooling/config.json",
                                              "sentence_bert_config.json", "tokenizer_config.json",
                                              "config_sentence_transformers.json"};

/* Files of a directory (NULL: absent; the pooling's is there unless stated), and what is read from
 * them. */
static const struct {
    const char *files[FILES];
    const char *named; /* by the refusal; NULL: accepted */
    size_t max_input_length;
    size_t prompts;
    bool normalize;
} directories[] = {
    {{USUAL}, NULL, 0, 0, true},
    {{"[" TRANSFORMER "," POOLING "]"}, NULL, 0, 0, false},
    {{NULL}, NULL, 0, 0, false},
    {{USUAL, NULL, "{\"max_seq_length\":25}", "{\"model_max_length\":30}"}, NULL, 25, 0, true},
    {{USUAL, NULL, "{\"max_seq_length\":256}"}, NULL, 64, 0, true},
    {{USUAL, NULL, "{\"max_seq_length\":null}", "{\"model_max_length\":30}"}, NULL, 30, 0, true},
    {{USUAL, NULL, "{}", "{\"model_max_length\":1000000000000000019884624838656}"},
     NULL,
     64,
     0,
     true},
    {{USUAL, NULL, "{\"max_seq_length\":0}"}, "max_seq_length", 0, 0, false},
    {{USUAL, NULL, "{\"max_seq_length\":\"9\"}"}, "max_seq_length", 0, 0, false},
    {{USUAL, NULL, NULL, "{\"model_max_length\":-1}"}, "model_max_length", 0, 0, false},
    {{USUAL, NULL, "{\"do_lower_case\":true}"}, "do_lower_case", 0, 0, false},
    {{USUAL, NULL, "{\"do_lower_case\":true}", "{\"do_lower_case\":true}"}, NULL, 0, 0, true},
    {{USUAL, NULL, "{\"transformer_task\":\"fill-mask\"}"}, "transformer_task", 0, 0, false},
    {{USUAL, NULL, NULL, NULL,
      "{\"prompts\":{\"q\":\"find: \",\"d\":\"\"},\"default_prompt_name\":\"q\"}"},
     NULL,
     0,
     2,
     true},
    {{USUAL, NULL, NULL, NULL, "{\"prompts\":{\"q\":\"\"},\"default_prompt_name\":\"x\"}"},
     "default_prompt_name",
     0,
     0,
     false},
    {{USUAL, NULL, NULL, NULL, "{\"prompts\":{\"q\":3}}"}, "prompts", 0, 0, false},
    {{USUAL, NULL, NULL, NULL, "{\"model_type\":\"SparseEncoder\"}"}, "SparseEncoder", 0, 0, false},
    {{USUAL, "{\"pooling_mode\":\"mean\",\"include_prompt\":false}", NULL, NULL,
      "{\"prompts\":{\"q\":\"\"}}"},
     NULL,
     0,
     1,
     true},
    {{USUAL, "{\"pooling_mode\":\"mean\",\"include_prompt\":false}", NULL, NULL,
      "{\"prompts\":{\"q\":\"a\"}}"},
     "include_prompt",
     0,
     0,
     false},
    {{"[]"}, "Pooling", 0, 0, false},
    {{"{}"}, "modules.json", 0, 0, false},
    {{"[1]"}, "modules.json", 0, 0, false},
    {{"[" TRANSFORMER "]"}, "Pooling", 0, 0, false},
    {{"[" TRANSFORMER "," NORMALIZE "," POOLING "]"}, "Normalize", 0, 0, false},
    {{"[" TRANSFORMER "," POOLING "," POOLING "]"}, "Pooling", 0, 0, false},
    {{"[" POOLING "," TRANSFORMER "]"}, "Pooling", 0, 0, false},
    {{"[" TRANSFORMER "," POOLING ",{\"type\":\"x.Dense\"}]"}, "Dense", 0, 0, false},
    {{"[" TRANSFORMER ",{\"type\":\"Pooling\",\"path\":\"../1_Pooling\"}]"},
     "outside",
     0,
     0,
     false},
    {{"[" TRANSFORMER ",{\"type\":\"Pooling\",\"path\":\"9_Pooling\"}]"}, "9_Pooling", 0, 0, false},
};

static void put(const lam_dir *d, const char *name, const char *text)
{
    unlinkat(d->fd, name, 0);
    if (text == NULL) return;
    const int fd = openat(d->fd, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static lam_status read_all(lam_sentence *s, const lam_dir *d, lam_err *err)
{
    static const lam_hparams h = {.width = 8, .positions = 64};
    const lam_warner quiet = {0};
    LAM_TRY(lam_sentence_modules(s, d, &quiet, err));
    return lam_sentence_read(s, d, d, &h, &quiet, err);
}

Test(sentence, directories)
{
    char path[] = P_tmpdir "/lamina-XXXXXX";
    lam_dir d;
    cr_assert_not_null(mkdtemp(path));
    cr_assert_eq(lam_dir_open(&d, path, NULL), LAM_OK);
    cr_assert_eq(mkdirat(d.fd, "1_Pooling", 0700), 0);
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        lam_sentence s;
        lam_err err = {0};
        for (int f = 0; f < FILES; f++)
            put(&d, file_names[f], directories[i].files[f]);
        if (directories[i].files[POOLING_FILE] == NULL)
            put(&d, file_names[POOLING_FILE], "{\"pooling_mode\":\"cls\"}");
        const lam_status status = read_all(&s, &d, &err);
        if (directories[i].named == NULL) {
            cr_expect(status == LAM_OK, "%zu: %s: %s", i, err.where, err.message);
            cr_expect(s.head.max_input_length == directories[i].max_input_length &&
                          s.prompt_count == directories[i].prompts &&
                          s.head.normalize == directories[i].normalize,
                      "%zu: %zu tokens, %zu prompts", i, s.head.max_input_length, s.prompt_count);
        } else {
            cr_expect(status != LAM_OK && (strstr(err.where, directories[i].named) ||
                                           strstr(err.message, directories[i].named)),
                      "%zu: %s: %s", i, err.where, err.message);
        }
        lam_sentence_free(&s);
    }
    for (int f = 0; f < FILES; f++)
        put(&d, file_names[f], NULL);
    unlinkat(d.fd, "1_Pooling", AT_REMOVEDIR);
    lam_dir_close(&d);
    rmdir(path);
}
