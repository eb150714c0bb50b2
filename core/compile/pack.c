/* The checkpoint's tensors -> the block, in the layout that the kernels read. */
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/compile/passes.h"

typedef struct packer {
    lam_program *p;
    lam_weights *weights;
    const lam_hparams *h;
    float *matrix; /* one stored matrix before it is packed; room for the largest */
    lam_err *err;
} packer;

static float *at(const packer *k, lam_ref ref)
{
    return (float *)k->p->block.data + ref;
}

static lam_status read(packer *k, lam_module module, size_t layer, const char *name, size_t rank,
                       size_t rows, size_t columns, float *dst)
{
    const lam_param param = {module, layer, name, rank, {rows, columns}};
    if (lam_hparams_owns_weights(k->h, layer))
        k->p->parameters += rank == 2 ? rows * columns : rows;
    return k->weights->read(k->weights, &param, dst, k->err);
}

/* A table of rows at the stride of a buffer. It is read densely to its own place and spread from
 * the end, so that a large vocabulary needs no second copy. */
static lam_status pack_table(packer *k, lam_module module, size_t rows, size_t width, lam_ref ref)
{
    float *table = at(k, ref);
    const size_t stride = lam_row_stride(width);
    LAM_TRY(read(k, module, LAM_LAYER_NONE, "weight", 2, rows, width, table));
    if (stride == width) return LAM_OK;
    for (size_t r = rows; r-- > 0;) {
        memmove(table + r * stride, table + r * width, width * sizeof *table);
        memset(table + r * stride + width, 0, (stride - width) * sizeof *table);
    }
    return LAM_OK;
}

static lam_status pack_embed(packer *k, const lam_hparams *h, const lam_op *op)
{
    const size_t width = h->embedding_width;
    LAM_TRY(pack_table(k, LAM_MODULE_WORD_EMBEDDING, h->vocab, width, op->u.embed.word));
    if (op->u.embed.has_positions)
        LAM_TRY(pack_table(k, LAM_MODULE_POSITION_EMBEDDING, h->position_rows, width,
                           op->u.embed.position));
    if (!op->u.embed.has_types) return LAM_OK;
    return pack_table(k, LAM_MODULE_TYPE_EMBEDDING, h->types, width, op->u.embed.type);
}

/* One tensor of a norm: a vector over its channels, or one number. */
static lam_status read_norm(packer *k, const lam_op *op, lam_norm_tensor t, size_t count,
                            float *dst)
{
    return read(k, op->u.norm.module, op->layer, lam_norm_tensor_name(t), 1, count, 1, dst);
}

static lam_status pack_affine(packer *k, const lam_op *op, size_t width)
{
    const lam_norm_spec *spec = &op->u.norm.spec;
    float *gain = at(k, op->u.norm.tensors[LAM_NORM_TENSOR_GAIN]);
    float *bias = at(k, op->u.norm.tensors[LAM_NORM_TENSOR_BIAS]);
    for (size_t c = 0; c < width; c++)
        gain[c] = 1.0f, bias[c] = 0.0f;
    if (lam_norm_uses(spec, LAM_NORM_TENSOR_GAIN))
        LAM_TRY(read_norm(k, op, LAM_NORM_TENSOR_GAIN, width, gain));
    if (lam_norm_uses(spec, LAM_NORM_TENSOR_BIAS))
        LAM_TRY(read_norm(k, op, LAM_NORM_TENSOR_BIAS, width, bias));
    for (size_t c = 0; c < width && spec->unit_offset; c++)
        gain[c] += 1.0f;
    return LAM_OK;
}

/* A number that the checkpoint has, or the configuration. */
static lam_status pack_scalar(packer *k, const lam_op *op, lam_norm_tensor t, double given)
{
    float *dst = at(k, op->u.norm.tensors[t]);
    *dst = (float)given;
    return lam_norm_uses(&op->u.norm.spec, t) ? read_norm(k, op, t, 1, dst) : LAM_OK;
}

static lam_status pack_scalars(packer *k, const lam_op *op, size_t width)
{
    const lam_norm_spec *spec = &op->u.norm.spec;
    LAM_TRY(pack_scalar(k, op, LAM_NORM_TENSOR_ALPHA, spec->alpha));
    LAM_TRY(pack_scalar(k, op, LAM_NORM_TENSOR_SHIFT, spec->shift));
    LAM_TRY(pack_scalar(k, op, LAM_NORM_TENSOR_FACTOR, 1.0));
    /* One gain for all channels is the same product as a gain for each. */
    float *gain = at(k, op->u.norm.tensors[LAM_NORM_TENSOR_GAIN]);
    const float factor = *at(k, op->u.norm.tensors[LAM_NORM_TENSOR_FACTOR]);
    for (size_t c = 0; c < width && lam_norm_uses(spec, LAM_NORM_TENSOR_FACTOR); c++)
        gain[c] = factor;
    return LAM_OK;
}

