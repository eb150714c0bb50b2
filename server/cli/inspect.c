/* lamina inspect: what a model is and what it was compiled to. */
#include <inttypes.h>
#include <string.h>

#include "api/buffer.h"
#include "core/norm/norm.h"
#include "core/program/program.h"
#include "core/tokenizer/tokenizer.h"
#include "server/cli/cli.h"
#include "server/cli/json.h"

#define MAX_TEXT_BYTES ((size_t)64 << 20)

#define INSPECT_MAP(X) X(SWITCH, json, 0, 0, 0, NULL, "one JSON object")

typedef struct inspect_options {
    INSPECT_MAP(SRV_FIELD)
} inspect_options;

#define X(type, ...) SRV_ROW_##type(inspect_options, __VA_ARGS__)
static const srv_option options[] = {INSPECT_MAP(X)};
#undef X

/* What one op holds and does. */
typedef struct op_cost {
    size_t parameters;
    double flops;         /* a token */
    double flops_per_key; /* a token, for each token of its own sequence */
} op_cost;

static size_t out_width(const lam_program *p, const lam_op *op)
{
    lam_buf b = op->out == LAM_BUF_NONE ? op->in : op->out;
    return b == LAM_BUF_NONE ? 0 : p->bufs[b].width;
}

static size_t norm_parameters(const lam_norm_spec *spec, size_t width)
{
    size_t sum = 0;
    for (int t = 0; t < LAM_NORM_TENSOR_COUNT; t++)
        if (lam_norm_uses(spec, (lam_norm_tensor)t))
            sum += lam_norm_tensor_is_scalar((lam_norm_tensor)t) ? 1 : width;
    return sum;
}

/* A product and its sum are two operations; those of norms, activations and sums are a rounding
 * error beside them and count once a number. */
static op_cost cost_of(const lam_program *p, const lam_hparams *h, const lam_op *op)
{
    const size_t width = out_width(p, op);
    const double one = (double)width;
    switch (op->kind) {
    case LAM_OP_EMBED:
        return (op_cost){.parameters = (h->vocab + h->position_rows + h->types) * width,
                         .flops = (op->u.embed.has_types ? 2.0 : 1.0) * one};
    case LAM_OP_NORM:
        return (op_cost){.parameters = lam_hparams_owns_weights(h, op->layer)
                                           ? norm_parameters(&op->u.norm.spec, width)
                                           : 0,
                         .flops = 8.0 * one};
    case LAM_OP_LINEAR: {
        const size_t outputs = op->u.linear.part_count * op->u.linear.part_width;
        return (op_cost){.parameters =
                             op->u.linear.shared ? 0 : outputs * (op->u.linear.inputs + 1),
                         .flops = (double)outputs * (2.0 * (double)op->u.linear.inputs + 1.0)};
    }
    case LAM_OP_ATTENTION:
        return (op_cost){.flops_per_key = 4.0 * (double)(op->u.attention.shape.heads *
                                                         op->u.attention.shape.head_width)};
    case LAM_OP_ADD:
        return (op_cost){.flops = 2.0 * one};
    case LAM_OP_ACTIVATE:
        return (op_cost){.flops = one};
    case LAM_OP_TAP:
    case LAM_OP_MEASURE:
    case LAM_OP_STATE:
    case LAM_OP_COUNT:
        break;
    }
    return (op_cost){0};
}

