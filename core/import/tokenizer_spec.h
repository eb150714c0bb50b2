/* Readers of tokenizer files. Each fills a description that core/tokenizer checks and builds.
 * Internal to core/import. */
#ifndef LAM_IMPORT_TOKENIZER_SPEC_H
#define LAM_IMPORT_TOKENIZER_SPEC_H

#include "core/import/json.h"
#include "core/tokenizer/spec.h"

/* Vocabularies are the largest JSON files there are. */
enum { LAM_TOKENIZER_MAX_BYTES = 64 << 20 };

/* A description under construction: its strings lie in the file's text or tree, its arrays in the
 * arena. */
typedef struct lam_tokenizer_draft {
    lam__tokenizer_spec spec;
    lam_arena arena;
    lam_json json; /* tokenizer.json */
    char *text;    /* vocab.txt */
    lam_err *err;
} lam_tokenizer_draft;

/* Both leave the draft to be freed with lam_tokenizer_draft_free, on failure too. */
lam_status lam_tokenizer_read_json(lam_tokenizer_draft *d, const lam_dir *dir, const char *name);
lam_status lam_tokenizer_read_vocab(lam_tokenizer_draft *d, const lam_dir *dir, const char *name);

/* The same from memory, which may go once this returns. `name` is for messages. */
lam_status lam_tokenizer_parse_json(lam_tokenizer_draft *d, const char *text, size_t bytes,
                                    const char *name);

/* Parts of tokenizer.json. */
lam_status lam_tokenizer_read_norms(lam_tokenizer_draft *d, json_t *v);
lam_status lam_tokenizer_read_pretoks(lam_tokenizer_draft *d, json_t *v);
lam_status lam_tokenizer_read_post(lam_tokenizer_draft *d, json_t *v);

/* lam_fail with where = "file: key". */
lam_status lam_draft_fail(lam_tokenizer_draft *d, lam_status status, const char *key,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));

/* `"X" is not supported` at key.type, or that the type is missing. */
lam_status lam_draft_unsupported(lam_tokenizer_draft *d, const char *key, json_t *v);

/* Strict getters of an object that stands at `path`: a missing or ill-typed key is refused. */
lam_status lam_draft_bool(lam_tokenizer_draft *d, json_t *object, const char *path, const char *key,
                          bool *out);
lam_status lam_draft_string(lam_tokenizer_draft *d, json_t *object, const char *path,
                            const char *key, lam__bytes *out);
lam_status lam_draft_int(lam_tokenizer_draft *d, json_t *object, const char *path, const char *key,
                         int32_t min, int32_t *out);

/* Refuses keys that are not in the list, which NULL ends: they might change what the others mean.
 */
lam_status lam_draft_only_keys(lam_tokenizer_draft *d, json_t *object, const char *path,
                               const char *const *allowed);

/* Zeroed memory for count things. */
lam_status lam_draft_alloc(lam_tokenizer_draft *d, size_t count, size_t size, void **out);

void lam_tokenizer_draft_free(lam_tokenizer_draft *d);

#endif
