#include "tests/golden/norm_mistakes.h"

/* ---- Fields of the configuration ---- */

static void each_spec(lam_hparams *h, void (*spoil)(lam_norm_spec *s))
{
    lam_norm_spec *const specs[] = {&h->embedding_norm, &h->attention_norm, &h->ffn_norm,
                                    &h->inner_norm, &h->final_norm};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        if (specs[i]->kind != LAM_NORM_ABSENT) spoil(specs[i]);
}

/* field(NAME, statement): one field of every norm that is configured. */
#define FIELD(name, statement)                \
    static void spec_##name(lam_norm_spec *s) \
    {                                         \
        statement;                            \
    }                                         \
    static void field_##name(lam_hparams *h)  \
    {                                         \
        each_spec(h, spec_##name);            \
    }

/* A length has no other form of eps. */
static void set_mode(lam_norm_spec *s, lam_eps_mode mode)
{
    if (s->kind != LAM_NORM_SCALE) s->eps_mode = mode;
}

FIELD(eps_std, set_mode(s, LAM_EPS_STD))
FIELD(eps_inside, set_mode(s, LAM_EPS_VARIANCE))
FIELD(eps_floor, set_mode(s, LAM_EPS_FLOOR_VARIANCE))
FIELD(eps_none, s->eps = 0.0)
FIELD(eps_5, s->eps = 1e-5)
FIELD(eps_12, s->eps = 1e-12)
FIELD(eps_limited, s->eps = 1e5)
FIELD(eps_2, s->eps = 2.0)
FIELD(ddof_1, s->ddof = 1)
FIELD(ddof_0, s->ddof = 0)
FIELD(groups_1, s->groups = 1)
FIELD(groups_4, s->groups = 4)
FIELD(groups_0, s->groups = 0)
FIELD(groups_released, (s->groups = 4, s->group_eps = 1e-5))
FIELD(group_eps, s->group_eps = s->eps)
FIELD(k_0, s->k = 0.0)
FIELD(k_published, s->k = 0.1)
FIELD(c_1, s->c = 1.0)
FIELD(c_2, s->c = 2.0)
FIELD(gain_plain, s->unit_offset = false)
FIELD(sequence, s->source = LAM_NORM_FROM_SEQUENCE)
FIELD(token, s->source = LAM_NORM_FROM_TOKEN)
FIELD(all_sequences, s->source = LAM_NORM_FROM_BATCH)
FIELD(p_all, s->p = 1.0)
FIELD(alpha_half, s->alpha = 0.5)

static void eps_of_embedding(lam_hparams *h)
{
    h->embedding_norm.eps = 1e-6;
}

static void ddof_of_attention(lam_hparams *h)
{
    h->attention_norm.ddof = 1;
}

static void eps_of_inner(lam_hparams *h)
{
    h->inner_norm.eps_mode = LAM_EPS_VARIANCE;
}

static void placement_post(lam_hparams *h)
{
    h->placement = LAM_PLACEMENT_POST;
}

static void placement_pre(lam_hparams *h)
{
    h->placement = LAM_PLACEMENT_PRE;
}

static void no_residual_scale(lam_hparams *h)
{
    h->residual_scale = 1.0f;
}

static void other_side(lam_hparams *h)
{
    h->inner_position = h->inner_position == LAM_INNER_BEFORE ? LAM_INNER_AFTER : LAM_INNER_BEFORE;
}

/* A count of channels as the p that gives it, in the middle of what is cut off to it. */
static void set_channels(lam_hparams *h, double count)
{
    h->embedding_norm.p = h->attention_norm.p = h->ffn_norm.p = h->final_norm.p =
        (count + 0.5) / (double)h->width;
}

static void one_channel_more(lam_hparams *h)
{
    set_channels(h, floor(h->attention_norm.p * (double)h->width) + 1.0);
}

static void channels_rounded(lam_hparams *h)
{
    set_channels(h, floor(h->attention_norm.p * (double)h->width + 0.5));
}

/* The sum of squares plus eps, then the mean: eps / D. */
static void eps_in_sum(lam_hparams *h)
{
    h->attention_norm.eps /= (double)h->width;
    h->ffn_norm.eps /= (double)h->width;
    h->embedding_norm.eps /= (double)h->width;
    h->final_norm.eps /= (double)h->width;
    field_eps_inside(h);
}

static void eps_of_rms(lam_hparams *h)
{
    const double root = sqrt((double)h->width);
    h->attention_norm.eps *= root;
    h->ffn_norm.eps *= root;
    h->embedding_norm.eps *= root;
    h->final_norm.eps *= root;
}

/* ---- Tensors ---- */

static bool is_norm(const lam_param *p, const char *name)
{
    return lam_module_is_norm(p->module) && strcmp(p->name, name) == 0;
}

static void set_all(const lam_param *p, const char *name, float *dst, float value)
{
    for (size_t i = 0; is_norm(p, name) && i < p->shape[0]; i++)
        dst[i] = value;
}

/* TENSOR(NAME, "tensor", value): every value v of that tensor of every norm. */
#define TENSOR(label, name, value)                                                       \
    static void tensor_##label(const lam_hparams *h, lam_weights *w, const lam_param *p, \
                               float *dst)                                               \
    {                                                                                    \
        (void)h, (void)w;                                                                \
        for (size_t i = 0; is_norm(p, name) && i < p->shape[0]; i++) {                   \
            const float v = dst[i];                                                      \
            (void)v;                                                                     \
            dst[i] = (value);                                                            \
        }                                                                                \
    }

