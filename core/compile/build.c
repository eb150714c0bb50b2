/* hparams -> op list. One short function per part of the architecture. */
#include <math.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/compile/passes.h"

typedef struct builder {
    lam_program *p;
    const lam_hparams *h;
    lam_arena *arena;
    size_t op_capacity, buf_capacity;
    bool failed; /* out of memory, or the weights' size overflows; looked at once at the end */
} builder;

/* Room for one more element of an array in the arena; the old one is left behind, which costs at
 * most as much again. */
static void *grow(builder *b, void *array, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity) return array;
    const size_t wider = *capacity ? *capacity * 2 : 64;
    void *moved = lam_arena_calloc(b->arena, wider, size);
    if (!moved) {
        b->failed = true;
        return array;
    }
    if (count) memcpy(moved, array, count * size);
    *capacity = wider;
    return moved;
}

static lam_buf new_buf(builder *b, size_t width)
{
    lam_program *p = b->p;
    p->bufs = grow(b, p->bufs, p->buf_count, &b->buf_capacity, sizeof *p->bufs);
    if (b->failed || p->buf_count == LAM_BUF_NONE) {
        b->failed = true;
        return LAM_BUF_NONE;
    }
    p->bufs[p->buf_count] = (lam_buf_info){.width = width};
    return (lam_buf)p->buf_count++;
}

static void emit(builder *b, lam_op op)
{
    lam_program *p = b->p;
    p->ops = grow(b, p->ops, p->op_count, &b->op_capacity, sizeof *p->ops);
    if (b->failed) return;
    op.slot = LAM_SLOT_NONE;
    p->ops[p->op_count++] = op;
}

/* Places rows * columns floats of weights in the block, at a cache line's start. */
static lam_ref place(builder *b, size_t rows, size_t columns)
{
    lam_program *p = b->p;
    const lam_ref ref = p->block_floats;
    size_t floats;
    if (!lam_mul_size(rows, columns, &floats) || !lam_add_size(ref, floats, &floats) ||
        !lam_round_up_size(floats, 16, &floats)) {
        b->failed = true;
        return 0;
    }
    p->block_floats = floats;
    return ref;
}

static lam_buf norm(builder *b, size_t layer, lam_site site, lam_module module, lam_norm_spec spec,
                    lam_buf in)
{
    const size_t width = b->h->width;
    const lam_buf out = new_buf(b, width);
    lam_op op = {.kind = LAM_OP_NORM, .layer = layer, .site = site, .in = in, .out = out};
    op.u.norm.module = module;
    op.u.norm.spec = spec;
    for (size_t i = 0; i < lam_norm_get_info(spec.kind)->param_count; i++)
        op.u.norm.params[i] = place(b, 1, lam_row_stride(width));
    emit(b, op);
    return out;
}

/* Matrices that read the same input, side by side. */
static lam_buf linear(builder *b, size_t layer, lam_site site, const lam_module *parts,
                      size_t part_count, size_t part_width, size_t inputs, lam_buf in)
{
    const size_t outputs = part_count * part_width;
    const lam_buf out = new_buf(b, outputs);
    lam_op op = {.kind = LAM_OP_LINEAR, .layer = layer, .site = site, .in = in, .out = out};
    for (size_t i = 0; i < part_count; i++)
        op.u.linear.parts[i] = parts[i];
    op.u.linear.part_count = part_count;
    op.u.linear.part_width = part_width;
    op.u.linear.inputs = inputs;
    op.u.linear.weight = place(b, lam_row_stride(outputs), inputs);
    op.u.linear.bias = place(b, 1, lam_row_stride(outputs));
    op.u.linear.activation = LAM_ACTIVATION_IDENTITY;
    op.u.linear.residual = LAM_BUF_NONE;
    emit(b, op);
    return out;
}

static lam_buf add(builder *b, size_t layer, lam_buf in, lam_buf other)
{
    const lam_buf out = new_buf(b, b->h->width);
    lam_op op = {.kind = LAM_OP_ADD, .layer = layer, .site = LAM_SITE_COUNT, .in = in, .out = out};
    op.u.add.other = other;
    op.u.add.scale = 1.0f;
    emit(b, op);
    return out;
}

static void tap(builder *b, size_t layer, lam_site site, lam_buf in)
{
    emit(b,
         (lam_op){.kind = LAM_OP_TAP, .layer = layer, .site = site, .in = in, .out = LAM_BUF_NONE});
}

/* `other` may be LAM_BUF_NONE. */
static void measure(builder *b, size_t layer, lam_measure what, lam_buf in, lam_buf other)
{
    lam_op op = {.kind = LAM_OP_MEASURE,
                 .layer = layer,
                 .site = LAM_SITE_COUNT,
                 .in = in,
                 .out = LAM_BUF_NONE};
    op.u.measure.what = what;
    op.u.measure.other = other;
    op.u.measure.scale = 1.0f;
    emit(b, op);
}

static void state(builder *b, size_t index, lam_buf in)
{
    lam_op op = {.kind = LAM_OP_STATE,
                 .layer = LAM_LAYER_NONE,
                 .site = LAM_SITE_COUNT,
                 .in = in,
                 .out = LAM_BUF_NONE};
    op.u.state_index = index;
    emit(b, op);
}

