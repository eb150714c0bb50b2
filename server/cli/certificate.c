#include "server/cli/certificate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/program/program.h"
#include "server/cli/json.h"

/* Of the largest value: some hundred roundings of float32, far from a wrong fold. */
static const double MAX_RELATIVE = 1e-4;

bool certificate_holds(const certificate *c)
{
    const bool texts = !c->has_texts || cli_relative(&c->texts) <= MAX_RELATIVE;
    return texts && cli_relative(&c->random) <= MAX_RELATIVE;
}

/* The list that vectors come from. */
static const lam_program *list_of(const lam_model *m)
{
    const lam_program *p = lam_model_program(m);
    return p->folded ? p->folded : p;
}

static size_t count_norms(const lam_program *p)
{
    size_t count = 0;
    for (size_t i = 0; i < p->op_count; i++)
        count += p->ops[i].kind == LAM_OP_NORM;
    return count;
}

typedef struct summary {
    size_t taken, refused;
    double min_factor; /* NaN: none was divided by */
} summary;

static summary summarize(const lam_model *m)
{
    summary s = {.min_factor = (double)NAN};
    lam_fold_view v;
    for (size_t i = 0; lam_model_fold(m, i, &v); i++) {
        s.taken += v.taken;
        s.refused += !v.taken;
        if (v.taken) s.min_factor = fmin(s.min_factor, v.min_factor);
    }
    return s;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_asked(const certificate *c, api_buffer *b)
{
    cli_json_key(b, "asked");
    api_buffer_puts(b, "[");
    for (int f = 0; f < LAM_FOLD_COUNT; f++) {
        if (!(c->asked >> f & 1u)) continue;
        const char *name = lam_fold_name((lam_fold)f);
        cli_json_next(b);
        api_buffer_json_string(b, name, strlen(name));
    }
    api_buffer_puts(b, "]");
}

static void write_fold(const lam_fold_view *v, api_buffer *b)
{
    cli_json_next(b);
    api_buffer_puts(b, "\n{");
    if (v->layer != LAM_LAYER_NONE) cli_json_count(b, "layer", v->layer);
    cli_json_string(b, "site", lam_site_name(v->site));
    cli_json_string(b, "norm", v->kind);
    cli_json_string(b, "fold", lam_fold_name(v->fold));
    cli_json_bool(b, "taken", v->taken);
    cli_json_string(b, "reason", v->taken ? NULL : v->reason);
    cli_json_number(b, "min_abs_a", v->min_factor);
    cli_json_number(b, "max_mean_in_deviations", v->max_offset);
    api_buffer_puts(b, "}");
}

static void write_folds(const certificate *c, api_buffer *b)
{
    lam_fold_view v;
    cli_json_key(b, "folds");
    api_buffer_puts(b, "[");
    for (size_t i = 0; lam_model_fold(c->folded, i, &v); i++)
        write_fold(&v, b);
    api_buffer_puts(b, "\n]");
}

static void write_difference(const char *name, const cli_difference *d, api_buffer *b)
{
    cli_json_key(b, name);
    if (!d) {
        api_buffer_puts(b, "null");
        return;
    }
    api_buffer_puts(b, "{");
    cli_json_count(b, "sequences", d->sequences);
    cli_json_count(b, "tokens", d->tokens);
    cli_json_count(b, "failed", d->failed);
    cli_json_number(b, "max_abs", d->largest);
    cli_json_number(b, "largest_value", d->scale);
    cli_json_number(b, "relative", cli_relative(d));
    cli_json_number(b, "min_cosine", d->cosine);
    api_buffer_puts(b, "}");
}

static void write_pair(api_buffer *b, const char *name, uint64_t unfolded, uint64_t folded)
{
    cli_json_key(b, name);
    api_buffer_puts(b, "{");
    cli_json_count(b, "unfolded", unfolded);
    cli_json_count(b, "folded", folded);
    api_buffer_puts(b, "}");
}

static void write_times(const cli_times *t, api_buffer *b)
{
    cli_json_key(b, "time");
    api_buffer_puts(b, "{");
    cli_json_count(b, "sequences", t->sequences);
    cli_json_count(b, "tokens", t->tokens);
    cli_json_count(b, "rounds", t->rounds);
    cli_json_number(b, "unfolded_ms", t->ms[0]);
    cli_json_number(b, "folded_ms", t->ms[1]);
    cli_json_number(b, "ratio", t->ms[1] / t->ms[0]);
    api_buffer_puts(b, "}");
}

void certificate_write(const certificate *c, api_buffer *b)
{
    const lam_model_info *info = lam_model_get_info(c->folded);
    const summary s = summarize(c->folded);
    api_buffer_puts(b, "{");
    cli_json_string(b, "model", info->name);
    cli_json_string(b, "isa", lam_isa_name(info->isa));
    write_asked(c, b);
    cli_json_count(b, "taken", s.taken);
    cli_json_count(b, "refused", s.refused);
    cli_json_number(b, "min_abs_a", s.min_factor);
    write_folds(c, b);
    write_pair(b, "norms", count_norms(list_of(c->plain)), count_norms(list_of(c->folded)));
    write_pair(b, "ops", list_of(c->plain)->op_count, list_of(c->folded)->op_count);
    write_pair(b, "weight_bytes", lam_model_get_info(c->plain)->weight_bytes, info->weight_bytes);
    cli_json_count(b, "folded_bytes", info->folded_bytes);
    cli_json_key(b, "difference");
    api_buffer_puts(b, "{");
    write_difference("random", &c->random, b);
    write_difference("texts", c->has_texts ? &c->texts : NULL, b);
    cli_json_number(b, "limit", MAX_RELATIVE);
    cli_json_bool(b, "holds", certificate_holds(c));
    api_buffer_puts(b, "}");
    write_times(&c->times, b);
    api_buffer_puts(b, "}\n");
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void print_fold(const lam_fold_view *v)
{
    if (v->layer == LAM_LAYER_NONE)
        (void)printf("%5s", "-");
    else
        (void)printf("%5zu", v->layer);
    (void)printf("  %-22s %-13s %-7s %s", lam_site_name(v->site), v->kind, lam_fold_name(v->fold),
                 v->taken ? "taken" : v->reason);
    if (!isnan(v->min_factor)) (void)printf(", min |A| %.3g", v->min_factor);
    (void)printf("\n");
}

static void print_difference(const char *name, const cli_difference *d)
{
    (void)printf("difference        %s, %llu sequences, %llu tokens: %.3g, %.3g of the largest "
                 "value; cosine at least %.9f\n",
                 name, (unsigned long long)d->sequences, (unsigned long long)d->tokens, d->largest,
                 cli_relative(d), d->cosine);
    if (d->failed > 0)
        (void)printf("                  %llu without a finite result, left out\n",
                     (unsigned long long)d->failed);
}

void certificate_print(const certificate *c)
{
    const lam_model_info *info = lam_model_get_info(c->folded);
    const summary s = summarize(c->folded);
    lam_fold_view v;
    (void)printf("%5s  %-22s %-13s %-7s\n", "layer", "site", "norm", "fold");
    for (size_t i = 0; lam_model_fold(c->folded, i, &v); i++)
        print_fold(&v);
    (void)printf("\nfolds             %zu taken, %zu not\n", s.taken, s.refused);
    if (!isnan(s.min_factor)) (void)printf("smallest |A|      %.3g\n", s.min_factor);
    (void)printf("norms             %zu, folded %zu\n", count_norms(list_of(c->plain)),
                 count_norms(list_of(c->folded)));
    (void)printf("weights           %zu bytes, with folded ones %zu\n",
                 lam_model_get_info(c->plain)->weight_bytes, info->weight_bytes);
    print_difference("random ids", &c->random);
    if (c->has_texts) print_difference("texts", &c->texts);
    (void)printf(
        "time              %.3f ms, folded %.3f ms (%.4f) for %zu sequences of %zu tokens, "
        "medians of %zu\n",
        c->times.ms[0], c->times.ms[1], c->times.ms[1] / c->times.ms[0], c->times.sequences,
        c->times.tokens / c->times.sequences, c->times.rounds);
    if (!certificate_holds(c))
        (void)printf("The difference is beyond %g of the largest value.\n", MAX_RELATIVE);
}
