/* Lamina's engine: what api/ and server/ may use.
 *
 * A `lam_model` is immutable once open and shared by all threads. A `lam_ctx` is the scratch memory
 * of one thread. A call to lam_encode turns items (sequences of token ids) into vectors and, where
 * an item carries a `lam_stats`, fills it. Nothing is allocated inside lam_encode.
 *
 * Every fallible call returns a lam_status; results go to out-parameters, which are NULL or
 * untouched on failure. `lam_err *err` may always be NULL. Strings are UTF-8. Sizes are counts
 * unless a name says bytes. */
#ifndef LAM_LAMINA_H
#define LAM_LAMINA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/status.h"
#include "core/model/names.h"

/* ---- Opening a model ------------------------------------------------------------------------- */

typedef struct lam_model lam_model;

typedef struct lam_open_opts {
    lam_isa isa; /* highest instruction set to use; lam_open_opts_default: the best of this CPU */
    bool fuse;   /* fuse activation and residual into linears; off only to compare (same bits) */
    /* Opens another model on the same weights: a JSON object whose keys stand for those of "lamina"
     * in config.json; NULL for none. A norm without `kind` changes fields of the one that is there.
     */
    const char *with;
    unsigned folds; /* which folds may be taken: bits 1 << lam_fold */
    /* Told once for each oddity that is tolerated (ignored tensors, ...); may be NULL. */
    void (*warn)(void *arg, const char *sentence);
    void *warn_arg;
} lam_open_opts;

lam_open_opts lam_open_opts_default(void);

/* A named text that sentence-transformers puts in front of an input. */
typedef struct lam_prompt {
    const char *name;
    const char *text;
} lam_prompt;

typedef struct lam_model_info {
    const char *name;         /* last component of the path it came from */
    const char *family;       /* "bert" */
    const char *weight_dtype; /* dtype of the stored weights: "float32", "float16", "bfloat16" */
    size_t width;             /* D, hidden size */
    size_t layers;            /* L */
    size_t heads;             /* H */
    size_t ffn_width;         /* F */
    size_t vocab;             /* ids are 0..vocab-1 */
    size_t types;             /* token types are 0..types-1; 0: the model has none */
    size_t positions;         /* longest sequence of tokens, in tokens */
    size_t max_input_length;  /* longest text, in tokens, special tokens included; <= positions */
    lam_pool pool;            /* the model's own pooling */
    bool normalize;           /* whether the model's own modules scale to unit length */
    lam_isa isa;              /* kernels in use */
    size_t weight_bytes;      /* resident, packed; with those of the folded list */
    size_t folded_bytes;      /* of these, what the folded list has of its own */
    size_t parameters;
    const lam_prompt *prompts; /* [prompt_count] */
    size_t prompt_count;
    const char *default_prompt; /* name of one of them, or NULL */
} lam_model_info;

/* All pointers in it live as long as the model. */
const lam_model_info *lam_model_get_info(const lam_model *m);

/* True if the model has a tensor for that site in that layer (LAM_LAYER_NONE for embedding and
 * final). */
bool lam_model_has_site(const lam_model *m, size_t layer, lam_site site);

/* NULL if the model came without one. */
struct lam_tokenizer;
const struct lam_tokenizer *lam_model_tokenizer(const lam_model *m);

void lam_model_close(lam_model *m);

/* ---- Encoding -------------------------------------------------------------------------------- */

typedef struct lam_encode_opts {
    lam_pool pool;
    bool normalize;      /* scale each vector to unit length, after cutting it */
    size_t dimensions;   /* 1..D: the vector is cut to its first `dimensions` channels */
    size_t output_layer; /* 0 = embeddings, i = after layer i, L = the model's result */
    /* RUNNING or BATCH: asked of every norm whose kind has that source; NONE: as the model says */
    lam_norm_source statistics;
} lam_encode_opts;

/* The model's own pooling and scaling, full width, last layer. */
lam_encode_opts lam_encode_opts_default(const lam_model *m);

/* Refuses an override of `statistics` that no norm of the model takes, or that asks for tensors
 * which the checkpoint does not hold. LAM_E_INPUT. */
