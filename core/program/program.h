/* The compiled encoder: a flat list of ops over numbered buffers, and one block of packed weights. */
#ifndef LAM_PROGRAM_PROGRAM_H
#define LAM_PROGRAM_PROGRAM_H

#include "core/kernels/kernels.h"
#include "core/lamina.h"
#include "core/model/hparams.h"
#include "core/model/weights.h"

/* A matrix of rows by number; what it is stands in lam_program.bufs. */
typedef uint16_t lam_buf;
enum { LAM_BUF_NONE = 0xffff, LAM_MAX_BUFS = 64 };

typedef struct lam_buf_info {
    size_t width;        /* columns */
    size_t row_offset;   /* plan: floats of one row that stand before it in the arena's row */
    size_t first, last;  /* plan: first op that writes it, last op that reads it */
} lam_buf_info;

#define LAM_OP_MAP(X) X(EMBED, "embed") X(NORM, "norm") X(LINEAR, "linear") X(ATTENTION, "attention") \
    X(ADD, "add") X(ACTIVATE, "activate") X(STATE, "state")
#define LAM_ENUM_ROW_OP(name, text) LAM_OP_##name,
typedef enum lam_op_kind { LAM_OP_MAP(LAM_ENUM_ROW_OP) LAM_OP_COUNT } lam_op_kind;

enum { LAM_LINEAR_PARTS = 3 };

/* A weight by its place in lam_program.block, in floats. */
typedef size_t lam_ref;

typedef struct lam_op {
    lam_op_kind kind;
    size_t layer;  /* LAM_LAYER_NONE outside the layers */
    lam_site site; /* the tap on this op's result; LAM_SITE_COUNT: none */
    lam_buf in, out;
    union {
        struct {
            lam_ref word, position, type;
            bool has_type;
        } embed;
        struct {
            lam_module module;
            lam_norm_spec spec;
            lam_ref gain, bias;
        } norm;
        struct { /* out = act(in W + b) + scale * residual; the tap sees it without the residual */
            lam_module parts[LAM_LINEAR_PARTS]; /* matrices side by side: query, key, value */
            size_t part_count;
            size_t part_width; /* outputs of each */
            size_t inputs;
            lam_ref weight, bias;
            lam_activation activation;
            lam_buf residual; /* or LAM_BUF_NONE */
            float residual_scale;
        } linear;
        struct { /* in = [query | key | value] */
            size_t heads, head_width;
            float scale;
        } attention;
        struct { /* out = in + scale * other */
            lam_buf other;
            float scale;
        } add;
        struct {
            lam_activation activation;
        } activate;
        struct { /* in is the result after `index` layers: a request may take its vector here */
            size_t index;
        } state;
    } u;
} lam_op;

typedef struct lam_program {
    lam_op *ops;
    size_t op_count;
    lam_buf_info bufs[LAM_MAX_BUFS];
    size_t buf_count;
    size_t row_floats;  /* plan: floats of arena per row */
    size_t block_floats;
    float *block;       /* packed weights, 64-byte aligned; read-only after packing */
} lam_program;

#endif
