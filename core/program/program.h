/* The compiled encoder: a flat list of ops over numbered buffers, and one block of packed weights.
 *
 * A buffer is a matrix with one row a token; its number is given once and never written twice,
 * apart from the plan's decision to let two buffers share memory. */
#ifndef LAM_PROGRAM_PROGRAM_H
#define LAM_PROGRAM_PROGRAM_H

#include "core/base/block.h"
#include "core/lamina.h"
#include "core/model/hparams.h"
#include "core/model/weights.h"

typedef uint16_t lam_buf;
enum { LAM_BUF_NONE = 0xffff };

typedef struct lam_buf_info {
    size_t width;       /* columns */
    size_t row_offset;  /* plan: where it stands in a row of the arena, in floats */
    size_t first, last; /* plan: the op that writes it, the last op that reads it */
} lam_buf_info;

#define LAM_OP_MAP(X)                                                                     \
    X(EMBED, "embed")         /* out = sum of table rows of the batch's ids */            \
    X(NORM, "norm")           /* out = norm(in) */                                        \
    X(LINEAR, "linear")       /* out = act(in W + b) + scale * residual */                \
    X(ATTENTION, "attention") /* out = softmax attention of in = [query | key | value] */ \
    X(ADD, "add")             /* out = in + scale * other */                              \
    X(ACTIVATE, "activate")   /* out = act(in) */                                         \
    X(TAP, "tap")             /* statistics of in; computes nothing */                    \
    X(MEASURE, "measure")     /* level full of in, and other; computes nothing */         \
    X(STATE, "state")         /* in is the state after `index` layers: vectors may be taken here */
#define LAM_ENUM_ROW_OP(name, text) LAM_OP_##name,
typedef enum lam_op_kind { LAM_OP_MAP(LAM_ENUM_ROW_OP) LAM_OP_COUNT } lam_op_kind;

const char *lam_op_name(lam_op_kind kind);

/* What a MEASURE op looks at. */
#define LAM_MEASURE_MAP(X)                                                                \
    X(ATTENTION, "attention rows")          /* x = [query | key | value] */               \
    X(ATTENTION_BRANCH, "attention branch") /* x = what is added to scale * y */          \
    X(FFN_BRANCH, "ffn branch")             /* the same */                                \
    X(ACTIVATION, "activation input")       /* x = what enters the activation */          \
    X(POPULATION, "population")             /* x = the input of the norm behind the op */ \
    X(LAYER, "layer")                       /* x = the layer's input, y = its output */
#define LAM_ENUM_ROW_MEASURE(name, text) LAM_MEASURE_##name,
typedef enum lam_measure { LAM_MEASURE_MAP(LAM_ENUM_ROW_MEASURE) LAM_MEASURE_COUNT } lam_measure;

enum { LAM_LINEAR_PARTS = 3 };

/* A weight by its place in the block, in floats; with LAM_REF_FOLDED in the block of folded
 * weights.
 */
typedef size_t lam_ref;
#define LAM_REF_FOLDED ((lam_ref)1 << 62)

typedef struct lam_attention_op {
    lam_attention shape;
    bool biased;  /* by the distance of two tokens in the row as sent */
    lam_ref bias; /* [heads, 2 * bias_span + 1]; all layers read the same */
    size_t bias_span;
} lam_attention_op;