lam_status lam_encode_opts_check(const lam_model *m, const lam_encode_opts *opts, lam_err *err);

/* Whether an item's result depends on the other items of its request: some norm runs on the
 * statistics of the batch. The items of such a request share their `opts` (the same pointer), are
 * given to one call of lam_encode side by side and run together, apart from all others. */
bool lam_opts_batch_dependent(const lam_model *m, const lam_encode_opts *opts);

/* For a request of such: whether its rows can be measured together. LAM_E_LIMIT: more than max_rows
 * of the context. LAM_E_INPUT: a variance divided by N - 1 has a single row. */
lam_status lam_request_check(const lam_model *m, const lam_encode_opts *opts, size_t rows,
                             size_t max_rows, lam_err *err);

/* A norm of the model, for showing. */
typedef struct lam_norm_view {
    size_t layer; /* LAM_LAYER_NONE outside the layers */
    lam_site site;
    const char *kind;
    lam_norm_source source;
    const char *verdict; /* what a row depends on: "independent", "length" or "batch" */
    bool has_running;    /* the checkpoint holds its running statistics */
} lam_norm_view;

/* The norms in order of computation. False from index == their number on. */
bool lam_model_norm(const lam_model *m, size_t index, lam_norm_view *out);

/* What became of a norm when the model was compiled. */
typedef struct lam_fold_view {
    lam_fold fold; /* the one that fits where the norm stands */
    size_t layer;  /* of the norm, LAM_LAYER_NONE outside the layers */
    lam_site site;
    const char *kind;
    bool taken;
    const char *reason; /* static: why not, or what was done */
    /* NaN where there is no such number. The smallest factor that this fold divides by, and the
     * largest distance of a running mean from 0, in deviations. */
    double min_factor, max_offset;
} lam_fold_view;

/* The folds that were thought of. False from index == their number on. */
bool lam_model_fold(const lam_model *m, size_t index, lam_fold_view *out);

typedef struct lam_stats lam_stats;

/* One sequence. The caller owns every pointer. */
typedef struct lam_item {
    /* in */
    const int32_t *ids;   /* [tokens], as sent */
    const int32_t *types; /* [tokens], or NULL for all 0 */
    const uint8_t *mask;  /* [tokens] of 0 and 1, or NULL for all 1; rows of 0 are never computed */
    size_t tokens;
    const lam_encode_opts *opts; /* shared by the items of a request */
    lam_stats *stats; /* the request's, or NULL. Items that share one must be given in order */
    size_t index;     /* of the item in its request: where stats keeps its per-item numbers */
    float *out;       /* [dimensions], or [rows, dimensions] for pooling none */
    float *states; /* [layers + 1, rows, D]: the state of every output_layer, not folded; or NULL */
    /* set by lam_item_check */
    size_t rows; /* tokens that are not masked */
    /* out, set by lam_encode */
    lam_status status;   /* LAM_OK, LAM_E_NON_FINITE or LAM_E_ZERO_NORM */
    lam_site fault_site; /* where the first non-finite value stood */
    size_t fault_layer;  /* its layer or LAM_LAYER_NONE */
} lam_item;

/* Validates ids, types, mask and length against the model and sets item->rows. On failure *at (may
 * be NULL) is the index of the token to blame. Statuses: LAM_E_EMPTY, LAM_E_TOO_LONG,
 * LAM_E_ID_RANGE, LAM_E_TYPE_RANGE, LAM_E_MASK; LAM_E_INPUT: too few tokens for a norm that divides
 * a variance by N - 1. */
lam_status lam_item_check(const lam_model *m, lam_item *item, size_t *at, lam_err *err);

/* How a caller follows a call of lam_encode, on its thread. */
typedef struct lam_stop {
    bool (*asked)(void *arg); /* between ops; true abandons the call with LAM_E_CANCELLED */
    void *arg;
    /* Told once, before the last matrix product of the call: its results are about to be there. Not
     * told where the vectors are of an earlier layer. May be NULL. */
    void (*ending)(void *arg);
} lam_stop;

typedef struct lam_ctx lam_ctx;

/* Bytes that lam_ctx_new will take for batches of up to max_rows rows; max_rows >= info.positions.
 */
