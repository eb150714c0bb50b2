/* A tokenizer as a file describes it, checked for shape only: what an importer fills in and
 * lam__tokenizer_build turns into a lam_tokenizer. Everything is borrowed until that call returns.
 * A new kind of normalizer, pre-tokenizer or model is one row in its list, one struct in its union,
 * one function in its table and one reader in core/import. */
#ifndef LAM_TOKENIZER_SPEC_H
#define LAM_TOKENIZER_SPEC_H

#include "core/tokenizer/tokenizer.h"

#define LAM__ENUM_ROW_NORM(name, text)   LAM__NORM_##name,
#define LAM__ENUM_ROW_PRETOK(name, text) LAM__PRETOK_##name,
#define LAM__ENUM_ROW_MODEL(name, text)  LAM__MODEL_##name,
#define LAM__ENUM_ROW_SPLIT(name, text)  LAM__SPLIT_##name,

#define LAM__NORM_MAP(X)             \
    X(BERT, "BertNormalizer")        \
    X(LOWERCASE, "Lowercase")        \
    X(NFD, "NFD")                    \
    X(STRIP_ACCENTS, "StripAccents") \
    X(STRIP, "Strip")                \
    X(PREPEND, "Prepend")
typedef enum lam__norm_kind { LAM__NORM_MAP(LAM__ENUM_ROW_NORM) LAM__NORM_COUNT } lam__norm_kind;

typedef struct lam__bytes {
    const char *text;
    size_t n;
} lam__bytes;

/* One step; a Sequence is several. */
typedef struct lam__norm_spec {
    lam__norm_kind kind;
    union {
        struct {
            bool clean_text, handle_chinese_chars, strip_accents, lowercase;
        } bert;
        struct {
            bool left, right;
        } strip;
        lam__bytes prepend;
    } as;
} lam__norm_spec;

#define LAM__PRETOK_MAP(X)                 \
    X(BERT, "BertPreTokenizer")            \
    X(WHITESPACE_SPLIT, "WhitespaceSplit") \
    X(WHITESPACE, "Whitespace")            \
    X(PUNCTUATION, "Punctuation")          \
    X(DIGITS, "Digits")
typedef enum lam__pretok_kind {
    LAM__PRETOK_MAP(LAM__ENUM_ROW_PRETOK) LAM__PRETOK_COUNT
} lam__pretok_kind;

/* What becomes of the characters that match. */
#define LAM__SPLIT_MAP(X)                         \
    X(REMOVED, "Removed")                         \
    X(ISOLATED, "Isolated")                       \
    X(MERGED_WITH_PREVIOUS, "MergedWithPrevious") \
    X(MERGED_WITH_NEXT, "MergedWithNext")         \
    X(CONTIGUOUS, "Contiguous")
typedef enum lam__split { LAM__SPLIT_MAP(LAM__ENUM_ROW_SPLIT) LAM__SPLIT_COUNT } lam__split;

typedef struct lam__pretok_spec {
    lam__pretok_kind kind;
    lam__split behavior; /* PUNCTUATION and DIGITS */
} lam__pretok_spec;

#define LAM__MODEL_MAP(X) X(WORDPIECE, "WordPiece")
typedef enum lam__model_kind {
    LAM__MODEL_MAP(LAM__ENUM_ROW_MODEL) LAM__MODEL_COUNT
} lam__model_kind;

typedef struct lam__piece {
    lam__bytes text;
    int32_t id;
} lam__piece;

typedef struct lam__added_spec {
    lam__bytes text;
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
} lam__added_spec;

typedef enum lam__template_kind {
    LAM__TEMPLATE_FIRST,  /* the text */
    LAM__TEMPLATE_SECOND, /* the second text */
    LAM__TEMPLATE_SPECIAL
} lam__template_kind;

typedef struct lam__template_item {
    lam__template_kind kind;
    int32_t id;      /* of a SPECIAL */
    int32_t type_id; /* of its tokens */
} lam__template_item;

typedef struct lam__template_spec {
    const lam__template_item *items;
    size_t count;
} lam__template_spec;

typedef struct lam__tokenizer_spec {
    const char *file; /* for messages: "tokenizer.json" */
    const lam__norm_spec *norms;
    size_t norm_count;
    const lam__pretok_spec *pretoks;
    size_t pretok_count;
    lam__model_kind model;
    const lam__piece *pieces;
    size_t piece_count;
    struct {
        lam__bytes unk_token;
        lam__bytes prefix; /* of pieces that continue a word */
        size_t max_chars;  /* longer words are unknown */
    } wordpiece;
    const lam__added_spec *added;
    size_t added_count;
    /* [0] as the reference does with its specials, [1] without them: only the texts and their
     * types. */
    lam__template_spec single[2], pair[2];
} lam__tokenizer_spec;

/* Checks everything and builds; nothing is left behind on failure. Statuses: LAM_E_FORMAT,
 * LAM_E_UNSUPPORTED, LAM_E_LIMIT, LAM_E_NOMEM; err->where is "file: key". */
lam_status lam__tokenizer_build(lam_tokenizer **out, const lam__tokenizer_spec *spec, lam_err *err);

#endif
