/* The key "lamina" of config.json, read strictly: docs/CONFIG.md has the schema. The fields of a
 * NORM are a table; what each kind allows stands in core/norm/kinds.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/import/hf_config.h"

/* Where a NORM is read: its object, its path for messages, and the sites that will use it. */
typedef struct norm_reader {
    const lam_json *config;
    json_t *object;
    char path[64];    /* "lamina.ffn_norm" */
    size_t widths[2]; /* of its sites; 0: none */
    const lam_norm_info *info;
    lam_norm_spec *spec;
    lam_inner *position; /* or NULL where there is none to give */
    lam_err *err;
} norm_reader;

static lam_status refuse(const norm_reader *r, const char *name, const char *why)
{
    char key[160];
    lam_quoted q;
    if (name)
        snprintf(key, sizeof key, "%s.%s", r->path, lam_quote(&q, name, strlen(name)));
    else
        snprintf(key, sizeof key, "%s", r->path);
    return lam_json_fail(r->config, key, r->err, "%s", why);
}

/* ---- One field ---- */

static lam_status take_number(const norm_reader *r, const char *name, const json_t *v, double *out)
{
    if (!json_is_number(v)) return refuse(r, name, "must be a number");
    *out = json_number_value(v);
    return isfinite(*out) ? LAM_OK : refuse(r, name, "must be finite");
}

static lam_status take_positive(const norm_reader *r, const char *name, const json_t *v,
                                double *out)
{
    LAM_TRY(take_number(r, name, v, out));
    const float f = (float)*out;
    if (*out > 0.0 && f > 0.0f && isfinite(f)) return LAM_OK;
    return refuse(r, name, "must be above 0, and neither 0 nor infinite in float32");
}

static lam_status take_bool(const norm_reader *r, const char *name, const json_t *v, bool *out)
{
    if (!json_is_boolean(v)) return refuse(r, name, "must be true or false");
    *out = json_is_true(v);
    return LAM_OK;
}

static lam_status take_eps_mode(const norm_reader *r, const char *name, const json_t *v)
{
    lam_eps_mode mode;
    if (!json_is_string(v) ||
        !lam_eps_mode_parse(json_string_value(v), json_string_length(v), &mode))
        return refuse(r, name, "must be variance, std, floor_variance or floor_norm");
    const bool length = mode == LAM_EPS_FLOOR_NORM;
    if (length != (r->spec->kind == LAM_NORM_SCALE))
        return refuse(r, name, "floor_norm belongs to kind scale, which takes no other");
    r->spec->eps_mode = mode;
    return LAM_OK;
}

static lam_status take_ddof(const norm_reader *r, const char *name, const json_t *v)
{
    const json_int_t n = json_is_integer(v) ? json_integer_value(v) : -1;
    if (n != 0 && n != 1) return refuse(r, name, "must be 0 or 1");
    r->spec->ddof = (unsigned)n;
    return LAM_OK;
}

/* Kinds without an affine part may say so, and no more. */
static lam_status take_affine(const norm_reader *r, const char *name, const json_t *v,
                              lam_norm_tensor tensor, bool *out)
{
    LAM_TRY(take_bool(r, name, v, out));
    lam_norm_spec with = *r->spec;
    with.gain = with.bias = true;
    if (*out && !lam_norm_uses(&with, tensor))
        return refuse(r, name, "this kind has none: must be false");
    return LAM_OK;
}

static lam_status take_groups(const norm_reader *r, const char *name, const json_t *v)
{
    const json_int_t n = json_is_integer(v) ? json_integer_value(v) : -1;
    const json_int_t least = r->spec->kind == LAM_NORM_BATCH ? 0 : 1;
    if (n < least || n > LAM_MAX_FFN_WIDTH)
        return refuse(r, name, "must be a whole number of groups");
    r->spec->groups = (size_t)n;
    for (size_t i = 0; n > 0 && i < 2; i++)
        if (r->widths[i] % (size_t)n != 0)
            return refuse(r, name, "must divide the width of every site that uses it");
    return LAM_OK;
}

static lam_status take_p(const norm_reader *r, const char *name, const json_t *v)
{
    LAM_TRY(take_number(r, name, v, &r->spec->p));
    if (!(r->spec->p > 0.0 && r->spec->p <= 1.0)) return refuse(r, name, "must be in (0, 1]");
    for (size_t i = 0; i < 2; i++)
        if (r->widths[i] > 0 && lam_norm_measured(r->spec, r->widths[i]) == 0)
            return refuse(r, name, "leaves no channel to measure");
    return LAM_OK;
}