lam_status lam_ctx_bytes(const lam_model *m, size_t max_rows, size_t *bytes, lam_err *err);

/* Makes scratch for one thread. Borrows `m`, which must outlive it. */
lam_status lam_ctx_new(lam_ctx **out, const lam_model *m, size_t max_rows, lam_err *err);
void lam_ctx_free(lam_ctx *ctx);

/* Encodes items that passed lam_item_check. Whole items are packed up to max_rows rows at a time,
 * in the order given; an item's bits do not depend on its neighbours, but for requests that are
 * batch dependent: those must have passed lam_request_check. Returns LAM_OK even where
 * single items failed (item->status), or LAM_E_CANCELLED. `stop` may be NULL. Does not allocate. */
lam_status lam_encode(lam_ctx *ctx, lam_item *items, size_t count, const lam_stop *stop);

/* ---- Statistics ------------------------------------------------------------------------------ */

typedef struct lam_stats_opts {
    lam_stats_level level; /* not LAM_STATS_NONE */
    const bool *layers;    /* [L] which layers, or NULL for all */
    const bool *sites;     /* [LAM_SITE_COUNT] which sites, or NULL for all that exist */
    size_t per_item;       /* number of items whose own numbers are kept, 0 for none */
    /* Level full: */
    size_t max_rows;     /* what the rows of all items add up to, at most */
    bool skip_attention; /* without entropy and sink, which take a pass of their own */
} lam_stats_opts;

/* Bytes that lam_stats_new will take from the arena. */
lam_status lam_stats_bytes(const lam_model *m, const lam_stats_opts *o, size_t *bytes,
                           lam_err *err);

/* One request's accumulators, from the request's arena, which frees them. Touched by one thread at
 * a time. */
lam_status lam_stats_new(lam_stats **out, lam_arena *arena, const lam_model *m,
                         const lam_stats_opts *o, lam_err *err);

enum { LAM_STATS_CHANNELS = 5 };

/* docs/NUMERICS.md defines each; numbers that do not exist are NaN (a site without finite values, a
 * kurtosis of a constant). */
typedef struct lam_site_stats {
    uint64_t tokens;
    uint64_t nonfinite;
    double mean, variance, rms, min, max, kurtosis;
    size_t channel_count; /* of `channels`, largest rms first */
    struct {
        size_t index;
        double rms;
    } channels[LAM_STATS_CHANNELS];
} lam_site_stats;

/* False if that site was not collected. `layer` is LAM_LAYER_NONE for embedding and final. */
bool lam_stats_read(const lam_stats *s, size_t layer, lam_site site, lam_site_stats *out);
bool lam_stats_read_item(const lam_stats *s, size_t item, size_t layer, lam_site site,
                         lam_site_stats *out);

/* What level full adds to a layer; NaN as above. */
typedef struct lam_layer_stats {
    double values[LAM_LAYER_VALUE_COUNT];
    size_t heads;
    const double *head_values[LAM_HEAD_VALUE_COUNT]; /* [heads] each, until the next read */
} lam_layer_stats;

/* False if that layer was not collected. Of the whole request only once all its items have run, by
 * one thread at a time: the participation ratio is computed here. */
bool lam_stats_read_layer(const lam_stats *s, size_t layer, lam_layer_stats *out);
bool lam_stats_read_item_layer(const lam_stats *s, size_t item, size_t layer, lam_layer_stats *out);

/* What level full adds to the sites of some norms, by what it says of their input: the distance of
 * the request's mean and variance, or mean square, from what is stored; or, for a norm that
 * squashes, how much of it is squashed. Values of the other forms are NaN. */
typedef enum lam_population_form {
    LAM_POPULATION_OF_MEAN_AND_VARIANCE,
    LAM_POPULATION_OF_MEAN_SQUARE,
    LAM_POPULATION_OF_SQUASHED,
} lam_population_form;

typedef struct lam_population_stats {
    lam_population_form form;
    double values[LAM_POPULATION_VALUE_COUNT];
} lam_population_stats;

/* False if that site was not collected or its norm is none of those. */
bool lam_stats_read_population(const lam_stats *s, size_t layer, lam_site site,
                               lam_population_stats *out);