static op_cost total_cost(const lam_program *p, const lam_hparams *h)
{
    op_cost sum = {0};
    for (size_t i = 0; i < p->op_count; i++) {
        op_cost c = cost_of(p, h, &p->ops[i]);
        sum.parameters += c.parameters;
        sum.flops += c.flops;
        sum.flops_per_key += c.flops_per_key;
    }
    return sum;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_buffer(api_buffer *b, const char *name, lam_buf v)
{
    if (v != LAM_BUF_NONE) cli_json_count(b, name, v);
}

static const char *module_name(lam_module m)
{
#define NAME_ROW(name) #name,
    static const char *const names[] = {LAM_MODULE_MAP(NAME_ROW)};
#undef NAME_ROW
    return names[m];
}

/* "QUERY" is "query". */
static void put_module(api_buffer *b, lam_module m)
{
    char text[64];
    size_t n = 0;
    for (const char *s = module_name(m); *s && n < sizeof text; s++)
        text[n++] = (char)(*s >= 'A' && *s <= 'Z' ? *s - 'A' + 'a' : *s);
    api_buffer_json_string(b, text, n);
}

static void put_linear(api_buffer *b, const lam_op *op)
{
    cli_json_key(b, "modules");
    api_buffer_put(b, "[", 1);
    for (size_t i = 0; i < op->u.linear.part_count; i++) {
        if (i) api_buffer_put(b, ",", 1);
        put_module(b, op->u.linear.parts[i]);
    }
    api_buffer_put(b, "]", 1);
    cli_json_count(b, "inputs", op->u.linear.inputs);
    cli_json_count(b, "outputs", op->u.linear.part_count * op->u.linear.part_width);
    cli_json_string(b, "activation", lam_activation_name(op->u.linear.activation));
    if (op->u.linear.residual == LAM_BUF_NONE) return;
    put_buffer(b, "residual", op->u.linear.residual);
    cli_json_number(b, "residual_scale", (double)op->u.linear.residual_scale);
}

/* What became of a norm, or NULL if nothing was thought of. */
static const lam_fold_view *fold_of(const lam_program *p, const lam_hparams *h, const lam_op *op)
{
    const lam_site site = lam_hparams_norm(h, op->u.norm.module).site;
    for (size_t i = 0; i < p->fold_count; i++) {
        const lam_fold_view *v = &p->folds[i];
        if (v->layer == op->layer && v->site == site && v->fold != LAM_FOLD_CENTRE) return v;
    }
    return NULL;
}

static void put_fold(api_buffer *b, const lam_fold_view *v)
{
    if (!v) return;
    cli_json_string(b, "fold", lam_fold_name(v->fold));
    cli_json_bool(b, "folded", v->taken);
}

static void put_details(api_buffer *b, const lam_op *op)
{
    switch (op->kind) {
    case LAM_OP_NORM:
        cli_json_string(b, "norm", lam_norm_kind_name(op->u.norm.spec.kind));
        cli_json_key(b, "module");
        put_module(b, op->u.norm.module);
        cli_json_key(b, "eps");
        api_buffer_json_float(b, (float)op->u.norm.spec.eps);
        cli_json_string(b, "source", lam_norm_source_name(op->u.norm.spec.source));
        cli_json_string(b, "verdict", lam_norm_verdict(op->u.norm.spec.source));
        break;
    case LAM_OP_LINEAR:
        put_linear(b, op);
        break;
    case LAM_OP_ATTENTION:
        cli_json_count(b, "heads", op->u.attention.shape.heads);
        cli_json_count(b, "head_width", op->u.attention.shape.head_width);
        break;
    case LAM_OP_ADD:
        put_buffer(b, "other", op->u.add.other);
        cli_json_number(b, "scale", (double)op->u.add.scale);
        break;
    case LAM_OP_ACTIVATE:
        cli_json_string(b, "activation", lam_activation_name(op->u.activation));
        break;
    case LAM_OP_STATE:
        cli_json_count(b, "output_layer", op->u.state_index);
        break;
    case LAM_OP_EMBED:
    case LAM_OP_TAP:
    case LAM_OP_MEASURE:
    case LAM_OP_COUNT:
        break;
    }
}

static void put_op(api_buffer *b, const lam_program *p, const lam_hparams *h, size_t i)
{
    const lam_op *op = &p->ops[i];
    const op_cost c = cost_of(p, h, op);
    api_buffer_puts(b, i ? ",\n{" : "\n{");
    cli_json_string(b, "op", lam_op_name(op->kind));
    if (op->layer != LAM_LAYER_NONE) cli_json_count(b, "layer", op->layer);
    if (op->site != LAM_SITE_COUNT) cli_json_string(b, "site", lam_site_name(op->site));
    put_buffer(b, "in", op->in);
    put_buffer(b, "out", op->out);
    cli_json_count(b, "width", out_width(p, op));
    put_details(b, op);
    if (op->kind == LAM_OP_NORM) put_fold(b, fold_of(p, h, op));
    cli_json_count(b, "parameters", c.parameters);
    cli_json_number(b, "flops_per_token", c.flops);
    cli_json_number(b, "flops_per_token_and_key", c.flops_per_key);
    api_buffer_put(b, "}", 1);
}

static void put_sites(api_buffer *b, const lam_model *m)
{
    bool any = false;
    cli_json_key(b, "sites");
    api_buffer_put(b, "[", 1);
    for (size_t i = 0; i < LAM_SITE_COUNT; i++) {
        const char *name = lam_site_name((lam_site)i);
        if (!lam_model_has_site(m, LAM_LAYER_NONE, (lam_site)i) &&
            !lam_model_has_site(m, 0, (lam_site)i))
            continue;
        if (any) api_buffer_put(b, ",", 1);
        api_buffer_json_string(b, name, strlen(name));
        any = true;
    }
    api_buffer_put(b, "]", 1);
}

static void put_prompts(api_buffer *b, const lam_model_info *info)
{
    cli_json_key(b, "prompts");
    api_buffer_put(b, "{", 1);
    for (size_t i = 0; i < info->prompt_count; i++)
        cli_json_string(b, info->prompts[i].name, info->prompts[i].text);
    api_buffer_put(b, "}", 1);
    cli_json_string(b, "default_prompt", info->default_prompt);
}

static void put_facts(api_buffer *b, const lam_model *m)
{
    const lam_model_info *info = lam_model_get_info(m);
    const lam_tokenizer *t = lam_model_tokenizer(m);
    cli_json_string(b, "name", info->name);
    cli_json_string(b, "family", info->family);
    cli_json_string(b, "weight_dtype", info->weight_dtype);
    cli_json_string(b, "isa", lam_isa_name(info->isa));
    cli_json_count(b, "width", info->width);
    cli_json_count(b, "layers", info->layers);
    cli_json_count(b, "heads", info->heads);
    cli_json_count(b, "ffn_width", info->ffn_width);
    cli_json_count(b, "vocab", info->vocab);
    cli_json_count(b, "types", info->types);
    cli_json_count(b, "max_positions", info->positions);
    cli_json_count(b, "max_input_length", info->max_input_length);
    cli_json_string(b, "pooling", lam_pool_name(info->pool));
    cli_json_bool(b, "normalize", info->normalize);
    cli_json_count(b, "parameters", info->parameters);
    cli_json_count(b, "weight_bytes", info->weight_bytes);
    cli_json_count(b, "tokenizer_bytes", t ? lam_tokenizer_bytes(t) : 0);
    put_prompts(b, info);
    put_sites(b, m);
}

static void put_all(api_buffer *b, const lam_model *m)
{
    const lam_program *p = lam_model_program(m);
    const lam_hparams *h = lam_model_hparams(m);
    const op_cost sum = total_cost(p, h);
    api_buffer_put(b, "{", 1);
    put_facts(b, m);
    cli_json_count(b, "scratch_bytes_per_token", p->row_floats * sizeof(float));
    cli_json_number(b, "flops_per_token", sum.flops);
    cli_json_number(b, "flops_per_token_and_key", sum.flops_per_key);
    cli_json_key(b, "ops");
    api_buffer_put(b, "[", 1);
    for (size_t i = 0; i < p->op_count; i++)
        put_op(b, p, h, i);
    api_buffer_puts(b, "\n]}\n");
}

static int print_json(const lam_model *m)
{
    api_buffer b;
    api_buffer_init(&b, MAX_TEXT_BYTES);
    put_all(&b, m);
    return cli_json_print(&b, "inspect", CLI_DONE);
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void print_facts(const lam_model *m)
{
    const lam_model_info *i = lam_model_get_info(m);
    const lam_tokenizer *t = lam_model_tokenizer(m);
    (void)printf("name              %s\n", i->name);
    (void)printf("family            %s\n", i->family);
    (void)printf("weights           %s, %zu parameters, %zu bytes packed\n", i->weight_dtype,
                 i->parameters, i->weight_bytes);
    (void)printf("instruction set   %s\n", lam_isa_name(i->isa));
    (void)printf("shape             width %zu, %zu layers, %zu heads, feed-forward %zu\n", i->width,
                 i->layers, i->heads, i->ffn_width);
    (void)printf("vocabulary        %zu ids, %zu token types\n", i->vocab, i->types);
    (void)printf("longest sequence  %zu tokens, of a text %zu\n", i->positions,
                 i->max_input_length);
    (void)printf("vector            pooling %s, %s\n", lam_pool_name(i->pool),
                 i->normalize ? "scaled to unit length" : "not scaled");
    if (t)
        (void)printf("tokenizer         %zu ids, %zu bytes; truncation and padding of its file are "
                     "not applied\n",
                     lam_tokenizer_vocab(t), lam_tokenizer_bytes(t));
    else
        (void)puts("tokenizer         none");
    for (size_t k = 0; k < i->prompt_count; k++)
        (void)printf("prompt            %s: \"%s\"\n", i->prompts[k].name, i->prompts[k].text);
    if (i->default_prompt) (void)printf("default prompt    %s\n", i->default_prompt);
}

/* "layer, eps 1e-12, independent" */
static void describe_op(const lam_op *op, char *out, size_t bytes)
{
    const lam_norm_spec *norm;
    out[0] = '\0';
    switch (op->kind) {
    case LAM_OP_NORM:
        norm = &op->u.norm.spec;
        (void)snprintf(out, bytes, "%s, eps %g, %s, %s", lam_norm_kind_name(norm->kind), norm->eps,
                       lam_norm_source_name(norm->source), lam_norm_verdict(norm->source));
        break;
    case LAM_OP_LINEAR:
        (void)snprintf(out, bytes, "%zu -> %zu%s%s%s", op->u.linear.inputs,
                       op->u.linear.part_count * op->u.linear.part_width,
                       op->u.linear.activation == LAM_ACTIVATION_IDENTITY ? "" : ", ",
                       op->u.linear.activation == LAM_ACTIVATION_IDENTITY
                           ? ""
                           : lam_activation_name(op->u.linear.activation),
                       op->u.linear.residual == LAM_BUF_NONE ? "" : ", plus residual");
        break;
    case LAM_OP_ATTENTION:
        (void)snprintf(out, bytes, "%zu heads of %zu", op->u.attention.shape.heads,
                       op->u.attention.shape.head_width);
        break;
    case LAM_OP_ACTIVATE:
        (void)snprintf(out, bytes, "%s", lam_activation_name(op->u.activation));
        break;
    case LAM_OP_STATE:
        (void)snprintf(out, bytes, "output_layer %zu", op->u.state_index);
        break;
    case LAM_OP_ADD:
        (void)snprintf(out, bytes, "plus %g times buffer %u", (double)op->u.add.scale,
                       (unsigned)op->u.add.other);
        break;
    case LAM_OP_EMBED:
    case LAM_OP_TAP:
    case LAM_OP_MEASURE:
    case LAM_OP_COUNT:
        break;
    }
}

static void print_number(lam_buf b)
{
    if (b == LAM_BUF_NONE)
        (void)printf(" %4s", "-");
    else
        (void)printf(" %4u", (unsigned)b);
}

static void print_op(const lam_program *p, const lam_hparams *h, size_t i)
{
    const lam_op *op = &p->ops[i];
    const op_cost c = cost_of(p, h, op);
    char text[160];
    describe_op(op, text, sizeof text);
    const lam_fold_view *fold = op->kind == LAM_OP_NORM ? fold_of(p, h, op) : NULL;
    if (op->layer == LAM_LAYER_NONE)
        (void)printf("%5zu     -", i);
    else
        (void)printf("%5zu %5zu", i, op->layer);
    (void)printf(" %-10s", lam_op_name(op->kind));
    print_number(op->in);
    print_number(op->out);
    (void)printf(" %6zu %11zu %10.0f  %-16s %s%s\n", out_width(p, op), c.parameters, c.flops,
                 op->site == LAM_SITE_COUNT ? "-" : lam_site_name(op->site), text,
                 fold && fold->taken ? ", folded" : "");
}

static int print_text(const lam_model *m)
{
    const lam_program *p = lam_model_program(m);
    const lam_hparams *h = lam_model_hparams(m);
    const op_cost sum = total_cost(p, h);
    print_facts(m);
    (void)printf("work              %.0f operations a token, and %.0f for each token of its "
                 "sequence\n",
                 sum.flops, sum.flops_per_key);
    (void)printf("scratch           %zu bytes a token\n", p->row_floats * sizeof(float));
    (void)printf("\n%5s %5s %-10s %4s %4s %6s %11s %10s  %-16s\n", "op", "layer", "kind", "in",
                 "out", "width", "parameters", "flops", "site");
    for (size_t i = 0; i < p->op_count; i++)
        print_op(p, h, i);
    return cli_finish(CLI_DONE);
}

static int run(const cli_args *args)
{
    inspect_options o;
    cli_common common;
    lam_model *m = NULL;
    lam_err err;
    if (cli_options_load(args, options, 1, &o, &err) != LAM_OK ||
        cli_common_load(args, &common, &err) != LAM_OK ||
        cli_open_model(&m, args->words[0], &common, &err) != LAM_OK)
        return cli_fail(&err);
    int status = o.json ? print_json(m) : print_text(m);
    lam_model_close(m);
    return status;
}

const cli_command cli_inspect = {
    .name = "inspect",
    .words = "MODEL",
    .min_words = 1,
    .max_words = 1,
    .summary = "show what a model is and what it was compiled to",
    .about =
        "Shows the facts of a model and its program: each operation with its buffers, width,\n"
        "parameters, operations a token and the site whose statistics it gives. The verdict of\n"
        "a norm says what a row depends on besides itself. A norm that is folded is not run for\n"
        "vectors, only for statistics (lamina compile).\n",
    .examples = "  lamina inspect MODEL\n"
                "  lamina inspect MODEL --json\n",
    .groups = {{"Options", options, 1}, {"Common options", cli_common_options, CLI_COMMON_COUNT}},
    .run = run,
};