TENSOR(gain, "weight", 1.0f)
TENSOR(bias, "bias", 0.0f)
TENSOR(mean_0, "running_mean", 0.0f)
TENSOR(squared, "running_var", v *v)
TENSOR(bessel, "running_var", v * 31.0f / 32.0f)
TENSOR(alpha_0, "alpha", 0.0f)
TENSOR(alpha_1, "alpha", 1.0f)
TENSOR(alpha_half, "alpha", 0.5f)
TENSOR(shift_0, "shift", 0.0f)
TENSOR(shift_minus, "shift", -v)

static void tensor_root_d(const lam_hparams *h, lam_weights *w, const lam_param *p, float *dst)
{
    (void)w;
    set_all(p, "scale", dst, sqrtf((float)h->width));
}

/* With eps_of_rms: the root mean square where the length belongs. */
static void tensor_rms(const lam_hparams *h, lam_weights *w, const lam_param *p, float *dst)
{
    (void)w;
    if (is_norm(p, "scale")) dst[0] *= sqrtf((float)h->width);
}

/* v + eps without the root: the v' for which sqrt(v' + eps) is that. */
static void tensor_no_root(const lam_hparams *h, lam_weights *w, const lam_param *p, float *dst)
{
    (void)w;
    const double eps = lam_hparams_norm(h, p->module).spec.eps;
    for (size_t i = 0; is_norm(p, "running_var") && i < p->shape[0]; i++)
        dst[i] = (float)(pow((double)dst[i] + eps, 2.0) - eps);
}

/* gain z + bias + alpha z instead of + alpha x. */
static void tensor_alpha_z(const lam_hparams *h, lam_weights *w, const lam_param *p, float *dst)
{
    (void)h;
    if (is_norm(p, "alpha")) dst[0] = 0.0f;
    if (!is_norm(p, "weight")) return;
    const lam_param scalar = {p->module, p->layer, "alpha", 1, {1, 1}};
    float alpha = 0.0f;
    if (w->read(w, &scalar, &alpha, NULL) != LAM_OK) return;
    for (size_t i = 0; i < p->shape[0]; i++)
        dst[i] += alpha;
}

static void tensor_positions(const lam_hparams *h, lam_weights *w, const lam_param *p, float *dst)
{
    (void)h, (void)w;
    if (p->module != LAM_MODULE_POSITION_EMBEDDING) return;
    memmove(dst, dst + p->shape[1], (p->shape[0] - 1) * p->shape[1] * sizeof *dst);
}

/* ---- The compiled model ---- */

static void without(lam_model *m, lam_module a, lam_module b)
{
    for (size_t i = 0; i < m->program.op_count; i++) {
        lam_op *op = &m->program.ops[i];
        if (op->kind == LAM_OP_NORM && (op->u.norm.module == a || op->u.norm.module == b))
            op->u.norm.spec.kind = LAM_NORM_NONE;
    }
}