/* What the checkpoint has is read, and so checked, even where it does not suffice to run on. */
static lam_status read_running(packer *k, const lam_op *op, lam_norm_tensor t, size_t width)
{
    const lam_norm_spec *spec = &op->u.norm.spec;
    if (!lam_norm_uses(spec, t)) return LAM_OK;
    if (!op->u.norm.has_running &&
        !k->weights->has(k->weights, op->u.norm.module, op->layer, lam_norm_tensor_name(t)))
        return LAM_OK;
    return read_norm(k, op, t, width, at(k, op->u.norm.tensors[t]));
}

static lam_status pack_running(packer *k, const lam_op *op, size_t width)
{
    LAM_TRY(read_running(k, op, LAM_NORM_TENSOR_MEAN, width));
    LAM_TRY(read_running(k, op, LAM_NORM_TENSOR_SQUARE, width));
    if (!op->u.norm.has_running) return LAM_OK;
    const float *gain = at(k, op->u.norm.tensors[LAM_NORM_TENSOR_GAIN]);
    const float *square = at(k, op->u.norm.tensors[LAM_NORM_TENSOR_SQUARE]);
    float *scale = at(k, op->u.norm.scale);
    for (size_t c = 0; c < width; c++)
        scale[c] =
            (float)((double)gain[c] / lam_norm_denominator(&op->u.norm.spec, (double)square[c]));
    return LAM_OK;
}

static lam_status pack_norm(packer *k, const lam_op *op)
{
    const size_t width = k->p->bufs[op->out].width;
    LAM_TRY(pack_affine(k, op, width));
    LAM_TRY(pack_scalars(k, op, width));
    if (!lam_norm_has_statistics(op->u.norm.spec.kind)) return LAM_OK;
    return pack_running(k, op, width);
}

static lam_status pack_linear(packer *k, const lam_op *op)
{
    const size_t width = op->u.linear.part_width, inputs = op->u.linear.inputs;
    for (size_t i = 0; i < op->u.linear.part_count && !op->u.linear.shared; i++) {
        const lam_module part = op->u.linear.parts[i];
        LAM_TRY(read(k, part, op->layer, "weight", 2, width, inputs, k->matrix));
        lam__pack_weight(k->matrix, width, inputs, i * width, at(k, op->u.linear.weight));
        if (k->h->without_biases) continue; /* zeros, as the block was mapped */
        LAM_TRY(
            read(k, part, op->layer, "bias", 1, width, 1, at(k, op->u.linear.bias) + i * width));
    }
    return LAM_OK;
}

/* One table for all layers: the first op that reads it packs it. */
static lam_status pack_bias(packer *k, const lam_op *op)
{
    const lam_hparams *h = k->h;
    LAM_TRY(read(k, LAM_MODULE_RELATIVE_BIAS, LAM_LAYER_NONE, "weight", 2, h->bias_rows, h->heads,
                 k->matrix));
    lam__spread_bias(k->matrix, h->heads, h->bias_buckets, h->bias_distance,
                     op->u.attention.bias_span, at(k, op->u.attention.bias));
    return LAM_OK;
}

static lam_status pack_ops(packer *k, const lam_hparams *h)
{
    for (size_t i = 0; i < k->p->op_count; i++) {
        const lam_op *op = &k->p->ops[i];
        if (op->kind == LAM_OP_EMBED) LAM_TRY(pack_embed(k, h, op));
        if (op->kind == LAM_OP_NORM) LAM_TRY(pack_norm(k, op));
        if (op->kind == LAM_OP_LINEAR) LAM_TRY(pack_linear(k, op));
        if (op->kind == LAM_OP_ATTENTION && op->u.attention.biased && op->layer == 0)
            LAM_TRY(pack_bias(k, op));
    }
    return LAM_OK;
}

static size_t largest_matrix(const lam_program *p, const lam_hparams *h)
{
    size_t largest = h->bias_rows * h->heads + 1;
    for (size_t i = 0; i < p->op_count; i++) {
        const lam_op *op = &p->ops[i];
        if (op->kind != LAM_OP_LINEAR) continue;
        const size_t floats = op->u.linear.part_width * op->u.linear.inputs;
        if (floats > largest) largest = floats;
    }
    return largest;
}

lam_status lam__pack(lam_program *p, const lam_hparams *h, lam_weights *w, lam_err *err)
{
    size_t bytes;
    if (!lam_mul_size(p->block_floats, sizeof(float), &bytes) || !lam_block_map(&p->block, bytes))
        return lam_fail(err, LAM_E_NOMEM, "weights", "%zu float32 values do not fit in memory",
                        p->block_floats);
    packer k = {.p = p, .weights = w, .h = h, .err = err};
    k.matrix = malloc(largest_matrix(p, h) * sizeof *k.matrix);
    if (!k.matrix) return lam_fail(err, LAM_E_NOMEM, "weights", "no memory to read a matrix");
    const lam_status status = pack_ops(&k, h);
    free(k.matrix);
    return status;
}