static lam_buf embedding(builder *b)
{
    const lam_hparams *h = b->h;
    const size_t stride = lam_row_stride(h->width);
    const lam_buf sum = new_buf(b, h->width);
    lam_op op = {.kind = LAM_OP_EMBED,
                 .layer = LAM_LAYER_NONE,
                 .site = LAM_SITE_COUNT,
                 .in = LAM_BUF_NONE,
                 .out = sum};
    op.u.embed.word = place(b, h->vocab, stride);
    op.u.embed.position = place(b, h->position_rows, stride);
    op.u.embed.has_types = h->types > 0;
    if (h->types > 0) op.u.embed.type = place(b, h->types, stride);
    emit(b, op);
    return norm(b, LAM_LAYER_NONE, LAM_SITE_COUNT, LAM_MODULE_EMBEDDING_NORM, h->embedding_norm,
                sum);
}

/* The rows of the attention matrix, which the op itself does not keep. */
static void measure_attention(builder *b, const lam_op *attention)
{
    lam_op op = {.kind = LAM_OP_MEASURE,
                 .layer = attention->layer,
                 .site = LAM_SITE_COUNT,
                 .in = attention->in,
                 .out = LAM_BUF_NONE};
    op.u.measure.what = LAM_MEASURE_ATTENTION;
    op.u.measure.other = LAM_BUF_NONE;
    op.u.measure.attention = attention->u.attention;
    emit(b, op);
}

/* A(x): self-attention without its residual. */
static lam_buf attention(builder *b, size_t layer, lam_buf x)
{
    static const lam_module qkv[] = {LAM_MODULE_QUERY, LAM_MODULE_KEY, LAM_MODULE_VALUE};
    static const lam_module out[] = {LAM_MODULE_ATTENTION_OUT};
    const lam_hparams *h = b->h;
    const lam_buf projected = linear(b, layer, LAM_SITE_COUNT, qkv, 3, h->width, h->width, x);
    const lam_buf context = new_buf(b, h->width);
    lam_op op = {.kind = LAM_OP_ATTENTION,
                 .layer = layer,
                 .site = LAM_SITE_COUNT,
                 .in = projected,
                 .out = context};
    const size_t head_width = h->width / h->heads;
    op.u.attention.heads = h->heads;
    op.u.attention.head_width = head_width;
    op.u.attention.scale = (float)(1.0 / sqrt((double)head_width));
    measure_attention(b, &op);
    emit(b, op);
    return linear(b, layer, LAM_SITE_ATTENTION, out, 1, h->width, h->width, context);
}

/* F(u): the feed-forward part without its residual. */
static lam_buf feed_forward(builder *b, size_t layer, lam_buf u)
{
    static const lam_module in[] = {LAM_MODULE_FFN_IN};
    static const lam_module out[] = {LAM_MODULE_FFN_OUT};
    const lam_hparams *h = b->h;
    const lam_buf wide = linear(b, layer, LAM_SITE_COUNT, in, 1, h->ffn_width, h->width, u);
    measure(b, layer, LAM_MEASURE_ACTIVATION, wide, LAM_BUF_NONE);
    const lam_buf active = new_buf(b, h->ffn_width);
    lam_op op = {
        .kind = LAM_OP_ACTIVATE, .layer = layer, .site = LAM_SITE_COUNT, .in = wide, .out = active};
    op.u.activation = h->activation;
    emit(b, op);
    return linear(b, layer, LAM_SITE_FFN, out, 1, h->width, h->ffn_width, active);
}

/* Post placement: u = N1(x + A(x)), x' = N2(u + F(u)). */
static lam_buf layer_post(builder *b, size_t i, lam_buf x)
{
    const lam_hparams *h = b->h;
    const lam_buf a = attention(b, i, x);
    measure(b, i, LAM_MEASURE_ATTENTION_BRANCH, a, x);
    const lam_buf s = add(b, i, a, x);
    const lam_buf u =
        norm(b, i, LAM_SITE_ATTENTION_NORM, LAM_MODULE_ATTENTION_NORM, h->attention_norm, s);
    const lam_buf f = feed_forward(b, i, u);
    measure(b, i, LAM_MEASURE_FFN_BRANCH, f, u);
    const lam_buf t = add(b, i, f, u);
    return norm(b, i, LAM_SITE_FFN_NORM, LAM_MODULE_FFN_NORM, h->ffn_norm, t);
}

lam_status lam__build(lam_program *p, const lam_hparams *h, lam_arena *arena, lam_err *err)
{
    builder b = {.p = p, .h = h, .arena = arena};
    lam_buf x = embedding(&b);
    tap(&b, LAM_LAYER_NONE, LAM_SITE_EMBEDDING, x);
    state(&b, 0, x);
    for (size_t i = 0; i < h->layers; i++) {
        const lam_buf before = x;
        x = layer_post(&b, i, x);
        measure(&b, i, LAM_MEASURE_LAYER, before, x);
        tap(&b, i, LAM_SITE_OUTPUT, x);
        if (i + 1 == h->layers) tap(&b, LAM_LAYER_NONE, LAM_SITE_FINAL, x);
        state(&b, i + 1, x);
    }
    if (b.failed) return lam_fail(err, LAM_E_NOMEM, "program", "no memory for the op list");
    return LAM_OK;
}