#define WITHOUT(label, a, b)                                      \
    static void without_##label(lam_model *m, const norm_case *c) \
    {                                                             \
        (void)c;                                                  \
        without(m, LAM_MODULE_##a, LAM_MODULE_##b);               \
    }

WITHOUT(final, FINAL_NORM, FINAL_NORM)
WITHOUT(embedding, EMBEDDING_NORM, EMBEDDING_NORM)
WITHOUT(inner, INNER_NORM, INNER_NORM)
WITHOUT(branch, ATTENTION_BRANCH_NORM, FFN_BRANCH_NORM)
WITHOUT(attention_sub, ATTENTION_SUB_NORM, ATTENTION_SUB_NORM)
WITHOUT(ffn_sub, FFN_SUB_NORM, FFN_SUB_NORM)
WITHOUT(both, ATTENTION_NORM, FFN_NORM)

static void swap_kinds(lam_model *m, const norm_case *c)
{
    for (size_t i = 0; i < m->program.op_count; i++) {
        lam_op *op = &m->program.ops[i];
        if (op->kind != LAM_OP_NORM) continue;
        if (op->u.norm.module == LAM_MODULE_ATTENTION_NORM) op->u.norm.spec = c->hparams.ffn_norm;
        if (op->u.norm.module == LAM_MODULE_FFN_NORM) op->u.norm.spec = c->hparams.attention_norm;
    }
}

static void no_logit_scale(lam_model *m, const norm_case *c)
{
    (void)c;
    for (size_t i = 0; i < m->program.op_count; i++)
        if (m->program.ops[i].kind == LAM_OP_ATTENTION)
            m->program.ops[i].u.attention.shape.scale = 1.0f;
}

/* x + a f instead of a x + f; the list is not fused. */
static void branch_scaled(lam_model *m, const norm_case *c)
{
    (void)c;
    for (size_t i = 0; i < m->program.op_count; i++) {
        lam_op *op = &m->program.ops[i];
        if (op->kind != LAM_OP_ADD) continue;
        const lam_buf f = op->in;
        op->in = op->u.add.other;
        op->u.add.other = f;
    }
}

/* Weight and bias that the file holds and that these kinds do not read. */
static void unused_used(lam_model *m, const norm_case *c)
{
    static const char *const paths[] = {"embeddings.LayerNorm",
                                        "encoder.layer.%zu.attention.output.LayerNorm",
                                        "encoder.layer.%zu.output.LayerNorm", "encoder.FinalNorm"};
    static const lam_module modules[] = {LAM_MODULE_EMBEDDING_NORM, LAM_MODULE_ATTENTION_NORM,
                                         LAM_MODULE_FFN_NORM, LAM_MODULE_FINAL_NORM};
    for (size_t i = 0; i < m->program.op_count; i++) {
        const lam_op *op = &m->program.ops[i];
        for (size_t k = 0; op->kind == LAM_OP_NORM && k < 4; k++) {
            char path[128], name[160];
            if (modules[k] != op->u.norm.module) continue;
            const char *layer = strstr(paths[k], "%zu");
            if (layer)
                snprintf(path, sizeof path, "%.*s%zu%s", (int)(layer - paths[k]), paths[k],
                         op->layer, layer + 3);
            else
                snprintf(path, sizeof path, "%s", paths[k]);
            for (int t = LAM_NORM_TENSOR_GAIN; t <= LAM_NORM_TENSOR_BIAS; t++) {
                lam_tensor found;
                float *dst = (float *)m->program.block.data + op->u.norm.tensors[t];
                snprintf(name, sizeof name, "%s.%s", path,
                         lam_norm_tensor_name((lam_norm_tensor)t));
                if (lam_bundle_find(&c->bundle, name, &found, NULL) == LAM_OK && found.entry)
                    (void)lam_safetensors_read(found.file, found.entry, dst, m->info.width, NULL);
            }
        }
    }
}

/* ---- The request ---- */

static void no_types(norm_request *q)
{
    for (size_t i = 0; i < q->count; i++) {
        free((void *)q->items[i].types);
        q->items[i].types = NULL;
    }
}

static void source_batch(norm_request *q)
{
    q->opts.statistics = LAM_NORM_FROM_BATCH;
}

static void source_running(norm_request *q)
{
    q->opts.statistics = LAM_NORM_FROM_RUNNING;
}

/* ---- All of them ---- */

static const mistake mistakes[] = {
    {"gain ignored", .tensor = tensor_gain},
    {"bias ignored", .tensor = tensor_bias},
    {"eps added to the standard deviation, not to the variance", .hparams = field_eps_std},
    {"eps added to the variance, not to the standard deviation", .hparams = field_eps_inside},
    {"eps added to the variance instead of being its lower bound", .hparams = field_eps_inside},
    {"eps taken as a lower bound, not added", .hparams = field_eps_floor},
    {"eps left out", .hparams = field_eps_none},
    {"floor left out", .hparams = field_eps_none},
    {"eps 1e-5 instead of 1e-12", .hparams = field_eps_5},
    {"eps 1e-6 instead of 1e-12", .hparams = eps_of_embedding},
    {"eps ignored as if small", .hparams = field_eps_12},
    {"eps limited to 1e5", .hparams = field_eps_limited},
    {"eps of the default used everywhere", .hparams = field_eps_2},
    {"eps_mode of the override used everywhere", .hparams = field_eps_std},
    {"eps of the inner norm under the root", .hparams = eps_of_inner},
    {"eps added to the sum of squares, not to their mean", .hparams = eps_in_sum},
    {"eps added to the length", .model = wrong_length_plus_eps},
    {"variance divided by N - 1", .hparams = field_ddof_1},
    {"variance divided by N", .hparams = field_ddof_0},
    {"ddof of the default inherited", .hparams = ddof_of_attention},
    {"one group instead of several", .hparams = field_groups_1},
    {"groups = heads", .hparams = field_groups_4},
    {"group scaling left out", .hparams = field_groups_0},
    {"scaling in front left out", .hparams = field_groups_0},
    {"group scaling of the released PowerNorm applied", .hparams = field_groups_released},
    {"eps used in the group scaling too", .hparams = field_group_eps},
    {"eps instead of group_eps in front", .hparams = field_group_eps},
    {"every G-th channel in a group", .model = wrong_stride},
    {"k = 0", .hparams = field_k_0},
    {"k = 0.1", .hparams = field_k_published},
    {"C = 1", .hparams = field_c_1},
    {"C = 2", .hparams = field_c_2},
    {"(x - kxy)y", .model = wrong_ada},
    {"stored gain used as it is", .hparams = field_gain_plain},
    {"the unused weight and bias applied", .model = unused_used},
    {"statistics over the whole sequence", .hparams = field_sequence},
    {"statistics of the sequence", .hparams = field_sequence},
    {"statistics per token", .hparams = field_token},
    {"all sequences together", .hparams = field_all_sequences},
    {"statistics of the request used instead of the stored ones", .request = source_batch},
    {"stored statistics used instead of those of the request", .request = source_running},
    {"padding counted", .model = wrong_padding},
    {"padding counted as zero rows", .model = wrong_padding},
    {"per position", .model = wrong_per_position},
    {"mean of the sequences' variances", .model = wrong_mean_of_variances},
    {"one-pass variance E[x^2] - mean^2 in float32", .model = wrong_one_pass},
    {"running_mean ignored", .tensor = tensor_mean_0},
    {"running_var taken for a standard deviation", .tensor = tensor_squared},
    {"stored mean square taken for a root mean square", .tensor = tensor_squared},
    {"running_var rescaled by (n-1)/n with n = 32", .tensor = tensor_bessel},
    {"root forgotten", .tensor = tensor_no_root},
    {"mean subtracted", .model = wrong_mean_subtracted},
    {"mean subtracted first", .model = wrong_centred_rms},
    {"all channels", .hparams = field_p_all},
    {"one channel more", .hparams = one_channel_more},
    {"p*D rounded, not truncated", .hparams = channels_rounded},
    {"the last K channels", .model = wrong_last_channels},
    {"only the first K channels scaled", .model = wrong_first_scaled},
    {"RMS instead of the length", .hparams = eps_of_rms, .tensor = tensor_rms},
    {"g = sqrt(D) instead of the stored scale", .tensor = tensor_root_d},
    {"alpha ignored", .tensor = tensor_alpha_0},
    {"alpha = 1", .tensor = tensor_alpha_1},
    {"alpha = 0.5", .hparams = field_alpha_half, .tensor = tensor_alpha_half},
    {"alpha times the normalized value", .tensor = tensor_alpha_z},
    {"shift ignored", .tensor = tensor_shift_0},
    {"sign of shift", .tensor = tensor_shift_minus},
    {"clipped instead of tanh", .model = wrong_clip},
    {"tanh instead of erf", .model = wrong_tanh},
    {"computed as post-norm", .hparams = placement_post},
    {"computed as pre-norm", .hparams = placement_pre},
    {"residual_scale ignored", .hparams = no_residual_scale},
    {"residual_scale on the branch", .model = branch_scaled},
    {"at the other side of the activation", .hparams = other_side},
    {"the two kinds exchanged", .model = swap_kinds},
    {"final norm left out", .model = without_final},
    {"embedding norm left out", .model = without_embedding},
    {"inner norm left out", .model = without_inner},
    {"branch norms left out", .model = without_branch},
    {"norm before the output projection left out", .model = without_attention_sub},
    {"norm before the second FFN linear left out", .model = without_ffn_sub},
    {"norm taken for the identity", .model = without_both},
    {"token_type_ids ignored", .request = no_types},
    {"positions start at 1", .tensor = tensor_positions},
    {"attention logits not scaled", .model = no_logit_scale},
    {"tokens attend to the other items", .model = wrong_attention},
};

const mistake *mistake_find(const char *name)
{
    for (size_t i = 0; i < mistake_count(); i++)
        if (strcmp(mistakes[i].name, name) == 0) return &mistakes[i];
    return NULL;
}

size_t mistake_count(void)
{
    return sizeof mistakes / sizeof *mistakes;
}