static lam_status take_c(const norm_reader *r, const char *name, const json_t *v)
{
    LAM_TRY(take_number(r, name, v, &r->spec->c));
    return (float)r->spec->c != 0.0f ? LAM_OK : refuse(r, name, "must not be 0");
}

static lam_status take_source(const norm_reader *r, const char *name, const json_t *v)
{
    lam_norm_source source;
    if (json_is_string(v) &&
        lam_norm_source_parse(json_string_value(v), json_string_length(v), &source) &&
        source != LAM_NORM_FROM_NONE && lam_norm_has_source(r->info, source)) {
        r->spec->source = source;
        return LAM_OK;
    }
    return refuse(r, name, "is not a source of statistics that this kind has");
}

static lam_status take_field(const norm_reader *r, lam_norm_field field, const json_t *v)
{
    const char *name = lam_norm_field_name(field);
    lam_norm_spec *s = r->spec;
    switch (field) {
    case LAM_NORM_FIELD_EPS:
        return take_positive(r, name, v, &s->eps);
    case LAM_NORM_FIELD_GROUP_EPS:
        return take_positive(r, name, v, &s->group_eps);
    case LAM_NORM_FIELD_EPS_MODE:
        return take_eps_mode(r, name, v);
    case LAM_NORM_FIELD_DDOF:
        return take_ddof(r, name, v);
    case LAM_NORM_FIELD_GAIN:
        return take_affine(r, name, v, LAM_NORM_TENSOR_GAIN, &s->gain);
    case LAM_NORM_FIELD_BIAS:
        return take_affine(r, name, v, LAM_NORM_TENSOR_BIAS, &s->bias);
    case LAM_NORM_FIELD_UNIT_OFFSET:
        LAM_TRY(take_bool(r, name, v, &s->unit_offset));
        return s->unit_offset && !s->gain ? refuse(r, name, "there is no gain to offset") : LAM_OK;
    case LAM_NORM_FIELD_DETACH_MEAN:
        return take_bool(r, name, v, &s->detach_mean);
    case LAM_NORM_FIELD_DETACH_STD:
        return take_bool(r, name, v, &s->detach_std);
    case LAM_NORM_FIELD_GROUPS:
        return take_groups(r, name, v);
    case LAM_NORM_FIELD_P:
        return take_p(r, name, v);
    case LAM_NORM_FIELD_C:
        return take_c(r, name, v);
    case LAM_NORM_FIELD_K:
        return take_number(r, name, v, &s->k);
    case LAM_NORM_FIELD_ALPHA:
        s->alpha_given = true;
        return take_number(r, name, v, &s->alpha);
    case LAM_NORM_FIELD_SHIFT:
        s->shift_given = true;
        return take_number(r, name, v, &s->shift);
    case LAM_NORM_FIELD_STATISTICS:
        return take_source(r, name, v);
    case LAM_NORM_FIELD_COUNT:
        break;
    }
    return LAM_OK;
}

/* ---- One NORM ---- */

static lam_status take_kind(norm_reader *r)
{
    const json_t *v = json_object_get(r->object, "kind");
    lam_norm_kind kind;
    if (!json_is_object(r->object)) return refuse(r, NULL, "must be an object that says a kind");
    if (v == NULL) return refuse(r, "kind", "is missing");
    if (!json_is_string(v) ||
        !lam_norm_kind_parse(json_string_value(v), json_string_length(v), &kind))
        return refuse(r, "kind", "is not the name of a norm");
    *r->spec = lam_norm_spec_default(kind);
    r->info = lam_norm_get_info(kind);
    return LAM_OK;
}

static bool is_allowed(const norm_reader *r, const char *name)
{
    if (strcmp(name, "kind") == 0 || (r->position && strcmp(name, "position") == 0)) return true;
    for (int f = 0; f < LAM_NORM_FIELD_COUNT; f++)
        if (strcmp(lam_norm_field_name((lam_norm_field)f), name) == 0)
            return lam_norm_has_field(r->info, (lam_norm_field)f);
    return false;
}

/* LayerNorm without eps has that of the rest of the file, which bert_config.c has checked. */
static bool inherits_eps(const norm_reader *r, lam_norm_field f)
{
    const json_t *v = lam_json_get(r->config, "layer_norm_eps");
    if (f != LAM_NORM_FIELD_EPS || r->spec->kind != LAM_NORM_LAYER || v == NULL) return false;
    r->spec->eps = json_number_value(v);
    return true;
}

