/* hparams -> op list. One short function per part of the architecture. */
#include <string.h>

#include "core/base/checked.h"
#include "core/compile/passes.h"

typedef struct builder {
    lam_program *p;
    const lam_hparams *h;
    lam_arena *arena;
    const lam_weights *weights; /* asked only what there is */
    size_t op_capacity, buf_capacity;
    lam_ref bias; /* of the scores, where the model has one */
    bool failed;  /* out of memory, or the weights' size overflows; looked at once at the end */
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

/* A site that does not run on the checkpoint's statistics is content without them. */
static bool has_running(const builder *b, const lam_op *op)
{
    static const lam_norm_tensor both[] = {LAM_NORM_TENSOR_MEAN, LAM_NORM_TENSOR_SQUARE};
    const lam_norm_spec *spec = &op->u.norm.spec;
    if (!lam_norm_has_statistics(spec->kind)) return false;
    for (size_t i = 0; i < 2 && spec->source != LAM_NORM_FROM_RUNNING; i++)
        if (lam_norm_uses(spec, both[i]) &&
            !b->weights->has(b->weights, op->u.norm.module, op->layer,
                             lam_norm_tensor_name(both[i])))
            return false;
    return true;
}

static void place_norm(builder *b, lam_op *op, size_t width)
{
    const lam_norm_spec *spec = &op->u.norm.spec;
    const size_t stride = lam_row_stride(width);
    const bool statistics = lam_norm_has_statistics(spec->kind);
    for (int i = 0; i < LAM_NORM_TENSOR_COUNT; i++) {
        const lam_norm_tensor t = (lam_norm_tensor)i;
        const bool always = t == LAM_NORM_TENSOR_GAIN || t == LAM_NORM_TENSOR_BIAS;
        if (lam_norm_tensor_is_scalar(t))
            op->u.norm.tensors[i] = place(b, 1, 1);
        else if (always || statistics)
            op->u.norm.tensors[i] = place(b, 1, stride);
    }
    if (statistics) op->u.norm.scale = place(b, 1, stride);
    op->u.norm.has_running = has_running(b, op);
}

/* What comes into a norm. Collected where something is stored for it, or it squashes. */
static void measure_population(builder *b, const lam_op *norm, lam_site site)
{
    lam_op op = {.kind = LAM_OP_MEASURE,
                 .layer = norm->layer,
                 .site = LAM_SITE_COUNT,
                 .in = norm->in,
                 .out = LAM_BUF_NONE};
    op.u.measure.what = LAM_MEASURE_POPULATION;
    op.u.measure.other = LAM_BUF_NONE;
    op.u.measure.site = site;
    op.u.measure.index = b->p->population_count++;
    op.u.measure.norm = norm->u.norm.spec;
    op.u.measure.norm_index = norm->u.norm.index;
    op.u.measure.has_running = norm->u.norm.has_running;
    op.u.measure.mean = norm->u.norm.tensors[LAM_NORM_TENSOR_MEAN];
    op.u.measure.square = norm->u.norm.tensors[LAM_NORM_TENSOR_SQUARE];
    op.u.measure.alpha = norm->u.norm.tensors[LAM_NORM_TENSOR_ALPHA];
    op.u.measure.shift = norm->u.norm.tensors[LAM_NORM_TENSOR_SHIFT];
    emit(b, op);
}

/* The norm that `module` is; `in` itself if the model has no such site. */
static lam_buf norm(builder *b, size_t layer, lam_module module, lam_buf in)
{
    const lam_norm_site n = lam_hparams_norm(b->h, module);
    if (n.spec.kind == LAM_NORM_ABSENT) return in;
    const lam_buf out = new_buf(b, n.width);
    /* Embedding and final have their taps whether there is a norm or not. */
    const lam_site site = n.per_layer ? n.site : LAM_SITE_COUNT;
    lam_op op = {.kind = LAM_OP_NORM, .layer = layer, .site = site, .in = in, .out = out};
    op.u.norm.module = module;
    op.u.norm.index = b->p->norm_count++;
    op.u.norm.spec = n.spec;
    place_norm(b, &op, n.width);
    b->p->any_batch |= n.spec.source == LAM_NORM_FROM_BATCH;
    b->p->any_ddof |= n.spec.ddof > 0;
    if (n.spec.kind != LAM_NORM_NONE) measure_population(b, &op, n.site);
    emit(b, op);
    return out;
}

/* An earlier op with the same weights, where layers share them; or NULL. */
static const lam_op *same_weights(const builder *b, size_t layer, const lam_module *parts)
{
    const lam_program *p = b->p;
    if (layer == LAM_LAYER_NONE || b->h->weight_sets == b->h->layers) return NULL;
    for (size_t i = 0; i < p->op_count; i++) {
        const lam_op *op = &p->ops[i];
        if (op->kind == LAM_OP_LINEAR && op->layer != LAM_LAYER_NONE &&
            op->u.linear.parts[0] == parts[0] &&
            lam_hparams_weight_set(b->h, op->layer) == lam_hparams_weight_set(b->h, layer))
            return op;
    }
    return NULL;
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
    const lam_op *same = same_weights(b, layer, parts);
    op.u.linear.shared = same != NULL;
    op.u.linear.weight = same ? same->u.linear.weight : place(b, lam_row_stride(outputs), inputs);
    op.u.linear.bias = same ? same->u.linear.bias : place(b, 1, lam_row_stride(outputs));
    op.u.linear.activation = LAM_ACTIVATION_IDENTITY;
    op.u.linear.residual = LAM_BUF_NONE;
    emit(b, op);
    return out;
}

/* in + a x: the sub-layer's result and the residual. */
static lam_buf add(builder *b, size_t layer, lam_buf in, lam_buf x)
{
    const lam_buf out = new_buf(b, b->h->width);
    lam_op op = {.kind = LAM_OP_ADD, .layer = layer, .site = LAM_SITE_COUNT, .in = in, .out = out};
    op.u.add.other = x;
    op.u.add.scale = b->h->residual_scale;
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
    op.u.measure.scale = b->h->residual_scale;
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
    static const lam_module projection[] = {LAM_MODULE_EMBEDDING_PROJECTION};
    const size_t width = h->embedding_width, stride = lam_row_stride(width);
    const lam_buf sum = new_buf(b, width);
    lam_op op = {.kind = LAM_OP_EMBED,
                 .layer = LAM_LAYER_NONE,
                 .site = LAM_SITE_COUNT,
                 .in = LAM_BUF_NONE,
                 .out = sum};
    op.u.embed.word = place(b, h->vocab, stride);
    op.u.embed.has_positions = h->position_rows > 0;
    if (h->position_rows > 0) op.u.embed.position = place(b, h->position_rows, stride);
    op.u.embed.has_types = h->types > 0;
    if (h->types > 0) op.u.embed.type = place(b, h->types, stride);
    emit(b, op);
    const lam_buf x = norm(b, LAM_LAYER_NONE, LAM_MODULE_EMBEDDING_NORM, sum);
    if (!h->embedding_projected) return x;
    return linear(b, LAM_LAYER_NONE, LAM_SITE_COUNT, projection, 1, h->width, width, x);
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
    const size_t width = h->heads * h->head_width;
    const lam_buf projected = linear(b, layer, LAM_SITE_COUNT, qkv, 3, width, h->width, x);
    const lam_buf context = new_buf(b, width);
    lam_op op = {.kind = LAM_OP_ATTENTION,
                 .layer = layer,
                 .site = LAM_SITE_COUNT,
                 .in = projected,
                 .out = context};
    op.u.attention.shape.heads = h->heads;
    op.u.attention.shape.head_width = h->head_width;
    op.u.attention.shape.scale = h->attention_scale;
    op.u.attention.biased = h->bias_buckets > 0;
    op.u.attention.bias = b->bias;
    op.u.attention.bias_span = h->positions - 1;
    measure_attention(b, &op);
    emit(b, op);
    const lam_buf inner = norm(b, layer, LAM_MODULE_ATTENTION_SUB_NORM, context);
    return linear(b, layer, LAM_SITE_ATTENTION, out, 1, h->width, width, inner);
}

static lam_buf activate(builder *b, size_t layer, lam_buf in)
{
    const lam_buf out = new_buf(b, b->h->ffn_width);
    lam_op op = {
        .kind = LAM_OP_ACTIVATE, .layer = layer, .site = LAM_SITE_COUNT, .in = in, .out = out};
    op.u.activation = b->h->activation;
    emit(b, op);
    return out;
}

/* F(u): the feed-forward part without its residual. */
static lam_buf feed_forward(builder *b, size_t layer, lam_buf u)
{
    static const lam_module in[] = {LAM_MODULE_FFN_IN};
    static const lam_module out[] = {LAM_MODULE_FFN_OUT};
    const lam_hparams *h = b->h;
    lam_buf wide = linear(b, layer, LAM_SITE_COUNT, in, 1, h->ffn_width, h->width, u);
    if (h->inner_position == LAM_INNER_BEFORE) wide = norm(b, layer, LAM_MODULE_INNER_NORM, wide);
    measure(b, layer, LAM_MEASURE_ACTIVATION, wide, LAM_BUF_NONE);
    wide = activate(b, layer, wide);
    if (h->inner_position == LAM_INNER_AFTER) wide = norm(b, layer, LAM_MODULE_INNER_NORM, wide);
    wide = norm(b, layer, LAM_MODULE_FFN_SUB_NORM, wide);
    return linear(b, layer, LAM_SITE_FFN, out, 1, h->width, h->ffn_width, wide);
}

/* The residual sum, and what level full says of its two parts. */
static lam_buf join(builder *b, size_t layer, lam_measure what, lam_buf added, lam_buf x)
{
    measure(b, layer, what, added, x);
    return add(b, layer, added, x);
}

/* Post and deepnorm: u = N1(a x + A(x)), x' = N2(a u + F(u)). */
static lam_buf layer_post(builder *b, size_t i, lam_buf x)
{
    const lam_buf a = attention(b, i, x);
    const lam_buf s = join(b, i, LAM_MEASURE_ATTENTION_BRANCH, a, x);
    const lam_buf u = norm(b, i, LAM_MODULE_ATTENTION_NORM, s);
    const lam_buf f = feed_forward(b, i, u);
    const lam_buf t = join(b, i, LAM_MEASURE_FFN_BRANCH, f, u);
    return norm(b, i, LAM_MODULE_FFN_NORM, t);
}

/* All others: u = a x + B1(A(N1(x))), x' = a u + B2(F(N2(u))), each norm where it exists. */
static lam_buf layer_pre(builder *b, size_t i, lam_buf x)
{
    const lam_buf y = attention(b, i, norm(b, i, LAM_MODULE_ATTENTION_NORM, x));
    const lam_buf a = norm(b, i, LAM_MODULE_ATTENTION_BRANCH_NORM, y);
    const lam_buf u = join(b, i, LAM_MEASURE_ATTENTION_BRANCH, a, x);
    const lam_buf z = feed_forward(b, i, norm(b, i, LAM_MODULE_FFN_NORM, u));
    const lam_buf f = norm(b, i, LAM_MODULE_FFN_BRANCH_NORM, z);
    return join(b, i, LAM_MEASURE_FFN_BRANCH, f, u);
}

lam_status lam__build(lam_program *p, const lam_hparams *h, const lam_weights *weights,
                      lam_arena *arena, lam_err *err)
{
    builder b = {.p = p, .h = h, .arena = arena, .weights = weights};
    const bool post = lam_placement_is_post(h->placement);
    if (h->bias_buckets > 0) b.bias = place(&b, h->heads, 2 * h->positions - 1);
    lam_buf x = embedding(&b);
    tap(&b, LAM_LAYER_NONE, LAM_SITE_EMBEDDING, x);
    state(&b, 0, x);
    for (size_t i = 0; i < h->layers; i++) {
        const lam_buf before = x;
        x = post ? layer_post(&b, i, x) : layer_pre(&b, i, x);
        measure(&b, i, LAM_MEASURE_LAYER, before, x);
        tap(&b, i, LAM_SITE_OUTPUT, x);
        if (i + 1 < h->layers) state(&b, i + 1, x);
    }
    x = norm(&b, LAM_LAYER_NONE, LAM_MODULE_FINAL_NORM, x);
    tap(&b, LAM_LAYER_NONE, LAM_SITE_FINAL, x);
    state(&b, h->layers, x);
    if (b.failed) return lam_fail(err, LAM_E_NOMEM, "program", "no memory for the op list");
    return LAM_OK;
}
