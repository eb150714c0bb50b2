/* What the readers of tokenizer.json and vocab.txt share. Internal to core/import. */
#ifndef LAM_IMPORT_TOKENIZER_SPEC_H
#define LAM_IMPORT_TOKENIZER_SPEC_H

#include "core/import/json.h"
#include "core/tokenizer/spec.h"

/* A description being read. Everything it points to lives in `arena` or in the file's own tree. */
typedef struct lam_tokenizer_reader {
    lam__tokenizer_spec spec;
    lam_arena arena;
    const lam_dir *dir;
} lam_tokenizer_reader;

/* Both fill r->spec and build; the caller frees r->arena. `name` is a file of r->dir. */
lam_status lam_tokenizer_json_read(lam_tokenizer **out, lam_tokenizer_reader *r, const char *name,
                                   lam_err *err);
lam_status lam_vocab_txt_read(lam_tokenizer **out, lam_tokenizer_reader *r, const char *name,
                              lam_err *err);

/* [CLS] A [SEP] and [CLS] A [SEP] B [SEP], the second text of type 1, into spec. */
lam_status lam_tokenizer_bert_template(lam_tokenizer_reader *r, int32_t cls, int32_t sep,
                                       lam_err *err);

/* spec->single[1] and pair[1]: the templates without their special tokens. */
lam_status lam_tokenizer_plain_templates(lam_tokenizer_reader *r, lam_err *err);

#endif