bool lam_stats_read_item_population(const lam_stats *s, size_t item, size_t layer, lam_site site,
                                    lam_population_stats *out);

/* ---- Population statistics -------------------------------------------------------------------
 *
 * What norms normalize, channel by channel, over many requests: for kinds with running tensors what
 * those are of (group-scaled where the kind says so), for all others the norm's input. Norms are
 * numbered in order of computation, 0 to lam_model_norm_site's end. */

typedef struct lam_norm_site_view {
    size_t layer; /* LAM_LAYER_NONE outside the layers */
    lam_site site;
    const char *kind;
    size_t width;
    bool measured;      /* all but kind none */
    bool running;       /* it can run on running tensors, and does or may be asked to */
    bool has_running;   /* the checkpoint holds them */
    bool has_profile;   /* the model came with mean and variance of its input */
    bool second_moment; /* they are a mean square around 0 alone */
} lam_norm_site_view;

/* False from norm == their number on. */
bool lam_model_norm_site(const lam_model *m, size_t norm, lam_norm_site_view *out);

/* Accumulators of every norm of a model; used by one thread at a time. Borrows the model. */
typedef struct lam_norm_inputs lam_norm_inputs;
enum { LAM_NORM_ALL = 0xffff };

lam_status lam_norm_inputs_new(lam_norm_inputs **out, const lam_model *m, lam_err *err);
void lam_norm_inputs_free(lam_norm_inputs *p);
void lam_norm_inputs_clear(lam_norm_inputs *p);

/* Bytes that one of a model takes, about. */
size_t lam_norm_inputs_bytes(const lam_model *m);

/* Measures that norm alone: encoding then stops in front of it, and items get no vectors.
 * LAM_NORM_ALL is what a new one does. */
void lam_norm_inputs_only(lam_norm_inputs *p, size_t norm);

/* Whether all sums are numbers. */
bool lam_norm_inputs_finite(const lam_norm_inputs *p);

/* Takes in another's rows. The same bits for the same order of merges. */
void lam_norm_inputs_merge(lam_norm_inputs *p, const lam_norm_inputs *from);

/* The same where `from` is one of several batches that count alike, whatever their rows: the means
 * are averaged, and the variances. */
void lam_norm_inputs_merge_batch(lam_norm_inputs *p, const lam_norm_inputs *from);

typedef struct lam_norm_inputs_view {
    uint64_t rows;         /* or batches */
    const double *mean;    /* [width]; 0 for a second moment */
    const double *squares; /* [width] sums of squared distances from it: divide by rows */
} lam_norm_inputs_view;

bool lam_norm_inputs_read(const lam_norm_inputs *p, size_t norm, lam_norm_inputs_view *out);
void lam_norm_inputs_write(lam_norm_inputs *p, size_t norm, const lam_norm_inputs_view *v);

/* Running tensors in place of those of the model; read-only while contexts run on them. A new one
 * has none of its own, and makes every site that holds running tensors run on them. */
typedef struct lam_norm_values lam_norm_values;
lam_status lam_norm_values_new(lam_norm_values **out, const lam_model *m, lam_err *err);
void lam_norm_values_free(lam_norm_values *v);

/* Copies mean (NULL: zeros) and variance or mean square [width]. */
lam_status lam_norm_values_set(lam_norm_values *v, size_t norm, const float *mean,
                               const float *square, lam_err *err);

/* From the next call on, lam_encode adds the rows of all items to `p`, in their order, and runs on
 * `v`. Either may be NULL. */
void lam_ctx_measure(lam_ctx *ctx, lam_norm_inputs *p, const lam_norm_values *v);
bool lam_ctx_measures(const lam_ctx *ctx);

/* How far stored statistics are from measured ones (docs/NUMERICS.md).
 * Of mean (not read for a second moment) and square [width]; where square is NULL of the running
 * tensors or the profile of the model. False: nothing is stored for that norm, or nothing was
 * measured. */
bool lam_norm_inputs_distance(const lam_norm_inputs *p, size_t norm, const float *mean,
                              const float *square, lam_population_stats *out);

#endif