static lam_status take_fields(norm_reader *r)
{
    for (int i = 0; i < LAM_NORM_FIELD_COUNT; i++) {
        const lam_norm_field f = (lam_norm_field)i;
        const char *name = lam_norm_field_name(f);
        const json_t *v = json_object_get(r->object, name);
        if (!lam_norm_has_field(r->info, f)) continue;
        if (v != NULL)
            LAM_TRY(take_field(r, f, v));
        else if ((r->info->required >> f & 1u) && !inherits_eps(r, f))
            return refuse(r, name, "is missing: published codes differ in it");
    }
    return LAM_OK;
}

static lam_status take_position(const norm_reader *r)
{
    static const char *const names[] = {
#define X(name, text) text,
        LAM_INNER_MAP(X)
#undef X
    };
    const json_t *v = json_object_get(r->object, "position");
    if (v == NULL) return refuse(r, "position", "is missing");
    for (size_t i = 0; i < LAM_INNER_COUNT; i++) {
        if (!json_is_string(v) || strcmp(json_string_value(v), names[i]) != 0) continue;
        *r->position = (lam_inner)i;
        return LAM_OK;
    }
    return refuse(r, "position", "must be before_activation or after_activation");
}

static lam_status take_norm(norm_reader *r)
{
    const char *name;
    json_t *v;
    LAM_TRY(take_kind(r));
    json_object_foreach(r->object, name, v)
    {
        if (!is_allowed(r, name)) return refuse(r, name, "is not a field of this kind here");
    }
    LAM_TRY(take_fields(r));
    return r->position ? take_position(r) : LAM_OK;
}

/* ---- The keys of lamina ---- */

typedef struct key_reader {
    const lam_json *config;
    json_t *lamina;
    lam_hparams *h;
    lam_err *err;
} key_reader;

static lam_status refuse_key(const key_reader *k, const char *name, const char *why)
{
    char key[160];
    lam_quoted q;
    snprintf(key, sizeof key, "lamina.%s", lam_quote(&q, name, strlen(name)));
    return lam_json_fail(k->config, key, k->err, "%s", why);
}

static lam_status take_named(const key_reader *k, const char *name, size_t width, size_t width2,
                             bool inner, lam_norm_spec *out)
{
    norm_reader r = {.config = k->config,
                     .object = json_object_get(k->lamina, name),
                     .widths = {width, width2},
                     .spec = out,
                     .position = inner ? &k->h->inner_position : NULL,
                     .err = k->err};
    snprintf(r.path, sizeof r.path, "lamina.%s", name);
    return take_norm(&r);
}

/* What an absent key means. */
typedef enum fallback { TO_NORM, TO_NOTHING, TO_ERROR } fallback;

/* The NORM of a site: under its own name or under "norm". */
static lam_status take_site(const key_reader *k, const char *name, size_t width, size_t width2,
                            fallback absent, lam_norm_spec *out)
{
    if (json_object_get(k->lamina, name) != NULL)
        return take_named(k, name, width, width2, false, out);
    if (absent == TO_NOTHING) return LAM_OK;
    if (absent == TO_ERROR)
        return refuse_key(k, name,
                          "is missing: models of this placement exist with and without "
                          "it; must be a norm or null");
    if (json_object_get(k->lamina, "norm") == NULL)
        return refuse_key(k, "norm", "is missing, and not every site has its own");
    return take_named(k, "norm", width, width2, false, out);
}

/* The same where null means that there is none. */
static lam_status take_optional(const key_reader *k, const char *name, fallback absent,
                                lam_norm_spec *out)
{
    if (!json_is_null(json_object_get(k->lamina, name)) || json_object_get(k->lamina, name) == NULL)
        return take_site(k, name, k->h->width, 0, absent, out);
    if (k->h->placement == LAM_PLACEMENT_PERI)
        return refuse_key(k, name, "must be a norm: placement peri needs it");
    return LAM_OK;
}

static lam_status check_names(const key_reader *k)
{
    static const char *const names[] = {"placement",  "norm",           "attention_norm",
                                        "ffn_norm",   "embedding_norm", "final_norm",
                                        "inner_norm", "residual_scale"};
    const char *name;
    json_t *v;
    json_object_foreach(k->lamina, name, v)
    {
        bool known = false;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            known = known || strcmp(names[i], name) == 0;
        if (!known) return refuse_key(k, name, "is not a key that is known here");
    }
    return LAM_OK;
}