typedef struct lam_op {
    lam_op_kind kind;
    size_t layer;  /* LAM_LAYER_NONE outside the layers */
    lam_site site; /* what its result (TAP: its input) is called; LAM_SITE_COUNT: nothing */
    size_t slot;   /* of its statistics; LAM_SLOT_NONE: it has no site */
    lam_buf in, out;
    union {
        struct {
            lam_ref word, position, type;
            bool has_positions, has_types;
        } embed;
        struct {
            lam_module module;
            size_t index; /* of the norm among all, in order of computation */
            lam_norm_spec spec;
            /* In the block: gain and bias as lam_norm_params has them; for kinds with statistics
             * MEAN (zeros for those without one) and SQUARE as stored, if has_running; and
             * FACTOR, ALPHA and SHIFT, one float each, where the kind has them. */
            lam_ref tensors[LAM_NORM_TENSOR_COUNT];
            lam_ref scale;    /* gain / d(square), if has_running */
            bool has_running; /* the checkpoint has the running tensors */
        } norm;
        struct {                                /* the site is the result without the residual */
            lam_module parts[LAM_LINEAR_PARTS]; /* matrices side by side: query, key, value */
            size_t part_count;
            size_t part_width; /* outputs of each */
            size_t inputs;
            lam_ref weight, bias;
            bool shared; /* with an op before it, which has packed them */
            lam_activation activation;
            lam_buf residual; /* or LAM_BUF_NONE */
            float residual_scale;
        } linear;
        lam_attention_op attention;
        struct {
            lam_buf other;
            float scale;
        } add;
        lam_activation activation;
        struct {
            lam_measure what;
            lam_buf other; /* or LAM_BUF_NONE */
            float scale;
            lam_attention_op attention;
            lam_site site; /* POPULATION: of the norm, */
            size_t index;  /* among the POPULATION ops, */
            lam_norm_spec norm;
            size_t norm_index;    /* of the norm among all, */
            bool has_running;     /* the checkpoint's */
            lam_ref mean, square; /* are there (else there may be a profile), or */
            lam_ref alpha, shift; /* how it squashes */
        } measure;
        size_t state_index;
    } u;
} lam_op;

enum { LAM_SLOT_NONE = 0xffff };

/* The lists of a model. What runs, and the same with MEASURE ops and nothing fused, which runs
 * where a request of the batch wants level full: both give each row the same bits. And, if norms
 * were folded into weights, a list without them: it gives the vectors, and the others the
 * statistics. */
typedef struct lam_program {
    lam_op *ops;
    size_t op_count;
    lam_buf_info *bufs;
    size_t buf_count;
    size_t row_floats;  /* plan: floats of the arena per row */
    size_t tap_width;   /* plan: widest result that a tap needs apart from its residual */
    size_t last_linear; /* plan: index of the last LINEAR op */
    size_t slot_count;
    size_t population_count;
    size_t *slot_widths; /* [slot_count] */
    uint16_t
        *slots; /* [(layers + 1) * LAM_SITE_COUNT]: the slot of each site, see lam_program_slot */
    size_t norm_count;
    bool any_batch; /* some norm runs on statistics of the batch unless a request says otherwise */
    bool any_ddof;  /* some norm divides a variance by N - 1 */
    size_t block_floats;
    size_t parameters;            /* values in the tensors that were packed */
    lam_block block;              /* packed weights; read-only after packing */
    struct lam_program *measured; /* its ops and bufs only; weights and slots are the same */
    struct lam_program *folded;   /* or NULL. Its ops and bufs, and: */
    bool *states;                 /* of the folded list: [layers + 1] whether it holds that state */
    lam_block folded_block;       /* weights that only the folded list reads */
    lam_fold_view *folds;         /* [fold_count] */
    size_t fold_count;
} lam_program;

/* The slot that holds the statistics of a site, or LAM_SLOT_NONE. Sites that are one tensor share a
 * slot. */
size_t lam_program_slot(const lam_program *p, size_t layers, size_t layer, lam_site site);

static inline const float *lam_program_weight(const lam_program *p, lam_ref ref)
{
    const lam_block *b = ref & LAM_REF_FOLDED ? &p->folded_block : &p->block;
    return (const float *)b->data + (ref & ~LAM_REF_FOLDED);
}

/* For showing what was compiled; lives as long as the model. */
const lam_program *lam_model_program(const lam_model *m);
const lam_hparams *lam_model_hparams(const lam_model *m);
const lam_kernels *lam_model_kernels(const lam_model *m);

#endif