static lam_status take_placement(const key_reader *k)
{
    const json_t *v = json_object_get(k->lamina, "placement");
    if (v == NULL) return refuse_key(k, "placement", "is missing");
    for (int p = 0; p < LAM_PLACEMENT_COUNT; p++) {
        if (!json_is_string(v) ||
            strcmp(json_string_value(v), lam_placement_name((lam_placement)p)) != 0)
            continue;
        k->h->placement = (lam_placement)p;
        return LAM_OK;
    }
    return refuse_key(k, "placement", "must be post, deepnorm, pre, sandwich, peri, sub or none");
}

static lam_status take_scale(const key_reader *k)
{
    const json_t *v = json_object_get(k->lamina, "residual_scale");
    if (v == NULL) {
        if (k->h->placement == LAM_PLACEMENT_DEEPNORM)
            return refuse_key(k, "residual_scale", "is missing: placement deepnorm needs it");
        return LAM_OK;
    }
    const double scale = json_is_number(v) ? json_number_value(v) : -1.0;
    const float f = (float)scale;
    if (!(scale > 0.0) || !(f > 0.0f) || !isfinite(f))
        return refuse_key(k, "residual_scale", "must be a number above 0, finite in float32");
    k->h->residual_scale = f;
    return LAM_OK;
}

/* Placement none has no site for them, so they are a mistake. */
static lam_status check_no_norms(const key_reader *k)
{
    static const char *const names[] = {"norm", "attention_norm", "ffn_norm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_object_get(k->lamina, names[i]) != NULL)
            return refuse_key(k, names[i], "placement none has no site for it");
    return LAM_OK;
}

static fallback embedding_fallback(lam_placement p)
{
    switch (p) {
    case LAM_PLACEMENT_POST:
    case LAM_PLACEMENT_DEEPNORM:
    case LAM_PLACEMENT_PERI:
        return TO_NORM;
    case LAM_PLACEMENT_NONE:
        return TO_NOTHING;
    case LAM_PLACEMENT_PRE:
    case LAM_PLACEMENT_SANDWICH:
    case LAM_PLACEMENT_SUB:
    case LAM_PLACEMENT_COUNT:
        break;
    }
    return TO_ERROR;
}

static lam_status take_sites(const key_reader *k)
{
    lam_hparams *h = k->h;
    const bool any = h->placement != LAM_PLACEMENT_NONE;
    const bool post = lam_placement_is_post(h->placement);
    const size_t wide = h->placement == LAM_PLACEMENT_SUB ? h->ffn_width : 0;
    const json_t *inner = json_object_get(k->lamina, "inner_norm");
    lam_norm_spec unused;
    if (!any) LAM_TRY(check_no_norms(k));
    if (json_object_get(k->lamina, "norm") != NULL)
        LAM_TRY(take_named(k, "norm", 0, 0, false, &unused));
    LAM_TRY(
        take_optional(k, "embedding_norm", embedding_fallback(h->placement), &h->embedding_norm));
    if (any) {
        LAM_TRY(take_site(k, "attention_norm", h->width, 0, TO_NORM, &h->attention_norm));
        LAM_TRY(take_site(k, "ffn_norm", h->width, wide, TO_NORM, &h->ffn_norm));
    }
    if (inner != NULL && !json_is_null(inner))
        LAM_TRY(take_named(k, "inner_norm", h->ffn_width, 0, true, &h->inner_norm));
    return take_optional(k, "final_norm", post || !any ? TO_NOTHING : TO_NORM, &h->final_norm);
}

lam_status lam_lamina_config(lam_hparams *h, const lam_json *config, lam_err *err)
{
    const key_reader k = {
        .config = config, .lamina = json_object_get(config->object, "lamina"), .h = h, .err = err};
    const lam_norm_spec absent = {.kind = LAM_NORM_ABSENT};
    if (k.lamina == NULL) return LAM_OK;
    if (!json_is_object(k.lamina)) return lam_json_fail(config, "lamina", err, "must be an object");
    h->embedding_norm = h->attention_norm = h->ffn_norm = h->inner_norm = h->final_norm = absent;
    LAM_TRY(check_names(&k));
    LAM_TRY(take_placement(&k));
    LAM_TRY(take_scale(&k));
    return take_sites(&k);
}
